//! `smrkit trace`: what a trace holds, its first rows, conversion to the compact columnar format, and its volumes apart.

mod split;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use smrkit::error::Error;
use smrkit::experiment::pool::{Monitor, RunStage, Stage};
use smrkit::request::{InMemory, Progress, Request, Source};
use smrkit::schema::Size;
use smrkit::units::Nanos;
use smrkit_trace::info::{InfoSettings, TraceInfo};
use smrkit_trace::parquet::{Meta, ParquetWriter};
use smrkit_trace::{OpenOptions, Trace as Reader, TraceNotes};

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::figures::{self, FigureFormat};
use crate::output::target::Folder;
use crate::output::{JsonTarget, Paths, print, print_json};
use crate::style;
use smrkit_options::value::{count, value};
use smrkit_report::trace_info;

const EXAMPLES: &str = "\
Examples:
  smrkit trace head trace.csv.zst
  smrkit trace info trace.csv.zst --figures figures
  smrkit trace convert trace.csv.zst trace.parquet
  smrkit trace split cloud.csv.zst cloud.volumes";

const INFO_EXAMPLES: &str = "\
Examples:
  smrkit trace info trace.csv.zst
  smrkit trace info trace.csv --json
  zcat trace.csv.gz | smrkit trace info -";

const CONVERT_EXAMPLES: &str = "\
Examples:
  smrkit trace convert trace.csv.zst trace.parquet
  smrkit trace convert unordered.csv ordered.parquet --sort";

const HEAD_EXAMPLES: &str = "\
Examples:
  smrkit trace head trace.csv
  smrkit trace head table.txt -n 3 --format csv:time=0:us,op=1,offset=2:bytes,size=3:bytes";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Trace {
    #[command(subcommand)]
    what: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// Requests, mix, footprint, sizes, sequentiality, rate over time, hot spots, tracks written.
    Info(Info),
    /// Write a trace in the compact columnar format (Parquet).
    Convert(Convert),
    /// Sort a trace into buckets of volumes, for sweeps over them.
    Split(split::Split),
    /// The first requests, as they are understood.
    Head(Head),
}

/// Options of reading a trace.
#[derive(Args)]
struct Input {
    /// The trace file; - is standard input.
    trace: PathBuf,
    /// The trace's format, where it is not to be recognised.
    #[arg(long)]
    format: Option<String>,
    /// Count and report malformed rows instead of stopping.
    #[arg(long)]
    skip_bad_rows: bool,
}

#[derive(Args)]
#[command(after_help = INFO_EXAMPLES)]
struct Info {
    #[command(flatten)]
    input: Input,
    /// Print JSON, or write it into a file.
    #[arg(long, value_name = "OUT|-", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the figures into this directory.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// The figures' format.
    #[arg(long, value_enum, default_value_t)]
    figure_format: FigureFormat,
    /// The size of a track, for the count of distinct tracks written.
    #[arg(long, value_parser = value(Size(0, u64::MAX)), default_value = "1MiB", value_name = "SIZE")]
    track_bytes: u64,
}

#[derive(Args)]
#[command(after_help = CONVERT_EXAMPLES)]
struct Convert {
    #[command(flatten)]
    input: Input,
    /// The file to write.
    output: PathBuf,
    /// Put the requests in the order of their times (needs memory for all of them).
    #[arg(long)]
    sort: bool,
}

#[derive(Args)]
#[command(after_help = HEAD_EXAMPLES)]
struct Head {
    #[command(flatten)]
    input: Input,
    /// Number of requests.
    #[arg(short = 'n', long, value_parser = count::<usize>, default_value = "10")]
    count: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Trace {
    pub fn execute(self) -> anyhow::Result<Done> {
        match self.what {
            TraceCommand::Info(info) => info.execute(),
            TraceCommand::Convert(convert) => convert.execute(),
            TraceCommand::Split(split) => split.execute(),
            TraceCommand::Head(head) => head.execute(),
        }
    }
}

impl Input {
    fn options(&self) -> OpenOptions {
        OpenOptions { format: self.format.clone(), skip_bad_rows: self.skip_bad_rows, ..OpenOptions::default() }
    }

    fn open(&self) -> Result<Reader, Error> {
        Reader::open(&self.trace, &self.options())
    }
}

impl Info {
    fn execute(self) -> anyhow::Result<Done> {
        let paths = Paths {
            inputs: vec![self.input.trace.clone()],
            outputs: self.json.iter().cloned().collect(),
            folders: self.figures.iter().map(|folder| (folder.clone(), self.figure_format.ending())).collect(),
        };
        paths.check()?;
        let interrupt = Interrupt::watch();
        let opening = paths.opening(&interrupt);
        let json = self.json.as_deref().map(JsonTarget::open).transpose()?;
        let folder = self.figures.as_ref().map(Folder::open).transpose()?;
        drop(opening);
        let mut watched = Watched::new(self.input.open()?, "reading");
        let mut info = TraceInfo::from_source(&mut watched, &InfoSettings { track_bytes: self.track_bytes })?;
        let (reader, done) = watched.finish();
        interrupt.writing();
        info.name_volumes(reader.volumes());
        if let Some(folder) = &folder {
            figures::write_all(&trace_info::figures(&info), folder, self.figure_format)?;
        }
        match json {
            Some(json) => json.write(&trace_info::json(&self.input.trace, &reader, &info)?)?,
            None => print(trace_info::text(&self.input.trace, &reader, &info))?,
        }
        if done == Done::Interrupted {
            eprintln!("smrkit: interrupted; these are the statistics of the first {} requests", info.requests);
        }
        Ok(done)
    }
}

impl Convert {
    fn execute(self) -> anyhow::Result<Done> {
        let paths =
            Paths { inputs: vec![self.input.trace.clone()], outputs: vec![self.output.clone()], ..Paths::default() };
        paths.check()?;
        refuse_other_formats(&self.output)?;
        let interrupt = Interrupt::watch();
        let reader = match self.sort {
            true => self.input.open()?.with_absolute_times(),
            false => self.input.open()?,
        };
        let mut meta = Meta { source_format: reader.format().into(), ..Meta::default() };
        let opening = paths.opening(&interrupt);
        let mut writer = ParquetWriter::create(&self.output, &meta)?;
        drop(opening);
        let mut watched = Watched::new(reader, "converting");
        let mut rows = 0u64;
        if self.sort {
            let mut all = read_all(&mut watched)?;
            all.sort_by_key(|request| request.time);
            let first = all.first().map_or(Nanos::ZERO, |request| request.time);
            all.iter_mut().for_each(|request| request.time -= first);
            rows = copy(&mut InMemory::new(all), &mut writer)?;
        } else {
            rows += copy(&mut watched, &mut writer)?;
        }
        let (reader, done) = watched.finish();
        if done == Done::Interrupted {
            return Ok(done);
        }
        interrupt.writing();
        meta.volumes = reader.volumes().to_vec();
        meta.source_sha256 = reader.sha256();
        writer.set_meta(&meta);
        writer.finish()?;
        warn(reader.notes());
        let bytes = std::fs::metadata(&self.output).map_or(0, |file| file.len());
        eprintln!(
            "{rows} requests ({}) into {}: {bytes} bytes, {:.2} a request",
            reader.format(),
            self.output.display(),
            bytes as f64 / rows.max(1) as f64
        );
        Ok(done)
    }
}

/// Endings of files in other formats than the one that is written.
const OTHER_ENDINGS: [&str; 9] = ["csv", "tsv", "txt", "log", "json", "gz", "zst", "bz2", "xz"];

fn refuse_other_formats(output: &Path) -> Result<(), Error> {
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    match OTHER_ENDINGS.contains(&ending.as_str()) {
        true => Err(Error::Usage(format!(
            "{}: a trace is converted to Parquet, not to .{ending}: name a file that ends in .parquet",
            output.display()
        ))),
        false => Ok(()),
    }
}

fn copy(source: &mut dyn Source, writer: &mut ParquetWriter) -> Result<u64, Error> {
    let (mut batch, mut rows) = (Vec::new(), 0);
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(rows);
        }
        rows += batch.len() as u64;
        writer.write(&batch)?;
    }
}

fn read_all(source: &mut dyn Source) -> Result<Vec<Request>, Error> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

impl Head {
    fn execute(self) -> anyhow::Result<Done> {
        let mut reader = self.input.open()?;
        let (mut batch, mut rows) = (Vec::new(), Vec::new());
        while rows.len() < self.count {
            reader.fill(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            rows.extend(batch.iter().take(self.count - rows.len()).copied());
        }
        let volume = |request: &Request| reader.volumes().get(usize::from(request.volume)).map_or(0, |v| v.number);
        if self.json {
            print_json(&rows.iter().map(|request| row_json(request, volume(request))).collect::<Vec<_>>())?;
        } else {
            let mut text = format!(
                "format {}\n{:>16}  {:>6}  {:<8}  {:>14}  {:>9}\n",
                reader.format(),
                "time s",
                "volume",
                "op",
                "LBA",
                "sectors"
            );
            for request in &rows {
                let time = format!("{:.6}", request.time.as_secs());
                let op = request.op.name();
                text += &format!(
                    "{time:>16}  {:>6}  {op:<8}  {:>14}  {:>9}\n",
                    volume(request),
                    request.lba,
                    request.sectors
                );
            }
            print(text)?;
        }
        Ok(Done::All)
    }
}

fn row_json(request: &Request, volume: u64) -> serde_json::Value {
    serde_json::json!({
        "time_ns": request.time, "volume": volume, "op": request.op, "lba": request.lba, "sectors": request.sectors
    })
}

/// Says on standard error, once, what the trace made necessary.
pub fn warn(notes: TraceNotes) {
    let said = [
        (notes.skipped_rows, "malformed row was left out", "malformed rows were left out"),
        (
            notes.unaligned_rows,
            "row was not aligned to 512 bytes; its offset was rounded down, its end up",
            "rows were not aligned to 512 bytes; their offsets were rounded down, their ends up",
        ),
        (
            notes.out_of_order_rows,
            "row has a time before the row above it",
            "rows have a time before the row above them",
        ),
    ];
    for (count, one, several) in said.into_iter().filter(|(count, ..)| *count > 0 && !style::is_quiet()) {
        eprintln!("smrkit: warning: {count} {}", if count == 1 { one } else { several });
    }
}

/// A trace that shows its progress, and ends early on an interrupt.
struct Watched {
    reader: Reader,
    stage: Box<dyn Stage>,
    interrupt: Interrupt,
}

impl Watched {
    fn new(reader: Reader, what: &str) -> Watched {
        let interrupt = Interrupt::watch();
        Watched { reader, stage: interrupt.begin(1, what), interrupt }
    }

    fn finish(self) -> (Reader, Done) {
        let done = if self.interrupt.is_set() { Done::Interrupted } else { Done::All };
        (self.reader, done)
    }
}

impl Source for Watched {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        if self.interrupt.is_set() {
            batch.clear();
            return Ok(());
        }
        self.reader.fill(batch)?;
        self.stage.show(0, RunStage::Serving { progress: self.reader.progress(), rate: None });
        Ok(())
    }

    fn progress(&self) -> Progress {
        self.reader.progress()
    }
}
