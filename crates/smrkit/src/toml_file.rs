//! TOML files whose keys are taken by name. Mistakes are reported with line and column.

use std::ops::Range;
use std::path::Path;

use serde::de::value::{F64Deserializer, U64Deserializer};
use serde::de::{DeserializeOwned, Error as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error as TomlError, ValueDeserializer};

use crate::error::Error;
use crate::names::nearest;

/// The keys of a table that have not been taken.
pub(crate) struct TomlKeys<'i> {
    left: DeTable<'i>,
    place: Range<usize>,
}

/// A mistake in a file, and its place.
pub(crate) struct Mistake(pub String, pub Range<usize>);

impl Mistake {
    /// The error of a file with this text.
    pub fn in_file(self, path: &Path, text: &str, remedy: &str) -> Error {
        let Mistake(message, place) = self;
        let message = format!("{}; {remedy}", message.trim_end());
        let Some(before) = text.get(..place.start.min(text.len())) else { return Error::input(path, message) };
        let line = before.matches('\n').count() as u64 + 1;
        let column = (before.len() - before.rfind('\n').map_or(0, |at| at + 1)) as u64 + 1;
        Error::at_line(path, line, Some(column), message)
    }

    fn form(error: &TomlError, place: Range<usize>) -> Mistake {
        Mistake(error.message().into(), error.span().unwrap_or(place))
    }
}

impl<'i> TomlKeys<'i> {
    /// The keys of a file.
    ///
    /// # Errors
    ///
    /// Text that is not TOML; a key that is not among `known`.
    pub fn parse(text: &'i str, known: &'static [&'static str]) -> Result<TomlKeys<'i>, Mistake> {
        let file = DeTable::parse(text).map_err(|error| Mistake::form(&error, 0..0))?;
        let place = file.span();
        TomlKeys::checked(file.into_inner(), place, known)
    }

    fn checked(
        left: DeTable<'i>,
        place: Range<usize>,
        known: &'static [&'static str],
    ) -> Result<TomlKeys<'i>, Mistake> {
        match left.keys().find(|key| !known.contains(&key.as_ref().as_ref())) {
            Some(key) => {
                let error = TomlError::unknown_field(key.as_ref(), known);
                let near = nearest(key.as_ref(), known.iter().copied());
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                Err(Mistake(format!("{}{near}", error.message()), key.span()))
            }
            None => Ok(TomlKeys { left, place }),
        }
    }

    /// The value of a key, if it is given.
    pub fn get<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, Mistake> {
        self.left.remove(key).map(read).transpose()
    }

    /// The value of a key, if it is given. A text that `number` knows is a number, which it reads; other values are as for [`TomlKeys::get`].
    pub fn get_number<T: DeserializeOwned>(
        &mut self,
        key: &str,
        number: impl Fn(&str) -> Option<Result<f64, Error>>,
    ) -> Result<Option<T>, Mistake> {
        let Some(value) = self.left.get(key) else { return Ok(None) };
        let place = value.span();
        let Some(read) = value.get_ref().as_str().and_then(number) else { return self.get(key) };
        let number = read.map_err(|error| Mistake(error.to_string(), place.clone()))?;
        self.left.remove(key);
        // A whole number also fits a field that holds integers.
        let made = match number.fract() == 0.0 {
            true => T::deserialize(U64Deserializer::<TomlError>::new(number as u64)),
            false => T::deserialize(F64Deserializer::<TomlError>::new(number)),
        };
        made.map(Some).map_err(|error| Mistake::form(&error, place))
    }

    /// The value of a key.
    pub fn need<T: DeserializeOwned>(&mut self, key: &'static str) -> Result<T, Mistake> {
        self.get(key)?.ok_or_else(|| self.lacks(key))
    }

    /// The table of a key, if it is given. Errors: another value than a table; a key that is not among `known`.
    pub fn table(&mut self, key: &str, known: &'static [&'static str]) -> Result<Option<TomlKeys<'i>>, Mistake> {
        let table = self.take_table(key, || format!("a table with {}", known.join(", ")))?;
        table.map(|TomlKeys { left, place }| TomlKeys::checked(left, place, known)).transpose()
    }

    /// The table of a key, if it is given, with any keys.
    pub fn open_table(&mut self, key: &str) -> Result<Option<TomlKeys<'i>>, Mistake> {
        self.take_table(key, || "a table".into())
    }

    fn take_table(&mut self, key: &str, expected: impl Fn() -> String) -> Result<Option<TomlKeys<'i>>, Mistake> {
        let Some(value) = self.left.remove(key) else { return Ok(None) };
        let place = value.span();
        match value.into_inner() {
            DeValue::Table(left) => Ok(Some(TomlKeys { left, place })),
            other => Err(Mistake(format!("invalid type: {}, expected {}", other.type_str(), expected()), place)),
        }
    }

    /// Keys that have not been taken.
    pub fn names(&self) -> Vec<String> {
        self.left.keys().map(|key| key.get_ref().to_string()).collect()
    }

    /// Ends the table, of which every known key has been taken.
    pub fn end(self) {
        debug_assert!(self.left.is_empty(), "keys that are known and never taken");
    }

    /// The mistake of a missing key.
    pub fn lacks(&self, key: &'static str) -> Mistake {
        Mistake::form(&TomlError::missing_field(key), self.place.clone())
    }
}

/// Reads a value.
fn read<T: DeserializeOwned>(value: Spanned<DeValue>) -> Result<T, Mistake> {
    let place = value.span();
    T::deserialize(ValueDeserializer::from(value)).map_err(|error| Mistake::form(&error, place))
}
