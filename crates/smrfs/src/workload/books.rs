//! A target for tests that only keeps books.

use std::collections::BTreeMap;

use smrkit::units::Nanos;

use super::{Act, FileKey, Target, TargetRoom};
use crate::error::{Errno, FsError, FsResult};

/// A target that keeps sizes, refuses what makes no sense, and takes a nanosecond for each byte.
pub struct Books {
    pub files: BTreeMap<FileKey, u64>,
    open: Vec<FileKey>,
    room_bytes: u64,
    now: u64,
    /// Time that cleaning takes after each act.
    pub cleaning_ns: u64,
    /// Time of a step of cleaning in a rest.
    pub idle_step_ns: u64,
    waited: u64,
    pub acts: Vec<Act>,
}

impl Books {
    pub fn new(room_bytes: u64) -> Books {
        Books {
            files: BTreeMap::new(),
            open: Vec::new(),
            room_bytes,
            now: 0,
            cleaning_ns: 0,
            idle_step_ns: 1,
            waited: 0,
            acts: Vec::new(),
        }
    }

    fn is_open(&self, file: FileKey) -> FsResult {
        if self.open.contains(&file) { Ok(()) } else { Err(FsError::Errno(Errno::EBADF)) }
    }
}

impl Target for Books {
    fn perform(&mut self, act: Act) -> FsResult {
        self.acts.push(act);
        self.now += act.written_bytes() + act.read_bytes();
        match act {
            Act::Create(file) => {
                assert!(self.files.insert(file, 0).is_none(), "{file:?} exists");
                self.open.push(file);
            }
            Act::Open { file, .. } => {
                assert!(self.files.contains_key(&file), "{file:?} is missing");
                self.open.push(file);
            }
            Act::Append { file, bytes } => {
                self.is_open(file)?;
                self.room_bytes = self.room_bytes.checked_sub(bytes).ok_or(Errno::ENOSPC)?;
                *self.files.entry(file).or_default() += bytes;
            }
            Act::Read { file, offset, bytes } => {
                self.is_open(file)?;
                assert!(offset + bytes <= self.files[&file], "beyond the end");
            }
            Act::Close { file, .. } => {
                self.is_open(file)?;
                self.open.retain(|other| *other != file);
            }
            Act::Delete(file) => {
                let size = self.files.remove(&file).ok_or(Errno::ENOENT)?;
                self.room_bytes += size;
            }
            Act::Stat(file) => {
                self.files.get(&file).ok_or(Errno::ENOENT)?;
            }
        }
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    fn rest(&mut self, until: Nanos) -> FsResult {
        let steps = until.0.saturating_sub(self.now).div_ceil(self.idle_step_ns);
        self.now += steps * self.idle_step_ns;
        Ok(())
    }

    fn background(&mut self) -> FsResult {
        self.now += self.cleaning_ns;
        self.waited += self.cleaning_ns;
        Ok(())
    }

    fn waited(&self) -> Nanos {
        Nanos(self.waited)
    }

    fn room(&self) -> FsResult<TargetRoom> {
        let live_bytes = self.files.values().sum();
        Ok(TargetRoom { free_bytes: self.room_bytes, live_bytes, ..TargetRoom::default() })
    }
}
