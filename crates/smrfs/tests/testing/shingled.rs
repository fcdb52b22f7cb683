//! A Caveat-Scriptor disk that destroys what shingling destroys.
//!
//! The worst case of both distances is taken to happen every time.

use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;

use crate::data::{Data, ReadBuffer};
use crate::device::caveat::CaveatScriptor;
use crate::device::modelled::Modelled;
use crate::device::{HostManaged, Platters, Shape, stacked};
use crate::error::{DeviceError, DeviceResult};
use crate::safety::WriteOrder;
use crate::units::{Granule, Span};

/// Platters that can lose what lies on them.
pub trait Destructible: Platters {
    /// The write of `by`, just made, has destroyed what lies in `span`.
    fn destroy(&self, span: Span, by: Granule) -> DeviceResult;
}

/// The history of the disk above remembers what is lost.
impl Destructible for Modelled {
    fn destroy(&self, _span: Span, _by: Granule) -> DeviceResult {
        Ok(())
    }
}

/// Past writes, as far as the disk knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteHistory {
    /// A new disk.
    Blank,
    /// An old disk: everything may have been written once, each granule after those upstream of it.
    Unknown,
}

/// A Caveat-Scriptor disk that keeps its history, and loses what a write destroys.
pub struct Shingled<P: ?Sized> {
    /// The platters beneath.
    pub platters: Arc<P>,
    disk: CaveatScriptor<P>,
    history: Mutex<History>,
}

impl<P: Destructible + ?Sized> Shingled<P> {
    /// A disk with that past. Errors: a shape that no such disk has.
    pub fn new(platters: Arc<P>, shape: Shape, past: WriteHistory) -> Result<Shingled<P>, Error> {
        let disk = CaveatScriptor::new(platters.clone(), shape)?;
        let history = History::new(shape.granules, shape.did, shape.dpid, past == WriteHistory::Unknown);
        Ok(Shingled { platters, disk, history: Mutex::new(history) })
    }

    /// Granules upstream that second writes have destroyed, readable or not.
    pub fn upstream_hits(&self) -> u64 {
        self.history.lock().upstream_hits
    }
}

impl<P: Destructible + ?Sized> stacked::Stacked for Shingled<P> {
    type Below = CaveatScriptor<P>;

    fn below(&self) -> &CaveatScriptor<P> {
        &self.disk
    }

    /// `DeviceError::Damaged` where something of it has been destroyed.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let span = self.disk.shape().span(at, room.bytes())?;
        if let Some((at, by)) = self.history.lock().first_damaged(span) {
            return Err(DeviceError::Damaged { at, by });
        }
        self.disk.read(at, room, cause)
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.disk.shape().span(at, data.bytes())?;
        // Held over the write: the history has the writes in the order of the platters.
        let mut history = self.history.lock();
        let written = self.disk.write(at, data, cause);
        let mut destroyed = Ok(());
        history.write(span, |damaged, by| {
            if destroyed.is_ok() {
                destroyed = self.platters.destroy(damaged, by);
            }
        });
        written.and(destroyed)
    }
}

/// The write history of a disk, granule by granule.
pub struct History {
    did: u64,
    dpid: u64,
    order: WriteOrder,
    /// Distance from each damaged granule to the granule written that damaged it; 0 if intact.
    damaged: Vec<i32>,
    upstream_hits: u64,
}

impl History {
    /// The history of a new disk; if `unknown`, of one that may have been written anywhere in ascending order.
    pub fn new(granules: u64, did: u64, dpid: u64, unknown: bool) -> History {
        let mut order = WriteOrder::new(granules);
        if unknown {
            let number = order.next_number();
            order.put(Span::new(0, granules), number);
        }
        History { did, dpid, order, damaged: vec![0; granules as usize], upstream_hits: 0 }
    }

    /// The first damaged granule of `span`, and the granule written that damaged it.
    pub fn first_damaged(&self, span: Span) -> Option<(Granule, Granule)> {
        let damaged = &self.damaged[span.at.0 as usize..span.end().0 as usize];
        let (i, &by) = damaged.iter().enumerate().find(|(_, by)| **by != 0)?;
        let at = span.at + i as u64;
        Some((at, Granule(at.0.wrapping_add_signed(i64::from(by)))))
    }

    /// `span` is written in ascending order; tells `hit` what that destroys outside, and by the write of which granule.
    pub fn write(&mut self, span: Span, mut hit: impl FnMut(Span, Granule)) {
        self.write_upstream(span, &mut hit);
        let number = self.order.next_number();
        self.order.put(span, number);
        self.damaged[span.at.0 as usize..span.end().0 as usize].fill(0);
        self.destroy_downstream(span.end().0, &mut hit);
    }

    /// Destroys what was written within DID from `end` on, where a write ended.
    fn destroy_downstream(&mut self, end: u64, hit: &mut impl FnMut(Span, Granule)) {
        let (to, by) = (end.saturating_add(self.did).min(self.damaged.len() as u64), Granule(end - 1));
        let mut first = end;
        for x in end..to {
            if !self.destroy(x, by) {
                if first < x {
                    hit(Span::new(first, x - first), by);
                }
                first = x + 1;
            }
        }
        if first < to {
            hit(Span::new(first, to - first), by);
        }
    }

    /// Destroys upstream of `span` what was written before an earlier write within its reach.
    fn write_upstream(&mut self, span: Span, hit: &mut impl FnMut(Span, Granule)) {
        let (start, end) = (span.at.0, span.end().0);
        if self.order.newest(start, end.min(start.saturating_add(self.dpid))) == 0 {
            return;
        }
        let (mut newest, mut by, mut next) = (0, start, start);
        for x in start.saturating_sub(self.dpid)..start {
            let reach = end.min(x.saturating_add(self.dpid).saturating_add(1));
            while next < reach {
                if self.order.last_write(next) > newest {
                    (newest, by) = (self.order.last_write(next), next);
                }
                next += 1;
            }
            if newest >= self.order.last_write(x) && self.destroy(x, Granule(by)) {
                self.upstream_hits += 1;
                hit(Span::new(x, 1), Granule(by));
            }
        }
    }

    /// Marks `x` as damaged by the write of `by`; tells whether there was anything to be lost.
    fn destroy(&mut self, x: u64, by: Granule) -> bool {
        let whole = self.order.last_write(x) > 0 && self.damaged[x as usize] == 0;
        if whole {
            self.damaged[x as usize] = (by.0 as i64 - x as i64) as i32;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downstream_losses_are_told_once() {
        let mut history = History::new(20, 4, 0, false);
        let mut hits = Vec::new();
        let mut write = |at, count| {
            hits.clear();
            history.write(Span::new(at, count), |span, by| hits.push((span, by)));
            hits.clone()
        };
        assert!(write(3, 1).is_empty() && write(6, 1).is_empty());
        // 3 and 6 hold data; 4 and 5 never did.
        assert_eq!(write(1, 1), [(Span::new(3, 1), Granule(1))]);
        assert_eq!(write(2, 1), [(Span::new(6, 1), Granule(2))]);
        assert_eq!(write(1, 1), [(Span::new(2, 1), Granule(1))]);
    }

    /// Losses by a write, worked out for each granule by itself.
    struct Plain {
        last: Vec<u32>,
        damaged: Vec<Option<u64>>,
        did: u64,
        dpid: u64,
        upstream_hits: u64,
    }

    impl Plain {
        fn write(&mut self, span: Span, number: u32) -> Vec<(u64, u64)> {
            let (start, end, size) = (span.at.0, span.end().0, self.last.len() as u64);
            let before = self.last.clone();
            let last = |at: u64| before[at as usize];
            let mut hits = Vec::new();
            for x in start.saturating_sub(self.dpid)..start {
                // The first of those granules within reach that were written last.
                let reach = (start..end).filter(|y| y - x <= self.dpid && last(*y) > 0);
                let by =
                    reach.fold(None, |best, y| if best.is_some_and(|b| last(b) >= last(y)) { best } else { Some(y) });
                let is_second = by.is_some_and(|by| last(by) >= last(x));
                if last(x) > 0 && is_second && self.damaged[x as usize].is_none() {
                    self.damaged[x as usize] = by;
                    self.upstream_hits += 1;
                    hits.push((x, by.unwrap()));
                }
            }
            self.last[start as usize..end as usize].fill(number);
            self.damaged[start as usize..end as usize].fill(None);
            for x in end..(end + self.did).min(size) {
                if last(x) > 0 && self.damaged[x as usize].is_none() {
                    self.damaged[x as usize] = Some(end - 1);
                    hits.push((x, end - 1));
                }
            }
            hits
        }
    }

    #[test]
    fn losses_are_those_of_each_granule_by_itself() {
        use rand::{RngExt, SeedableRng};
        const SIZE: u64 = 40;
        let dice = &mut rand_pcg::Pcg64Mcg::seed_from_u64(8);
        for (did, dpid) in [(3, 2), (0, 4), (4, 0), (1, 1), (50, 60)] {
            for unknown in [false, true] {
                let mut history = History::new(SIZE, did, dpid, unknown);
                let last = vec![u32::from(unknown); SIZE as usize];
                let mut plain = Plain { last, damaged: vec![None; SIZE as usize], did, dpid, upstream_hits: 0 };
                for number in 2..120 {
                    let at = dice.random_range(0..SIZE);
                    let span = Span::new(at, dice.random_range(1..8).min(SIZE - at));
                    let mut hits = Vec::new();
                    history.write(span, |hit, by| hits.extend((hit.at.0..hit.end().0).map(|at| (at, by.0))));
                    assert_eq!(hits, plain.write(span, number), "write {number} of {span}, {did} and {dpid}");
                    for from in 0..SIZE {
                        let damaged =
                            (from..SIZE).find_map(|at| Some((Granule(at), Granule(plain.damaged[at as usize]?))));
                        assert_eq!(history.first_damaged(Span::new(from, SIZE - from)), damaged);
                    }
                    assert_eq!(history.upstream_hits, plain.upstream_hits);
                }
            }
        }
    }
}
