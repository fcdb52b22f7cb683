//! Zoned block devices as strict-append disks: finding out that a path is one, making a volume on it, opening it.
//!
//! Writes bypass the kernel's cache, which would not keep their order, in parts that reach the device as one request each.
//! Reads go through the cache; the kernel drops from it what is written or reset.

mod kernel;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::{Advice, OFlags};
use smrfs::device::zoned::{Zone, ZoneKind, ZonedDevice, ZonedError, ZonedGeometry, ZonedLayout, Zones};
use smrfs::device::{BandState, HostManaged};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::units::GRANULE_BYTES;
use smrkit::units::{Nanos, SECTOR_BYTES};

use crate::contents::is_zero;
use crate::error::LiveError;
use crate::image::{self, ImageTarget, open_alone};

/// Bytes at the beginning of the first conventional zone where other file systems have something.
const LOOK_BYTES: usize = 1 << 20;

/// True if `path` is a zoned block device, host-managed or host-aware.
pub fn is_zoned(path: &Path) -> Result<bool, LiveError> {
    if !matches!(ImageTarget::for_path(path)?, ImageTarget::Device(_)) {
        return Ok(false);
    }
    let device = File::open(path).map_err(|error| LiveError::io(path, error))?;
    Ok(match kernel::zoned(&device) {
        Some(model) => model != "none",
        None => kernel::zone_sectors(&device).is_ok_and(|sectors| sectors > 0),
    })
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
    /// Assignment of its zones.
    pub layout: ZonedLayout,
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

    /// Makes it the blank disk. The zones are reset as the superblock is written.
    pub fn fill(self) -> Result<Arc<dyn HostManaged>, LiveError> {
        let disk = Zones::format(Arc::new(self.device), GRANULE_BYTES).map_err(|error| failed(&self.path, error))?;
        Ok(Arc::new(disk))
    }
}

/// The most that is written at once (assumption): less where the device says so.
const WRITE_BYTES: u64 = 1 << 20;
/// Alignment of memory that every device takes.
const ALIGN_BYTES: usize = 4096;

/// An open device.
pub(super) struct KernelZones {
    /// For reads, reports, resets and flushes.
    file: File,
    /// For writes, past the cache.
    direct: File,
    geometry: ZonedGeometry,
    opened: Instant,
    room: Mutex<AlignedBuffer>,
}

/// Aligned memory that writes are copied to.
struct AlignedBuffer {
    bytes: Vec<u8>,
    from: usize,
    length: usize,
}

impl AlignedBuffer {
    fn new(length: usize) -> AlignedBuffer {
        let bytes = vec![0; length + ALIGN_BYTES];
        let from = bytes.as_ptr().align_offset(ALIGN_BYTES).min(ALIGN_BYTES);
        AlignedBuffer { bytes, from, length }
    }

    fn hold(&mut self, part: &[u8]) -> &[u8] {
        let room = &mut self.bytes[self.from..self.from + part.len()];
        room.copy_from_slice(part);
        room
    }
}

impl KernelZones {
    /// Takes over `file`, the locked device at `path`.
    pub(super) fn open(path: &Path, file: File, writable: bool) -> Result<KernelZones, LiveError> {
        let failed = |error| LiveError::io(path, error);
        let zone_bytes =
            u64::from(kernel::zone_sectors(&file).map_err(|error| LiveError::os(path, error))?) * SECTOR_BYTES;
        if zone_bytes == 0 {
            return Err(LiveError::image(path, "it has no zones: check the path"));
        }
        let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0)).map_err(failed)?;
        let number = |name: &str| kernel::number(&file, name);
        let block_bytes = number("zone_write_granularity").max(number("logical_block_size")).max(SECTOR_BYTES);
        let geometry = ZonedGeometry {
            zones: bytes / zone_bytes,
            zone_bytes,
            block_bytes,
            max_open: number("max_open_zones"),
            max_active: number("max_active_zones"),
        };
        let direct = direct(path, &file, writable).map_err(failed)?;
        // At worst each page of the memory is a segment of its own.
        let limits = [number("max_sectors_kb") * 1024, number("max_segments") * ALIGN_BYTES as u64];
        let least = limits.into_iter().filter(|&most| most > 0).fold(WRITE_BYTES, u64::min);
        let unit = block_bytes.max(ALIGN_BYTES as u64);
        let most = least / unit * unit;
        // Reads ahead would reach behind the write pointer, which some devices take for an error.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        let room = Mutex::new(AlignedBuffer::new(most.max(block_bytes) as usize));
        Ok(KernelZones { file, direct, geometry, opened: Instant::now(), room })
    }
}

/// Opens the device once more, past the kernel's cache.
fn direct(path: &Path, file: &File, writable: bool) -> io::Result<File> {
    let mut options = File::options();
    let direct = options.read(true).write(writable).custom_flags(OFlags::DIRECT.bits() as i32).open(path)?;
    match direct.metadata()?.rdev() == file.metadata()?.rdev() {
        true => Ok(direct),
        false => Err(io::Error::other("the path names another device all of a sudden: try again")),
    }
}

impl ZonedDevice for KernelZones {
    fn geometry(&self) -> ZonedGeometry {
        self.geometry
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<Zone>> {
        let zone_sectors = self.geometry.zone_bytes / SECTOR_BYTES;
        let count = count.min(self.geometry.zones.saturating_sub(first));
        let mut zones = Vec::with_capacity(count as usize);
        while (zones.len() as u64) < count {
            let sector = (first + zones.len() as u64) * zone_sectors;
            let report = kernel::report(&self.file, sector, (count as usize) - zones.len()).map_err(io::Error::from)?;
            let before = zones.len();
            let (tells_capacity, words) = report.zones();
            zones.extend(words.filter_map(|words| zone(words, tells_capacity)));
            if zones.len() == before {
                return Err(DeviceError::Io(io::Error::other(
                    "the device does not report all of its zones: look into the kernel's log",
                )));
            }
        }
        Ok(zones)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> DeviceResult {
        self.file.read_exact_at(bytes, at).map_err(DeviceError::Io)
    }

    fn expect(&self, at: u64, bytes: u64) {
        image::expect(&self.file, at..at + bytes);
    }

    fn write(&self, mut at: u64, bytes: &[u8]) -> DeviceResult {
        let mut room = self.room.lock();
        let most = room.length;
        for part in bytes.chunks(most) {
            self.direct.write_all_at(room.hold(part), at).map_err(DeviceError::Io)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn reset(&self, zone: u64) -> DeviceResult {
        let sectors = self.geometry.zone_bytes / SECTOR_BYTES;
        kernel::reset(&self.file, zone * sectors, sectors).map_err(|error| DeviceError::Io(error.into()))
    }

    fn flush(&self) -> DeviceResult {
        self.direct.sync_data().map_err(DeviceError::Io)
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as u64)
    }
}

/// A zone from the words of `struct blk_zone`.
fn zone(words: &[u64], tells_capacity: bool) -> Option<Zone> {
    let &[start, length, pointer, kinds, capacity, ..] = words else { return None };
    let [kind, condition, ..] = kinds.to_ne_bytes();
    // Zone types and conditions by their numbers in linux/blkzoned.h.
    let kind = match kind {
        1 => ZoneKind::Conventional,
        3 => ZoneKind::SequentialPreferred,
        _ => ZoneKind::SequentialRequired,
    };
    let state = match condition {
        // Not write-pointer (of conventional zones), and empty.
        0 | 1 => BandState::Empty,
        0xd => BandState::ReadOnly,
        0xe => BandState::Full,
        0xf => BandState::Offline,
        _ => BandState::Open,
    };
    let capacity = if tells_capacity { capacity } else { length };
    let [start, capacity, pointer] = [start, capacity, pointer].map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    Some(Zone { kind, state, start, capacity, pointer })
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

    #[test]
    fn words_of_the_kernel_are_zones() {
        let kinds = |kind, condition| u64::from_ne_bytes([kind, condition, 0, 0, 0, 0, 0, 0]);
        let told = zone(&[2048, 2048, 2056, kinds(2, 4), 1024, 0, 0, 0], true).unwrap();
        let expected = Zone {
            kind: ZoneKind::SequentialRequired,
            state: BandState::Open,
            start: 1 << 20,
            capacity: 1 << 19,
            pointer: (1 << 20) + 4096,
        };
        assert_eq!(told, expected);
        assert_eq!(zone(&[2048, 2048, 2056, kinds(2, 4), 0, 0, 0, 0], false).unwrap().capacity, 1 << 20);
        let states =
            [(1, BandState::Empty), (0xd, BandState::ReadOnly), (0xe, BandState::Full), (0xf, BandState::Offline)];
        for (condition, state) in states {
            assert_eq!(zone(&[0, 1, u64::MAX, kinds(2, condition), 1, 0, 0, 0], true).unwrap().state, state);
        }
        assert_eq!(zone(&[0, 1, 0, kinds(1, 0), 1, 0, 0, 0], true).unwrap().kind, ZoneKind::Conventional);
        assert_eq!(zone(&[0, 1, 0, kinds(3, 1), 1, 0, 0, 0], true).unwrap().kind, ZoneKind::SequentialPreferred);
    }

    #[test]
    fn writes_come_from_aligned_memory() {
        let mut room = AlignedBuffer::new(1 << 16);
        for length in [512, 4096, 1 << 16] {
            let part: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let held = room.hold(&part);
            assert_eq!((held.as_ptr().align_offset(ALIGN_BYTES), held), (0, &part[..]));
        }
    }
}
