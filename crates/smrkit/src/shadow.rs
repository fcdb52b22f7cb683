//! Check mode: what the host wrote last, sector by sector, against what it gets back.
//!
//! It stands apart from the layers that it checks. A damaged sector is found at the end of the request that damaged it,
//! not when somebody happens to read it.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::error::{DiskResult, Fault};
use crate::medium::{Buf, Damage, Stamp};
use crate::request::{Op, Request};
use crate::units::Lba;

/// Requests between two full checks of a layer's books.
const FULL_CHECK_EVERY: u64 = 1000;

const PAGE: u64 = 512;

/// What the host expects of each sector.
#[derive(Default)]
pub struct Shadow {
    /// The stamp of the last write to each LBA; 0 where the host owns nothing.
    pages: BTreeMap<u64, Box<[u64; PAGE as usize]>>,
    writes: u64,
    requests: u64,
    /// The write or discard that has not been answered.
    in_flight: Option<Request>,
}

/// What a power cut did to the host's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Sectors of the write in flight that are there, and all of them.
    pub in_flight: Option<(u64, u64)>,
    /// Acknowledged sectors that are gone, ascending.
    pub lost: Vec<Lba>,
    /// Those of them that were destroyed; the others show an older write.
    pub destroyed: u64,
}

impl Shadow {
    fn expected(&self, lba: Lba) -> Stamp {
        self.pages.get(&(lba.0 / PAGE)).map_or(Stamp(0), |page| Stamp(page[(lba.0 % PAGE) as usize]))
    }

    fn expect(&mut self, lba: Lba, stamp: Stamp) {
        let page = self.pages.entry(lba.0 / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
        page[(lba.0 % PAGE) as usize] = stamp.0;
    }

    /// Serves a request as the device does, and verifies it.
    pub fn serve(&mut self, request: &Request, serve: impl FnOnce(&mut Buf) -> DiskResult) -> DiskResult {
        let n = u64::from(request.sectors);
        let mut buf = match request.op {
            Op::Read => Buf::Stamps(vec![0; n as usize]),
            Op::Write => {
                self.writes += 1;
                Buf::Stamps((0..n).map(|i| Stamp::new(request.lba + i, self.writes).0).collect())
            }
            Op::Discard | Op::Flush => Buf::Stamps(Vec::new()),
        };
        self.in_flight = matches!(request.op, Op::Write | Op::Discard).then_some(*request);
        serve(&mut buf)?;
        self.in_flight = None;
        let Buf::Stamps(stamps) = &buf else { unreachable!("check mode holds stamps") };
        for (i, &stamp) in stamps.iter().enumerate() {
            let lba = request.lba + i as u64;
            match request.op {
                Op::Read => self.verify(lba, Stamp(stamp))?,
                Op::Write => self.expect(lba, Stamp(stamp)),
                Op::Discard | Op::Flush => unreachable!("they carry no data"),
            }
        }
        if request.op == Op::Discard {
            self.disown(request.lba, n);
        }
        Ok(())
    }

    /// The host no longer owns these sectors. A discard may span the whole disk: only pages that exist are touched.
    fn disown(&mut self, lba: Lba, n: u64) {
        let end = lba.0 + n;
        for (page, stamps) in self.pages.range_mut(lba.0 / PAGE..end.div_ceil(PAGE)) {
            let first = page * PAGE;
            let own = lba.0.max(first) - first..end.min(first + PAGE) - first;
            stamps[own.start as usize..own.end as usize].fill(0);
        }
    }

    fn verify(&self, lba: Lba, found: Stamp) -> DiskResult {
        let expected = self.expected(lba);
        if expected.0 == 0 || expected == found {
            return Ok(());
        }
        Err(Box::new(Fault::Stale { lba, found: found.version(), expected: expected.version() }))
    }

    /// Whether anything that the host still owns has been damaged, and now and then the layer's own books.
    pub fn after(&mut self, device: &mut impl Device) -> DiskResult {
        for damage in device.take_damages() {
            if self.expected(damage.was.lba()) == damage.was {
                let Damage { pba, was, by } = damage;
                return Err(Box::new(Fault::Damaged { lba: was.lba(), pba, by }));
            }
        }
        self.requests += 1;
        if self.requests.is_multiple_of(FULL_CHECK_EVERY) {
            device.check()?;
        }
        Ok(())
    }

    /// After a power cut and recovery: what is still there. The host owns what it finds of its write in flight, and no
    /// longer what was lost.
    pub fn audit(&mut self, device: &mut impl Device) -> Loss {
        let mut loss = Loss::default();
        match self.in_flight.take() {
            Some(request) if request.op == Op::Discard => self.disown(request.lba, u64::from(request.sectors)),
            Some(request) => loss.in_flight = Some((self.take_over(&request, device), u64::from(request.sectors))),
            None => {}
        }
        for (page, stamps) in &mut self.pages {
            for (lba, expected) in (page * PAGE..).map(Lba).zip(stamps.iter_mut()) {
                let found = if *expected == 0 { Stamp(0) } else { device.peek(lba) };
                if found.0 != *expected {
                    *expected = 0;
                    loss.destroyed += u64::from(found.is_damaged());
                    loss.lost.push(lba);
                }
            }
        }
        device.take_damages();
        loss
    }

    /// Expects those sectors of the write in flight that are on the disk; returns how many.
    fn take_over(&mut self, request: &Request, device: &mut impl Device) -> u64 {
        let extent = (0..u64::from(request.sectors)).map(|i| request.lba + i);
        let there: Vec<Lba> = extent.filter(|&lba| device.peek(lba) == Stamp::new(lba, self.writes)).collect();
        for &lba in &there {
            self.expect(lba, Stamp::new(lba, self.writes));
        }
        there.len() as u64
    }

    /// At the end: everything that the host owns is read back, and the layer's books are checked in full.
    pub fn finish(&mut self, device: &mut impl Device) -> DiskResult {
        device.check()?;
        let pages: Vec<u64> = self.pages.keys().copied().collect();
        for page in pages {
            let first = Lba(page * PAGE);
            let n = PAGE.min(device.host_sectors() - first.0);
            let mut buf = Buf::Stamps(vec![0; n as usize]);
            device.serve(&Request::new(Op::Read, first, n as u32), &mut buf)?;
            let Buf::Stamps(stamps) = &buf else { unreachable!("check mode holds stamps") };
            for (i, &stamp) in stamps.iter().enumerate() {
                self.verify(first + i as u64, Stamp(stamp))?;
            }
        }
        Ok(())
    }
}
