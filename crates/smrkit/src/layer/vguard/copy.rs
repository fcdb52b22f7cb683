//! Copies of the exception map on the platters: behind each cached track, and now and then in a slot of their own.
//!
//! A copy says which slots hold valid entries (a bit each) and whose they are (some bits each): about 30 KB for the 5 TB
//! drive, as in the paper. It also says which stage of cleaning is under way.

use super::log::TrackLog;
use crate::geometry::Geometry;
use crate::layer::COUNT_MAX;
use crate::layer::bands::Home;
use crate::medium::record_sectors;

const KIND: u64 = 0x5647_4d41;
const HEAD: usize = 9;

/// Contents of a copy besides the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyHead {
    /// Orders copies among each other and against notes in the scratch pad.
    pub sequence: u64,
    /// The number of the newest entry.
    pub number: u64,
    /// Beginning of that entry, as a position of the log.
    pub position: u64,
    /// Place of the next one.
    pub head: u64,
    /// The home track of that entry.
    pub track: u32,
    /// The note of the stage of cleaning under way, and whether the stage was rewritten.
    pub note: Option<(u64, bool)>,
}

/// A copy read back: its head, and the valid entries as (slot, home track).
pub(super) type Copy = (CopyHead, Vec<(u64, u32)>);

/// Format of copies of the map on one drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    slots: u64,
    track_bits: u32,
    entries_max: u64,
    apart: u64,
}

impl Format {
    /// For this many slots and valid entries at most. `apart` is how far a second write wears what lies before it: where an
    /// entry was torn the next one is written over it, so that a copy keeps the data before it at a distance.
    pub fn new(slots: u64, entries_max: u64, geometry: &Geometry, apart: u64) -> Format {
        let tracks = geometry.tracks().min(u64::from(u32::MAX)) as u32;
        Format { slots, track_bits: bits(u64::from(tracks)), entries_max, apart }
    }

    /// Sectors of a copy.
    pub fn sectors(&self) -> u64 {
        let words = (self.entries_max * u64::from(self.track_bits)).div_ceil(64) + self.slots.div_ceil(64);
        record_sectors(HEAD + words as usize).max(self.apart)
    }

    /// Equation (1) of the paper for `entries` of the map, with base-2 logarithms, in bytes.
    pub fn map_bytes(&self, entries: u64) -> u64 {
        (entries * u64::from(self.track_bits + bits(self.slots))).div_ceil(8)
    }

    /// The words of a copy; `new` is an entry that is being written with it, and replaces the one of its track.
    pub fn words(&self, head: &CopyHead, log: &TrackLog, new: Option<(u64, u32)>) -> Vec<u64> {
        let old = log.valid().filter(|entry| new.is_none_or(|(_, track)| track != entry.track));
        let entries = old.map(|entry| (entry.position, entry.track)).chain(new);
        let mut entries: Vec<(u64, u32)> = entries.map(|(position, track)| (log.slot(position), track)).collect();
        entries.sort_unstable();
        let (note, rewritten) = head.note.unwrap_or_default();
        let count = entries.len() as u64;
        let track = u64::from(head.track);
        let (sequence, number) = (head.sequence, head.number);
        let mut words =
            vec![KIND, sequence, number, head.position, head.head, track, note, u64::from(rewritten), count];
        let first = words.len();
        words.resize(first + self.slots.div_ceil(64) as usize, 0);
        for &(slot, _) in &entries {
            words[first + (slot / 64) as usize] |= 1 << (slot % 64);
        }
        let (mut word, mut used) = (0u128, 0);
        for &(_, track) in &entries {
            word |= u128::from(track) << used;
            used += self.track_bits;
            if used >= 64 {
                words.push(word as u64);
                (word, used) = (word >> 64, used - 64);
            }
        }
        if used > 0 {
            words.push(word as u64);
        }
        // A copy fills its room, whatever it holds.
        let room = self.sectors();
        while record_sectors(words.len() + 1) <= room {
            words.push(0);
        }
        words
    }

    /// Map that words hold; `None` if they are no copy of this drive's map.
    pub fn parse(&self, words: &[u64], home: &Home) -> Option<Copy> {
        let (&[KIND, sequence, number, position, head, track, note, rewritten, count], rest) =
            words.split_first_chunk()?
        else {
            return None;
        };
        let bitmap = self.slots.div_ceil(64) as usize;
        let packed = (count.checked_mul(u64::from(self.track_bits))?).div_ceil(64) as usize;
        let counts = [sequence, number, position, head, note];
        if rest.len() < bitmap + packed
            || track >= u64::from(home.tracks())
            || count > self.entries_max.min(number.saturating_add(1))
            || counts.iter().any(|&count| count >= COUNT_MAX)
        {
            return None;
        }
        let (bitmap, packed) = rest.split_at(bitmap);
        let slots = (0..self.slots).filter(|slot| bitmap[(slot / 64) as usize] >> (slot % 64) & 1 == 1);
        let tracks = (0..count).map(|i| self.unpack(packed, i));
        let entries: Vec<(u64, u32)> = slots.zip(tracks).collect();
        let sound = entries.len() as u64 == count && entries.iter().all(|&(_, track)| track < home.tracks());
        let note = (note > 0).then_some((note, rewritten != 0));
        let head = CopyHead { sequence, number, position, head, track: track as u32, note };
        sound.then_some((head, entries))
    }

    fn unpack(&self, packed: &[u64], i: u64) -> u32 {
        let bit = i * u64::from(self.track_bits);
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let next = packed.get(word + 1).copied().unwrap_or(0);
        let both = u128::from(packed[word]) | u128::from(next) << 64;
        (both >> shift) as u32 & ((1u64 << self.track_bits) - 1) as u32
    }
}

/// Bits that tell `count` things apart.
fn bits(count: u64) -> u32 {
    64 - count.max(2).saturating_sub(1).leading_zeros()
}
