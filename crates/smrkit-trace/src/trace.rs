//! Opens traces, in a recognised format or a named one.

use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::blktrace;
use crate::csv::{self, Csv};
use crate::formats::{self, Choice, Format};
use crate::input::{Stream, sha256_of};
use crate::parquet::ParquetReader;
use crate::reader::{Feed, RowTimes, Rows, Text, text_agreement};
use crate::row::Volume;
use smrkit::error::Error;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;

/// Options of opening a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The format: a name of `FORMATS`, `csv:MAP` (where columns go by number or name), `blkparse:Q` or `blkparse:D`;
    /// recognised from the content if none.
    pub format: Option<String>,
    /// Leave malformed rows out and count them, instead of stopping.
    pub skip_bad_rows: bool,
    /// Compute the SHA-256 of the file.
    pub sha256: bool,
    /// The times that requests get.
    pub times: RowTimes,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { format: None, skip_bad_rows: false, sha256: true, times: RowTimes::Clock }
    }
}

/// An open trace: a stream of requests in the order of the file.
///
/// Times count from the first row; rows that lie before it are at time 0. `Request::volume` indexes `volumes()`.
pub struct Trace {
    /// The format's name, as recognised or forced.
    pub format: &'static str,
    feed: Box<Feed>,
    rows: Box<dyn Rows>,
}

impl Trace {
    /// Opens a file, or standard input if `path` is `-`. Errors: it can't be read, is empty, or is of no known format.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Trace, Error> {
        let choice = formats::choice(options.format.as_deref())?;
        let is_file = path.as_os_str() != "-";
        let (bytes, total) = match is_file {
            true => blktrace::open(path).map_err(|error| Error::reading(path, error))?,
            false => (Box::new(io::stdin()) as Box<dyn Read + Send>, None),
        };
        Trace::from_stream(Stream::new(path, bytes, total, options.sha256)?, choice, options, is_file)
    }

    /// Reads bytes in memory; `name` stands for the path in messages.
    pub fn from_bytes(
        name: &str,
        bytes: impl AsRef<[u8]> + Send + 'static,
        options: &OpenOptions,
    ) -> Result<Trace, Error> {
        let choice = formats::choice(options.format.as_deref())?;
        let total = Some(bytes.as_ref().len() as u64);
        let stream = Stream::new(Path::new(name), Box::new(Cursor::new(bytes)), total, options.sha256)?;
        Trace::from_stream(stream, choice, options, false)
    }

    fn from_stream(mut stream: Stream, choice: Choice, options: &OpenOptions, is_file: bool) -> Result<Trace, Error> {
        stream.refill()?;
        if stream.unread().is_empty() {
            let message = "the archive is empty: it holds no request; check how it was made";
            return Err(Error::input(&stream.path, message));
        }
        let path = stream.path.clone();
        let is_parquet = stream.unread().starts_with(b"PAR1");
        let (format, mut rows): (_, Box<dyn Rows>) = match choice {
            Choice::Recognise if is_parquet => parquet(&path, options, is_file)?,
            Choice::Parquet => parquet(&path, options, is_file)?,
            Choice::Recognise => recognised_rows(&stream)?,
            Choice::Named(format, rows) => {
                refuse_foreign(&stream)?;
                check_forced(&stream, format)?;
                (format.name, rows)
            }
            Choice::Csv(map) => {
                check_text(&stream, "csv")?;
                let csv = Csv::for_table(&map, stream.unread())?;
                refuse_doubt(&stream, csv.doubt.as_deref())?;
                ("csv", Box::new(Text(csv)))
            }
            Choice::Blkparse(blkparse) => {
                check_text(&stream, "blkparse")?;
                ("blkparse", Box::new(Text(blkparse)))
            }
        };
        // Chosen first, since `Feed::new` has the reader look at the beginning, which may depend on the times wanted.
        let has_times = options.times == RowTimes::Clock || rows.choose_times(options.times);
        check_times(has_times, format, &path)?;
        let feed = Box::new(Feed::new(stream, rows.as_mut(), options.skip_bad_rows));
        Ok(Trace { format, feed, rows })
    }

    /// The trace with times from its source's own zero, so that rows before the first keep theirs (to be sorted).
    pub fn with_absolute_times(mut self) -> Trace {
        self.feed.intake.first_ticks = Some(0);
        self
    }

    /// True if the trace has think times, the pauses of its host after each request. To be called before the first row is read.
    pub fn has_think_times(&mut self) -> bool {
        // Whether a reader has think times shows when they are chosen. Afterwards the clock's are chosen again.
        let has = self.rows.choose_times(RowTimes::Think);
        self.rows.choose_times(RowTimes::Clock);
        has
    }

    /// The reader's choice, if the format leaves one: the events of blkparse, the columns of a table.
    pub fn detail(&self) -> Option<&str> {
        self.rows.detail()
    }

    /// Fails if the trace has no times.
    pub fn refuse_no_times(&self) -> Result<(), Error> {
        let Some(remedy) = self.rows.without_times() else { return Ok(()) };
        let problem = format!("no times, by which it could be replayed: {remedy}");
        Err(Error::input(&self.feed.stream.path, problem))
    }

    /// The volumes seen so far, in order of first sight.
    pub fn volumes(&self) -> &[Volume] {
        &self.feed.volumes.list
    }

    /// Rows mended, skipped or out of order so far.
    pub fn notes(&self) -> TraceNotes {
        self.feed.intake.notes
    }

    /// The line (or record) of the first row that is earlier than the row before it.
    pub fn first_out_of_order(&self) -> Option<u64> {
        self.feed.intake.first_out_of_order
    }

    /// The SHA-256 of the stored file, once all of it was read; for the files of several CPUs, that of their merged records.
    pub fn sha256(&self) -> Option<String> {
        self.rows.sha256(&self.feed)
    }
}

impl Source for Trace {
    fn outstanding(&self) -> &[u16] {
        &self.feed.outstanding
    }

    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.feed.fill(self.rows.as_mut(), batch)
    }

    fn progress(&self) -> Progress {
        self.rows.progress(&self.feed)
    }
}

pub(crate) fn file_sha256(path: &Path) -> io::Result<String> {
    sha256_of(blktrace::open(path)?.0)
}

/// The reader of a Parquet file, which is no stream: a Parquet file is read from its end.
fn parquet(path: &Path, options: &OpenOptions, is_file: bool) -> Result<(&'static str, Box<dyn Rows>), Error> {
    if !is_file {
        return Err(Error::input(path, "Parquet is read from a file only: save it, and give its path"));
    }
    Ok(("parquet", Box::new(ParquetReader::open(path, options.times, options.sha256)?)))
}

/// Errors: the format does not have the times that were asked for.
fn check_times(has_times: bool, format: &str, path: &Path) -> Result<(), Error> {
    if has_times {
        return Ok(());
    }
    let problem = format!(
        "a trace of format {format} has no think times: give a disksim-measured trace, name a column in a map \
         (csv:…,think=5:us), or replay it with {{arrival}} flat-out"
    );
    Err(Error::input(path, problem))
}

/// The reader of the recognised format. This is the first of:
///
/// 1. a format that understands every line
/// 2. a table whose first line names its columns, if these explain more lines than any format, or as many if the first line is no heading of
///    the format
/// 3. the format that understands the most lines
fn recognised_rows(stream: &Stream) -> Result<(&'static str, Box<dyn Rows>), Error> {
    refuse_foreign(stream)?;
    let (head, whole) = (stream.unread(), stream.eof);
    let found = formats::recognise(head, whole);
    let agreement = found.map(|(_, agreement)| agreement).unwrap_or_default();
    let fits = agreement.understood > 0 && agreement.understood == agreement.lines;
    // A heading of the format is a line that only the format explains, so that the table has to explain one more.
    if !fits
        && !is_binary(head)
        && let Ok(csv) = Csv::for_table("", head)
        && (found.is_none()
            || text_agreement(csv.clone(), head, whole).understood
                >= agreement.understood + u64::from(agreement.has_heading))
    {
        refuse_doubt(stream, csv.doubt.as_deref())?;
        return Ok(("csv", Box::new(Text(csv))));
    }
    if agreement.understood < agreement.lines && !agreement.has_heading && csv::missing(head).is_some() {
        // A table whose columns have names, but not those that are known, must not be taken for a format that fits half of it.
        return Err(unknown_text(stream));
    }
    refuse_doubt(stream, found.and_then(|(format, _)| formats::doubt(format, head)))?;
    if let Some((format, rows)) = found.and_then(|(format, _)| Some((format, format.new_rows()?))) {
        return Ok((format.name, rows));
    }
    if is_binary(head) {
        let message = "a binary file of no known format: check that it is a trace, or name its format with {format}";
        return Err(Error::input(&stream.path, message));
    }
    Err(unknown_text(stream))
}

/// Errors: there is a doubt about what the columns mean.
fn refuse_doubt(stream: &Stream, doubt: Option<&str>) -> Result<(), Error> {
    doubt.map_or(Ok(()), |doubt| Err(Error::input(&stream.path, doubt)))
}

/// Refuses common files that are no traces, and names the remedy.
fn refuse_foreign(stream: &Stream) -> Result<(), Error> {
    refuse_doubt(stream, foreign_remedy(stream.unread()))
}

/// The remedy for a kind of file that is no trace, by its first bytes; `None` if it may be one.
fn foreign_remedy(head: &[u8]) -> Option<&'static str> {
    if head.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it (tar xf), and name the trace that was in it");
    }
    let beginning = &head[..head.len().min(4096)];
    let holds = |text: &[u8]| memchr::memmem::find(beginning, text).is_some();
    if holds(b"\"fio version\"") || holds(b": (g=0): rw=") {
        return Some(FIO_REPORT);
    }
    // Such logs are numbers only, so they are known by the shape of their rows.
    if is_fio_log(head) {
        return Some(
            "fio's log of bandwidth, latency or IOPS, which lists completions, and where only with log_offset: add \
             --write_iolog=FILE to the fio command, and name FILE",
        );
    }
    if is_kernel_log(beginning) {
        return Some(
            "the kernel's log, which names no requests but those that failed: record with blktrace or biosnoop",
        );
    }
    if beginning.split(|byte| *byte == b'\n').any(is_diskstats) {
        return Some(SUMS);
    }
    NO_TRACES.iter().find(|(marks, _)| marks.iter().all(|mark| holds(mark.as_bytes()))).map(|(_, what)| *what)
}

/// Common outputs of other tools that are no traces: texts that all occur in their first 4 KiB, and the remedy.
const NO_TRACES: [(&[&str], &str); 32] = [
    (
        &["TIME(ms)", "DISK", "COMM", "LAT(ms)"],
        "bpftrace's biosnoop, which says nothing of where: record with bcc's biosnoop",
    ),
    (&["avg-cpu:"], SUMS),
    // Without the processor's line, as `iostat -d` and `sar -d` print.
    (&["Linux ", "Device", "/s"], SUMS),
    (&["Linux ", "DEV", "tps"], SUMS),
    (&["\"sysstat\"", "\"disk\""], SUMS),
    (&["capacity", "operations", "bandwidth"], SUMS),
    (&["\"(PDH-CSV"], SUMS),
    (&["extended device statistics"], OTHER_SUMS),
    (&["KB/t", "tps", "MB/s"], OTHER_SUMS),
    (&["procs --", "-io-"], OTHER_SUMS),
    (&["AAA,progname"], OTHER_SUMS),
    (&["dsk/total"], OTHER_SUMS),
    (&["loadavg:", "Kbytes", "AVG"], OTHER_SUMS),
    (&["histograms by process name"], OTHER_SUMS),
    (&[" : count ", "distribution"], OTHER_SUMS),
    (&["Q2Q", "MIN", "AVG", "MAX"], OTHER_SUMS),
    (&[";fio-"], FIO_REPORT),
    (&["smartctl ", "smartmontools"], SMARTCTL),
    (&["\"smartctl\"", "\"json_format_version\""], SMARTCTL),
    (
        &["block:block_rq_issue(dev:"],
        "the text of `perf trace`: record with `perf record`, and print it with `perf script`",
    ),
    (&[" PID D ", "BLOCK", "PATHNAME"], DTRACE),
    (&["\"Process Name\",\"PID\",\"Operation\""], FILES),
    (&["pwrite64(", ") = "], FILES),
    (&["pread64(", ") = "], FILES),
    (&["WrData[", " D=0x"], FILES),
    (&["RdData[", " D=0x"], FILES),
    (
        &["}\n{\""],
        "objects of JSON, one a line: write them as a table whose first line is time_us,op,offset,size (jq has @csv)",
    ),
    (&["PERFILE2"], "the file of `perf record`: print it with `perf script`"),
    (&["\u{17}\u{8}Dtracing"], "the file of trace-cmd: print it with `trace-cmd report`"),
    (&[".\0e\0t\0l\0"], "the file of Windows' recorder: print it with `xperf -i FILE -a dumper`"),
    (
        &["version https://git-lfs.github.com/spec"],
        "a pointer of Git LFS in place of a file: fetch that with `git lfs pull`",
    ),
    (&["<!DOCTYPE html"], "a web page, not what it links to: download the trace itself"),
];

const FIO_REPORT: &str =
    "fio's report, which sums up requests and lists none: add --write_iolog=FILE to the fio command, and name FILE";
const SUMS: &str = "sums over intervals, as iostat prints them, which list no requests: `advise` takes them, or record with blktrace \
                    or biosnoop";
const OTHER_SUMS: &str = "sums of requests, which list none, and not in a form that `advise` takes: record `iostat -tx 60`, `zpool iostat -T u 60` or \
                          typeperf for that, or a trace with blktrace or biosnoop";
const SMARTCTL: &str = "smartctl's report on a disk, not a recording of requests: `drives identify` reads it";
const DTRACE: &str = "the table of DTrace's iosnoop: say what its columns are, with {format} \
                      csv:op=D,offset=BLOCK:sectors,size=SIZE,separator=space, and time=STIME(us):us where it has them";
const FILES: &str =
    "calls of programs, which say where in a file and not where on the disk: record with blktrace, biosnoop, or xperf";

/// True for a line of /proc/diskstats: major, minor and name of a device, and its counters.
pub fn is_diskstats(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    // All columns but the name are numbers.
    let is_right = |(at, word): (usize, &&[u8])| (at == 2) != word.iter().all(u8::is_ascii_digit);
    words.len() >= 14 && words.iter().enumerate().all(is_right)
}

/// True if the first lines begin as those of `dmesg`, or of `journalctl`: `[ 1234.567890] `, `[Wed May  1 12:00:00 2024] `,
/// `2024-05-01T12:00:00,123456+02:00 `, `May 01 12:00:00 nas kernel: `.
fn is_kernel_log(head: &[u8]) -> bool {
    let is_time = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_alphanumeric() || b" .:".contains(byte));
    let is_stamp = |line: &[u8]| {
        let stamp = line.strip_prefix(b"[").and_then(|rest| rest.split(|byte| *byte == b']').next());
        let is_iso = matches!(line, [_, _, _, _, b'-', _, _, b'-', _, _, b'T', ..])
            && line.get(19) == Some(&b',')
            && line.get(26).is_some_and(|byte| b"+-".contains(byte));
        stamp.is_some_and(|text| text.iter().any(|byte| b".:".contains(byte)) && is_time(text))
            || is_iso
            || memchr::memmem::find(line, b" kernel: ").is_some()
    };
    let mut lines = head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(3).peekable();
    lines.peek().is_some() && lines.all(is_stamp)
}

/// True if the first lines are of fio's logs: `time, value, direction, size`, and in newer versions offset and priority.
fn is_fio_log(head: &[u8]) -> bool {
    let is_row = |line: &[u8]| {
        let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
        let columns: Vec<&str> = line.split(", ").collect();
        let is_number = |column: &&str| {
            column.strip_prefix("0x").unwrap_or(column).bytes().all(|byte| byte.is_ascii_hexdigit())
                && !column.is_empty()
        };
        (4..=6).contains(&columns.len()) && columns.iter().all(is_number) && matches!(columns[2], "0" | "1" | "2")
    };
    // The last line may be cut off, because only the beginning was read.
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    whole.split(|byte| *byte == b'\n').take(16).all(is_row)
}

fn unknown_text(stream: &Stream) -> Error {
    let head = stream.unread();
    let line = head.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let shown = line[..line.len().min(60)].escape_ascii();
    let remedy = csv::missing(head).unwrap_or_else(|| {
        format!(
            "name it with {{format}} ({}), or describe its columns, as in {{format}} csv:time=0:us,op=1,offset=2:bytes,size=3:bytes",
            formats::names()
        )
    });
    let problem = format!("of no known format (it begins with \"{shown}\"): {remedy}");
    Error::input(&stream.path, problem)
}

/// Refuses a file that is plainly not of the named format, with a clearer message than the error of its first row.
fn check_forced(stream: &Stream, format: &Format) -> Result<(), Error> {
    let found = format.agreement(stream.unread(), stream.eof);
    // One row of the format is enough: the error of the first bad row will say more.
    if found.understood + found.misvalued > 0 {
        return Ok(());
    }
    if let Some((Format { name, about, .. }, _)) = formats::recognise(stream.unread(), stream.eof) {
        let problem =
            format!("looks like {name} ({about}), not like {}: leave {{format}} out, or name {name}", format.name);
        return Err(Error::input(&stream.path, problem));
    }
    if format.sample.is_empty() { Ok(()) } else { check_text(stream, format.name) }
}

fn check_text(stream: &Stream, name: &str) -> Result<(), Error> {
    if is_binary(stream.unread()) {
        let problem = format!("binary data (or text in UTF-16), but {name} is text: check the file, or its {{format}}");
        return Err(Error::input(&stream.path, problem));
    }
    Ok(())
}

/// True if the bytes are no text: a zero byte, or control characters in more than a tenth of the bytes.
fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(8192)];
    let control = head.iter().filter(|b| **b < 0x20 && !b.is_ascii_whitespace()).count();
    head.contains(&0) || control * 10 > head.len()
}

#[cfg(test)]
mod tests {
    use smrkit::request::Op;
    use smrkit::units::{Lba, Nanos};

    use super::*;
    use crate::parquet::{Meta, ParquetWriter};
    use crate::tests::refused;

    #[test]
    fn binary_data_have_zeros_or_a_tenth_of_control_characters() {
        let text = |controls: usize, all: usize| [vec![1; controls], vec![b'x'; all - controls]].concat();
        assert!(!is_binary(&text(1, 10)) && is_binary(&text(2, 19)) && !is_binary(&text(2, 20)));
        assert!(!is_binary(b"\t\r\n \n\n\n") && !is_binary(b"") && !is_binary("é\u{7f}".as_bytes()));
        assert!(is_binary(b"much text and one\0"));
        let late = [vec![b'x'; 8192], vec![0]].concat();
        assert!(!is_binary(&late) && is_binary(&late[1..]), "8 KiB are looked at");
    }

    #[test]
    fn files_that_are_no_traces_are_told_by_name() {
        let mut tar = vec![b'a'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        let report =
            "nas: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=libaio, iodepth=8\nfio-3.33\n";
        let iostat = "Linux 6.1 (nas)\n\navg-cpu:  %user\n           1.0\n\nDevice r/s\nsda 1.0\n";
        let smartctl =
            "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0]\nCopyright (C) 2002-22, www.smartmontools.org\n";
        let kernel = "[    0.000000] Linux version 6.1.0\n[    0.000000] Command line: root=/dev/sda\n[    0.100000] x86/fpu: x\n";
        let later = "[1234567.890123] sd 2:0:0:0: [sdb] tag#0 FAILED\n[1234567.890124] sd 2:0:0:0: [sdb] Sense Key\n[1234568.000001] I/O error\n";
        let dtrace = "UID   PID D    BLOCK   SIZE       COMM PATHNAME\n0 1 W 8 512 my app <none>\n";
        let map = crate::tests::forced("csv:op=D,offset=BLOCK:sectors,size=SIZE,separator=space");
        assert_eq!(crate::tests::read(dtrace.as_bytes(), &map).unwrap().1.len(), 1);
        let bpftrace =
            "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash  4179          10\n";
        let cases: [(&[u8], [&str; 2]); 31] = [
            (iostat.as_bytes(), ["sums over intervals", "advise"]),
            (b"Linux 6.1 (nas)\n\nDevice r/s w/s\nsda 1.0 2.0\n", ["sums over intervals", "advise"]),
            (b"Linux 6.1 (nas)\n\n12:00:01 DEV tps rkB/s\n12:00:02 sda 1.0 2.0\n", ["sums over intervals", "advise"]),
            (b"[    1.234567] sd 0:0:0:0: [sda] Attached SCSI disk\n", ["the kernel's log", "blktrace"]),
            (smartctl.as_bytes(), ["smartctl's report", "drives identify"]),
            (kernel.as_bytes(), ["the kernel's log", "blktrace"]),
            (later.as_bytes(), ["the kernel's log", "blktrace"]),
            (bpftrace.as_bytes(), ["bpftrace's biosnoop", "bcc's"]),
            (&tar, ["a tar archive", "tar xf"]),
            (b"{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : []}", ["fio's report", "--write_iolog"]),
            (report.as_bytes(), ["fio's report", "--write_iolog"]),
            (b"500, 20480, 0, 0, 0, 0\n1000, 21504, 1, 0, 0, 0\n", ["fio's log", "--write_iolog"]),
            (b"12, 51234, 0, 4096\n13, 61234, 1, 4096\n14, 6", ["fio's log", "--write_iolog"]),
            (b"0, 453945, 0, 4096, 61440, 0x0000\n", ["fio's log", "--write_iolog"]),
            (b"3;fio-3.36;job;0;0;123;456;789;1;1\n", ["fio's report", "--write_iolog"]),
            (b"[Wed May  1 12:00:00 2024] sd 0:0:0:0: [sda] Attached\n", ["the kernel's log", "blktrace"]),
            (b"2024-05-01T12:00:00,123456+02:00 sd 0:0:0:0: [sda] Attached\n", ["the kernel's log", "blktrace"]),
            (b"May 01 12:00:00 nas kernel: sd 0:0:0:0: [sda] Attached\n", ["the kernel's log", "blktrace"]),
            (b"{\n \"json_format_version\": [1, 0],\n \"smartctl\": {}}\n", ["smartctl's report", "drives identify"]),
            (b"8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", ["sums over intervals", "advise"]),
            (b"\"(PDH-CSV 4.0)\",\"\\\\PC\\PhysicalDisk(0 C:)\\Disk Reads/sec\"\n", ["sums over intervals", "advise"]),
            (b"procs -----------memory---------- -----io----\n r b bi bo\n", ["sums of requests", "iostat -tx 60"]),
            (b"    KB/t  tps  MB/s  us sy id\n   23.45   12  0.27   5  3 92\n", ["sums of requests", "iostat -tx 60"]),
            (b"     usecs           : count     distribution\n", ["sums of requests", "biosnoop"]),
            (
                b"UID   PID D    BLOCK   SIZE       COMM PATHNAME\n0 1 W 8 512 a b\n",
                ["DTrace's iosnoop", "op=D,offset=BLOCK"],
            ),
            (b"46 pwrite64(3, \"x\"..., 512, 4096) = 512 <0.000012>\n", ["calls of programs", "xperf"]),
            (b"{\"time_us\":1,\"op\":\"W\"}\n{\"time_us\":2,\"op\":\"W\"}\n", ["objects of JSON", "@csv"]),
            (b"PERFILE2h\0\0\0\0\0\0\0", ["perf record", "perf script"]),
            (b"\x17\x08Dtracing6\0\0\x08", ["trace-cmd", "trace-cmd report"]),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", ["Git LFS", "git lfs pull"]),
            (b"<!DOCTYPE html><html></html>", ["a web page", "download"]),
        ];
        for (bytes, parts) in cases {
            let error = refused(bytes, &OpenOptions::default());
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(foreign_remedy(b"0,20941264,8192,W,0.551706\n"), None);
        assert_eq!(foreign_remedy(b"1538323200,4247200,128,1,1058\n"), None);
        assert_eq!(foreign_remedy(b"1538323200, 4247200, 128, 1, 1058\n"), None);
        assert_eq!(foreign_remedy(b""), None);
    }

    #[test]
    fn rows_before_the_one_above_them_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let counted = |times: &[u64]| {
            let row = |time: &u64| Request { time: Nanos(*time), ..Request::new(Op::Read, Lba(8), 8) };
            let mut writer = ParquetWriter::create(&path, &Meta::default(), None).unwrap();
            writer.write(&times.iter().map(row).collect::<Vec<_>>()).unwrap();
            writer.finish().unwrap();
            let options = OpenOptions { sha256: false, ..OpenOptions::default() };
            let (mut trace, mut batch) = (Trace::open(&path, &options).unwrap(), Vec::new());
            trace.fill(&mut batch).unwrap();
            assert_eq!((batch.len(), trace.sha256()), (times.len(), None));
            (trace.notes().out_of_order_rows, trace.first_out_of_order())
        };
        assert_eq!(counted(&[0, 5, 5, 9]), (0, None));
        assert_eq!(counted(&[5, 5, 3, 4, 2, 9]), (2, Some(3)));
    }
}
