//! DiskSim's ascii trace format: arrival time, device, block, size, flags, between spaces.
//!
//! Times are in milliseconds, the block and size in sectors of 512 bytes, the flags hexadecimal: bit 0 is set for a read
//! (DiskSim 4.0 reference manual, "Input"). A sixth column, the batch number of the `batch` variant, is ignored.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::TextFormat;
use crate::volumes::Volumes;
use smrkit::request::Op;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Disksim;

impl TextFormat for Disksim {
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::spaces(line);
        let ticks = columns.next("column 1 (time in ms)")?.decimal(1_000_000)?;
        let device = columns.next("column 2 (device)")?;
        device.integer()?;
        let block = columns.next("column 3 (block)")?;
        let size = columns.next("column 4 (size)")?;
        let (offset, bytes) = extent(block, 512, size, 512)?;
        let flags = columns.next("column 5 (flags)")?.hexadecimal()?;
        if let Some(batch) = columns.optional("column 6 (batch)") {
            batch.integer()?;
            columns.end()?;
        }
        let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        Ok(Some(TraceRow { ticks, offset, bytes, volume: volumes.plain(device)?, op }))
    }
}
