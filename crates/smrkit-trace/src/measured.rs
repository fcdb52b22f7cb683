//! DiskSim's validation traces: `R|W`, buffer action, LBN, sectors, measured response time, think time after it, in µs.
//!
//! A drive was measured in a closed loop of one: a request was sent so long after the completion of the one before as that
//! one's think time says. Times by the trace's clock add up response and think times. The buffer action isn't used.

use crate::row::{Bad, LineColumns, TraceRow, extent};
use crate::text::TextFormat;
use crate::times::RowTimes;
use crate::volumes::Volumes;

/// The reader: which times it gives, and the time of the next request.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    times: RowTimes,
    clock: u64,
}

impl TextFormat for Measured {
    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.times = times;
        true
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::spaces(line);
        let op = columns.next("column 1 (R or W)")?.letter()?;
        let action = columns.next("column 2 (buffer action)")?;
        if !action.text.iter().all(u8::is_ascii_alphabetic) {
            return Err(action.expected("a word such as Hit or Miss"));
        }
        let (block, size) = (columns.next("column 3 (LBN)")?, columns.next("column 4 (sectors)")?);
        let (offset, bytes) = extent(block, 512, size, 512)?;
        let response = columns.next("column 5 (response time in µs)")?.decimal(1000)?;
        let think = columns.next("column 6 (think time in µs)")?.decimal(1000)?;
        columns.end()?;
        let volume = volumes.numbered(0, action, || "0".into())?;
        let (before, after) = match self.times {
            RowTimes::Clock => (0, response.saturating_add(think)),
            RowTimes::Think => (0, think),
            RowTimes::Response => (response, 0),
        };
        let ticks = self.clock.saturating_add(before);
        self.clock = ticks.saturating_add(after);
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}
