//! Zoned block devices: each zone is a band, and its write pointer, which the device keeps, is the band's cursor.
//!
//! Host-managed disks (ZBC, ZAC, ZNS) are behind one trait; [`StrictAppend`](super::strict::StrictAppend) uses [`Zones`] and enforces the
//! rules. Conventional zones at the device's beginning are bands, too. The device has no cursors for them, so the first of them holds a
//! table of cursors: a block with a header, then 8 bytes for each band. It is overwritten in place with each flush. After a power cut each
//! cursor has its old or its new value, because it lies within one sector.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::strict::StrictAppend;
use super::{BandReport, BandState, Bands, Model, Platters, Shape};
use crate::data::{Data, ReadBuffer, sealed, write_zeros};
use crate::error::{DeviceError, DeviceResult};
use crate::units::{Granule, HostJournal, Span};

/// Properties of a zoned block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedGeometry {
    /// Number of whole zones; a shorter one at the end is left out.
    pub zones: u64,
    /// Bytes from the beginning of a zone to that of the next.
    pub zone_bytes: u64,
    /// The unit of writes in bytes.
    pub block_bytes: u64,
    /// Number of zones that may be open at a time; 0 means no limit.
    pub max_open: u64,
    /// Number of zones that may be partly written at a time; 0 means no limit.
    pub max_active: u64,
}

/// Rule by which a zone is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Written anywhere.
    Conventional,
    /// Written at its write pointer only (host-managed).
    SequentialRequired,
    /// Best written at its write pointer (host-aware).
    SequentialPreferred,
}

/// Report of a device on one zone. Addresses are bytes from the device's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The rule for writes.
    pub kind: ZoneKind,
    /// Its state: `Open` whenever it is partly written.
    pub state: BandState,
    /// Its first byte.
    pub start: u64,
    /// Bytes that can be written in it.
    pub capacity: u64,
    /// The next byte to be written. Meaningless if the state is not `Empty` or `Open`, or the zone is conventional.
    pub pointer: u64,
}

/// A zoned block device. Addresses are bytes; reads and writes are whole blocks within one zone. Calls may come from several
/// threads, but writes and resets of one zone never at the same time.
pub trait ZonedDevice: Send + Sync {
    /// The device's properties.
    fn geometry(&self) -> ZonedGeometry;

    /// Reports `count` zones from `first` on.
    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<Zone>>;

    /// Reads from `at` on.
    fn read(&self, at: u64, bytes: &mut [u8]) -> DeviceResult;

    /// Notes that `bytes` from `at` on will be read soon: a hint.
    fn expect(&self, _at: u64, _bytes: u64) {}

    /// Writes at `at`: the write pointer of a sequential zone, or anywhere in a conventional one. After an error the pointer may
    /// have moved: read the zone report again.
    fn write(&self, at: u64, bytes: &[u8]) -> DeviceResult;

    /// Moves the write pointer of a zone back to its beginning.
    fn reset(&self, zone: u64) -> DeviceResult;

    /// Makes durable what has been written.
    fn flush(&self) -> DeviceResult;

    /// The time since the device was opened.
    fn now(&self) -> Nanos;
}

/// Bands that may be open if the device sets no limit: as many as sold host-managed drives allow.
const MAX_OPEN: u64 = 128;

/// The unit in which the table of cursors is read and written.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a table of cursors for `bands` bands.
fn table_bytes(bands: u64) -> u64 {
    (BLOCK_BYTES as u64).saturating_add(bands.saturating_mul(8)).next_multiple_of(BLOCK_BYTES as u64)
}

/// Assignment of a device's zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedLayout {
    /// The disk as hosts of [`StrictAppend`](crate::device::strict::StrictAppend) see it.
    pub shape: Shape,
    /// The zone that is band 0: the one after the table of cursors, if there is a table.
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
        // A lost zone may report any capacity, so its report counts only if all are lost.
        let writable = sequential.clone().find(|zone| !zone.state.is_lost()).or(sequential.next());
        let Some(capacity) = writable.map(|zone| zone.capacity) else {
            return impossible("it has no zones that are written in sequence: take another device".into());
        };
        let fits = |bytes: u64| bytes > 0 && bytes.is_multiple_of(granule_bytes);
        if !fits(zone_bytes) || !fits(capacity) || capacity > zone_bytes {
            return impossible(format!(
                "zones of {zone_bytes} bytes, of which {capacity} can be written, are no multiples of {granule_bytes}: \
                 format it with other zones"
            ));
        }
        let differs = |zone: &&Zone| {
            zone.kind == ZoneKind::SequentialRequired && !zone.state.is_lost() && zone.capacity != capacity
        };
        if let Some(other) = zones.iter().find(differs) {
            return impossible(format!(
                "some zones hold {capacity} bytes and some {}: format it with zones of one size",
                other.capacity
            ));
        }
        let leading = zones.iter().take_while(|zone| zone.kind == ZoneKind::Conventional).count() as u64;
        // Conventional zones have no write pointer, so the first of them holds the cursors of the others.
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
            // Writes damage no other zone.
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

const MAGIC: &[u8; 8] = b"SMRzones";
const VERSION: u32 = 1;

/// True if these bytes begin like a zone with a table.
pub fn is_table(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The cursors of the conventional zones.
struct CursorTable {
    /// Granules written in each band.
    filled: Vec<u64>,
    /// Blocks of the table that are to be written.
    changed: BTreeSet<usize>,
}

/// Cursors in a block of the table.
const BLOCK_CURSORS: usize = BLOCK_BYTES / 8;

impl CursorTable {
    /// Writes a table of empty bands. It is durable with the next flush.
    fn format(device: &impl ZonedDevice, layout: &ZonedLayout) -> DeviceResult<CursorTable> {
        let filled = vec![0; layout.conventional as usize];
        let changed = (0..filled.len().div_ceil(BLOCK_CURSORS)).collect();
        let mut table = CursorTable { filled, changed };
        table.write(device)?;
        // The header comes last, so that the zone does not count as a table if writing the cursors fails.
        device.write(0, &head(layout))?;
        Ok(table)
    }

    /// Reads the table. Errors: no table, or one of another version or for other zones.
    fn load(device: &impl ZonedDevice, layout: &ZonedLayout) -> Result<CursorTable, ZonedError> {
        let mut bytes = vec![0; BLOCK_BYTES];
        device.read(0, &mut bytes)?;
        if !is_table(&bytes) {
            return Err(ZonedError::Foreign);
        }
        let version = bytes.get(8..12).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes);
        if version != VERSION {
            return Err(ZonedError::Version(version));
        }
        if bytes != head(layout) {
            return Err(ZonedError::OtherZones);
        }
        let mut bytes = vec![0; (8 * layout.conventional as usize).next_multiple_of(BLOCK_BYTES)];
        if !bytes.is_empty() {
            device.read(BLOCK_BYTES as u64, &mut bytes)?;
        }
        let words = bytes.chunks_exact(8).take(layout.conventional as usize);
        let filled = words.map(|word| word.try_into().map_or(u64::MAX, u64::from_le_bytes));
        // A cursor that makes no sense counts as the band's end, so that nothing is written there.
        let filled = filled.map(|filled| filled.min(layout.shape.bands.granules)).collect();
        Ok(CursorTable { filled, changed: BTreeSet::new() })
    }

    /// Writes changed blocks. After an error they are still to be written.
    fn write(&mut self, device: &impl ZonedDevice) -> DeviceResult {
        while let Some(&block) = self.changed.first() {
            let end = self.filled.len().min((block + 1) * BLOCK_CURSORS);
            let cursors = &self.filled[block * BLOCK_CURSORS..end];
            let mut bytes: Vec<u8> = cursors.iter().flat_map(|filled| filled.to_le_bytes()).collect();
            bytes.resize(BLOCK_BYTES, 0);
            device.write(((block + 1) * BLOCK_BYTES) as u64, &bytes)?;
            self.changed.remove(&block);
        }
        Ok(())
    }
}

fn head(layout: &ZonedLayout) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let shape = &layout.shape;
    let counts = [shape.granule_bytes, layout.zone_bytes, shape.bands.granules, shape.bands.count, layout.conventional];
    counts.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
    out.resize(BLOCK_BYTES - 4, 0);
    sealed(out)
}

/// The zones of a device, beneath [`StrictAppend`].
pub struct Zones<D> {
    /// The device beneath.
    pub device: Arc<D>,
    /// Assignment of the zones.
    pub layout: ZonedLayout,
    table: Option<Mutex<CursorTable>>,
    /// False if nothing may be changed.
    writable: bool,
}

impl<D: ZonedDevice> Zones<D> {
    /// A blank disk on that device. Zones keep their contents, and have to be reset. Errors: those of the zones.
    pub fn format(device: Arc<D>, granule_bytes: u64) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let layout = layout(&*device, granule_bytes)?;
        let table = (layout.first_zone > 0).then(|| CursorTable::format(&*device, &layout)).transpose()?;
        Zones { device, layout, table: table.map(Mutex::new), writable: true }.disk()
    }

    /// Opens the disk on the device, with cursors from its write pointers.
    pub fn open(device: Arc<D>, granule_bytes: u64, writable: bool) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let layout = layout(&*device, granule_bytes)?;
        let table = (layout.first_zone > 0).then(|| CursorTable::load(&*device, &layout)).transpose()?;
        Zones { device, layout, table: table.map(Mutex::new), writable }.disk()
    }

    fn disk(self) -> Result<StrictAppend<Zones<D>>, ZonedError> {
        let zones = self.device.report(self.layout.first_zone, self.layout.shape.bands.count)?;
        let reports: Vec<BandReport> = (0..).zip(&zones).map(|(band, zone)| self.band_report(band, zone)).collect();
        let shape = self.layout.shape;
        Ok(StrictAppend::reported(Arc::new(self), shape, &reports)?)
    }

    /// Converts the report of a zone to that of its band. A write pointer in the middle of a granule is due to a power cut, so the granule is
    /// padded with zeros.
    fn band_report(&self, band: u64, zone: &Zone) -> BandReport {
        let (span, granule) = (self.layout.shape.bands.span(band), self.layout.shape.granule_bytes);
        let in_table = self.table.as_ref().filter(|_| band < self.layout.conventional);
        let filled = match (zone.state, in_table) {
            (BandState::Offline, _) => 0,
            // The device does not report how far such a zone is written, but data that maps name can be read.
            (BandState::ReadOnly, _) => span.count,
            (_, Some(table)) => table.lock().filled[band as usize],
            (BandState::Full, None) => span.count,
            (BandState::Empty, None) => 0,
            (BandState::Open, None) => {
                let written = zone.pointer.saturating_sub(zone.start).min(zone.capacity);
                let torn = written % granule;
                let is_filled = torn > 0 && self.writable && {
                    let zeros = vec![0; (granule - torn) as usize];
                    self.device.write(zone.pointer, &zeros).is_ok()
                };
                written / granule + u64::from(is_filled)
            }
        };
        let lost = match zone.state {
            state if state.is_lost() => Some(state),
            // Conventional zones after sequential ones have no entry in the table.
            _ if in_table.is_none() && zone.kind == ZoneKind::Conventional => Some(BandState::Offline),
            _ => None,
        };
        BandReport::new(span, filled, lost)
    }

    fn byte(&self, at: Granule) -> u64 {
        self.layout.start(0) + at.0 * self.layout.shape.granule_bytes
    }
}

fn layout(device: &impl ZonedDevice, granule_bytes: u64) -> Result<ZonedLayout, ZonedError> {
    let geometry = device.geometry();
    Ok(ZonedLayout::new(&geometry, &device.report(0, geometry.zones)?, granule_bytes)?)
}

impl<D: ZonedDevice> Platters for Zones<D> {
    fn read(&self, at: Granule, room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
        match room {
            ReadBuffer::Bytes(bytes) => self.device.read(self.byte(at), bytes),
            ReadBuffer::Blank(_) => Ok(()),
        }
    }

    fn expect(&self, span: Span) {
        self.device.expect(self.byte(span.at), span.count * self.layout.shape.granule_bytes);
    }

    fn write(&self, at: Granule, data: Data<'_>, _cause: Cause) -> DeviceResult {
        let at = self.byte(at);
        match data {
            Data::Bytes(bytes) => self.device.write(at, bytes),
            Data::Blank(bytes) => write_zeros(at..at + bytes, |at, zeros| self.device.write(at, zeros)),
        }
    }

    fn keep_cursor(&self, band: u64, cursor: Granule) -> DeviceResult {
        let filled = cursor - self.layout.shape.bands.span(band).at;
        match &self.table {
            Some(table) if band < self.layout.conventional => {
                let mut table = table.lock();
                table.filled[band as usize] = filled;
                table.changed.insert(band as usize / BLOCK_CURSORS);
            }
            _ if filled == 0 => self.device.reset(self.layout.first_zone + band)?,
            // The write has moved the zone's own write pointer.
            _ => {}
        }
        Ok(())
    }

    fn band(&self, band: u64) -> DeviceResult<Option<BandReport>> {
        let zones = self.device.report(self.layout.first_zone + band, 1)?;
        Ok(zones.first().map(|zone| self.band_report(band, zone)))
    }

    fn flush_with(&self, _journal: Option<HostJournal>) -> DeviceResult {
        if let Some(table) = &self.table {
            table.lock().write(&*self.device)?;
        }
        self.device.flush()
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }
}
