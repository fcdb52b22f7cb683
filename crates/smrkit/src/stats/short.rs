//! Lists of records in which short ones are written as rows: each tells what differs from the record before.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A record that may be a short one.
pub trait Shortened: Sized {
    /// A short one as it is written.
    type Row;

    /// The row of one of `count` records, after another, if it is a short one.
    fn row(&self, before: Option<&Self>, count: usize) -> Option<Self::Row>;

    /// The record of a row, after another.
    fn from_row(row: Self::Row, before: Option<&Self>) -> Self;
}

#[derive(Serialize)]
#[serde(untagged)]
enum ListedRecord<'a, T, Row> {
    Whole(&'a T),
    Row(Row),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReadRecord<T, Row> {
    Whole(Box<T>),
    Row(Row),
}

/// Writes records; for `#[serde(with = …)]`.
pub fn serialize<T, S>(records: &[T], to: S) -> Result<S::Ok, S::Error>
where
    T: Shortened<Row: Serialize> + Serialize,
    S: Serializer,
{
    to.collect_seq(records.iter().enumerate().map(|(at, record)| {
        let row = record.row(at.checked_sub(1).map(|before| &records[before]), records.len());
        row.map_or(ListedRecord::Whole(record), ListedRecord::Row)
    }))
}

/// Reads records; for `#[serde(with = …)]`.
pub fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Shortened<Row: Deserialize<'de>> + Deserialize<'de>,
    D: Deserializer<'de>,
{
    let mut records: Vec<T> = Vec::new();
    for read in Vec::<ReadRecord<T, T::Row>>::deserialize(from)? {
        let record = match read {
            ReadRecord::Whole(record) => *record,
            ReadRecord::Row(row) => T::from_row(row, records.last()),
        };
        records.push(record);
    }
    Ok(records)
}
