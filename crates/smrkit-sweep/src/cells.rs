//! Whole columns as a table in Parquet: results of runs and of volumes, and tables of numbers.

use std::path::Path;

use smrkit::error::Error;
use smrkit_trace::parquet::table::{Column, Packing, TableWriter, Values, words};

/// The cells of a column.
pub enum Cells {
    /// Texts.
    Texts(Vec<String>),
    /// Unsigned numbers, as bits.
    Counts(Vec<i64>),
    /// Real numbers; one that is missing is NaN.
    Reals(Vec<f64>),
}

impl Cells {
    /// A column of unsigned numbers.
    pub fn counts(counts: impl Iterator<Item = u64>) -> Cells {
        Cells::Counts(counts.map(u64::cast_signed).collect())
    }

    /// A cell as text; a number that is missing is empty.
    pub fn text(&self, at: usize) -> String {
        match self {
            Cells::Texts(texts) => texts[at].clone(),
            Cells::Counts(counts) => counts[at].cast_unsigned().to_string(),
            Cells::Reals(reals) if reals[at].is_nan() => String::new(),
            Cells::Reals(reals) => reals[at].to_string(),
        }
    }
}

/// Writes columns of one length, each under its name, as a table of a format.
pub fn write(path: &Path, format: &str, columns: &[(impl AsRef<str>, Cells)]) -> Result<(), Error> {
    let packed = columns.iter().map(|(name, cells)| {
        let (packing, values) = match cells {
            Cells::Texts(texts) => (Packing::Words, Values::Words(words(texts.iter().cloned()).into())),
            Cells::Counts(counts) => (Packing::Delta, Values::Long(counts.into())),
            Cells::Reals(reals) => (Packing::Real, Values::Real(reals.into())),
        };
        (Column { name: name.as_ref(), bits: 64, packing }, values)
    });
    let (columns, values): (Vec<Column>, Vec<Values>) = packed.unzip();
    let mut table = TableWriter::create(path, &columns)?;
    table.write_group(&values)?;
    table.finish(vec![("smrkit.format".into(), format.into()), ("smrkit.version".into(), "1".into())])
}
