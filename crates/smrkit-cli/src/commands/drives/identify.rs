//! `smrkit drives identify`: whether disks are shingled, by their model strings.

use std::io::Read;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use smrkit::drive::catalogue::{self, Identified, Model};
use smrkit::error::Error;
use smrkit_report::catalogue::identified;

use crate::output::{print, print_json};

#[derive(Args)]
pub struct Identify {
    /// A model string, or - for text on standard input: what smartctl -i, hdparm -I, lsblk -o NAME,MODEL or zpool status print, or
    /// names of /dev/disk/by-id.
    model: String,
    /// Print JSON: an object for one disk, or a list for several.
    #[arg(long)]
    json: bool,
}

impl Identify {
    pub fn execute(self) -> anyhow::Result<()> {
        let disks = if self.model == "-" { from_standard_input()? } else { named(&self.model)? };
        match (self.json, disks.as_slice()) {
            (true, [disk]) => print_json(&as_json(disk)),
            (true, all) => print_json(&all.iter().map(as_json).collect::<Vec<_>>()),
            (false, all) => print(all.iter().map(identified).collect::<String>()),
        }
    }
}

/// The disks that a text names by model or family; the text itself as an unknown model if there are none. Errors: it is blank or a path.
fn named(text: &str) -> Result<Vec<Identified>, Error> {
    let found = catalogue::identify(text);
    if !found.is_empty() {
        return Ok(found);
    }
    let refuse = |message: String| Err(Error::Usage(message));
    match text {
        _ if text.trim().is_empty() => {
            refuse("no model is named: give what stands on the disk, such as WD40EFAX".into())
        }
        _ if Path::new(text).is_file() => refuse(format!("{text} is a file: write `- < {text}` to have its text read")),
        _ if is_written_as_a_path(text) => {
            refuse(format!("there is no file {text}: give a model such as WD40EFAX, or - for text on standard input"))
        }
        _ => Ok(vec![of_family(text).unwrap_or_else(|| catalogue::unlisted(text))]),
    }
}

/// True for a text with a slash, or with a dot before letters as in `disks.txt`: no model string has them.
fn is_written_as_a_path(text: &str) -> bool {
    let has_ending = text.rsplit_once('.').is_some_and(|(_, ending)| ending.starts_with(char::is_alphabetic));
    text.contains('/') || has_ending
}

/// A disk that stands for a family, such as HC620, if all disks of the family record in the same way.
fn of_family(text: &str) -> Option<Identified> {
    let words = |text: &str| -> Vec<String> {
        text.to_ascii_uppercase().split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_string).collect()
    };
    // A family's own name has letters and digits. Words such as Red or Ultrastar are part of many families' names.
    let is_name = |word: &String| {
        word.len() >= 4
            && [char::is_alphabetic, char::is_numeric].iter().all(|kind: &fn(char) -> bool| word.contains(*kind))
    };
    let name = words(text).into_iter().find(is_name)?;
    let family: Vec<Model> = catalogue::models().filter(|model| words(model.family).contains(&name)).collect();
    let first = family.iter().find(|model| model.is_own_preset).or(family.first())?;
    family.iter().all(|model| model.recording == first.recording).then_some(Identified::Known(name, *first))
}

fn from_standard_input() -> anyhow::Result<Vec<Identified>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Error::reading("-", error))?;
    let found = catalogue::identify(&String::from_utf8_lossy(&bytes));
    if found.is_empty() {
        let remedy = "the text names no disk by its model: give what smartctl -i or lsblk -o NAME,MODEL print";
        return Err(Error::input("-", remedy).into());
    }
    Ok(found)
}

fn as_json(disk: &Identified) -> Value {
    match disk {
        Identified::Known(_, model) => json!({
            "model": model.name,
            "recording": model.recording,
            "basis": model.basis,
            "source": model.source,
            "preset": model.preset,
            "stands_in": model.preset.is_some() && !model.is_own_preset,
            "family": model.family,
            "nearest": null,
        }),
        Identified::Unknown(name) | Identified::SolidState(name) => json!({
            "model": name,
            "recording": if matches!(disk, Identified::Unknown(_)) { "unknown" } else { "none" },
            "basis": null,
            "source": null,
            "preset": null,
            "stands_in": false,
            "family": null,
            "nearest": catalogue::nearest_model(name),
        }),
    }
}
