//! Resizes a volume that is not mounted. It can only shrink to the end of its data.
//!
//! Both the image's head and the superblock hold the size, and the superblock's counts. The head's is never smaller: when the volume grows, the
//! head is written first, and when it shrinks, the superblock. If the process ends in between, the volume is refused until it is resized.

use std::path::Path;

use smrfs::device::{Model, Shape};
use smrfs::error::FsError;
use smrfs::fs::{DamagedMap, adopt_maps};
use smrfs::superblock::Superblock;
use smrfs::superblock::{data_shape, granules_min};
use smrfs::units::Granule;
use smrkit::quantity::Bytes;

use super::{Open, Volume, area_error, space};
use crate::error::LiveError;
use crate::image::{self, bytes_for, head_bytes};
use crate::zoned;

/// Size of a volume before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// The disk before.
    pub before: Shape,
    /// The disk now.
    pub after: Shape,
    /// Granules that files can fill now.
    pub usable: u64,
}

/// Changes the size of the image to `size_bytes`. A request that is refused leaves the volume as it was.
pub fn resize(path: &Path, how: &Open, size_bytes: u64) -> Result<Resized, LiveError> {
    zoned::refuse(path, "has the size of its zones", "make a new volume on a larger one, and copy the files")?;
    let mut volume = Volume::open(path, &Open { any_size: true, ..how.clone() })?;
    let before = volume.superblock().shape;
    let resized = check_fit(&volume, size_bytes).and_then(|(after, usable)| {
        // The saved free map is for the old size.
        let home = &volume.store.home;
        home.forget_states().map_err(|error| LiveError::file_system(&home.path, error))?;
        if after.granules < before.granules {
            // The superblock shrinks before the image's head, whose size is never the smaller one.
            volume.set_shape(after)?;
        }
        image::resize(path, &before, &after)?;
        Ok(Resized { before, after, usable })
    });
    // A resizing that is refused leaves the volume as clean as it was, unless one was interrupted before.
    let shape = resized.as_ref().map_or(before, |resized| resized.after);
    volume.set_shape(shape)?;
    volume.close()?;
    resized
}

impl Volume {
    /// Writes the shape to the superblock.
    fn set_shape(&mut self, shape: Shape) -> Result<(), LiveError> {
        let next = Superblock { shape, ..self.area.newest.clone() };
        self.area.store(next).map_err(|error| area_error(&self.image, error))
    }
}

/// Returns the new shape, and the granules that files can then fill. Errors: the data does not fit.
fn check_fit(volume: &Volume, size_bytes: u64) -> Result<(Shape, u64), LiveError> {
    let before = volume.superblock().shape;
    let after = resized_shape(&before, size_bytes)?;
    let usable = space(&data_shape(&after))?.usable();
    let needs = Needs::for_volume(volume)?;
    if needs.end > data_shape(&after).granules || needs.granules > usable {
        return Err(LiveError::impossible(format!(
            "{} are too few for what lies in {}: it takes {}KiB at least",
            Bytes(size_bytes),
            volume.image.display(),
            smallest_size_bytes(&before, &needs).div_ceil(1024)
        )));
    }
    Ok((after, usable))
}

/// Room that the data of a volume needs.
struct Needs {
    /// The end of the last extent, in granules of the part for data.
    end: u64,
    /// Granules in maps and promised.
    granules: u64,
}

impl Needs {
    fn for_volume(volume: &Volume) -> Result<Needs, LiveError> {
        let mut space = volume.space()?;
        let unfit = |error: FsError| LiveError::image(&volume.image, error.to_string());
        let adopted = adopt_maps(&*volume.store(), &mut *space, &mut |_, _| ()).map_err(unfit)?;
        if let Some(DamagedMap { file, reason }) = adopted.damaged.first() {
            return Err(unfit(FsError::Corrupt(format!("file {file}: {reason}: run smrkit fsck first"))));
        }
        let last = space.live().before(Granule(u64::MAX));
        Ok(Needs { end: last.map_or(0, |(span, _)| span.end().0), granules: adopted.mapped + adopted.promised })
    }
}

/// The smallest size, of those that are tried, that holds the data in its places.
fn smallest_size_bytes(before: &Shape, needs: &Needs) -> u64 {
    let superblock_granules = before.granules - data_shape(before).granules;
    let pitch = before.bands.granules + before.bands.gap_granules;
    let fits = |granules: u64| {
        let shape = resized_shape(before, head_bytes(before) + granules * before.granule_bytes).ok()?;
        let data = data_shape(&shape);
        let usable = space(&data).ok()?.usable();
        (data.granules >= needs.end && usable >= needs.granules).then(|| bytes_for(&shape))?
    };
    let step = if before.model == Model::StrictAppend { pitch } else { (before.granules / 1024).max(1) };
    let from = (superblock_granules + needs.end.max(needs.granules)).max(granules_min(before));
    (0..)
        .map(|steps| from + steps * step)
        .take_while(|&granules| granules <= before.granules)
        .find_map(fits)
        .or_else(|| bytes_for(before))
        .unwrap_or(u64::MAX)
}

fn resized_shape(before: &Shape, size_bytes: u64) -> Result<Shape, LiveError> {
    let mut after = *before;
    let granules = size_bytes.saturating_sub(head_bytes(before)) / before.granule_bytes;
    match before.model {
        Model::Caveat => after.granules = granules,
        Model::StrictAppend => {
            let (bands, gap) = (&mut after.bands, before.bands.gap_granules);
            bands.count = (granules + gap) / (bands.granules + gap);
            after.granules = (bands.count * (bands.granules + gap)).saturating_sub(gap);
        }
    }
    if after.granules < granules_min(&after) {
        return Err(LiveError::impossible(format!("{} are too few for a disk: give more", Bytes(size_bytes))));
    }
    if head_bytes(&after) != head_bytes(before) {
        // The head, which holds the bands' cursors, grows in steps of 64 KiB, and the data after it would have to move.
        let what = format!(
            "{} bands do not fit into the head of this image: give less, or make a new volume",
            after.bands.count
        );
        return Err(LiveError::impossible(what));
    }
    after.check().map_err(|error| LiveError::impossible(error.to_string()))?;
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;

    fn before(model: Model, size_bytes: u64, granules: Option<u64>) -> Shape {
        let (distance, band) = (granules.map(|_| 0), granules.map(|granules| granules * 4096));
        Layout { model, size_bytes, did_bytes: distance, dpid_bytes: distance, band_bytes: band }.shape().unwrap()
    }

    #[test]
    fn as_much_of_the_disk_is_left_as_the_size_holds() {
        for model in [Model::Caveat, Model::StrictAppend] {
            let before = before(model, 16 << 20, None);
            let pitch = before.bands.granules + before.bands.gap_granules;
            let (least, step) = match model {
                Model::Caveat => (granules_min(&before), 1),
                Model::StrictAppend => (3 * pitch - before.bands.gap_granules, pitch),
            };
            for granules in [least, least + step, 2000 / step * step + least, 5000 / step * step + least] {
                let bytes = 65536 + 4096 * granules;
                for more in [0, 1, 4096 * step - 1] {
                    let after = resized_shape(&before, bytes + more).unwrap();
                    let count = (granules + before.bands.gap_granules).checked_div(pitch).unwrap_or(0);
                    let bands = smrfs::device::Bands { count, ..before.bands };
                    assert_eq!(after, Shape { granules, bands, ..before });
                }
                let less = resized_shape(&before, bytes - 1);
                assert_eq!(less.ok().map(|after| after.granules), (granules > least).then(|| granules - step));
            }
        }
    }

    #[test]
    fn bands_are_added_as_long_as_the_head_has_room_for_their_cursors() {
        let before = before(Model::StrictAppend, 16 << 20, Some(1));
        let bands = (65536 - 4096) / 8;
        let with = |granules| resized_shape(&before, 65536 + 4096 * granules);
        assert_eq!(with(bands).unwrap().bands.count, bands);
        let said = with(bands + 1).unwrap_err().to_string();
        assert!(said.contains("7681 bands do not fit into the head of this image"), "{said}");
    }

    /// The data fit into what is told, and not into a step less.
    #[test]
    fn the_least_size_holds_the_data() {
        for model in [Model::Caveat, Model::StrictAppend] {
            let before = before(model, 64 << 20, None);
            let all = data_shape(&before);
            let usable = space(&all).unwrap().usable();
            let step = if model == Model::Caveat { before.granules / 1024 } else { all.bands.span(1).at.0 };
            let fits = |bytes: u64, needs: &Needs| {
                let Ok(after) = resized_shape(&before, bytes) else { return false };
                let data = data_shape(&after);
                data.granules >= needs.end && space(&data).is_ok_and(|space| space.usable() >= needs.granules)
            };
            for end in [0, 1, 3000, 3001, all.granules - 1, all.granules] {
                for granules in [0, end / 3, end.min(usable)] {
                    let needs = Needs { end, granules };
                    let bytes = smallest_size_bytes(&before, &needs);
                    assert!(bytes <= bytes_for(&before).unwrap(), "{model:?}, {end}, {granules}");
                    assert!(fits(bytes, &needs), "{model:?}, {end}, {granules}");
                    assert!(!fits(bytes.saturating_sub(step * 4096), &needs), "{model:?}, {end}, {granules}: {bytes}");
                }
            }
        }
    }
}
