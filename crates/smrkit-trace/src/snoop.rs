//! Output of tools other than blktrace that follow block requests: `biosnoop` and `iosnoop`, the text of the kernel's trace events, and
//! Windows' `xperf`.
//!
//! Such tools print a request when it ends. Its time here is its start: the end minus the latency in the same row. Rows are sorted by their
//! starts within a window ([`TextFormat::IN_COMPLETION_ORDER`]).

use crate::blkparse::{self, Event, EventChoice};
use crate::reader::{Heading, RowTimes, TextFormat};
use crate::row::{Bad, Field, LineColumns, Problem, TraceRow, Volumes, extent, rwbs};
use smrkit::request::Op;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// Added to all times of these tables. bcc counts them from the first completion, so the start of a request that began earlier would be below 0.
const BEGUN_BEFORE: u64 = 3600 * SECOND;

/// A table of `biosnoop` (bcc, libbpf-tools) or `iosnoop` (perf-tools). The heading names the columns. A process's name may hold blanks, so
/// the columns after it are counted from the end.
#[derive(Debug, Default)]
pub(crate) struct Snoop {
    /// Number of lines up to and including the heading.
    heading: u64,
    columns: Vec<&'static str>,
    times: RowTimes,
}

/// Names of columns in the tools' headings, and here. Unused columns have no name here.
const SNOOPED: [(&str, &str); 21] = [
    ("TIME(s)", "the time"),
    ("ENDs", "the time"),
    ("STARTs", "the start"),
    ("COMM", "the process"),
    ("T", "the type"),
    ("TYPE", "the type"),
    ("DISK", "the disk"),
    ("DEV", "the disk"),
    ("SECTOR", "the sector"),
    ("BLOCK", "the sector"),
    ("BYTES", "the bytes"),
    ("LAT(ms)", "the latency"),
    ("LATms", "the latency"),
    ("QUE(ms)", ""),
    ("PID", ""),
    ("TID", ""),
    ("PPID", ""),
    ("CPU", ""),
    ("PATTERN", ""),
    ("FLAGS", ""),
    ("CGROUP", ""),
];

/// Lines in which the end of xperf's heading is looked for.
const HEADER_LINES: usize = 4096;
/// The most words of a row.
const WORDS: usize = 32;
/// Lines in which the heading is searched: `iosnoop` first prints that it has begun.
const HEADING_LINES: usize = 4;

/// Parses a heading as names of columns. `None` for any other line.
fn heading_columns(line: &[u8]) -> Option<Vec<&'static str>> {
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let known = |word: &[u8]| SNOOPED.iter().find(|(own, _)| own.as_bytes() == word).map(|(_, name)| *name);
    let columns: Vec<_> = words.map(known).collect::<Option<_>>()?;
    let has = |name| columns.contains(&name);
    (has("the type") && has("the sector") && has("the bytes") && columns.len() <= WORDS).then_some(columns)
}

impl TextFormat for Snoop {
    const IN_COMPLETION_ORDER: bool = true;

    fn prepare(&mut self, head: &[u8]) {
        let mut lines = (1..).zip(head.split(|byte| *byte == b'\n')).take(HEADING_LINES);
        if let Some((number, columns)) = lines.find_map(|(number, line)| Some((number, heading_columns(line)?))) {
            (self.heading, self.columns) = (number, columns);
        }
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.times = times;
        times.are_moments()
    }

    fn heading(&self, number: u64, _line: &[u8]) -> Heading {
        match number < self.heading {
            true => Heading::Yes,
            false if self.columns.is_empty() => Heading::Wanted("the names of biosnoop's or iosnoop's columns"),
            false => Heading::No,
        }
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let (mut words, mut count) = ([Field::named("a column"); WORDS], 0);
        let mut columns = LineColumns::spaces(line);
        while let Some(word) = columns.optional("a column") {
            *words.get_mut(count).ok_or_else(|| word.bad(Problem::Surplus))? = word;
            count += 1;
        }
        // The name of the process may hold blanks, so that columns after it are counted from the end of the line.
        let place_of = |name| self.columns.iter().position(|own| *own == name);
        let (columns, process) = (self.columns.len(), place_of("the process"));
        let find = |name| {
            let at = place_of(name)?;
            let is_after_process = process.is_some_and(|process| at > process);
            Some(Field { name, ..words[if is_after_process { at + count - columns } else { at }] })
        };
        // bcc leaves the name blank for the kernel's own requests, so a column is missing. A row that was cut short has no type in its place.
        let is_nameless = || {
            process.is_some() && count + 1 == columns && find("the type").is_some_and(|kind| rwbs(kind.text).is_some())
        };
        if count > columns && process.is_none() {
            return Err(words[count - 1].bad(Problem::Surplus));
        } else if count < columns && !is_nameless() {
            return Err(Bad { at: line.len(), len: 0, name: self.columns[count], problem: Problem::Missing });
        }
        let column = |name| find(name).ok_or(Bad { at: 0, len: 0, name, problem: Problem::Missing });
        let latency = find("the latency").map_or(Ok(0), |field| field.decimal(MILLISECOND))?;
        let time = |field: Field| field.decimal(SECOND).map(|time| time.saturating_add(BEGUN_BEFORE));
        let (start, end) = match (find("the start").map(time).transpose()?, find("the time").map(time).transpose()?) {
            (Some(start), Some(end)) => (start, end),
            (Some(start), None) => (start, start.saturating_add(latency)),
            (None, Some(end)) => (end.saturating_sub(latency), end),
            (None, None) => (0, latency),
        };
        let ticks = if self.times == RowTimes::Completion { end } else { start };
        let (kind, sector, bytes) = (column("the type")?, column("the sector")?, column("the bytes")?);
        let letters = rwbs(kind.text).ok_or_else(|| kind.expected("R, W, or letters such as WS"))?;
        // Only a flush has no bytes; bcc prints the letter R for it.
        let op = if bytes.text == b"0" { Some(Op::Flush) } else { letters.request() };
        let Some(op) = op else { return Ok(None) };
        let (offset, bytes) = if op == Op::Flush { (0, 0) } else { extent(sector, 512, bytes, 1)? };
        let volume = match find("the disk") {
            Some(disk) => volumes.named(disk.text, None, disk)?,
            None => volumes.numbered(0, kind, || "0".into())?,
        };
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }

    fn without_times(&self) -> Option<String> {
        let has_times = self.columns.iter().any(|name| matches!(*name, "the time" | "the start"));
        (!has_times).then(|| "record it with `iosnoop -ts`".into())
    }
}

/// Text of trace events: `cat trace_pipe`, `trace-cmd report`, `perf script`. As with blkparse, one kind of event stands for requests.
#[derive(Debug, Default)]
pub(crate) struct Ftrace(EventChoice);

/// Splits a line into its event, the time before the event, and the columns after it; `None` if the line has no time and event.
fn trace_event(line: &[u8]) -> Option<(&[u8], Field<'_>, LineColumns<'_>)> {
    let mut columns = LineColumns::spaces(line);
    // Both end in a colon, and the time is the word before the event; names of processes may end in one, too.
    let mut time: Option<Field> = None;
    while let Some(word) = columns.optional("the event") {
        let stem = word.text.strip_suffix(b":").filter(|stem| !stem.is_empty());
        if let (Some(time), Some(event)) = (time, stem) {
            let event = event.strip_prefix(b"block:").unwrap_or(event);
            return Some((event, time, columns));
        }
        time = stem.map(|text| Field { text, name: "the time", ..word }).filter(|time| time.decimal(SECOND).is_ok());
    }
    None
}

/// The kind of event with this name; `None` for other events, which are skipped.
fn kind(event: &[u8]) -> Option<Event> {
    match event {
        b"block_bio_queue" => Some(Event::Queued),
        b"block_rq_issue" => Some(Event::Issued),
        b"block_rq_complete" => Some(Event::Completed),
        _ => None,
    }
}

impl TextFormat for Ftrace {
    fn prepare(&mut self, head: &[u8]) {
        let lines = head.split(|byte| *byte == b'\n');
        self.0.choose_among(lines.filter_map(|line| kind(trace_event(line)?.0)));
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.0.choose_times(times)
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let Some((event, time, mut columns)) = trace_event(line) else {
            let name = "the time and the event";
            return match line.starts_with(b"\t") && line.ends_with(b")") {
                // `perf script -g` prints the call stack of an event below it.
                true => Ok(None),
                false => Err(Bad { at: line.len(), len: 0, name, problem: Problem::Missing }),
            };
        };
        if !kind(event).is_some_and(|kind| self.0.stands_for_requests(kind)) {
            return Ok(None);
        }
        let ticks = time.decimal(SECOND)?;
        let device = columns.next("the device")?;
        let letters = columns.next("the RWBS letters")?;
        // In the events of a driver, the bytes and the command in brackets come before the sector.
        // So the sector is the column before the plus sign.
        let (mut sector, mut rest) = (columns.optional("the sector"), columns);
        while let Some(word) = rest.optional("the plus sign").filter(|word| word.text != b"+") {
            (sector, columns) = (Some(Field { name: "the sector", ..word }), rest);
        }
        let Some((op, (offset, bytes))) = blkparse::request(letters, sector, &mut columns)? else { return Ok(None) };
        let volume = blkparse::device(volumes, device)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }

    fn detail(&self) -> Option<&str> {
        self.0.detail()
    }
}

/// Windows' disk events as `xperf -a dumper` prints them: event, end (µs), process, thread, IRP, offset, size, elapsed time (µs), disk; or
/// as `-a diskio -detail` does, whose heading names the columns.
#[derive(Debug, Default)]
pub(crate) struct Xperf {
    /// Lines of the heading: up to the end of the list of events that a dump begins with, or to the names of columns; 0 without either.
    heading: u64,
    /// The names of columns; empty for a dump.
    columns: Vec<Vec<u8>>,
    times: RowTimes,
}

/// Columns that `-a diskio -detail` names, and that are read.
const DETAILS: [&[u8]; 6] = [b"io type", b"start time", b"end time", b"io size", b"offset", b"disk"];

impl Xperf {
    /// Parses a row below named columns. A process's name may have commas, so it is read up to its number in brackets.
    fn detail_row(&self, line: &[u8], volumes: &mut Volumes) -> Result<TraceRow, Bad> {
        let mut columns = LineColumns::commas(line);
        let fields: Vec<Field> = std::iter::from_fn(|| columns.optional("a column")).collect();
        let process = self.columns.iter().position(|name| name.starts_with(b"process")).unwrap_or(usize::MAX);
        // `name, with comma.exe (1234)` takes a column more for each comma.
        let commas_in_name = fields.iter().skip(process).position(|field| field.text.ends_with(b")")).unwrap_or(0);
        let field = |own: &[u8], name| {
            let at = self.columns.iter().position(|column| column == own)?;
            fields.get(if at > process { at + commas_in_name } else { at }).map(|field| Field { name, ..*field })
        };
        let need = |nth: usize, name| {
            field(DETAILS[nth], name).ok_or(Bad { at: line.len(), len: 0, name, problem: Problem::Missing })
        };
        let op = need(0, "the IO type")?.operation(Op::Read, Op::Write)?;
        let moment = if self.times == RowTimes::Completion { need(2, "the end")? } else { need(1, "the start")? };
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => extent(need(4, "the offset")?, 1, need(3, "the size")?, 1)?,
        };
        let disk = need(5, "the disk")?;
        let (ticks, number) = (moment.integer()?, disk.integer()?);
        let volume = volumes.numbered(number, disk, || number.to_string())?;
        Ok(TraceRow { ticks, offset, bytes, volume, op })
    }
}

impl TextFormat for Xperf {
    const IN_COMPLETION_ORDER: bool = true;

    fn tick_ns(&self) -> u64 {
        1000
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.times = times;
        times.are_moments()
    }

    fn prepare(&mut self, head: &[u8]) {
        let is_dump = head.starts_with(b"BeginHeader");
        for (number, line) in (1..).zip(head.split(|byte| *byte == b'\n')).take(HEADER_LINES) {
            let line = line.trim_ascii().to_ascii_lowercase();
            let names: Vec<Vec<u8>> = line.split(|byte| *byte == b',').map(|name| name.trim_ascii().to_vec()).collect();
            if line.starts_with(DETAILS[0]) && DETAILS.iter().all(|name| names.iter().any(|own| own == name)) {
                (self.heading, self.columns) = (number, names);
                return;
            }
            if is_dump && (line.starts_with(DETAILS[0]) || line == b"endheader") {
                self.heading = number;
                return;
            }
        }
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        let is_names = || line.split(|byte| *byte == b',').nth(1).is_some_and(|name| name.trim_ascii() == b"TimeStamp");
        if number < self.heading || is_names() { Heading::Yes } else { Heading::No }
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        if !self.columns.is_empty() {
            return self.detail_row(line, volumes).map(Some);
        }
        let mut columns = LineColumns::commas(line);
        let event = columns.next("the event")?;
        let op = match event.text {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => Op::Flush,
            text if self.heading > 0 || text.starts_with(b"Disk") && text.ends_with(b"Init") => return Ok(None),
            _ => return Err(event.expected("DiskRead, DiskWrite or DiskFlush")),
        };
        let end = columns.next("the time")?.integer()?;
        // The IRP follows the process, whose name may hold commas, and the thread.
        while !columns.next("the IRP")?.text.starts_with(b"0x") {}
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => extent(columns.next("the offset")?, 1, columns.next("the size")?, 1)?,
        };
        let elapsed = columns.next("the elapsed time")?.integer()?;
        let ticks = if self.times == RowTimes::Completion { end } else { end.saturating_sub(elapsed) };
        let disk = columns.next("the disk")?;
        let number = disk.integer()?;
        let volume = volumes.numbered(number, disk, || number.to_string())?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

#[cfg(test)]
mod tests {
    use crate::OpenOptions;
    use crate::tests::{names, read, refused, shown};

    fn requests(format: &str, text: &str) -> Vec<String> {
        let (trace, all) =
            read(text.as_bytes(), &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(trace.format, format);
        shown(&all)
    }

    #[test]
    fn a_request_of_biosnoop_begins_its_latency_before_its_end() {
        let text = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)
0.000004    supervise      1950    xvda1     W 13092560   4096      0.74
0.010178    Web Content    1950    xvda1     WS 13092432  512      20.00
0.020000    jbd2/sda1-8    330     xvda1     FF 0          0        1.00
";
        // The first two began before the first end, from which the tool counts: 9.822 and 0.736 ms.
        assert_eq!(requests("biosnoop", text), ["0 W 13092432+1@0", "9086000 W 13092560+8@0", "28822000 F 0+0@0"]);
        let queued = "\
TIME(s)     COMM           PID     DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)
5.000000    fio            9       sda     R 800        4096     3.00    2.00
5.004000    fio            9       sdb     D 1600       8192     0.00    7.00
";
        assert_eq!(requests("biosnoop", queued), ["0 D 1600+16@1", "1000000 R 800+8@0"]);
    }

    #[test]
    fn a_request_of_the_kernel_alone_has_no_process() {
        let text = "\
TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)
0.000004001    supervise      1950   xvda1   W  13092560  4096       0.00
0.104371000                   0      vda     R  1298304   4096       0.00
";
        assert_eq!(requests("biosnoop", text), ["0 W 13092560+8@0", "104366999 R 1298304+8@1"]);
        let cut = text.replace("4096       0.00\n0.1", "4096\n0.1");
        let error = refused(cut.as_bytes(), &OpenOptions::default());
        assert!(error.contains("the row ends before the latency"), "{error}");
    }

    #[test]
    fn iosnoop_may_have_starts_and_ends_or_neither() {
        let text = "\
Tracing block I/O. Ctrl-C to end.
STARTs         ENDs           COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
2.5            2.6            java         4      RA   202,1    17039664     4096      0.81
3.5            3.6            java         4      WFS  202,16   8            512       0.81
";
        assert_eq!(requests("biosnoop", text), ["0 R 17039664+8@0", "1000000000 W 8+1@1"]);
        let plain = "COMM PID TYPE DEV BLOCK BYTES LATms\nthe app 4 R 8,0 16 512 0.81\n";
        assert_eq!(requests("biosnoop", plain), ["0 R 16+1@0"]);
        for (row, said) in [("R 8,0 16 512 0.8", "ends before"), ("a 4 X 8,0 16 512 0.8", "the type is \"X\"")] {
            let error = refused(format!("{plain}{row}\n").as_bytes(), &OpenOptions::default());
            assert!(error.contains(said), "{row}: {error}");
        }
    }

    #[test]
    fn what_a_tool_says_around_rows_is_passed_by() {
        let text = "\u{feff}TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1.5 CPU 0/KVM 9 sda R 800 4096 0\n";
        for end in ["^C\n", "^CDetaching...\n", "\nEnding tracing...\n", "Possibly lost 12 samples\n", &text[3..]] {
            let all =
                requests("biosnoop", &format!("Tracing block device I/O... Hit Ctrl-C to end.\n{}{end}", &text[3..]));
            assert_eq!(all.len(), if end.len() > 40 { 2 } else { 1 }, "{end}");
        }
        assert_eq!(requests("biosnoop", text), ["0 R 800+8@0"]);
        let event = "  fio-44 [000] 1.25: block_rq_issue: 8,0 W 512 () 64 + 1 [fio]\n";
        for begin in ["CPU 0 is empty\nCPU 2 is empty\ncpus=4\n", "version = 6\nCPU 0 is empty\ncpus=4\n"] {
            assert_eq!(
                requests("ftrace", &format!("{begin}{event}CPU:1 [LOST 38 EVENTS]\n")),
                ["0 W 64+1@0"],
                "{begin}"
            );
        }
        let calls = "\tffffffff8139 blk_mq_start_request+0x11 ([kernel.kallsyms])\n";
        assert_eq!(requests("ftrace", &format!("{event}{calls}{calls}\n")), ["0 W 64+1@0"]);
    }

    #[test]
    fn trace_events_are_read_as_three_tools_print_them() {
        let trace = "\
# tracer: nop
     kworker/u8:1-2231    [001] d..1. 100.500000: block_bio_queue: 8,0 WS 2000 + 16 [kworker/u8:1]
     kworker/u8:1-2231    [001] d..1. 100.500010: block_rq_issue: 8,0 WS 8192 () 2000 + 16 [kworker/u8:1]
           <idle>-0       [001] d.h1. 100.600000: block_rq_complete: 8,0 WS () 2000 + 16 [0]
             bash-9       [000] d..1. 100.700000: sched_switch: prev_comm=bash prev_pid=9 ==> next_comm=x
             bash-9       [000] d..1. 100.800000: block_bio_queue: 8,16 R 40 + 8 [bash]
";
        assert_eq!(requests("ftrace", trace), ["0 W 2000+16@0", "300000000 R 40+8@1"]);
        let perf = "\
fio  2231 [001] 12345.678901: block:block_rq_issue: 8,0 WS 8192 () 2000 + 16 be,0,4 [fio]
my app  2231 [001] 12345.678902: block:block_rq_issue: 8,0 FF 0 () 18446744073709551615 + 0 [x]
fio  2231 [001] 12345.678903: block:block_rq_issue: 8,0 N 96 (12 00 00 00 60 00) 0 + 0 [x]
";
        assert_eq!(requests("ftrace", perf), ["0 W 2000+16@0", "1000 F 0+0@0"]);
        let report = "\
cpus=2
CPU 1 is empty
             fio-2231  [001]     7.000000: block_rq_complete:    8,0 R () 64 + 8 [0]
             fio-2231  [001]     7.250000: block_rq_complete:    8,0 D () 128 + 8 [0]
";
        assert_eq!(requests("ftrace", report), ["0 R 64+8@0", "250000000 D 128+8@0"]);
        let (trace, _) = read(report.as_bytes(), &OpenOptions::default()).unwrap();
        assert!(trace.detail().unwrap().starts_with("C events"));
        let error = refused(perf.replace("2000 + 16", "x + 16").as_bytes(), &OpenOptions::default());
        assert!(error.contains("the sector is \"x\""), "{error}");
    }

    #[test]
    fn disk_events_of_windows_begin_their_elapsed_time_before_their_end() {
        let rows = "\
   DiskRead,   8612, xperf.exe (3984),  11844, 0xfffffa8003c7f010, 0x018f0b8000, 0x00001000,  612, 0, 0x060043, 600, Normal
  DiskWrite,   9000,   System (   4),     72, 0xfffffa8003c7f011, 0x0000002000, 0x00000200, 1500, 1, 0x060043, 600, Normal
  DiskFlush,   9500,   System (   4),     72, 0xfffffa8003c7f012,  400, 1, 0x060043, 600, Normal
DiskReadInit,  9600,   System (   4),     72, 0xfffffa8003c7f012
";
        let found = ["0 W 16+1@1", "500000 R 13075904+8@0", "1600000 F 0+0@1"];
        assert_eq!(requests("xperf", rows), found);
        assert_eq!(requests("xperf", &rows.replace("System", "my,system.exe")), found);
        let detail = "\
\nDisk IO Detail Report\n\nQD/I - Number of outstanding IOs at IO start time\n
 IO Type, Start Time, End Time, IO Time, DiskSrvT, IO Size, Offset, Pri, Process Name ( PID), Disk, Filename
DiskRead, 8000, 8612, 612, 612, 0x00001000, 0x018f0b8000, 2, my,sql.exe (46), 0, \"C:\\a, b.db\"
  Write, 7500, 9000, 1500, 1500, 0x00000200, 0x0000002000, Normal, sql.exe (46), 1, \"C:\\a.db\"
  Flush, 9100, 9500, 400, 400, , , Normal, System (4), 1, Unknown\n";
        assert_eq!(requests("xperf", detail), found);
        let dump = format!(
            "BeginHeader\n DiskRead, TimeStamp, Process Name ( PID), ThreadID\nEndHeader\nOS Version: 10\nCSwitch, 5, x\n{rows}"
        );
        let (trace, all) = read(dump.as_bytes(), &OpenOptions::default()).unwrap();
        assert_eq!(
            (shown(&all), names(&trace)),
            (found.map(String::from).to_vec(), vec!["0=0".to_string(), "1=1".into()])
        );
    }
}
