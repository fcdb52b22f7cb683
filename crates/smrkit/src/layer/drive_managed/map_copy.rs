//! Copies of the map on the platters: two places, written in turn, so that one is always whole.
//!
//! A copy names every valid extent of the log, and where the chain of headers goes on; what was written since is found by
//! following it.

use std::collections::VecDeque;

use super::costs::Costs;
use super::log::{CacheLog, Link, LogEntry};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::extent_map::ExtentMap;
use crate::layer::{COUNT_MAX, foreign};
use crate::medium::{WritePart, record_sectors};
use crate::state::state;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

const KIND: u64 = 0x646d_2d6d_6170_2d32;
/// Words before the extents: kind, number, tail, head, chain, settled notes of the scratch pad, extents.
const HEAD_WORDS: usize = 7;
const EXTENT_WORDS: usize = 2;
/// An extent's second word: whether a log entry begins with it, sectors, PBA.
const LEADS: u64 = 1 << 63;
const PBA_BITS: u32 = 40;

/// Sectors of a copy of up to `extents` extents.
pub(super) fn copy_sectors(extents: u64) -> u64 {
    record_sectors(words_of(extents))
}

fn words_of(extents: u64) -> usize {
    HEAD_WORDS + EXTENT_WORDS * extents as usize
}

/// The two places and what was written there.
pub(super) struct MapCopies {
    places: [Pba; 2],
    extents_max: u64,
    /// Copies written since the drive was new.
    number: u64,
}

state! { MapCopies { values: number; built: places, extents_max; } }

impl MapCopies {
    pub fn new(places: [Pba; 2], extents_max: u64) -> MapCopies {
        MapCopies { places, extents_max, number: 0 }
    }

    /// Extents that a copy has room for.
    pub fn extents_max(&self) -> u64 {
        self.extents_max
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Writes a copy; what the log held before its tail may be written over from now on.
    pub fn write(
        &mut self,
        disk: &mut Disk,
        costs: &Costs,
        log: &mut CacheLog,
        map: &ExtentMap,
        settled: u64,
    ) -> DiskResult {
        let words = if disk.holds_data() { self.words(log, map, settled) } else { Vec::new() };
        let part = WritePart::Record { words: &words, sectors: copy_sectors(self.extents_max) };
        costs.map_copy(disk, self.places[(self.number % 2) as usize], part)?;
        self.number += 1;
        log.keep_from(log.tail());
        Ok(())
    }

    fn words(&self, log: &CacheLog, map: &ExtentMap, settled: u64) -> Vec<u64> {
        let Link { head, chain } = log.next();
        let mut words = vec![KIND, self.number + 1, log.tail(), head, chain, settled, 0];
        for entry in log.entries() {
            let mut leads = if entry.leads { LEADS } else { 0 };
            for (lba, sectors, pba) in log.valid(map, entry) {
                words.extend([lba.0, leads | sectors << PBA_BITS | pba.0]);
                words[HEAD_WORDS - 1] += 1;
                leads = 0;
            }
        }
        assert!(words[HEAD_WORDS - 1] <= self.extents_max, "{} extents in a map copy", words[HEAD_WORDS - 1]);
        // A record is read back with the room that it was written with.
        words.resize(words_of(self.extents_max), 0);
        words
    }

    /// Finds the newest copy, and puts what it says of `host_sectors` LBAs into an empty `log` and `map`. Returns up to which one
    /// the scratch pad's notes are settled.
    pub fn restore(
        &mut self,
        disk: &mut Disk,
        log: &mut CacheLog,
        map: &mut ExtentMap,
        host_sectors: u64,
    ) -> DiskResult<u64> {
        let mut newest: Option<Vec<u64>> = None;
        for place in self.places {
            let found = disk.read_record(place, copy_sectors(self.extents_max), Cause::Map)?;
            let found = found.filter(|words| words.len() >= HEAD_WORDS && words[0] == KIND);
            if let Some(words) = found
                && newest.as_ref().is_none_or(|other| other[1] < words[1])
            {
                newest = Some(words);
            }
        }
        let Some(words) = newest else { return Ok(0) };
        let [number, tail, head, chain, settled] = [words[1], words[2], words[3], words[4], words[5]];
        if !(tail <= head && [number, head, settled].iter().all(|&word| word < COUNT_MAX)) {
            return foreign("the copy of its map");
        }
        let mut entries = VecDeque::new();
        for pair in words[HEAD_WORDS..].chunks_exact(EXTENT_WORDS).take(words[HEAD_WORDS - 1] as usize) {
            let (lba, leads, rest) = (Lba(pair[0]), pair[1] & LEADS > 0, pair[1] & !LEADS);
            let (sectors, pba) = (rest >> PBA_BITS, Pba(rest & ((1 << PBA_BITS) - 1)));
            if sectors == 0 || lba.0.saturating_add(sectors) > host_sectors || !log.holds(pba, sectors) {
                return foreign("the copy of its map");
            }
            map.insert(lba, sectors, pba);
            entries.push_back(LogEntry { data: log.position(pba, tail), lba, sectors, leads });
        }
        self.number = number;
        log.restore(entries, Link { head, chain });
        log.keep_from(tail);
        Ok(settled)
    }
}
