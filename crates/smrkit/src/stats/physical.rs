//! Physical state of drives, as results have it: quantities by cause, commands, cleaning, movements of the head.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use crate::layer::Capacity;

/// A quantity by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes<T> {
    /// All of it.
    pub total: T,
    /// Serving the host directly.
    pub host: T,
    /// Moving cached data home: reading the persistent cache back.
    pub destage: T,
    /// Read-modify-write of bands, and collecting garbage.
    pub clean: T,
    /// The layer's maps on the disk.
    pub map: T,
}

/// A count by cause.
pub type ByCause = Causes<u64>;

impl<T> Causes<T> {
    /// Applies `of` to each cause and the total.
    pub fn map<U>(self, of: impl Fn(T) -> U) -> Causes<U> {
        let Causes { total, host, destage, clean, map } = self;
        Causes { total: of(total), host: of(host), destage: of(destage), clean: of(clean), map: of(map) }
    }
}

/// Adds values of a type field by field; a field with a function of its own is joined by that.
macro_rules! add_fields {
    ($type:ident $(<$of:ident>)?: $($field:ident $(by $join:path)?),+) => {
        impl$(<$of: Add<Output = $of>>)? Add for $type$(<$of>)? {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($field: add_fields!(@ self.$field, other.$field $(, $join)?)),+ }
            }
        }
    };
    (@ $a:expr, $b:expr) => { $a + $b };
    (@ $a:expr, $b:expr, $join:path) => { $join($a, $b) };
}
pub(super) use add_fields;

add_fields!(Causes<T>: total, host, destage, clean, map);
add_fields!(Commands: host_read, host_write, physical_read, physical_write);
add_fields!(Cleaning: count, sectors, ns, max_ns by u64::max);
add_fields!(Movement: track_distance, track_count, stroke_share, bands_moved);
add_fields!(Capacity: raw_sectors, host_sectors, cache_sectors, guard_sectors, spare_sectors);

/// Commands, as the host sent them and as the platters saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The host's reads.
    pub host_read: u64,
    /// The host's writes.
    pub host_write: u64,
    /// Reads of the platters.
    pub physical_read: u64,
    /// Writes to the platters.
    pub physical_write: u64,
}

/// Stretches of destaging and cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaning {
    /// Number of stretches.
    pub count: u64,
    /// Sectors read and written in them.
    pub sectors: u64,
    /// Their time.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Movement of the head from track to track. Tracks are numbered in the order of PBAs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Movement {
    /// Sum over accesses of |first track − last track of the access before|.
    pub track_distance: ByCause,
    /// Accesses that began on another track than the one before had ended on.
    pub track_count: ByCause,
    /// `track_distance` as a share of the disk's tracks.
    pub stroke_share: Causes<f64>,
    /// Bands moved or rewritten by the layer; all of it is cleaning.
    pub bands_moved: ByCause,
}

impl Movement {
    /// Movements on a disk of `tracks`.
    pub fn new(track_distance: ByCause, track_count: ByCause, tracks: u64, bands_moved: u64) -> Movement {
        let share = |distance: u64| distance as f64 / tracks.max(1) as f64;
        Movement {
            track_distance,
            track_count,
            stroke_share: track_distance.map(share),
            bands_moved: ByCause { total: bands_moved, clean: bands_moved, ..ByCause::default() },
        }
    }
}

/// Places of the writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Surface {
    /// Sectors in a part.
    pub part_sectors: u64,
    /// Host writes that went straight to their place or to the cache.
    pub host: Vec<u64>,
    /// Destaged sectors.
    pub destage: Vec<u64>,
    /// Cleaning.
    pub clean: Vec<u64>,
    /// Maps.
    pub map: Vec<u64>,
}
