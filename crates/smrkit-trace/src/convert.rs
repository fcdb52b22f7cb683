//! Conversion of a trace to our Parquet format.

use std::path::Path;

use smrkit::error::Error;
use smrkit::request::{InMemory, Source};
use smrkit::units::Nanos;

use crate::open::Trace;
use crate::parquet::{Meta, ParquetWriter};

/// Endings of files in other formats than the one that is written.
const OTHER_ENDINGS: [&str; 9] = ["csv", "tsv", "txt", "log", "json", "gz", "zst", "bz2", "xz"];

/// Refuses a file whose ending tells of another format.
pub fn check_ending(output: &Path) -> Result<(), Error> {
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    match OTHER_ENDINGS.contains(&ending.as_str()) {
        true => Err(Error::Usage(format!(
            "{}: a trace is converted to Parquet, not to .{ending}: name a file that ends in .parquet",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// A Parquet trace that is being written; it appears at `finish`.
pub struct Converter {
    meta: Meta,
    writer: ParquetWriter,
}

impl Converter {
    /// Starts the trace that will become `output`, from one of the format `source_format`.
    pub fn create(output: &Path, source_format: &str) -> Result<Converter, Error> {
        let meta = Meta { source_format: source_format.into(), ..Meta::default() };
        let writer = ParquetWriter::create(output, &meta)?;
        Ok(Converter { meta, writer })
    }

    /// Writes all requests as they come; returns how many.
    pub fn copy(&mut self, source: &mut dyn Source) -> Result<u64, Error> {
        let (mut batch, mut rows) = (Vec::new(), 0);
        while source.fill_next(&mut batch)? {
            rows += batch.len() as u64;
            self.writer.write(&batch)?;
        }
        Ok(rows)
    }

    /// Writes all requests in the order of their times, from zero on; returns how many.
    pub fn sort(&mut self, source: &mut dyn Source) -> Result<u64, Error> {
        let mut all = source.rest()?;
        all.sort_by_key(|request| request.time);
        let first = all.first().map_or(Nanos::ZERO, |request| request.time);
        all.iter_mut().for_each(|request| request.time -= first);
        self.copy(&mut InMemory::new(all))
    }

    /// Adds what `reader` knows once it has been read, and makes the file appear under its name.
    pub fn finish(mut self, reader: &Trace) -> Result<(), Error> {
        self.meta.volumes = reader.volumes().to_vec();
        self.meta.source_sha256 = reader.sha256();
        self.writer.set_meta(&self.meta);
        self.writer.finish()
    }
}
