//! Alibaba Cloud block traces of 2020: device_id, opcode, offset, length, timestamp.
//!
//! Offsets and lengths are in bytes, times in microseconds. The published files have no heading; one is accepted.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::{Heading, TextFormat, first_line_is};
use crate::volumes::Volumes;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Alibaba;

impl TextFormat for Alibaba {
    fn tick_ns(&self) -> u64 {
        1000
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        first_line_is(number, line, "device_id,")
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::commas(line);
        let device = columns.next("column 1 (device_id)")?;
        device.integer()?;
        let op = columns.next("column 2 (opcode)")?.letter()?;
        let offset = columns.next("column 3 (offset)")?;
        let length = columns.next("column 4 (length)")?;
        let (offset, bytes) = extent(offset, 1, length, 1)?;
        let ticks = columns.next("column 5 (timestamp)")?.integer()?;
        columns.end()?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume: volumes.plain(device)?, op }))
    }
}
