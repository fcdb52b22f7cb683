//! Parameters of layers: their kinds, defaults and ranges, and the values of one run.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::quantity::parse_bytes;
pub use crate::schema::Scalar;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within bounds (both included).
    Count(u64, u64),
    /// A number of bytes within bounds, written as `15M` or `64KiB`.
    Bytes(u64, u64),
    /// A percentage within bounds.
    Percent(f64, f64),
    /// A whole number within bounds, or this word.
    CountOr(&'static str, u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text that the layer itself understands; what it is, in words.
    Text(&'static str),
    /// `on` or `off`.
    Switch,
}

/// One parameter of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in `--set` and in results.
    pub key: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its value unless set.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
}

impl Kind {
    /// What is expected, in words.
    pub fn expected(&self) -> String {
        match self {
            Kind::Count(min, u64::MAX) => format!("a whole number from {min}"),
            Kind::Count(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Bytes(min, u64::MAX) => format!("a size from {min} bytes"),
            Kind::Bytes(min, max) => format!("a size from {min} to {max} bytes"),
            Kind::Percent(min, max) => format!("a percentage from {min} to {max}"),
            Kind::CountOr(word, min, u64::MAX) => format!("{word}, or a whole number from {min}"),
            Kind::CountOr(word, min, max) => format!("{word}, or a whole number from {min} to {max}"),
            Kind::Word(words) => format!("one of {}", words.join(", ")),
            Kind::Text(what) => (*what).into(),
            Kind::Switch => "on or off".into(),
        }
    }

    fn parse(&self, text: &str) -> Option<Scalar> {
        let within = |value: u64, min: u64, max: u64| (min <= value && value <= max).then_some(Scalar::Int(value));
        match *self {
            Kind::Count(min, max) => within(text.replace('_', "").parse().ok()?, min, max),
            Kind::Bytes(min, max) => within(parse_bytes(text).ok()?, min, max),
            Kind::Percent(min, max) => {
                let value: f64 = text.trim_end_matches('%').parse().ok()?;
                (min <= value && value <= max).then_some(Scalar::Float(value))
            }
            Kind::CountOr(word, ..) if text == word => Some(Scalar::Text(word.into())),
            Kind::CountOr(_, min, max) => within(text.replace('_', "").parse().ok()?, min, max),
            Kind::Word(words) => words.contains(&text).then(|| Scalar::Text(text.into())),
            Kind::Text(_) => Some(Scalar::Text(text.into())),
            Kind::Switch => match text {
                "on" | "true" | "yes" | "1" => Some(Scalar::Bool(true)),
                "off" | "false" | "no" | "0" => Some(Scalar::Bool(false)),
                _ => None,
            },
        }
    }
}

/// The values of one run: defaults, and what was set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(BTreeMap<String, Scalar>);

impl Parameters {
    /// The defaults of `known`, with `settings` (key, value as text) in their place.
    ///
    /// An unknown key or an impossible value is a usage error that names `layer` and what is expected.
    pub(super) fn resolve(
        layer: &str,
        known: &[Parameter],
        settings: &[(String, String)],
    ) -> Result<Parameters, Error> {
        let mut values = BTreeMap::new();
        for parameter in known {
            let value = parameter.kind.parse(parameter.default).expect("a default within its own range");
            values.insert(parameter.key.to_string(), value);
        }
        for (key, text) in settings {
            let Some(parameter) = known.iter().find(|p| p.key == key) else {
                let keys: Vec<&str> = known.iter().map(|p| p.key).collect();
                let remedy = match keys.as_slice() {
                    [] => "it takes no parameters".into(),
                    keys => format!("it takes {}", keys.join(", ")),
                };
                return Err(Error::Usage(format!("layer {layer} has no parameter '{key}': {remedy}")));
            };
            let value = parameter
                .kind
                .parse(text.trim())
                .ok_or_else(|| Error::Usage(format!("{layer}.{key}={text}: expected {}", parameter.kind.expected())))?;
            values.insert(key.clone(), value);
        }
        Ok(Parameters(values))
    }

    /// The same with another value of one of them.
    pub(super) fn with(&self, layer: &str, known: &[Parameter], key: &str, text: &str) -> Result<Parameters, Error> {
        let mut new = Parameters::resolve(layer, known, &[(key.into(), text.into())])?;
        for (other, value) in &self.0 {
            if other != key {
                new.0.insert(other.clone(), value.clone());
            }
        }
        Ok(new)
    }

    /// These, with a whole number where `auto` (or another word) stands for `key`.
    pub(super) fn settle(&mut self, key: &str, value: u64) {
        if let Some(Scalar::Text(_)) = self.0.get(key) {
            self.0.insert(key.into(), Scalar::Int(value));
        }
    }

    /// The values that `settled`, made of these, has in place of a word: what was asked for.
    pub fn asked(&self, settled: &Parameters) -> BTreeMap<String, Scalar> {
        let own = self.0.iter().filter(|(key, value)| settled.0.get(*key) != Some(value));
        own.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// All values by key.
    pub fn values(&self) -> &BTreeMap<String, Scalar> {
        &self.0
    }

    /// A whole number or a number of bytes.
    pub fn int(&self, key: &str) -> u64 {
        match self.0.get(key) {
            Some(Scalar::Int(value)) => *value,
            other => unreachable!("parameter {key} is {other:?}, not a whole number"),
        }
    }

    /// A whole number; `None` where the word stands in its place.
    pub fn count(&self, key: &str) -> Option<u64> {
        match self.0.get(key) {
            Some(Scalar::Int(value)) => Some(*value),
            Some(Scalar::Text(_)) => None,
            other => unreachable!("parameter {key} is {other:?}, neither a whole number nor a word"),
        }
    }

    /// A percentage.
    pub fn percent(&self, key: &str) -> f64 {
        match self.0.get(key) {
            Some(Scalar::Float(value)) => *value,
            other => unreachable!("parameter {key} is {other:?}, not a percentage"),
        }
    }

    /// A word.
    pub fn word(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(Scalar::Text(value)) => value,
            other => unreachable!("parameter {key} is {other:?}, not a word"),
        }
    }

    /// On or off.
    pub fn is_on(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Scalar::Bool(value)) => *value,
            other => unreachable!("parameter {key} is {other:?}, not on or off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] = &[
        Parameter { key: "region_sectors", kind: Kind::Count(1, 100), default: "50", summary: "" },
        Parameter { key: "portion", kind: Kind::Word(&["tail", "region"]), default: "tail", summary: "" },
        Parameter { key: "head", kind: Kind::CountOr("auto", 1, 9), default: "auto", summary: "" },
    ];

    fn resolve(key: &str, value: &str) -> Result<Parameters, Error> {
        Parameters::resolve("rmw", KNOWN, &[(key.into(), value.into())])
    }

    #[test]
    fn what_is_not_set_keeps_its_default() {
        let parameters = resolve("portion", "region").unwrap();
        assert_eq!((parameters.int("region_sectors"), parameters.word("portion")), (50, "region"));
    }

    #[test]
    fn another_value_leaves_the_others_as_they_were() {
        let tail = resolve("region_sectors", "7").unwrap();
        let region = tail.with("rmw", KNOWN, "portion", "region").unwrap();
        assert_eq!((region.int("region_sectors"), region.word("portion"), region.count("head")), (7, "region", None));
        assert!(tail.with("rmw", KNOWN, "size", "1").is_err());
    }

    #[test]
    fn a_word_may_stand_in_place_of_a_number() {
        let count = |value| resolve("head", value).unwrap().count("head");
        assert_eq!([count("auto"), count("3")], [None, Some(3)]);
        let message = resolve("head", "none").unwrap_err().to_string();
        assert_eq!(message, "rmw.head=none: expected auto, or a whole number from 1 to 9");
    }

    #[test]
    fn errors_name_what_is_expected() {
        let message = |key, value| resolve(key, value).unwrap_err().to_string();
        assert_eq!(message("region_sectors", "0"), "rmw.region_sectors=0: expected a whole number from 1 to 100");
        assert_eq!(message("portion", "x"), "rmw.portion=x: expected one of tail, region");
        assert_eq!(message("size", "1"), "layer rmw has no parameter 'size': it takes region_sectors, portion, head");
    }
}
