//! Standard output and result files. Files are opened before the work starts, so that a wrong path costs no time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use smrkit::error::Error;

/// Prints to standard output; the error of a closed pipe ends the command quietly.
pub fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(serde_json::to_string_pretty(value)? + "\n")
}

/// Where a result goes: standard output, or a file that appears whole or not at all.
pub enum Target {
    /// `-`
    Stdout,
    /// A file, written under a temporary name beside it.
    File { path: PathBuf, part: PathBuf },
}

impl Target {
    /// Opens a target: fails at once where the file can't be written.
    pub fn open(path: &Path) -> Result<Target, Error> {
        if path.as_os_str() == "-" {
            return Ok(Target::Stdout);
        }
        if path.is_dir() {
            return Err(Error::Usage(format!("{} is a directory: name a file in it", path.display())));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        File::create(&part).map_err(|error| Error::writing(path, error))?;
        Ok(Target::File { path: path.into(), part })
    }

    /// Whether this is standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Target::Stdout)
    }

    /// Writes all of it.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        match self {
            Target::Stdout => print(text),
            Target::File { path, part } => {
                let written = fs::write(part, text).and_then(|()| fs::rename(part, path));
                Ok(written.map_err(|error| Error::writing(path, error))?)
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Target::File { part, .. } = self {
            let _ = fs::remove_file(part);
        }
    }
}
