//! Check mode: compares what the host reads with what it wrote last, sector by sector.
//!
//! It stands apart from the layers and arrays that it checks. On a drive, where requests are served one after another, it also
//! looks at the platters: a damaged sector is found at the end of the request that damaged it, not when somebody happens to
//! read it. An array serves several requests at a time; a read there must find what was written before it was sent, since
//! requests for the same sectors keep their order.

use super::LayeredDisk;
use super::queue::Dispatched;
use super::write_cache::WriteCache;
use crate::error::{DiskResult, Fault};
use crate::medium::{Buf, Damage, Stamp};
use crate::pages::{LbaSet, Pages};
use crate::request::{Op, Request};
use crate::stats::outcome::{InFlight, PowerCut};
use crate::units::{Lba, Nanos};

/// Requests between two full checks of a layer's internal state.
const FULL_CHECK_EVERY: u64 = 1000;

/// Contents that the host expects of each sector.
#[derive(Default)]
pub struct Shadow {
    /// The stamp of the last write to each LBA; 0 where the host has written nothing, or discarded it.
    pages: Pages,
    writes: u64,
    /// Requests served.
    requests: u64,
    /// The writes or the discard in flight, and the number of each.
    in_flight: Vec<(Request, u64)>,
    /// Sectors that a power cut may lose: acknowledged from a volatile cache since the last flush.
    unflushed: LbaSet,
}

impl Shadow {
    /// Expects that every LBA was written once before the first request.
    pub fn fill(&mut self) {
        self.pages = Pages::beginning_with(Box::new(|first, out| {
            (first..).zip(out).for_each(|(lba, word)| *word = Stamp::first(Lba(lba)).0);
        }));
    }

    /// Notes a request to an array, which is sent while others are in flight; returns the stamps that a write writes, or that a read must
    /// find.
    pub fn send(&mut self, request: &Request) -> Vec<u64> {
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => return self.pages.words(request.lba.0, sectors),
            Op::Write => {
                let stamps = self.next_stamps(request);
                self.pages.put(request.lba.0, &stamps);
                return stamps;
            }
            Op::Discard => self.disown(request.lba, sectors),
            Op::Flush => {}
        }
        Vec::new()
    }

    /// Compares the stamps that a request of `send` has found with those that it must find.
    pub fn verify_sent(request: &Request, expected: &[u64], found: &Buf) -> DiskResult {
        if request.op != Op::Read {
            return Ok(());
        }
        let found = if let Buf::Stamps(found) = found { &found[..] } else { &[] };
        if found.len() != expected.len() {
            let message = format!("a read of {} sectors from {} found {}", expected.len(), request.lba, found.len());
            return Err(Box::new(Fault::Inconsistent(message)));
        }
        compare(request.lba, expected, found)
    }

    /// Reads of the extents in which the host may own sectors, in order: on a large disk that began full only those near later writes.
    pub fn owned(&self, capacity: u64) -> impl Iterator<Item = Request> {
        let read_of = |extent: std::ops::Range<u64>| {
            Request::new(Op::Read, Lba(extent.start), (extent.end - extent.start) as u32)
        };
        self.pages.extents(capacity).into_iter().map(read_of)
    }

    fn next_stamps(&mut self, request: &Request) -> Vec<u64> {
        self.writes += 1;
        (0..u64::from(request.sectors)).map(|i| Stamp::new(request.lba + i, self.writes).0).collect()
    }

    /// Calls `serve` with the stamps of a request that a drive serves alone, and verifies those that it read.
    pub fn serve(&mut self, request: &Request, serve: impl FnOnce(&mut Buf) -> DiskResult) -> DiskResult {
        let mut buf = match request.op {
            Op::Read => Buf::Stamps(vec![0; request.sectors as usize]),
            Op::Write => Buf::Stamps(self.next_stamps(request)),
            Op::Discard | Op::Flush => Buf::Stamps(Vec::new()),
        };
        // Noted before it is served, because a power cut may interrupt it.
        if matches!(request.op, Op::Write | Op::Discard) {
            self.in_flight.push((*request, self.writes));
        }
        serve(&mut buf)?;
        self.in_flight.clear();
        let Buf::Stamps(stamps) = &buf else { unreachable!("check mode holds stamps") };
        match request.op {
            Op::Read => self.verify(request.lba, stamps)?,
            Op::Write => self.pages.put(request.lba.0, stamps),
            Op::Discard => self.disown(request.lba, request.sectors.into()),
            Op::Flush => self.unflushed = LbaSet::default(),
        }
        Ok(())
    }

    /// Notes a write that was acknowledged, and that a power cut may lose until it is flushed.
    pub fn may_lose(&mut self, request: &Request) {
        self.unflushed.insert(request.lba, u64::from(request.sectors));
    }

    /// Serves queued writes together, in this order.
    pub fn serve_together(
        &mut self,
        requests: &[&Request],
        serve: impl FnOnce(&[(&Request, &Buf)]) -> DiskResult,
    ) -> DiskResult {
        let mut all = Vec::new();
        for &request in requests {
            all.push(self.next_stamps(request));
            self.in_flight.push((*request, self.writes));
        }
        let bufs: Vec<Buf> = all.iter().cloned().map(Buf::Stamps).collect();
        serve(&requests.iter().copied().zip(&bufs).collect::<Vec<_>>())?;
        self.in_flight.clear();
        requests.iter().zip(&all).for_each(|(request, stamps)| self.pages.put(request.lba.0, stamps));
        // `after` counts the last of them, as it does for a single request.
        self.requests += requests.len() as u64 - 1;
        Ok(())
    }

    /// The host no longer owns these sectors.
    fn disown(&mut self, lba: Lba, n: u64) {
        self.pages.clear(lba.0..lba.0 + n);
    }

    /// Checks that these stamps, found from `first` on, are those of the last writes.
    fn verify(&self, first: Lba, found: &[u64]) -> DiskResult {
        compare(first, &self.pages.words(first.0, found.len() as u64), found)
    }

    /// Checks after a request that nothing is damaged and, now and then, the layer's internal state.
    pub fn after(&mut self, device: &mut LayeredDisk) -> DiskResult {
        self.look_for_damage(device)?;
        self.requests += 1;
        if self.requests.is_multiple_of(FULL_CHECK_EVERY) {
            device.check()?;
        }
        Ok(())
    }

    /// Checks that nothing is damaged that the host still owns.
    pub fn look_for_damage(&mut self, device: &mut LayeredDisk) -> DiskResult {
        for damage in device.take_damages() {
            if self.pages.get(damage.was.lba().0) == damage.was.0 {
                let Damage { pba, was, by } = damage;
                return Err(Box::new(Fault::Damaged { lba: was.lba(), pba, by }));
            }
        }
        Ok(())
    }

    /// Finds out after a power cut and recovery what was lost. From then on the host owns the sectors of its write in flight that reached
    /// the platters, and no longer those that were lost. Also returns the first lost sector that should have survived: flushed, or
    /// acknowledged without a volatile cache.
    pub fn audit(&mut self, device: &mut LayeredDisk) -> (PowerCut, Option<Lba>) {
        // Sectors of the writes in flight that reached the platters, and all of theirs.
        let mut in_flight = None;
        for (request, number) in std::mem::take(&mut self.in_flight) {
            // The layer may have discarded all of it, a part, or nothing: the host can rely on no content.
            if request.op == Op::Discard {
                self.disown(request.lba, u64::from(request.sectors));
                continue;
            }
            let (written, all) = in_flight.unwrap_or_default();
            let found = self.adopt_written(&request, number, device);
            in_flight = Some((written + found, all + u64::from(request.sectors)));
        }
        let (mut gone, mut destroyed_sectors): (Vec<Lba>, u64) = (Vec::new(), 0);
        let extents = self.pages.extents(device.host_sectors);
        let mut look = device.look();
        for range in extents {
            for (lba, expected) in (range.start..).map(Lba).zip(self.pages.words(range.start, range.end - range.start))
            {
                // 0 stands for a sector that the host does not own, whatever is on the platters.
                let found = if expected == 0 { Stamp(0) } else { look(lba) };
                if found.0 != expected {
                    destroyed_sectors += u64::from(found.is_damaged());
                    gone.push(lba);
                }
            }
        }
        drop(look);
        // Before `unflushed` is cleared below: it says which sectors the cut was allowed to take.
        let durable_lost = gone.iter().copied().find(|&lba| !self.unflushed.contains(lba));
        gone.iter().for_each(|&lba| self.disown(lba, 1));
        self.unflushed = LbaSet::default();
        // Damage of the cut is counted above: the next read must not report it again.
        device.take_damages();
        let (lost_sectors, lost) = (gone.len() as u64, lost_extents(&gone));
        let in_flight = fate(in_flight);
        (PowerCut { in_flight, lost_sectors, destroyed_sectors, lost, ..PowerCut::default() }, durable_lost)
    }

    /// Adopts the sectors of write `number`, which was in flight, as the host's where they, or those of a later write, are on the disk;
    /// returns how many.
    fn adopt_written(&mut self, request: &Request, number: u64, device: &mut LayeredDisk) -> u64 {
        let (mut adopted, mut look) = (0, device.look());
        for lba in (0..u64::from(request.sectors)).map(|i| request.lba + i) {
            let found = look(lba);
            if (number..=self.writes).any(|write| found == Stamp::new(lba, write)) {
                self.pages.put(lba.0, &[found.0]);
                adopted += 1;
            }
        }
        adopted
    }

    /// Checks the layer's internal state in full at the end of a run, and reads back what the host owns ([`Shadow::owned`]).
    pub fn finish(&mut self, device: &mut LayeredDisk) -> DiskResult {
        device.check()?;
        for request in self.owned(device.host_sectors) {
            let mut buf = Buf::Stamps(vec![0; request.sectors as usize]);
            device.serve(&request, &mut buf)?;
            let Buf::Stamps(stamps) = &buf else { unreachable!("check mode holds stamps") };
            self.verify(request.lba, stamps)?;
        }
        Ok(())
    }
}

/// Checks that the stamps found from `first` on are those expected; 0 is expected where the host owns nothing.
fn compare(first: Lba, expected: &[u64], found: &[u64]) -> DiskResult {
    let wrong = expected.iter().zip(found).position(|(expected, found)| *expected != 0 && expected != found);
    let Some(at) = wrong else { return Ok(()) };
    let version = |stamps: &[u64]| Stamp(stamps[at]).version();
    Err(Box::new(Fault::Stale { lba: first + at as u64, found: version(found), expected: version(expected) }))
}

/// Contents that a drive is verified against in check mode.
#[derive(Default)]
pub(super) struct DriveCheck {
    pub shadow: Shadow,
    /// Contents of the member of an array; unused on a single drive, whose shadow knows them.
    pub contents: Pages,
    /// The power cuts so far.
    pub power_cuts: Vec<PowerCut>,
}

impl DriveCheck {
    /// Serves writes together, and verifies them.
    pub fn serve_together(&mut self, device: &mut LayeredDisk, writes: &[Dispatched]) -> DiskResult {
        let requests: Vec<&Request> = writes.iter().map(|write| &write.command.request).collect();
        self.shadow.serve_together(&requests, |stamped| device.serve_together(stamped))?;
        self.shadow.after(device)?;
        writes.iter().for_each(|write| self.put(&write.command.request, &write.command.data));
        Ok(())
    }

    /// Serves a request with its `data`, and verifies it. A read fills `data` from the platters, then overlays the sectors that `cache`
    /// holds.
    pub fn serve(
        &mut self,
        device: &mut LayeredDisk,
        cache: Option<&WriteCache>,
        request: &Request,
        data: &mut Buf,
    ) -> DiskResult {
        if cache.is_some() && request.op == Op::Write {
            // A power cut may tear this write and lose the data that it replaces, as if that had not been flushed: the layer can't tell it
            // from a write-back of the cache, whose loss is allowed.
            self.shadow.may_lose(request);
        }
        self.shadow.serve(request, |buf| {
            device.serve(request, buf)?;
            if let Some(cache) = cache.filter(|_| request.op == Op::Read) {
                cache.overlay(request.lba, u64::from(request.sectors), buf);
            }
            Ok(())
        })?;
        self.served(device, request, data)
    }

    /// Serves a request from `cache`, which has room for a write, or holds all sectors of a read.
    pub fn serve_from_cache(
        &mut self,
        device: &mut LayeredDisk,
        cache: &mut WriteCache,
        request: &Request,
        data: &mut Buf,
        now: Nanos,
    ) -> DiskResult {
        self.shadow.serve(request, |buf| {
            match request.op {
                Op::Write => cache.put(device, request, buf, now),
                _ => cache.overlay(request.lba, u64::from(request.sectors), buf),
            }
            Ok(())
        })?;
        if request.op == Op::Write {
            self.shadow.may_lose(request);
        }
        self.served(device, request, data)
    }

    /// Verifies a request on a member of an array, and keeps the stamps that it wrote, or returns those that it read.
    fn served(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => *data = Buf::Stamps(self.contents.words(request.lba.0, sectors)),
            Op::Write => self.put(request, data),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(())
    }

    /// Notes a power cut at physical write number `write`, after which the device has lost what is volatile: compares what the host finds
    /// with what it was promised. Requests under way may then be tried again.
    #[cold]
    pub fn power_cut(&mut self, device: &mut LayeredDisk, write: u64) -> DiskResult {
        let (found, durable_lost) = self.shadow.audit(device);
        let sectors = found.lost_sectors;
        self.power_cuts.push(PowerCut { write, completed: self.shadow.requests, ..found });
        match durable_lost {
            Some(lba) if device.layer.keeps_acknowledged() => Err(Box::new(Fault::Lost { write, lba, sectors })),
            _ => Ok(()),
        }
    }

    fn put(&mut self, request: &Request, data: &Buf) {
        if let Buf::Stamps(stamps) = data {
            self.contents.put(request.lba.0, stamps);
        }
    }
}

/// Lost extents that a result names.
const LOST_SHOWN: usize = 100;

/// What became of the write in flight, by the number of its sectors that reached the platters and the number of all.
fn fate(in_flight: Option<(u64, u64)>) -> InFlight {
    match in_flight {
        None => InFlight::None,
        Some((0, _)) => InFlight::Absent,
        Some((written, all)) if written == all => InFlight::Whole,
        Some(_) => InFlight::Part,
    }
}

/// The first extents of lost sectors, which ascend: (LBA, sectors).
fn lost_extents(gone: &[Lba]) -> Vec<(u64, u64)> {
    let runs = gone.chunk_by(|one, next| *one + 1 == *next);
    runs.take(LOST_SHOWN).map(|run| (run[0].0, run.len() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_data_is_told_by_the_numbers_of_the_writes() {
        let stamps = |version| [Stamp::new(Lba(5), version).0];
        for (expected, found) in [(3, 2), (1, 0)] {
            let fault = compare(Lba(5), &stamps(expected), &stamps(found)).unwrap_err();
            let text = format!("a read of LBA 5 returned write {found}, but the last write to it was {expected}");
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn a_loss_is_described_by_extents_and_what_became_of_the_write() {
        assert_eq!(fate(None), InFlight::None);
        let states = [(0, 8), (7, 8), (8, 8)].map(|parts| fate(Some(parts)));
        assert_eq!(states, [InFlight::Absent, InFlight::Part, InFlight::Whole]);
        let lost = |lbas: &[u64]| lost_extents(&lbas.iter().copied().map(Lba).collect::<Vec<_>>());
        assert_eq!(lost(&[]), []);
        assert_eq!(lost(&[3, 4, 5, 7, 9, 10]), [(3, 3), (7, 1), (9, 2)]);
        let scattered: Vec<u64> = (0..2 * LOST_SHOWN as u64).map(|i| 2 * i).collect();
        assert_eq!(lost(&scattered).len(), LOST_SHOWN);
    }
}
