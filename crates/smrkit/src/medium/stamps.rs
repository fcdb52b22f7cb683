//! A medium of stamps: each sector remembers which write put it there, and what was destroyed is noticed.
//!
//! A stamp names an LBA and a version. A sector that a neighbour's write destroyed keeps the stamp of that write,
//! marked as damage. The history that the law of distances needs (when a sector was last written) is kept only under
//! that law.

use std::collections::HashMap;

use crate::geometry::Geometry;
use crate::units::{Lba, Pba};

use super::interference::Interference;
use super::label::{Label, Labels};
use super::record;

/// What a sector holds: nothing (0), a version of an LBA, or damage by the write of an LBA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u64);

const DAMAGED: u64 = 1 << 63;
const LBA_BITS: u32 = 39;
const VERSION_BITS: u32 = 24;

impl Stamp {
    /// The largest LBA that a stamp can name; the one above it marks records.
    pub const LBA_MAX: u64 = (1 << LBA_BITS) - 2;

    /// The stamp of the `version`-th write (from 1; modulo 2^24, never 0) of `lba`.
    pub fn new(lba: Lba, version: u64) -> Stamp {
        debug_assert!(lba.0 < 1 << LBA_BITS);
        let version = version % ((1 << VERSION_BITS) - 1) + 1;
        Stamp(version << LBA_BITS | lba.0)
    }

    /// The stamp of a record's sectors.
    pub(super) fn of_record(words: &[u64]) -> Stamp {
        Stamp::new(Lba(Stamp::LBA_MAX + 1), record::digest(words) >> VERSION_BITS)
    }

    /// Whether a layer's record lies here, not the host's data.
    pub fn is_record(self) -> bool {
        !self.is_damaged() && self.lba().0 > Stamp::LBA_MAX
    }

    /// Whose data.
    pub fn lba(self) -> Lba {
        Lba(self.0 & ((1 << LBA_BITS) - 1))
    }

    /// Which write of that LBA.
    pub fn version(self) -> u64 {
        (self.0 & !DAMAGED) >> LBA_BITS
    }

    /// Whether the sector was destroyed; then [`Stamp::lba`] is what was being written next to it.
    pub fn is_damaged(self) -> bool {
        self.0 & DAMAGED != 0
    }
}

/// A sector destroyed by the write of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub pba: Pba,
    /// What was there.
    pub was: Stamp,
    /// What was being written.
    pub by: Lba,
}

const PAGE: u64 = 1024;

/// Stamps of the sectors ever written, in pages.
#[derive(Default)]
pub struct Stamps {
    pages: HashMap<u64, Box<[u64; PAGE as usize]>>,
    /// The words of records, by their first sector.
    records: HashMap<u64, Box<[u64]>>,
    labels: Labels,
    damages: Vec<Damage>,
    history: History,
    written_sectors: u64,
}

impl Stamps {
    /// An empty disk.
    pub fn new() -> Stamps {
        Stamps::default()
    }

    /// What `pba` holds.
    pub fn get(&self, pba: Pba) -> Stamp {
        self.pages.get(&(pba.0 / PAGE)).map_or(Stamp(0), |page| Stamp(page[(pba.0 % PAGE) as usize]))
    }

    fn slot(&mut self, pba: Pba) -> &mut u64 {
        let page = self.pages.entry(pba.0 / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
        &mut page[(pba.0 % PAGE) as usize]
    }

    pub(super) fn read(&self, pba: Pba, out: &mut [u64]) {
        for (i, stamp) in out.iter_mut().enumerate() {
            *stamp = self.get(pba + i as u64).0;
        }
    }

    pub(super) fn write(&mut self, law: &Interference, geometry: &Geometry, pba: Pba, data: &[u64]) {
        let n = data.len() as u64;
        let by = data.first().map_or(Lba(0), |&stamp| Stamp(stamp).lba());
        let mut hits = Vec::new();
        law.destroyed(geometry, pba, n, |at, sectors| hits.push((at, sectors)));
        if let Interference::Distances { dpid, writes, .. } = *law {
            self.history.worn_upstream(pba, n, dpid, writes, &mut hits);
        }
        for (i, &stamp) in data.iter().enumerate() {
            *self.slot(pba + i as u64) = stamp;
        }
        self.written_sectors += n;
        for (at, sectors) in hits {
            for i in 0..sectors {
                self.destroy(at + i, by);
            }
        }
    }

    fn destroy(&mut self, pba: Pba, by: Lba) {
        let was = self.get(pba);
        if was.0 != 0 && !was.is_damaged() {
            if !was.is_record() {
                self.damages.push(Damage { pba, was, by });
            }
            *self.slot(pba) = DAMAGED | by.0;
        }
    }

    /// Keeps the words of a record that is about to be written at `pba`.
    pub(super) fn keep_record(&mut self, pba: Pba, words: &[u64]) {
        self.records.insert(pba.0, words.into());
    }

    /// The record in `sectors` sectors from `pba` on, if a whole one is there.
    pub(super) fn record(&self, pba: Pba, sectors: u64) -> Option<Vec<u64>> {
        let words = self.records.get(&pba.0)?;
        let stamp = Stamp::of_record(words);
        (0..sectors).all(|i| self.get(pba + i) == stamp).then(|| words.to_vec())
    }

    /// Labels the sectors from `pba` on, which have just been written.
    pub(super) fn label(&mut self, pba: Pba, labels: &[Label]) {
        for (i, &label) in labels.iter().enumerate() {
            let at = pba + i as u64;
            let stamp = self.get(at).0;
            self.labels.set(at, stamp, label);
        }
    }

    /// The labels of those of `n` sectors from `pba` on that still hold what was written with them.
    pub(super) fn labels(&self, pba: Pba, n: u64) -> Vec<(u64, Label)> {
        let labels = self.labels.within(pba, n);
        labels.filter(|&(i, stamp, _)| self.get(pba + i).0 == stamp).map(|(i, _, label)| (i, label)).collect()
    }

    /// The sectors destroyed since the last call.
    pub fn take_damages(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damages)
    }

    /// Whether any sector was destroyed since the last [`Stamps::take_damages`].
    pub fn has_damages(&self) -> bool {
        !self.damages.is_empty()
    }

    /// Sectors written so far, counted here for comparison with the tally.
    pub fn written_sectors(&self) -> u64 {
        self.written_sectors
    }
}

/// When each sector was last written, most recent first, as many times as the law of distances asks for.
#[derive(Default)]
struct History {
    order: u64,
    times: HashMap<u64, Vec<u64>>,
}

impl History {
    /// Notes an ascending write of `n` sectors at `pba`, and adds to `hits` the sectors upstream that it wore out:
    /// those x within `dpid` before a written sector k that had already been written `writes` times since x was.
    fn worn_upstream(&mut self, pba: Pba, n: u64, dpid: u64, writes: u32, hits: &mut Vec<(Pba, u64)>) {
        let earlier =
            |k: u64| self.times.get(&k).and_then(|times| times.get(writes as usize - 1)).copied().unwrap_or(0);
        // latest[i]: the latest such write among the first i + 1 sectors, which is what matters for an x that has
        // those within its reach. Sectors of this command itself are written in ascending order, so are newer.
        let mut latest: Vec<u64> = (0..n.min(dpid)).map(|i| earlier(pba.0 + i)).collect();
        for i in 1..latest.len() {
            latest[i] = latest[i].max(latest[i - 1]);
        }
        for back in 1..=dpid.min(pba.0) {
            let reach = (dpid - back + 1).min(latest.len() as u64);
            let x = pba.0 - back;
            let written = self.times.get(&x).and_then(|times| times.first()).copied().unwrap_or(0);
            if reach > 0 && written > 0 && latest[reach as usize - 1] > written {
                hits.push((Pba(x), 1));
            }
        }
        for k in pba.0..pba.0 + n {
            self.order += 1;
            let times = self.times.entry(k).or_default();
            times.insert(0, self.order);
            times.truncate(writes as usize);
        }
    }
}
