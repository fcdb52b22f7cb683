//! Real traces at hand. They are others' work and don't come with smrkit: a folder holds them, or they are missed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrkit::error::Error;
use smrkit_trace::{OpenOptions, TraceDemand, VolumeChoice};

/// Folders in which traces are looked for when no folder is named, from the working directory.
const FOLDERS: [&str; 2] = ["traces", "../shared/traces"];

/// Endings that a trace may have.
const ENDINGS: [&str; 5] = ["csv.zst", "csv.gz", "csv", "parquet", "tsv.zst"];

/// A folder of real traces, or none.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    folder: Option<PathBuf>,
}

impl Traces {
    /// The folder that was named, that of the environment's SMRKIT_TRACES, or the first of a few that is there.
    pub fn find(named: Option<&Path>) -> Result<Traces, Error> {
        if let Some(folder) = named {
            let entries = std::fs::read_dir(folder).map_err(|error| Error::reading(folder, error));
            return entries.map(|_| Traces { folder: Some(folder.into()) });
        }
        let mut folders =
            std::env::var_os("SMRKIT_TRACES").into_iter().map(PathBuf::from).chain(FOLDERS.map(PathBuf::from));
        Ok(Traces { folder: folders.find(|folder| folder.is_dir()) })
    }

    /// The files in the folder.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = self.folder.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
    }

    /// The trace whose file is called `name` and an ending that tells the format, if it is at hand.
    pub fn get(&self, name: &str) -> Result<Option<Arc<TraceDemand>>, Error> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let paths = ENDINGS.map(|ending| folder.join(format!("{name}.{ending}")));
        let Some(path) = paths.iter().find(|path| path.is_file()) else { return Ok(None) };
        TraceDemand::new(path, OpenOptions::default(), VolumeChoice::All).map(|trace| Some(Arc::new(trace)))
    }
}
