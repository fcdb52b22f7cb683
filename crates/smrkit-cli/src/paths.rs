//! Paths of inputs and outputs: an output never takes the place of an input.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use smrkit::error::Error;
use smrkit_trace::output::temporary_of;

/// The paths that a command reads and writes, as given.
#[derive(Default)]
pub struct Paths {
    /// Files that are read.
    pub inputs: Vec<PathBuf>,
    /// Files that are written.
    pub outputs: Vec<PathBuf>,
}

impl Paths {
    /// Refuses an output that is an input or another output, whatever its name, before anything is opened.
    pub fn check(&self) -> Result<(), Error> {
        let input = |path| Some((Identity::for_path(path)?, path, "an input"));
        let mut known: Vec<(Identity, &Path, &str)> =
            self.inputs.iter().map(PathBuf::as_path).filter_map(input).collect();
        for path in &self.outputs {
            let Some(identity) = Identity::for_path(path) else { continue };
            match known.iter().find(|(other, ..)| *other == identity) {
                Some((_, other, "an input")) => {
                    let whose =
                        if *other == path { String::new() } else { format!(" under the name {}", other.display()) };
                    return Err(Error::Usage(format!(
                        "{} is read by this command{whose}: write to another file",
                        path.display()
                    )));
                }
                Some(_) => {
                    let message = format!("{} is named for two outputs: give each its own", path.display());
                    return Err(Error::Usage(message));
                }
                None => known.push((identity, path, "an output")),
            }
        }
        Ok(())
    }

    /// The files under construction while the outputs are written.
    pub fn temporaries(&self) -> impl Iterator<Item = PathBuf> {
        self.outputs.iter().filter(|path| !is_stream(path)).filter_map(|path| temporary_of(path))
    }
}

/// Identity of the file at a path, after links.
#[derive(PartialEq, Eq)]
enum Identity {
    /// A file that exists, by device and number: links lead to it too.
    File(u64, u64),
    /// A file that does not exist, by its folder and name.
    Missing(PathBuf),
}

impl Identity {
    /// `None` for standard streams, pipes and devices, which can't be overwritten.
    fn for_path(path: &Path) -> Option<Identity> {
        if is_stream(path) {
            return None;
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_file() => Some(Identity::File(meta.dev(), meta.ino())),
            Ok(_) => None,
            Err(_) => {
                // Writing to a link without a target would make the target.
                let path = fs::read_link(path).map_or_else(|_| path.to_path_buf(), |to| path.with_file_name(to));
                let folder = match path.parent() {
                    Some(parent) if parent != Path::new("") => parent,
                    _ => Path::new("."),
                };
                Some(Identity::Missing(fs::canonicalize(folder).ok()?.join(path.file_name()?)))
            }
        }
    }
}

fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}
