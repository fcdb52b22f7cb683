//! Reading workloads: the short text form and TOML.

use toml::{Table, Value as Toml};

use super::part::WorkloadPart;
use crate::error::Error;
use crate::schema::{Switch, TextPiece, ValueKind, toml_text};

/// Reads `name:key=value,…`, joined by `+` (together) and `;` (one after another).
pub(super) fn text(text: &str) -> Result<Vec<Vec<WorkloadPart>>, Error> {
    let phases = TextPiece::whole("workload", text).split(';');
    let phases = phases.map(|phase| phase.split('+').map(|piece| part(piece).map_err(|e| *e)).collect());
    phases.collect()
}

fn part(piece: TextPiece<'_>) -> Result<WorkloadPart, Box<Error>> {
    let (name, rest) = piece.split_once(':').map_or((piece, None), |(name, rest)| (name, Some(rest)));
    if name.text.is_empty() {
        return Err(name.error("a workload is missing: write name:key=value,… and separate by `;` or `+`"));
    }
    let mut part = WorkloadPart::named(name.text).map_err(|e| name.error(e))?;
    if let Some(rest) = rest {
        rest.settings(|key, value| part.set(key, value))?;
    }
    part.check().map_err(|e| piece.error(e))?;
    Ok(part)
}

/// Reads a TOML file: `[[part]]` tables with `workload`, its keys, and `together = true` for a part that is merged with
/// the one before it.
pub(super) fn toml(text: &str) -> Result<Vec<Vec<WorkloadPart>>, Error> {
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
    let mut phases: Vec<Vec<WorkloadPart>> = Vec::new();
    for (i, value) in parts.iter().enumerate() {
        let (part, together) =
            toml_part(value).map_err(|e| Error::Usage(format!("workload file, part {}: {e}", i + 1)))?;
        match phases.last_mut() {
            Some(phase) if together => phase.push(part),
            None if together => return Err(Error::Usage("workload file, part 1: nothing to be together with".into())),
            _ => phases.push(vec![part]),
        }
    }
    Ok(phases)
}

fn toml_part(value: &Toml) -> Result<(WorkloadPart, bool), Error> {
    let Toml::Table(table) = value else {
        return Err(Error::Usage("expected a table".into()));
    };
    let Some(Toml::String(name)) = table.get("workload") else {
        return Err(Error::Usage("expected workload = \"NAME\"".into()));
    };
    let mut part = WorkloadPart::named(name).map_err(|e| Error::Usage(format!("`{name}`: {e}")))?;
    let mut together = false;
    for (key, value) in table.iter().filter(|(key, _)| *key != "workload") {
        let text = toml_text(value);
        let taken = match key.as_str() {
            "together" => Switch.read(text.trim(), true).map(|yes| together = yes).map_err(|e| e.to_string()),
            key => part.set(key, text.trim()).map_err(|e| e.to_string()),
        };
        taken.map_err(|e| Error::Usage(format!("key `{key}`: {e}")))?;
    }
    part.check()?;
    Ok((part, together))
}
