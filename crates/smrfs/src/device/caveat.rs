//! Caveat-Scriptor: write anywhere. What a write destroys is the host's problem, and is really destroyed.
//!
//! Kadekodi et al. 2015, section 3.2: DID granules downstream always; DPID granules upstream by the second write of a granule
//! since they were written themselves. The worst case of both is taken to happen every time.

use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::history::History;
use super::platters::Platters;
use super::{BandReport, HostManaged, Model, Shape};
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
    platters: Arc<P>,
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

    /// The platters beneath.
    pub fn platters(&self) -> &Arc<P> {
        &self.platters
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
