//! The state of each band, running sums over all bands, and the streams that fill open bands.
//!
//! A band's cursor counts from its start. All changes go through `change`, so that all sums are updated.
//!
//! A few writers have a stream each, and the data that the cleaner moves has another. Data written together tends to die together, and
//! survivors of cleaning are colder than new data. So each stream has bands of its own as long as space and the limit of open bands allow;
//! if they don't, any open band takes any data.

use std::collections::BTreeSet;

use super::{Blocks, RESERVE_BANDS};
use crate::device::Bands;
use crate::space::AllocationRequest;
use crate::units::{Granule, NodeId, Span};

/// One band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Band {
    /// The number of granules from its start that can't be written any more. The next write goes behind them.
    pub cursor: u64,
    /// Granules in maps.
    pub live: u64,
    /// Granules that a durable map may still name.
    pub retired: u64,
    /// Granules placed, whose write has not been completed.
    pub pending: u64,
    /// `BandSpace::clock` when its youngest data was written. Moved data keeps its age.
    pub youngest: u64,
    /// True if it was closed while partly written, after a failed write or to be cleaned. For the disk it is open until it is reset.
    pub closed_early: bool,
    /// The last granules before `cursor`, never written, because the band was closed to be cleaned. The disk's cursor is before them.
    pub unused: u64,
    /// True if the disk can no longer write it.
    pub lost: bool,
    /// True if a reset was asked for and has not been done.
    pub reset_asked: bool,
    /// Granules in maps that can't be moved. While there are any, cleaning gains nothing here.
    pub unmovable: u64,
}

impl Band {
    /// Granules that must not be lost.
    pub fn readable(&self) -> u64 {
        self.live + self.retired + self.pending
    }

    /// True if cleaning could empty it.
    pub fn can_be_emptied(&self) -> bool {
        self.unmovable == 0 && !self.reset_asked
    }

    /// Granules that are dead, or will be once all maps are durable.
    pub fn dead(&self) -> u64 {
        self.cursor - self.live - self.pending
    }

    /// Dead granules that cleaning would free, retired ones included.
    pub fn gain(&self) -> u64 {
        if self.unmovable == 0 { self.dead() } else { 0 }
    }

    /// Dead granules that were written, and that cleaning would free.
    fn garbage(&self) -> u64 {
        if self.unmovable == 0 { self.cursor - self.readable() - self.unused } else { 0 }
    }

    /// What this band, of `size` granules, adds to each sum.
    fn contribution(&self, size: u64) -> Sums {
        let readable = Sums { live: self.live, retired: self.retired, pending: self.pending, ..Sums::default() };
        if self.lost {
            // Its data can still be read, but nothing can be written or reclaimed.
            return Sums { lost: 1, ..readable };
        }
        let writable = size - self.cursor;
        Sums {
            writable,
            writable_in_open: if self.cursor > 0 { writable } else { 0 },
            garbage: self.garbage(),
            unused: self.unused,
            // A partly written band can still be filled, so its dead granules are no reason to clean.
            reclaimable: if writable == 0 { self.gain() } else { 0 },
            closed_early: u64::from(self.closed_early),
            closed_early_reclaimable: u64::from(self.closed_early && self.can_be_emptied()),
            ..readable
        }
    }
}

/// Sums over bands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Granules in maps.
    pub live: u64,
    /// Granules that a durable map may still name.
    pub retired: u64,
    /// Granules placed, whose write has neither completed nor failed.
    pub pending: u64,
    /// Granules behind the cursors of bands that can be written.
    pub writable: u64,
    /// Granules behind the cursors of partly written bands.
    pub writable_in_open: u64,
    /// Dead granules that were written, of bands that can be written and emptied.
    pub garbage: u64,
    /// Unwritten granules of bands that were closed to be cleaned.
    pub unused: u64,
    /// Granules of full bands that cleaning would free, retired ones included.
    pub reclaimable: u64,
    /// Bands closed while partly written.
    pub closed_early: u64,
    /// Bands closed while partly written that cleaning could empty.
    pub closed_early_reclaimable: u64,
    /// Bands that the disk can't write.
    pub lost: u64,
}

impl Sums {
    /// Applies `change` to each sum and its counterpart in `part`.
    fn change(&mut self, part: &Sums, change: impl Fn(&mut u64, u64)) {
        change(&mut self.live, part.live);
        change(&mut self.retired, part.retired);
        change(&mut self.pending, part.pending);
        change(&mut self.writable, part.writable);
        change(&mut self.writable_in_open, part.writable_in_open);
        change(&mut self.garbage, part.garbage);
        change(&mut self.unused, part.unused);
        change(&mut self.reclaimable, part.reclaimable);
        change(&mut self.closed_early, part.closed_early);
        change(&mut self.closed_early_reclaimable, part.closed_early_reclaimable);
        change(&mut self.lost, part.lost);
    }
}

/// All bands, and sets of their numbers by state.
#[derive(Debug)]
pub(super) struct BandTable {
    pub layout: Bands,
    pub bands: Vec<Band>,
    /// Bands without a written granule.
    pub empty: BTreeSet<u64>,
    /// Partly written bands.
    pub open: BTreeSet<u64>,
    /// Full bands without readable data, whose reset has not been asked for.
    pub dead: BTreeSet<u64>,
    pub sums: Sums,
}

impl BandTable {
    pub fn new(layout: Bands) -> BandTable {
        let mut table = BandTable {
            layout,
            bands: vec![Band::default(); layout.count as usize],
            empty: BTreeSet::new(),
            open: BTreeSet::new(),
            dead: BTreeSet::new(),
            sums: Sums::default(),
        };
        for number in 0..layout.count {
            table.count(number, &Band::default());
        }
        table
    }

    pub fn get(&self, number: u64) -> &Band {
        &self.bands[number as usize]
    }

    pub fn all(&self) -> impl Iterator<Item = (u64, &Band)> {
        (0..).zip(&self.bands)
    }

    /// Granules that can still be written in a band.
    pub fn writable(&self, number: u64) -> u64 {
        let band = self.get(number);
        if band.lost { 0 } else { self.layout.granules - band.cursor }
    }

    /// The address of a band's cursor.
    pub fn cursor(&self, number: u64) -> Granule {
        self.layout.span(number).at + self.get(number).cursor
    }

    /// Bands that the disk counts as open, including those that are closed early here.
    pub fn open_for_disk(&self) -> u64 {
        self.open.len() as u64 + self.sums.closed_early
    }

    /// Changes a band, and the sums and sets with it.
    pub fn change(&mut self, number: u64, change: impl FnOnce(&mut Band)) {
        let mut band = self.bands[number as usize];
        self.uncount(number, &band);
        change(&mut band);
        self.bands[number as usize] = band;
        self.count(number, &band);
    }

    /// Splits a span into (number of the band, piece in this band); `None` if some of it lies outside the bands.
    pub fn pieces(&self, span: Span) -> Option<Vec<(u64, Span)>> {
        let mut pieces = Vec::with_capacity(1);
        let mut left = span;
        while !left.is_empty() {
            let band = self.layout.band_at(left.at)?;
            let piece = self.layout.span(band).overlap(left)?;
            pieces.push((band, piece));
            left = Span { at: piece.end(), count: left.count - piece.count };
        }
        Some(pieces)
    }

    /// Adds a band to the sums, and to the set of its state.
    pub fn count(&mut self, number: u64, band: &Band) {
        let size = self.layout.granules;
        let used = band.readable() + band.unused;
        assert!(used <= band.cursor && band.cursor <= size, "band {number} of {size} granules: {band:?}");
        self.sums.change(&band.contribution(size), |sum, part| *sum += part);
        self.set_of(band).map(|set| set.insert(number));
    }

    fn uncount(&mut self, number: u64, band: &Band) {
        self.sums.change(&band.contribution(self.layout.granules), |sum, part| *sum -= part);
        self.set_of(band).map(|set| set.remove(&number));
    }

    /// The set of the state that a band is in.
    fn set_of(&mut self, band: &Band) -> Option<&mut BTreeSet<u64>> {
        match band.cursor {
            _ if band.lost => None,
            0 => Some(&mut self.empty),
            cursor if cursor < self.layout.granules => Some(&mut self.open),
            _ => (band.readable() == 0 && !band.reset_asked).then_some(&mut self.dead),
        }
    }
}

/// An open band that is written by one file at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    pub band: Option<u64>,
    writer: Option<NodeId>,
    /// The number of its last placement, from `Streams::placements`.
    last_used: u64,
}

/// The open bands and their writers.
#[derive(Debug)]
pub(super) struct Streams {
    pub writers: Vec<Stream>,
    /// The open band that takes data moved by the cleaner.
    pub cleaner_band: Option<u64>,
    blocks: Blocks,
    max_open: u64,
    /// The band opened last. The search for the next one begins after it.
    last_opened: u64,
    /// Number of placements until now.
    placements: u64,
}

impl Streams {
    pub fn new(writers: u64, blocks: Blocks, max_open: u64) -> Streams {
        // One open band is left to the cleaner, and one to the band of a failed write, which stays open until it is reset.
        let writers = writers.min(max_open.saturating_sub(2)).max(1);
        Streams {
            writers: vec![Stream::default(); writers as usize],
            cleaner_band: None,
            blocks,
            max_open,
            last_opened: 0,
            placements: 0,
        }
    }

    /// Notes that nobody writes to `file` any more.
    pub fn closed(&mut self, file: NodeId) {
        for stream in self.writers.iter_mut().filter(|stream| stream.writer == Some(file)) {
            stream.writer = None;
        }
    }

    /// Forgets a band that is not written any more.
    pub fn forget(&mut self, band: u64) {
        for stream in self.writers.iter_mut().filter(|stream| stream.band == Some(band)) {
            stream.band = None;
        }
        self.cleaner_band = self.cleaner_band.filter(|&own| own != band);
    }

    /// True if a host or the cleaner writes to `band`.
    pub fn is_written(&self, band: u64) -> bool {
        self.cleaner_band == Some(band) || self.is_written_by_host(band)
    }

    fn is_written_by_host(&self, band: u64) -> bool {
        self.writers.iter().any(|stream| stream.band == Some(band))
    }

    /// True if anything can be placed for a host.
    pub fn can_place(&self, table: &BandTable) -> bool {
        let spare = self.spare(table);
        let own = self.writers.iter().filter(|stream| stream.band.is_some()).count();
        own > 0 || (spare > 0 && !table.open.is_empty()) || (spare >= table.layout.granules && self.may_open(table))
    }

    /// Granules that hosts may take beyond the bands that they write already. The reserve is left to the cleaner, which otherwise could not
    /// continue in the middle of a band, or after a power cut there.
    fn spare(&self, table: &BandTable) -> u64 {
        let own: u64 = self.writers.iter().filter_map(|stream| stream.band).map(|band| table.writable(band)).sum();
        let size = table.layout.granules;
        (table.sums.writable_in_open - own + table.empty.len() as u64 * size).saturating_sub(RESERVE_BANDS * size)
    }

    /// Chooses where the next granules of `want` go: at a cursor, at most up to the band's end.
    pub fn place(&mut self, table: &BandTable, want: &AllocationRequest) -> Option<Span> {
        let (band, granules_max) = if want.moving {
            (self.band_for_cleaner(table, want.count)?, want.count)
        } else {
            self.band_for_host(table, want)?
        };
        Some(Span { at: table.cursor(band), count: table.writable(band).min(granules_max) })
    }

    /// Chooses a band for `count` granules of moved data: the one used last, or an open one that fits, or a new one, or any open one.
    fn band_for_cleaner(&mut self, table: &BandTable, count: u64) -> Option<u64> {
        if let Some(band) = self.cleaner_band.filter(|&band| self.takes(table, band, count)) {
            return Some(band);
        }
        let band = self
            .fitting(table, count, None)
            .or_else(|| self.may_open(table).then(|| self.open(table)).flatten())
            .or_else(|| self.any(table, |streams, band| !streams.is_written(band)))
            .or_else(|| self.any(table, |_, _| true))?;
        if !self.is_written_by_host(band) {
            self.cleaner_band = Some(band);
        }
        Some(band)
    }

    /// Chooses a band for `want` of a host; returns it with the most granules that may go there.
    fn band_for_host(&mut self, table: &BandTable, want: &AllocationRequest) -> Option<(u64, u64)> {
        let all_in = |band| (band, want.count);
        let number = self.stream_for(table, want);
        self.placements += 1;
        let stream = &mut self.writers[number];
        (stream.writer, stream.last_used) = (Some(want.owner.file), self.placements);
        if let Some(band) = self.writers[number].band.filter(|&band| self.takes(table, band, want.count)) {
            return Some(all_in(band));
        }
        let spare = self.spare(table);
        if let Some(band) = self.new_band(table, want.count, number, spare) {
            self.writers[number].band = Some(band);
            return Some(all_in(band));
        }
        // Space or open bands are short, so another stream's band will do. `spare` leaves out hosts' bands, so it does not limit them.
        if let Some(band) = self.any(table, Streams::is_written_by_host) {
            return Some(all_in(band));
        }
        let others = self.any(table, |streams, band| streams.cleaner_band != Some(band)).or(self.cleaner_band);
        match others.filter(|_| spare > 0) {
            Some(band) => Some((band, want.count.min(spare))),
            // `new_band` has refused to open the band that it keeps for the cleaner. A host that would have to wait gets it.
            None if spare >= table.layout.granules && self.may_open(table) => {
                self.writers[number].band = self.open(table);
                self.writers[number].band.map(all_in)
            }
            None => None,
        }
    }

    /// Chooses a new band for a stream: an open one without a writer, or an empty one. `spare` is from `Streams::spare`.
    fn new_band(&mut self, table: &BandTable, count: u64, stream: usize, spare: u64) -> Option<u64> {
        let unused = match self.blocks {
            Blocks::Split => self.any(table, |streams, band| !streams.is_written(band)),
            Blocks::Whole => self.fitting(table, count, Some(stream)),
        };
        if let Some(band) = unused.filter(|&band| table.writable(band) <= spare) {
            return Some(band);
        }
        // If the cleaner has no open band, it may soon need one.
        let for_cleaner = u64::from(self.cleaner_band.is_none() && self.max_open > 1);
        if spare < table.layout.granules || table.open_for_disk() + for_cleaner >= self.max_open {
            return None;
        }
        self.open(table)
    }

    /// Chooses the stream for a write of a file, best first:
    ///
    /// 1. the file's own,
    /// 2. one without a writer whose cursor is where the file's last data ends,
    /// 3. the one without a writer that was used last,
    /// 4. the one not used for longest.
    fn stream_for(&self, table: &BandTable, want: &AllocationRequest) -> usize {
        let continues = |stream: &Stream| {
            want.after.is_some() && stream.band.map(|band| table.cursor(band)) == want.after && stream.writer.is_none()
        };
        let rank = |stream: &Stream| match stream.writer {
            Some(file) if file == want.owner.file => (3, stream.last_used),
            None if continues(stream) => (2, stream.last_used),
            None => (1, stream.last_used),
            Some(_) => (0, u64::MAX - stream.last_used),
        };
        (0..self.writers.len()).max_by_key(|&number| rank(&self.writers[number])).unwrap_or(0)
    }

    /// True if a stream may write its next `count` granules to its band.
    fn takes(&self, table: &BandTable, band: u64, count: u64) -> bool {
        match self.blocks {
            Blocks::Split => table.writable(band) > 0,
            Blocks::Whole => table.writable(band) >= count,
        }
    }

    /// The fullest open band with room for a whole block of `count` granules, and without another stream than `stream`. `None` if blocks may
    /// be split, because then any band will do.
    fn fitting(&self, table: &BandTable, count: u64, stream: Option<usize>) -> Option<u64> {
        if self.blocks == Blocks::Split {
            return None;
        }
        let own = stream.and_then(|number| self.writers[number].band);
        let free = |band: &u64| Some(*band) == own || !self.is_written(*band);
        let fits = table.open.iter().copied().filter(free).filter(|&band| table.writable(band) >= count);
        fits.min_by_key(|&band| table.writable(band))
    }

    fn may_open(&self, table: &BandTable) -> bool {
        !table.empty.is_empty() && table.open_for_disk() < self.max_open
    }

    /// Chooses the first empty band from the one opened last on, or else the first of all.
    fn open(&mut self, table: &BandTable) -> Option<u64> {
        let band = table.empty.range(self.last_opened..).next().or_else(|| table.empty.first()).copied()?;
        self.last_opened = band;
        Some(band)
    }

    /// The emptiest open band that `which` accepts.
    fn any(&self, table: &BandTable, which: impl Fn(&Streams, u64) -> bool) -> Option<u64> {
        let accepted = table.open.iter().copied().filter(|&band| which(self, band));
        accepted.max_by_key(|&band| table.writable(band))
    }
}
