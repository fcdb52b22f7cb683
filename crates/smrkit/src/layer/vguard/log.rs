//! The persistent cache of `vguard`: a circular log of whole tracks, and the exception map that finds them.
//!
//! A slot is a track of the cache. An entry is the data of a home track, followed by a copy of the map; it begins at the start of a slot, and
//! takes as many slots as it needs. Positions count slots and never wrap.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::geometry::{Divisor, Geometry};
use crate::layer::bands::Home;
use crate::state::state;
use crate::units::{Pba, Track};

/// A cached track in the log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct CachedTrack {
    pub track: u32,
    /// False if the track was cached again or rewritten at home since.
    pub valid: bool,
    pub slots: u64,
    /// Position of the first slot.
    pub position: u64,
    /// First sector of the data.
    pub pba: Pba,
}

/// The tracks of the cache, and how entries of the longest track fit them.
#[derive(Clone)]
pub(super) struct Slots {
    geometry: Geometry,
    count: u64,
    copy_sectors: u64,
    /// The most slots of an entry.
    pub most: u64,
    /// Slots that may be skipped at the end of a lap.
    pub skipped: u64,
}

impl Slots {
    /// `None` if the longest track with a copy of the map does not fit.
    pub fn new(geometry: &Geometry, count: u64, copy_sectors: u64, longest: u64) -> Option<Slots> {
        let mut slots = Slots { geometry: geometry.clone(), count, copy_sectors, most: 0, skipped: 0 };
        let fits = (0..count).map_while(|slot| slots.taken_at(slot, longest));
        let (fitting, most) = fits.fold((0, 0), |(fitting, most), k| (fitting + 1, k.max(most)));
        (slots.most, slots.skipped) = (most, count - fitting);
        (fitting > 0).then_some(slots)
    }

    /// The first sector of a slot.
    pub fn start(&self, slot: u64) -> Pba {
        self.geometry.track_start(Track(slot))
    }

    /// Number of slots of an entry with `sectors` of data from a slot on; `None` if it does not fit.
    fn taken_at(&self, slot: u64, sectors: u64) -> Option<u64> {
        let start = self.start(slot);
        (slot + 1..=self.count)
            .find(|&end| self.start(end) - start >= sectors + self.copy_sectors)
            .map(|end| end - slot)
    }
}

/// The log and the map.
pub(super) struct TrackLog {
    pub places: Slots,
    slots: Divisor,
    /// Entries, beginning with the oldest valid one.
    pub entries: VecDeque<CachedTrack>,
    /// The number of the oldest entry. Numbers count from 1 and are never reused.
    pub first: u64,
    /// Position of the next entry, unless it does not fit there and begins with the next lap.
    pub head: u64,
    /// The number of each home track's valid entry; 0 if the track is not cached.
    numbers: Vec<u64>,
    pub valid_entries: u64,
    /// Slots of valid entries.
    pub active_slots: u64,
}

state! {
    TrackLog {
        sized: numbers;
        values: entries, first, head, valid_entries, active_slots;
        built: places, slots;
    }
}

impl TrackLog {
    pub fn new(places: Slots, home: &Home) -> TrackLog {
        TrackLog {
            slots: Divisor::new(places.count),
            places,
            entries: VecDeque::new(),
            first: 1,
            head: 0,
            numbers: vec![0; home.tracks() as usize],
            valid_entries: 0,
            active_slots: 0,
        }
    }

    /// Slots of the cache.
    pub fn slots(&self) -> u64 {
        self.slots.value
    }

    /// The first position from `head` on for an entry with `sectors` of data, and the number of slots that it would take.
    pub fn place(&self, head: u64, sectors: u64) -> (u64, u64) {
        let slot = self.slots.remainder(head);
        match self.places.taken_at(slot, sectors) {
            Some(slots) => (head, slots),
            None => (head + (self.slots() - slot), self.places.taken_at(0, sectors).unwrap_or(self.places.most)),
        }
    }

    pub fn slot(&self, position: u64) -> u64 {
        self.slots.remainder(position)
    }

    /// The valid entry of a home track.
    #[inline]
    pub fn find(&self, track: u32) -> Option<&CachedTrack> {
        let number = self.numbers[track as usize];
        (number != 0).then(|| &self.entries[(number - self.first) as usize])
    }

    /// True if a home track is cached.
    #[inline]
    pub fn has(&self, track: u32) -> bool {
        self.numbers[track as usize] != 0
    }

    /// The number of a home track's valid entry; 0 if it has none.
    pub fn number(&self, track: u32) -> u64 {
        self.numbers[track as usize]
    }

    /// The number that the next entry gets.
    pub fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The valid entries, the oldest first.
    pub fn valid(&self) -> impl Iterator<Item = &CachedTrack> {
        self.entries.iter().filter(|entry| entry.valid)
    }

    /// Tracks copied from the oldest valid entry to the head, invalid ones included.
    #[inline]
    pub fn length(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The position of the oldest valid entry, or the head if there is none.
    pub fn tail(&self) -> u64 {
        self.entries.front().map_or(self.head, |entry| entry.position)
    }

    /// Appends an entry of a home track, which makes an older one invalid.
    pub fn push(&mut self, track: u32, position: u64, slots: u64) {
        self.drop(track);
        self.numbers[track as usize] = self.next_number();
        let pba = self.places.start(self.slot(position));
        self.entries.push_back(CachedTrack { track, valid: true, slots, position, pba });
        self.head = position + slots;
        self.valid_entries += 1;
        self.active_slots += slots;
    }

    /// Makes the entry of a home track invalid.
    pub fn drop(&mut self, track: u32) {
        let number = std::mem::take(&mut self.numbers[track as usize]);
        if number == 0 {
            return;
        }
        let entry = &mut self.entries[(number - self.first) as usize];
        entry.valid = false;
        self.valid_entries -= 1;
        self.active_slots -= entry.slots;
        while self.entries.front().is_some_and(|entry| !entry.valid) {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}
