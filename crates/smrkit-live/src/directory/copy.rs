//! Copies a metadata directory: names, owners, permissions, times and attributes, and everything else that is needed to mount it.
//!
//! The original must not change meanwhile. Files without a name are left out, and saved states, which a mount makes anew. The copy is not
//! durable until the caller syncs it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno as Os;
use smrfs::error::FsResult;
use smrfs::meta::{Kind, SetAttr, SetTime};

use super::home::{FOLDERS, open_directory};
use super::walk::{self, WalkEntry, WalkPlace};
use super::{DirectoryStore, attributes, failed, failed_io, open_at, permissions, stat, values};
use crate::contents::{self, GoesOn};
use crate::error::LiveError;

/// A directory and its copy.
struct CopyPair {
    from: OwnedFd,
    to: OwnedFd,
}

impl WalkPlace for CopyPair {
    fn directory(&self) -> &OwnedFd {
        &self.from
    }

    fn enter(&self, name: &[u8]) -> Result<CopyPair, Os> {
        Ok(CopyPair {
            from: permissions::open_directory(&self.from, name)?,
            to: permissions::open_directory(&self.to, name)?,
        })
    }

    /// Sets the times last, because copying into the directory changes them.
    fn leave(self) -> FsResult<CopyPair> {
        let above = self.enter(b"..").map_err(failed)?;
        finish(&self.from, &self.to)?;
        Ok(above)
    }
}

/// State of a copy that is being made.
struct CopyCourse<'a> {
    goes_on: &'a GoesOn<'a>,
    /// The entry that could not be copied.
    failed_entry: Option<PathBuf>,
}

/// Makes `to` a copy of the metadata directory `from`; `to` must not exist.
pub fn copy(from: &Path, to: &Path, goes_on: &GoesOn) -> Result<(), LiveError> {
    let open = |path: &Path| open_directory(path).map_err(|error| LiveError::os(path, error));
    rustix::fs::mkdir(to, Mode::RWXU).map_err(|error| LiveError::os(to, error))?;
    let pair = CopyPair { from: open(from)?, to: open(to)? };
    let mut course = CopyCourse { goes_on, failed_entry: None };
    copy_home(&pair, &mut course)
        .map_err(|error| LiveError::file_system(course.failed_entry.as_deref().unwrap_or(to), error))
}

/// Copies the contents of a metadata directory.
fn copy_home(home: &CopyPair, course: &mut CopyCourse) -> FsResult {
    for folder in FOLDERS {
        rustix::fs::mkdirat(&home.to, folder, Mode::RWXU).map_err(failed)?;
    }
    // While the copy is made, the folder for files without a name holds the first copied name of each file with several names.
    let first_names = permissions::open_directory(&home.to, b"orphans").map_err(failed)?;
    for folder in ["maps", "tree"] {
        let top = match home.enter(folder.as_bytes()) {
            // Some programs that copy directories lose empty ones.
            Err(Os::NOENT) if folder == "maps" => continue,
            top => top.map_err(failed)?,
        };
        let top = walk::each_directory(top, &mut |_, pair| copy_entries(pair, &first_names, course))?;
        finish(&top.from, &top.to)?;
    }
    let mut names = Vec::new();
    walk::each_entry(&first_names, |entry| names.push(entry.file_name().to_owned()))?;
    names.iter().try_for_each(|name| rustix::fs::unlinkat(&first_names, name, AtFlags::empty())).map_err(failed)?;
    // The attributes come last, because they make it a metadata directory.
    copy_attributes(&home.from, &home.to)
}

/// Copies the entries of a directory. Directories in it are created empty, and returned, to be entered later.
fn copy_entries(pair: &CopyPair, first_names: &OwnedFd, course: &mut CopyCourse) -> FsResult<Vec<WalkEntry>> {
    let mut below = Vec::new();
    for found in walk::entries_of(&pair.from)? {
        contents::check(course.goes_on).map_err(failed_io)?;
        if found.file_type == FileType::Directory {
            rustix::fs::mkdirat(&pair.to, &*found.name, Mode::RWXU).map_err(failed)?;
            below.push(found);
        } else {
            copy_entry(pair, &found, first_names).inspect_err(|_| {
                let folder = std::fs::read_link(permissions::path_of(&pair.to)).ok();
                course.failed_entry = folder.map(|folder| folder.join(OsStr::from_bytes(&found.name)));
            })?;
        }
    }
    Ok(below)
}

/// Copies an entry that is not a directory. A further name of a file that was copied already becomes a link to it.
fn copy_entry(pair: &CopyPair, found: &WalkEntry, first_names: &OwnedFd) -> FsResult {
    let (name, number) = (&*found.name, found.id.to_string());
    let first_name = number.as_bytes();
    let original = stat::at(&pair.from, name)?;
    if original.st_nlink > 1 {
        match rustix::fs::statat(first_names, first_name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Os::NOENT) => {}
            // This is the last name. It takes the place of the one in `first_names`, because the host may allow no more links than the original has.
            Ok(copied) if copied.st_nlink == original.st_nlink => {
                return rustix::fs::renameat(first_names, first_name, &pair.to, name).map_err(failed);
            }
            Ok(_) => {
                return rustix::fs::linkat(first_names, first_name, &pair.to, name, AtFlags::empty()).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let kind = stat::kind(&original);
    let from = open_at(&pair.from, name, kind)?;
    make(pair, name, &original)?;
    let to = open_at(&pair.to, name, kind)?;
    finish(&from, &to)?;
    if original.st_nlink > 1 {
        rustix::fs::linkat(&pair.to, name, first_names, first_name, AtFlags::empty()).map_err(failed)?;
    }
    Ok(())
}

/// Makes the copy of an entry, with its content.
fn make(pair: &CopyPair, name: &[u8], original: &Stat) -> FsResult {
    let private = Mode::RUSR | Mode::WUSR;
    match stat::kind(original) {
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let to = File::from(rustix::fs::openat(&pair.to, name, flags, private).map_err(failed)?);
            if original.st_size > 0 {
                let from = values::stub(&open_at(&pair.from, name, Kind::File)?, OFlags::RDONLY)?;
                contents::copy(&from, &to, &|| true).map_err(failed_io)?;
            }
            Ok(())
        }
        Kind::Link => {
            let target = rustix::fs::readlinkat(&pair.from, name, Vec::new()).map_err(failed)?;
            rustix::fs::symlinkat(target, &pair.to, name).map_err(failed)
        }
        kind => rustix::fs::mknodat(&pair.to, name, stat::type_of(kind), private, original.st_rdev).map_err(failed),
    }
}

/// Gives a copy the attributes, owners, permissions and times of the original.
fn finish(from: &OwnedFd, to: &OwnedFd) -> FsResult {
    let (original, made) = (stat::attr(&stat::for_fd(from)?), stat::attr(&stat::for_fd(to)?));
    if (original.uid, original.gid) != (made.uid, made.gid) {
        stat::change_owner(to, Some(original.uid), Some(original.gid))?;
    }
    // After the change of owners, which takes capabilities away, and before the change of the mode, which may take away our access.
    copy_attributes(from, to)?;
    if original.kind != Kind::Link {
        stat::change_mode(to, original.kind, original.mode)?;
    }
    let (atime, mtime) = (Some(SetTime::To(original.atime)), Some(SetTime::To(original.mtime)));
    stat::change_times(to, &SetAttr { atime, mtime, ..SetAttr::default() }, DirectoryStore::clock())
}

fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> FsResult {
    let names = match attributes::list(from) {
        // On some file systems only files and directories have attributes.
        Err(Os::OPNOTSUPP) => return Ok(()),
        names => names.map_err(failed)?,
    };
    names.iter().try_for_each(|name| {
        let value = permissions::with_permissions(from, || attributes::get(from, name)).map_err(failed)?;
        attributes::set(to, name, &value, XattrFlags::empty()).map_err(failed)
    })
}
