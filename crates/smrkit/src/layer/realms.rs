//! Zone realms (ZBC-2): parts of the surface that are either shingled or conventional, and can be converted while the drive is in use.
//!
//! Every zone belongs to a zone domain, in which all zones have one type and addresses of their own. A realm has zones in both domains, but
//! only those of one are active; no zone of the other can be read or written. The command ZONE ACTIVATE changes that.
//!
//! Here the conventional domain comes after all other zones. Conventional tracks are wider, so that a realm has fewer conventional zones
//! than sequential ones. In the conventional domain the addresses of a realm begin with its conventional zones; the rest of as many zones as
//! it has in the sequential domain are gap zones, which hold nothing.

use std::ops::Range;

use super::zones::ZoneLayout;
use crate::layer::prelude::*;
use crate::schema::Time;

keys! {
    /// Realms of a drive.
    #[derive(Clone)]
    pub(in crate::layer) struct RealmKeys {
        /// Number of sequential zones in a realm, whose surface can be converted between shingled and conventional
        /// recording in use; 0 means that the drive has no realms.
        realm_zones: u64 = Count(0, 1 << 20), "0";
        /// Time of a conversion (ZONE ACTIVATE).
        pub activate_time: Nanos = Time(0), "0s";
    }
}

pub(in crate::layer) struct Realms {
    /// Sequential zones of a realm.
    zones: u64,
    /// Conventional zones of a realm that has been converted.
    conventional: u64,
    /// Room of a conventional zone, in sequential ones.
    width: f64,
    /// The first zone of the first realm, if it is shingled.
    first: u64,
    /// The first zone of the conventional domain.
    domain: u64,
    /// Whether a realm is conventional now.
    is_conventional: Vec<bool>,
}

state! { Realms { sized: is_conventional; built: zones, conventional, width, first, domain; } }

/// Use of a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::layer) enum ZoneUse {
    Active,
    Inactive,
    Gap,
}

impl Realms {
    /// The realms of a drive: none, or as many as its sequential zones make. Errors: no conventional zone fits into a realm.
    pub fn new(layout: &ZoneLayout, keys: &RealmKeys, density_percent: f64) -> Result<Realms, Error> {
        let (first, domain) = (layout.conventional, layout.count());
        let conventional = (keys.realm_zones as f64 * density_percent / 100.0) as u64;
        let count = (domain - first).checked_div(keys.realm_zones).unwrap_or(0);
        if keys.realm_zones > 0 && (conventional == 0 || count == 0) {
            return Err(Error::Impossible(format!(
                "the drive has {} sequential zones, and a realm of {} of them holds {conventional} conventional ones: change realm_zones",
                domain - first,
                keys.realm_zones
            )));
        }
        let width = 100.0 / density_percent;
        Ok(Realms {
            zones: keys.realm_zones,
            conventional,
            width,
            first,
            domain,
            is_conventional: vec![false; count as usize],
        })
    }

    pub fn count(&self) -> u64 {
        self.is_conventional.len() as u64
    }

    /// Zones of the conventional domain, gap zones included.
    pub fn domain_zones(&self) -> u64 {
        self.count() * self.zones
    }

    /// Realms that are conventional now.
    pub fn converted(&self) -> u64 {
        self.is_conventional.iter().filter(|&&is_conventional| is_conventional).count() as u64
    }

    pub fn is_in_domain(&self, zone: u64) -> bool {
        zone >= self.domain
    }

    /// The realm of a zone, if it has one, and the zone's number among those that the realm has in its domain.
    pub fn of(&self, zone: u64) -> Option<(u64, u64)> {
        let first = if self.is_in_domain(zone) { self.domain } else { self.first };
        let at = zone.checked_sub(first).filter(|&at| at < self.domain_zones())?;
        Some((at / self.zones, at % self.zones))
    }

    pub fn use_of(&self, zone: u64) -> ZoneUse {
        match self.of(zone) {
            Some((_, at)) if self.is_in_domain(zone) && at >= self.conventional => ZoneUse::Gap,
            Some((realm, _)) if self.is_conventional[realm as usize] != self.is_in_domain(zone) => ZoneUse::Inactive,
            _ => ZoneUse::Active,
        }
    }

    /// The zones of a realm in one of the domains.
    pub fn zones_of(&self, realm: u64, in_domain: bool) -> Range<u64> {
        let (first, count) = if in_domain { (self.domain, self.conventional) } else { (self.first, self.zones) };
        let start = first + realm * self.zones;
        start..start + count
    }

    /// The surface of a realm. The guard after its last zone is left out, because conventional recording needs none.
    fn surface(&self, layout: &ZoneLayout, realm: u64) -> Range<Pba> {
        let zones = self.zones_of(realm, false);
        layout.start(zones.start)..layout.start(zones.end - 1) + layout.size()
    }

    /// Activates the zones of a realm in one of the domains. What its surface held is lost.
    pub fn activate(&mut self, disk: &mut Disk, layout: &ZoneLayout, realm: u64, as_conventional: bool) {
        self.is_conventional[realm as usize] = as_conventional;
        disk.convert(self.surface(layout, realm), as_conventional);
    }

    /// The first sector of a zone. Of a gap zone, which has none, that of the realm's last conventional zone.
    pub fn start(&self, layout: &ZoneLayout, zone: u64) -> Pba {
        let (true, Some((realm, at))) = (self.is_in_domain(zone), self.of(zone)) else { return layout.start(zone) };
        // Wider zones follow each other without guards, so that one begins within the room of a shingled zone.
        let room = at.min(self.conventional - 1) as f64 * self.width;
        let shingled = layout.start(self.first + realm * self.zones + room as u64);
        shingled + (room.fract() * layout.size() as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::zones::ZoneKeys;
    use crate::medium::interference::Interference;
    use crate::schema::{Keyed, Values};

    #[test]
    fn conventional_zones_lie_side_by_side_within_their_realm() {
        let drive = Drive::load("tiny-constant").unwrap();
        let drive = drive.with_interference(Interference::Tracks { width: 2, band: None }).unwrap();
        for (zones, density, conventional) in [("8", 85.0, 6), ("8", 100.0, 8), ("5", 50.0, 2), ("3", 67.0, 2)] {
            let set = |key: crate::schema::Key| match key.name {
                "zone_bytes" => key.with_default("32Ki"),
                "conventional_percent" => key.with_default("10"),
                "realm_zones" => key.with_default(zones),
                _ => key,
            };
            let values = |keys: Vec<crate::schema::Key>| Values::new(keys.into_iter().map(set).collect());
            let layout = ZoneLayout::new(&drive, &ZoneKeys::read(&values(ZoneKeys::keys())).unwrap(), 8).unwrap();
            let keys = RealmKeys::read(&values(RealmKeys::keys())).unwrap();
            let realms = Realms::new(&layout, &keys, density).unwrap();
            assert!(realms.count() > 1);
            for realm in 0..realms.count() {
                let own = realms.zones_of(realm, true);
                assert_eq!(own.end - own.start, conventional, "{zones} {density}");
                let surface = realms.surface(&layout, realm);
                let mut end = surface.start;
                for zone in own.clone() {
                    assert!(
                        realms.use_of(zone) == ZoneUse::Inactive && realms.of(zone) == Some((realm, zone - own.start))
                    );
                    let start = realms.start(&layout, zone);
                    assert!(start >= end, "zone {zone} of {zones} {density}");
                    end = start + layout.size();
                }
                assert!(end <= surface.end, "{zones} {density}");
                let gap = own.end..own.start + zones.parse::<u64>().unwrap();
                assert!(gap.clone().all(|zone| realms.use_of(zone) == ZoneUse::Gap));
            }
        }
    }
}
