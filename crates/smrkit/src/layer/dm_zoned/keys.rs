//! The parameters, and what they make of a drive.

use super::maps::BLOCK;
use super::metadata::MetadataShape;
use crate::drive::Drive;
use crate::error::Error;
use crate::keys;
use crate::layer::Capacity;
use crate::layer::zones::{ZoneKeys, ZoneLayout};
use crate::schema::{Count, Or, Switch, Time};
use crate::units::{Nanos, Pba};

keys! {
    /// The parameters.
    #[derive(Clone)]
    pub(super) struct DmZonedKeys {
        /// The zones.
        pub zones: ZoneKeys;
        /// Zones that stay free for reclaim; auto is 16 (dmzadm's), or a 64th of the zones if that is less.
        pub reserved_zones: Option<u64> = Or("auto", Count(1, 1 << 20)), "auto";
        /// Reclaims while nothing waits, until all conventional zones are free.
        pub idle_clean: bool = Switch, "on";
        /// Time without a command before idle_clean begins.
        pub idle_delay: Nanos = Time(0), "10s";
        /// Time after which changed metadata is committed without a flush; 0 is never.
        pub commit_period: Nanos = Time(0), "10s";
    }
}

/// Zones that stay free, as dmzadm formats (recalled).
const USUAL_RESERVED: u64 = 16;
/// Reserved zones are at most this part of all where their number is left open (assumption).
const RESERVED_PART: u64 = 64;
/// Conventional zones for data, for each reserved zone, where their share is left open and the usual one is less (assumption).
const CONVENTIONAL_A_RESERVED: u64 = 2;

/// The zones by their use.
pub(super) struct DmLayout {
    pub zones: ZoneLayout,
    pub metadata: MetadataShape,
    pub reserved: u64,
    /// Chunks offered to the host.
    pub chunks: u64,
}

impl DmZonedKeys {
    /// Use of the zones. Errors: too few zones.
    pub fn layout(&self, drive: &Drive) -> Result<DmLayout, Error> {
        let zones = ZoneLayout::new(drive, &self.zones, BYTES_A_ZONE)?;
        if !zones.size().is_multiple_of(BLOCK) {
            return Err(Error::Usage("dm-zoned takes blocks of 4 KiB: give zone_bytes as a multiple of them".into()));
        }
        let metadata = MetadataShape::new(zones.count(), zones.size() / BLOCK);
        let reserved = self.reserved_zones.unwrap_or(USUAL_RESERVED.min(zones.count() / RESERVED_PART).max(1));
        let zones = match self.zones.leaves_conventional_open() {
            true => {
                let least = metadata.all_zones() + CONVENTIONAL_A_RESERVED * reserved;
                let conventional = zones.conventional().max(least);
                zones.with_conventional(conventional)
            }
            false => zones,
        };
        let (conventional, all) = (zones.conventional(), zones.count());
        if conventional <= metadata.all_zones() || all.saturating_sub(conventional) <= reserved {
            return Err(Error::Impossible(format!(
                "of {all} zones {conventional} are conventional: dm-zoned needs more than {} of these for its metadata, and more \
                 than {reserved} others; change conventional_percent, lower zone_bytes or reserved_zones, or take a larger drive",
                metadata.all_zones(),
            )));
        }
        Ok(DmLayout { chunks: all - metadata.all_zones() - reserved, zones, metadata, reserved })
    }

    /// The keys with a value for each `auto`.
    pub fn settled_on(self, drive: &Drive) -> Option<DmZonedKeys> {
        let layout = self.layout(drive).ok()?;
        let zones = self.zones.clone().settled(drive).with_conventional(&layout.zones);
        Some(DmZonedKeys { zones, reserved_zones: Some(layout.reserved), ..self })
    }
}

/// Memory of a zone's state.
const BYTES_A_ZONE: u64 = 64;

impl DmLayout {
    /// Zones before it hold metadata, those up to [`DmLayout::first_sequential`] are conventional.
    #[inline]
    pub fn first_data(&self) -> u32 {
        self.metadata.all_zones() as u32
    }

    #[inline]
    pub fn first_sequential(&self) -> u32 {
        self.zones.conventional() as u32
    }

    /// Number of conventional zones for data.
    pub fn randoms(&self) -> u64 {
        u64::from(self.first_sequential() - self.first_data())
    }

    #[inline]
    pub fn is_random(&self, zone: u32) -> bool {
        zone < self.first_sequential()
    }

    /// Blocks of a zone.
    pub fn blocks(&self) -> u32 {
        (self.zones.size() / BLOCK) as u32
    }

    /// Place of a zone's block.
    #[inline]
    pub fn place(&self, zone: u32, block: u32) -> Pba {
        self.zones.start(u64::from(zone)) + u64::from(block) * BLOCK
    }

    /// The first zone of a disk that was written in order and reclaimed: the reserved ones before it are free.
    pub fn first_of_full(&self) -> u32 {
        self.first_data() + self.reserved.min(self.randoms()) as u32
    }

    /// Use of the drive's sectors.
    pub fn capacity(&self, drive: &Drive) -> Capacity {
        let (all, host) = (self.zones.capacity(drive), self.chunks * self.zones.size());
        Capacity { host_sectors: host, spare_sectors: all.host_sectors - host, ..all }
    }
}
