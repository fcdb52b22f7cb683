//! The mark of a metadata directory: the number of its last mount, how far that mount has come, and the identity of directory and image then.
//! Compared with the superblock, it shows whether directory and image are of the same moment.
//!
//! A mount changes the two in turn, and each step is durable before the next:
//!
//! | directory | superblock |
//! |---|---|
//! | `begins`, with the new number | as the last mount left it |
//! | `begins` | the new number, not clean |
//! | `in-use` | the new number, not clean |
//! | `ending` | the new number, not clean |
//! | `ending` | the new number, clean |
//! | `closed` | the new number, clean |
//!
//! Any other pair comes from two moments. Data and maps change during `in-use` only. A pair that is not clean may have been left by a crash, or be
//! a copy that was made during the mount; it counts as left by a crash only if directory and image are the same nodes as at the mount.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use smrfs::error::FsResult;
use smrfs::superblock::Superblock;

use super::host::{birth, get, set};
use super::{Home, os_error};
use crate::error::LiveError;

/// The attribute of the directory that holds its mark.
const MARK: &[u8] = b"user.smrfs.mounts";

/// A step of a mount. The words for the steps have one length, so that on a full disk a mark can still be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountStep {
    /// The image is about to be marked as in use.
    Begins,
    /// Image and directory may change.
    InUse,
    /// Everything is durable, and the image is about to be marked as clean.
    Ending,
    /// The image is marked as clean.
    Closed,
}

const STEPS: [(MountStep, &str); 4] = [
    (MountStep::Begins, "begins"),
    (MountStep::InUse, "in-use"),
    (MountStep::Ending, "ending"),
    (MountStep::Closed, "closed"),
];

/// A metadata directory's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountMark {
    /// The number of the last mount.
    pub mounts: u64,
    /// The step that it has reached.
    pub step: MountStep,
    /// The identity of the directory at this step; `None` if its file system does not report when nodes were created.
    directory: Option<String>,
    /// The identity of the image at this step; `None` also for a device.
    image: Option<String>,
}

impl MountMark {
    fn text(&self) -> String {
        let step = STEPS.iter().find(|(step, _)| *step == self.step).map_or("", |(_, word)| word);
        let node = |node: &Option<String>| node.clone().unwrap_or("-".into());
        format!("{} {step} {} {}", self.mounts, node(&self.directory), node(&self.image))
    }

    fn parse(text: &[u8]) -> Option<MountMark> {
        let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
        let [mounts, step, directory, image] = words[..] else { return None };
        let (step, _) = *STEPS.iter().find(|(_, word)| *word == step)?;
        let node = |word: &str| (word != "-").then(|| word.to_string());
        Some(MountMark { mounts: mounts.parse().ok()?, step, directory: node(directory), image: node(image) })
    }

    /// True if this mark and the superblock are a pair of this module's table.
    fn fits(&self, superblock: &Superblock) -> bool {
        let Superblock { mounts, is_clean, .. } = *superblock;
        match self.step {
            MountStep::Begins => mounts == self.mounts && !is_clean || mounts.checked_add(1) == Some(self.mounts),
            MountStep::InUse => mounts == self.mounts && !is_clean,
            MountStep::Ending => mounts == self.mounts,
            MountStep::Closed => mounts == self.mounts && is_clean,
        }
    }
}

impl Home {
    /// The directory's mark; none if it was lost.
    pub fn mark(&self) -> Option<MountMark> {
        MountMark::parse(&get(&self.fd, MARK).ok()?)
    }

    /// Sets the directory's mark, durably.
    pub fn set_mark(&self, mounts: u64, step: MountStep, image: &Path) -> FsResult {
        let mark = MountMark { mounts, step, directory: birth(&self.fd)?, image: birth_of_image(image) };
        set(&self.fd, MARK, mark.text().as_bytes()).map_err(os_error)?;
        rustix::fs::fsync(&self.fd).map_err(os_error)
    }

    /// Errors: the image, with this superblock, and the directory are not of the same moment.
    pub fn check_moment(&self, image: &Path, superblock: &Superblock) -> Result<(), LiveError> {
        let (path, meta) = (image.to_path_buf(), self.path.to_path_buf());
        let Some(mark) = self.mark().filter(|mark| mark.fits(superblock)) else {
            let is_older = self.mark().is_some_and(|mark| superblock.mounts < mark.mounts);
            return Err(LiveError::OutOfStep { image: path, meta, is_older });
        };
        if superblock.is_clean {
            return Ok(());
        }
        let differs = |noted: Option<String>, found: Option<String>| noted.zip(found).is_some_and(|(a, b)| a != b);
        let directory = birth(&self.fd).map_err(|error| LiveError::file_system(&meta, error))?;
        if differs(mark.directory, directory) {
            return Err(LiveError::TornCopy(meta));
        }
        if differs(mark.image, birth_of_image(image)) { Err(LiveError::TornCopy(path)) } else { Ok(()) }
    }
}

/// The identity of an image file. A device has none, because its node is created again at each start of the host.
fn birth_of_image(path: &Path) -> Option<String> {
    let fd: OwnedFd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mode = rustix::fs::fstat(&fd).ok()?.st_mode;
    (FileType::from_raw_mode(mode) == FileType::RegularFile).then(|| birth(&fd).ok().flatten())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_parsed_as_it_was_written() {
        for (step, word) in STEPS {
            for node in [None, Some("7:1.000000002".to_string())] {
                let mark = MountMark { mounts: 12, step, directory: node.clone(), image: node };
                assert_eq!(MountMark::parse(mark.text().as_bytes()), Some(mark));
            }
            assert_eq!(word.len(), STEPS[0].1.len());
        }
        for wrong in ["", "12", "12 closed -", "12 closed - - -", "x closed - -", "12 open - -"] {
            assert_eq!(MountMark::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
