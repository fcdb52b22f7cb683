//! Rebuilding the map after a power cut, from the platters alone.
//!
//! Recovery begins with the newest copy of the map in a map slot and follows the log from there, entry by entry: where the
//! next one would lie is known, but for the length of its track. Only the number that comes next is taken for an entry, so
//! that host data which looks like a copy of the map, because it was one, is not. Then the scratch pad is replayed.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Vguard;
use super::copy::{Copy, CopyHead};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::tally::Cause;

/// Map as it is on the platters.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Saved {
    /// The log's tail in the newest copy: what lies before may be overwritten.
    pub(super) tail: u64,
    /// The newest entry and the log's head in the copy in a map slot, from which recovery starts.
    pub(super) number: u64,
    pub(super) head: u64,
    pub(super) next_slot: usize,
    /// Home tracks that the newest copy takes for cached or under way, and that were rewritten since.
    pub(super) rewritten: Vec<Range<u32>>,
}

impl Vguard {
    pub(super) fn rebuild(&mut self, disk: &mut Disk) -> DiskResult {
        let saved = self.newest_saved(disk)?;
        let mut newest = saved.clone().unwrap_or_default();
        while let Some(next) = self.next_copy(disk, &newest.0)? {
            newest = next;
        }
        let note = self.cleaner.newest_note(disk, &self.home)?;
        let (head, entries) = newest;
        if head == CopyHead::default() && note.is_none() {
            return Ok(());
        }
        self.take_over(&head, entries);
        self.check_log()?;
        self.sequence = head.sequence.max(note.map_or(0, |note| note.sequence));
        if let Some(note) = note {
            let rewritten = head.note == Some((note.sequence, true));
            if note.sequence > head.sequence || head.note.is_some_and(|(sequence, _)| sequence == note.sequence) {
                let tracks = self.cleaner.recover_stage(disk, &self.home, note, rewritten)?;
                self.free(tracks);
            }
        }
        self.save(disk)
    }

    /// The newer whole copy in the map slots; the other slot is written next.
    fn newest_saved(&mut self, disk: &mut Disk) -> DiskResult<Option<Copy>> {
        let mut newest: Option<Copy> = None;
        for slot in 0..self.home.maps().len() {
            let words = disk.read_record(self.home.maps()[slot], self.format.sectors(), Cause::Map)?;
            let Some(copy) = words.and_then(|words| self.format.parse(&words, &self.home)) else { continue };
            if newest.as_ref().is_none_or(|(head, _)| head.sequence < copy.0.sequence) {
                newest = Some(copy);
                self.saved.next_slot = (slot + 1) % self.home.maps().len();
            }
        }
        Ok(newest)
    }

    /// The copy behind the entry after the one that `last` tells of, if that was written whole.
    fn next_copy(&self, disk: &mut Disk, last: &CopyHead) -> DiskResult<Option<Copy>> {
        for sectors in self.home.lengths() {
            let (position, slots) = self.log.place(last.head, sectors);
            let pba = self.log.start(self.log.slot(position)) + sectors;
            let words = disk.read_record(pba, self.format.sectors(), Cause::Map)?;
            let Some((head, entries)) = words.and_then(|words| self.format.parse(&words, &self.home)) else { continue };
            let is_next = head.number == last.number + 1 && head.sequence > last.sequence;
            let is_here = head.position == position && head.head == position + slots;
            if is_next && is_here && self.home.sectors(head.track) == sectors {
                return Ok(Some((head, entries)));
            }
        }
        Ok(None)
    }

    /// The log as a copy of the map tells it.
    fn take_over(&mut self, head: &CopyHead, entries: Vec<(u64, u32)>) {
        let slots = self.log.slots();
        let behind = |slot: u64| (head.head + slots - 1 - slot) % slots + 1;
        let mut entries: Vec<(u64, u32)> =
            entries.into_iter().map(|(slot, track)| (head.head.saturating_sub(behind(slot)), track)).collect();
        entries.sort_unstable();
        self.log.begin_at(head.number + 1 - entries.len() as u64, head.head);
        for (position, track) in entries {
            let (_, slots) = self.log.place(position, self.home.sectors(track));
            self.log.push(track, position, slots);
        }
        self.log.head = head.head;
        self.saved = Saved { tail: self.log.tail(), head: head.head, ..std::mem::take(&mut self.saved) };
    }
}
