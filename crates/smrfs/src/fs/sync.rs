//! Writing back: what programs ask to be durable, and in the background what is due.

use std::sync::Arc;

use super::FileSystem;
use super::counters::CleaningWork;
use super::file::File;
use super::place::SMALL;
use crate::error::{Errno, FsResult};
use crate::units::NodeId;

impl FileSystem {
    /// Moves a file's data into as few extents as possible, a block at a time; tells whether there is more to do.
    pub fn defragment(&self, id: NodeId) -> FsResult<bool> {
        self.changeable()?;
        let file = self.file(id)?;
        self.data.join_step(&file, 2)
    }

    /// Joins a block of a file that was written in small pieces, if room is plentiful.
    fn join_in_background(&self) -> FsResult<bool> {
        let Some(id) = self.data.fragmented.first() else { return Ok(false) };
        let rooms = self.data.allocator.rooms();
        let plenty = rooms.free() > rooms.usable / 8;
        let more = match self.file(id) {
            Ok(file) if plenty => self.data.join_step(&file, SMALL as usize),
            _ => Ok(false),
        };
        match more {
            Ok(true) => Ok(true),
            more => {
                let others = self.data.fragmented.remove(id);
                more.map(|_| others)
            }
        }
    }

    /// One bounded step of what is due in the background (writing out, cleaning, joining): `idle` if nothing else is to do.
    /// Tells whether there is more. Commits come from `sync_all`, on the caller's timer.
    pub fn background(&self, idle: bool) -> FsResult<bool> {
        if self.changeable().is_err() {
            return Ok(false);
        }
        let more = self.background_step(idle)?;
        if idle && more {
            // Nobody waits for it now. A host that comes back would, if its first fsync had to write all that idle steps left.
            self.data.disk.flush()?;
        }
        Ok(more)
    }

    fn background_step(&self, idle: bool) -> FsResult<bool> {
        let cleaner = self.cleaning.lock();
        let seen = self.data.allocator.progress();
        if let Some(step) = self.data.allocator.next_step(idle) {
            self.execute(step, seen, &mut CleaningWork::default())?;
            return Ok(true);
        }
        drop(cleaner);
        Ok(idle && (self.write_out_oldest(&mut CleaningWork::default())? || self.join_in_background()?))
    }

    /// Makes a file durable: data, map, attributes and the name it was last made or moved under.
    pub fn sync(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        match self.file(id) {
            Ok(file) => self.save(&file)?,
            Err(error) if error.errno() == Errno::EISDIR => return self.sync_dir(id),
            Err(error) if error.errno() == Errno::EINVAL => self.data.disk.make_durable(|| self.store.sync(id))?,
            Err(error) => return Err(error),
        }
        self.commits.sync_names(&self.data, id)
    }

    /// Makes the names in a directory durable.
    pub fn sync_dir(&self, id: NodeId) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        self.data.disk.make_durable(|| self.store.sync_dir(id))?;
        self.commits.sync_names(&self.data, id)
    }

    /// Makes data, map and attributes of a file durable.
    pub(super) fn save(&self, file: &Arc<File>) -> FsResult {
        let mut work = CleaningWork::default();
        loop {
            let seen = self.data.allocator.progress();
            let commit = file.commit.lock();
            let mut state = file.lock();
            if state.handles.is_gone() {
                return Ok(());
            }
            if self.data.write_out(file, &mut state)? {
                if state.versions.is_dirty() {
                    drop(state);
                    // The disk works while the map is put together.
                    self.data.disk.start_flush();
                    state = file.lock();
                    if state.handles.is_gone() {
                        return Ok(());
                    }
                }
                let snapshot = self.commits.snapshot(&self.data, &self.files, file, &mut state);
                drop(state);
                self.data.counters.count(&work);
                return self.commits.save_snapshot(&self.data, file, snapshot);
            }
            // Whoever makes room may have to commit this file.
            drop(state);
            drop(commit);
            self.make_room(seen, &mut work)?;
        }
    }

    /// Makes everything durable (what a commit in the background does, too).
    pub fn sync_all(&self) -> FsResult {
        if self.options.read_only {
            return Ok(());
        }
        if self.flush_failed() {
            return Err(Errno::EIO.into());
        }
        let mut failure = None;
        let waiting = self.data.buffers.all();
        for file in waiting {
            let mut work = CleaningWork::default();
            if let Err(error) = self.write_out_all(&file, &mut work) {
                failure = Some(error);
            }
            self.data.counters.count(&work);
        }
        self.commit()?;
        failure.map_or(Ok(()), Err)
    }

    /// Writes out buffers, the longest waiting first, until they keep to their limit.
    pub(super) fn balance(&self, work: &mut CleaningWork) -> FsResult {
        while self.data.buffers.bytes() > self.options.buffer_bytes && self.write_out_oldest(work)? {}
        Ok(())
    }

    /// Writes out the buffer of the file that waits longest; tells whether there was one.
    fn write_out_oldest(&self, work: &mut CleaningWork) -> FsResult<bool> {
        let Some(file) = self.data.buffers.first() else { return Ok(false) };
        let result = self.write_out_all(&file, work);
        if result.is_err() {
            self.data.buffers.queue_again(&file, &mut file.lock());
        }
        result.map(|()| true)
    }

    /// Writes out what is buffered of a file, and has room made where there is none.
    fn write_out_all(&self, file: &Arc<File>, work: &mut CleaningWork) -> FsResult {
        loop {
            let seen = self.data.allocator.progress();
            let mut state = file.lock();
            if self.data.write_out(file, &mut state)? {
                return Ok(());
            }
            drop(state);
            self.make_room(seen, work)?;
        }
    }
}
