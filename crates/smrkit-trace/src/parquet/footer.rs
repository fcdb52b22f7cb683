//! The footer of our Parquet traces: where the columns stand, and what the file says about itself.

use std::fs::File;
use std::io::{Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescPtr;

use super::{COLUMNS, FORMAT, KEY_FORMAT, KEY_SOURCE_FORMAT, KEY_SOURCE_SHA256, KEY_VERSION, KEY_VOLUME};
use super::{Meta, TICKS, VERSION};
use crate::volume::Volume;
use smrkit::error::Error;

/// The most volumes: a request's index has 16 bits.
const VOLUMES: usize = 1 << 16;
const MAGIC: &[u8; 4] = b"PAR1";
const AGAIN: &str = "convert the original trace again with `smrkit trace convert`";

/// Part of the footer that reading a trace needs.
pub(super) struct Footer {
    pub(super) meta: Meta,
    pub(super) tick_ns: u64,
    pub(super) rows: u64,
    /// Places of time, op, lba, sectors and volume among the columns.
    pub(super) columns: [usize; 5],
}

impl Footer {
    /// Opens `file` and reads its footer.
    pub(super) fn read(path: &Path, file: File) -> Result<(SerializedFileReader<File>, Footer), Error> {
        let file = load(path, file)?;
        let metadata = file.metadata();
        let bad = |message: String| Error::input(path, message);
        let meta = meta(metadata).map_err(bad)?;
        let (tick_ns, columns) = columns(metadata).map_err(bad)?;
        let counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
        let rows = counts.sum::<Option<u64>>();
        let rows = rows.filter(|&rows| i64::try_from(rows) == Ok(metadata.file_metadata().num_rows()));
        let rows = rows.ok_or_else(|| bad(format!("the footer is damaged (its row counts disagree): {AGAIN}")))?;
        Ok((file, Footer { meta, tick_ns, rows, columns }))
    }
}

fn load(path: &Path, mut file: File) -> Result<SerializedFileReader<File>, Error> {
    let failed = |error| Error::reading(path, error);
    let mut head = Vec::new();
    file.rewind().map_err(failed)?;
    (&mut file).take(4).read_to_end(&mut head).map_err(failed)?;
    if head != MAGIC {
        return Err(Error::input(path, "not a Parquet file: it does not begin with PAR1; check the path"));
    }
    guarded(|| SerializedFileReader::new(file)).map_err(|error| {
        Error::input(path, format!("the Parquet file is cut short, or its footer damaged ({error}): {AGAIN}"))
    })
}

/// Runs the Parquet crate, whose assertions a damaged file can trip.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("its pages contradict themselves".to_string())))
}

fn meta(metadata: &ParquetMetaData) -> Result<Meta, String> {
    let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
    if value(KEY_FORMAT) != Some(FORMAT) {
        let remedy = "give the original trace, or one written by `smrkit trace convert`";
        return Err(format!("a Parquet file, but not a trace of smrkit's (no key {KEY_FORMAT} = {FORMAT}): {remedy}"));
    }
    match value(KEY_VERSION).and_then(|version| version.parse::<u32>().ok()) {
        Some(version) if (1..=VERSION).contains(&version) => {}
        Some(version) => {
            return Err(format!("version {version} of the format; this smrkit reads up to {VERSION}: update smrkit"));
        }
        None => return Err(format!("the footer is damaged (no {KEY_VERSION}): {AGAIN}")),
    }
    let mut volumes = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.key.starts_with(KEY_VOLUME)) {
        let text = pair.value.as_deref().unwrap_or("");
        let (number, name) = text.split_once(' ').unwrap_or((text, ""));
        // The keys stand in the order of their indexes.
        let in_order = pair.key[KEY_VOLUME.len()..].parse() == Ok(volumes.len());
        match number.parse() {
            Ok(number) if in_order && volumes.len() < VOLUMES => {
                volumes.push(Volume { number, name: name.to_string() })
            }
            _ => return Err(format!("the footer is damaged (the table of volumes, at {}): {AGAIN}", pair.key)),
        }
    }
    Ok(Meta {
        source_format: value(KEY_SOURCE_FORMAT).unwrap_or("").to_string(),
        source_sha256: value(KEY_SOURCE_SHA256).map(str::to_string),
        volumes,
    })
}

/// The unit of the time column, and where the five columns stand.
fn columns(metadata: &ParquetMetaData) -> Result<(u64, [usize; 5]), String> {
    let present = metadata.file_metadata().schema_descr().columns();
    let find = |name: &str, physical| {
        let fits = |column: &ColumnDescPtr| {
            let flat = column.max_def_level() == 0 && column.max_rep_level() == 0;
            column.path().string() == name && flat && column.physical_type() == physical
        };
        present.iter().position(fits)
    };
    let time = TICKS.iter().find_map(|tick| Some((tick.ns, find(tick.column, Physical::INT64)?)));
    let missing = |name: &str| format!("column {name} is missing, or is not a required whole number: {AGAIN}");
    let (tick_ns, time) = time.ok_or_else(|| missing("time_ns (or _100ns, _us, _ms, _s)"))?;
    let mut found = [time; 5];
    for (at, column) in COLUMNS.iter().enumerate() {
        let physical = if column.bits == 64 { Physical::INT64 } else { Physical::INT32 };
        found[at + 1] = find(column.name, physical).ok_or_else(|| missing(column.name))?;
    }
    Ok((tick_ns, found))
}
