//! Copies a metadata directory: names, owners, permissions, times and attributes, and everything else that is needed to mount it.
//!
//! The original must not change meanwhile. Files without a name are left out, and saved states, which a mount makes anew. The copy is not
//! durable until the caller syncs it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno as Os;
use smrfs::error::FsResult;
use smrfs::meta::{Kind, SetTime};

use super::home::{FOLDERS, open_directory};
use super::host::{self, open_at};
use super::walk::{self, WalkEntry, WalkPlace};
use super::{io_error, os_error, values};
use crate::contents::{self, MayContinue};
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
        Ok(CopyPair { from: host::open_directory(&self.from, name)?, to: host::open_directory(&self.to, name)? })
    }

    fn leave(self) -> FsResult<CopyPair> {
        let above = self.enter(b"..").map_err(os_error)?;
        // Last, because copying into the directory has changed its times.
        finish(&self.from, &self.to)?;
        Ok(above)
    }
}

/// Makes `to` a copy of the metadata directory `from`; `to` must not exist.
pub fn copy(from: &Path, to: &Path, may_continue: &MayContinue) -> Result<(), LiveError> {
    let open = |path: &Path| open_directory(path).map_err(|error| LiveError::os(path, error));
    rustix::fs::mkdir(to, Mode::RWXU).map_err(|error| LiveError::os(to, error))?;
    let home = CopyPair { from: open(from)?, to: open(to)? };
    let mut failed_entry = None;
    copy_home(&home, &mut failed_entry, may_continue)
        .map_err(|error| LiveError::file_system(failed_entry.as_deref().unwrap_or(to), error))
}

/// Copies the contents of a metadata directory. If an entry can't be copied, its path is put into `failed_entry`.
fn copy_home(home: &CopyPair, failed_entry: &mut Option<PathBuf>, may_continue: &MayContinue) -> FsResult {
    for folder in FOLDERS {
        rustix::fs::mkdirat(&home.to, folder, Mode::RWXU).map_err(os_error)?;
    }
    // While the copy is made, the folder for files without a name holds the first copied name of each file with several names.
    let first_names = host::open_directory(&home.to, b"orphans").map_err(os_error)?;
    for folder in ["maps", "tree"] {
        let top = match home.enter(folder.as_bytes()) {
            // Some programs that copy directories lose empty ones.
            Err(Os::NOENT) if folder == "maps" => continue,
            top => top.map_err(os_error)?,
        };
        let top =
            walk::each_directory(top, &mut |_, pair| copy_entries(pair, &first_names, failed_entry, may_continue))?;
        finish(&top.from, &top.to)?;
    }
    walk::remove_files(&first_names, |_| false)?;
    // The attributes come last, because they make it a metadata directory.
    copy_attributes(&home.from, &home.to)
}

/// Copies the entries of a directory. Directories in it are created empty, and returned, to be entered later.
fn copy_entries(
    pair: &CopyPair,
    first_names: &OwnedFd,
    failed_entry: &mut Option<PathBuf>,
    may_continue: &MayContinue,
) -> FsResult<Vec<WalkEntry>> {
    let mut below = Vec::new();
    for entry in walk::entries_of(&pair.from)? {
        contents::check_interrupt(may_continue).map_err(io_error)?;
        if entry.file_type == FileType::Directory {
            rustix::fs::mkdirat(&pair.to, &*entry.name, Mode::RWXU).map_err(os_error)?;
            below.push(entry);
        } else {
            copy_entry(pair, &entry, first_names).inspect_err(|_| {
                let folder = std::fs::read_link(host::path_of(&pair.to)).ok();
                *failed_entry = folder.map(|folder| folder.join(OsStr::from_bytes(&entry.name)));
            })?;
        }
    }
    Ok(below)
}

/// Copies an entry that is not a directory. A further name of a file that was copied already becomes a link to it.
fn copy_entry(pair: &CopyPair, entry: &WalkEntry, first_names: &OwnedFd) -> FsResult {
    let (name, number) = (&*entry.name, entry.id.to_string());
    let first_name = number.as_bytes();
    let original = host::stat_at(&pair.from, name)?;
    if original.st_nlink > 1 {
        match rustix::fs::statat(first_names, first_name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Os::NOENT) => {}
            // This is the last name. It takes the place of the one in `first_names`, because the host may allow no more links than the original has.
            Ok(copied) if copied.st_nlink == original.st_nlink => {
                return rustix::fs::renameat(first_names, first_name, &pair.to, name).map_err(os_error);
            }
            Ok(_) => {
                return rustix::fs::linkat(first_names, first_name, &pair.to, name, AtFlags::empty()).map_err(os_error);
            }
            Err(error) => return Err(os_error(error)),
        }
    }
    let from = open_at(&pair.from, name, host::kind(&original))?;
    let to = create(pair, name, &original, &from)?;
    finish(&from, &to)?;
    if original.st_nlink > 1 {
        rustix::fs::linkat(&pair.to, name, first_names, first_name, AtFlags::empty()).map_err(os_error)?;
    }
    Ok(())
}

/// Creates the copy of an entry, which is open as `from`, with its content.
fn create(pair: &CopyPair, name: &[u8], original: &Stat, from: &OwnedFd) -> FsResult<OwnedFd> {
    let private = Mode::RUSR | Mode::WUSR;
    let kind = host::kind(original);
    match kind {
        Kind::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let to = File::from(rustix::fs::openat(&pair.to, name, flags, private).map_err(os_error)?);
            // A file holds its long attributes, and mostly none.
            if original.st_size > 0 {
                contents::copy(&values::stub(from, OFlags::RDONLY)?, &to, &|| true).map_err(io_error)?;
            }
            return Ok(to.into());
        }
        Kind::Link => {
            let target = rustix::fs::readlinkat(&pair.from, name, Vec::new()).map_err(os_error)?;
            rustix::fs::symlinkat(target, &pair.to, name).map_err(os_error)?;
        }
        kind => {
            rustix::fs::mknodat(&pair.to, name, host::type_of(kind), private, original.st_rdev).map_err(os_error)?
        }
    }
    open_at(&pair.to, name, kind)
}

/// Gives a copy the attributes, owners, permissions and times of the original.
fn finish(from: &OwnedFd, to: &OwnedFd) -> FsResult {
    let (original, copied) = (host::attr(&host::stat_fd(from)?), host::attr(&host::stat_fd(to)?));
    if (original.uid, original.gid) != (copied.uid, copied.gid) {
        host::change_owner(to, Some(original.uid), Some(original.gid))?;
    }
    // After the change of owners, which takes capabilities away, and before the change of the mode, which may take away our access.
    copy_attributes(from, to)?;
    if original.kind != Kind::Link {
        host::change_mode(to, original.kind, original.mode)?;
    }
    host::change_times(to, Some(SetTime::To(original.atime)), Some(SetTime::To(original.mtime)))
}

fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> FsResult {
    let names = match host::list(from) {
        // On some file systems only files and directories have attributes.
        Err(Os::OPNOTSUPP) => return Ok(()),
        names => names.map_err(os_error)?,
    };
    names.iter().try_for_each(|name| {
        let value = host::with_permissions(from, || host::get(from, name)).map_err(os_error)?;
        host::set(to, name, &value).map_err(os_error)
    })
}
