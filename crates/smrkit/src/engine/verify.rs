//! Check mode at the end of a run: everything is looked at once more.

use super::Engine;
use crate::device::Array;
use crate::error::{DiskResult, Error};
use crate::request::Request;

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
        let owned: Vec<Request> =
            self.shadow.iter().flat_map(|shadow| shadow.owned(self.member.host_sectors())).collect();
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
