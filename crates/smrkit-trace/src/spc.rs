//! SPC trace format 1, as the UMass repository has it: ASU, LBA, size, opcode, timestamp.
//!
//! The LBA counts sectors of 512 bytes within the ASU, the size is in bytes, the timestamp in seconds. Optional columns
//! after these are allowed by the format, and ignored. An ASU is a volume.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::TextFormat;
use crate::volumes::Volumes;

/// The reader; it needs no state.
#[derive(Debug, Default)]
pub(crate) struct Spc;

impl TextFormat for Spc {
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::commas(line);
        let asu = columns.next("column 1 (ASU)")?;
        asu.integer()?;
        let lba = columns.next("column 2 (LBA)")?;
        let size = columns.next("column 3 (size)")?;
        let op = columns.next("column 4 (opcode)")?.letter()?;
        let (offset, bytes) = extent(lba, 512, size, 1)?;
        let ticks = columns.next("column 5 (timestamp)")?.decimal(1_000_000_000)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume: volumes.plain(asu)?, op }))
    }
}
