//! Paths of inputs and outputs: an output never takes the place of an input.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use smrkit::error::Error;

/// Refuses an output that is an input or another output, whatever its name, before anything is opened.
pub fn check(inputs: &[PathBuf], outputs: &[PathBuf]) -> Result<(), Error> {
    let inputs: Vec<(Identity, &PathBuf)> =
        inputs.iter().filter_map(|path| Some((Identity::for_path(path)?, path))).collect();
    let mut earlier_outputs = Vec::new();
    for path in outputs {
        let Some(identity) = Identity::for_path(path) else { continue };
        let name = path.display();
        if let Some((_, input)) = inputs.iter().find(|(input, _)| *input == identity) {
            let alias = if *input == path { String::new() } else { format!(" under the name {}", input.display()) };
            return Err(Error::Usage(format!("{name} is read by this command{alias}: write to another file")));
        }
        if earlier_outputs.contains(&identity) {
            return Err(Error::Usage(format!("{name} is named for two outputs: give each its own")));
        }
        earlier_outputs.push(identity);
    }
    Ok(())
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
        if path == Path::new("-") {
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
