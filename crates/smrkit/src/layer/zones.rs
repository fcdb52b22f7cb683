//! The zones of a host-managed disk: equal stretches of LBAs, the first of them conventional, the others to be written in order.
//!
//! Conventional zones are recorded without overlap, so that their sectors can be written anywhere, any number of times; the
//! geometry is taken as it is, without the density that this costs (assumption). Zones that must be written in order are
//! shingled, each with the guard that the law asks for behind it.

use super::{Capacity, TABLES_BYTES_MAX};
use crate::drive::Drive;
use crate::error::Error;
use crate::geometry::{Divisor, Regions, pieces_by_divisor};
use crate::keys;
use crate::medium::{Ascending, Placement};
use crate::quantity::Bytes;
use crate::schema::{Or, Sectors, percent};
use crate::units::{Lba, Pba};

keys! {
    /// Zones that a drive is cut into.
    #[derive(Clone)]
    pub(in crate::layer) struct ZoneKeys {
        /// Size of a zone; auto is 256 MiB, halved until the drive holds 64 of them.
        pub zone_bytes: Option<u64> = Or("auto", Sectors(8, 1 << 32)), "auto";
        /// Share of the zones, at the outer edge, that are conventional; auto is 1.
        conventional_percent: Option<f64> = Or("auto", percent(0.0, 90.0)), "auto";
    }
}

/// Sectors of a zone of 256 MiB, as disks are sold.
const USUAL_SECTORS: u64 = 1 << 19;
/// Zones that a drive has at least where their size is left open (assumption).
const ZONES_AT_LEAST: u64 = 64;
/// The share of conventional zones, in percent, as disks are sold.
const USUAL_CONVENTIONAL_PERCENT: f64 = 1.0;

impl ZoneKeys {
    /// The keys with a value for each `auto`.
    pub fn settled(self, drive: &Drive) -> ZoneKeys {
        ZoneKeys { zone_bytes: Some(self.zone_sectors(drive)), conventional_percent: Some(self.conventional_percent()) }
    }

    /// True if the keys do not say how many zones are conventional.
    pub fn leaves_conventional_open(&self) -> bool {
        self.conventional_percent.is_none()
    }

    /// The keys with the share of `zones` that is conventional.
    pub fn with_conventional(self, zones: &ZoneLayout) -> ZoneKeys {
        let percent = 100.0 * zones.conventional as f64 / zones.count() as f64;
        ZoneKeys { conventional_percent: Some(percent), ..self }
    }

    fn zone_sectors(&self, drive: &Drive) -> u64 {
        let guard = drive.interference.guard(&drive.geometry);
        let zones = |sectors| Regions::new(&drive.geometry, guard, sectors).map_or(0, |regions| regions.count);
        let fits = |sectors: u64| zones(sectors) >= ZONES_AT_LEAST || sectors == 8;
        let auto = || std::iter::successors(Some(USUAL_SECTORS), |s| Some(s / 2)).find(|&s| fits(s));
        self.zone_bytes.or_else(auto).unwrap_or(8)
    }

    fn conventional_percent(&self) -> f64 {
        self.conventional_percent.unwrap_or(USUAL_CONVENTIONAL_PERCENT)
    }
}

/// The zones of a drive.
#[derive(Clone)]
pub(in crate::layer) struct ZoneLayout {
    regions: Regions,
    size: Divisor,
    /// Number of zones, from the first on, that are conventional.
    pub conventional: u64,
}

impl ZoneLayout {
    /// Cuts a drive into zones. Errors: no zone fits, or too many for `bytes_a_zone` of tables each.
    pub fn new(drive: &Drive, keys: &ZoneKeys, bytes_a_zone: u64) -> Result<ZoneLayout, Error> {
        let sectors = keys.zone_sectors(drive);
        let tables = (drive.geometry.sectors / sectors).saturating_mul(bytes_a_zone);
        if tables > TABLES_BYTES_MAX {
            return Err(Error::Impossible(format!(
                "zones of {} need {} of tables, and they may take {}: raise zone_bytes, or take a smaller drive",
                Bytes(sectors * crate::units::SECTOR_BYTES),
                Bytes(tables),
                Bytes(TABLES_BYTES_MAX)
            )));
        }
        let guard = drive.interference.guard(&drive.geometry);
        let regions = Regions::new(&drive.geometry, guard, sectors)?;
        let share = keys.conventional_percent() / 100.0;
        let conventional = (regions.count as f64 * share).round() as u64;
        Ok(ZoneLayout { size: Divisor::new(sectors), conventional, regions })
    }

    /// The zones with the first `conventional` of them conventional.
    pub fn with_conventional(self, conventional: u64) -> ZoneLayout {
        ZoneLayout { conventional, ..self }
    }

    /// Number of zones.
    pub fn count(&self) -> u64 {
        self.regions.count
    }

    /// Sectors of a zone.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size.value
    }

    /// The zone of a logical sector and the sector's place in it, where zones follow each other in order.
    #[inline]
    pub fn of(&self, lba: Lba) -> (u64, u64) {
        self.size.divide(lba.0)
    }

    /// The pieces of a logical extent by zone: (zone, first sector in it, sectors).
    pub fn pieces(&self, lba: Lba, n: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        pieces_by_divisor(lba.0, n, self.size)
    }

    /// The first sector of a zone.
    #[inline]
    pub fn start(&self, zone: u64) -> Pba {
        self.regions.start(zone)
    }

    /// The zone of a sector; the sectors of guards count as part of the zone before them.
    #[inline]
    pub fn at(&self, pba: Pba) -> u64 {
        self.regions.with_guard_at(pba)
    }

    /// The end of the conventional recording.
    pub fn conventional_end(&self) -> Pba {
        self.conventional.checked_sub(1).map_or(Pba(0), |last| self.start(last) + self.size())
    }

    /// Every zone offered to the host.
    pub fn capacity(&self, drive: &Drive) -> Capacity {
        Capacity {
            raw_sectors: drive.geometry.sectors,
            host_sectors: self.count() * self.size(),
            guard_sectors: self.regions.guard_sectors,
            ..Capacity::default()
        }
    }

    /// LBAs in the order of the zones.
    pub fn placement(&self) -> impl Placement + use<> {
        let zones = self.clone();
        Ascending::new(self.count() * self.size(), move |lba| {
            let (zone, at) = zones.of(lba);
            zones.start(zone) + at
        })
    }
}
