//! Copies of a strict-append disk: its bands one after another, each up to its cursor.

use smrkit::tally::Cause;

use super::{HostManaged, Model, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::DeviceError;
use crate::units::{Granule, Span};

/// Granules that are copied at a time: 1 MiB on a mounted disk (assumption).
const PIECE: u64 = 256;

/// The disk at fault where a copy fails.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The original.
    #[error(transparent)]
    Read(DeviceError),
    /// The copy.
    #[error(transparent)]
    Write(DeviceError),
}

/// True if what lies on `from` can lie on `to` at the same addresses: in bands as long and as far apart, and no fewer.
pub fn fits(from: &Shape, to: &Shape) -> bool {
    let of = |shape: &Shape| (shape.model, shape.granule_bytes, shape.bands.granules, shape.bands.gap_granules);
    from.model == Model::StrictAppend && of(from) == of(to) && from.bands.count <= to.bands.count
}

/// Writes what the bands of `from` hold to those of `to`, which are empty; [`fits`] said that it can. Where `to` takes fewer
/// open bands than there are, bands are filled up with zeros.
pub fn copy(from: &dyn HostManaged, to: &dyn HostManaged) -> Result<(), CopyError> {
    let (bands, granule) = (from.shape().bands, from.shape().granule_bytes);
    let mut room = vec![0; (PIECE * granule) as usize];
    let mut open = 0;
    for (band, report) in (0..).zip(from.report(0, bands.count).map_err(CopyError::Read)?) {
        for at in (report.start.0..report.cursor.0).step_by(PIECE as usize) {
            let piece = Span::new(at, PIECE.min(report.cursor.0 - at));
            let rest = report.cursor - piece.end();
            let piece = &mut room[..(piece.count * granule) as usize];
            from.read(Granule(at), ReadBuffer::Bytes(piece), Cause::Host).map_err(CopyError::Read)?;
            from.expect(Span::new(at + PIECE, PIECE.min(rest)));
            to.write(Granule(at), Data::Bytes(piece), Cause::Host).map_err(CopyError::Write)?;
        }
        let rest = bands.span(band).end() - report.cursor;
        if report.cursor == report.start || rest == 0 {
            continue;
        }
        // The one that is written next is open for a while.
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
    use crate::device::memory::Memory;
    use crate::device::strict::StrictAppend;
    use crate::device::{BandState, Bands};
    use crate::power::Power;

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
        to.platters().fail_next_write(0);
        assert!(matches!(copy(&from, &to), Err(CopyError::Write(_))));
        // Not empty.
        assert!(matches!(copy(&from, &to), Err(CopyError::Write(DeviceError::Violation(_)))));
    }
}
