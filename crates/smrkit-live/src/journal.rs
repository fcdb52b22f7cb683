//! Journals of ext4, whose commits also make durable what was written back to the same disk before.
//!
//! A commit of ext4 writes its last block behind a flush of the disk (`REQ_PREFLUSH`), so that all that the disk had in its
//! cache is durable before the commit is. Data that has been written back to the disk, and a map that is stored afterwards,
//! therefore need one flush, not two: the map's own. That holds with barriers and with a commit in order; where anything says
//! that it may not, or nothing says that it does (another file system, an ext4 without a journal), data is flushed by itself.

use std::fs::{File, read_link, read_to_string};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{fstat, fstatfs, major, minor};
use smrfs::units::HostJournal;

/// The number by which `statfs` tells ext4, and ext2 and ext3 as well.
const EXT: u64 = 0xef53;

/// The journal of the file system of what is open; none if a commit of it need not flush data.
pub fn of(file: impl AsFd) -> Option<HostJournal> {
    let is_ext = fstatfs(&file).ok()?.f_type as u64 == EXT;
    let device = fstat(&file).ok()?.st_dev;
    let block = read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok()?;
    let name = block.file_name()?.to_str()?;
    // A journal has a task that commits.
    let task = read_to_string(format!("/sys/fs/ext4/{name}/journal_task")).ok()?;
    let has_journal = task.trim().parse::<u32>().is_ok();
    let options = read_to_string(format!("/proc/fs/ext4/{name}/options")).ok()?;
    (is_ext && has_journal && flushes_data(&options)).then_some(HostJournal(device))
}

/// True if with these options of a mount, one a line, a commit flushes data that was written back before it.
fn flushes_data(options: &str) -> bool {
    let has = |option| options.lines().any(|line| line == option);
    has("barrier") && !has("journal_async_commit") && (has("data=ordered") || has("data=writeback"))
}

/// Writes all of a file back to the disk and waits for that; what the disk has in its cache is not flushed.
#[allow(unsafe_code)]
pub fn write_back(file: &File) -> io::Result<()> {
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the call takes numbers alone; the descriptor is open as long as `file` is borrowed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
    fn what_has_no_journal_of_ext4_has_none() {
        assert_eq!(of(File::open("/proc/self/status").unwrap()), None);
    }
}
