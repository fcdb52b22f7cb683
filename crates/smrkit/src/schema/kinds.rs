//! The kinds of values that keys take: numbers, sizes, shares, durations, words, and texts with a grammar of their own.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use super::{Canonical, Domain, Scalar, ValueKind};
use crate::error::Error;
use crate::names::known;
use crate::quantity::{
    exact_bytes, exact_duration, parse_bytes, parse_count, parse_duration, parse_number, parse_percent, parse_sectors,
    parse_share,
};
use crate::units::{Nanos, SECTOR_BYTES};

/// A number within its bounds, or an error that names them.
fn within<T: PartialOrd + Copy>(text: &str, value: T, low: T, high: T, kind: &impl ValueKind) -> Result<T, Error> {
    match low <= value && value <= high {
        true => Ok(value),
        false => Err(Error::Usage(format!("`{text}` is out of range: expected {}", kind.domain()))),
    }
}

/// The values in words, to follow "expected".
impl Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Whole(low, u64::MAX) => write!(f, "a whole number from {low}"),
            Domain::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
            Domain::Bytes(low, u64::MAX) => write!(f, "a size from {}", exact_bytes(*low)),
            Domain::Bytes(low, high) => write!(f, "a size from {} to {}", exact_bytes(*low), exact_bytes(*high)),
            Domain::Fraction(what, low, high) if high.is_infinite() => write!(f, "{what} from {low}"),
            Domain::Fraction(what, low, high) => write!(f, "{what} from {low} to {high}"),
            Domain::Time(Nanos(1)) => f.write_str("a duration above 0"),
            Domain::Time(least) => write!(f, "a duration from {}", exact_duration(*least)),
            Domain::Words(words) if words[..] == ["on", "off"] => f.write_str("on or off"),
            Domain::Words(words) => write!(f, "one of {}", words.join(", ")),
            Domain::Or(word, other) => write!(f, "{word}, or {other}"),
            Domain::Text(expected) => f.write_str(expected),
        }
    }
}

/// A whole number within bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub u64, pub u64);

impl ValueKind for Count {
    type Value = u64;

    fn read(&self, text: &str, _given: bool) -> Result<u64, Error> {
        within(text, parse_count(text)?, self.0, self.1, self)
    }

    fn write(&self, count: &u64) -> Canonical {
        Canonical { text: count.to_string(), scalar: Scalar::Int(*count) }
    }

    fn domain(&self) -> Domain {
        Domain::Whole(self.0, self.1)
    }
}

/// A size in bytes within bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64, pub u64);

impl ValueKind for Size {
    type Value = u64;

    fn read(&self, text: &str, _given: bool) -> Result<u64, Error> {
        within(text, parse_bytes(text)?, self.0, self.1, self)
    }

    fn write(&self, bytes: &u64) -> Canonical {
        Canonical { text: exact_bytes(*bytes), scalar: Scalar::Int(*bytes) }
    }

    fn domain(&self) -> Domain {
        Domain::Bytes(self.0, self.1)
    }
}

/// A size in whole sectors within bounds, both included and in sectors, as is the value.
#[derive(Clone, Copy, Debug)]
pub struct Sectors(pub u64, pub u64);

impl Sectors {
    fn bytes(&self) -> Size {
        Size(self.0 * SECTOR_BYTES, self.1.saturating_mul(SECTOR_BYTES))
    }
}

impl ValueKind for Sectors {
    type Value = u64;

    fn read(&self, text: &str, _given: bool) -> Result<u64, Error> {
        within(text, parse_sectors(text)?, self.0, self.1, self)
    }

    fn write(&self, sectors: &u64) -> Canonical {
        self.bytes().write(&sectors.saturating_mul(SECTOR_BYTES))
    }

    fn domain(&self) -> Domain {
        ValueKind::domain(&self.bytes())
    }
}

/// A fraction within bounds, both included.
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    bounds: (f64, f64),
    parse: fn(&str) -> Result<f64, Error>,
    what: &'static str,
}

/// A percentage within bounds, with or without its sign; the value is in percent.
pub const fn percent(low: f64, high: f64) -> Fraction {
    Fraction { bounds: (low, high), parse: parse_percent, what: "a percentage" }
}

/// A share from 0 to 1, or a percentage of the whole; the value is the share.
pub const fn share() -> Fraction {
    Fraction { bounds: (0.0, 1.0), parse: parse_share, what: "a share (or a percentage)" }
}

/// A number within bounds.
pub const fn number(low: f64, high: f64) -> Fraction {
    Fraction { bounds: (low, high), parse: parse_number, what: "a number" }
}

impl ValueKind for Fraction {
    type Value = f64;

    fn read(&self, text: &str, _given: bool) -> Result<f64, Error> {
        within(text, (self.parse)(text)?, self.bounds.0, self.bounds.1, self)
    }

    fn write(&self, value: &f64) -> Canonical {
        Canonical { text: value.to_string(), scalar: Scalar::Float(*value) }
    }

    fn domain(&self) -> Domain {
        Domain::Fraction(self.what, self.bounds.0, self.bounds.1)
    }
}

/// A duration of at least this many nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub u64);

impl ValueKind for Time {
    type Value = Nanos;

    fn read(&self, text: &str, _given: bool) -> Result<Nanos, Error> {
        within(text, parse_duration(text)?, Nanos(self.0), Nanos::MAX, self)
    }

    fn write(&self, time: &Nanos) -> Canonical {
        Canonical::text(exact_duration(*time))
    }

    fn domain(&self) -> Domain {
        Domain::Time(Nanos(self.0))
    }
}

/// `on` or `off`, or a synonym.
#[derive(Clone, Copy, Debug)]
pub struct Switch;

impl ValueKind for Switch {
    type Value = bool;

    fn read(&self, text: &str, _given: bool) -> Result<bool, Error> {
        match text {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            _ => Err(Error::Usage(format!("`{text}` is no switch: expected {}", self.domain()))),
        }
    }

    fn write(&self, on: &bool) -> Canonical {
        let scalar = Scalar::Bool(*on);
        Canonical { text: scalar.to_string(), scalar }
    }

    fn domain(&self) -> Domain {
        Domain::Words(vec!["on", "off"])
    }
}

/// One of these words, each with its value.
#[derive(Clone, Copy, Debug)]
pub struct Word<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq + Sync> Word<T> {
    fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.0.iter().map(|(word, _)| *word)
    }
}

impl<T: Copy + PartialEq + Sync> ValueKind for Word<T> {
    type Value = T;

    fn read(&self, text: &str, _given: bool) -> Result<T, Error> {
        match self.0.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(*value),
            None => Err(Error::Usage(format!("`{text}` is unknown: {}", known(text, self.names())))),
        }
    }

    fn write(&self, value: &T) -> Canonical {
        let word = self.0.iter().find(|(_, other)| other == value).map(|(word, _)| *word);
        Canonical::text(word.expect("a word for every value"))
    }

    fn domain(&self) -> Domain {
        Domain::Words(self.names().collect())
    }
}

/// A word such as `auto`, or a value.
#[derive(Clone, Copy, Debug)]
pub struct Or<K>(pub &'static str, pub K);

impl<K: ValueKind> ValueKind for Or<K> {
    type Value = Option<K::Value>;

    fn read(&self, text: &str, given: bool) -> Result<Option<K::Value>, Error> {
        let Or(word, kind) = self;
        if text == *word {
            return Ok(None);
        }
        let neither = || Error::Usage(format!("`{text}` is neither: expected {}", self.domain()));
        kind.read(text, given).map(Some).map_err(|_| neither())
    }

    fn write(&self, value: &Option<K::Value>) -> Canonical {
        value.as_ref().map_or_else(|| Canonical::text(self.0), |value| self.1.write(value))
    }

    fn domain(&self) -> Domain {
        Domain::Or(self.0, Box::new(self.1.domain()))
    }
}

/// A value that may be left out: the default is the empty text.
#[derive(Clone, Copy, Debug)]
pub struct Maybe<K>(pub K);

impl<K: ValueKind> ValueKind for Maybe<K> {
    type Value = Option<K::Value>;

    fn read(&self, text: &str, given: bool) -> Result<Option<K::Value>, Error> {
        if text.is_empty() && !given { Ok(None) } else { self.0.read(text, given).map(Some) }
    }

    fn write(&self, value: &Option<K::Value>) -> Canonical {
        value.as_ref().map_or_else(|| Canonical::text(""), |value| self.0.write(value))
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }
}

/// A value with a note of whether a user gave it.
#[derive(Clone, Copy, Debug)]
pub struct Noted<K>(pub K);

/// A value, and whether a user gave it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<T> {
    /// The value.
    pub value: T,
    /// True if it is not the default.
    pub given: bool,
}

impl<K: ValueKind> ValueKind for Noted<K> {
    type Value = Asked<K::Value>;

    fn read(&self, text: &str, given: bool) -> Result<Asked<K::Value>, Error> {
        Ok(Asked { value: self.0.read(text, given)?, given })
    }

    fn write(&self, asked: &Asked<K::Value>) -> Canonical {
        self.0.write(&asked.value)
    }

    fn domain(&self) -> Domain {
        self.0.domain()
    }
}

/// A type with a text form of its own; the words say what is expected.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub &'static str, pub PhantomData<fn() -> T>);

impl<T> Text<T> {
    /// Text that `T` reads.
    pub const fn new(expected: &'static str) -> Text<T> {
        Text(expected, PhantomData)
    }
}

impl<T: FromStr<Err = Error> + Display> ValueKind for Text<T> {
    type Value = T;

    fn read(&self, text: &str, _given: bool) -> Result<T, Error> {
        text.parse()
    }

    fn write(&self, value: &T) -> Canonical {
        Canonical::text(value.to_string())
    }

    fn domain(&self) -> Domain {
        Domain::Text(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind takes the first texts as what the second are, and refuses the others; then what it expects.
    fn assert_takes<K: ValueKind>(kind: K, taken: &[(&str, &str)], refused: &[&str], expected: &str) {
        for (text, canonical) in taken {
            assert_eq!(kind.write(&kind.read(text, true).ok().unwrap()).text, *canonical, "{text}");
        }
        for text in refused {
            assert!(kind.read(text, true).is_err(), "{text}");
        }
        assert_eq!(kind.domain().to_string(), expected);
    }

    #[test]
    fn each_kind_takes_what_lies_within_its_bounds() {
        assert_takes(Count(2, 5), &[("2", "2"), ("5", "5")], &["1", "6", "x"], "a whole number from 2 to 5");
        assert_takes(Count(1, u64::MAX), &[("1k", "1000")], &["0"], "a whole number from 1");
        assert_takes(Size(512, 4096), &[("512", "512"), ("4Ki", "4Ki")], &["511", "4097"], "a size from 512 to 4Ki");
        assert_takes(Size(0, u64::MAX), &[("0", "0")], &["-1"], "a size from 0");
        assert_takes(Sectors(1, 8), &[("512", "512"), ("4Ki", "4Ki")], &["0", "513", "4608"], "a size from 512 to 4Ki");
        assert_takes(percent(1.0, 50.0), &[("1", "1"), ("50%", "50")], &["0.99", "50.1"], "a percentage from 1 to 50");
        assert_takes(
            share(),
            &[("0", "0"), ("1", "1"), ("30%", "0.3")],
            &["1.01", "-1"],
            "a share (or a percentage) from 0 to 1",
        );
        assert_takes(number(0.5, 2.0), &[("0.5", "0.5"), ("2", "2")], &["0.4", "2.1"], "a number from 0.5 to 2");
        assert_takes(Time(1), &[("1ns", "1ns"), ("90s", "90s")], &["0"], "a duration above 0");
        assert_takes(Time(0), &[("0", "0s")], &["1"], "a duration from 0s");
        assert_takes(Time(5_000), &[("5us", "5us")], &["4999ns"], "a duration from 5us");
        let on = [("on", "on"), ("true", "on"), ("yes", "on"), ("1", "on")];
        let off = [("off", "off"), ("false", "off"), ("no", "off"), ("0", "off")];
        assert_takes(Switch, &[on, off].concat(), &["", "maybe"], "on or off");
        let word = Word(&[("one", 1), ("two", 2)]);
        assert_takes(word, &[("one", "one"), ("two", "two")], &["three", ""], "one of one, two");
        let or = Or("auto", Count(2, 5));
        assert_takes(or, &[("auto", "auto"), ("3", "3")], &["6", ""], "auto, or a whole number from 2 to 5");
        assert_takes(Maybe(Count(2, 5)), &[("3", "3")], &["", "6"], "a whole number from 2 to 5");
        assert_takes(Noted(Count(2, 5)), &[("3", "3")], &["6"], "a whole number from 2 to 5");
    }

    #[test]
    fn what_is_left_out_is_told_from_what_was_given() {
        let maybe = Maybe(Count(2, 5));
        assert_eq!((maybe.read("", false).unwrap(), maybe.read("3", false).unwrap()), (None, Some(3)));
        assert_eq!((maybe.write(&None).text.as_str(), maybe.write(&Some(3)).text.as_str()), ("", "3"));
        let noted = |given| Noted(Count(2, 5)).read("3", given).map(|asked| (asked.value, asked.given)).unwrap();
        assert_eq!((noted(true), noted(false)), ((3, true), (3, false)));
        assert_eq!(Or("auto", Count(2, 5)).read("auto", true).unwrap(), None);
    }

    #[test]
    fn bounds_are_told_as_data_too() {
        assert!(matches!(ValueKind::domain(&Count(2, 5)), Domain::Whole(2, 5)));
        assert!(matches!(ValueKind::domain(&Size(2, 5)), Domain::Bytes(2, 5)));
        assert!(matches!(ValueKind::domain(&Sectors(2, 5)), Domain::Bytes(1024, 2560)));
        assert!(matches!(ValueKind::domain(&percent(2.0, 5.0)), Domain::Fraction("a percentage", 2.0, 5.0)));
        assert!(matches!(ValueKind::domain(&Time(2)), Domain::Time(Nanos(2))));
        assert!(matches!(ValueKind::domain(&Switch), Domain::Words(words) if words == ["on", "off"]));
        assert!(matches!(ValueKind::domain(&Word(&[("one", 1)])), Domain::Words(words) if words == ["one"]));
        let Domain::Or("auto", rest) = ValueKind::domain(&Or("auto", Count(2, 5))) else { panic!("a word or a count") };
        assert!(matches!(*rest, Domain::Whole(2, 5)));
        assert!(matches!(ValueKind::domain(&Maybe(Noted(Count(2, 5)))), Domain::Whole(2, 5)));
    }
}
