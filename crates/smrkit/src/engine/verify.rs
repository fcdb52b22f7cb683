//! Check mode: what an array's requests must find, and at the end of a run everything once more.

use super::Engine;
use crate::device::{Array, SectorWords, Shadow};
use crate::error::{DiskResult, Error};
use crate::medium::Buf;
use crate::request::{Op, Request};

/// Contents that the host expects of an array, in check mode. A drive has a shadow of its own.
pub(super) struct ArrayCheck {
    shadow: Option<Shadow>,
    /// Stamps that the next request writes or must find.
    expected: SectorWords,
}

impl ArrayCheck {
    pub fn new(is_on: bool) -> ArrayCheck {
        ArrayCheck { shadow: is_on.then(Shadow::default), expected: SectorWords::new() }
    }

    /// Expects that every LBA was written once before all else.
    pub fn fill(&mut self) {
        self.shadow.iter_mut().for_each(Shadow::fill);
    }

    /// Takes note of what the next request is to write, or must find.
    #[inline]
    pub fn note(&mut self, request: &Request) {
        if let Some(shadow) = &mut self.shadow {
            self.expected = shadow.send(request);
        }
    }

    /// The contents that the request carries that was noted last.
    #[inline(always)]
    pub fn data(&self, request: &Request) -> Buf {
        match self.shadow.is_some() && request.op == Op::Write {
            true => Buf::Stamps(self.expected.clone()),
            false => Buf::NoData,
        }
    }

    /// Stamps of the request that was noted last.
    #[inline]
    pub fn take_expected(&mut self) -> SectorWords {
        std::mem::take(&mut self.expected)
    }

    /// Verifies the request that was noted last, and has been served.
    #[inline]
    pub fn verify_served(&self, request: &Request, data: &Buf) -> DiskResult {
        self.verify(request, &self.expected, data)
    }

    /// Compares what a request has found with what it must find.
    #[inline]
    pub fn verify(&self, request: &Request, expected: &[u64], data: &Buf) -> DiskResult {
        if self.shadow.is_some() { Shadow::verify_sent(request, expected, data) } else { Ok(()) }
    }

    /// Reads of all that the host owns.
    fn reads(&self, host_sectors: u64) -> Vec<Request> {
        self.shadow.iter().flat_map(|shadow| shadow.owned(host_sectors)).collect()
    }
}

impl Engine<'_> {
    /// In check mode, at the end: everything that the host owns is read back, parity is compared with data, and the drives'
    /// books are checked in full.
    pub fn finish(&mut self) -> Result<(), Error> {
        if !self.settings.check {
            return Ok(());
        }
        let mut completions = Vec::new();
        while self.step(&mut completions)? {}
        self.settle(&completions)?;
        let owned = self.check.reads(self.member.host_sectors());
        owned.iter().try_for_each(|request| self.serve_uncounted(request))?;
        self.scrub_all()?;
        Ok(self.member.finish()?)
    }

    /// Compares copies and parity with data, where there are any.
    fn scrub_all(&mut self) -> DiskResult {
        let Some(array) = self.member.array_mut() else { return Ok(()) };
        while array.take_done().is_some() {}
        if array.layout().copies() == 1 && array.layout().parities() == 0 {
            return Ok(());
        }
        let mut completions = Vec::new();
        for (at, sectors) in array.written_parts() {
            let now = self.now;
            self.member.array_mut().map_or(Ok(()), |array| array.scrub(at, sectors, now))?;
            while self.member.array_mut().and_then(Array::take_done).is_none() && self.step(&mut completions)? {}
        }
        Ok(())
    }
}
