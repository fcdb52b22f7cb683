//! Our own Parquet format among the readers of traces.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cpus;
use crate::parquet::ParquetReader;
use crate::reader::Reader;
use crate::volume::Volume;
use smrkit::error::Error;
use smrkit::request::{Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;
use smrkit::units::Nanos;

/// A Parquet trace; its rows were checked when it was written, so only their order is noted here.
pub(super) struct ParquetTrace {
    reader: ParquetReader,
    path: PathBuf,
    hash: bool,
    rows: u64,
    last: Nanos,
    out_of_order_rows: u64,
    first_out_of_order: Option<u64>,
}

impl ParquetTrace {
    /// Opens a file; `hash` asks for its SHA-256.
    pub fn open(path: &Path, hash: bool) -> Result<ParquetTrace, Error> {
        let reader = ParquetReader::open(path)?;
        let (path, last) = (path.to_path_buf(), Nanos::ZERO);
        Ok(ParquetTrace { reader, path, hash, rows: 0, last, out_of_order_rows: 0, first_out_of_order: None })
    }
}

impl Reader for ParquetTrace {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.reader.fill(batch)?;
        for request in batch {
            self.rows += 1;
            if request.time < self.last {
                self.out_of_order_rows += 1;
                self.first_out_of_order.get_or_insert(self.rows);
            }
            self.last = request.time;
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        self.reader.progress()
    }

    fn volumes(&self) -> &[Volume] {
        self.reader.volumes()
    }

    fn notes(&self) -> TraceNotes {
        TraceNotes { out_of_order_rows: self.out_of_order_rows, ..TraceNotes::default() }
    }

    fn first_out_of_order(&self) -> Option<u64> {
        self.first_out_of_order
    }

    /// The columns are read in parts, so the file is read once more for its hash.
    fn sha256(&self) -> Option<String> {
        if self.hash { file_sha256(&self.path).ok() } else { None }
    }
}

/// The SHA-256 of a file as it lies on the disk.
pub fn file_sha256(path: &Path) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut cpus::open(path)?.0, &mut HashWriter(&mut hasher))?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Feeds a hash with what is written to it.
struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use smrkit::request::Op;
    use smrkit::units::Lba;

    use super::*;
    use crate::parquet::{Meta, ParquetWriter};

    #[test]
    fn rows_before_the_one_above_them_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let counted = |times: &[u64]| {
            let row = |time: &u64| Request { time: Nanos(*time), ..Request::new(Op::Read, Lba(8), 8) };
            let mut writer = ParquetWriter::create(&path, &Meta::default()).unwrap();
            writer.write(&times.iter().map(row).collect::<Vec<_>>()).unwrap();
            writer.finish().unwrap();
            let (mut trace, mut batch) = (ParquetTrace::open(&path, false).unwrap(), Vec::new());
            trace.fill(&mut batch).unwrap();
            assert_eq!((batch.len(), trace.sha256()), (times.len(), None));
            (trace.notes().out_of_order_rows, trace.first_out_of_order())
        };
        assert_eq!(counted(&[0, 5, 5, 9]), (0, None));
        assert_eq!(counted(&[5, 5, 3, 4, 2, 9]), (2, Some(3)));
    }
}
