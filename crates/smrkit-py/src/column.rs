//! A column of a table of requests: whole numbers of any width, taken from an Arrow array without a copy; words of operations.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use smrkit::request::Op;

/// Operations by their numbers in a column.
pub const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

/// Whole numbers of any width, none below 0.
#[derive(Clone)]
pub enum Column {
    /// 8 bits.
    U8(ScalarBuffer<u8>),
    /// 16 bits.
    U16(ScalarBuffer<u16>),
    /// 32 bits.
    U32(ScalarBuffer<u32>),
    /// 64 bits.
    U64(ScalarBuffer<u64>),
}

/// Calls `$body` with the values of a column as `$values`, whatever their width.
macro_rules! each_width {
    ($column:expr, $values:ident => $body:expr) => {
        match $column {
            Column::U8($values) => $body,
            Column::U16($values) => $body,
            Column::U32($values) => $body,
            Column::U64($values) => $body,
        }
    };
}

impl Column {
    /// The numbers of an Arrow array. Errors say what is wrong with it, and what helps.
    pub fn of_array(array: &ArrayRef) -> Result<Column, String> {
        if array.null_count() > 0 {
            return Err("has nulls: fill or drop them".into());
        }
        let array = array.as_ref();
        macro_rules! signed {
            ($kind:ty, $native:ty, $width:ident) => {{
                let values = array.as_primitive::<$kind>().values();
                if values.iter().any(|&value| value < 0) {
                    return Err("has numbers below 0".into());
                }
                Column::$width(ScalarBuffer::<$native>::from(values.inner().clone()))
            }};
        }
        Ok(match array.data_type() {
            DataType::UInt8 => Column::U8(array.as_primitive::<UInt8Type>().values().clone()),
            DataType::UInt16 => Column::U16(array.as_primitive::<UInt16Type>().values().clone()),
            DataType::UInt32 => Column::U32(array.as_primitive::<UInt32Type>().values().clone()),
            DataType::UInt64 => Column::U64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Int8 => signed!(Int8Type, u8, U8),
            DataType::Int16 => signed!(Int16Type, u16, U16),
            DataType::Int32 => signed!(Int32Type, u32, U32),
            DataType::Int64 => signed!(Int64Type, u64, U64),
            other => return Err(format!("holds {other}: whole numbers are needed, such as uint64")),
        })
    }
}

impl Column {
    /// Operations, as numbers or as words.
    pub fn of_operations(array: &ArrayRef) -> Result<Column, String> {
        let any = array.as_ref();
        let column = match any.data_type() {
            DataType::Utf8 => numbered(any.as_string::<i32>().iter())?,
            DataType::LargeUtf8 => numbered(any.as_string::<i64>().iter())?,
            DataType::Utf8View => numbered(any.as_string_view().iter())?,
            DataType::Dictionary(..) => of_dictionary(any)?,
            _ => Column::of_array(array)?,
        };
        match column.max() {
            Some(most) if most >= OPS.len() as u64 => Err(format!("has {most}: {EXPECTED}")),
            _ => Ok(column),
        }
    }

    /// The largest number.
    #[allow(clippy::useless_conversion, reason = "one of the widths is that of the result")]
    pub fn max(&self) -> Option<u64> {
        each_width!(self, values => values.iter().copied().max().map(u64::from))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        each_width!(self, values => values.len())
    }

    /// The numbers from `at` on, `n` of them, into `out`.
    #[allow(clippy::useless_conversion, reason = "one of the widths is that of the result")]
    pub fn read(&self, at: usize, n: usize, out: &mut Vec<u64>) {
        out.clear();
        each_width!(self, values => out.extend(values[at..at + n].iter().map(|&value| u64::from(value))));
    }
}

const EXPECTED: &str = "expected read, write, flush or discard, or 0 to 3 in that order";

fn number(word: Option<&str>) -> Result<u8, String> {
    let word = word.ok_or("has nulls: fill or drop them")?;
    let at = OPS.iter().position(|op| op.name().eq_ignore_ascii_case(word));
    at.map(|at| at as u8).ok_or_else(|| format!("has '{word}': {EXPECTED}"))
}

fn numbered<'a>(words: impl Iterator<Item = Option<&'a str>>) -> Result<Column, String> {
    Ok(Column::U8(words.map(number).collect::<Result<Vec<u8>, String>>()?.into()))
}

/// Each distinct word is read once.
fn of_dictionary(array: &dyn Array) -> Result<Column, String> {
    let dictionary = array.as_any_dictionary();
    if dictionary.null_count() > 0 {
        return Err("has nulls: fill or drop them".into());
    }
    let words = Column::of_operations(dictionary.values())?;
    let Column::U8(words) = words else { return Err(format!("holds {}: {EXPECTED}", array.data_type())) };
    Ok(Column::U8(dictionary.normalized_keys().into_iter().map(|key| words[key]).collect::<Vec<u8>>().into()))
}
