//! The zones that no chunk is mapped to, and when the conventional ones were used last.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::keys::DmLayout;
use super::maps::NONE;
use crate::layer::COUNT_MAX;
use crate::state::state;

/// Zones without a chunk, those used next first.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct UnusedZones {
    random: VecDeque<u32>,
    sequential: VecDeque<u32>,
    /// Zones that are free after the next commit.
    freed: Vec<u32>,
}

impl UnusedZones {
    /// Every zone for data that no chunk is mapped to is free; those that wait for a commit go on waiting.
    pub(super) fn find(&mut self, layout: &DmLayout, owners: &[u32]) {
        let free = |&zone: &u32| owners[zone as usize] == NONE;
        let (first, sequential) = (layout.first_data(), layout.first_sequential());
        self.random = (first..sequential).filter(free).collect();
        self.sequential = (sequential..owners.len() as u32).filter(free).collect();
    }

    /// True if a restored state names zones that there are, each among those of its kind.
    pub(super) fn is_possible(&self, layout: &DmLayout) -> bool {
        let (first, end) = (layout.first_sequential(), layout.zones.count() as u32);
        let kinds = self.random.iter().all(|&zone| zone < first)
            && self.sequential.iter().all(|zone| (first..end).contains(zone));
        kinds && self.freed.iter().all(|&zone| zone < end)
    }

    /// Number of free conventional zones.
    pub(super) fn randoms(&self) -> u64 {
        self.random.len() as u64
    }

    pub(super) fn has_sequential(&self) -> bool {
        !self.sequential.is_empty()
    }

    pub(super) fn take_random(&mut self) -> Option<u32> {
        self.random.pop_front()
    }

    pub(super) fn take_sequential(&mut self) -> Option<u32> {
        self.sequential.pop_front()
    }

    /// Nothing was written to a sequential zone that was taken.
    pub(super) fn put_back(&mut self, zone: u32) {
        self.sequential.push_front(zone);
    }

    /// A zone is free after the next commit.
    pub(super) fn release(&mut self, zone: u32) {
        self.freed.push(zone);
    }

    /// True if zones wait for a commit.
    pub(super) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Takes the zones that wait for a commit, after one.
    pub(super) fn take_freed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.freed)
    }

    /// A zone that was released is free.
    pub(super) fn add(&mut self, zone: u32, is_random: bool) {
        if is_random { self.random.push_back(zone) } else { self.sequential.push_back(zone) }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = u32> + '_ {
        self.random.iter().chain(&self.sequential).chain(&self.freed).copied()
    }

    /// The free zones, conventional ones and others, as words.
    pub(super) fn words(&self) -> [Vec<u64>; 2] {
        [&self.random, &self.sequential].map(|zones| zones.iter().map(|&zone| zone.into()).collect())
    }

    /// Zones that words tell of; `None` if they are not of this disk.
    pub(super) fn parse(layout: &DmLayout, random: &[u64], sequential: &[u64]) -> Option<UnusedZones> {
        let (first, end) = (u64::from(layout.first_sequential()), layout.zones.count());
        let is_sound =
            random.iter().all(|&zone| zone < first) && sequential.iter().all(|zone| (first..end).contains(zone));
        let zones = |words: &[u64]| words.iter().map(|&zone| zone as u32).collect();
        is_sound.then(|| UnusedZones { random: zones(random), sequential: zones(sequential), freed: Vec::new() })
    }
}

/// When each conventional zone for data was used last, by a counter of uses.
#[derive(Clone)]
pub(super) struct LastUses {
    used: Vec<u64>,
    uses: u64,
}

state! { LastUses { sized: used; values: uses; } }

impl LastUses {
    /// No zone of so many has been used.
    pub(super) fn new(zones: u64) -> LastUses {
        LastUses { used: vec![0; zones as usize], uses: 0 }
    }

    /// True if no zone of a restored state was used after the last use.
    pub(super) fn is_possible(&self) -> bool {
        self.uses < COUNT_MAX && self.used.iter().all(|&used| used <= self.uses)
    }

    /// A zone, counted from the first for data, has been used.
    #[inline]
    pub(super) fn touch(&mut self, zone: u32) {
        self.uses += 1;
        self.used[zone as usize] = self.uses;
    }

    /// When a zone was used last.
    pub(super) fn of(&self, zone: u32) -> u64 {
        self.used[zone as usize]
    }

    pub(super) fn uses(&self) -> u64 {
        self.uses
    }

    pub(super) fn words(&self) -> Vec<u64> {
        self.used.clone()
    }

    /// Takes back the words of such a disk; `None` if they are of another.
    pub(super) fn parse(&self, used: &[u64], uses: u64) -> Option<LastUses> {
        let is_sound = used.len() == self.used.len() && uses < COUNT_MAX && used.iter().all(|&used| used <= uses);
        is_sound.then(|| LastUses { used: used.into(), uses })
    }
}
