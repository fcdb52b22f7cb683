//! Caveat-Scriptor: the host may write anywhere, and has to avoid destroying data.
//!
//! Kadekodi et al. 2015, section 3.2: a write destroys DID granules downstream, and the second write of a granule destroys DPID granules
//! upstream that were not written since. The disk trusts its host: a checker ([`Watched`](crate::safety::Watched)) may be put above it, and
//! tests have platters below that really lose destroyed data.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{BandReport, HostManaged, Model, Platters, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceResult, Violation};
use crate::units::{Granule, HostJournal, Span};

/// A Caveat-Scriptor disk over `platters`.
pub struct CaveatScriptor<P: ?Sized> {
    /// The platters beneath.
    pub platters: Arc<P>,
    shape: Shape,
}

impl<P: Platters + ?Sized> CaveatScriptor<P> {
    /// A disk of that shape. Errors: a shape that no such disk has.
    pub fn new(platters: Arc<P>, shape: Shape) -> Result<CaveatScriptor<P>, Error> {
        shape.check()?;
        if shape.model != Model::Caveat {
            return Err(Error::Impossible("a strict-append shape for a Caveat-Scriptor disk: choose one model".into()));
        }
        Ok(CaveatScriptor { platters, shape })
    }
}

impl<P: Platters + ?Sized> HostManaged for CaveatScriptor<P> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        self.shape.span(at, room.bytes())?;
        self.platters.read(at, room, cause)
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        self.shape.span(at, data.bytes())?;
        self.platters.write(at, data, cause)
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
