//! Handles on a file: its opens and its names, and whether it still has its data.

use crate::error::{Errno, FsResult};

/// Opens of a file, and what of names and data is gone.
#[derive(Default)]
pub(super) struct Handles {
    opens: u32,
    writers: u32,
    /// True if its last name is gone.
    unlinked: bool,
    /// True if its data is gone, too.
    gone: bool,
}

impl Handles {
    pub(super) fn open(&mut self, writing: bool) {
        self.opens += 1;
        self.writers += u32::from(writing);
    }

    /// One `open` ends; EBADF if there is none.
    pub(super) fn close(&mut self, writing: bool) -> FsResult {
        if self.opens == 0 || (writing && self.writers == 0) {
            return Err(Errno::EBADF.into());
        }
        self.opens -= 1;
        self.writers -= u32::from(writing);
        Ok(())
    }

    /// Its last name is gone.
    pub(super) fn unlink(&mut self) {
        self.unlinked = true;
    }

    /// Its data is gone.
    pub(super) fn end(&mut self) {
        self.gone = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.opens > 0
    }

    pub(super) fn has_writers(&self) -> bool {
        self.writers > 0
    }

    pub(super) fn is_unlinked(&self) -> bool {
        self.unlinked
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }
}
