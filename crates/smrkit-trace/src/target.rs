//! Outputs are opened before the work starts, so that a path that can't be written is said at once.
//!
//! A file appears whole or not at all: an output that already exists keeps its content until the new one is written.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use smrkit::error::Error;

use crate::partial::Partial;

/// A file that will be written at the end.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    partial: Partial,
    file: File,
}

impl TargetFile {
    /// Opens `path` for writing.
    pub fn open(path: impl Into<PathBuf>) -> Result<TargetFile, Error> {
        let path = path.into();
        if path.is_dir() {
            return Err(Error::Usage(format!("{} is a directory: name a file in it", path.display())));
        }
        let (partial, file) = Partial::create(&path)?;
        Ok(TargetFile { path, partial, file })
    }

    /// Writes the file's content, all of it.
    pub fn write(mut self, content: &[u8]) -> Result<(), Error> {
        self.file.write_all(content).map_err(|error| Error::writing(&self.path, error))?;
        self.partial.commit(&self.file)
    }
}

/// A directory that files will be written into.
#[derive(Debug)]
pub struct TargetFolder {
    path: PathBuf,
}

impl TargetFolder {
    /// Makes `path` and its parents where they are missing, and tries whether files can be made in it.
    pub fn open(path: impl Into<PathBuf>) -> Result<TargetFolder, Error> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(|error| Error::writing(&path, error))?;
        drop(TargetFile::open(path.join(".smrkit-can-write"))?);
        Ok(TargetFolder { path })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_path_is_said_before_the_work_and_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing").join("out.html");
        let error = TargetFile::open(&missing).unwrap_err().to_string();
        assert!(error.contains("missing/out.html") && error.contains("check the path"), "{error}");
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(TargetFolder::open(file.join("figures")).is_err());
        assert!(TargetFile::open(dir.path()).is_err(), "a directory is no file");
    }

    #[test]
    fn an_old_file_stays_until_the_new_one_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "a longer old content").unwrap();
        drop(TargetFile::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a longer old content");
        TargetFile::open(&path).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn an_output_for_nothing_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(TargetFile::open(dir.path().join("out")).unwrap());
        drop(TargetFolder::open(dir.path().join("a/b")).unwrap());
        assert!(!dir.path().join("out").exists());
        assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 0);
    }
}
