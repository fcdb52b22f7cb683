//! Journals of ext4, whose commits also flush what was written back to the same disk before.
//!
//! A commit of ext4 writes its last block behind a flush of the journal's disk (`REQ_PREFLUSH`), so that all that the disk had
//! in its cache is durable before the commit is. Data that has been written back to that disk, and a map that is stored
//! afterwards, therefore need one flush, not two: the map's own. That holds for a journal inside the file system, with barriers
//! and with commits in order; also with `fast_commit`, because a change of an attribute, such as a map, rules a fast commit out. Where anything says that it may not, or nothing says that it does (another file system, an ext4
//! without a journal or with one on another disk), data is flushed by itself.

use std::ffi::OsStr;
use std::fs::{File, read_dir, read_link, read_to_string};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{fstat, fstatfs, major, minor};
use rustix::io::Errno as Os;
use smrfs::units::HostJournal;

/// The magic number of ext4 in `statfs`, which ext2 and ext3 share.
const EXT: u64 = 0xef53;

/// The journal of the file system that an open file or directory is on; `None` if its commits may not flush data.
pub fn of(file: impl AsFd) -> Option<HostJournal> {
    let is_ext = fstatfs(&file).ok()?.f_type as u64 == EXT;
    let device = fstat(&file).ok()?.st_dev;
    let block = read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok()?;
    let disk = block.file_name()?.to_str()?;
    let options = read_to_string(format!("/proc/fs/ext4/{disk}/options")).ok()?;
    let has_journal = read_dir("/proc/fs/jbd2").ok()?.flatten().any(|entry| is_inside(&entry.file_name(), disk));
    (is_ext && has_journal && flushes_data(&options)).then_some(HostJournal(device))
}

/// True if the journal of that name lies inside the file system on that disk: it is then named by the disk and an inode there
/// (`sda1-8`), while a journal on a disk of its own is named by that disk.
fn is_inside(journal: &OsStr, disk: &str) -> bool {
    let inode = journal.to_str().and_then(|name| name.strip_prefix(disk)).and_then(|rest| rest.strip_prefix('-'));
    inode.is_some_and(|inode| inode.parse::<u64>().is_ok())
}

/// True if these mount options (one a line, as ext4 shows them) make a commit of the journal flush data that was written back before.
fn flushes_data(options: &str) -> bool {
    let has = |option| options.lines().any(|line| line == option);
    has("barrier") && !has("journal_async_commit") && (has("data=ordered") || has("data=writeback"))
}

/// True if the next commit of the journal `asked` also flushes the disk whose file system has the journal `own`.
pub fn flushes(own: Option<HostJournal>, asked: Option<HostJournal>) -> bool {
    asked.is_some() && own == asked
}

/// Begins to write all of a file back to the disk. Does nothing where the system refuses that.
pub fn start_write_back(file: &File) -> io::Result<()> {
    sync_file_range(file, libc::SYNC_FILE_RANGE_WRITE).map(|_| ())
}

/// Writes all of a file back to the disk and waits for that, without flushing the disk's cache; where the system refuses that, also
/// flushes it.
pub fn write_back(file: &File) -> io::Result<()> {
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    if sync_file_range(file, how)? { Ok(()) } else { file.sync_data() }
}

/// Calls sync_file_range(2) for all of a file; `false` where it is refused.
#[allow(unsafe_code)]
fn sync_file_range(file: &File, how: libc::c_uint) -> io::Result<bool> {
    // SAFETY: the call takes numbers alone; the descriptor is open as long as `file` is borrowed.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) };
    let error = io::Error::last_os_error();
    match Os::from_io_error(&error) {
        _ if done == 0 => Ok(true),
        Some(Os::NOSYS | Os::PERM) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_in_order_behind_barriers_flushes_data() {
        let usual = "rw\nbarrier\ncommit=5\ndata=ordered\n";
        assert!(flushes_data(usual));
        assert!(flushes_data(&usual.replace("ordered", "writeback")));
        for other in [
            usual.replace("barrier", "nobarrier"),
            usual.replace("ordered", "journal"),
            usual.replace("data=ordered\n", ""),
            format!("{usual}journal_async_commit\n"),
            String::new(),
        ] {
            assert!(!flushes_data(&other), "{other}");
        }
    }

    #[test]
    fn a_journal_on_a_disk_of_its_own_is_not_inside() {
        for (journal, disk, is) in [
            ("sda1-8", "sda1", true),
            ("dm-0-8", "dm-0", true),
            ("dm-0", "dm-1", false),
            ("dm-0", "dm-0", false),
            ("sda1-8", "sda", false),
            ("sda1-", "sda1", false),
            ("sda1-8-x", "sda1", false),
        ] {
            assert_eq!(is_inside(OsStr::new(journal), disk), is, "{journal} {disk}");
        }
    }

    #[test]
    fn only_its_own_journal_flushes_a_disk() {
        let [one, other] = [3, 4].map(|number| Some(HostJournal(number)));
        for (own, asked, is) in
            [(one, one, true), (one, other, false), (None, one, false), (one, None, false), (None, None, false)]
        {
            assert_eq!(flushes(own, asked), is, "{own:?} {asked:?}");
        }
    }

    #[test]
    fn a_file_that_is_written_back_and_a_pipe_that_can_not_be() {
        let (pipe, _other) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        assert!(start_write_back(&pipe).is_err() && write_back(&pipe).is_err());
        let file = tempfile::tempfile().unwrap();
        start_write_back(&file).and_then(|()| write_back(&file)).unwrap();
        assert_eq!(of(File::open("/proc/self/status").unwrap()), None);
    }
}
