//! The table of formats. A new one is a file next to this and a line here; recognition, forcing by name, the page
//! `docs/reference/trace-formats.md` and the fuzzer all read the table.

use crate::alibaba::Alibaba;
use crate::blkparse::Blkparse;
use crate::blktrace::Blktrace;
use crate::clf::Clf;
use crate::disksim::Disksim;
use crate::fio::Fio;
use crate::fiu::Fiu;
use crate::input::Stream;
use crate::measured::Measured;
use crate::msr::Msr;
use crate::reader::Reader;
use crate::record::{self, RecordFormat, Records};
use crate::spc::Spc;
use crate::srt::Srt;
use crate::systor17::Systor17;
use crate::tencent::Tencent;
use crate::text::{self, Agreement, Text, TextFormat};
use crate::vscsi::Vscsi;
use smrkit::error::Error;
use smrkit::names::known;

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

/// Way to recognise and open a format.
enum FormatKind {
    /// By its content.
    Content { agrees: fn(&[u8], bool) -> Agreement, open: fn(Stream, bool) -> Box<dyn Reader> },
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
    let open = |stream, skip| -> Box<dyn Reader> { Box::new(Text::new(stream, F::default(), skip)) };
    Format { name, about, sample, kind: FormatKind::Content { agrees: text::agrees::<F>, open } }
}

const fn binary<F: RecordFormat + Default + 'static>(name: &'static str, about: &'static str) -> Format {
    let open = |stream, skip| -> Box<dyn Reader> { Box::new(Records::new(stream, F::default(), skip)) };
    Format { name, about, sample: "", kind: FormatKind::Content { agrees: record::agrees::<F>, open } }
}

/// All formats, the more specific first.
pub const FORMATS: &[Format] = &[
    text::<Msr>("msr", "MSR Cambridge CSV", "128166372003061629,hm,1,Read,383496192,32768,58000"),
    text::<Spc>("spc", "SPC / UMass CSV", "0,20941264,8192,W,0.551706"),
    text::<Blkparse>(
        "blkparse",
        "blkparse text, default format",
        "  8,16   1       12     0.000123456  4162  Q  WS 1052688 + 8 [postgres]",
    ),
    binary::<Blktrace>("blktrace", "blktrace, binary, of one CPU or of all"),
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
    text::<Disksim>("disksim", "DiskSim ascii", "12.403000 0 264480 16 1"),
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
    text::<Systor17>("systor17", "Systor '17 VDI CSV", "1456095145.133076000,0.000806,R,0,899056122368,131072"),
    text::<Tencent>("tencent", "Tencent cloud block storage CSV", "1538323200,4247200,128,1,1058"),
    text::<Alibaba>("alibaba", "Alibaba cloud block CSV", "64,W,1703755776,4096,1577808000000573"),
    text::<Clf>(
        "clf",
        "web-server log, Common Log Format or combined",
        "host7 - - [01/Jul/1995:00:00:01 -0400] \"GET /a/index.html HTTP/1.0\" 200 6245",
    ),
    Format {
        name: "csv",
        about: "any table, by its columns' names or a map of them",
        sample: "1250,W,8192,4096",
        kind: FormatKind::Map,
    },
    Format { name: "parquet", about: "smrkit's own columns in Parquet", sample: "", kind: FormatKind::Parquet },
];

/// Format that a `--format` text asks for.
pub(crate) enum Choice {
    /// Whatever the content says.
    Recognise,
    /// A format that was named.
    Named(&'static Format),
    /// A table, with a map of its columns; an empty one leaves all to the names in the first line.
    Csv(String),
    /// blkparse with one kind of event.
    Blkparse(Blkparse),
    /// Our own.
    Parquet,
}

/// Understands `msr`, `csv:MAP`, `blkparse:Q` and the like.
pub(crate) fn choice(text: Option<&str>) -> Result<Choice, Error> {
    let Some(text) = text else {
        return Ok(Choice::Recognise);
    };
    let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let Some(format) = FORMATS.iter().find(|format| format.name == name) else {
        return Err(Error::Usage(format!(
            "no trace format is called `{name}`; {}",
            known(name, FORMATS.iter().map(|format| format.name))
        )));
    };
    match (&format.kind, name, argument) {
        (FormatKind::Map, ..) => Ok(Choice::Csv(argument.unwrap_or_default().into())),
        (_, "blkparse", Some(event)) => match Blkparse::choosing(event) {
            Some(format) => Ok(Choice::Blkparse(format)),
            None => Err(Error::Usage(format!("blkparse:{event}: choose blkparse:Q or blkparse:D"))),
        },
        (_, _, Some(_)) => Err(Error::Usage(format!("the format {name} takes nothing after a colon"))),
        (FormatKind::Parquet, _, None) => Ok(Choice::Parquet),
        (_, _, None) => Ok(Choice::Named(format)),
    }
}

/// The names, for messages.
pub(crate) fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

impl Format {
    /// Number of the first rows that it understands.
    pub(crate) fn agreement(&self, head: &[u8], whole: bool) -> Agreement {
        match self.kind {
            FormatKind::Content { agrees, .. } => agrees(head, whole),
            FormatKind::Map | FormatKind::Parquet => Agreement::default(),
        }
    }

    /// Reads a stream in this format.
    pub(crate) fn open(&self, stream: Stream, skip_bad_rows: bool) -> Option<Box<dyn Reader>> {
        match self.kind {
            FormatKind::Content { open, .. } => Some(open(stream, skip_bad_rows)),
            FormatKind::Map | FormatKind::Parquet => None,
        }
    }
}

/// The format that understands most of the first rows: at least half of them. Where there is none, the one that half of
/// the rows were meant to be of, so that their mistakes can be named.
pub(crate) fn recognise(head: &[u8], whole: bool) -> Option<&'static Format> {
    let found: Vec<(&Format, Agreement)> =
        FORMATS.iter().map(|format| (format, format.agreement(head, whole))).collect();
    best(&found, |of| of.understood, |of| of.understood)
        .or_else(|| best(&found, |of| of.understood + of.misvalued, |of| of.understood + of.misvalued + of.begun))
}

/// The first format that is `sure` of the most rows, if it can `claim` at least half of them.
fn best(
    found: &[(&'static Format, Agreement)],
    sure: fn(&Agreement) -> u64,
    claim: fn(&Agreement) -> u64,
) -> Option<&'static Format> {
    let fits = found.iter().filter(|(_, of)| sure(of) > 0 && claim(of) * 2 >= of.lines);
    // Of equals `max_by_key` would take the last.
    fits.rev().max_by_key(|(_, of)| (sure(of), claim(of))).map(|(format, _)| *format)
}
