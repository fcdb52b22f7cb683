//! Permissions that let users go behind those of files: by the image or the metadata directory.
//!
//! Both must belong to the user that mounts, and be closed to all others. Of access lists the mask is what counts, which
//! the group's bits show. Left out: block devices, whose permissions are the system's business, and root.

use std::path::Path;

use rustix::fs::FileType;
use rustix::process::geteuid;

use crate::error::LiveError;

/// Permissions that let other users at `path`, an image or a metadata directory.
pub fn exposure(path: &Path) -> Result<Option<LiveError>, LiveError> {
    let stat = rustix::fs::stat(path).map_err(|error| LiveError::os(path, error))?;
    let is_directory = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => false,
        _ => return Ok(None),
    };
    let exposed = |how: String, remedy: String| Ok(Some(LiveError::Exposed { path: path.into(), how, remedy }));
    let me = geteuid().as_raw();
    if stat.st_uid != me {
        return exposed(format!("it belongs to user {}, not to you", stat.st_uid), format!("chown {me}"));
    }
    let mode = stat.st_mode & 0o7777;
    match (mode & 0o077 != 0, is_directory) {
        (false, _) => Ok(None),
        (true, true) => exposed(format!("other users may enter it (mode {mode:o})"), "chmod 700".into()),
        (true, false) => exposed(format!("other users may read or write it (mode {mode:o})"), "chmod 600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn said(path: &Path) -> Option<String> {
        exposure(path).unwrap().map(|error| error.to_string())
    }

    #[test]
    fn any_bit_for_others_is_an_exposure() {
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("file"), folder.path().join("directory"));
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(&directory).unwrap();
        for (path, good, remedy) in [(&file, 0o600, "chmod 600"), (&directory, 0o700, "chmod 700")] {
            let set = |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            set(good);
            assert_eq!(said(path), None);
            for bit in 0..6 {
                set(good | 1 << bit);
                assert!(said(path).unwrap().contains(remedy), "{bit}");
            }
        }
        assert_eq!(said(Path::new("/dev/null")), None);
    }
}
