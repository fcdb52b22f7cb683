//! Survey of a volume: counts, and bands by fill.
//!
//! Without a mount, the order of past writes is unknown. So on Caveat-Scriptor, dead granules up to DPID downstream of live data count as NW
//! (not writable). A mount knows which of them can be written once, and counts these as WO.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use smrfs::device::{BandReport, HostManaged, Model, Shape};
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::statistics::Usage;
use smrfs::fs::{FileSystem, adopt_maps};
use smrfs::fsck::report::Fill;
use smrfs::meta::{Durability, StoreRoom};
use smrfs::units::{Granule, Span};

use crate::error::LiveError;
use crate::volume::Volume;

/// Counts of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// The disk for data.
    pub shape: Shape,
    /// Room and what is in it.
    pub usage: Usage,
    /// The bands, on strict-append.
    pub bands: Option<Fill>,
    /// Regular files with data, as far as their maps can be used.
    pub files: u64,
    /// Files whose maps can't be used.
    pub damaged_maps: u64,
    /// Extents of their maps.
    pub extents: u64,
}

/// Looks at a volume.
pub fn survey(volume: &Volume) -> Result<Survey, LiveError> {
    let mut space = volume.space()?;
    let device = volume.device();
    let store = volume.store();
    let adopted = adopt_maps(&*store, &mut *space, &mut |_, _| ()).map_err(|error| volume_error(volume, error))?;
    let reports = device.report(0, device.shape().bands.count).map_err(|error| volume_error(volume, error.into()))?;
    space.start(&reports);
    let spans: Vec<Span> = space.live().from(Granule(0)).map(|(span, _)| span).collect();
    let StoreRoom { nodes, free_nodes, .. } = store.room().map_err(|error| volume_error(volume, error))?;
    let usage = Usage {
        usable: space.usable(),
        live: adopted.mapped,
        promised: adopted.promised,
        counts: space.counts(),
        nodes,
        free_nodes,
        ..Usage::default()
    };
    let bands = fill(device.shape(), &reports, &spans);
    let (shape, damaged_maps, extents) = (*device.shape(), adopted.damaged.len() as u64, spans.len() as u64);
    Ok(Survey { shape, usage, bands, files: adopted.files, damaged_maps, extents })
}

/// Looks at a mounted file system on `device`.
pub fn survey_of_mount(core: &FileSystem, device: &dyn HostManaged) -> FsResult<Survey> {
    let reports = device.report(0, device.shape().bands.count)?;
    let (usage, live) = (core.usage()?, core.live());
    let files: HashSet<u64> = live.iter().chain(&core.further_owners()).map(|(_, owner)| owner.file.0).collect();
    let spans: Vec<Span> = live.iter().map(|(span, _)| *span).collect();
    let bands = fill(device.shape(), &reports, &spans);
    let (shape, damaged_maps, extents) = (*device.shape(), core.damaged_maps().len() as u64, spans.len() as u64);
    Ok(Survey { shape, usage, bands, files: files.len() as u64, damaged_maps, extents })
}

/// The bands by fill, on strict-append. `live` are the spans of live data, in order.
fn fill(shape: &Shape, reports: &[BandReport], live: &[Span]) -> Option<Fill> {
    let live_granules = shape.bands.granules_by_band(live.iter().copied());
    (shape.model == Model::StrictAppend).then(|| Fill::new(&shape.bands, reports, &live_granules))
}

fn volume_error(volume: &Volume, error: FsError) -> LiveError {
    match error {
        FsError::Errno(Errno::ENOSPC) => LiveError::Full(volume.meta().into()),
        error => LiveError::image(&volume.image, error.to_string()),
    }
}
