//! The log of a served drive, as a trace and as the description of the drive.
//!
//! The log has one line for each event; the crate that serves drives describes them. A request is `read|write|discard|flush LBA SECTORS ARRIVAL
//! START END`, in the order of arrival. In a replay a request arrives after the same pause of the host, once no more requests are outstanding
//! than when it was recorded. So a recording on one drive predicts the host's requests on another. Times are by the drive's clock, which may run
//! faster than the host's by the factor in `pace`. Pauses are the host's, so they are divided by it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use smrkit::VERSION;
use smrkit::engine::saved::{SavedState, unsealed};
use smrkit::error::Error;
use smrkit::experiment::record;
use smrkit::request::Op;
use smrkit::settings::{Queue, Settings};
use smrkit::stats::outcome::RunRecord;
use smrkit::units::Nanos;

use crate::reader::{Heading, RowTimes, TextFormat};
use crate::row::{Bad, Field, LineColumns, TraceRow, Volumes, extent};

/// Beginning of the first line, which says in JSON which drive was served.
const HEADING: &str = "{\"smrkit_log\":";
const MILLION: u64 = 1_000_000;
/// Events that are no requests.
const OTHER_EVENTS: [&str; 9] =
    ["state", "queue", "fault", "zone", "failed", "idle", "interrupted", "recovered", "closed"];

/// The reader of the requests.
#[derive(Debug, Default)]
pub(crate) struct Served {
    times: RowTimes,
    /// The time of the last request, of the kind asked for.
    clock: u64,
    last_arrival: u64,
    /// The latest completion before the last arrival: one that the host has seen.
    last_seen_end: u64,
    /// Completions after the last arrival, which the host has not seen yet.
    unseen_ends: BinaryHeap<Reverse<u64>>,
    outstanding: Vec<u16>,
    /// Time at which the drive was last replaced by a new one.
    origin: u64,
    /// The drive's time as a multiple of the host's, in millionths; 0 if not given, which means 1.
    pace: u64,
    /// True if the server closes the drive, which it flushes then.
    is_closing: bool,
}

impl TextFormat for Served {
    // A server that is killed may leave half a line.
    const MAY_END_IN_PARTIAL_ROW: bool = true;

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        match number {
            0 if line.starts_with(HEADING.as_bytes()) => Heading::Yes,
            0 => Heading::Wanted("the first line of a served drive's log"),
            _ => Heading::No,
        }
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.times = times;
        true
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::spaces(line);
        let event = columns.next("the event")?;
        let op = match event.text {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Discard,
            // That of the server is no request of the host's.
            b"flush" if self.is_closing => return Ok(None),
            b"flush" => Op::Flush,
            b"closing" => {
                self.is_closing = true;
                return Ok(None);
            }
            b"open" => {
                (self.pace, self.is_closing) = (0, false);
                if columns.next("the state")?.text == b"new" {
                    // Its clock begins at 0 again, so its times continue from the latest of the drive before.
                    (self.origin, self.last_arrival, self.last_seen_end) = (self.last(), 0, 0);
                    self.unseen_ends.clear();
                }
                return Ok(None);
            }
            b"pace" => {
                self.pace = columns.next("the pace")?.decimal(MILLION)?;
                return Ok(None);
            }
            other if OTHER_EVENTS.iter().any(|known| known.as_bytes() == other) => return Ok(None),
            _ => return Err(event.expected("read, write, discard, flush, or another event")),
        };
        let (lba, sectors) = (columns.next("the LBA")?, columns.next("the number of sectors")?);
        let (offset, bytes) = if op == Op::Flush { (0, 0) } else { extent(lba, 512, sectors, 512)? };
        let mut time = |name| -> Result<u64, Bad> { columns.next(name).and_then(|field: Field| field.integer()) };
        let (arrival, _start, end) = (time("the arrival")?, time("the start")?, time("the end")?);
        columns.end()?;
        let volume = volumes.numbered(0, event, || "0".into())?;
        Ok(Some(TraceRow { ticks: self.note_request(arrival, end), offset, bytes, volume, op }))
    }

    fn take_outstanding(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.outstanding)
    }
}

impl Served {
    /// The latest moment so far, by the log's clock.
    fn last(&self) -> u64 {
        let end = self.unseen_ends.iter().map(|end| end.0).max().unwrap_or(self.last_seen_end);
        self.origin.saturating_add(self.last_arrival.max(end))
    }

    /// Notes a request, and returns its time, of the kind asked for.
    fn note_request(&mut self, arrival: u64, end: u64) -> u64 {
        // The host has seen the completions up to this arrival.
        while let Some(&Reverse(first_end)) = self.unseen_ends.peek()
            && first_end <= arrival
        {
            self.unseen_ends.pop();
            self.last_seen_end = first_end;
        }
        self.outstanding.push(self.unseen_ends.len().min(usize::from(u16::MAX)) as u16);
        // The host has paused since it sent the last request or saw the last completion, whichever came later.
        let pause = arrival.saturating_sub(self.last_seen_end.max(self.last_arrival));
        let think = match self.pace {
            0 => pause,
            pace => (u128::from(pause) * u128::from(MILLION) / u128::from(pace)) as u64,
        };
        self.last_arrival = arrival;
        self.clock = match self.times {
            RowTimes::Clock | RowTimes::Issue => self.origin.saturating_add(arrival),
            RowTimes::Completion => self.origin.saturating_add(end),
            RowTimes::Think => self.clock.saturating_add(think),
            RowTimes::Response => self.clock.saturating_add(end.saturating_sub(arrival)),
        };
        self.unseen_ends.push(Reverse(end));
        self.clock
    }
}

#[derive(Deserialize)]
struct LogHead {
    run: RunRecord,
    made_by: String,
}

/// The served drive of a log, as it was when the log began.
pub struct ServedDrive {
    /// The drive or the array.
    pub run: RunRecord,
    /// The order of its commands.
    pub queue: Queue,
    /// True if nothing had been written to it.
    pub is_new: bool,
    /// Its state when the log began.
    pub state: SavedState,
}

impl ServedDrive {
    /// True if the file at `path` is the log of a served drive.
    pub fn has_log(path: &Path) -> bool {
        let mut start = [0; HEADING.len()];
        let read = File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
        read.is_ok() && start == HEADING.as_bytes()
    }

    /// Reads the beginning of the log at `path`.
    pub fn read(path: &Path) -> Result<ServedDrive, Error> {
        if !ServedDrive::has_log(path) {
            return Err(Error::input(path, "no log of a served drive: give a file that smrkit serve {log} wrote"));
        }
        let mut lines = BufReader::new(File::open(path).map_err(|error| Error::reading(path, error))?).lines();
        let wrong = || Error::input(path, "the log of a served drive is cut short before its first request");
        let mut next_line = || lines.next().and_then(Result::ok);
        let LogHead { run, made_by } = serde_json::from_str(&next_line().ok_or_else(wrong)?).map_err(|_| wrong())?;
        let mut state = Vec::new();
        let queue = loop {
            let line = next_line().ok_or_else(wrong)?;
            match line.split_once(' ') {
                Some(("state", hexadecimal)) => state.extend(decode(hexadecimal).ok_or_else(wrong)?),
                Some(("queue", name)) => break Queue::ALL.iter().find(|one| one.name == name).ok_or_else(wrong)?.value,
                _ => {}
            }
        };
        let system = record::planned(&run, Settings::default())?.system().clone();
        // A new drive has written no state to the log.
        let is_new = state.is_empty();
        if !is_new && made_by != VERSION {
            let message =
                format!("the drive's state was saved by smrkit {made_by}, and this is {VERSION}: run it with that one");
            return Err(Error::input(path, message));
        }
        let damaged = || Error::input(path, "the state in the log of a served drive is damaged or cut short");
        let state = match is_new {
            true => SavedState::take(&system, &system.build(&Settings::default())?, Nanos::ZERO)?,
            false => {
                // The first eight bytes are the time.
                let (now, state) = unsealed(&state).and_then(<[u8]>::split_first_chunk).ok_or_else(damaged)?;
                SavedState::of(&system, state.to_vec(), Nanos(u64::from_le_bytes(*now)))?
            }
        };
        Ok(ServedDrive { run, queue, is_new, state })
    }
}

fn decode(hexadecimal: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(hexadecimal.get(at..at + 2)?, 16).ok();
    (0..hexadecimal.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a log: their times, and how many were outstanding.
    fn rows(lines: &[&str], times: RowTimes) -> Vec<(u64, u16)> {
        let (mut log, mut volumes) = (Served::default(), Volumes::default());
        assert!(log.choose_times(times));
        let rows: Vec<u64> = lines
            .iter()
            .filter_map(|line| log.parse(line.as_bytes(), &mut volumes).unwrap())
            .map(|row| row.ticks)
            .collect();
        rows.into_iter().zip(log.take_outstanding()).collect()
    }

    #[test]
    fn a_request_comes_after_what_its_host_has_seen() {
        let log = [
            "open new 0",
            "queue sptf",
            "write 0 8 10 10 50",
            "write 8 8 20 50 90",
            "idle 60",
            "read 16 8 70 90 95",
            "flush 0 0 100 100 130",
            "read 0 8 131 131 140",
        ];
        let clock = [(10, 0), (20, 1), (70, 1), (100, 0), (131, 0)];
        // Pauses: 10 from the beginning, 10 after the first arrival, 20 after the end at 50, 5 after that at 95, 1 after that at 130.
        let think = [(10, 0), (20, 1), (40, 1), (45, 0), (46, 0)];
        assert_eq!(rows(&log, RowTimes::Clock), clock);
        assert_eq!(rows(&log, RowTimes::Think), think);
    }

    #[test]
    fn a_pause_is_told_by_the_hosts_clock() {
        let log = [
            "open new 0",
            "pace 0.25",
            "write 0 8 10 10 50",
            "write 0 8 60 60 90",
            "open clean 90",
            "flush 0 0 95 95 96",
        ];
        assert_eq!(rows(&log, RowTimes::Clock), [(10, 0), (60, 0), (95, 0)]);
        assert_eq!(rows(&log, RowTimes::Think), [(40, 0), (80, 0), (85, 0)]);
    }

    #[test]
    fn a_drive_that_is_made_anew_goes_on_later() {
        // The flush of the server itself is left out.
        let own = ["closing", "flush 0 0 50 50 54", "closed"];
        let log = [
            "open new 0",
            "write 0 8 10 10 50",
            own[0],
            own[1],
            own[2],
            "open new 0",
            "write 0 8 5 5 9",
            "open clean 9",
        ];
        assert_eq!(rows(&log, RowTimes::Clock), [(10, 0), (55, 0)]);
    }

    #[test]
    fn only_events_are_rows() {
        let (mut log, mut volumes) = (Served::default(), Volumes::default());
        for wrong in ["write 0 8 10 10", "write 0 0 1 2 3", "wrote 0 8 1 2 3", "read 0 8 1 2 3 4", "read 0 8 1 2 x"] {
            assert!(log.parse(wrong.as_bytes(), &mut volumes).is_err(), "{wrong}");
        }
        for event in OTHER_EVENTS.iter().chain(&["zone finish 7"]) {
            assert_eq!(log.parse(format!("{event} x").as_bytes(), &mut volumes), Ok(None), "{event}");
        }
    }
}
