//! Our compact columnar trace format: Parquet with plain integer columns that pandas, DuckDB and Polars read. Tables that they write are read
//! too, if the columns are called so.
//!
//! `docs/reference/trace-parquet.md` describes it. Everything of a request survives save `source`, which is a run's, not a trace's.
//! The Parquet crate reads pages and decodes columns, a row group at a time, a few thousand requests a batch; here its values become
//! requests, each checked for what no request can be.

pub mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use parquet::basic::{Compression, SortOrder, Type as Physical};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescPtr;
use smrkit::error::Error;
use smrkit::request::{InMemory, Op, Progress, Request, Source};
use smrkit::stats::outcome::TraceNotes;
use smrkit::units::{Lba, Nanos};

use self::table::{Column, GROUP_ROWS, Packing, TableWriter, Taken, column, guarded, int, long};
use crate::row::{Field, Volume};

/// The version of the format that is written; readers refuse later ones.
pub const VERSION: u32 = 1;

/// A trace file's own account of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The format that the trace was converted from, as recognised.
    pub source_format: String,
    /// The SHA-256 of the file that it was converted from, in hexadecimal.
    pub source_sha256: Option<String>,
    /// The volumes; a request's `volume` is an index into them.
    pub volumes: Vec<Volume>,
}

/// Names of the time column by its unit in nanoseconds. The last is written; tables of others may have any.
const TIMES: [(u64, &str); 5] =
    [(1_000_000_000, "time_s"), (1_000_000, "time_ms"), (1_000, "time_us"), (100, "time_100ns"), (1, "time_ns")];

/// The values of some requests that were read, by column.
#[derive(Default)]
struct RequestColumns {
    time: Vec<i64>,
    op: Vec<i32>,
    lba: Vec<i64>,
    sectors: Vec<i32>,
    volume: Vec<i32>,
}

/// The columns that are written.
const COLUMNS: [Taken<Request>; 5] = [
    (column("time_ns", 64), |rows| long(rows, |row| row.time.0)),
    (Column { name: "op", bits: 8, packing: Packing::Dictionary }, |rows| int(rows, |row| row.op as u32)),
    (column("lba", 64), |rows| long(rows, |row| row.lba.0)),
    (column("sectors", 32), |rows| int(rows, |row| row.sectors)),
    (column("volume", 16), |rows| int(rows, |row| row.volume.into())),
];

pub(crate) const KEY_FORMAT: &str = "smrkit.format";
pub(crate) const KEY_VERSION: &str = "smrkit.version";
const KEY_SOURCE_FORMAT: &str = "smrkit.source_format";
const KEY_SOURCE_SHA256: &str = "smrkit.source_sha256";
pub(crate) const KEY_ROWS: &str = "smrkit.rows";
/// Followed by the index; the value is the number, a space, and the name.
const KEY_VOLUME: &str = "smrkit.volume.";
const FORMAT: &str = "trace";

/// The most volumes: a request's index has 16 bits.
const VOLUMES: usize = 1 << 16;
const MAGIC: &[u8; 4] = b"PAR1";
const AGAIN: &str = "convert the original trace again with `smrkit trace convert`";

/// Part of the footer that reading a trace needs.
struct Footer {
    meta: Meta,
    /// A table that others wrote: the volumes are those that its rows name.
    is_foreign: bool,
    tick_ns: u64,
    rows: u64,
    /// Places of time, op, lba, sectors and volume among the columns; a table of others may lack the last.
    columns: [Option<usize>; 5],
}

impl Footer {
    fn read(path: &Path, file: &SerializedFileReader<File>) -> Result<Footer, Error> {
        let metadata = file.metadata();
        let bad = |message: String| Error::input(path, message);
        let own = meta(metadata).map_err(bad)?;
        let is_foreign = own.is_none();
        let meta = own.unwrap_or_default();
        let (tick_ns, columns) = places(metadata).map_err(bad)?;
        if cfg!(target_family = "wasm") && has_zstd(metadata) {
            let message = "its columns are packed with zstd, which can't be unpacked in a browser: write it with snappy, \
                           or give the trace that it was made from";
            return Err(bad(message.into()));
        }
        let counts = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
        let rows = counts.sum::<Option<u64>>();
        let rows = rows.filter(|&rows| i64::try_from(rows) == Ok(metadata.file_metadata().num_rows()));
        let rows = rows.ok_or_else(|| bad(format!("the footer is damaged (its row counts disagree): {AGAIN}")))?;
        Ok(Footer { meta, is_foreign, tick_ns, rows, columns })
    }
}

/// True if any column is packed with zstd.
fn has_zstd(metadata: &ParquetMetaData) -> bool {
    let mut columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    columns.any(|column| matches!(column.compression(), Compression::ZSTD(_)))
}

fn load(path: &Path) -> Result<SerializedFileReader<File>, Error> {
    let failed = |error| Error::reading(path, error);
    let (file, mut head) = (File::open(path).map_err(failed)?, Vec::new());
    (&file).take(4).read_to_end(&mut head).map_err(failed)?;
    if head != MAGIC {
        return Err(Error::input(path, "not a Parquet file: it does not begin with PAR1; check the path"));
    }
    guarded(|| SerializedFileReader::new(file)).map_err(|error| {
        Error::input(path, format!("the Parquet file is cut short, or its footer damaged ({error}): {AGAIN}"))
    })
}

/// The file's account of itself; `None` of a table that others wrote.
fn meta(metadata: &ParquetMetaData) -> Result<Option<Meta>, String> {
    let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
    match value(KEY_FORMAT) {
        None => return Ok(None),
        Some(FORMAT) => {}
        Some(other) => return Err(format!("a table of {other}, not a trace: give the trace that it was made from")),
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
    Ok(Some(Meta {
        source_format: value(KEY_SOURCE_FORMAT).unwrap_or("").to_string(),
        source_sha256: value(KEY_SOURCE_SHA256).map(str::to_string),
        volumes,
    }))
}

/// The unit of the time column, and where the five columns stand.
fn places(metadata: &ParquetMetaData) -> Result<(u64, [Option<usize>; 5]), String> {
    let present = metadata.file_metadata().schema_descr().columns();
    let find = |name: &str, kinds: &[Physical]| {
        let fits = |column: &ColumnDescPtr| {
            let is_flat = column.max_def_level() <= 1 && column.max_rep_level() == 0;
            column.path().string() == name && is_flat && kinds.contains(&column.physical_type())
        };
        present.iter().position(fits)
    };
    let whole = [Physical::INT32, Physical::INT64];
    let names: Vec<&str> = present.iter().map(|column| column.name()).collect();
    let missing = |name: &str| {
        format!(
            "a trace in Parquet has the whole numbers time_ns (or _100ns, _us, _ms, _s), op (0 read, 1 write, 2 flush, 3 discard; or words), lba and \
             sectors, and may have volume; {name} is not among its columns ({}), or holds something else",
            names.join(", ")
        )
    };
    let time = TIMES.iter().find_map(|(tick_ns, name)| Some((*tick_ns, find(name, &whole)?)));
    let (tick_ns, time) = time.ok_or_else(|| missing("a time"))?;
    let mut found = [Some(time), None, None, None, None];
    for (place, column) in found.iter_mut().zip(COLUMNS.map(|(column, _)| column)).skip(1) {
        let kinds = [Physical::INT32, Physical::INT64, Physical::BYTE_ARRAY];
        *place = find(column.name, if column.name == "op" { &kinds } else { &whole });
        if place.is_none() && (column.name != "volume" || names.contains(&"volume")) {
            return Err(missing(column.name));
        }
    }
    Ok((tick_ns, found))
}

/// Requests a batch: the columns of one stay in the nearest caches.
const BATCH: usize = 4096;

const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// A trace in our Parquet format; a source of its requests.
pub struct ParquetReader {
    pub(crate) path: PathBuf,
    file: SerializedFileReader<File>,
    footer: Footer,
    next_group: usize,
    group: Option<GroupDecoders>,
    rows_done: u64,
    /// The time of the last row that was read.
    last: Nanos,
    /// Rows were mended or left out when the trace was written, so only those out of order are noted.
    pub(crate) notes: TraceNotes,
    pub(crate) first_out_of_order: Option<u64>,
    /// The decoded columns of one batch.
    columns: RequestColumns,
}

/// The decoders of the current row group.
struct GroupDecoders {
    rows_left: usize,
    time: Decoder,
    op: Decoder,
    lba: Decoder,
    sectors: Decoder,
    volume: Decoder,
}

/// Decoder of a column. Ours hold the numbers that a request's columns hold; those of others are converted.
struct Decoder {
    name: &'static str,
    values: ColumnValues,
    /// True if a value may be missing.
    is_nullable: bool,
    is_unsigned: bool,
}

enum ColumnValues {
    Int(ColumnReaderImpl<Int32Type>),
    Long(ColumnReaderImpl<Int64Type>),
    Words(ColumnReaderImpl<ByteArrayType>),
    /// A column that is not there holds zeros.
    Absent,
}

impl ParquetReader {
    /// Opens a trace and checks its footer.
    pub fn open(path: &Path) -> Result<ParquetReader, Error> {
        let file = load(path)?;
        let footer = Footer::read(path, &file)?;
        Ok(ParquetReader {
            path: path.to_path_buf(),
            file,
            footer,
            next_group: 0,
            group: None,
            rows_done: 0,
            last: Nanos::ZERO,
            notes: TraceNotes::default(),
            first_out_of_order: None,
            columns: RequestColumns::default(),
        })
    }

    /// The trace's volumes; a request's `volume` is an index into them.
    pub fn volumes(&self) -> &[Volume] {
        &self.footer.meta.volumes
    }

    /// The file's own account of itself.
    pub fn meta(&self) -> &Meta {
        &self.footer.meta
    }

    /// Requests in the trace.
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// The error of a row beyond those that were read.
    fn bad(&self, row: usize, why: &dyn std::fmt::Display) -> Error {
        let message = match self.footer.is_foreign {
            true => format!("{why}: mend the table, and write it again"),
            false => format!("damaged ({why}): {AGAIN}"),
        };
        Error::at_line(&self.path, self.rows_done + row as u64 + 1, None, message)
    }

    fn next_group(&mut self) -> Result<bool, Error> {
        if self.next_group == self.file.num_row_groups() {
            return Ok(false);
        }
        let opened = guarded(|| GroupDecoders::open(&*self.file.get_row_group(self.next_group)?, self.footer.columns));
        self.group = Some(opened.map_err(|error| self.bad(0, &error))?);
        self.next_group += 1;
        Ok(true)
    }

    /// Decodes the next rows of the current group; false where it has none left.
    fn decode(&mut self) -> Result<bool, Error> {
        let Some(group) = &mut self.group else { return Ok(false) };
        let rows = group.rows_left.min(BATCH);
        if rows == 0 {
            return Ok(false);
        }
        let columns = &mut self.columns;
        let decoded = guarded(|| {
            group.time.longs(rows, &mut columns.time)?;
            group.op.ints(rows, &mut columns.op)?;
            group.lba.longs(rows, &mut columns.lba)?;
            group.sectors.ints(rows, &mut columns.sectors)?;
            group.volume.ints(rows, &mut columns.volume)
        });
        group.rows_left -= rows;
        decoded.map_err(|error| self.bad(0, &error))?;
        Ok(true)
    }

    /// The first decoded row that no request can be, and why.
    fn implausible(&self) -> Option<(usize, &'static str)> {
        let RequestColumns { time, op, lba, sectors, volume } = &self.columns;
        let (tick, volumes) = (self.footer.tick_ns, self.footer.meta.volumes.len().max(1));
        // A pass over each column that the compiler can vectorise; the row is only looked for when something is wrong.
        let latest = time.iter().fold(0, |most, &time| most.max(time as u64));
        let op_bits = op.iter().fold(0, |bits, &op| bits | op as u32);
        let highest = lba.iter().fold(0, |bits, &lba| bits | lba as u64);
        let last_volume = volume.iter().fold(0, |most, &volume| most.max(volume as u32));
        let is_empty = |(&sectors, &op): (&i32, &i32)| sectors == 0 && op != Op::Flush as i32;
        let empty = sectors.iter().zip(op).fold(false, |any, row| any | is_empty(row));
        let fine = latest <= u64::MAX / tick && op_bits < 4 && highest >> 63 == 0 && (last_volume as usize) < volumes;
        if fine && !empty {
            return None;
        }
        (0..time.len()).find_map(|row| {
            let why = match () {
                () if time[row] as u64 > u64::MAX / tick => "a time past the largest that can be held",
                () if !(0..4).contains(&op[row]) => "an op other than 0 to 3 (read, write, flush, discard)",
                () if lba[row] < 0 => "an LBA past the end of any disk",
                () if volume[row] as u32 as usize >= volumes => "a volume that the file's table lacks",
                () if is_empty((&sectors[row], &op[row])) => "a request of 0 sectors",
                () => return None,
            };
            Some((row, why))
        })
    }
}

impl Source for ParquetReader {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while !self.decode()? {
            if !self.next_group()? {
                return Ok(());
            }
        }
        if self.footer.is_foreign {
            let last = self.columns.volume.iter().max().map_or(0, |&last| (last as u32 as usize).min(VOLUMES - 1));
            let volumes = &mut self.footer.meta.volumes;
            let unnamed = |at: usize| Volume { number: at as u64, name: at.to_string() };
            volumes.extend((volumes.len()..=last).map(unnamed));
        }
        if let Some((row, why)) = self.implausible() {
            return Err(self.bad(row, &why));
        }
        let RequestColumns { time, op, lba, sectors, volume } = &self.columns;
        let tick = self.footer.tick_ns;
        let rows = time.iter().zip(op).zip(lba).zip(sectors).zip(volume);
        batch.extend(rows.map(|((((&time, &op), &lba), &sectors), &volume)| Request {
            time: Nanos(time as u64 * tick),
            lba: Lba(lba as u64),
            sectors: sectors as u32,
            volume: volume as u16,
            op: OPS[op as usize & 3],
            source: 0,
        }));
        for request in batch {
            self.rows_done += 1;
            if request.time < self.last {
                self.notes.out_of_order_rows += 1;
                self.first_out_of_order.get_or_insert(self.rows_done);
            }
            self.last = request.time;
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        Progress { done: self.rows_done, total: Some(self.footer.rows) }
    }
}

impl GroupDecoders {
    /// The decoders of `group`, whose columns stand at `columns`. Their types were checked in the footer.
    fn open(group: &dyn RowGroupReader, columns: [Option<usize>; 5]) -> Result<GroupDecoders, ParquetError> {
        let open = |place: Option<usize>, name| Decoder::open(group, place, name);
        let [time, op, lba, sectors, volume] = columns;
        Ok(GroupDecoders {
            rows_left: usize::try_from(group.metadata().num_rows())?,
            time: open(time, "time")?,
            op: open(op, "op")?,
            lba: open(lba, "lba")?,
            sectors: open(sectors, "sectors")?,
            volume: open(volume, "volume")?,
        })
    }
}

impl Decoder {
    fn open(group: &dyn RowGroupReader, place: Option<usize>, name: &'static str) -> Result<Decoder, ParquetError> {
        let Some(place) = place else {
            return Ok(Decoder { name, values: ColumnValues::Absent, is_nullable: false, is_unsigned: true });
        };
        let column = group.metadata().column(place).column_descr_ptr();
        let reader = group.get_column_reader(place)?;
        let values = match column.physical_type() {
            Physical::INT32 => ColumnValues::Int(get_typed_column_reader(reader)),
            Physical::INT64 => ColumnValues::Long(get_typed_column_reader(reader)),
            _ => ColumnValues::Words(get_typed_column_reader(reader)),
        };
        let is_unsigned = column.sort_order() == SortOrder::UNSIGNED;
        Ok(Decoder { name, values, is_nullable: column.max_def_level() > 0, is_unsigned })
    }

    /// The next values, as 64 bits.
    fn longs(&mut self, rows: usize, into: &mut Vec<i64>) -> Result<(), ParquetError> {
        let (name, is_nullable, is_unsigned) = (self.name, self.is_nullable, self.is_unsigned);
        match &mut self.values {
            ColumnValues::Long(column) => read(column, rows, name, is_nullable, into),
            ColumnValues::Int(column) => {
                let mut ints = Vec::new();
                read(column, rows, name, is_nullable, &mut ints)?;
                into.clear();
                into.extend(ints.iter().map(|&int| if is_unsigned { i64::from(int as u32) } else { i64::from(int) }));
                Ok(())
            }
            ColumnValues::Words(_) | ColumnValues::Absent => Err(no_number(name)),
        }
    }

    /// The next values, as 32 bits; operations in words are numbered.
    fn ints(&mut self, rows: usize, into: &mut Vec<i32>) -> Result<(), ParquetError> {
        let (name, is_nullable) = (self.name, self.is_nullable);
        match &mut self.values {
            ColumnValues::Int(column) => read(column, rows, name, is_nullable, into),
            ColumnValues::Long(column) => {
                let mut longs = Vec::new();
                read(column, rows, name, is_nullable, &mut longs)?;
                into.clear();
                let int = |&long: &i64| u32::try_from(long).map(u32::cast_signed).map_err(|_| no_number(name));
                longs.iter().map(int).try_for_each(|int| int.map(|int| into.push(int)))
            }
            ColumnValues::Words(column) => {
                let mut words = Vec::new();
                read(column, rows, name, is_nullable, &mut words)?;
                into.clear();
                let number = |word: &[u8]| {
                    let op = Field { text: word, at: 0, name }.operation(Op::Read, Op::Write);
                    op.map(|op| op as i32).map_err(|bad| ParquetError::General(bad.message(word)))
                };
                words.iter().map(|word| number(word.data())).try_for_each(|op| op.map(|op| into.push(op)))
            }
            ColumnValues::Absent => {
                into.clear();
                into.resize(rows, 0);
                Ok(())
            }
        }
    }
}

fn no_number(column: &str) -> ParquetError {
    ParquetError::General(format!("{column} holds a number below 0 or past 32 bits"))
}

fn read<T: DataType>(
    column: &mut ColumnReaderImpl<T>,
    rows: usize,
    name: &str,
    is_nullable: bool,
    into: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    into.clear();
    let mut levels = Vec::new();
    match column.read_records(rows, is_nullable.then_some(&mut levels), None, into)? {
        (read, values, _) if read == rows && values == rows => Ok(()),
        (read, ..) if read == rows => Err(ParquetError::General(format!("a row has no {name}"))),
        _ => Err(ParquetError::General("a column ends early".to_string())),
    }
}

/// Writes a trace, a row group at a time; the file appears under its name at `finish`.
pub struct ParquetWriter {
    path: PathBuf,
    meta: Meta,
    table: TableWriter,
    /// The row group being gathered.
    group: Vec<Request>,
    /// Rows of a whole row group.
    group_rows: usize,
    rows: u64,
    volumes_used: usize,
}

impl ParquetWriter {
    /// Starts the trace that will become `path`.
    pub fn create(path: &Path, meta: &Meta) -> Result<ParquetWriter, Error> {
        // Opened at once, so that a path that can't be written is known before the work.
        Ok(ParquetWriter {
            path: path.to_path_buf(),
            meta: meta.clone(),
            table: TableWriter::create(path, &COLUMNS.map(|(column, _)| column))?,
            group: Vec::new(),
            group_rows: GROUP_ROWS,
            rows: 0,
            volumes_used: 0,
        })
    }

    /// The trace in row groups of at most `rows`, for many files at once.
    pub fn with_group_rows(self, rows: usize) -> ParquetWriter {
        ParquetWriter { group_rows: rows.clamp(1, GROUP_ROWS), ..self }
    }

    /// Replaces what the file says about itself: volumes and hash may be known only once the source was read.
    pub fn set_meta(&mut self, meta: &Meta) {
        self.meta = meta.clone();
    }

    /// Appends requests, in any order of time.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        let mut rest = requests;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.group_rows - self.group.len()));
            self.group.extend_from_slice(now);
            rest = later;
            if self.group.len() == self.group_rows {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the rest and the metadata, and makes the file appear under its name.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        let metadata = self.metadata();
        self.table.finish(metadata)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let Some(used) = self.group.iter().map(|request| usize::from(request.volume) + 1).max() else { return Ok(()) };
        self.volumes_used = self.volumes_used.max(used);
        check(&self.group).map_err(|why| Error::input(&self.path, format!("can't be written: {why}")))?;
        self.table.write_group(&COLUMNS.map(|(_, of)| of(&self.group)))?;
        self.rows += self.group.len() as u64;
        self.group.clear();
        Ok(())
    }

    fn metadata(&self) -> Vec<(String, String)> {
        let mut pairs = vec![
            (KEY_FORMAT.to_string(), FORMAT.to_string()),
            (KEY_VERSION.to_string(), VERSION.to_string()),
            (KEY_ROWS.to_string(), self.rows.to_string()),
            (KEY_SOURCE_FORMAT.to_string(), self.meta.source_format.clone()),
        ];
        if let Some(hash) = &self.meta.source_sha256 {
            pairs.push((KEY_SOURCE_SHA256.to_string(), hash.clone()));
        }
        // Requests may name volumes that the table lacks; the file's table never does.
        for index in 0..self.meta.volumes.len().max(self.volumes_used).max(1) {
            let unnamed = Volume { number: index as u64, name: String::new() };
            let volume = self.meta.volumes.get(index).unwrap_or(&unnamed);
            pairs.push((format!("{KEY_VOLUME}{index}"), format!("{} {}", volume.number, volume.name)));
        }
        pairs
    }
}

/// Refuses what the reader would refuse.
fn check(requests: &[Request]) -> Result<(), &'static str> {
    match () {
        () if requests.iter().any(|one| one.sectors == 0 && one.op != Op::Flush) => {
            Err("a request has 0 sectors; leave it out")
        }
        () if requests.iter().any(|one| one.lba.0 >> 63 != 0) => {
            Err("an LBA lies past the end of any disk (2^63 sectors)")
        }
        () => Ok(()),
    }
}

/// Endings of files in other formats than the one that is written.
const OTHER_ENDINGS: [&str; 9] = ["csv", "tsv", "txt", "log", "json", "gz", "zst", "bz2", "xz"];

/// Refuses a file whose ending tells of another format.
pub fn check_ending(output: &Path) -> Result<(), Error> {
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or("").to_lowercase();
    if !OTHER_ENDINGS.contains(&ending.as_str()) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{}: a trace is converted to Parquet, not to .{ending}: name a file that ends in .parquet",
        output.display()
    )))
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

    /// Adds what is known once the source has been read, and makes the file appear under its name.
    pub fn finish(mut self, volumes: &[Volume], source_sha256: Option<String>) -> Result<(), Error> {
        self.meta.volumes = volumes.to_vec();
        self.meta.source_sha256 = source_sha256;
        self.writer.set_meta(&self.meta);
        self.writer.finish()
    }
}

#[cfg(test)]
mod tests;
