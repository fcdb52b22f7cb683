//! Strict-append: bands with a write cursor. Refuses everything except appends, resets, and reads of written data.
//!
//! The model is that of Kadekodi et al. 2015, section 3.1. Cursors, states and the limit of open bands are those of zoned block devices, so
//! that such a device can be the platters ([`zoned`](super::zoned)); it reports where a failed write has left the cursor, and which bands
//! are lost. Also copies disks, band by band, each up to its cursor.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use smrkit::error::Error;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{BandReport, BandState, HostManaged, Model, Platters, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::{DeviceError, DeviceResult, Violation};
use crate::units::{Granule, HostJournal, Span};

/// A strict-append disk over `platters`.
pub struct StrictAppend<P: ?Sized> {
    /// The platters beneath.
    pub platters: Arc<P>,
    shape: Shape,
    cursors: Mutex<Cursors>,
    /// Held while a band is written or reset.
    writing: Mutex<()>,
}

/// Each band's cursor.
struct Cursors {
    /// Granules written, by band.
    filled: Vec<u64>,
    /// Partly written bands.
    open: u64,
    /// Bands that the disk can no longer write, or even read.
    lost: BTreeMap<u64, BandState>,
}

impl<P: Platters + ?Sized> StrictAppend<P> {
    /// A disk whose cursors are at `cursors`; an empty disk if there are none. Errors: a shape that no such disk has, or cursors that do
    /// not belong to it.
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
        (0..).zip(reports).for_each(|(band, report)| disk.adopt_report(band, report));
        Ok(disk)
    }

    /// The cursors of all bands, as [`StrictAppend::new`] takes them.
    pub fn cursors(&self) -> Vec<Granule> {
        let cursors = self.cursors.lock();
        (0..).zip(&cursors.filled).map(|(band, &filled)| self.shape.bands.span(band).at + filled).collect()
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

    fn adopt_report(&self, band: u64, report: &BandReport) {
        self.put_cursor(band, (report.cursor - report.start).min(self.shape.bands.granules));
        if report.state.is_lost() {
            self.cursors.lock().lost.insert(band, report.state);
        }
    }

    /// Asks the platters where a failed write or reset has left a band's cursor; returns `false` if they do not know.
    fn refresh_cursor(&self, band: u64) -> bool {
        let report = self.platters.band(band).ok().flatten();
        report.inspect(|report| self.adopt_report(band, report)).is_some()
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

    /// Reads, also over several bands if there are no gaps between them.
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

    /// Appends to a band. A failed write moves the cursor, too, unless the platters can report where it is.
    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        let span = self.shape.span(at, data.bytes())?;
        let band = self.shape.bands.band_of(span)?;
        // Held until the cursor has moved, so that no other write is checked against the old one.
        let _writing = self.writing.lock();
        self.may_append(band, span)?;
        let written = self.platters.write(at, data, cause);
        if written.is_err() && self.refresh_cursor(band) {
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
        // On a zoned device this is the reset itself.
        if let Err(error) = self.platters.keep_cursor(band, span.at) {
            self.refresh_cursor(band);
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

/// Granules that are copied at a time: 1 MiB on a mounted disk (assumption).
const PIECE: u64 = 256;

/// Which disk failed during a copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The original.
    #[error(transparent)]
    Read(DeviceError),
    /// The copy.
    #[error(transparent)]
    Write(DeviceError),
}

/// True if the data of `from` can have the same addresses on `to`: if that has bands of the same length and distance, and no fewer.
pub fn fits(from: &Shape, to: &Shape) -> bool {
    let layout = |shape: &Shape| (shape.model, shape.granule_bytes, shape.bands.granules, shape.bands.gap_granules);
    from.model == Model::StrictAppend && layout(from) == layout(to) && from.bands.count <= to.bands.count
}

/// Copies the bands of `from` to those of `to`, which are empty; [`fits`] has been checked. If `to` allows fewer open bands than there are,
/// bands are padded with zeros.
pub fn copy(from: &dyn HostManaged, to: &dyn HostManaged) -> Result<(), CopyError> {
    let (bands, granule) = (from.shape().bands, from.shape().granule_bytes);
    let mut buffer = vec![0; (PIECE * granule) as usize];
    let mut open = 0;
    for (band, report) in (0..).zip(from.report(0, bands.count).map_err(CopyError::Read)?) {
        for at in (report.start.0..report.cursor.0).step_by(PIECE as usize) {
            let piece = Span::new(at, PIECE.min(report.cursor.0 - at));
            let bytes = &mut buffer[..(piece.count * granule) as usize];
            from.read(piece.at, ReadBuffer::Bytes(bytes), Cause::Host).map_err(CopyError::Read)?;
            // The disk can read the next piece while this one is written.
            from.expect(Span { at: piece.end(), count: PIECE.min(report.cursor - piece.end()) });
            to.write(piece.at, Data::Bytes(bytes), Cause::Host).map_err(CopyError::Write)?;
        }
        let rest = bands.span(band).end() - report.cursor;
        if report.cursor == report.start || rest == 0 {
            continue;
        }
        // One open band is left for the next band, which is open while it is written.
        if open + 1 < to.shape().bands.max_open {
            open += 1;
        } else {
            to.write(report.cursor, Data::Blank(rest * granule), Cause::Host).map_err(CopyError::Write)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::strict::StrictAppend;
    use crate::device::{BandState, Bands};
    use crate::testing::memory::Memory;
    use crate::testing::memory::Power;

    const GRANULE: u64 = 512;
    const LENGTH: u64 = 2 * PIECE + 10;

    fn shape(count: u64, granules: u64, gap_granules: u64, max_open: u64) -> Shape {
        let bands = Bands { count, granules, gap_granules, max_open };
        let granules = count * (granules + gap_granules);
        Shape { model: Model::StrictAppend, granule_bytes: GRANULE, granules, did: 0, dpid: 0, bands }
    }

    fn disk(shape: Shape) -> StrictAppend<Memory> {
        StrictAppend::new(Arc::new(Memory::new(&shape, Arc::new(Power::new()))), shape, &[]).unwrap()
    }

    /// A granule that differs from all others.
    fn granule(at: Granule) -> Vec<u8> {
        at.0.to_le_bytes().repeat(GRANULE as usize / 8)
    }

    fn read(disk: &dyn HostManaged, at: Granule) -> Vec<u8> {
        let mut bytes = vec![9; GRANULE as usize];
        disk.read(at, ReadBuffer::Bytes(&mut bytes), Cause::Host).unwrap();
        bytes
    }

    #[test]
    fn bands_fit_where_they_have_the_same_addresses() {
        let from = shape(5, 10, 2, 4);
        let others =
            [(5, 10, 2, 1), (6, 10, 2, 4), (4, 10, 2, 4), (5, 11, 1, 4), (5, 10, 3, 4), (5, 9, 2, 4), (5, 11, 2, 4)];
        let fit = others.map(|(count, length, gap, open)| fits(&from, &shape(count, length, gap, open)));
        assert_eq!(fit, [true, true, false, false, false, false, false]);
        assert!(
            fits(&from, &Shape { did: 1, dpid: 2, ..from }) && !fits(&from, &Shape { granule_bytes: 1024, ..from })
        );
        let caveat = Shape { model: Model::Caveat, ..from };
        assert!(!fits(&caveat, &from) && !fits(&from, &caveat) && !fits(&caveat, &caveat));
    }

    /// Bands stay open on the copy as long as there is room for one more.
    #[test]
    fn a_copy_has_what_lies_below_the_cursors_and_no_band_too_many() {
        let filled = [3, 0, LENGTH, LENGTH - 1, PIECE, PIECE + 1, 0, 2 * PIECE];
        let from = disk(shape(8, LENGTH, 3, 8));
        for (band, &count) in (0..).zip(&filled) {
            let start = from.shape().bands.span(band).at;
            for at in (0..count).map(|i| start + i) {
                from.write(at, Data::Bytes(&granule(at)), Cause::Host).unwrap();
            }
        }
        for max_open in 1..=8 {
            let to = disk(shape(9, LENGTH, 3, max_open));
            copy(&from, &to).unwrap();
            let mut open = 0;
            for (report, &count) in to.report(0, 9).unwrap().iter().zip(filled.iter().chain(&[0])) {
                let is_left = report.cursor - report.start == count;
                assert!(is_left || report.state == BandState::Full, "{max_open}: {report:?}");
                assert!(is_left || open == max_open - 1, "{max_open}: {report:?}");
                open += u64::from(report.state == BandState::Open);
                for i in 0..report.cursor - report.start {
                    let at = report.start + i;
                    let expected = if i < count { granule(at) } else { vec![0; GRANULE as usize] };
                    assert_eq!(read(&to, at), expected, "{at}");
                }
            }
            assert_eq!(open, 5.min(max_open - 1));
        }
    }

    #[test]
    fn a_disk_that_fails_is_told() {
        let (from, to) = (disk(shape(3, 10, 2, 3)), disk(shape(3, 10, 2, 3)));
        from.write(Granule(12), Data::Bytes(&granule(Granule(12))), Cause::Host).unwrap();
        to.platters.fail_next_write(0);
        assert!(matches!(copy(&from, &to), Err(CopyError::Write(_))));
        // Not empty.
        assert!(matches!(copy(&from, &to), Err(CopyError::Write(DeviceError::Violation(_)))));
    }
}
