//! Values of options, read as the schema reads the values of keys: `1k`, `1_000`, `4KiB`, `5ms`, `2%`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use smrkit::error::Error;
use smrkit::schema::{Count, ValueKind};
use smrkit::settings::SettingChoice;

/// Reads values of a kind.
pub fn value<K: ValueKind + Copy>(kind: K) -> impl Fn(&str) -> Result<K::Value, Error> + Clone {
    move |text| kind.read(text.trim(), true)
}

/// Reads whole numbers that a `T` holds.
pub fn count<T: TryFrom<u64>>(text: &str) -> Result<T, Error> {
    let count = Count(0, u64::MAX).read(text.trim(), true)?;
    T::try_from(count).map_err(|_| Error::Usage(format!("`{text}` is too large")))
}

/// Reads the name of one of a few choices, which the help lists with their meaning.
pub fn one_of<T: Copy + Send + Sync>(all: &'static [SettingChoice<T>]) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|choice| PossibleValue::new(choice.name).help(choice.meaning));
    let named = |name: String| all.iter().find(|choice| choice.name == name).map(|choice| choice.value);
    PossibleValuesParser::new(names).try_map(move |name| named(name).ok_or("not among the names"))
}
