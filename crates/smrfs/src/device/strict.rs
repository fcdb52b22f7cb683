//! Strict-append: bands with a write cursor. Anything but an append, a reset or a read of what is there is refused.
//!
//! Kadekodi et al. 2015, section 3.1; cursors, states and the limit of open bands are those of zoned block devices, so that
//! one fits behind the same trait. Bands that the disk itself takes out of service are not modelled.

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::platters::Platters;
use super::{BandReport, BandState, HostManaged, Model, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceResult, Violation};
use crate::units::{Granule, Span};

/// A strict-append disk over `platters`.
pub struct StrictAppend<P> {
    platters: P,
    shape: Shape,
    cursors: Mutex<Cursors>,
    /// Held while a band is written or reset.
    writing: Mutex<()>,
}

/// Each band's cursor.
struct Cursors {
    /// Granules written, by band.
    filled: Vec<u64>,
    /// Bands begun and not full.
    open: u64,
}

impl<P: Platters> StrictAppend<P> {
    /// A disk whose cursors are at `cursors`; empty where there are none (a new disk). Errors: a shape that no such disk has,
    /// or cursors that do not belong to it.
    pub fn new(platters: P, shape: Shape, cursors: &[Granule]) -> Result<StrictAppend<P>, Error> {
        shape.check()?;
        if shape.model != Model::StrictAppend {
            return Err(Error::Impossible("a Caveat-Scriptor shape for a strict-append disk: give it bands".into()));
        }
        let filled = filled(&shape, cursors)?;
        let open = filled.iter().filter(|&&filled| (1..shape.bands.granules).contains(&filled)).count() as u64;
        Ok(StrictAppend { platters, shape, cursors: Mutex::new(Cursors { filled, open }), writing: Mutex::new(()) })
    }

    /// The cursors of all bands, as [`StrictAppend::new`] takes them.
    pub fn cursors(&self) -> Vec<Granule> {
        let cursors = self.cursors.lock();
        (0..).zip(&cursors.filled).map(|(band, &filled)| self.shape.bands.span(band).at + filled).collect()
    }

    /// The platters beneath.
    pub fn platters(&self) -> &P {
        &self.platters
    }

    /// The band in which `span` lies.
    fn band_of(&self, span: Span) -> Result<u64, Violation> {
        let band = self.shape.bands.band_at(span.at).ok_or(Violation::NotInOneBand { span })?;
        if self.shape.bands.span(band).contains(span) { Ok(band) } else { Err(Violation::NotInOneBand { span }) }
    }

    /// Checks that `span` may be appended to `band`.
    fn may_append(&self, band: u64, span: Span) -> Result<(), Violation> {
        let cursors = self.cursors.lock();
        let filled = cursors.filled[band as usize];
        let cursor = self.shape.bands.span(band).at + filled;
        if span.at != cursor {
            return Err(Violation::NotAtCursor { at: span.at, cursor });
        }
        let opens = filled == 0 && span.count < self.shape.bands.granules;
        let limit = self.shape.bands.max_open;
        if opens && cursors.open >= limit { Err(Violation::TooManyOpen { limit }) } else { Ok(()) }
    }

    /// Puts a band's cursor behind its first `filled` granules.
    fn put_cursor(&self, band: u64, filled: u64) -> DeviceResult {
        {
            let mut cursors = self.cursors.lock();
            let is_open = |filled: u64| u64::from((1..self.shape.bands.granules).contains(&filled));
            let before = std::mem::replace(&mut cursors.filled[band as usize], filled);
            cursors.open = cursors.open + is_open(filled) - is_open(before);
        }
        self.platters.keep_cursor(band, self.shape.bands.span(band).at + filled)
    }
}

/// The written part of each band, from its cursor.
fn filled(shape: &Shape, cursors: &[Granule]) -> Result<Vec<u64>, Error> {
    let bands = shape.bands;
    if cursors.is_empty() {
        return Ok(vec![0; bands.count as usize]);
    }
    if cursors.len() as u64 != bands.count {
        return Err(Error::Impossible(format!("{} cursors for {} bands: give one each", cursors.len(), bands.count)));
    }
    let within = |(band, &cursor): (u64, &Granule)| {
        let span = bands.span(band);
        if span.at <= cursor && cursor <= span.end() {
            return Ok(cursor - span.at);
        }
        Err(Error::Impossible(format!(
            "the cursor of band {band} is at {cursor}, outside its {span}: restore the image"
        )))
    };
    (0..).zip(cursors).map(within).collect()
}

impl<P: Platters> HostManaged for StrictAppend<P> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, room.bytes())?;
        let band = self.band_of(span)?;
        let cursor = self.shape.bands.span(band).at + self.cursors.lock().filled[band as usize];
        if span.end() > cursor {
            return Err(Violation::BeyondCursor { span, cursor }.into());
        }
        self.platters.read(at, room, cause)
    }

    fn expect(&self, span: Span) {
        self.platters.expect(span);
    }

    /// As the trait says. A write that fails takes up its room all the same: the cursor is behind it.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, data.bytes())?;
        let band = self.band_of(span)?;
        let _writing = self.writing.lock();
        self.may_append(band, span)?;
        let written = self.platters.write(at, data, cause);
        written.and(self.put_cursor(band, span.end() - self.shape.bands.span(band).at))
    }

    fn reset(&self, band: u64) -> DeviceResult {
        let bands = self.shape.bands.count;
        if band >= bands {
            return Err(Violation::NoSuchBand { band, bands }.into());
        }
        let _writing = self.writing.lock();
        self.put_cursor(band, 0)?;
        self.platters.discard(self.shape.bands.span(band));
        Ok(())
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        let cursors = self.cursors.lock();
        let report = |band: u64| {
            let (span, filled) = (self.shape.bands.span(band), cursors.filled[band as usize]);
            let state = match filled {
                0 => BandState::Empty,
                _ if filled == span.count => BandState::Full,
                _ => BandState::Open,
            };
            BandReport { start: span.at, cursor: span.at + filled, state }
        };
        let end = first.saturating_add(count).min(self.shape.bands.count);
        Ok((first.min(end)..end).map(report).collect())
    }

    fn discard(&self, span: Span) {
        self.platters.discard(span);
    }

    fn reserve(&self, bytes: u64) -> DeviceResult {
        self.platters.reserve(bytes)
    }

    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        self.platters.room_bytes()
    }

    fn flush(&self) -> DeviceResult {
        self.platters.flush()
    }

    fn now(&self) -> Nanos {
        self.platters.now()
    }

    fn wait_until(&self, time: Nanos) {
        self.platters.wait_until(time);
    }
}
