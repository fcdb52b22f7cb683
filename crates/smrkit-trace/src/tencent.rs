//! Tencent Cloud Block Storage CSV (SNIA IOTTA 27917): Timestamp, Offset, Size, IOType, VolumeID.
//!
//! Times are in whole seconds, offsets and sizes in sectors of 512 bytes; IOType is 0 for a read, 1 for a write.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::{Heading, TextFormat, first_line_is};
use crate::volumes::Volumes;
use smrkit::request::Op;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Tencent;

impl TextFormat for Tencent {
    fn tick_ns(&self) -> u64 {
        1_000_000_000
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        first_line_is(number, line, "Timestamp,")
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::commas(line);
        let ticks = columns.next("column 1 (Timestamp)")?.integer()?;
        let offset = columns.next("column 2 (Offset)")?;
        let size = columns.next("column 3 (Size)")?;
        let op = columns.next("column 4 (IOType)")?;
        let op = match op.text {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(op.expected("0 (read) or 1 (write)")),
        };
        let (offset, bytes) = extent(offset, 512, size, 512)?;
        let volume = columns.next("column 5 (VolumeID)")?;
        volume.integer()?;
        columns.end()?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume: volumes.plain(volume)?, op }))
    }
}
