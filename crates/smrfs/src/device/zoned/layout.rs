//! Layout of a zoned block device: which zones are bands, and what no file system can be made on.

use smrkit::error::Error;

use super::{Zone, ZoneKind, ZonedGeometry};
use crate::device::{Bands, Model, Shape};
use crate::error::DeviceError;

/// Bands that may be open where the device sets no limit: what host-managed drives on sale allow.
const MAX_OPEN: u64 = 128;

/// Bytes of the table of cursors that are read and written at once.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Bytes of a table of cursors for `bands` bands.
fn table_bytes(bands: u64) -> u64 {
    (BLOCK_BYTES as u64).saturating_add(bands.saturating_mul(8)).next_multiple_of(BLOCK_BYTES as u64)
}

/// Assignment of a device's zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedLayout {
    /// The disk as hosts of [`StrictAppend`](crate::device::strict::StrictAppend) see it.
    pub shape: Shape,
    /// The zone that is band 0: the one behind the table of cursors, if there is one.
    pub first_zone: u64,
    /// Number of bands that are conventional zones: the first ones.
    pub conventional: u64,
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
}

impl ZonedLayout {
    /// The layout of a device with these zones, in granules of `granule_bytes`. Errors: devices that do not fit, with a remedy.
    pub fn new(geometry: &ZonedGeometry, zones: &[Zone], granule_bytes: u64) -> Result<ZonedLayout, Error> {
        let impossible = |what: String| Err(Error::Impossible(what));
        let ZonedGeometry { zone_bytes, block_bytes, .. } = *geometry;
        if zones.iter().any(|zone| zone.kind == ZoneKind::SequentialPreferred) {
            return impossible(
                "it is host-aware and cleans by itself: put a file system for conventional disks on it, and an image there"
                    .into(),
            );
        }
        if block_bytes == 0 || !granule_bytes.is_multiple_of(block_bytes) {
            return impossible(format!(
                "it is written in blocks of {block_bytes} bytes, and the file system in {granule_bytes}: format it with \
                 blocks of 512 or 4096 bytes (nvme format)"
            ));
        }
        let mut sequential = zones.iter().filter(|zone| zone.kind == ZoneKind::SequentialRequired);
        let writable = sequential.clone().find(|zone| !zone.state.is_lost()).or(sequential.next());
        let Some(capacity) = writable.map(|zone| zone.capacity) else {
            return impossible("it has no zones that are written in sequence: take another device".into());
        };
        let fits = |bytes: u64| bytes > 0 && bytes.is_multiple_of(granule_bytes);
        let differs = |zone: &&Zone| {
            zone.kind == ZoneKind::SequentialRequired && !zone.state.is_lost() && zone.capacity != capacity
        };
        if !fits(zone_bytes) || !fits(capacity) || capacity > zone_bytes {
            return impossible(format!(
                "zones of {zone_bytes} bytes, of which {capacity} can be written, are no multiples of {granule_bytes}: \
                 format it with other zones"
            ));
        }
        if let Some(other) = zones.iter().find(differs) {
            return impossible(format!(
                "some zones hold {capacity} bytes and some {}: format it with zones of one size",
                other.capacity
            ));
        }
        let leading = zones.iter().take_while(|zone| zone.kind == ZoneKind::Conventional).count() as u64;
        let first_zone = leading.min(1);
        if first_zone > 0 && table_bytes(leading - first_zone) > zone_bytes {
            return impossible(format!(
                "its first zone is too small for the cursors of {leading} conventional ones: format it with fewer of them, or \
                 with larger zones"
            ));
        }
        let count = (zones.len() as u64).min(geometry.zones).saturating_sub(first_zone);
        let (granules, pitch) = (capacity / granule_bytes, zone_bytes / granule_bytes);
        let max_open = [geometry.max_open, geometry.max_active].into_iter().filter(|&most| most > 0).min();
        let bands = Bands { count, granules, gap_granules: pitch - granules, max_open: max_open.unwrap_or(MAX_OPEN) };
        let shape = Shape {
            model: Model::StrictAppend,
            granule_bytes,
            granules: (count * pitch).saturating_sub(pitch - granules),
            // Zones do not reach into each other.
            did: 0,
            dpid: 0,
            bands,
        };
        shape.check()?;
        Ok(ZonedLayout { shape, first_zone, conventional: leading - first_zone, zone_bytes })
    }

    /// The first byte of a band.
    pub fn start(&self, band: u64) -> u64 {
        (self.first_zone + band) * self.zone_bytes
    }
}

/// An error of formatting or opening a zoned device.
#[derive(Debug, thiserror::Error)]
pub enum ZonedError {
    /// The zones of the device do not fit.
    #[error(transparent)]
    Unfit(#[from] Error),
    /// Its first zone holds something else.
    #[error("no SMRfs file system is on it: make one with smrkit mkfs, or check the path")]
    Foreign,
    /// A version of the table of cursors that this program does not know.
    #[error("its table of cursors has version {0}: use a newer smrkit")]
    Version(u32),
    /// Its table of cursors is damaged, or was made for other zones.
    #[error("its table of cursors is damaged or of other zones: make the file system anew (smrkit mkfs, by force)")]
    OtherZones,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
