//! Layout of a disk of a given size where the user does not say: DID, DPID, bands.

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
/// On small images, which stand for larger disks, both are this share of the size (assumption).
const SHARE: u64 = 1 << 10;
/// Bands that a small image has at least (assumption).
const LEAST_BANDS: u64 = 64;
/// The most bands: what is kept of each takes memory, about a gigabyte for this many (assumption).
const MOST_BANDS: u64 = 1 << 24;
/// Bands open at a time: what host-managed drives on sale allow.
const MAX_OPEN: u64 = 128;

/// Wishes of a user.
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
    /// The shape of the disk. Errors: what no disk can be.
    pub fn shape(&self) -> Result<Shape, LiveError> {
        let small = (self.size_bytes / SHARE).next_multiple_of(GRANULE_BYTES).min(DISTANCE_BYTES);
        let did = granules("--did", self.did_bytes.unwrap_or(small))?;
        let dpid = granules("--dpid", self.dpid_bytes.unwrap_or(small))?;
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
        shape.check().map_err(|error| LiveError::Impossible(error.to_string()))?;
        if shape.granules < smrfs::superblock::area::granules_min(&shape) {
            return Err(self.too_small());
        }
        Ok(shape)
    }

    /// The shape of its part for data. Errors: what no disk can be.
    pub fn data_shape(&self) -> Result<Shape, LiveError> {
        self.shape().map(|shape| smrfs::superblock::area::data_shape(&shape))
    }

    fn cut_into_bands(&self, shape: &mut Shape) -> Result<(), LiveError> {
        if self.band_bytes == Some(0) {
            return Err(LiveError::Impossible("--band 0: give at least 4KiB".into()));
        }
        let gap = shape.did.max(shape.dpid);
        let band = match self.band_bytes {
            Some(band) => granules("--band", band)?,
            // A power of two, so that the image has enough bands for cleaning to choose from.
            None => {
                let share = (self.size_bytes / LEAST_BANDS / KI).max(1).ilog2();
                (KI << share).clamp(64 * KI, BAND_BYTES) / GRANULE_BYTES
            }
        };
        let pitch_bytes = (band.saturating_add(gap)).saturating_mul(GRANULE_BYTES);
        // The head grows with the number of bands: one band less makes room for it in any case.
        let mut count = (self.size_bytes / pitch_bytes) + 1;
        if count > MOST_BANDS {
            return Err(LiveError::Impossible(format!("over {MOST_BANDS} bands: raise --band, or lower --size")));
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
        LiveError::Impossible(format!(
            "{size} are too few for a disk with these distances: raise --size, or lower --did, --dpid or --band"
        ))
    }
}

/// Bytes as granules; an error unless they are whole ones.
fn granules(option: &str, bytes: u64) -> Result<u64, LiveError> {
    match bytes.is_multiple_of(GRANULE_BYTES) {
        true => Ok(bytes / GRANULE_BYTES),
        false => Err(LiveError::Impossible(format!("{option} of {bytes} bytes: give a multiple of 4KiB"))),
    }
}
