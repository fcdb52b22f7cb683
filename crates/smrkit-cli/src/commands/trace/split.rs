//! `smrkit trace split`: one pass that sorts a trace into buckets of volumes.

use std::path::PathBuf;

use clap::Args;
use smrkit::error::Error;
use smrkit::experiment::pool::{Monitor, RunStage};
use smrkit_options::value::count;
use smrkit_trace::partial::temporary_folder_of;
use smrkit_trace::split::{BUCKETS_MAX, Splitter};

use super::{Input, warn};
use crate::exit::Done;
use crate::interrupt::Interrupt;

const EXAMPLES: &str = "\
The folder gets a Parquet trace for each bucket of volumes, and volumes.json, which lists the volumes. Memory does not grow with \
the trace. In a sweep, volumes = \"DIR\" runs each volume on a disk of its own.

Examples:
  smrkit trace split cloud.csv.zst cloud.volumes
  zcat part-*.csv.gz | smrkit trace split - cloud.volumes --buckets 256";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Split {
    #[command(flatten)]
    input: Input,
    /// The folder to make; it must be missing or empty.
    folder: PathBuf,
    /// Number of buckets, 256 at most. More for a trace of many billions of requests.
    #[arg(long, value_parser = buckets, default_value = "64", value_name = "N")]
    buckets: usize,
}

fn buckets(text: &str) -> Result<usize, Error> {
    let buckets = count::<usize>(text)?;
    match (1..=BUCKETS_MAX).contains(&buckets) {
        true => Ok(buckets),
        false => Err(Error::Usage(format!("{buckets} buckets: give 1 to {BUCKETS_MAX}"))),
    }
}

impl Split {
    pub fn execute(self) -> anyhow::Result<Done> {
        let options = self.input.options();
        let interrupt = Interrupt::watch();
        let mut reader = self.input.open()?;
        interrupt.opening().push(temporary_folder_of(&self.folder));
        let mut splitter = Splitter::create(&self.folder, self.buckets)?;
        let stage = interrupt.begin(1, "splitting");
        let is_whole = splitter.split(&mut reader, |progress| {
            stage.show(0, RunStage::Serving { progress, rate: None });
            !interrupt.is_set()
        })?;
        drop(stage);
        if !is_whole {
            return Ok(Done::Interrupted);
        }
        interrupt.writing();
        let split = splitter.finish(&self.input.trace, &options, &reader)?;
        warn(split.trace_notes);
        let files = split.buckets.iter().map(|bucket| bucket.files.len()).sum::<usize>();
        eprintln!(
            "{} requests ({}) of {} volumes into {}: {files} files",
            split.requests,
            split.trace_format,
            split.volumes.len(),
            self.folder.display()
        );
        Ok(Done::All)
    }
}
