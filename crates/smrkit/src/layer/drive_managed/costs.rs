//! Costs of an append and of a map copy: constants of the drive file where it has them, else what the clock says.
//!
//! The constants are what can be seen of a shipped drive from outside (Vguard 2017, table 2).

use crate::disk::Disk;
use crate::drive::{Drive, DriveClock};
use crate::error::DiskResult;
use crate::medium::WritePart;
use crate::tally::Cause;
use crate::units::{Nanos, Pba, SECTOR_BYTES};

/// Writes between two map copies where the drive file does not say: as on the measured drive (Vguard 2017, table 2).
const MAP_EVERY_WRITES: u64 = 240;

/// Times known beforehand, and how often the map is persisted.
pub(super) struct Costs {
    measured: Option<Measured>,
    pub map_every_writes: u64,
}

struct Measured {
    append: Nanos,
    /// Sectors of host data up to which an append costs no more.
    small_sectors: u64,
    /// Transfer of a sector beyond that, in picoseconds.
    sector_ps: u64,
    map: Nanos,
}

impl Costs {
    pub fn new(drive: &Drive) -> Costs {
        let Some(known) = drive.drive_managed.and_then(|layer| layer.costs) else {
            return Costs { measured: None, map_every_writes: MAP_EVERY_WRITES };
        };
        let measured = Measured {
            append: known.append,
            small_sectors: known.append_bytes / SECTOR_BYTES,
            sector_ps: sector_ps(drive),
            map: known.map,
        };
        Costs { measured: Some(measured), map_every_writes: known.map_every_writes.max(1) }
    }

    /// Writes an entry of the log that carries `sectors` sectors of the host.
    #[inline]
    pub fn append(&self, disk: &mut Disk, pba: Pba, cause: Cause, sectors: u64, parts: &[WritePart]) -> DiskResult {
        let Some(known) = &self.measured else { return disk.write_parts(pba, cause, parts) };
        let more = sectors.saturating_sub(known.small_sectors);
        let lasting = known.append + Nanos((known.sector_ps.saturating_mul(more).saturating_add(500)) / 1000);
        disk.write_parts_lasting(lasting, pba, cause, parts)
    }

    /// Writes a copy of the map.
    pub fn map_copy(&self, disk: &mut Disk, pba: Pba, part: WritePart) -> DiskResult {
        match &self.measured {
            None => disk.write_parts(pba, Cause::Map, &[part]),
            Some(known) => disk.write_parts_lasting(known.map, pba, Cause::Map, &[part]),
        }
    }
}

/// The transfer of one sector at the outer edge, where the log lies; switches of heads are left out.
fn sector_ps(drive: &Drive) -> u64 {
    match (&drive.clock, drive.clock.mechanical()) {
        (DriveClock::Constant(clock), _) => (clock.sector_us() * 1e6).round() as u64,
        (_, Some(clock)) => clock.rotation().0 * 1000 / drive.geometry.zones()[0].track_sectors,
        (_, None) => 0,
    }
}
