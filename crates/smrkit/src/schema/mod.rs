//! One schema for everything that is written as `key=value`: layers, workloads, rebuilds, arrays.
//!
//! [`keys!`](crate::keys) declares a struct whose fields are keys. Help, docs, parsing and records come from the same declaration, and code
//! that uses the values finds fields of the right type. Numbers are read by `quantity`, so that `1k`, `1_000`, `4KiB`, `5ms` and `2%` mean
//! the same wherever a key takes them.
//!
//! Texts of `key=value,…` are parsed in pieces that know where they begin, so that errors show the place.

mod kinds;

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::names::known;
pub use crate::schema::kinds::{
    Asked, Count, Fraction, Maybe, Noted, Or, Sectors, Size, Switch, Text, Time, Word, number, percent, share,
};
use crate::units::Nanos;

/// A value as outcomes record it: of a parameter, or of a counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// On or off.
    Bool(bool),
    /// A whole number.
    Int(u64),
    /// A fraction.
    Float(f64),
    /// A word.
    Text(String),
    /// A list of counts (such as `track_updates`).
    List(Vec<u64>),
    /// A list of texts (such as `first_violations`).
    Texts(Vec<String>),
}

impl Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool(value) => f.write_str(if *value { "on" } else { "off" }),
            Scalar::Int(value) => value.fmt(f),
            Scalar::Float(value) => value.fmt(f),
            Scalar::Text(value) => f.write_str(value),
            Scalar::List(values) => write!(f, "{values:?}"),
            Scalar::Texts(texts) => f.write_str(&texts.join("; ")),
        }
    }
}

/// A value in its canonical form: text that reads back as the same value, and the value for records.
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    /// The text.
    pub text: String,
    /// The record.
    pub scalar: Scalar,
}

impl Canonical {
    fn text(text: impl Into<String>) -> Canonical {
        let text = text.into();
        Canonical { scalar: Scalar::Text(text.clone()), text }
    }
}

/// The values that a key allows, to list or to draw from.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// Whole numbers, both bounds included.
    Whole(u64, u64),
    /// Sizes in bytes, both bounds included.
    Bytes(u64, u64),
    /// Fractions of this kind, both bounds included.
    Fraction(&'static str, f64, f64),
    /// Durations from this on.
    Time(Nanos),
    /// One of these words.
    Words(Vec<&'static str>),
    /// A word, or a value of this domain.
    Or(&'static str, Box<Domain>),
    /// Text with a grammar of its own, in words.
    Text(&'static str),
}

/// A kind of value, with the type of the fields that hold it.
pub trait ValueKind: Sync {
    /// The type of its fields.
    type Value;

    /// Reads a value. `given` if a user gave the text, and it is not a default.
    fn read(&self, text: &str, given: bool) -> Result<Self::Value, Error>;

    /// The canonical form of a value.
    fn write(&self, value: &Self::Value) -> Canonical;

    /// The values allowed.
    fn domain(&self) -> Domain;
}

/// A kind of value as help, docs and parsers see it: [`ValueKind`] without the type of the value.
pub trait AnyKind: Sync {
    /// Checks a text and returns its canonical form.
    fn canonical(&self, text: &str) -> Result<Canonical, Error>;

    /// The values allowed.
    fn domain(&self) -> Domain;
}

impl<K: ValueKind> AnyKind for K {
    fn canonical(&self, text: &str) -> Result<Canonical, Error> {
        Ok(self.write(&self.read(text, true)?))
    }

    fn domain(&self) -> Domain {
        ValueKind::domain(self)
    }
}

/// A key as help, docs and parsers see it.
#[derive(Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its default, as text; empty if it has no effect by default.
    pub default: &'static str,
    /// A sentence on what it does.
    pub help: &'static str,
    kind: &'static dyn AnyKind,
}

impl Key {
    /// A key; [`keys!`](crate::keys) calls this.
    pub fn new(name: &'static str, default: &'static str, help: &'static str, kind: &'static dyn AnyKind) -> Key {
        Key { name, default, help: help.trim(), kind }
    }

    /// The key with another default.
    pub fn with_default(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// The values allowed.
    pub fn domain(&self) -> Domain {
        self.kind.domain()
    }

    /// Checks a text and returns its canonical form.
    pub fn canonical(&self, text: &str) -> Result<Canonical, Error> {
        self.kind.canonical(text.trim())
    }

    fn canonical_default(&self) -> Canonical {
        match self.default {
            // No effect by default. The kind may refuse the empty text.
            "" => Canonical::text(""),
            text => self.canonical(text).expect("a default within its own range"),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.default)
    }
}

/// A struct made by [`keys!`](crate::keys).
pub trait Keyed: Sized {
    /// Its keys, in the order of its fields.
    fn keys() -> Vec<Key>;

    /// Reads its fields.
    fn read(values: &Values) -> Result<Self, Error>;

    /// Sets the keys to its fields.
    fn write(&self, values: &mut Values);
}

/// A set of keys, and the values that were set.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// All keys.
    pub keys: Vec<Key>,
    /// Values that were set, in the order of the keys.
    given: Vec<Option<Canonical>>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.given().eq(other.given())
    }
}

/// A key or a value that was refused.
#[non_exhaustive]
#[derive(Debug)]
pub enum Refused {
    /// There is no key of this name.
    Key(String),
    /// The key was set before.
    Twice(String),
    /// The key does not take this value.
    Value(String),
}

impl Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Refused::Key(message) | Refused::Twice(message) | Refused::Value(message)) = self;
        f.write_str(message)
    }
}

impl Values {
    /// These keys, none of which is set.
    pub fn new(keys: Vec<Key>) -> Values {
        Values { given: vec![None; keys.len()], keys }
    }

    fn find(&self, key: &str) -> Result<usize, Refused> {
        if let Some(found) = self.keys.iter().position(|known| known.name == key) {
            return Ok(found);
        }
        Err(Refused::Key(match self.keys.as_slice() {
            [] => "it takes no parameters".into(),
            keys => known(key, keys.iter().map(|key| key.name)),
        }))
    }

    /// Sets a key, again if it was set before.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Refused> {
        let at = self.find(key)?;
        let value = self.keys[at].canonical(text).map_err(|error| Refused::Value(error.to_string()))?;
        self.given[at] = Some(value);
        Ok(())
    }

    /// Sets a key that must not have been set before.
    pub fn set_once(&mut self, key: &str, text: &str) -> Result<(), Refused> {
        match self.given[self.find(key)?] {
            Some(_) => Err(Refused::Twice(format!("`{key}` is given twice: keep one"))),
            None => self.set(key, text),
        }
    }

    /// Values that were set, in the order of the keys, as canonical text.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.keys.iter().zip(&self.given).filter_map(|(key, value)| Some((key.name, value.as_ref()?.text.as_str())))
    }

    /// All values that have an effect, defaults included.
    pub fn scalars(&self) -> BTreeMap<String, Scalar> {
        let mut scalars = BTreeMap::new();
        for (key, given) in self.keys.iter().zip(&self.given) {
            let value = given.clone().unwrap_or_else(|| key.canonical_default());
            // A key without an effect is no part of a record.
            if !value.text.is_empty() {
                scalars.insert(key.name.to_string(), value.scalar);
            }
        }
        scalars
    }

    /// The values that differ in `settled`, which was made of these: such as `auto`.
    pub fn asked(&self, settled: &Values) -> BTreeMap<String, Scalar> {
        let settled = settled.scalars();
        self.scalars().into_iter().filter(|(key, value)| settled.get(key) != Some(value)).collect()
    }

    /// The value of one field; [`keys!`](crate::keys) calls this.
    pub fn read<K: ValueKind>(&self, name: &str, kind: &K) -> Result<K::Value, Error> {
        let at = self.find(name).map_err(|refused| Error::Usage(format!("`{name}`: {refused}")))?;
        let given = self.given[at].as_ref().map(|value| value.text.as_str());
        kind.read(given.unwrap_or(self.keys[at].default), given.is_some())
    }

    /// Sets the key of one field; [`keys!`](crate::keys) calls this.
    pub fn write<K: ValueKind>(&mut self, name: &str, kind: &K, value: &K::Value) {
        let at = self.find(name).expect("keys! writes the keys that it declared");
        self.given[at] = Some(kind.write(value));
    }
}

/// Declares a struct whose fields are keys, and how they are read ([`Keyed`](crate::schema::Keyed)).
///
/// A field is `name: Type = kind, "default";`, its doc comment the key's help. The type must be that of the kind's values. A field without
/// a kind is another such struct, whose keys are inserted at this place.
#[macro_export]
macro_rules! keys {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $help:literal])+ $field_vis:vis $field:ident : $type:ty $(= $kind:expr, $default:literal)?;)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $help])+ $field_vis $field: $type,)*
        }

        impl $crate::schema::Keyed for $name {
            fn keys() -> Vec<$crate::schema::Key> {
                #[allow(unused_mut)]
                let mut keys = Vec::new();
                $($crate::keys!(@list keys $field $type, [$($help)+] $(, $kind, $default)?);)*
                keys
            }

            fn read(_values: &$crate::schema::Values) -> Result<Self, $crate::error::Error> {
                Ok($name { $($field: $crate::keys!(@read _values $field $type $(, $kind)?),)* })
            }

            fn write(&self, _values: &mut $crate::schema::Values) {
                $($crate::keys!(@write self _values $field $(, $kind)?);)*
            }
        }
    };
    (@list $keys:ident $field:ident $type:ty, [$($help:literal)+], $kind:expr, $default:literal) => {
        $keys.push($crate::schema::Key::new(stringify!($field), $default, concat!($($help),+), const { &$kind }))
    };
    (@list $keys:ident $field:ident $type:ty, [$($help:literal)+]) => {
        $keys.extend(<$type as $crate::schema::Keyed>::keys())
    };
    (@read $values:ident $field:ident $type:ty, $kind:expr) => { $values.read(stringify!($field), &$kind)? };
    (@write $self:ident $values:ident $field:ident, $kind:expr) => {
        $values.write(stringify!($field), &$kind, &$self.$field)
    };
    (@write $self:ident $values:ident $field:ident) => { $crate::schema::Keyed::write(&$self.$field, $values) };
    (@read $values:ident $field:ident $type:ty) => { <$type as $crate::schema::Keyed>::read($values)? };
}

/// Declares an enum whose values are words, and the kind that reads them.
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$variant_about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$variant_about])* $variant,)+
        }

        impl $name {
            /// The kind of a key that takes one of them.
            pub const WORDS: $crate::schema::Word<$name> =
                $crate::schema::Word(&[$(($word, $name::$variant)),+]);
        }
    };
}

/// Lets serde keep a type as the text that it reads and writes.
macro_rules! kept_as_text {
    ($type:ty) => {
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::error::Error;

            fn try_from(text: String) -> Result<$type, $crate::error::Error> {
                text.parse()
            }
        }
    };
}

pub(crate) use {kept_as_text, words};

/// A piece of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPiece<'a> {
    /// What the whole text describes, for errors.
    what: &'static str,
    /// Its own text.
    pub text: &'a str,
    /// Its beginning, in bytes.
    at: usize,
}

impl<'a> TextPiece<'a> {
    /// The whole text, without blanks around it.
    pub fn whole(what: &'static str, text: &'a str) -> TextPiece<'a> {
        TextPiece { what, text, at: 0 }.trimmed()
    }

    /// The piece without blanks around it.
    pub fn trimmed(self) -> TextPiece<'a> {
        let blank = self.text.len() - self.text.trim_start().len();
        TextPiece { text: self.text.trim(), at: self.at + blank, ..self }
    }

    /// The bytes `from..to` of the piece.
    pub fn slice(self, from: usize, to: usize) -> TextPiece<'a> {
        TextPiece { text: &self.text[from..to], at: self.at + from, ..self }
    }

    /// Parts before and after the first `separator`.
    pub fn split_once(self, separator: char) -> Option<(TextPiece<'a>, TextPiece<'a>)> {
        let at = self.text.find(separator)?;
        Some((self.slice(0, at).trimmed(), self.slice(at + separator.len_utf8(), self.text.len()).trimmed()))
    }

    /// The pieces between the `separator`s.
    pub fn split(self, separator: char) -> impl Iterator<Item = TextPiece<'a>> {
        let mut at = 0;
        self.text.split(separator).map(move |text| {
            let piece = self.slice(at, at + text.len());
            at += text.len() + separator.len_utf8();
            piece.trimmed()
        })
    }

    /// An error at this place.
    pub fn error(self, message: impl Display) -> Box<Error> {
        // Cut, because a mistake may be as long as a file.
        let shown: String = self.text.chars().take(40).collect();
        Box::new(Error::Usage(format!("{}, character {}, `{shown}`: {message}", self.what, self.at + 1)))
    }

    /// Calls `set` for each key of `key=value,…`.
    pub fn settings(self, mut set: impl FnMut(&str, &str) -> Result<(), Refused>) -> Result<(), Box<Error>> {
        for setting in self.split(',') {
            let (key, value) = setting.split_once('=').ok_or_else(|| setting.error("expected key=value"))?;
            set(key.text, value.text).map_err(|refused| refused.at(key, value))?;
        }
        Ok(())
    }

    /// Sets the keys of `key=value,…`; an empty text has none.
    pub fn fill(self, values: &mut Values) -> Result<(), Box<Error>> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.settings(|key, value| {
            values.set_once(key, value).map_err(|refused| match refused {
                Refused::Key(names) => Refused::Key(format!("no key of this name; {names}")),
                other => other,
            })
        })
    }
}

impl Refused {
    /// The error at the key or at the value.
    pub(crate) fn at(self, key: TextPiece<'_>, value: TextPiece<'_>) -> Box<Error> {
        let place = if matches!(self, Refused::Value(_)) { value } else { key };
        place.error(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    keys! {
        /// A group.
        #[derive(Debug)]
        struct Ending {
            /// Ends after this many.
            count: u64 = Count(1, u64::MAX), "100k";
            /// Ends then.
            duration: Option<Nanos> = Maybe(Time(1)), "";
        }
    }

    keys! {
        /// All kinds.
        #[derive(Debug)]
        struct All {
            /// Sectors of a region.
            region_sectors: u64 = Count(1, 5000), "50";
            /// The portion.
            portion: char = Word(&[("tail", 't'), ("region", 'r')]), "tail";
            /// The head.
            head: Option<u64> = Or("auto", Count(1, 9)), "auto";
            /// A buffer.
            buffer_bytes: u64 = Size(512, 1 << 30), "4Ki";
            /// A share of the cache.
            cache_percent: Asked<f64> = Noted(percent(0.5, 50.0)), "1";
            /// Sections of the group.
            ending: Ending;
            /// A switch.
            bypass: bool = Switch, "off";
        }
    }

    fn all(set: &[(&str, &str)]) -> All {
        let mut values = Values::new(All::keys());
        set.iter().for_each(|(key, text)| values.set_once(key, text).unwrap());
        All::read(&values).unwrap()
    }

    #[test]
    fn fields_have_defaults_until_they_are_set() {
        let all = all(&[("portion", "region"), ("duration", "1500ms"), ("bypass", "yes")]);
        assert_eq!((all.region_sectors, all.portion, all.head, all.buffer_bytes), (50, 'r', None, 4096));
        assert_eq!((all.ending.count, all.ending.duration, all.bypass), (100_000, Some(Nanos(1_500_000_000)), true));
        assert!(!all.cache_percent.given && all.cache_percent.value == 1.0);
    }

    #[test]
    fn numbers_are_read_alike_everywhere() {
        for text in ["1000", "1k", "1_000", " 1000 "] {
            assert_eq!(all(&[("region_sectors", text)]).region_sectors, 1000, "{text}");
        }
        assert_eq!(all(&[("buffer_bytes", "4KiB")]).buffer_bytes, 4096);
        assert_eq!(all(&[("cache_percent", "2%")]).cache_percent.value, 2.0);
        assert_eq!(all(&[("head", "3")]).head, Some(3));
    }

    #[test]
    fn what_was_set_is_kept_in_canonical_form() {
        let mut values = Values::new(All::keys());
        for (key, text) in [("count", "1.5M"), ("buffer_bytes", "1024"), ("bypass", "1"), ("duration", "60s")] {
            values.set(key, text).unwrap();
        }
        let given: Vec<_> = values.given().collect();
        assert_eq!(given, [("buffer_bytes", "1Ki"), ("count", "1500000"), ("duration", "1min"), ("bypass", "on")]);
        let scalars = values.scalars();
        assert_eq!(scalars["buffer_bytes"], Scalar::Int(1024));
        assert_eq!(scalars["bypass"], Scalar::Bool(true));
        assert_eq!(scalars["head"], Scalar::Text("auto".into()));
    }

    #[test]
    fn keys_stand_in_the_order_of_fields_with_their_help() {
        let keys: Vec<_> = All::keys().iter().map(|key| (key.name, key.help)).collect();
        assert_eq!(keys[0], ("region_sectors", "Sectors of a region."));
        let names: Vec<_> = keys.iter().map(|(name, _)| *name).collect();
        assert_eq!(names[4..], ["cache_percent", "count", "duration", "bypass"]);
    }

    #[test]
    fn refusals_say_what_is_expected() {
        let mut values = Values::new(All::keys());
        for (key, text, words) in [
            ("region_sectors", "0", "`0` is out of range: expected a whole number from 1 to 5000"),
            ("head", "none", "`none` is neither: expected auto, or a whole number from 1 to 9"),
            ("portion", "tial", "did you mean `tail`"),
            ("portoin", "tail", "did you mean `portion`"),
            ("cache_percent", "60", "expected a percentage from 0.5 to 50"),
            ("duration", "0", "expected a duration above 0"),
            ("bypass", "maybe", "expected on or off"),
        ] {
            let message = values.set(key, text).unwrap_err().to_string();
            assert!(message.contains(words), "{key}={text}: {message}");
        }
        values.set_once("head", "2").unwrap();
        assert!(matches!(values.set_once("head", "2"), Err(Refused::Twice(_))));
    }
}
