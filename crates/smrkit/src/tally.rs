//! Counters of physical accesses: commands, sectors and time by cause, and where on the surface the writes went.
//!
//! Write amplification needs no code in any layer: every access names its cause, and the sums are made here.

use serde::{Deserialize, Serialize};

use crate::error::DiskResult;
use crate::state::{self, State};
use crate::units::{Nanos, Pba, Track};

/// Why the platters were accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Cause {
    /// Serving the host directly.
    Host,
    /// Moving cached data home: reading the persistent cache back.
    Destage,
    /// Read-modify-write of bands, and collecting garbage.
    Clean,
    /// The layer's maps on the disk.
    Map,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 4] = [Cause::Host, Cause::Destage, Cause::Clean, Cause::Map];

    /// The name in results.
    pub fn name(self) -> &'static str {
        ["host", "destage", "clean", "map"][self as usize]
    }

    fn is_cleaning(self) -> bool {
        matches!(self, Cause::Destage | Cause::Clean)
    }
}

/// One physical access, as a recorder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it began.
    pub start: Nanos,
    /// Its duration.
    pub duration: Nanos,
    /// Why.
    pub cause: Cause,
    /// Write or read.
    pub write: bool,
    /// The first sector.
    pub pba: Pba,
    /// Number of sectors.
    pub sectors: u64,
}

/// Sums over accesses of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Commands of any length.
    pub commands: u64,
    /// Sectors.
    pub sectors: u64,
    /// Commands as Cassuto 2010 counts them: see [`adjusted`].
    pub adjusted: u64,
    /// Time, in nanoseconds.
    pub ns: u64,
}

/// Nanoseconds of reads and of writes, each by cause.
pub type CauseTimes = [[u64; 4]; 2];

/// Number of commands that one of `sectors` counts for in Cassuto 2010: floor(sectors / 1000) + 1.
///
/// The text says "1000 or less", which would be a ceiling; its Table I decodes only with this form (a region of
/// 50,000 sectors is 51).
pub fn adjusted(sectors: u64) -> u64 {
    sectors / 1000 + 1
}

/// The most parts of the surface that writes are counted in.
const SURFACE_PARTS: u64 = 512;

/// Movement of the head from track to track, as Le, Holliday and Amer count it for their arrays.
///
/// Tracks are numbered in the order of PBAs, so that the next track is one away, on whatever surface it lies. Tracks crossed within an
/// access don't count, nor does the way to the first access.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HeadMovement {
    /// By cause: the sum of |first track of an access − last track of the one before|.
    pub distance: [u64; 4],
    /// By cause: accesses that began on another track than the one before had ended on.
    pub count: [u64; 4],
    /// The last track of the access before.
    last: Option<Track>,
}

/// Everything counted about a disk's accesses.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    reads: [Counter; 4],
    writes: [Counter; 4],
    surface: Vec<[u64; 4]>,
    part_shift: u32,
    pub(crate) stretches: CleaningStretches,
    /// The head's movements, if they are counted.
    movement: Option<Box<HeadMovement>>,
}

/// Movement may be counted in one run and not in the next. If it was not counted, it starts at zero.
impl State for Tally {
    fn save(&self, out: &mut Vec<u8>) {
        state::write(&self.surface, out);
        state::write(&(&self.reads, &self.writes, &self.stretches, &self.movement), out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        state::read_sized(&mut self.surface, from)?;
        let movement: Option<Box<HeadMovement>>;
        (self.reads, self.writes, self.stretches, movement) = state::read(from)?;
        // Whether this run counts movement was decided before loading.
        self.movement = self.movement.take().map(|_| movement.unwrap_or_default());
        Ok(())
    }
}

/// Uninterrupted stretches of destaging and cleaning.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CleaningStretches {
    count: u64,
    longest_ns: u64,
    current_ns: u64,
    /// When the last destaging or cleaning access ended; 0 before the first.
    pub last_end: Nanos,
}

impl Tally {
    /// Counters for a disk of `sectors`.
    pub fn new(sectors: u64) -> Tally {
        let mut part_shift = 0;
        // Parts are powers of two long, so that counting a write takes shifts and no division.
        while sectors.div_ceil(1 << part_shift) > SURFACE_PARTS {
            part_shift += 1;
        }
        let parts = sectors.div_ceil(1 << part_shift) as usize;
        Tally { surface: vec![[0; 4]; parts], part_shift, ..Tally::default() }
    }

    /// Counts the head's movements from now on.
    pub(crate) fn count_movement(&mut self) {
        self.movement.get_or_insert_default();
    }

    /// Counts the movement to an access that began on track `first` and ended on track `last`.
    pub fn moved(&mut self, cause: Cause, first: Track, last: Track) {
        if let Some(movement) = &mut self.movement {
            let from = movement.last.replace(last).unwrap_or(first);
            movement.distance[cause as usize] += from.0.abs_diff(first.0);
            movement.count[cause as usize] += u64::from(from != first);
        }
    }

    /// The head's movements, if they are counted.
    pub fn movement(&self) -> Option<&HeadMovement> {
        self.movement.as_deref()
    }

    /// Counts one access.
    #[inline]
    pub fn count(&mut self, access: &Access) {
        let counters = if access.write { &mut self.writes } else { &mut self.reads };
        let counter = &mut counters[access.cause as usize];
        counter.commands += 1;
        counter.sectors += access.sectors;
        counter.adjusted += adjusted(access.sectors);
        counter.ns += access.duration.0;
        if access.write {
            self.count_surface(access.pba, access.sectors, access.cause);
        }
        self.stretches.count(access);
    }

    #[inline]
    fn count_surface(&mut self, pba: Pba, sectors: u64, cause: Cause) {
        let (first, last) = (pba.0 >> self.part_shift, (pba.0 + sectors - 1) >> self.part_shift);
        if first == last {
            self.surface[first as usize][cause as usize] += sectors;
            return;
        }
        for part in first..=last {
            let from = pba.0.max(part << self.part_shift);
            let to = (pba.0 + sectors).min((part + 1) << self.part_shift);
            self.surface[part as usize][cause as usize] += to - from;
        }
    }

    /// Reads of one cause.
    pub fn reads(&self, cause: Cause) -> &Counter {
        &self.reads[cause as usize]
    }

    /// Writes of one cause.
    pub fn writes(&self, cause: Cause) -> &Counter {
        &self.writes[cause as usize]
    }

    /// Sectors written, of all causes.
    pub fn written_sectors(&self) -> u64 {
        self.writes.iter().map(|writes| writes.sectors).sum()
    }

    /// The times of reads and of writes.
    pub fn times(&self) -> CauseTimes {
        [&self.reads, &self.writes].map(|counters| counters.map(|counter| counter.ns))
    }

    /// The time of all accesses.
    pub fn busy(&self) -> Nanos {
        Nanos(self.times().as_flattened().iter().sum())
    }

    /// Stretches of destaging and cleaning: how many, and the longest.
    pub fn stretches(&self) -> (u64, Nanos) {
        (self.stretches.count, Nanos(self.stretches.longest_ns.max(self.stretches.current_ns)))
    }

    /// Sectors written to each part of the surface, by cause, and the sectors in a part.
    pub fn surface(&self) -> (&[[u64; 4]], u64) {
        (&self.surface, 1 << self.part_shift)
    }

    /// Forgets everything counted so far; the end of the last cleaning and the head's place are kept.
    pub fn reset(&mut self) {
        self.reads = Default::default();
        self.writes = Default::default();
        self.surface.fill([0; 4]);
        self.stretches = CleaningStretches { last_end: self.stretches.last_end, ..CleaningStretches::default() };
        if let Some(movement) = &mut self.movement {
            **movement = HeadMovement { last: movement.last, ..HeadMovement::default() };
        }
    }
}

impl CleaningStretches {
    #[inline]
    fn count(&mut self, access: &Access) {
        if access.cause.is_cleaning() {
            self.count += u64::from(self.current_ns == 0);
            // At least 1, because 0 means that there is no current stretch.
            self.current_ns += access.duration.0.max(1);
            self.last_end = access.start + access.duration;
        } else {
            self.end();
        }
    }

    /// Ends the stretch: cleaning from now on is another.
    #[inline]
    pub fn end(&mut self) {
        if self.current_ns > 0 {
            self.longest_ns = self.longest_ns.max(self.current_ns);
            self.current_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(cause: Cause, pba: u64, sectors: u64) -> Access {
        Access { start: Nanos(5), duration: Nanos(7), cause, write: true, pba: Pba(pba), sectors }
    }

    #[test]
    fn a_region_of_50_000_sectors_counts_51_commands() {
        assert_eq!(adjusted(50_000), 51);
        assert_eq!(adjusted(999), 1);
        assert_eq!(adjusted(1000), 2);
    }

    #[test]
    fn a_write_over_several_parts_of_the_surface_is_shared_out_exactly() {
        let mut tally = Tally::new(100_000);
        tally.count(&access(Cause::Clean, 100, 70_001));
        let (parts, part_sectors) = tally.surface();
        assert_eq!(parts.iter().map(|p| p[2]).sum::<u64>(), 70_001);
        assert_eq!(parts[0][2], part_sectors - 100);
    }

    #[test]
    fn movement_goes_from_the_end_of_an_access_to_the_start_of_the_next() {
        let mut tally = Tally::new(1000);
        tally.moved(Cause::Host, Track(7), Track(7));
        assert!(tally.movement().is_none(), "nothing is counted that was not asked for");
        tally.count_movement();
        for (cause, first, last) in
            [(Cause::Host, 5, 9), (Cause::Clean, 9, 9), (Cause::Clean, 2, 4), (Cause::Host, 10, 10)]
        {
            tally.moved(cause, Track(first), Track(last));
        }
        let counted = |tally: &Tally| {
            Cause::ALL.map(|c| tally.movement().map(|m| (m.distance[c as usize], m.count[c as usize])).unwrap())
        };
        assert_eq!(counted(&tally), [(6, 1), (0, 0), (7, 1), (0, 0)]);
        tally.reset();
        tally.moved(Cause::Map, Track(0), Track(0));
        assert_eq!(counted(&tally), [(0, 0), (0, 0), (0, 0), (10, 1)], "the head stays where it is");
    }

    #[test]
    fn cleaning_between_host_accesses_is_one_stretch() {
        let mut tally = Tally::new(1000);
        for cause in [Cause::Host, Cause::Destage, Cause::Clean, Cause::Clean, Cause::Host, Cause::Clean] {
            tally.count(&access(cause, 0, 8));
        }
        assert_eq!(tally.stretches(), (2, Nanos(21)));
        tally.stretches.end();
        tally.count(&access(Cause::Clean, 0, 8));
        assert_eq!(tally.stretches(), (3, Nanos(21)), "cleaning for the next request is another stretch");
    }
}
