//! Parts of an array in which copies or parity may differ: a write was under way there when something last went wrong. A bit each
//! in the image says which, so that a crash leaves few parts to be brought in step.

use std::io;
use std::ops::Range;

use smrkit::device::HostSectors;
use smrkit::device::address::ArrayLayout;
use smrkit::engine::system::ArrayRun;
use smrkit::error::Error;
use smrkit::ranges::{RangeMap, Shift};

use super::written::Written;

/// Sectors of a part where there are no stripes: 1 MiB (assumption).
const PART_SECTORS: u64 = 2048;
/// Sectors that are discarded at a time.
const DISCARD_SECTORS: u64 = 1 << 30;

/// Work that was begun in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Writes.
    Writes,
    /// A discard of all of it, after all else.
    Discard,
}

impl Shift for Begun {
    fn shifted(&self, _: u64) -> Begun {
        *self
    }
}

/// The parts of an array in which anything was begun that no flush has followed.
pub(super) struct Unsettled {
    /// In the image; nothing in a replay.
    bits: Option<Written>,
    part_sectors: u64,
    host_sectors: u64,
    /// By part.
    parts: RangeMap<Begun>,
}

/// Sectors of a part: a whole stripe.
fn part_sectors(layout: &ArrayLayout) -> u64 {
    if layout.parities() > 0 { layout.stripe_sectors() } else { PART_SECTORS }
}

/// The number of parts of an array.
pub(super) fn parts(array: &ArrayRun) -> Result<u64, Error> {
    let layout = array.layout()?;
    Ok(layout.host_sectors().div_ceil(part_sectors(&layout)))
}

impl Unsettled {
    /// The unsettled parts of an array, kept in `bits`.
    pub(super) fn new(layout: &ArrayLayout, bits: Option<Written>) -> Unsettled {
        let (part_sectors, host_sectors) = (part_sectors(layout), layout.host_sectors());
        Unsettled { bits, part_sectors, host_sectors, parts: RangeMap::default() }
    }

    /// Reads which they were when the image was used last: those are to be discarded in which `host` has nothing.
    pub(super) fn find(&mut self, host: &mut Written) -> io::Result<()> {
        let Some(bits) = &mut self.bits else { return Ok(()) };
        let end = self.host_sectors.div_ceil(self.part_sectors);
        for run in bits.runs(0..end)? {
            let sectors = run.start * self.part_sectors..self.host_sectors.min(run.end * self.part_sectors);
            self.parts.cover(run, Begun::Discard);
            for held in host.runs(sectors)? {
                let parts = held.start / self.part_sectors..held.end.div_ceil(self.part_sectors);
                self.parts.cover(parts, Begun::Writes);
            }
        }
        Ok(())
    }

    /// Something is to be done to some sectors.
    pub(super) fn note(&mut self, sectors: Range<u64>, begun: Begun) -> io::Result<()> {
        if sectors.is_empty() {
            return Ok(());
        }
        let (size, end) = (self.part_sectors, sectors.end);
        let touched = sectors.start / size..end.div_ceil(size);
        let is_last = end == self.host_sectors;
        let whole = sectors.start.div_ceil(size)..if is_last { touched.end } else { end / size };
        if self.parts.parts(touched.clone()).any(|(_, known)| known.is_none()) {
            self.bits.as_mut().map_or(Ok(()), |bits| bits.insert(touched.clone()))?;
        }
        match begun {
            Begun::Discard if whole.start < whole.end => {
                for edge in [touched.start..whole.start, whole.end..touched.end] {
                    self.parts.cover(edge, Begun::Writes);
                }
                self.parts.cover(whole, Begun::Discard);
            }
            _ if self.parts.parts(touched.clone()).any(|(_, known)| known != Some(Begun::Writes)) => {
                self.parts.cover(touched, Begun::Writes);
            }
            _ => {}
        }
        Ok(())
    }

    /// All that was begun is on the platters.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(bits) = &mut self.bits else {
            self.parts.clear();
            return Ok(());
        };
        let mut run = 0..0;
        for (parts, _) in std::mem::take(&mut self.parts).iter() {
            if parts.start != run.end {
                bits.remove(run)?;
                run = parts.start..parts.start;
            }
            run.end = parts.end;
        }
        bits.remove(run)
    }

    /// The sectors of each part that was written to, or of several that were discarded, in order.
    pub(super) fn extents(&self) -> Vec<(Range<u64>, Begun)> {
        let sectors =
            |parts: Range<u64>| parts.start * self.part_sectors..self.host_sectors.min(parts.end * self.part_sectors);
        let mut extents = Vec::new();
        for (parts, &begun) in self.parts.iter() {
            let step = if begun == Begun::Writes { 1 } else { (DISCARD_SECTORS / self.part_sectors).max(1) };
            let starts = parts.clone().step_by(step as usize);
            extents.extend(starts.map(|start| (sectors(start..parts.end.min(start + step)), begun)));
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use smrkit::device::level::Level;

    use super::*;

    #[test]
    fn parts_are_whole_stripes_and_a_discard_takes_many() {
        let layout = ArrayLayout::new(Level::Raid5, 8, &[800; 3]).unwrap();
        let mut unsettled = Unsettled::new(&layout, None);
        unsettled.note(5..5, Begun::Writes).unwrap();
        assert_eq!(unsettled.extents(), []);
        unsettled.note(15..16, Begun::Writes).unwrap();
        unsettled.note(40..50, Begun::Writes).unwrap();
        let writes = |sectors: Range<u64>| (sectors, Begun::Writes);
        assert_eq!(unsettled.extents(), [0..16, 32..48, 48..64].map(writes));
        // Whole parts of a discard are discarded anew, those at its ends are not.
        unsettled.note(20..100, Begun::Discard).unwrap();
        let discarded = (32..96, Begun::Discard);
        assert_eq!(unsettled.extents(), [writes(0..16), writes(16..32), discarded, writes(96..112)]);
        unsettled.note(40..41, Begun::Writes).unwrap();
        assert_eq!(unsettled.extents()[2..4], [writes(32..48), (48..96, Begun::Discard)]);
        unsettled.settle().unwrap();
        assert_eq!(unsettled.extents(), []);
    }

    #[test]
    fn the_last_part_ends_with_the_array() {
        let layout = ArrayLayout::new(Level::Raid1, 8, &[5000; 2]).unwrap();
        let mut unsettled = Unsettled::new(&layout, None);
        unsettled.note(4990..5000, Begun::Writes).unwrap();
        assert_eq!(unsettled.extents(), [(4096..5000, Begun::Writes)]);
        unsettled.note(4096..5000, Begun::Discard).unwrap();
        assert_eq!(unsettled.extents(), [(4096..5000, Begun::Discard)]);
        unsettled.note(2000..5000, Begun::Discard).unwrap();
        assert_eq!(unsettled.extents(), [(0..2048, Begun::Writes), (2048..5000, Begun::Discard)]);
    }
}
