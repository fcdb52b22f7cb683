//! Caveat-Scriptor: write anywhere. What a write destroys is the host's problem, and is really destroyed.
//!
//! Kadekodi et al. 2015, section 3.2: DID granules downstream always; DPID granules upstream by the second write of a granule
//! since they were written themselves. The worst case of both is taken to happen every time.

use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{BandReport, HostManaged, Model, Platters, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::units::{Granule, HostJournal, Span};

/// Past writes, as far as a Caveat-Scriptor disk knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteHistory {
    /// No history is kept and nothing destroyed: the host is trusted, or a checker stands above. For mounted images.
    Untracked,
    /// A new disk.
    Blank,
    /// An old disk: everything may have been written once, each granule after those upstream of it.
    Unknown,
}

/// A Caveat-Scriptor disk over `platters`.
pub struct CaveatScriptor<P: ?Sized> {
    /// The platters beneath.
    pub platters: Arc<P>,
    shape: Shape,
    history: Option<Mutex<History>>,
}

impl<P: Platters + ?Sized> CaveatScriptor<P> {
    /// A disk with that past. Errors: a shape that no such disk has.
    pub fn new(platters: Arc<P>, shape: Shape, past: WriteHistory) -> Result<CaveatScriptor<P>, Error> {
        shape.check()?;
        if shape.model != Model::Caveat {
            return Err(Error::Impossible("a strict-append shape for a Caveat-Scriptor disk: choose one model".into()));
        }
        let history = (past != WriteHistory::Untracked)
            .then(|| Mutex::new(History::new(shape.granules, shape.did, shape.dpid, past == WriteHistory::Unknown)));
        Ok(CaveatScriptor { platters, shape, history })
    }

    /// Granules upstream that second writes have destroyed, readable or not; 0 without a history.
    pub fn upstream_hits(&self) -> u64 {
        self.history.as_ref().map_or(0, |history| history.lock().upstream_hits())
    }
}

impl<P: Platters + ?Sized> HostManaged for CaveatScriptor<P> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    /// As the trait says; `DeviceError::Damaged` where something of it has been destroyed, if a history is kept.
    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, room.bytes())?;
        if let Some(history) = &self.history
            && let Some((at, by)) = history.lock().first_damaged(span)
        {
            return Err(DeviceError::Damaged { at, by });
        }
        self.platters.read(at, room, cause)
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, data.bytes())?;
        let Some(history) = &self.history else { return self.platters.write(at, data, cause) };
        let mut history = history.lock();
        let written = self.platters.write(at, data, cause);
        let mut destroyed = Ok(());
        history.write(span, |damaged, by| {
            if destroyed.is_ok() {
                destroyed = self.platters.destroy(damaged, by);
            }
        });
        written.and(destroyed)
    }

    fn reset(&self, _band: u64) -> DeviceResult {
        Err(Violation::NoBands.into())
    }

    fn report(&self, _first: u64, _count: u64) -> DeviceResult<Vec<BandReport>> {
        Ok(Vec::new())
    }

    pass_on! { self => self.platters;
        fn expect(&self, span: Span);
        fn start_flush(&self);
        fn discard(&self, span: Span);
        fn reserve(&self, bytes: u64) -> DeviceResult;
        fn room_bytes(&self) -> DeviceResult<Option<u64>>;
        fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult;
        fn now(&self) -> Nanos;
        fn wait_until(&self, time: Nanos);
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

    /// Granules destroyed upstream so far.
    pub fn upstream_hits(&self) -> u64 {
        self.upstream_hits
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

/// The number of the last write command of each granule; 0 is never. Within one command a higher granule counts as later, so a
/// granule downstream of another is the newer of the two if their numbers are equal.
#[derive(Clone)]
pub struct WriteOrder {
    last: Vec<u32>,
    writes: u32,
}

impl WriteOrder {
    /// A disk of `granules`, never written.
    pub fn new(granules: u64) -> WriteOrder {
        WriteOrder { last: vec![0; granules as usize], writes: 0 }
    }

    /// When `at` was last written; 0 if never.
    #[inline]
    pub fn last_write(&self, at: u64) -> u32 {
        self.last[at as usize]
    }

    /// The numbers of the granules of `span`.
    #[inline]
    pub fn within(&self, from: u64, to: u64) -> &[u32] {
        &self.last[from as usize..to as usize]
    }

    /// The highest number in `from..to`; 0 if there is none.
    #[inline]
    pub fn newest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(0, |a, &b| a.max(b)) } else { 0 }
    }

    /// The lowest number in `from..to`; the highest there is if that is empty.
    #[inline]
    pub fn oldest(&self, from: u64, to: u64) -> u32 {
        if from < to { self.within(from, to).iter().fold(u32::MAX, |a, &b| a.min(b)) } else { u32::MAX }
    }

    /// One more write command: its number, higher than all before.
    pub fn next_number(&mut self) -> u32 {
        if self.writes == u32::MAX - 1 {
            self.renumber();
        }
        self.writes += 1;
        self.writes
    }

    /// `span` has been written by the command `number`.
    #[inline]
    pub fn put(&mut self, span: Span, number: u32) {
        self.last[span.at.0 as usize..span.end().0 as usize].fill(number);
    }

    /// Numbers the commands that are still the last of a granule anew from 1, in the same order.
    fn renumber(&mut self) {
        let mut numbers: Vec<u32> = self.last.iter().copied().filter(|&number| number > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in self.last.iter_mut().filter(|number| **number > 0) {
            *number = numbers.partition_point(|other| other < number) as u32 + 1;
        }
        self.writes = numbers.len() as u32;
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
                    assert_eq!(history.upstream_hits(), plain.upstream_hits);
                }
            }
        }
    }

    #[test]
    fn numbers_that_run_out_are_given_anew_in_the_same_order() {
        let mut order = WriteOrder::new(4);
        for (at, number) in [(0, 70_000), (2, 5), (3, 4_000_000_000)] {
            order.put(Span::new(at, 1), number);
        }
        order.writes = u32::MAX - 1;
        assert_eq!(order.next_number(), 4);
        assert_eq!(order.within(0, 4), [2, 0, 1, 3]);
        assert_eq!((order.newest(0, 3), order.oldest(2, 4), order.newest(1, 1)), (2, 1, 0));
    }
}
