//! The shape of a disk of a given size. If the user does not choose DID, DPID and bands, they have defaults.

use smrfs::device::{Bands, Model, Shape};
use smrfs::units::GRANULE_BYTES;

use crate::error::LiveError;
use crate::image::{bytes_for, head_bytes};

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;
/// Bands of 32 MB (Kadekodi et al. 2015, section 5).
const BAND_BYTES: u64 = 32 * MI;
/// About one track, the paper's DPID and the least of its DIDs.
const DISTANCE_BYTES: u64 = MI;
/// On images under 1 GiB, which stand for larger disks, DID and DPID are the size divided by this (assumption).
const SHARE: u64 = 1 << 10;
/// The least number of bands of an image, so that cleaning has a choice (assumption).
const BANDS_MIN: u64 = 64;
/// The most bands, whose state takes about a gigabyte of memory (assumption).
const BANDS_MAX: u64 = 1 << 24;
/// Bands open at a time: what host-managed drives on sale allow.
const MAX_OPEN: u64 = 128;

/// The layout that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The model.
    pub model: Model,
    /// Bytes of the whole image.
    pub size_bytes: u64,
    /// Drive isolation distance.
    pub did_bytes: Option<u64>,
    /// Drive prefix isolation distance.
    pub dpid_bytes: Option<u64>,
    /// Bytes of a band, without the gap behind it.
    pub band_bytes: Option<u64>,
}

impl Layout {
    /// The shape of the disk. Errors: no disk can have this layout.
    pub fn shape(&self) -> Result<Shape, LiveError> {
        let default_distance = (self.size_bytes / SHARE).next_multiple_of(GRANULE_BYTES).min(DISTANCE_BYTES);
        let did = granules("did", self.did_bytes.unwrap_or(default_distance))?;
        let dpid = granules("dpid", self.dpid_bytes.unwrap_or(default_distance))?;
        let mut shape = Shape {
            model: self.model,
            granule_bytes: GRANULE_BYTES,
            granules: 0,
            did,
            dpid,
            bands: Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 },
        };
        match self.model {
            Model::Caveat => shape.granules = self.size_bytes.saturating_sub(head_bytes(&shape)) / GRANULE_BYTES,
            Model::StrictAppend => self.cut_into_bands(&mut shape)?,
        }
        if shape.granules == 0 || bytes_for(&shape).is_none_or(|bytes| bytes > self.size_bytes) {
            return Err(self.too_small());
        }
        shape.check().map_err(|error| LiveError::impossible(error.to_string()))?;
        if shape.granules < smrfs::superblock::granules_min(&shape) { Err(self.too_small()) } else { Ok(shape) }
    }

    /// Divides the size into as many bands as fit.
    fn cut_into_bands(&self, shape: &mut Shape) -> Result<(), LiveError> {
        if self.band_bytes == Some(0) {
            return Err(LiveError::impossible("{band} 0: give at least 4KiB"));
        }
        let gap = shape.did.max(shape.dpid);
        let band = match self.band_bytes {
            Some(band) => granules("band", band)?,
            // A power of two, so that the image has enough bands for cleaning to choose from.
            None => {
                let share = (self.size_bytes / BANDS_MIN / KI).max(1).ilog2();
                (KI << share).clamp(64 * KI, BAND_BYTES) / GRANULE_BYTES
            }
        };
        let pitch_bytes = (band.saturating_add(gap)).saturating_mul(GRANULE_BYTES);
        // One more than fit, because the last band needs no gap. The image's head needs room too, and grows with the number of bands, so the
        // loop below takes bands away until all fits.
        let mut count = (self.size_bytes / pitch_bytes) + 1;
        if count > BANDS_MAX {
            let problem = format!("over {BANDS_MAX} bands: raise {{band}}, or lower {{size}}");
            return Err(LiveError::impossible(problem));
        }
        while count > 0 {
            shape.bands = Bands { count, granules: band, gap_granules: gap, max_open: MAX_OPEN };
            shape.granules = count * (band + gap) - gap;
            if bytes_for(shape).is_some_and(|bytes| bytes <= self.size_bytes) {
                return Ok(());
            }
            count -= 1;
        }
        Err(self.too_small())
    }

    fn too_small(&self) -> LiveError {
        let size = smrkit::quantity::Bytes(self.size_bytes);
        let problem = format!("{size} are too few for a disk with these distances");
        LiveError::impossible(problem + ": raise {size}, or lower {did}, {dpid} or {band}")
    }
}

/// Converts bytes to granules. Errors: they are no whole number of granules.
fn granules(field: &str, bytes: u64) -> Result<u64, LiveError> {
    match bytes.is_multiple_of(GRANULE_BYTES) {
        true => Ok(bytes / GRANULE_BYTES),
        false => Err(LiveError::impossible(format!("{{{field}}} of {bytes} bytes: give a multiple of 4KiB"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(model: Model, size_bytes: u64) -> Layout {
        Layout { model, size_bytes, did_bytes: None, dpid_bytes: None, band_bytes: None }
    }

    /// A strict-append disk whose bands are one granule long and lie next to each other.
    fn tight(size_bytes: u64) -> Layout {
        Layout {
            did_bytes: Some(0),
            dpid_bytes: Some(0),
            band_bytes: Some(GRANULE_BYTES),
            ..layout(Model::StrictAppend, size_bytes)
        }
    }

    #[test]
    fn distances_and_bands_follow_the_size_up_to_those_of_a_drive() {
        let gi = KI * MI;
        // Distance and band in granules.
        let table = [
            (3_000_001, 1, 16),
            (8 * MI - 1, 2, 16),
            (8 * MI, 2, 32),
            (16 * MI, 4, 64),
            (100 * MI, 25, 256),
            (gi, 256, 4096),
            (2 * gi - 1, 256, 4096),
            (2 * gi, 256, 8192),
            (KI * gi, 256, 8192),
        ];
        for (size, distance, band) in table {
            let shape = layout(Model::Caveat, size).shape().unwrap();
            let granules = (size - 65536) / GRANULE_BYTES;
            let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
            let (did, dpid, granule_bytes) = (distance, distance, GRANULE_BYTES);
            assert_eq!(shape, Shape { model: Model::Caveat, granule_bytes, granules, did, dpid, bands });
            let shape = layout(Model::StrictAppend, size).shape().unwrap();
            let found = (shape.did, shape.dpid, shape.bands.granules, shape.bands.gap_granules, shape.bands.max_open);
            assert_eq!(found, (distance, distance, band, distance, 128), "{size}");
            let longer = |count| {
                let bands = Bands { count, ..shape.bands };
                Shape { granules: count * (band + distance) - distance, bands, ..shape }
            };
            let count = shape.bands.count;
            assert_eq!(longer(count), shape);
            assert!(bytes_for(&shape).unwrap() <= size && bytes_for(&longer(count + 1)).unwrap() > size, "{size}");
        }
    }

    #[test]
    fn distances_and_bands_are_as_asked_for_with_the_longer_gap() {
        for (did, dpid) in [(0, 3), (3, 0), (2, 2)] {
            let bytes = |granules: u64| Some(granules * GRANULE_BYTES);
            let wanted = Layout {
                did_bytes: bytes(did),
                dpid_bytes: bytes(dpid),
                band_bytes: bytes(7),
                ..layout(Model::StrictAppend, 16 * MI)
            };
            let shape = wanted.shape().unwrap();
            let gap = did.max(dpid);
            assert_eq!((shape.did, shape.dpid, shape.bands.granules, shape.bands.gap_granules), (did, dpid, 7, gap));
            assert_eq!(
                smrfs::superblock::data_shape(&wanted.shape().unwrap()).bands,
                Bands { count: shape.bands.count - 2, max_open: 127, ..shape.bands }
            );
        }
    }

    #[test]
    fn what_no_disk_can_be_is_refused_with_what_to_change() {
        let error = |layout: Layout| layout.shape().map_err(|error| error.to_string());
        let says = |layout: Layout, part: &str| {
            let said = error(layout).unwrap_err();
            assert!(said.contains(part), "{said}");
        };
        says(Layout { did_bytes: Some(5000), ..tight(MI) }, "did of 5000 bytes: give a multiple of 4KiB");
        says(Layout { dpid_bytes: Some(1), ..tight(MI) }, "dpid of 1 bytes");
        says(Layout { band_bytes: Some(4095), ..tight(MI) }, "band of 4095 bytes");
        says(Layout { band_bytes: Some(0), ..tight(MI) }, "band 0: give at least 4KiB");
        says(tight(BANDS_MAX * GRANULE_BYTES), "over 16777216 bands: raise band");
        // Of as many bands as there may be some make room for the head.
        let shape = tight(BANDS_MAX * GRANULE_BYTES - 1).shape().unwrap();
        assert_eq!(shape.bands.count, shape.granules);
        assert!((BANDS_MAX - 33_000..BANDS_MAX).contains(&shape.granules), "{shape:?}");
        // Two superblocks, and room for data.
        let least = 65536 + 3 * GRANULE_BYTES;
        assert_eq!(tight(least).shape().unwrap().granules, 3);
        says(tight(least - 1), "raise size");
        says(tight(0), "raise size");
        let one = Some(GRANULE_BYTES);
        let caveat = |size| Layout { did_bytes: one, dpid_bytes: one, ..layout(Model::Caveat, size) };
        let least = 65536 + 5 * GRANULE_BYTES;
        assert_eq!(caveat(least).shape().unwrap().granules, 5);
        says(caveat(least - 1), "raise size");
        says(caveat(4096), "raise size");
    }
}
