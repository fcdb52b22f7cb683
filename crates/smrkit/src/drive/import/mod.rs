//! Drive files from descriptions of drives in other formats, so far that of DiskSim 4.0.
//!
//! Values of a description go into the drive file, each with the file and line that it comes from; nothing is
//! fitted. Left out: remapped defects, negative write settling, sectors read in the order in which they pass.

mod disksim;
mod electronics;
mod files;
mod layout;
mod params;
mod seek;

use std::path::Path;

use crate::error::Error;

pub use disksim::Imported;

/// The drives that DiskSim's files in a folder describe: each `.parv` with what it names, and each `.diskspecs` and `.model`
/// that none names. Errors: no description, a damaged one (with file and line).
pub fn disksim(folder: &Path) -> Result<Vec<Imported>, Error> {
    disksim::import(folder, &|path| std::fs::read(path))
}

/// The drive of one description: a `.parv`, `.diskspecs` or `.model` file.
pub fn disksim_file(path: &Path) -> Result<Imported, Error> {
    disksim::import_file(path, &|path| std::fs::read(path))
}

/// The drive of a model, specs and a seek curve given as text, for tests and fuzzing.
pub fn disksim_texts(model: &str, specs: &str, seek: &str) -> Result<Imported, Error> {
    disksim::import_file(Path::new("drive.diskspecs"), &|path| {
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("model") => model.into(),
            Some("seek") => seek.into(),
            _ => specs.into(),
        })
    })
}

#[cfg(test)]
mod tests;
