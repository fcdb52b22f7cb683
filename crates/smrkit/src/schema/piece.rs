//! Texts of `key=value,…`: pieces that know where they begin, so that errors show the place.

use std::fmt::Display;

use super::{Refused, Values};
use crate::error::Error;

/// A piece of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPiece<'a> {
    /// Subject of the whole text, for errors.
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
        let shown: String = self.text.chars().take(40).collect();
        Box::new(Error::Usage(format!("{}, character {}, `{shown}`: {message}", self.what, self.at + 1)))
    }

    /// Gives the keys of `key=value,…` to `set`.
    pub fn settings(self, mut set: impl FnMut(&str, &str) -> Result<(), Refused>) -> Result<(), Box<Error>> {
        for setting in self.split(',') {
            let (key, value) = setting.split_once('=').ok_or_else(|| setting.error("expected key=value"))?;
            set(key.text, value.text).map_err(|refused| refused.at(key, value))?;
        }
        Ok(())
    }

    /// Sets keys to what `key=value,…` says; an empty text says nothing.
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
