//! Zoned block devices as strict-append disks: finding out that a path is one, making a volume on it, opening it.

mod device;
mod ioctl;
mod queue;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::zoned::{Zone, ZoneKind, ZonedDevice, ZonedError, ZonedLayout, Zones};
use smrfs::device::{BandState, HostManaged};
use smrfs::units::GRANULE_BYTES;

use crate::contents::is_zero;
use crate::error::LiveError;
use crate::image::{ImageTarget, open_alone};
use device::KernelZones;

/// Bytes at the beginning of the first conventional zone where other file systems have something.
const LOOK_BYTES: usize = 1 << 20;

/// True if `path` is a zoned block device, host-managed or host-aware.
pub fn is_zoned(path: &Path) -> Result<bool, LiveError> {
    if !matches!(ImageTarget::for_path(path)?, ImageTarget::Device(_)) {
        return Ok(false);
    }
    let device = File::open(path).map_err(|error| LiveError::io(path, error))?;
    Ok(match queue::zoned(&device) {
        Some(model) => model != "none",
        None => ioctl::zone_sectors(&device).is_ok_and(|sectors| sectors > 0),
    })
}

/// Refuses `what`, a deed that only images know; `remedy` instead.
pub fn refuse(path: &Path, what: &str, remedy: &str) -> Result<(), LiveError> {
    match is_zoned(path)? {
        true => Err(LiveError::image(path, format!("a zoned device {what}: {remedy}"))),
        false => Ok(()),
    }
}

/// An error of a zoned device at `path`.
fn failed(path: &Path, error: ZonedError) -> LiveError {
    match error {
        ZonedError::Device(smrfs::error::DeviceError::Io(error)) => LiveError::io(path, error),
        error => LiveError::image(path, error.to_string()),
    }
}

fn device(path: &Path, writable: bool) -> Result<KernelZones, LiveError> {
    KernelZones::open(path, open_alone(path, writable)?, writable)
}

fn disk(path: &Path, device: KernelZones, writable: bool) -> Result<Arc<dyn HostManaged>, LiveError> {
    Ok(Arc::new(Zones::open(Arc::new(device), GRANULE_BYTES, writable).map_err(|error| failed(path, error))?))
}

/// Opens the disk on a zoned device; `writable` or only to be looked at.
pub fn open(path: &Path, writable: bool) -> Result<Arc<dyn HostManaged>, LiveError> {
    disk(path, device(path, writable)?, writable)
}

/// Looks at the disk on a zoned device that another process has open, and which keeps still meanwhile.
pub fn look(path: &Path) -> Result<Arc<dyn HostManaged>, LiveError> {
    let file = File::open(path).map_err(|error| LiveError::io(path, error))?;
    disk(path, KernelZones::open(path, file, false)?, false)
}

/// True if a zone was written since its last reset; of conventional ones that is unknown.
fn is_begun(zone: &Zone) -> bool {
    zone.kind != ZoneKind::Conventional && matches!(zone.state, BandState::Open | BandState::Full)
}

/// A zoned device on which a volume is about to be made: it is locked, and nothing on it has been changed yet.
pub struct BlankZones {
    path: PathBuf,
    device: KernelZones,
    layout: ZonedLayout,
}

impl BlankZones {
    /// Checks that the device at `path` can be used: its zones must fit, and be empty without `force`.
    pub fn choose(path: &Path, force: bool) -> Result<BlankZones, LiveError> {
        let device = device(path, true)?;
        let report = |error| failed(path, ZonedError::Device(error));
        let zones = device.report(0, device.geometry().zones).map_err(report)?;
        let layout = ZonedLayout::new(&device.geometry(), &zones, GRANULE_BYTES)
            .map_err(|error| LiveError::image(path, error.to_string()))?;
        let mut first = vec![0; if layout.first_zone > 0 { LOOK_BYTES.min(layout.zone_bytes as usize) } else { 0 }];
        device.read(0, &mut first).map_err(report)?;
        if !force && (zones.iter().any(is_begun) || !is_zero(&first)) {
            return Err(LiveError::Exists(path.into()));
        }
        Ok(BlankZones { path: path.into(), device, layout })
    }

    /// Assignment of its zones.
    pub fn layout(&self) -> &ZonedLayout {
        &self.layout
    }

    /// Makes it the blank disk. The zones are reset as the superblock is written.
    pub fn fill(self) -> Result<Arc<dyn HostManaged>, LiveError> {
        let disk = Zones::format(Arc::new(self.device), GRANULE_BYTES).map_err(|error| failed(&self.path, error))?;
        Ok(Arc::new(disk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_that_were_written_are_begun() {
        use BandState::{Empty, Full, Open};
        let begun = |kind| {
            let zone = |state| Zone { kind, state, start: 0, capacity: 4096, pointer: 0 };
            [Empty, Open, Full].map(|state| is_begun(&zone(state)))
        };
        assert_eq!(begun(ZoneKind::Conventional), [false; 3]);
        for kind in [ZoneKind::SequentialRequired, ZoneKind::SequentialPreferred] {
            assert_eq!(begun(kind), [false, true, true]);
        }
    }
}
