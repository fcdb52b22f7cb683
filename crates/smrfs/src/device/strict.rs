//! Strict-append: bands with a write cursor. Anything but an append, a reset or a read of what is there is refused.
//!
//! Kadekodi et al. 2015, section 3.1; cursors, states and the limit of open bands are those of zoned block devices, so that
//! one fits beneath ([`zoned`](super::zoned)): it tells where a failed write has left the cursor, and which bands are lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::platters::Platters;
use super::{BandReport, BandState, HostManaged, Model, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceResult, Violation};
use crate::units::{Granule, HostJournal, Span};

/// A strict-append disk over `platters`.
pub struct StrictAppend<P: ?Sized> {
    platters: Arc<P>,
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
    /// Bands that the disk can't write any more, or not even read.
    lost: BTreeMap<u64, BandState>,
}

impl<P: Platters + ?Sized> StrictAppend<P> {
    /// A disk whose cursors are at `cursors`; empty where there are none (a new disk). Errors: a shape that no such disk has,
    /// or cursors that do not belong to it.
    pub fn new(platters: Arc<P>, shape: Shape, cursors: &[Granule]) -> Result<StrictAppend<P>, Error> {
        shape.check()?;
        if shape.model != Model::StrictAppend {
            return Err(Error::Impossible("a Caveat-Scriptor shape for a strict-append disk: give it bands".into()));
        }
        let filled = filled(&shape, cursors)?;
        let open = filled.iter().filter(|&&filled| (1..shape.bands.granules).contains(&filled)).count() as u64;
        let cursors = Mutex::new(Cursors { filled, open, lost: BTreeMap::new() });
        Ok(StrictAppend { platters, shape, cursors, writing: Mutex::new(()) })
    }

    /// A disk whose platters have reported all of their bands, in order. Errors: as for [`StrictAppend::new`].
    pub fn reported(platters: Arc<P>, shape: Shape, reports: &[BandReport]) -> Result<StrictAppend<P>, Error> {
        let cursors: Vec<Granule> = reports.iter().map(|report| report.cursor).collect();
        let disk = StrictAppend::new(platters, shape, &cursors)?;
        (0..).zip(reports).for_each(|(band, report)| disk.believe(band, report));
        Ok(disk)
    }

    /// The cursors of all bands, as [`StrictAppend::new`] takes them.
    pub fn cursors(&self) -> Vec<Granule> {
        let cursors = self.cursors.lock();
        (0..).zip(&cursors.filled).map(|(band, &filled)| self.shape.bands.span(band).at + filled).collect()
    }

    /// The platters beneath.
    pub fn platters(&self) -> &Arc<P> {
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

    /// Notes that a band's cursor is behind its first `filled` granules.
    fn put_cursor(&self, band: u64, filled: u64) {
        let mut cursors = self.cursors.lock();
        let is_open = |filled: u64| u64::from((1..self.shape.bands.granules).contains(&filled));
        let before = std::mem::replace(&mut cursors.filled[band as usize], filled);
        cursors.open = cursors.open + is_open(filled) - is_open(before);
    }

    /// Takes over what the platters say of a band.
    fn believe(&self, band: u64, report: &BandReport) {
        self.put_cursor(band, (report.cursor - report.start).min(self.shape.bands.granules));
        if report.state.is_lost() {
            self.cursors.lock().lost.insert(band, report.state);
        }
    }

    /// Looks where a failed write or reset has left a band; `false` if the platters do not know.
    fn look(&self, band: u64) -> bool {
        let report = self.platters.band(band).ok().flatten();
        report.inspect(|report| self.believe(band, report)).is_some()
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

impl<P: Platters + ?Sized> HostManaged for StrictAppend<P> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    /// As the trait says. Of bands without gaps several are read one after another.
    fn read(&self, at: Granule, mut room: ReadBuffer<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, room.bytes())?;
        let mut part = Span { at, count: 0 };
        while part.end() < span.end() {
            part.at = part.end();
            let band = self.shape.bands.band_at(part.at).ok_or(Violation::NotInOneBand { span })?;
            part.count = self.shape.bands.span(band).end().min(span.end()) - part.at;
            let cursor = self.shape.bands.span(band).at + self.cursors.lock().filled[band as usize];
            if part.end() > cursor {
                return Err(Violation::BeyondCursor { span: part, cursor }.into());
            }
            let granule = self.shape.granule_bytes;
            self.platters.read(part.at, room.part((part.at - at) * granule, part.count * granule), cause)?;
        }
        Ok(())
    }

    /// As the trait says. A write that fails takes up its room all the same, unless the platters know better.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, data.bytes())?;
        let band = self.band_of(span)?;
        let _writing = self.writing.lock();
        self.may_append(band, span)?;
        let written = self.platters.write(at, data, cause);
        if written.is_err() && self.look(band) {
            return written;
        }
        self.put_cursor(band, span.end() - self.shape.bands.span(band).at);
        written.and(self.platters.keep_cursor(band, span.end()))
    }

    fn reset(&self, band: u64) -> DeviceResult {
        let bands = self.shape.bands.count;
        if band >= bands {
            return Err(Violation::NoSuchBand { band, bands }.into());
        }
        let _writing = self.writing.lock();
        let span = self.shape.bands.span(band);
        if let Err(error) = self.platters.keep_cursor(band, span.at) {
            self.look(band);
            return Err(error);
        }
        self.put_cursor(band, 0);
        self.platters.discard(span);
        Ok(())
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
        let cursors = self.cursors.lock();
        let report = |band: u64| {
            let filled = cursors.filled[band as usize];
            BandReport::new(self.shape.bands.span(band), filled, cursors.lost.get(&band).copied())
        };
        let end = first.saturating_add(count).min(self.shape.bands.count);
        Ok((first.min(end)..end).map(report).collect())
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
