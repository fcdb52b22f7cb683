//! Requests from a table: converts columns, from Parquet or any library of data frames, to requests, and checks each value.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_integer_array, make_array};
use arrow_schema::{DataType, Schema, TimeUnit};
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use crate::csv;
use crate::row::Field;

/// Operations by their numbers in a column.
const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// Rows read at a time: few enough that their columns stay in the processor's first caches.
pub const ROWS: usize = 4096;

/// Why a table's rows are no requests.
#[derive(Clone, Debug)]
pub struct NoRequest {
    /// The row, if one row is wrong and not a whole column.
    pub row: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

/// The columns of a table's requests, found by their names as those of a CSV table are.
#[derive(Clone, Debug)]
pub struct TableColumns {
    /// The column of times, and the nanoseconds of its unit.
    pub time: Option<(String, u64)>,
    /// The columns of operation, address, size and volume, with the bytes of their units.
    op: String,
    offset: (String, u64),
    size: (String, u64),
    volume: Option<String>,
}

impl TableColumns {
    /// Finds the columns of a table. The error says which is missing.
    pub fn of(schema: &Schema) -> Result<TableColumns, String> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let find = |key: &str| csv::find_column(key, &names).map(|at| names[at].to_string());
        let need = |key: &str, name: &str| {
            find(key).ok_or_else(|| {
                format!(
                    "{name}: no column of this name: a table of requests has a time such as time_us, op (a word, or 0 read, 1 write, 2 flush, \
                     3 discard), lba and sectors, or offset and size in bytes, and may have volume; this one has {}",
                    names.join(", ")
                )
            })
        };
        let times: Vec<&&str> = names.iter().filter(|name| is_time(name)).collect();
        if let [one, other, ..] = times.as_slice() {
            return Err(format!("two columns of times, {one} and {other}: drop one"));
        }
        let (op, offset, size) = (need("op", "op")?, need("offset", "lba")?, need("size", "sectors")?);
        if csv::has_one_as_read(&op) {
            return Err(format!(
                "column {op} says the opposite of what a table of requests does: turn it into is_write"
            ));
        }
        // An offset without a unit counts bytes and an LBA sectors, but a size may count either.
        let ((offset_unit, _), (size_unit, is_ambiguous)) = (csv::unit_bytes(&offset), csv::unit_bytes(&size));
        // Beside an offset in bytes, the size counts bytes, too.
        if is_ambiguous && offset_unit != 1 {
            return Err(format!("column {size} may count bytes or sectors: call it size_bytes or sectors"));
        }
        let mut time = None;
        if let Some(name) = find("time") {
            let kind = schema.field_with_name(&name).map(|field| field.data_type().clone());
            let tick = match kind {
                Ok(DataType::Timestamp(TimeUnit::Second, _)) => Some(1_000_000_000),
                Ok(DataType::Timestamp(TimeUnit::Millisecond, _)) => Some(1_000_000),
                Ok(DataType::Timestamp(TimeUnit::Microsecond, _)) => Some(1000),
                Ok(DataType::Timestamp(TimeUnit::Nanosecond, _)) => Some(1),
                _ => csv::tick_ns(&name),
            };
            let tick = tick.ok_or_else(|| {
                format!("column {name} tells no unit: call it time_us, time_ns or another name with its unit")
            })?;
            time = Some((name, tick));
        }
        let volume = find("volume");
        Ok(TableColumns { time, op, offset: (offset, offset_unit), size: (size, size_unit), volume })
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let time = self.time.iter().map(|(name, _)| name);
        time.chain([&self.op, &self.offset.0, &self.size.0]).chain(&self.volume).map(String::as_str)
    }

    /// Appends the requests of some rows, and returns how many were not aligned to sectors. Volumes must be below `volumes`. Missing times
    /// or volumes are 0. Times count from `origin`, which becomes that of the first row if it is unknown.
    pub fn append(
        &self,
        rows: &RecordBatch,
        volumes: usize,
        origin: &mut Option<u64>,
        all: &mut Vec<Request>,
    ) -> Result<u64, NoRequest> {
        let column = |name: Option<&str>, of: &dyn Fn(&ArrayRef) -> Result<Vec<u64>, String>| match name
            .and_then(|name| Some((name, rows.column_by_name(name)?)))
        {
            Some((name, column)) => {
                of(column).map_err(|what| NoRequest { row: None, what: format!("column {name} {what}") })
            }
            None => Ok(vec![0; rows.num_rows()]),
        };
        let (time_name, tick) = self.time.as_ref().map_or((None, 1), |(name, tick)| (Some(name.as_str()), *tick));
        let is_float =
            time_name.and_then(|name| rows.column_by_name(name)).is_some_and(|column| column.data_type().is_floating());
        // Fractions would be lost in whole ticks, so floating-point times are converted to nanoseconds at once.
        let times = column(time_name, &|column| if is_float { float_times_ns(column, tick) } else { numbers(column) })?;
        let tick = if is_float { 1 } else { tick };
        let (ops, offsets) =
            (column(Some(self.op.as_str()), &operations)?, column(Some(self.offset.0.as_str()), &numbers)?);
        let (sizes, volume_numbers) =
            (column(Some(self.size.0.as_str()), &numbers)?, column(self.volume.as_deref(), &numbers)?);
        let first = *origin.get_or_insert(times.first().copied().unwrap_or(0));
        let (latest, mut unaligned) = (u64::MAX / tick, 0);
        for row in 0..rows.num_rows() {
            let (op_number, offset, size, volume) = (ops[row], offsets[row], sizes[row], volume_numbers[row]);
            // Other numbers are refused below.
            let op = OPS[op_number as usize & 3];
            let time = times[row].saturating_sub(first);
            let (lba, lead) = if self.offset.1 == 1 { (offset / 512, offset % 512) } else { (offset, 0) };
            let bytes = u128::from(size) * u128::from(self.size.1) + u128::from(lead);
            // A flush has no sectors, whatever its offset.
            let sectors = if size == 0 { 0 } else { bytes.div_ceil(512) };
            let what = match () {
                () if op_number >= 4 => "has an op other than 0 to 3 (read, write, flush, discard)",
                () if lba >> 63 != 0 => "has an LBA past the end of any disk",
                () if sectors > u128::from(u32::MAX) => "has 2^32 sectors or more: split it",
                () if sectors == 0 && op != Op::Flush => "is a request of 0 sectors: drop it, or call it a flush",
                () if time > latest => "has a time past the largest that can be held",
                () if volume >= volumes as u64 => "has a volume that the file's table lacks",
                () => {
                    unaligned += u64::from(lead > 0 || bytes % 512 > 0);
                    let (time, sectors, volume) = (Nanos(time * tick), sectors as u32, volume as u16);
                    all.push(Request { time, lba: Lba(lba), sectors, volume, op, source: 0 });
                    continue;
                }
            };
            return Err(NoRequest { row: Some(row), what: what.into() });
        }
        Ok(unaligned)
    }
}

/// True for a column called `time_` and a unit.
fn is_time(name: &str) -> bool {
    name.to_lowercase().starts_with("time_") && csv::tick_ns(name).is_some()
}

/// The values of a floating-point column; `None` for half-precision ones, which are not read.
fn floats(array: &ArrayRef) -> Option<Vec<f64>> {
    match array.as_primitive_opt::<Float64Type>() {
        Some(array) => Some(array.values().to_vec()),
        None => Some(array.as_primitive_opt::<Float32Type>()?.values().iter().map(|value| f64::from(*value)).collect()),
    }
}

/// Converts a floating-point column of times to nanoseconds.
fn float_times_ns(array: &ArrayRef, tick_ns: u64) -> Result<Vec<u64>, String> {
    if array.null_count() > 0 {
        return Err(NULLS.into());
    }
    let time_ns = |value: f64| {
        let ns = (value * tick_ns as f64).round();
        (0.0..u64::MAX as f64).contains(&ns).then_some(ns as u64)
    };
    floats(array).and_then(|times| times.into_iter().map(time_ns).collect()).ok_or_else(|| OUTSIDE.into())
}

/// Reads a column of whole numbers of any width, or of dates. Errors name the problem of the column, and the remedy.
#[allow(clippy::unnecessary_cast, reason = "one of the types is u64")]
pub fn numbers(array: &ArrayRef) -> Result<Vec<u64>, String> {
    if array.null_count() > 0 {
        return Err(NULLS.into());
    }
    if let DataType::Timestamp(..) = array.data_type() {
        // Dates are stored as counts since 1970, whose unit `TableColumns` knows.
        let counts = array.to_data().into_builder().data_type(DataType::Int64).build();
        return numbers(&make_array(counts.map_err(|error| error.to_string())?));
    }
    if array.data_type().is_floating() {
        let whole =
            |value: f64| ((0.0..u64::MAX as f64).contains(&value) && value.fract() == 0.0).then_some(value as u64);
        return floats(array).and_then(|all| all.into_iter().map(whole).collect()).ok_or_else(|| OUTSIDE.into());
    }
    downcast_integer_array!(
        array => {
            let values = array.values();
            match values.iter().fold(false, |any, &value| any | (i128::from(value) < 0)) {
                true => Err("has numbers below 0".into()),
                false => Ok(values.iter().map(|&value| value as u64).collect()),
            }
        },
        other => Err(format!("holds {other}: whole numbers are needed, such as uint64")),
    )
}

const OUTSIDE: &str = "has numbers below 0, too large or with a fraction: whole numbers are needed, such as uint64";
const NULLS: &str = "has nulls: fill or drop them";

/// Parses words as numbers of operations.
fn of_words<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Result<Vec<u64>, String> {
    let number = |word: Option<&str>| {
        let word = word.ok_or(NULLS)?;
        let op = Field { text: word.as_bytes(), at: 0, name: "op" }.operation(Op::Read, Op::Write);
        op.map(|op| op as u64)
            .map_err(|_| format!("has '{word}': expected read, write, flush or discard, or 0 to 3 in that order"))
    };
    words.map(number).collect()
}

/// Reads a column of operations, as numbers or as words.
fn operations(array: &ArrayRef) -> Result<Vec<u64>, String> {
    match array.data_type() {
        DataType::Utf8 => of_words(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => of_words(array.as_string::<i64>().iter()),
        DataType::Binary => {
            of_words(array.as_binary::<i32>().iter().map(|word| word.and_then(|word| str::from_utf8(word).ok())))
        }
        DataType::Boolean if array.null_count() == 0 => Ok(array.as_boolean().values().iter().map(u64::from).collect()),
        DataType::Utf8View => of_words(array.as_string_view().iter()),
        DataType::Dictionary(..) if array.null_count() > 0 => Err(NULLS.into()),
        DataType::Dictionary(..) => {
            // In a dictionary, each distinct word is parsed once.
            let dictionary = array.as_any_dictionary();
            let words = operations(dictionary.values())?;
            Ok(dictionary.normalized_keys().into_iter().map(|key| words[key]).collect())
        }
        _ => numbers(array),
    }
}
