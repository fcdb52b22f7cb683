//! The zones of a host-managed disk: equal stretches of LBAs, the first of them conventional, the others to be written in order.
//!
//! Conventional zones are recorded without overlap, so that their sectors can be written anywhere, any number of times. A drive's
//! geometry is that of shingled tracks. If conventional zones are less dense, their tracks are wider, so that each zone takes the room of
//! more shingled tracks than its sectors fill; the rest of this room is lost. Zones that must be written in order are shingled, and each is
//! followed by the guard that the law requires.

use super::interface::check_tables;
use crate::geometry::{Divisor, Regions, pieces_by_divisor};
use crate::layer::prelude::*;
use crate::quantity::Bytes;
use crate::schema::Sectors;

keys! {
    /// Zones that a drive is divided into.
    #[derive(Clone)]
    pub(in crate::layer) struct ZoneKeys {
        /// Size of a zone; auto is 256 MiB, halved until the drive holds at least 64 zones.
        pub zone_bytes: Option<u64> = Or("auto", Sectors(ZONE_SECTORS_MIN, 1 << 32)), "auto";
        /// Share of the zones that are conventional; they are at the outer edge. auto is 1.
        conventional_percent: Option<f64> = Or("auto", percent(0.0, 90.0)), "auto";
        /// Recording density of conventional zones, in percent of that of shingled zones; below 100, fewer conventional
        /// zones fit into their share of the surface.
        pub conventional_density_percent: f64 = percent(10.0, 100.0), "100";
    }
}

/// Sectors of the shortest zone.
const ZONE_SECTORS_MIN: u64 = 8;
/// Sectors of a zone of 256 MiB, as disks are sold.
const USUAL_SECTORS: u64 = 1 << 19;
/// The fewest zones of a drive if their size is `auto` (assumption).
const ZONES_AT_LEAST: u64 = 64;
/// The share of conventional zones, in percent, as disks are sold.
const USUAL_CONVENTIONAL_PERCENT: f64 = 1.0;

impl ZoneKeys {
    /// The keys with a value for each `auto`.
    pub fn settled(self, drive: &Drive) -> ZoneKeys {
        let conventional_percent = Some(self.conventional_percent());
        ZoneKeys { zone_bytes: Some(self.zone_sectors(drive)), conventional_percent, ..self }
    }

    /// True if the keys do not say how many zones are conventional.
    pub fn leaves_conventional_open(&self) -> bool {
        self.conventional_percent.is_none()
    }

    /// The keys with the share of `zones` that is conventional.
    pub fn with_conventional(self, zones: &ZoneLayout) -> ZoneKeys {
        let percent = 100.0 * zones.room as f64 / zones.regions.count as f64;
        ZoneKeys { conventional_percent: Some(percent), ..self }
    }

    /// Sectors of a zone on a drive.
    fn zone_sectors(&self, drive: &Drive) -> u64 {
        let guard = drive.interference.guard(&drive.geometry);
        let zones = |sectors| Regions::new(&drive.geometry, guard, sectors).map_or(0, |regions| regions.count);
        let auto = || {
            std::iter::successors(Some(USUAL_SECTORS), |sectors| Some(sectors / 2))
                .take_while(|&sectors| sectors > ZONE_SECTORS_MIN)
                .find(|&sectors| zones(sectors) >= ZONES_AT_LEAST)
        };
        self.zone_bytes.or_else(auto).unwrap_or(ZONE_SECTORS_MIN)
    }

    fn conventional_percent(&self) -> f64 {
        self.conventional_percent.unwrap_or(USUAL_CONVENTIONAL_PERCENT)
    }
}

#[derive(Clone)]
pub(in crate::layer) struct ZoneLayout {
    /// The zones as if all were shingled.
    regions: Regions,
    /// How many of these regions, from the first on, make room for the conventional zones.
    room: u64,
    /// The conventional zones with their lost sectors, if they are less dense.
    wide: Option<Box<Regions>>,
    size: Divisor,
    /// Number of zones, from the first on, that are conventional.
    pub conventional: u64,
}

impl ZoneLayout {
    /// Divides a drive into zones. Errors: no zone fits, or too many for `bytes_a_zone` of tables each.
    pub fn new(drive: &Drive, keys: &ZoneKeys, bytes_a_zone: u64) -> Result<ZoneLayout, Error> {
        let sectors = keys.zone_sectors(drive);
        let tables = (drive.geometry.sectors / sectors).saturating_mul(bytes_a_zone);
        let zones = format!("zones of {}", Bytes(sectors * crate::units::SECTOR_BYTES));
        check_tables(&zones, tables, "raise zone_bytes, or ")?;
        let guard = drive.interference.guard(&drive.geometry);
        let regions = Regions::new(&drive.geometry, guard, sectors)?;
        let room = (regions.count as f64 * keys.conventional_percent() / 100.0).round() as u64;
        let all_shingled = ZoneLayout { size: Divisor::new(sectors), conventional: 0, room: 0, wide: None, regions };
        Ok(all_shingled.with_room(drive, keys, room))
    }

    /// The same drive with `conventional` conventional zones, or one less if a recording zone ends among them.
    pub fn with_conventional(self, drive: &Drive, keys: &ZoneKeys, conventional: u64) -> ZoneLayout {
        let room = (conventional as f64 * 100.0 / keys.conventional_density_percent).ceil() as u64;
        self.with_room(drive, keys, room)
    }

    /// The same drive with conventional zones in the room of the first `room` shingled ones, or without any if not even one fits.
    fn with_room(self, drive: &Drive, keys: &ZoneKeys, room: u64) -> ZoneLayout {
        let room = room.min(self.regions.count);
        if keys.conventional_density_percent == 100.0 || room == 0 {
            return ZoneLayout { conventional: room, room, wide: None, ..self };
        }
        // The guard after the last of these zones stays, because a rewrite beyond it may damage sectors upstream (DPID).
        let end = self.regions.start(room - 1) + self.size();
        let sectors = (self.size() as f64 * 100.0 / keys.conventional_density_percent).ceil() as u64;
        let guard = drive.interference.guard(&drive.geometry);
        let wide = Regions::within(&drive.geometry, guard, sectors, Pba(0), end).ok().map(Box::new);
        let (conventional, room) = wide.as_ref().map_or((0, 0), |wide| (wide.count, room));
        ZoneLayout { conventional, room, wide, ..self }
    }

    pub fn count(&self) -> u64 {
        self.regions.count - self.room + self.conventional
    }

    pub fn size(&self) -> u64 {
        self.size.value
    }

    /// The zone of an LBA, and the LBA's sector in it, if the LBAs of zones follow each other.
    pub fn locate(&self, lba: Lba) -> (u64, u64) {
        self.size.divide(lba.0)
    }

    /// The pieces of a logical extent by zone: (zone, first sector in it, sectors).
    pub fn pieces(&self, lba: Lba, n: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        pieces_by_divisor(lba.0, n, self.size)
    }

    /// The first sector of a zone.
    #[inline]
    pub fn start(&self, zone: u64) -> Pba {
        match &self.wide {
            Some(wide) if zone < self.conventional => wide.start(zone),
            // The shingled zones begin after the `room` regions of the conventional ones.
            _ => self.regions.start(zone + self.room - self.conventional),
        }
    }

    /// The zone of a sector. A guard belongs to the zone before it.
    pub fn at(&self, pba: Pba) -> u64 {
        match (self.regions.with_guard_at(pba), &self.wide) {
            (zone, Some(wide)) if zone < self.room => wide.with_guard_at(pba),
            (zone, _) => zone + self.conventional - self.room,
        }
    }

    /// The end of the conventional recording.
    pub fn conventional_end(&self) -> Pba {
        self.conventional.checked_sub(1).map_or(Pba(0), |last| self.start(last) + self.size())
    }

    /// The capacity if `host_sectors` of the zones are offered to the host, and the rest are spare. Sectors lost by conventional zones count
    /// as guards.
    pub fn capacity(&self, drive: &Drive, host_sectors: u64) -> Capacity {
        Capacity::new(drive, host_sectors, 0, self.count() * self.size() - host_sectors)
    }

    /// LBAs in the order of the zones.
    pub fn placement(&self) -> impl Placement + use<> {
        let zones = self.clone();
        Ascending::new(self.count() * self.size(), move |lba| {
            let (zone, at) = zones.locate(lba);
            zones.start(zone) + at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::interference::Interference;
    use crate::schema::{Keyed, Values};

    fn layout(drive: &Drive, percent: &'static str, density: &'static str) -> ZoneLayout {
        let set = |key: crate::schema::Key| match key.name {
            "zone_bytes" => key.with_default("32Ki"),
            "conventional_percent" => key.with_default(percent),
            _ => key.with_default(density),
        };
        let keys = ZoneKeys::read(&Values::new(ZoneKeys::keys().into_iter().map(set).collect())).unwrap();
        ZoneLayout::new(drive, &keys, 8).unwrap()
    }

    /// 400 tracks of 50 sectors hold 133 zones of 64 sectors, each of two tracks and a guard track.
    #[test]
    fn conventional_zones_take_the_room_of_their_wider_tracks() {
        let law = Interference::Tracks { width: 2, band: None };
        let drive = Drive::load("tiny-constant").unwrap().with_interference(law).unwrap();
        let all = layout(&drive, "0", "100");
        for (percent, density) in [("30", "100"), ("30", "50"), ("60", "80"), ("90", "33")] {
            let zones = layout(&drive, percent, density);
            let room = (all.count() as f64 * percent.parse::<f64>().unwrap() / 100.0).round() as u64;
            // Zones begin on a track, and the last one needs no guard of its own.
            let tracks = (64.0 * 100.0 / density.parse::<f64>().unwrap() / 50.0).ceil() as u64 + 1;
            let conventional = if density == "100" { room } else { (room * 3 - 2 + 1) / tracks };
            assert_eq!(zones.conventional, conventional, "{percent} {density}");
            assert_eq!(zones.count(), all.count() - room + zones.conventional);
            for zone in 0..zones.count() {
                let start = zones.start(zone);
                assert_eq!((zones.at(start), zones.at(start + 63)), (zone, zone));
                assert!(zone + 1 == zones.count() || start + 64 <= zones.start(zone + 1));
            }
            assert_eq!(zones.start(zones.conventional), all.start(room), "what is shingled stays where it was");
        }
        assert_eq!(layout(&drive, "1", "10").conventional, 0, "no room for one");
    }
}
