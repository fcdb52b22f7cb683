//! Check mode of an array: what requests must find and, at the end of a run, a check of everything.

use super::Engine;
use crate::device::{Array, Shadow};
use crate::error::{DiskResult, Error};
use crate::medium::Buf;
use crate::request::{Op, Request};
use crate::units::Nanos;

/// Contents that the host expects of an array, in check mode. A drive has a shadow of its own.
pub(super) struct ArrayCheck {
    shadow: Option<Shadow>,
    /// Stamps that the request noted last writes or must find.
    pub expected: Vec<u64>,
    /// Contents of the request noted last.
    pub data: Buf,
}

impl ArrayCheck {
    pub fn new(is_on: bool) -> ArrayCheck {
        ArrayCheck { shadow: is_on.then(Shadow::default), expected: Vec::new(), data: Buf::NoData }
    }

    /// Expects that every LBA was written once before the first request.
    pub fn fill(&mut self) {
        self.shadow.iter_mut().for_each(Shadow::fill);
    }

    /// Notes the next request, and computes the stamps that it writes or must find.
    #[inline(always)]
    pub fn note(&mut self, request: &Request) {
        if let Some(shadow) = &mut self.shadow {
            self.expected = shadow.send(request);
            self.data = if request.op == Op::Write { Buf::Stamps(self.expected.clone()) } else { Buf::NoData };
        }
    }

    /// Verifies the request that was noted last, and has been served.
    #[inline(always)]
    pub fn verify_served(&mut self, request: &Request) -> DiskResult {
        self.verify(request, &self.expected, &self.data)?;
        // A single drive, which verifies itself, has filled in the stamps that it read. Without a shadow, `note` does not replace them.
        if !matches!(self.data, Buf::NoData) {
            self.data = Buf::NoData;
        }
        Ok(())
    }

    /// Compares what a request has found with what it must find.
    #[inline]
    pub fn verify(&self, request: &Request, expected: &[u64], data: &Buf) -> DiskResult {
        if self.shadow.is_some() { Shadow::verify_sent(request, expected, data) } else { Ok(()) }
    }
}

impl Engine<'_> {
    /// Ends a run in check mode: reads back everything that the host owns, compares parity with data, and checks the drives' internal state
    /// in full.
    pub fn finish(&mut self) -> Result<(), Error> {
        if !self.settings.check {
            return Ok(());
        }
        let mut completions = Vec::new();
        while self.step(&mut completions)? {}
        self.verify_uncounted(&completions)?;
        let host_sectors = self.device.host_sectors();
        let owned: Vec<Request> = self.check.shadow.iter().flat_map(|shadow| shadow.owned(host_sectors)).collect();
        owned.iter().try_for_each(|request| self.serve_uncounted(request))?;
        self.scrub_all()?;
        Ok(self.device.finish()?)
    }

    /// Compares copies and parity with data, where there are any.
    fn scrub_all(&mut self) -> DiskResult {
        let mut parts = Vec::new();
        if let Some(array) = self.device.array_mut() {
            // Parts of a rebuild that were done and not collected must not be taken for those read here.
            while array.take_done().is_some() {}
            if array.layout.is_redundant() {
                parts = array.written_parts();
            }
        }
        let mut completions = Vec::new();
        for (at, sectors) in parts {
            let now = self.now;
            self.device.array_mut().map_or(Ok(()), |array| array.scrub(at, sectors, now))?;
            while self.device.array_mut().and_then(Array::take_done).is_none() && self.step(&mut completions)? {}
        }
        Ok(())
    }
}

/// A request that has not been completed.
pub(super) struct Sent {
    pub request: Request,
    /// Its row in its source, if rows are wanted.
    pub row: u64,
    pub arrival: Nanos,
    /// Stamps that a read must find, in check mode.
    pub expected: Vec<u64>,
}
