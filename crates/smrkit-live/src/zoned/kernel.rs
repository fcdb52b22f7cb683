//! The kernel's calls for zoned block devices (linux/blkzoned.h), which no crate that we keep wraps, and its word on them in /sys.
//!
//! They exchange words of 64 bits, so no bytes are taken for anything that they are not.

use std::fs::{File, read_to_string};
use std::os::unix::fs::MetadataExt;

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

/// Zones that one call reports.
const ZONES_AT_ONCE: usize = 256;
/// Words of the head of a report: the first sector, then the number of zones and flags.
const HEAD_WORDS: usize = 2;
/// Words of a zone.
const ZONE_WORDS: usize = 8;

const GROUP: u8 = 0x12;
const REPORT: Opcode = opcode::read_write::<[u64; HEAD_WORDS]>(GROUP, 130);
const RESET: Opcode = opcode::write::<[u64; 2]>(GROUP, 131);
const ZONE_SECTORS: Opcode = opcode::read::<u32>(GROUP, 132);

/// A report on zones, as the kernel writes it.
pub(super) struct RawReport([u64; HEAD_WORDS + ZONE_WORDS * ZONES_AT_ONCE]);

impl RawReport {
    /// The zones from that sector on, as words, and whether their capacity is told.
    pub(super) fn zones(&self) -> (bool, impl Iterator<Item = &[u64]>) {
        let [a, b, c, d, flags @ ..] = self.0[1].to_ne_bytes();
        let count = u32::from_ne_bytes([a, b, c, d]) as usize;
        (u32::from_ne_bytes(flags) & 1 != 0, self.0[HEAD_WORDS..].chunks_exact(ZONE_WORDS).take(count))
    }
}

/// Reports up to `count` zones from the one at `sector` on.
#[allow(unsafe_code)]
pub(super) fn report(device: &File, sector: u64, count: usize) -> Result<RawReport> {
    let mut report = RawReport([0; HEAD_WORDS + ZONE_WORDS * ZONES_AT_ONCE]);
    let [a, b, c, d] = (count.min(ZONES_AT_ONCE) as u32).to_ne_bytes();
    report.0[0] = sector;
    report.0[1] = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
    // SAFETY: BLKREPORTZONE takes a pointer to `struct blk_zone_report`, a head of 16 bytes that tells for how many zones of
    // 64 bytes there is room behind it; the array has room for `ZONES_AT_ONCE`, and the kernel writes no more than asked for.
    unsafe { ioctl(device, Updater::<REPORT, _>::new(&mut report.0)) }?;
    Ok(report)
}

/// Resets the zones in `sectors` sectors from `sector` on.
#[allow(unsafe_code)]
pub(super) fn reset(device: &File, sector: u64, sectors: u64) -> Result<()> {
    // SAFETY: BLKRESETZONE reads a `struct blk_zone_range`, two words, and writes no memory.
    unsafe { ioctl(device, Setter::<RESET, _>::new([sector, sectors])) }
}

/// Sectors from the beginning of a zone to that of the next; 0 or an error if there are no zones.
#[allow(unsafe_code)]
pub(super) fn zone_sectors(device: &File) -> Result<u32> {
    // SAFETY: BLKGETZONESZ writes one `u32`.
    unsafe { ioctl(device, Getter::<ZONE_SECTORS, u32>::new()) }
}

fn attribute(device: &File, name: &str) -> Option<String> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let text = read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()?;
    Some(text.trim().to_string())
}

/// Attribute `name` as a number; 0 if there is none.
pub(super) fn number(device: &File, name: &str) -> u64 {
    attribute(device, name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The model of its zones: `none`, `host-aware` or `host-managed`; none if the kernel does not tell.
pub(super) fn zoned(device: &File) -> Option<String> {
    attribute(device, "zoned")
}
