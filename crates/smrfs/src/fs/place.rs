//! Putting data on the disk: a place from the space, the write, and the file's map in memory, in this order.
//!
//! The space stays locked from the placing to the end of the write, so that the order of writes is the order of placing.

use std::ops::Range;
use std::sync::Arc;

use smrkit::tally::Cause;

use super::FileSystem;
use super::file::{File, FileState};
use super::locks::lock;
use super::room::Use;
use crate::data::Data;
use crate::error::FsResult;
use crate::space::Want;
use crate::units::Span;

/// A piece is small if it is less than this part of a block, and a file in pieces after more than so many of them.
/// (Assumption: reading 1 MiB in 128 KiB pieces is nearly as fast as in one.)
pub(super) const SMALL: u64 = 8;

/// Blocks of a buffer that are written in one go, so that the space knows what follows. (Assumption.)
const GATHERED: u64 = 4;

/// Data for the disk, whole granules of one file.
pub(super) struct Load<'a> {
    /// The first granule, in the file.
    pub first: u64,
    pub data: Data<'a>,
    /// Whether it comes from elsewhere on the disk: neither newer than what is buffered nor promised.
    pub moving: bool,
    /// Whether it may use the cleaner's reserve.
    pub reserve: bool,
    pub cause: Cause,
}

impl<'a> Load<'a> {
    /// What a host wrote.
    pub(super) fn host(first: u64, data: Data<'a>) -> Load<'a> {
        Load { first, data, moving: false, reserve: false, cause: Cause::Host }
    }

    /// What was on the disk already.
    pub(super) fn moved(first: u64, data: Data<'a>, reserve: bool) -> Load<'a> {
        Load { first, data, moving: true, reserve, cause: Cause::Clean }
    }
}

/// Granules promised to a call under way; what changes in a file is taken from them.
pub(super) type Held = u64;

impl FileSystem {
    /// Writes the first block of `load`, as much as finds room in one place; tells how many granules. None: no room.
    pub(super) fn lay(
        &self,
        file: &Arc<File>,
        state: &mut FileState,
        load: &Load<'_>,
        held: &mut Held,
    ) -> FsResult<Option<u64>> {
        let granules = load.data.bytes() / self.granule_bytes;
        let count = granules.min(self.options.block_granules);
        let want = Want {
            owner: FileState::owner(file, load.first),
            after: state.end_before(load.first),
            count,
            more: granules - count,
            moving: load.reserve,
        };
        let Some(span) = self.write_somewhere(&want, load)? else { return Ok(None) };
        let range = load.first..load.first + span.count;
        if load.moving {
            let old = state.map.insert(load.first, span);
            self.retire(state, old);
        } else {
            self.rearrange(state, range, held, |state| state.map.insert(load.first, span));
            state.written = state.changes + 1;
        }
        self.touch(file, state);
        Ok(Some(span.count))
    }

    /// Places and writes; after a failed write once more, elsewhere.
    fn write_somewhere(&self, want: &Want, load: &Load<'_>) -> FsResult<Option<Span>> {
        let mut failure = None;
        for _ in 0..2 {
            let mut space = lock(&self.space);
            let Some(span) = space.place(want) else { return Ok(None) };
            let bytes = span.count * self.granule_bytes;
            match self.device.write(span.at, load.data.part(0, bytes), load.cause) {
                Ok(()) => {
                    space.written(span, want.owner);
                    let counter = if load.moving { &self.counters.moved } else { &self.counters.written };
                    counter.add(bytes);
                    return Ok(Some(span));
                }
                Err(error) => {
                    space.failed(span);
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(None), |error| Err(error.into()))
    }

    /// Forgets what is buffered or promised in `range`, and changes its map: `change` tells what that replaced.
    pub(super) fn rearrange(
        &self,
        state: &mut FileState,
        range: Range<u64>,
        held: &mut Held,
        change: impl FnOnce(&mut FileState) -> Vec<Span>,
    ) {
        let before = state.uses(range.clone());
        self.unbuffer(state, range.clone());
        state.promised.remove(range.clone());
        let old = change(state);
        let after = state.uses(range);
        self.account(state, before, after, held);
        self.retire(state, old);
    }

    /// Forgets what is buffered in `range`.
    fn unbuffer(&self, state: &mut FileState, range: Range<u64>) {
        let granules = state.buffer.remove(range);
        self.counters.buffered.take(granules * self.granule_bytes);
        if state.buffer.is_empty()
            && let Some(turn) = state.waiting.take()
        {
            lock(&self.waiting).leave(turn);
        }
    }

    /// A range of a file used `before` and uses `after`; what is more comes out of `held`.
    pub(super) fn account(&self, state: &mut FileState, before: Use, after: Use, held: &mut Held) {
        state.owed = state.owed + after.owed - before.owed;
        let more = (after.mapped + after.owed).saturating_sub(before.mapped + before.owed).min(*held);
        *held -= more;
        let mut rooms = lock(&self.rooms);
        rooms.change(before, after);
        rooms.take_back(more);
    }

    /// No map in memory names these any more.
    pub(super) fn retire(&self, state: &mut FileState, old: Vec<Span>) {
        if old.is_empty() {
            return;
        }
        let mut space = lock(&self.space);
        for span in old {
            space.retire(span);
            state.note_retired(span);
        }
    }

    /// The file's record changes: it has to be committed.
    pub(super) fn touch(&self, file: &Arc<File>, state: &mut FileState) {
        state.changes += 1;
        if state.changes == state.durable + 1 {
            lock(&self.dirty).insert(file.id, file.clone());
        }
    }

    /// Writes out what is buffered of a file, in the order of the file. `false`: no room for the rest.
    pub(super) fn write_out(&self, file: &Arc<File>, state: &mut FileState) -> FsResult<bool> {
        let (mut at, mut small) = (0, 0);
        while let Some(run) = state.buffer.run(at, GATHERED * self.options.block_granules) {
            let bytes = state.buffer.gather(run.clone(), self.granule_bytes);
            at = run.start;
            while at < run.end {
                let data = match &bytes {
                    Some(bytes) => Data::Bytes(&bytes[((at - run.start) * self.granule_bytes) as usize..]),
                    None => Data::Blank((run.end - at) * self.granule_bytes),
                };
                let Some(count) = self.lay(file, state, &Load::host(at, data), &mut 0)? else { return Ok(false) };
                at += count;
                small += u64::from(count < self.options.block_granules / SMALL);
            }
        }
        state.settled_size = state.size;
        if state.writers == 0 && at > 0 {
            lock(&self.space).closed(file.id);
        }
        if small > SMALL {
            lock(&self.fragmented).insert(file.id);
        }
        Ok(true)
    }
}
