//! Cursors of bands in conventional zones, which the device does not keep: a table in the first of these zones.
//!
//! A block that says what it is, then 8 bytes a band, overwritten in place with each flush. A power cut leaves each cursor
//! as it was or as it is to be, since it lies within one sector.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::layout::BLOCK_BYTES;
use super::{ZonedDevice, ZonedError, ZonedLayout};
use crate::error::DeviceResult;

const MAGIC: &[u8; 8] = b"SMRzones";
const VERSION: u32 = 1;

/// True if these bytes begin as the zone of a table does.
pub fn is_table(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The cursors, in granules of each band.
pub(super) struct CursorTable {
    state: Mutex<TableState>,
}

struct TableState {
    filled: Vec<u64>,
    /// Blocks of the table that are to be written.
    changed: BTreeSet<usize>,
}

impl CursorTable {
    /// Writes a table of empty bands. It is durable with the next flush.
    pub(super) fn format(device: &impl ZonedDevice, layout: &ZonedLayout) -> DeviceResult<CursorTable> {
        let filled = vec![0; layout.conventional as usize];
        let changed = (0..filled.len().div_ceil(BLOCK_BYTES / 8)).collect();
        let table = CursorTable { state: Mutex::new(TableState { filled, changed }) };
        table.write(device)?;
        device.write(0, &head(layout))?;
        Ok(table)
    }

    /// Reads the table. Errors: that there is none, or one of another version or of other zones.
    pub(super) fn load(device: &impl ZonedDevice, layout: &ZonedLayout) -> Result<CursorTable, ZonedError> {
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
        // One that makes no sense is taken for the band's end: nothing is written there then.
        let filled = filled.map(|filled| filled.min(layout.shape.bands.granules)).collect();
        Ok(CursorTable { state: Mutex::new(TableState { filled, changed: BTreeSet::new() }) })
    }

    /// Granules written in a band.
    pub(super) fn filled(&self, band: u64) -> u64 {
        self.state.lock().filled[band as usize]
    }

    /// Notes a cursor, to be written with the next flush.
    pub(super) fn note(&self, band: u64, filled: u64) {
        let mut state = self.state.lock();
        state.filled[band as usize] = filled;
        state.changed.insert(band as usize / (BLOCK_BYTES / 8));
    }

    /// Writes what has changed. After an error that is still to be done.
    pub(super) fn write(&self, device: &impl ZonedDevice) -> DeviceResult {
        let mut state = self.state.lock();
        while let Some(&block) = state.changed.first() {
            let each = BLOCK_BYTES / 8;
            let cursors = &state.filled[block * each..state.filled.len().min((block + 1) * each)];
            let mut bytes: Vec<u8> = cursors.iter().flat_map(|filled| filled.to_le_bytes()).collect();
            bytes.resize(BLOCK_BYTES, 0);
            device.write(((block + 1) * BLOCK_BYTES) as u64, &bytes)?;
            state.changed.remove(&block);
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
    let sum = crc32c::crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}
