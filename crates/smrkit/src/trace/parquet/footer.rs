//! The footer of our Parquet traces: which columns, where each row group lies, what the file says about itself.
//!
//! Only what reading needs is kept (100 bytes a row group), so that long traces open in little memory. Nothing in the
//! footer is trusted: each place and count is compared with the file's length and the format's own bounds.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use parquet::basic::{Compression, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader};
use parquet::file::metadata::{ParquetStatisticsPolicy, RowGroupMetaData};
use parquet::schema::types::ColumnDescPtr;

use super::reader::guarded;
use super::{COLUMNS, FORMAT, KEY_FORMAT, KEY_SOURCE_FORMAT, KEY_SOURCE_SHA256, KEY_VERSION, KEY_VOLUME};
use super::{Meta, TICKS, VERSION};
use crate::error::Error;
use crate::trace::volume::Volume;

/// The longest footer that is read; 10^9 requests take about 8 MB.
const FOOTER_BYTES: u64 = 64 << 20;
/// The most rows in a row group; smrkit writes 65,536.
const GROUP_ROWS: i64 = 131_072;
/// The most volumes: a request's index has 16 bits.
const VOLUMES: usize = 1 << 16;
const MAGIC: &[u8; 4] = b"PAR1";
const AGAIN: &str = "convert the original trace again with `smrkit trace convert`";

/// What reading a trace needs to know.
pub(super) struct Footer {
    pub(super) meta: Meta,
    pub(super) tick_ns: u64,
    pub(super) rows: u64,
    pub(super) groups: Vec<Group>,
    /// Time, op, lba, sectors, volume.
    pub(super) columns: [ColumnDescPtr; 5],
}

/// A row group: its rows, and where its columns lie.
pub(super) struct Group {
    pub(super) rows: usize,
    pub(super) chunks: [Chunk; 5],
}

/// Where a column of a row group lies.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) zstd: bool,
}

impl Footer {
    /// Reads and checks the footer of `file`.
    pub(super) fn read(path: &Path, file: &mut File) -> Result<Footer, Error> {
        let (metadata, file_bytes) = load(path, file)?;
        let bad = |message: String| Error::input(path, message);
        let meta = meta(&metadata).map_err(bad)?;
        let (tick_ns, indexes, columns) = columns(&metadata).map_err(bad)?;
        let groups = metadata.row_groups().iter().map(|group| locate(group, indexes, file_bytes));
        let groups = groups.collect::<Option<Vec<_>>>();
        let groups = groups.ok_or_else(|| bad(format!("the footer is damaged: {AGAIN}")))?;
        let rows = groups.iter().map(|group| group.rows as u64).sum();
        if i64::try_from(rows) != Ok(metadata.file_metadata().num_rows()) {
            return Err(bad(format!("the footer is damaged (its row counts disagree): {AGAIN}")));
        }
        Ok(Footer { meta, tick_ns, rows, groups, columns })
    }
}

fn load(path: &Path, file: &mut File) -> Result<(ParquetMetaData, u64), Error> {
    let failed = |error| Error::reading(path, error);
    let file_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut head = [0; 4];
    file.rewind().map_err(failed)?;
    if file_bytes < 4 || file.read_exact(&mut head).is_err() || head != *MAGIC {
        return Err(Error::input(path, "not a Parquet file: it does not begin with PAR1; check the path"));
    }
    let cut =
        || Error::input(path, format!("the Parquet file is cut short or damaged (no footer at its end): {AGAIN}"));
    if file_bytes < 12 {
        return Err(cut());
    }
    let mut tail = [0; 8];
    file.seek(SeekFrom::End(-8)).map_err(failed)?;
    file.read_exact(&mut tail).map_err(failed)?;
    let [a, b, c, d, magic @ ..] = tail;
    let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *MAGIC || bytes > file_bytes - 12 || bytes > FOOTER_BYTES {
        return Err(cut());
    }
    let mut buffer = vec![0; bytes as usize];
    file.seek(SeekFrom::End(-8 - bytes as i64)).map_err(failed)?;
    file.read_exact(&mut buffer).map_err(failed)?;
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let decoded = guarded(|| ParquetMetaDataReader::decode_metadata_with_options(&buffer, Some(&options)));
    let metadata = decoded.map_err(|error| Error::input(path, format!("the footer is damaged ({error}): {AGAIN}")))?;
    Ok((metadata, file_bytes))
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

type Found = (u64, [usize; 5], [ColumnDescPtr; 5]);

/// The unit of the time column, and where the five columns stand.
fn columns(metadata: &ParquetMetaData) -> Result<Found, String> {
    let present = metadata.file_metadata().schema_descr().columns();
    let find = |name: &str, physical| {
        let fits = |column: &&ColumnDescPtr| {
            let flat = column.max_def_level() == 0 && column.max_rep_level() == 0;
            column.path().string() == name && flat && column.physical_type() == physical
        };
        present.iter().find(fits).map(|column| (present.iter().position(|other| other.path() == column.path()), column))
    };
    let time = TICKS.iter().find_map(|tick| Some((tick.ns, find(tick.column, Physical::INT64)?)));
    let missing = |name: &str| format!("column {name} is missing, or is not a required whole number: {AGAIN}");
    let (tick_ns, time) = time.ok_or_else(|| missing("time_ns (or _100ns, _us, _ms, _s)"))?;
    let mut indexes = [time.0.unwrap_or(0); 5];
    let mut found: [ColumnDescPtr; 5] = std::array::from_fn(|_| time.1.clone());
    for (at, column) in COLUMNS.iter().enumerate() {
        let physical = if column.bits == 64 { Physical::INT64 } else { Physical::INT32 };
        let (index, descriptor) = find(column.name, physical).ok_or_else(|| missing(column.name))?;
        indexes[at + 1] = index.unwrap_or(0);
        found[at + 1] = descriptor.clone();
    }
    Ok((tick_ns, indexes, found))
}

fn locate(group: &RowGroupMetaData, indexes: [usize; 5], file_bytes: u64) -> Option<Group> {
    let rows = Some(group.num_rows()).filter(|rows| (0..=GROUP_ROWS).contains(rows))?;
    let mut chunks = [Chunk { offset: 0, bytes: 0, zstd: false }; 5];
    for (chunk, index) in chunks.iter_mut().zip(indexes) {
        *chunk = place(group.columns().get(index)?, rows, file_bytes)?;
    }
    Some(Group { rows: rows as usize, chunks })
}

fn place(column: &ColumnChunkMetaData, rows: i64, file_bytes: u64) -> Option<Chunk> {
    let offset = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let (offset, bytes) = (u64::try_from(offset).ok()?, u64::try_from(column.compressed_size()).ok()?);
    // Values of 8 bytes, their dictionary, and page headers.
    let plausible = bytes <= rows as u64 * 24 + 65_536;
    let zstd = match column.compression() {
        Compression::UNCOMPRESSED => false,
        Compression::ZSTD(_) => true,
        _ => return None,
    };
    let inside = offset.checked_add(bytes)? <= file_bytes;
    (plausible && inside && column.num_values() == rows).then_some(Chunk { offset, bytes: bytes as usize, zstd })
}
