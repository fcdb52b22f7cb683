//! Output files, opened before the work starts, so that a path that can't be written is reported at once. They are written under another
//! name next to the target and renamed at the end: they appear whole or not at all, and an old file stays until then.
//!
//! A target that is no regular file (a pipe, `/dev/null`) is written directly. The other name is known beforehand
//! ([`temporary_of`]), unlike those of the crate tempfile, so that an interrupt can remove what was begun.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use smrkit::error::Error;

/// A file under construction; dropping it without `commit` removes what was begun.
#[derive(Debug)]
pub struct TargetFile {
    /// The path that was given, for messages.
    path: PathBuf,
    target: PathBuf,
    /// Where the file is until `commit`; `None` after it, and for a target that is written directly.
    temporary: Option<PathBuf>,
    file: File,
}

impl TargetFile {
    /// Opens the file that will become `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<TargetFile, Error> {
        let path = path.as_ref();
        if path.is_dir() {
            return Err(Error::Usage(format!("{} is a directory: name a file in it", path.display())));
        }
        let (target, temporary) = (target_of(path), temporary_of(path));
        let opened = temporary.as_ref().unwrap_or(&target);
        let file = File::options().write(true).create(true).truncate(temporary.is_some()).open(opened);
        let file = file.map_err(|error| Error::writing(path, error))?;
        Ok(TargetFile { path: path.into(), target, temporary, file })
    }

    /// Writes the file's content, all of it.
    pub fn write(mut self, content: &[u8]) -> Result<(), Error> {
        self.file.write_all(content).map_err(|error| Error::writing(&self.path, error))?;
        self.commit()
    }

    /// Makes what was written appear under its name.
    pub fn commit(&mut self) -> Result<(), Error> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        self.file.sync_all().map_err(|error| Error::writing(&self.target, error))?;
        fs::rename(temporary, &self.target).map_err(|error| Error::writing(&self.target, error))?;
        self.temporary = None;
        Ok(())
    }
}

impl Write for TargetFile {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // An error is ignored: nothing can be done about a file that can't be removed.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// The file that `path` names; a link keeps pointing where it points.
fn target_of(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The name under which the file that will become `path` is written; `None` if `path` is no regular file and is written directly.
pub fn temporary_of(path: &Path) -> Option<PathBuf> {
    let target = target_of(path);
    let special = fs::metadata(&target).is_ok_and(|meta| !meta.is_file());
    let mut name = target.into_os_string();
    name.push(".partial");
    (!special).then(|| name.into())
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
        assert!(!dir.path().join("out").exists());
    }
}
