//! Requests from a table: converts columns, from Parquet or any library of data frames, to requests, and checks each value.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, downcast_integer_array};
use arrow_schema::DataType;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};

use crate::row::Field;

/// Names of the time column, and their units in nanoseconds.
pub const TIMES: [(&str, u64); 5] =
    [("time_ns", 1), ("time_100ns", 100), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];

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

/// Appends the requests of some rows, with times from a column of [`TIMES`]. Volumes must be below `volumes`. Missing times or volumes are
/// 0.
pub fn append(
    rows: &RecordBatch,
    time: Option<(&str, u64)>,
    volumes: usize,
    all: &mut Vec<Request>,
) -> Result<(), NoRequest> {
    let column = |name: &str, of: fn(&ArrayRef) -> Result<Vec<u64>, String>| match rows.column_by_name(name) {
        Some(column) => of(column).map_err(|what| NoRequest { row: None, what: format!("column {name} {what}") }),
        None => Ok(vec![0; rows.num_rows()]),
    };
    let (name, tick) = time.unwrap_or(("", 1));
    let (times, ops, lbas) = (column(name, numbers)?, column("op", operations)?, column("lba", numbers)?);
    let (sectors, owners) = (column("sectors", numbers)?, column("volume", numbers)?);
    let latest = u64::MAX / tick;
    for (row, ((((time, op_number), lba), sectors), volume)) in
        times.into_iter().zip(ops).zip(lbas).zip(sectors).zip(owners).enumerate()
    {
        let op = OPS[op_number as usize & 3];
        let wrong = match () {
            () if op_number >= 4 => "has an op other than 0 to 3 (read, write, flush, discard)",
            () if lba >> 63 != 0 => "has an LBA past the end of any disk",
            () if sectors > u64::from(u32::MAX) => "has 2^32 sectors or more: split it",
            () if sectors == 0 && op != Op::Flush => "is a request of 0 sectors: drop it, or call it a flush",
            () if time > latest => "has a time past the largest that can be held",
            () if volume >= volumes as u64 => "has a volume that the file's table lacks",
            () => {
                let (time, sectors, volume) = (Nanos(time * tick), sectors as u32, volume as u16);
                all.push(Request { time, lba: Lba(lba), sectors, volume, op, source: 0 });
                continue;
            }
        };
        return Err(NoRequest { row: Some(row), what: wrong.into() });
    }
    Ok(())
}

/// Reads a column of whole numbers of any width. Errors name the problem of the column, and the remedy.
#[allow(clippy::unnecessary_cast, reason = "one of the types is u64")]
pub fn numbers(array: &ArrayRef) -> Result<Vec<u64>, String> {
    if array.null_count() > 0 {
        return Err(NULLS.into());
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

const NULLS: &str = "has nulls: fill or drop them";

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
