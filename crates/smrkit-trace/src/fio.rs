//! fio's iolog, versions 2 and 3 (fio's HOWTO, "Trace file format"; iolog.c for the unit of version 3).
//!
//! `[time] file action [offset length]`, in bytes. read, write, trim are reads, writes, discards; sync, datasync and
//! sync_file_range are flushes; add, open, close are no requests. A file is a volume, numbered by first sight. Version 3 begins
//! each row with its time in microseconds (fio writes and replays microseconds). Version 2 has no times but `wait`, whose
//! offset is in microseconds after the wait before, as the HOWTO says: requests between waits share a time.

use crate::number;
use crate::reader::{Heading, TextFormat};
use crate::row::{Bad, LineColumns, Problem, TraceRow, Volumes, extent};
use smrkit::request::Op;

/// The reader of version `V`. Its state is the sum of the waits so far, which is the time in version 2.
#[derive(Debug, Default)]
pub(crate) struct Fio<const V: u8> {
    clock_us: u64,
}

impl<const V: u8> Fio<V> {
    const HEADING: &'static str = if V == 2 { "fio version 2 iolog" } else { "fio version 3 iolog" };
}

/// Words of a heading, which a file of one job has in its first line only.
const HEADING_WORDS: &[u8] = b"fio version ";

impl<const V: u8> TextFormat for Fio<V> {
    fn tick_ns(&self) -> u64 {
        1000
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        match number {
            0 if line.trim_ascii() == Self::HEADING.as_bytes() => Heading::Yes,
            0 if V == 2 => Heading::Wanted("the line \"fio version 2 iolog\""),
            0 => Heading::Wanted("the line \"fio version 3 iolog\""),
            _ => Heading::No,
        }
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        if let Some(at) = line.windows(HEADING_WORDS.len()).position(|words| words == HEADING_WORDS) {
            // fio flushes each job's buffer in the middle of rows, so that fragments look like rows with other offsets.
            let problem = Problem::SeveralWriters;
            return Err(Bad { at, len: HEADING_WORDS.len(), name: "the row", problem });
        }
        let mut columns = LineColumns::spaces(line);
        let ticks = if V == 3 { columns.next("the time")?.integer()? } else { self.clock_us };
        let file = columns.next("the file")?;
        let action = columns.next("the action")?;
        let op = match action.text {
            b"read" => Some(Op::Read),
            b"write" => Some(Op::Write),
            b"trim" => Some(Op::Discard),
            b"sync" | b"datasync" | b"sync_file_range" => Some(Op::Flush),
            b"wait" if V == 2 => None,
            b"add" | b"open" | b"close" | b"unlink" => return Ok(None),
            _ => {
                return Err(
                    action.expected("read, write, trim, sync, datasync, add, open, close, or wait in version 2")
                );
            }
        };
        if op == Some(Op::Flush) {
            let volume = volumes.named(file.text, None, file)?;
            return Ok(Some(TraceRow { ticks, offset: 0, bytes: 0, volume, op: Op::Flush }));
        }
        let offset = columns.next("the offset")?;
        let length = columns.next("the length")?;
        // A wait: its offset is a time.
        let Some(op) = op else {
            let later = self.clock_us.checked_add(offset.integer()?);
            self.clock_us = later.ok_or_else(|| offset.bad(Problem::Overflow))?;
            return Ok(None);
        };
        let (offset, bytes) = extent(offset, 1, length, 1)?;
        columns.end()?;
        let volume = volumes.named(file.text, None, file)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// The reason to doubt the unit, if there is one: some programs write version 3 in nanoseconds, where fio has microseconds.
pub(crate) fn doubt(head: &[u8]) -> Option<&'static str> {
    let rows = head.split(|byte| *byte == b'\n').skip(1).take(DOUBTED);
    let time = |row: &[u8]| number::integer(row.split(|byte| *byte == b' ').next()?).ok();
    let times: Vec<u64> = rows.filter_map(time).collect();
    let mut gaps_us: Vec<u64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    gaps_us.sort_unstable();
    let is_slow = gaps_us.len() >= FEWEST_GAPS && gaps_us[gaps_us.len() / 2] >= 1_000_000;
    is_slow.then_some(
        "if its times are microseconds, as fio writes them, half of its requests are a second or more apart: give {format} fio-v3 if \
         they are, and with it {time_scale} 0.001 if they are nanoseconds",
    )
}

/// Rows that are checked, and the fewest gaps between them that prove anything.
const DOUBTED: usize = 1000;
const FEWEST_GAPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_may_be_nanoseconds_are_asked_about() {
        let log = |gap: u64| {
            let rows = (0..40).map(|nth| format!("{} /dev/sdb write {} 4096\n", nth * gap, nth * 8192));
            format!("fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n{}", rows.collect::<String>())
        };
        assert_eq!(doubt(log(10_000).as_bytes()), None, "100 a second");
        assert!(doubt(log(10_000_000).as_bytes()).is_some_and(|doubt| doubt.contains("fio-v3")));
    }
}
