//! When things happen: drives, their clocks, and the files that describe them.
//!
//! A clock turns accesses into time and knows no data; the model and its sources are in `docs/reference/model.md`. Drives are
//! described in TOML, in `drives/` or by the user, with a source next to each number.

/// An enum whose variants have one name each, in files and for people.
macro_rules! named_values {
    ($(#[$about:meta])* $visible:vis enum $name:ident { $($(#[$variant_about:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        $visible enum $name {
            $($(#[$variant_about])* #[serde(rename = $text)] $variant,)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $text,)*
                })
            }
        }
    };
}

mod buffered;
mod build;
pub mod catalogue;
mod clock;
mod file;
pub mod import;
mod mechanical;
mod seek;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::geometry::{Edge, Geometry, SECTORS_MAX};
use crate::medium::interference::Interference;
use crate::names::nearest;
use crate::quantity::Bytes;
use crate::units::{Nanos, SECTOR_BYTES};

pub use buffered::{Buffer, Buffered, Overheads, ReadAheadTo, WriteCacheOrder};
pub use build::CommandOrder;
pub use clock::{Constant, DriveClock, Position};
pub use file::{DriveSetting, RANGE_ENDS};
pub use mechanical::Mechanical;
pub(crate) use mechanical::Mechanics;
pub use seek::SeekCurve;
pub(crate) use seek::SeekPoints;

use file::{DriveFile, TranslationTable};

/// `value · of / whole`, rounded down. Mostly the product fits 64 bits, whose division is several times faster than that of 128.
#[inline]
fn scaled(value: u64, of: u64, whole: u64) -> u64 {
    match value.checked_mul(of) {
        Some(product) => product / whole,
        None => (u128::from(value) * u128::from(of) / u128::from(whole)) as u64,
    }
}

/// Names and files of drives.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../drives/", $name, ".toml"))),)*]
    };
}

/// The drives that are built in: name and file.
pub const DRIVES: &[(&str, &str)] = built_in![
    "cassuto-table1",
    "cassuto-random",
    "st5000as0011",
    "wdc-2tb",
    "st8000as0002",
    "st8000as0022",
    "st8000dm004",
    "st4000dm004",
    "st2000dm008",
    "st5000lm000",
    "wd40efax",
    "wd60efax",
    "wd20spzx",
    "wd40ndzw",
    "mq04abf100",
    "hc620",
    "hc650",
    "hc680",
    "hc690",
    "wd40efrx",
    "wd40efpx",
    "st4000vn008",
    "st8000vn004",
    "st16000nm001g",
    "exos-2x18-half",
    "tiny",
    "tiny-constant",
];

/// A drive: where sectors lie, what a write destroys, and when things happen.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// Sentence on the drive.
    pub summary: String,
    /// Layout of sectors.
    pub geometry: Geometry,
    /// Sectors that a write destroys.
    pub interference: Interference,
    /// When things happen; the head over the outermost track at time 0.
    pub clock: DriveClock,
    /// Every value of the drive file with its source.
    pub settings: Vec<DriveSetting>,
    /// Its order of commands, where it has one.
    pub command_order: Option<CommandOrder>,
    /// The layer that it is sold with, where it is a product.
    pub translation: Option<Translation>,
    file: DriveFile,
    path: PathBuf,
    /// The text of a drive file that is not built in.
    text: Option<Arc<str>>,
}

/// The layer that a drive is sold with: `in-place` for a conventional disk, `zoned` for a host-managed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Name of the layer.
    pub layer: String,
    /// Its parameters, as (key, value).
    pub parameters: Vec<(String, String)>,
}

/// The error for a text that names no drive, with the name that may be meant.
fn unknown_drive(text: &str) -> Error {
    let near = match catalogue::nearest_model(text) {
        // Toshiba's USB boxes, of up to 2 TB with disks of the MQ04 kind.
        _ if text.eq_ignore_ascii_case("canvio") => Some("mq04abf100"),
        // Not a model at all, so perhaps a preset.
        None if catalogue::identify(text).is_empty() => nearest(text, DRIVES.iter().map(|(name, _)| *name)),
        near => near,
    };
    let question = near.map_or_else(|| similar(text), |near| format!("did you mean `{near}`? Or "));
    Error::Usage(format!(
        "no drive is called `{text}`: {question}give the model of the disk (in a USB box, too), which smartctl -i shows, or the path of a \
         drive file; smrkit drives lists the names"
    ))
}

/// A question that names the models most like a mistyped one, and how each records, since one letter may be the difference between shingled and conventional.
fn similar(text: &str) -> String {
    let in_words = |model: catalogue::Model| {
        format!("`{}` ({}: {})", model.name, model.family, catalogue::recording_in_words(model.recording))
    };
    let all: Vec<String> = catalogue::similar(text).into_iter().map(in_words).collect();
    if all.is_empty() { String::new() } else { format!("did you mean {}? Or ", all.join(" or ")) }
}

impl Drive {
    /// A drive by its name in `DRIVES`, by a model string of the [`catalogue`], or by the path of a drive file. `@KEY=low` or `@KEY=high`
    /// after it sets that key to an end of its range, `@KEY=NUMBER` to another value ([`Drive::at`]).
    pub fn load(name_or_path: &str) -> Result<Drive, Error> {
        // A file may have such a name itself.
        if let Some((own, key, value)) = split_choice(name_or_path).filter(|_| !Path::new(name_or_path).exists()) {
            return Drive::load(own)?.at(key, value);
        }
        if let Some((name, text)) = DRIVES.iter().find(|(name, _)| name.eq_ignore_ascii_case(name_or_path)) {
            let path = format!("drives/{name}.toml");
            return Drive::build(DriveFile::parse(path.as_ref(), text)?, path.as_ref());
        }
        let path = Path::new(name_or_path);
        let looks_like_a_path = name_or_path.contains(['/', '\\', '.']) || path.exists();
        if !looks_like_a_path {
            return Drive::of_model(name_or_path);
        }
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => Error::input(path, "not a text file: give a drive file in TOML"),
            _ => Error::reading(path, e),
        })?;
        Drive::parse(path, &text)
    }

    /// The drive for a model string: its own, or another model's at its size.
    fn of_model(text: &str) -> Result<Drive, Error> {
        // What follows a model's name may be a vendor's suffix, which is ignored; an `@KEY=VALUE` that was not understood must not be.
        if let Some((_, choice)) = text.split_once('@') {
            return Err(Error::Usage(format!(
                "`@{choice}` is no key of a drive file and its value: give them as in @mechanical.rpm=7200"
            )));
        }
        let Some(model) = catalogue::find(text) else { return Err(unknown_drive(text)) };
        let recording = catalogue::recording_in_words(model.recording);
        let Some(preset) = model.preset else {
            return Err(Error::Usage(format!(
                "{}: recording {recording}; no drive that comes with smrkit can stand for it: name one, or give the path of \
                 a drive file",
                model.name
            )));
        };
        let mut drive = Drive::load(preset)?;
        if model.is_own_preset {
            return Ok(drive);
        }
        // The model that the preset was made for.
        let own_model = catalogue::models().find(|own| own.is_own_preset && own.preset == model.preset);
        if let Some((wanted, own)) = model.terabytes.zip(own_model.and_then(|own| own.terabytes)) {
            let sectors = drive.geometry.sectors as f64 * wanted / own;
            drive = drive.with_capacity(sectors as u64)?;
        }
        drive.file.stands_for = Some(model.name);
        Ok(drive)
    }

    /// The model of the catalogue that the drive stands for, if that model has no drive of its own.
    pub fn stands_for(&self) -> Option<&'static str> {
        self.file.stands_for
    }

    /// The drive file; `None` for a drive that comes with smrkit.
    pub fn file(&self) -> Option<&Path> {
        self.text.as_ref().map(|_| &*self.path)
    }

    /// The text of the drive file; `None` for a drive that comes with smrkit.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The drive as if its text came from a file at `path`.
    pub(crate) fn with_path(self, path: PathBuf) -> Drive {
        Drive { path, ..self }
    }

    /// A drive from the text of a drive file; `path` is for messages, and may end in `@KEY=low` as a name may.
    pub fn parse(path: &Path, text: &str) -> Result<Drive, Error> {
        if let Some((own, key, value)) = path.to_str().and_then(split_choice) {
            return Drive::parse(own.as_ref(), text)?.at(key, value);
        }
        let drive = Drive::build(DriveFile::parse(path, text)?, path)?;
        Ok(Drive { text: Some(text.into()), ..drive })
    }

    /// The drive with room for at least `sectors`, by the rule of `docs/reference/model.md`: a mechanical drive gets more of its platters,
    /// as many as are needed, and then as few tracks in each recording zone as will do. Seek times stay shares of the stroke, and defects
    /// beyond the new end go. Asked for the size of the result, it makes the same drive again.
    pub fn with_capacity(self, sectors: u64) -> Result<Drive, Error> {
        if sectors == 0 {
            return Err(Error::Usage("a capacity below one sector: give {capacity} a unit, as in 8TB".into()));
        }
        if sectors > SECTORS_MAX {
            let (asked, most) = (Bytes(sectors.saturating_mul(SECTOR_BYTES)), Bytes(SECTORS_MAX * SECTOR_BYTES));
            return Err(Error::Impossible(format!(
                "a capacity of {asked}: a drive holds at most {most}; give a smaller {{capacity}}, or where a trace asks \
                 for it {{fold}}"
            )));
        }
        // The law is kept, since it may be another than the file's (`with_interference`).
        let Drive { interference, mut file, path, text, .. } = self;
        build::resize(&mut file, sectors)?;
        Drive { text, ..Drive::build(file, &path)? }.with_interference(interference)
    }

    /// The settings that are known only roughly, each with its range.
    pub fn ranges(&self) -> impl Iterator<Item = &DriveSetting> {
        self.settings.iter().filter(|setting| setting.range.is_some())
    }

    /// The drive with `key` at an end of its range (`low`, `high`) or at another value, which its name shows. Errors: a key without a
    /// range, or one that is not in its file.
    pub fn at(&self, key: &str, value: &str) -> Result<Drive, Error> {
        let mut file = self.file.clone();
        file.choose(key, value).map_err(|ranges| {
            let known = if ranges.is_empty() { "none".into() } else { ranges.join(", ") };
            Error::Usage(match RANGE_ENDS.contains(&value) {
                true => format!("{} has no range of {key}: keys with a range are {known}", self.name),
                false => format!("{} has no number {key} that could be {value}: see `smrkit drives show`", self.name),
            })
        })?;
        let suffix = format!("@{key}={value}");
        file.name += &suffix;
        let path = PathBuf::from(self.path.display().to_string() + &suffix);
        let drive = Drive::build(file, &path)?;
        // Keeps a law that was set by `with_interference`, unless a value of the law itself is chosen.
        let is_law = key.starts_with("interference.");
        let drive = if is_law { drive } else { drive.with_interference(self.interference)? };
        Ok(Drive { text: self.text.clone(), ..drive })
    }

    /// The drive with `times` its platters, with the same tracks and seeks. Each platter has its spares; the defects stay on the first of them.
    pub fn with_platters(self, times: u64) -> Result<Drive, Error> {
        let sectors = build::sectors_of_platters(self.file.clone(), times);
        self.with_capacity(sectors)
    }

    /// The drive under another law. Errors: a law that its geometry does not suit.
    pub fn with_interference(mut self, interference: Interference) -> Result<Drive, Error> {
        interference.check(&self.geometry)?;
        self.interference = interference;
        Ok(self)
    }

    fn build(file: DriveFile, path: &Path) -> Result<Drive, Error> {
        Drive::try_build(file)
            .map_err(|error| match error {
                Error::Impossible(message) => Error::Impossible(format!("{}: {message}", path.display())),
                other => other,
            })
            .map(|drive| Drive { path: path.into(), ..drive })
    }

    fn try_build(mut file: DriveFile) -> Result<Drive, Error> {
        // A value out of its range is named before values that don't fit together.
        file.check()?;
        let interference = build::interference(&file.interference)?;
        let toward = match &interference {
            Interference::Physical(profile) => profile.toward(),
            _ => Edge::Inner,
        };
        let geometry = build::geometry(&file, toward)?;
        interference.check(&geometry)?;
        Ok(Drive {
            name: file.name.clone(),
            summary: file.summary.clone(),
            clock: build::clock(&file, &geometry)?,
            command_order: build::command_order(&file)?,
            settings: file.settings(),
            geometry,
            interference,
            translation: file.translation.as_ref().map(TranslationTable::translation),
            file,
            path: PathBuf::new(),
            text: None,
        })
    }

    /// The seek curve as points (share of the full stroke, ms); empty for a constant clock.
    pub fn seek_curve(&self) -> Vec<(f64, f64)> {
        self.clock.mechanical().map_or(Vec::new(), |m| m.curve().points())
    }

    /// The seek over a third of the stroke, and the mean seek between random sectors; `None` for a constant clock.
    pub fn average_seek(&self) -> Option<(Nanos, Nanos)> {
        let clock = self.clock.mechanical()?;
        let third = (self.geometry.cylinders - 1) / 3;
        Some((Nanos(clock.curve().ns(third.min(u64::from(u32::MAX)) as u32)), clock.mean_seek(&self.geometry)))
    }
}

/// The parts of `NAME@KEY=VALUE`. All keys have a point, as in `mechanical.rpm`.
fn split_choice(name: &str) -> Option<(&str, &str, &str)> {
    let (name, choice) = name.rsplit_once('@')?;
    let (key, value) = choice.split_once('=')?;
    key.contains('.').then_some((name, key, value))
}

#[cfg(test)]
mod tests;
