//! Latencies of the recorded drive, from traces that have issues and completions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::experiment::comparison::Compared;
use smrkit::request::{Op, Request, Source};
use smrkit::settings::{Arrival, Warmup};
use smrkit::stats::counts::Times;
use smrkit::stats::measured::MeasuredBuilder;
use smrkit::stats::outcome::Outcomes;
use smrkit::units::{Lba, Nanos};

use crate::VolumeChoice;
use crate::reader::RowTimes;
use crate::trace::{OpenOptions, Trace};

/// Adds the measured times of the recorded drive to the results of a comparison, if the trace has them and was replayed at its own times.
pub fn with_measured(compared: Compared) -> Outcomes {
    let Compared { outcomes, conventional, complete } = compared;
    let Some(run) = outcomes.runs.first() else { return outcomes };
    let replays_recording = run.engine.arrival == Arrival::Trace
        && run.engine.time_scale == 1.0
        && run.engine.warmup == Warmup::Requests(0)
        && run.engine.until.is_none()
        && run.engine.power_cut.is_none()
        && run.members.is_empty()
        && run.replayed.edit.is_none();
    let (Some(path), Some(reading)) = (&run.replayed.trace, &run.replayed.trace_reading) else { return outcomes };
    if !complete || !replays_recording || path == "-" {
        return outcomes;
    }
    let options =
        OpenOptions { format: reading.format.clone(), skip_bad_rows: reading.skip_bad_rows, ..OpenOptions::default() };
    let mut measured = MeasuredBuilder::default();
    let count = |request: &Request, times: &Times| measured.count(request, times);
    let volumes = VolumeChoice::from_str(&reading.volume);
    // The replay read the trace without an error, so an error here only says that it has no completions.
    match volumes.and_then(|volumes| each_served(path.as_ref(), &options, volumes, count)) {
        Ok(()) => Outcomes { measured: measured.finish(&outcomes.runs, conventional.first()), ..outcomes },
        Err(_) => outcomes,
    }
}

/// Calls `each` with every request that has both an issue and a completion in the trace, in the order of completion. Times count from the
/// first issue. Does nothing if the trace has no such times.
///
/// A completion is matched with the latest outstanding issue of an equal request, so that an issue whose completion was lost, or that was
/// requeued, does not shift all later ones.
fn each_served(
    path: &Path,
    options: &OpenOptions,
    volumes: VolumeChoice,
    mut each: impl FnMut(&Request, &Times),
) -> Result<(), Error> {
    let open = |times| Rows::open(path, &OpenOptions { times, sha256: false, ..options.clone() }, volumes.clone());
    let (Ok(mut issues), Ok(mut completions)) = (open(RowTimes::Issue), open(RowTimes::Completion)) else {
        // The format has no such times. Any other error has been reported by the replay.
        return Ok(());
    };
    let (mut origin, mut issue) = (None, issues.next()?);
    let mut outstanding: HashMap<_, VecDeque<Nanos>> = HashMap::new();
    // By time of completion and number; with the time of issue.
    let mut completed: BTreeMap<(Nanos, usize), (Nanos, Request)> = BTreeMap::new();
    let mut count = 0;
    while let Some(completion) = completions.next()? {
        while let Some(issued) = issue.filter(|issued| issued.time <= completion.time) {
            origin.get_or_insert(issued.time);
            outstanding.entry(key(&issued)).or_default().push_back(issued.time);
            issue = issues.next()?;
        }
        let Some(origin) = origin else { continue };
        let Some(equal) = outstanding.get_mut(&key(&completion)) else { continue };
        let Some(arrival) = equal.pop_back() else { continue };
        if equal.is_empty() {
            outstanding.remove(&key(&completion));
        }
        count += 1;
        completed.insert((completion.time, count), (arrival, completion));
        // Rows are in the order of issues or of completions. Either way, requests still to be read end after this issue, so earlier
        // completions can be returned.
        while let Some(first) = completed.first_entry().filter(|first| first.key().0 <= arrival) {
            hand_out(first.remove_entry(), origin, &mut each);
        }
    }
    for one in completed {
        hand_out(one, origin.unwrap_or_default(), &mut each);
    }
    Ok(())
}

/// Calls `each` with a request and its times, all since `origin`.
fn hand_out(
    ((end, _), (arrival, request)): ((Nanos, usize), (Nanos, Request)),
    origin: Nanos,
    each: &mut impl FnMut(&Request, &Times),
) {
    let arrival = arrival.since(origin);
    each(&Request { time: arrival, ..request }, &Times { arrival, start: arrival, end: end.since(origin) });
}

/// The fields by which an issue and its completion are matched.
fn key(request: &Request) -> (u16, Op, Lba, u32) {
    (request.volume, request.op, request.lba, request.sectors)
}

/// The requests of a trace, one by one.
struct Rows {
    trace: Trace,
    volumes: VolumeChoice,
    batch: Vec<Request>,
    at: usize,
}

impl Rows {
    fn open(path: &Path, options: &OpenOptions, volumes: VolumeChoice) -> Result<Rows, Error> {
        let trace = Trace::open(path, options)?.with_absolute_times();
        Ok(Rows { trace, volumes, batch: Vec::new(), at: 0 })
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        loop {
            while let Some(&request) = self.batch.get(self.at) {
                self.at += 1;
                // A Parquet trace without a table of volumes has a single one, without a name to select it by.
                let volume = self.trace.volumes().get(usize::from(request.volume));
                if volume.is_none_or(|volume| self.volumes.takes(volume)) {
                    return Ok(Some(request));
                }
            }
            // The batch is used up.
            self.at = 0;
            self.trace.fill(&mut self.batch)?;
            if self.batch.is_empty() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests that a trace tells to have been served: issue, end in µs, first sector.
    fn served(text: &str) -> Vec<(u64, u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, text).unwrap();
        let mut all = Vec::new();
        let each = |request: &Request, times: &Times| {
            all.push((times.arrival.0 / 1000, times.end.0 / 1000, request.lba.0));
        };
        // An error says that the trace has no completion at all.
        let _ = each_served(&path, &OpenOptions::default(), VolumeChoice::All, each);
        all
    }

    #[test]
    fn requests_come_in_the_order_of_their_ends() {
        // Windows' file times are of 100 ns.
        let msr = "128166372003061629,web,0,Read,0,4096,200\n128166372003061639,web,0,Write,4096,512,50\n\
                   128166372003061729,web,0,Read,8192,512,10\n";
        assert_eq!(served(msr), [(1, 6, 8), (10, 11, 16), (0, 20, 0)]);
        let snoop = "TIME(s)     COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)\n\
                     0.002000 a 1 sda R 8 4096 1.500\n0.003000 b 2 sda W 64 512 2.900\n";
        assert_eq!(served(snoop), [(400, 1900, 8), (0, 2900, 64)]);
    }

    #[test]
    fn a_block_trace_tells_from_issue_to_completion() {
        let line = |time: &str, action: &str, sector: u64| format!("8,16 0 1 {time} 9 {action} W {sector} + 8 [x]\n");
        let rows = [
            line("0.000100", "Q", 0),
            line("0.000200", "D", 0),
            line("0.000250", "D", 800),
            line("0.000260", "D", 0),
            line("0.000300", "C", 800),
            line("0.000400", "C", 0),
            // Issued before the recording began.
            line("0.000450", "C", 1600),
            line("0.000500", "C", 0),
        ];
        assert_eq!(served(&rows.concat()), [(50, 100, 800), (60, 200, 0), (0, 300, 0)]);
        let requeued = [("0.000100", "D"), ("0.000110", "D"), ("0.000200", "C"), ("9.000000", "D"), ("9.000100", "C")];
        let requeued = requeued.map(|(time, action)| line(time, action, 8));
        assert_eq!(served(&requeued.concat()), [(10, 100, 8), (8_999_900, 9_000_000, 8)]);
        assert_eq!(served(&[rows[1].clone(), rows[2].clone()].concat()), []);
        assert_eq!(served("time_us,op,offset,size\n0,W,0,4096\n9,W,4096,4096\n"), []);
        let table = "time_us,op,offset,size,latency_ms\n0,W,0,4096,2.5\n9,W,4096,4096,1\n";
        assert_eq!(served(table), [(9, 1009, 8), (0, 2500, 0)]);
    }
}
