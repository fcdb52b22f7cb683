//! Deriving the simple forms from the physical profile: never more permissive, worst case over the disk.

use super::{Form, Interference};
use crate::error::Error;
use crate::geometry::Geometry;

impl Interference {
    /// The law in another form. Whatever the result allows, the law never punishes.
    ///
    /// Let s be the width in tracks (the larger of s_id and s_od) and L the sectors of the longest track.
    ///
    /// - **W** = s. A write to track t damages at most t+1 … t+s−1; the angles are dropped.
    /// - **I_b** = s · L. The farthest pair is the first sector of track t and the last of track t+s−1: no more than
    ///   s · L − 1 sectors apart, whatever the skew, since angles may wrap round the track. PBAs between are counted
    ///   as damaged too. Guard tracks without PBAs only shorten the distance.
    /// - **DID** = I_b − 1, the same reach without the written sector.
    /// - **DPID** = L. The profile damages nothing upstream at the first write; a second write to a sector shifts
    ///   what the head erases at its trailing side, so the neighbour before it is at risk: one track, as the papers
    ///   assume (1 MB in Caveat-Scriptor). With U = 1.
    ///
    /// From tracks W (bands dropped) the same follows with s = W. Blocks give DID = I_b − 1 and DPID 0, and the other
    /// way round where DPID is 0. Errors: tracks or physical from a form that knows no tracks.
    pub fn derive(&self, g: &Geometry, form: Form) -> Result<Interference, Error> {
        if self.form().is_none_or(|own| own == form) {
            return Ok(*self);
        }
        let longest = g.longest_track();
        let by_tracks = |width: u64| match form {
            _ if width <= 1 => Interference::None,
            Form::Tracks => Interference::Tracks { width, band: None },
            Form::Blocks => Interference::Blocks { reach: width.saturating_mul(longest) },
            _ => Interference::Distances { did: width.saturating_mul(longest) - 1, dpid: longest, writes: 1 },
        };
        match (*self, form) {
            (Interference::Physical(profile), _) => Ok(by_tracks(profile.width())),
            (Interference::Tracks { width, .. }, Form::Blocks | Form::Distances) => Ok(by_tracks(width)),
            (Interference::Blocks { reach }, Form::Distances) => {
                Ok(Interference::Distances { did: reach.saturating_sub(1), dpid: 0, writes: 1 })
            }
            (Interference::Distances { did, dpid: 0, .. }, Form::Blocks) => {
                Ok(Interference::Blocks { reach: did.saturating_add(1) })
            }
            _ => Err(Error::Usage(format!(
                "{} can't be derived from {}: choose a drive with a physical profile (smrkit drives), or another form",
                form.name(),
                self.form().map_or("none", Form::name)
            ))),
        }
    }
}
