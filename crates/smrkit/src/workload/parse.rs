//! Reading workloads: the short text form and TOML.

use toml::{Table, Value as Toml};

use super::Workload;
use super::part::Part;
use crate::error::Error;
use crate::schema::Refused;

/// Reads `name:key=value,…`, joined by `+` (together) and `;` (one after another).
pub(super) fn text(text: &str) -> Result<Workload, Error> {
    let phases = pieces(Piece { text, at: 0 }, ';');
    let phases = phases.map(|phase| pieces(phase, '+').map(|piece| part(piece).map_err(|e| *e)).collect());
    Workload::of(phases.collect::<Result<_, _>>()?)
}

/// A piece of the text and where it begins, in bytes.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Piece<'a> {
    fn trimmed(self) -> Piece<'a> {
        let blank = self.text.len() - self.text.trim_start().len();
        Piece { text: self.text.trim(), at: self.at + blank }
    }

    fn split_once(self, separator: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let (before, after) = self.text.split_once(separator)?;
        let after = Piece { text: after, at: self.at + before.len() + separator.len_utf8() };
        Some((Piece { text: before, at: self.at }.trimmed(), after.trimmed()))
    }

    /// An error at this place.
    fn error(self, message: impl std::fmt::Display) -> Box<Error> {
        let shown: String = self.text.chars().take(40).collect();
        Box::new(Error::Usage(format!("workload, character {}, `{shown}`: {message}", self.at + 1)))
    }
}

fn pieces(whole: Piece<'_>, separator: char) -> impl Iterator<Item = Piece<'_>> {
    let mut at = whole.at;
    whole.text.split(separator).map(move |text| {
        let piece = Piece { text, at };
        at += text.len() + separator.len_utf8();
        piece.trimmed()
    })
}

fn part(piece: Piece<'_>) -> Result<Part, Box<Error>> {
    let (name, rest) = piece.split_once(':').map_or((piece, None), |(name, rest)| (name, Some(rest)));
    if name.text.is_empty() {
        return Err(name.error("a workload is missing: write name:key=value,… and separate by `;` or `+`"));
    }
    let mut part = Part::named(name.text).map_err(|e| name.error(e))?;
    for setting in rest.into_iter().flat_map(|rest| pieces(rest, ',')) {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(setting.error("expected key=value"));
        };
        part.set(key.text, value.text).map_err(|refused| {
            let place = if matches!(refused, Refused::Value(_)) { value } else { key };
            place.error(refused)
        })?;
    }
    part.check().map_err(|e| piece.error(e))?;
    Ok(part)
}

/// Reads a TOML file: `[[part]]` tables with `workload`, its keys, and `together = true` for a part that is merged with
/// the one before it.
pub(super) fn toml(text: &str) -> Result<Workload, Error> {
    let table: Table = text.parse().map_err(|e| Error::Usage(format!("workload file: {e}")))?;
    let unknown = table.keys().find(|key| *key != "part");
    if let Some(key) = unknown {
        return Err(Error::Usage(format!(
            "workload file: unknown key `{key}`: write the workloads as [[part]] tables"
        )));
    }
    let Some(Toml::Array(parts)) = table.get("part") else {
        return Err(Error::Usage("workload file: no [[part]] table: write one for each workload".into()));
    };
    let mut phases: Vec<Vec<Part>> = Vec::new();
    for (i, value) in parts.iter().enumerate() {
        let (part, together) =
            toml_part(value).map_err(|e| Error::Usage(format!("workload file, part {}: {e}", i + 1)))?;
        match phases.last_mut() {
            Some(phase) if together => phase.push(part),
            None if together => return Err(Error::Usage("workload file, part 1: nothing to be together with".into())),
            _ => phases.push(vec![part]),
        }
    }
    Workload::of(phases)
}

fn toml_part(value: &Toml) -> Result<(Part, bool), Error> {
    let Toml::Table(table) = value else {
        return Err(Error::Usage("expected a table".into()));
    };
    let Some(Toml::String(name)) = table.get("workload") else {
        return Err(Error::Usage("expected workload = \"NAME\"".into()));
    };
    let mut part = Part::named(name).map_err(|e| Error::Usage(format!("`{name}`: {e}")))?;
    let mut together = false;
    for (key, value) in table.iter().filter(|(key, _)| *key != "workload") {
        match value {
            Toml::Boolean(yes) if key == "together" => together = *yes,
            _ => part.set(key, &plain(value)).map_err(|e| Error::Usage(format!("key `{key}`: {e}")))?,
        }
    }
    part.check()?;
    Ok((part, together))
}

/// A TOML value as the short form would have it.
fn plain(value: &Toml) -> String {
    match value {
        Toml::String(text) => text.trim().to_string(),
        Toml::Boolean(yes) => if *yes { "yes" } else { "no" }.to_string(),
        other => other.to_string(),
    }
}
