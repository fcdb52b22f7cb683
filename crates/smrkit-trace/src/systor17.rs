//! Systor '17 traces of a VDI cluster (SNIA IOTTA 4964): Timestamp, Response, IOType, LUN, Offset, Size, with a heading.
//!
//! Times are in seconds with nine decimals, offsets and sizes in bytes. A response time may be missing.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::{Heading, TextFormat, first_line_is};
use crate::volumes::Volumes;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Systor17;

impl TextFormat for Systor17 {
    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        first_line_is(number, line, "Timestamp,")
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::commas(line);
        let ticks = columns.next("column 1 (Timestamp)")?.decimal(1_000_000_000)?;
        let response = columns.next("column 2 (Response)")?;
        if !response.text.is_empty() {
            response.decimal(1_000_000_000)?;
        }
        let op = columns.next("column 3 (IOType)")?.letter()?;
        let lun = columns.next("column 4 (LUN)")?;
        lun.integer()?;
        let offset = columns.next("column 5 (Offset)")?;
        let size = columns.next("column 6 (Size)")?;
        let (offset, bytes) = extent(offset, 1, size, 1)?;
        columns.end()?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume: volumes.plain(lun)?, op }))
    }
}
