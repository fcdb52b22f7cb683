//! `smrkit trace`: statistics of a trace, its first rows, conversion to the compact columnar format.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use smrkit::edit::Edit;
use smrkit::error::Error;
use smrkit::experiment::pool::WatchedSource;
use smrkit::message::worded;
use smrkit::request::{Request, Source};
use smrkit_trace::info::TraceInfo;
use smrkit_trace::parquet::{self, Meta, ParquetWriter};
use smrkit_trace::{OpenOptions, RowTimes, Trace as Reader, TraceNotes};

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::output::{JsonTarget, pretty, print};
use crate::{exit, paths, style};
use smrkit_options::value::count;
use smrkit_report::trace_info;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit trace head trace.csv.zst
  smrkit trace info trace.csv.zst
  smrkit trace convert trace.csv.zst trace.parquet")]
pub struct Trace {
    #[command(subcommand)]
    what: TraceCommand,
}

#[derive(Subcommand)]
enum TraceCommand {
    /// Requests, mix, footprint, sizes, sequentiality, rate over time, tracks written.
    Info(Info),
    /// Write a trace in the compact columnar format (Parquet).
    Convert(Convert),
    /// The first requests, as they are understood.
    Head(Head),
}

/// Options of reading a trace.
#[derive(Args)]
struct Input {
    /// The trace file; - is standard input.
    trace: PathBuf,
    /// The trace's format, if not recognised.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Count and report malformed rows instead of stopping.
    #[arg(long)]
    skip_bad_rows: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit trace info trace.csv.zst
  smrkit trace info trace.csv --json
  zcat trace.csv.gz | smrkit trace info -")]
struct Info {
    #[command(flatten)]
    input: Input,
    /// Print JSON. Or write it into a file.
    #[arg(long, value_name = "OUT|-", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit trace convert trace.csv.zst trace.parquet
  smrkit trace convert unordered.csv ordered.parquet --sort
  smrkit trace convert week.csv monday.parquet --edit until=24h,split=64KiB")]
struct Convert {
    #[command(flatten)]
    input: Input,
    /// The file to write.
    output: PathBuf,
    /// Sort by time. Needs memory for all requests.
    #[arg(long, conflicts_with = "edit")]
    sort: bool,
    /// Change the requests, as --edit of smrkit run does.
    #[arg(long, value_name = "SPEC", value_parser = Edit::from_str)]
    edit: Option<Edit>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit trace head trace.csv
  smrkit trace head table.txt -n 3 --format csv:time=0:us,op=1,offset=2:bytes,size=3:bytes")]
struct Head {
    #[command(flatten)]
    input: Input,
    /// Number of requests.
    #[arg(short = 'n', long, value_parser = count::<usize>, default_value = "10", value_name = "N")]
    count: usize,
}

impl Trace {
    pub fn execute(self) -> anyhow::Result<Done> {
        match self.what {
            TraceCommand::Info(info) => info.execute(),
            TraceCommand::Convert(convert) => convert.execute(),
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
        let interrupt = Interrupt::watch();
        let opening = interrupt.opening_outputs(std::slice::from_ref(&self.input.trace), self.json.as_slice())?;
        let json = self.json.as_deref().map(JsonTarget::open).transpose()?;
        drop(opening);
        let mut watched = WatchedSource::new(self.input.open()?, &interrupt, "reading");
        let mut info = TraceInfo::from_source(&mut watched)?;
        let (reader, done) = (watched.finish(), interrupt.done());
        interrupt.writing();
        info.name_volumes(reader.volumes());
        match json {
            Some(json) => json.write(pretty(&trace_info::json(&self.input.trace, &reader, &info)?)?)?,
            None => print(worded(&trace_info::text(&self.input.trace, &reader, &info), &exit::option))?,
        }
        if done == Done::Interrupted {
            eprintln!("smrkit: interrupted; these are the statistics of the first {} requests", info.requests);
        }
        Ok(done)
    }
}

impl Convert {
    fn execute(self) -> anyhow::Result<Done> {
        let (input, output) = (std::slice::from_ref(&self.input.trace), std::slice::from_ref(&self.output));
        paths::check(input, output)?;
        parquet::check_ending(&self.output)?;
        let interrupt = Interrupt::watch();
        let mut reader = if self.sort { self.input.open()?.with_absolute_times() } else { self.input.open()? };
        let mut thinking = None;
        if reader.has_think_times() {
            // Think times hold for the original requests in their order only, and need a second pass, which a pipe does not allow.
            if self.edit.is_none() && !self.sort && self.input.trace.is_file() {
                let options = OpenOptions { times: RowTimes::Think, ..self.input.options() };
                thinking = Some(Reader::open(&self.input.trace, &options)?);
            } else {
                warn_of(vec!["its think times are left out: --arrival closed needs the original".into()]);
            }
        }
        let opening = interrupt.opening_outputs(input, output)?;
        let thinking = thinking.as_mut().map(|trace| trace as &mut dyn Source);
        let meta = Meta { source_format: reader.format.into(), ..Meta::default() };
        let mut writer = ParquetWriter::create(&self.output, &meta, thinking)?;
        drop(opening);
        let is_edited = self.edit.is_some();
        let edit = self.edit.unwrap_or_default();
        let mut watched = WatchedSource::new(edit.apply(reader, u64::MAX), &interrupt, "converting");
        let rows = if self.sort { writer.sort(&mut watched)? } else { writer.copy(&mut watched)? };
        // The reader is within `Edited`, which packs (`Packed`) what is taken (`Taken`) of it.
        let (reader, done) = (watched.finish().source.source.source, interrupt.done());
        if done == Done::Interrupted {
            return Ok(done);
        }
        if rows == 0 {
            return Err(Error::input(&self.input.trace, "no request is left to write: check the edit").into());
        }
        interrupt.writing();
        // An edited trace is no copy of its source, so it gets no hash.
        writer.meta.volumes = reader.volumes().to_vec();
        writer.meta.source_sha256 = reader.sha256().filter(|_| !is_edited);
        writer.finish()?;
        warn(reader.notes());
        let bytes = std::fs::metadata(&self.output).map_or(0, |file| file.len());
        eprintln!(
            "{rows} requests ({}) into {}: {bytes} bytes, {:.2} a request",
            reader.format,
            self.output.display(),
            bytes as f64 / rows.max(1) as f64
        );
        Ok(done)
    }
}

impl Head {
    fn execute(self) -> anyhow::Result<Done> {
        let mut reader = self.input.open()?;
        let (mut batch, mut rows) = (Vec::new(), Vec::new());
        while rows.len() < self.count && reader.fill_next(&mut batch)? {
            rows.extend(batch.iter().take(self.count - rows.len()).copied());
        }
        let volume = |request: &Request| reader.volumes().get(usize::from(request.volume)).map_or(0, |v| v.number);
        print(trace_info::head(reader.format, &rows, volume))?;
        Ok(Done::All)
    }
}

/// Warns on standard error, once, of rows that were mended, skipped or out of order.
pub fn warn(notes: TraceNotes) {
    warn_of(trace_info::warnings(notes));
}

/// Says so on standard error.
pub fn warn_of(warnings: Vec<String>) {
    if !style::is_quiet() {
        warnings.iter().for_each(|warning| eprintln!("smrkit: warning: {}", worded(warning, &exit::option)));
    }
}
