//! A drive's own layer, zones and order of commands, as far as its file tells them.

use crate::units::Nanos;

/// Costs of a drive-managed disk's own layer, as measured from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveManagedCosts {
    /// Cost of a small write.
    pub append: Nanos,
    /// Up to how many bytes a write is small.
    pub append_bytes: u64,
    /// After how many writes the map is persisted.
    pub map_every_writes: u64,
    /// Cost of persisting the map.
    pub map: Nanos,
}

/// A drive-managed disk's own layer, as far as its drive file tells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoldLayer {
    /// The cost of its writes, where that was measured.
    pub costs: Option<DriveManagedCosts>,
    /// The share of its tracks, in percent, that is the persistent cache.
    pub cache_percent: Option<f64>,
    /// Memory from which writes are completed before they are in the persistent cache; 0 is none.
    pub write_cache_bytes: u64,
}

impl SoldLayer {
    /// The most memory that a layer takes for writes.
    pub const WRITE_CACHE_MAX: u64 = 1 << 34;
}

/// The zones of a host-managed disk, as far as its drive file tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostManagedZones {
    /// Sectors of a zone.
    pub zone_sectors: Option<u64>,
    /// The share of its zones, in percent, that are conventional.
    pub conventional_percent: Option<f64>,
    /// Zones that it holds open at most.
    pub open_zones: Option<u64>,
}

/// The order of the commands that a drive was sent (NCQ): the one with the shortest positioning time first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommandOrder {
    /// Commands that it takes at once.
    pub commands: u32,
    /// The oldest command goes first once it has been at the drive for this long.
    pub age: Nanos,
}
