//! When things happen: drives, their clocks, and the files that describe them.
//!
//! A clock turns accesses into time and knows no data; the model and its sources are in `docs/reference/model.md`. Drives are
//! described in TOML, in `drives/` or by the user, with a source beside each number.

mod buffered;
mod build;
mod clock;
mod constant;
mod file;
mod mechanical;
mod seek;
mod size;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::geometry::{Edge, Geometry, SECTORS_MAX};
use crate::medium::interference::{Form, Interference};
use crate::message::{Field, Message};
use crate::quantity::Bytes;
use crate::units::{Nanos, SECTOR_BYTES};

pub use buffered::{Buffer, Buffered};
pub use clock::{DriveClock, Position};
pub use constant::Constant;
pub use file::Setting;
pub use mechanical::{Mechanical, Mechanics};
pub use seek::SeekCurve;

use file::DriveFile;

/// The drives that are built in: name and file.
pub const DRIVES: &[(&str, &str)] = &[
    ("cassuto-table1", include_str!("../../../../drives/cassuto-table1.toml")),
    ("cassuto-random", include_str!("../../../../drives/cassuto-random.toml")),
    ("st5000as0011", include_str!("../../../../drives/st5000as0011.toml")),
    ("wdc-2tb", include_str!("../../../../drives/wdc-2tb.toml")),
    ("tiny", include_str!("../../../../drives/tiny.toml")),
    ("tiny-constant", include_str!("../../../../drives/tiny-constant.toml")),
];

/// Costs of a drive-managed disk's own layer, as measured from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveManaged {
    /// What a small write costs.
    pub append: Nanos,
    /// Up to how many bytes a write is small.
    pub append_bytes: u64,
    /// After how many writes the map is persisted.
    pub map_every_writes: u64,
    /// What persisting the map costs.
    pub map: Nanos,
}

/// A drive: where sectors lie, what a write destroys, and when things happen.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Its name.
    pub name: String,
    /// What it is, in one sentence.
    pub summary: String,
    /// Where sectors lie.
    pub geometry: Geometry,
    /// What a write destroys.
    pub interference: Interference,
    /// When things happen; the head over the outermost track at time 0.
    pub clock: DriveClock,
    /// Every value of the drive file with its source.
    pub settings: Vec<Setting>,
    /// Costs for the drive-managed layer, where the drive file has them.
    pub drive_managed: Option<DriveManaged>,
    file: DriveFile,
    path: PathBuf,
    /// Of a drive file that does not come with smrkit.
    text: Option<Arc<str>>,
}

impl Drive {
    /// A drive by its name in `DRIVES`, or by the path of a drive file.
    pub fn load(name_or_path: &str) -> Result<Drive, Error> {
        if let Some((name, text)) = DRIVES.iter().find(|(name, _)| *name == name_or_path) {
            let path = format!("drives/{name}.toml");
            return Drive::build(DriveFile::parse(path.as_ref(), text)?, path.as_ref());
        }
        let path = Path::new(name_or_path);
        let looks_like_a_path = name_or_path.contains(['/', '\\', '.']) || path.exists();
        if !looks_like_a_path {
            let names: Vec<&str> = DRIVES.iter().map(|(name, _)| *name).collect();
            return Err(Error::Usage(format!(
                "no drive is called {name_or_path:?}: use {}, or the path of a drive file",
                names.join(", ")
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => Error::input(path, "not a text file: give a drive file in TOML"),
            _ => Error::reading(path, e),
        })?;
        Drive::parse(path, &text)
    }

    /// The drive file; `None` for a drive that comes with smrkit.
    pub fn file(&self) -> Option<&Path> {
        self.text.as_ref().map(|_| &*self.path)
    }

    /// The text of the drive file; `None` for a drive that comes with smrkit.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// A drive from the text of a drive file; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Drive, Error> {
        let drive = Drive::build(DriveFile::parse(path, text)?, path)?;
        Ok(Drive { text: Some(text.into()), ..drive })
    }

    /// This drive with room for at least `sectors`, by the rule of `docs/reference/model.md`: a mechanical drive gets more of its
    /// platters, as many as are needed, and then as few tracks in each recording zone as will do. Seek times stay shares of
    /// the stroke, and defects beyond the new end go. Given the size of what comes out, it gives the same drive again.
    pub fn with_capacity(self, sectors: u64) -> Result<Drive, Error> {
        if sectors == 0 {
            let problem = Message::from("a capacity below one sector: give at least 512 bytes with ");
            return Err(Error::senseless(Field::Capacity, problem + Field::Capacity));
        }
        if sectors > SECTORS_MAX {
            let (asked, most) = (Bytes(sectors.saturating_mul(SECTOR_BYTES)), Bytes(SECTORS_MAX * SECTOR_BYTES));
            let problem = format!("a capacity of {asked}: a drive holds at most {most}; give a smaller ");
            return Err(Error::impossible(Field::Capacity, Message::from(problem) + Field::Capacity));
        }
        let Drive { interference, mut file, path, text, .. } = self;
        size::resize(&mut file, sectors)?;
        Drive { text, ..Drive::build(file, &path)? }.with_interference(interference)
    }

    /// This drive with so many times its platters, at the same track geometry and the same seeks; the drive itself for 1.
    pub fn with_platters(self, times: u64) -> Result<Drive, Error> {
        let slipped = self.geometry.slipped();
        let raw = self.geometry.sectors() + slipped;
        self.with_capacity(raw.saturating_mul(times) - slipped)
    }

    /// The same drive under another law. Errors: a law that its geometry does not suit.
    pub fn with_interference(mut self, interference: Interference) -> Result<Drive, Error> {
        interference.check(&self.geometry)?;
        self.interference = interference;
        Ok(self)
    }

    /// The same drive with its law in another form, derived from its own.
    pub fn with_form(self, form: Form) -> Result<Drive, Error> {
        let derived = self.interference.derive(&self.geometry, form)?;
        self.with_interference(derived)
    }

    fn build(file: DriveFile, path: &Path) -> Result<Drive, Error> {
        Drive::try_build(file)
            .map_err(|error| match error {
                Error::Impossible(message) => Error::Impossible(format!("{}: {message}", path.display())),
                other => other,
            })
            .map(|drive| Drive { path: path.into(), ..drive })
    }

    fn try_build(file: DriveFile) -> Result<Drive, Error> {
        let interference = build::interference(&file.interference)?;
        let head = match &interference {
            Interference::Physical(profile) => profile.toward(),
            _ => Edge::Inner,
        };
        let geometry = build::geometry(&file, head)?;
        interference.check(&geometry)?;
        let drive_managed = file.drive_managed.as_ref().map(build::drive_managed).transpose()?;
        Ok(Drive {
            name: file.name.clone(),
            summary: file.summary.clone(),
            clock: build::clock(&file, &geometry)?,
            settings: file.settings(),
            geometry,
            interference,
            drive_managed,
            file,
            path: PathBuf::new(),
            text: None,
        })
    }

    /// The seek curve as points (share of the full stroke, ms); empty for a constant clock.
    pub fn seek_curve(&self) -> Vec<(f64, f64)> {
        self.clock.mechanical().map_or(Vec::new(), |m| m.curve().points().to_vec())
    }

    /// The seek over a third of the stroke, and the mean seek between random sectors; `None` for a constant clock.
    pub fn average_seek(&self) -> Option<(Nanos, Nanos)> {
        let clock = self.clock.mechanical()?;
        let third = (self.geometry.cylinders() - 1) / 3;
        Some((Nanos(clock.curve().ns(third.min(u64::from(u32::MAX)) as u32)), clock.mean_seek(&self.geometry)))
    }

    /// Its law in each form that can be derived from its own, its own included, for `drives show`.
    pub fn forms(&self) -> Vec<(Form, Interference)> {
        let derive = |form| self.interference.derive(&self.geometry, form).ok().filter(|law| law.form().is_some());
        Form::ALL.into_iter().filter_map(|form| derive(form).map(|law| (form, law))).collect()
    }
}

#[cfg(test)]
mod tests;
