//! The physical interference profile: a write at some angles damages the neighbouring tracks around those angles.
//!
//! Cassuto 2010, definition 1. Sector angles, skew included, come from the geometry, as they do for the clock.

use smallvec::SmallVec;

use crate::error::Error;
use crate::geometry::{Edge, Geometry, RecordingZone, Turn};
use crate::units::{Pba, Track};

/// The quadruple of definition 1. The direction belongs to the recording zone: where a zone shingles the other way,
/// the head is taken to be mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// s_id: tracks affected toward the inner edge, the written one included.
    pub inner_tracks: u64,
    /// s_od: tracks affected toward the outer edge, the written one included.
    pub outer_tracks: u64,
    /// Reach of damage on neighbours beyond the last angle written.
    pub cw: Turn,
    /// Reach of damage on neighbours before the first angle written.
    pub ccw: Turn,
}

/// Raw sectors damaged on one track, as (first, end); narrow heads need no heap.
type DamagedRuns = SmallVec<[(u64, u64); 4]>;

/// Wider heads than this are taken for a mistake.
pub const WIDTH_MAX: u64 = 1024;

impl Profile {
    /// A profile. Errors: no track affected, both edges affected (no such disk can use all its tracks, even with
    /// restrictions: definition 1, note 1), or a width beyond reason.
    pub fn new(inner_tracks: u64, outer_tracks: u64, cw: Turn, ccw: Turn) -> Result<Profile, Error> {
        if inner_tracks == 0 || outer_tracks == 0 {
            return Err(Error::Impossible(
                "inner_tracks and outer_tracks count the written track itself: give at least 1 each".into(),
            ));
        }
        if inner_tracks > 1 && outer_tracks > 1 {
            return Err(Error::Impossible(format!(
                "inner_tracks = {inner_tracks} and outer_tracks = {outer_tracks}: a head that damages both sides \
                 leaves no order of writing that keeps all tracks; set one of them to 1"
            )));
        }
        if inner_tracks.max(outer_tracks) > WIDTH_MAX {
            return Err(Error::Impossible(format!(
                "a head {} tracks wide: give at most {WIDTH_MAX}",
                inner_tracks.max(outer_tracks)
            )));
        }
        Ok(Profile { inner_tracks, outer_tracks, cw, ccw })
    }

    /// Tracks affected in the direction of shingling, the written one included.
    pub fn width(&self) -> u64 {
        self.inner_tracks.max(self.outer_tracks)
    }

    /// The direction in which this head shingles.
    pub fn toward(&self) -> Edge {
        if self.outer_tracks > 1 { Edge::Outer } else { Edge::Inner }
    }

    /// See `Interference::destroyed`. Tracks of the command other than its last are rewritten by it; so only what
    /// lies at or beyond its end can be lost, and only the last `width − 1` tracks written reach that far.
    pub(super) fn destroyed(&self, g: &Geometry, pba: Pba, n: u64, hit: &mut impl FnMut(Pba, u64)) {
        let end = pba + n;
        let (first, last) = (g.track_of(pba), g.track_of(end - 1));
        let width = self.width();
        let mut runs = DamagedRuns::new();
        for track in last.0..last.0.saturating_add(width).min(g.tracks()) {
            let track = Track(track);
            runs.clear();
            let nearest = track.0.saturating_sub(width - 1).max(first.0);
            for writer in nearest..track.0.min(last.0 + 1) {
                self.damage(g, (pba, end), Track(writer), track, &mut runs);
            }
            for (start, stop) in joined(&mut runs) {
                let (start, stop) = (g.usable(start).max(end), g.usable(stop));
                if start < stop {
                    hit(start, stop - start);
                }
            }
        }
    }

    /// Adds the raw sectors of `track` that are damaged by what `extent` writes on the track `writer` before it.
    fn damage(&self, g: &Geometry, extent: (Pba, Pba), writer: Track, track: Track, runs: &mut DamagedRuns) {
        let from = g.zone_of_track(writer);
        let to = if from.holds(track) { from } else { g.zone_of_track(track) };
        if !neighbours(g, from, to, writer, track, self.width()) {
            return;
        }
        let base = to.raw_start(track);
        let all = (base, base + to.track_sectors);
        let origin = from.raw_start(writer);
        let start = g.raw(extent.0).max(origin) - origin;
        let stop = (g.raw(extent.1 - 1) + 1).min(origin + from.track_sectors) - origin;
        let written = u128::from(stop - start) * u128::from(from.sector_turn());
        let arc = written + u128::from(self.cw) + u128::from(self.ccw);
        if stop - start == from.track_sectors || arc >= 1 << 64 {
            runs.push(all);
            return;
        }
        // From the first damaged angle, measured on the damaged track; sectors that the arc only touches are lost too.
        let low = from.angle(writer - from.first_track, start).wrapping_sub(self.ccw);
        let low = low.wrapping_sub(to.angle(track - to.first_track, 0));
        let first = low / to.sector_turn();
        let last = (u128::from(low) + arc) / u128::from(to.sector_turn());
        let length = to.track_sectors;
        let (first, last) = (first.min(length - 1), last as u64);
        if last < length {
            runs.push((base + first, base + last + 1));
        } else if last - length >= first {
            runs.push(all);
        } else {
            runs.push((base, base + last - length + 1));
            runs.push((base + first, all.1));
        }
    }
}

/// True if `track` lies in reach of a head on `writer` on the same surface, with everything between them in order.
fn neighbours(g: &Geometry, from: &RecordingZone, to: &RecordingZone, writer: Track, track: Track, width: u64) -> bool {
    if from.first_track == to.first_track {
        return true;
    }
    let (a, b) = (from.cylinder(writer - from.first_track), to.cylinder(track - to.first_track));
    let downstream = match from.toward {
        Edge::Inner => b > a && b - a < width,
        Edge::Outer => b < a && a - b < width,
    };
    debug_assert!(track.0 < g.tracks());
    from.surface() == to.surface() && downstream
}

/// Sorts runs and joins those that touch.
fn joined(runs: &mut DamagedRuns) -> impl Iterator<Item = (u64, u64)> + '_ {
    runs.sort_unstable();
    runs.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
    runs.iter().copied()
}

/// Checks that, where the last tracks of a recording zone endanger another zone on the surface, that zone comes next in the
/// order of PBAs and shingles the same way; else `width − 1` guard tracks must lie between.
pub(super) fn check_edges(g: &Geometry, width: u64, band: Option<u64>) -> Result<(), Error> {
    let zones = g.zones();
    if width <= 1 {
        return Ok(());
    }
    if let Some(run) =
        zones.iter().find_map(|zone| zone.run_tracks().filter(|run| band.is_none_or(|band| run % band != 0)))
    {
        return Err(Error::Impossible(format!(
            "runs of {run} tracks on one surface after another, and a write damages tracks next to it that PBAs do not reach \
             next: give band_tracks that divide {run}, or order = \"surfaces\""
        )));
    }
    if band.is_some() {
        return Ok(());
    }
    // Zones of one chain follow each other in the order of PBAs and in the direction of shingling.
    let chains: Vec<usize> =
        zones.iter().scan(0, |id, z| Some(std::mem::replace(id, *id + usize::from(!z.continues)))).collect();
    let mut places: Vec<usize> = (0..zones.len()).collect();
    places.sort_unstable_by_key(|&i| (zones[i].surface(), zones[i].cylinders()));
    for (at, &i) in places.iter().enumerate() {
        let edge = zones[i].cylinder(zones[i].tracks - 1);
        let reached = |j: &&usize| {
            let (outer, inner) = zones[**j].cylinders();
            let apart = if outer > edge { outer - edge } else { edge.saturating_sub(inner) };
            zones[**j].surface() == zones[i].surface() && apart < width
        };
        let endangered = match zones[i].toward {
            Edge::Inner => places[at + 1..].iter().take_while(reached).find(|&&j| j < i || chains[j] != chains[i]),
            Edge::Outer => places[..at].iter().rev().take_while(reached).find(|&&j| j < i || chains[j] != chains[i]),
        };
        if let Some(j) = endangered {
            return Err(Error::Impossible(format!(
                "a write at the end of recording zone {i} damages zone {j}, which PBAs do not reach next: leave {} \
                 guard tracks between them (guard_tracks), or list the zones in the direction of shingling",
                width - 1
            )));
        }
    }
    Ok(())
}
