//! The table of formats: recognition, forcing by name, the page `docs/reference/trace-formats.md` and the fuzzer all read it.
//!
//! A format whose rows are plain columns is a row here. Others have a file of their own, and a line.

use smrkit::error::Error;
use smrkit::names::known;
use smrkit::request::Op;

use crate::blkparse::{Blkparse, Fiu};
use crate::blktrace::Blktrace;
use crate::cachesim::{self, Cachesim};
use crate::fio::{self, Fio};
use crate::msr::Msr;
use crate::number;
use crate::reader::{
    Agreement, Heading, RecordFormat, Records, RowTimes, Rows, Text, TextFormat, first_line_is, record_agreement,
    text_agreement,
};
use crate::row::{Bad, Field, LineColumns, Separator, TraceRow, Volumes, extent};
use crate::served::Served;
use crate::snoop::{Ftrace, Snoop, Xperf};
use crate::srt::Srt;
use crate::vscsi::Vscsi;

/// A trace format.
pub struct Format {
    /// The name by which it is forced and reported.
    pub name: &'static str,
    /// Description in a few words.
    pub about: &'static str,
    /// A row of it, for text formats; for binary ones empty.
    pub sample: &'static str,
    kind: FormatKind,
}

/// Way to recognise and read a format.
#[derive(Clone, Copy)]
enum FormatKind {
    /// Lines of plain columns.
    Lines(&'static LineLayout),
    /// Lines or records with a reader of their own: how well the beginning of a file fits it, and a new reader.
    Content { agrees: fn(&[u8], bool) -> Agreement, rows: fn() -> Box<dyn Rows> },
    /// By the names of its columns, or a map of them.
    Map,
    /// By the magic number of Parquet; it needs the file itself, not a stream.
    Parquet,
}

/// A text format, with a row of it.
const fn text<F>(name: &'static str, about: &'static str, sample: &'static str) -> Format
where
    F: TextFormat + Default + 'static,
{
    let kind = FormatKind::Content {
        agrees: |head, whole| text_agreement(F::default(), head, whole),
        rows: || Box::new(Text(F::default())),
    };
    Format { name, about, sample, kind }
}

const fn binary<F: RecordFormat + Default + 'static>(name: &'static str, about: &'static str) -> Format {
    let kind = FormatKind::Content { agrees: record_agreement::<F>, rows: || Box::new(Records(F::default())) };
    Format { name, about, sample: "", kind }
}

const fn lines(name: &'static str, about: &'static str, sample: &'static str, layout: &'static LineLayout) -> Format {
    Format { name, about, sample, kind: FormatKind::Lines(layout) }
}

/// All formats, the more specific first.
pub const FORMATS: &[Format] = &[
    text::<Served>(
        "smrkit-log",
        "log of a served drive (smrkit serve), with think times",
        "{\"smrkit_log\":1}\nopen new 0\nqueue sptf\nwrite 2048 8 1250000 1250000 9850000\n",
    ),
    text::<Msr>("msr", "MSR Cambridge CSV", "128166372003061629,hm,1,Read,383496192,32768,58000"),
    // SPC trace format 1, as the UMass repository has it. The format allows optional columns after these. An ASU is a volume, and
    // the LBA counts its sectors.
    lines(
        "spc",
        "SPC / UMass CSV",
        "0,20941264,8192,W,0.551706",
        &LineLayout {
            columns: &[
                (Column::Volume, "column 1 (ASU)"),
                (Column::Sector, "column 2 (LBA)"),
                (Column::Bytes, "column 3 (size)"),
                (Column::Letter, "column 4 (opcode)"),
                (Column::Seconds, "column 5 (timestamp)"),
            ],
            end: |_| Ok(()),
            ..COMMAS
        },
    ),
    text::<Ftrace>(
        "ftrace",
        "block events as ftrace, trace-cmd report or perf script print them",
        "  fio-2231 [001] d..1. 100.500010: block_rq_issue: 8,0 WS 8192 () 2000 + 16 [fio]",
    ),
    text::<Blkparse>(
        "blkparse",
        "blkparse text, default format",
        "  8,16   1       12     0.000123456  4162  Q  WS 1052688 + 8 [postgres]",
    ),
    binary::<Blktrace>("blktrace", "blktrace, binary, of one CPU or of all"),
    text::<Snoop>(
        "biosnoop",
        "table of biosnoop (bcc, libbpf-tools) or iosnoop (perf-tools)",
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.000004 postgres 1950 sdb W 13092560 4096 0.74\n",
    ),
    text::<Xperf>(
        "xperf",
        "Windows disk events as xperf dumps them",
        "DiskRead, 8612, xperf.exe (3984), 11844, 0xfffffa80, 0x018f0b8000, 0x00001000, 612, 0, 0x060043",
    ),
    text::<Fio<2>>(
        "fio-v2",
        "fio iolog, version 2",
        "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb write 8192 4096",
    ),
    text::<Fio<3>>(
        "fio-v3",
        "fio iolog, version 3",
        "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n1250 /dev/sdb write 8192 4096",
    ),
    binary::<Vscsi<1>>("vscsi1", "CloudPhysics vscsi, version 1, binary"),
    binary::<Vscsi<2>>("vscsi2", "CloudPhysics vscsi, version 2, binary"),
    binary::<Cachesim<true>>("lcs", "libCacheSim's lcs, binary"),
    binary::<Cachesim<false>>("oracle-general", "libCacheSim's oracleGeneral, binary"),
    // DiskSim 4.0 reference manual, "Input". The `batch` variant adds a number, which is not used.
    lines(
        "disksim",
        "DiskSim ascii",
        "12.403000 0 264480 16 1",
        &LineLayout {
            separator: Separator::Spaces,
            columns: &[
                (Column::Milliseconds, "column 1 (time in ms)"),
                (Column::Volume, "column 2 (device)"),
                (Column::Sector, "column 3 (block)"),
                (Column::Sectors, "column 4 (size)"),
                (Column::Flags, "column 5 (flags)"),
            ],
            end: |line| {
                line.optional("column 6 (batch)").map_or(Ok(0), |batch| batch.integer())?;
                line.end()
            },
            ..COMMAS
        },
    ),
    text::<Measured>(
        "disksim-measured",
        "DiskSim validation trace, with think times",
        "R Hit 1390458 14 12434.375000 27307.318970",
    ),
    binary::<Srt>("srt", "HP Labs SRT, binary"),
    text::<Fiu>(
        "fiu",
        "FIU (SNIA IOTTA 390)",
        "41268007346 2914 nfsd 508661760 8 W 6 0 0123456789abcdef0123456789abcdef",
    ),
    // A cluster of virtual desktops (SNIA IOTTA 4964). A response time may be missing.
    lines(
        "systor17",
        "Systor '17 VDI CSV",
        "1456095145.133076000,0.000806,R,0,899056122368,131072",
        &LineLayout {
            heading: "Timestamp,Response,IOType,LUN,Offset,Size",
            columns: &[
                (Column::Seconds, "column 1 (Timestamp)"),
                (Column::UnusedSeconds, "column 2 (Response)"),
                (Column::Letter, "column 3 (IOType)"),
                (Column::Volume, "column 4 (LUN)"),
                (Column::Byte, "column 5 (Offset)"),
                (Column::Bytes, "column 6 (Size)"),
            ],
            ..COMMAS
        },
    ),
    // SNIA IOTTA 27917. Times are whole seconds.
    lines(
        "tencent",
        "Tencent cloud block storage CSV",
        "1538323200,4247200,128,1,1058",
        &LineLayout {
            heading: "Timestamp,Offset,Size,IOType,VolumeID",
            columns: &[
                (Column::Ticks, "column 1 (Timestamp)"),
                (Column::Sector, "column 2 (Offset)"),
                (Column::Sectors, "column 3 (Size)"),
                (Column::ZeroOrOne, "column 4 (IOType)"),
                (Column::Volume, "column 5 (VolumeID)"),
            ],
            tick_ns: 1_000_000_000,
            ..COMMAS
        },
    ),
    // Traces of 2020. The published files have no heading; one is accepted.
    lines(
        "alibaba",
        "Alibaba cloud block CSV",
        "64,W,1703755776,4096,1577808000000573",
        &LineLayout {
            heading: "device_id,opcode,offset,length,timestamp",
            columns: &[
                (Column::Volume, "column 1 (device_id)"),
                (Column::Letter, "column 2 (opcode)"),
                (Column::Byte, "column 3 (offset)"),
                (Column::Bytes, "column 4 (length)"),
                (Column::Ticks, "column 5 (timestamp)"),
            ],
            tick_ns: 1000,
            ..COMMAS
        },
    ),
    Format {
        name: "csv",
        about: "any table, by its columns' names or a map of them",
        sample: "1250,W,8192,4096",
        kind: FormatKind::Map,
    },
    Format { name: "parquet", about: "smrkit's own columns in Parquet", sample: "", kind: FormatKind::Parquet },
];

/// A text format that is a list of columns.
struct LineLayout {
    separator: Separator,
    /// The names of all columns, which the first line may have; empty for none.
    heading: &'static str,
    /// The columns from left to right, each with the name that errors show.
    columns: &'static [(Column, &'static str)],
    /// Checks what follows the columns.
    end: fn(&mut LineColumns) -> Result<(), Bad>,
    /// Nanoseconds of [`Column::Ticks`]; 1 with other times, which are nanoseconds.
    tick_ns: u64,
}

/// Columns between commas, and nothing after them.
const COMMAS: LineLayout =
    LineLayout { separator: Separator::Byte(b','), heading: "", columns: &[], end: |line| line.end(), tick_ns: 1 };

/// A column of a [`LineLayout`]. The offset comes before the size.
#[derive(Clone, Copy)]
enum Column {
    /// The time, in ticks.
    Ticks,
    /// The time, in seconds with decimals.
    Seconds,
    /// The time, in milliseconds with decimals.
    Milliseconds,
    /// A duration that isn't used, and may be missing.
    UnusedSeconds,
    /// The operation: R or W.
    Letter,
    /// The operation: 0 for a read, 1 for a write.
    ZeroOrOne,
    /// The operation as DiskSim's flags: bit 0 is set for a read.
    Flags,
    /// The offset in bytes, or in sectors.
    Byte,
    Sector,
    /// The size in bytes, or in sectors.
    Bytes,
    Sectors,
    /// The number of the volume.
    Volume,
}

/// The reader of lines of plain columns.
struct PlainLines(&'static LineLayout);

impl TextFormat for PlainLines {
    fn tick_ns(&self) -> u64 {
        self.0.tick_ns
    }

    fn heading(&self, number: u64, line: &[u8]) -> Heading {
        first_line_is(number, line, self.0.heading)
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut line = LineColumns::new(line, self.0.separator);
        let (mut ticks, mut op, mut bounds) = (0, Op::Read, (0, 0));
        let (mut start, mut volume) = ((Field::named(""), 1), (Field::named(""), 0));
        for &(column, name) in self.0.columns {
            let field = line.next(name)?;
            match column {
                Column::Ticks => ticks = field.integer()?,
                Column::Seconds => ticks = field.decimal(1_000_000_000)?,
                Column::Milliseconds => ticks = field.decimal(1_000_000)?,
                Column::UnusedSeconds if field.text.is_empty() => {}
                Column::UnusedSeconds => {
                    field.decimal(1_000_000_000)?;
                }
                Column::Letter => op = field.letter()?,
                Column::ZeroOrOne => {
                    op = match field.text {
                        b"0" => Op::Read,
                        b"1" => Op::Write,
                        _ => return Err(field.expected("0 (read) or 1 (write)")),
                    };
                }
                Column::Flags => op = if field.hexadecimal()? & 1 == 1 { Op::Read } else { Op::Write },
                Column::Byte => start = (field, 1),
                Column::Sector => start = (field, 512),
                Column::Bytes => bounds = extent(start.0, start.1, field, 1)?,
                Column::Sectors => bounds = extent(start.0, start.1, field, 512)?,
                Column::Volume => volume = (field, field.integer()?),
            }
        }
        (self.0.end)(&mut line)?;
        // The volume is looked up last, because a malformed row must not add one.
        let (field, number) = volume;
        let volume = volumes.numbered(number, field, || number.to_string())?;
        let (offset, bytes) = bounds;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// The reason to doubt that the rows are of `format`, though they look so: another program may have written them.
pub(crate) fn doubt(format: &Format, head: &[u8]) -> Option<&'static str> {
    match format.name {
        "disksim" => doubt_of_disksim(head),
        "fio-v3" => fio::doubt(head),
        "lcs" => Some(cachesim::LCS_DOUBT),
        "oracle-general" => Some(cachesim::ORACLE_DOUBT),
        _ => None,
    }
}

/// The reason to doubt rows of DiskSim's shape. DiskSim writes times with decimals, and sectors, so whole times or offsets and sizes in bytes
/// are another program's.
fn doubt_of_disksim(head: &[u8]) -> Option<&'static str> {
    let lines = head.split(|byte| *byte == b'\n').filter(|line| line.first().is_some_and(u8::is_ascii_digit));
    let rows: Vec<Vec<&[u8]>> = lines
        .take(DOUBTED)
        .map(|line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect())
        .collect();
    let column = |at: usize| rows.iter().filter_map(move |row| row.get(at).copied());
    // A text that is no number is no multiple of 512 either.
    let numbers = |at| column(at).map(|text| number::integer(text).unwrap_or(1));
    let has_bytes = numbers(2).all(|offset| offset % 512 == 0) && numbers(3).all(|size| size % 512 == 0);
    match () {
        () if rows.len() < 2 => None,
        () if has_bytes => Some(
            "looks like DiskSim's, but offsets and sizes are multiples of 512, as bytes are: say which they are, with {format} \
             csv:time=0:ms,volume=1,offset=2:bytes,size=3:bytes,op=4:wr,separator=space or with {format} disksim for sectors",
        ),
        () if column(0).all(|time| !time.contains(&b'.')) => Some(
            "looks like DiskSim's, but has whole numbers as times: say in which unit, with {format} \
             csv:time=0:ns,volume=1,offset=2:sectors,size=3:sectors,op=4:wr,separator=space as MQSim and SSDsim write them, or with \
             {format} disksim for milliseconds",
        ),
        () => None,
    }
}

/// Rows that [`doubt_of_disksim`] examines.
const DOUBTED: usize = 1000;

/// DiskSim's validation traces: `R|W`, buffer action, LBN, sectors, measured response time, think time after it, in µs.
///
/// The drive was measured with one request outstanding: each was sent its predecessor's think time after the predecessor's completion. Times
/// by the trace's clock are therefore sums of response and think times. The buffer action isn't used.
#[derive(Debug, Default)]
struct Measured {
    times: RowTimes,
    /// The time of the next request.
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
        // What the clock advances before this row's time, and after it. The trace is of a closed loop: a request arrives and is issued, takes its
        // response time, and the next one arrives after the think time.
        let (before, after) = match self.times {
            RowTimes::Clock | RowTimes::Issue => (0, response.saturating_add(think)),
            RowTimes::Completion => (response, think),
            RowTimes::Think => (0, think),
            RowTimes::Response => (response, 0),
        };
        let ticks = self.clock.saturating_add(before);
        self.clock = ticks.saturating_add(after);
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// The choice of a format by the text of `--format`.
pub(crate) enum Choice {
    /// The format is recognised from the content.
    Recognise,
    /// A format that was named, and its reader.
    Named(&'static Format, Box<dyn Rows>),
    /// A table, with a map of its columns. If the map is empty, the names in the first line decide.
    Csv(String),
    /// blkparse with one kind of event.
    Blkparse(Blkparse),
    /// smrkit's own format.
    Parquet,
}

/// Parses `msr`, `csv:MAP`, `blkparse:Q` and the like.
pub(crate) fn choice(text: Option<&str>) -> Result<Choice, Error> {
    let Some(text) = text else {
        return Ok(Choice::Recognise);
    };
    let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let Some(format) = FORMATS.iter().find(|format| format.name == name) else {
        let names = known(name, FORMATS.iter().map(|format| format.name));
        return Err(Error::Usage(format!("no trace format is called `{name}`; {names}")));
    };
    match (name, argument) {
        ("csv", _) => Ok(Choice::Csv(argument.unwrap_or_default().into())),
        ("blkparse", Some(event)) => Blkparse::choosing(event)
            .map(Choice::Blkparse)
            .ok_or_else(|| Error::Usage(format!("blkparse:{event}: choose blkparse:Q, blkparse:D or blkparse:C"))),
        ("lcs" | "oracle-general", _) => Ok(Choice::Named(format, cachesim::named(name, argument)?)),
        (_, Some(_)) => Err(Error::Usage(format!("the format {name} takes nothing after a colon"))),
        (_, None) => Ok(format.new_rows().map_or(Choice::Parquet, |rows| Choice::Named(format, rows))),
    }
}

/// The names, for messages.
pub(crate) fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

impl Format {
    /// A new reader of its rows; `None` for a table, whose columns must be known first, and for Parquet, which is no stream.
    pub(crate) fn new_rows(&self) -> Option<Box<dyn Rows>> {
        match self.kind {
            FormatKind::Lines(layout) => Some(Box::new(Text(PlainLines(layout)))),
            FormatKind::Content { rows, .. } => Some(rows()),
            FormatKind::Map | FormatKind::Parquet => None,
        }
    }

    /// How many of the first rows the format understands.
    pub(crate) fn agreement(&self, head: &[u8], whole: bool) -> Agreement {
        match self.kind {
            FormatKind::Lines(layout) => text_agreement(PlainLines(layout), head, whole),
            FormatKind::Content { agrees, .. } => agrees(head, whole),
            FormatKind::Map | FormatKind::Parquet => Agreement::default(),
        }
    }
}

/// Returns the format that understands the most of the first rows, and at least half of them. If there is none, returns the one that at least
/// half of the rows resemble, so that an error can name what is wrong with them.
pub(crate) fn recognise(head: &[u8], whole: bool) -> Option<(&'static Format, Agreement)> {
    let found: Vec<_> = FORMATS.iter().map(|format| (format, format.agreement(head, whole))).collect();
    // The format with the most `sure` rows among those that `claim` at least half of all rows. `max_by_key` takes the last of equals, and the
    // first is wanted, so the order is reversed.
    let best = |sure: fn(&Agreement) -> u64, claim: fn(&Agreement) -> u64| {
        let fits = found.iter().filter(|(_, of)| sure(of) > 0 && claim(of) * 2 >= of.lines);
        fits.rev().max_by_key(|(_, of)| (sure(of), claim(of))).copied()
    };
    let understood = |of: &Agreement| of.understood;
    let in_form = |of: &Agreement| of.understood + of.misvalued;
    best(understood, understood).or_else(|| best(in_form, |of| of.understood + of.misvalued + of.partly_understood))
}
