//! Streams of data: open bands, one for each of a few writers and one for what the cleaner moves.
//!
//! Data written together tends to die together, and what survived cleaning is colder than what hosts write; so they lie in
//! bands of their own as long as room and the limit of open bands allow. When they don't, any open band serves anyone.

use super::options::Blocks;
use super::table::BandTable;
use crate::space::AllocationRequest;
use crate::units::{NodeId, Span};

/// An open band that is written by one file at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    band: Option<u64>,
    writer: Option<NodeId>,
    used: u64,
}

/// The open bands and who writes to them.
#[derive(Debug)]
pub(super) struct Streams {
    writers: Vec<Stream>,
    moved: Option<u64>,
    blocks: Blocks,
    max_open: u64,
    reserve: u64,
    /// The band opened last; the next one is looked for behind it.
    last_opened: u64,
    /// Counts placements.
    used: u64,
}

impl Streams {
    pub fn new(writers: u64, blocks: Blocks, max_open: u64, reserve: u64) -> Streams {
        // One band is left to the cleaner, and one to a write that fails.
        let writers = writers.min(max_open.saturating_sub(2)).max(1);
        Streams {
            writers: vec![Stream::default(); writers as usize],
            moved: None,
            blocks,
            max_open,
            reserve,
            last_opened: 0,
            used: 0,
        }
    }

    /// Nobody writes to that file any more.
    pub fn closed(&mut self, file: NodeId) {
        for stream in self.writers.iter_mut().filter(|stream| stream.writer == Some(file)) {
            stream.writer = None;
        }
    }

    /// A band is not written any more.
    pub fn forget(&mut self, band: u64) {
        for stream in self.writers.iter_mut().filter(|stream| stream.band == Some(band)) {
            stream.band = None;
        }
        self.moved = self.moved.filter(|&moved| moved != band);
    }

    /// The open band that takes what the cleaner moves.
    pub fn moved(&self) -> Option<u64> {
        self.moved
    }

    /// True if a band is written by anyone.
    pub fn taken(&self, band: u64) -> bool {
        self.moved == Some(band) || self.is_writers(band)
    }

    fn is_writers(&self, band: u64) -> bool {
        self.writers.iter().any(|stream| stream.band == Some(band))
    }

    /// True if anything can be placed for a host.
    pub fn can_place(&self, table: &BandTable) -> bool {
        let spare = self.spare(table);
        let own = self.writers.iter().filter(|stream| stream.band.is_some()).count();
        own > 0 || (spare > 0 && !table.open.is_empty()) || (spare >= table.layout.granules && self.may_open(table))
    }

    /// Granules that hosts may take of what they have no band of their own for. The cleaner must keep room for as many
    /// bands as are in reserve, empty or open: in the midst of a band, or after a power cut there, it could not go on.
    fn spare(&self, table: &BandTable) -> u64 {
        let own: u64 = self.writers.iter().filter_map(|stream| stream.band).map(|band| table.rest(band)).sum();
        let size = table.layout.granules;
        (table.sums().open_rest - own + table.empty.len() as u64 * size).saturating_sub(self.reserve * size)
    }

    /// Place of the next granules of `want`: at a cursor, at most up to the band's end.
    pub fn place(&mut self, table: &BandTable, want: &AllocationRequest) -> Option<Span> {
        let (band, most) = match want.moving {
            true => (self.band_for_cleaner(table, want.count)?, want.count),
            false => self.band_for_host(table, want)?,
        };
        Some(Span { at: table.cursor(band), count: table.rest(band).min(most) })
    }

    fn band_for_cleaner(&mut self, table: &BandTable, count: u64) -> Option<u64> {
        if let Some(band) = self.moved.filter(|&band| self.takes(table, band, count)) {
            return Some(band);
        }
        let band = self
            .fitting(table, count, None)
            .or_else(|| self.may_open(table).then(|| self.open(table)).flatten())
            .or_else(|| self.any(table, |streams, band| !streams.taken(band)))
            .or_else(|| self.any(table, |_, _| true))?;
        if !self.is_writers(band) {
            self.moved = Some(band);
        }
        Some(band)
    }

    /// A band and how many granules at most.
    fn band_for_host(&mut self, table: &BandTable, want: &AllocationRequest) -> Option<(u64, u64)> {
        let number = self.stream_for(table, want);
        self.used += 1;
        let used = self.used;
        let stream = &mut self.writers[number];
        (stream.writer, stream.used) = (Some(want.owner.file), used);
        if let Some(band) = self.writers[number].band.filter(|&band| self.takes(table, band, want.count)) {
            return Some((band, want.count));
        }
        let spare = self.spare(table);
        if let Some(band) = self.new_band(table, want.count, number, spare) {
            self.writers[number].band = Some(band);
            return Some((band, want.count));
        }
        // Short of space or of open bands: any that is open, the cleaner's last.
        if let Some(band) = self.any(table, Streams::is_writers) {
            return Some((band, want.count));
        }
        let others = self.any(table, |streams, band| streams.moved != Some(band)).or(self.moved);
        match others.filter(|_| spare > 0) {
            Some(band) => Some((band, want.count.min(spare))),
            None if spare >= table.layout.granules && self.may_open(table) => {
                self.writers[number].band = self.open(table);
                self.writers[number].band.map(|band| (band, want.count))
            }
            None => None,
        }
    }

    /// A band for a stream to go on with: one that nobody has, or an empty one.
    fn new_band(&mut self, table: &BandTable, count: u64, stream: usize, spare: u64) -> Option<u64> {
        let nobodys = match self.blocks {
            Blocks::Split => self.any(table, |streams, band| !streams.taken(band)),
            Blocks::Whole => self.fitting(table, count, Some(stream)),
        };
        if let Some(band) = nobodys.filter(|&band| table.rest(band) <= spare) {
            return Some(band);
        }
        let for_cleaner = u64::from(self.moved.is_none() && self.max_open > 1);
        if spare < table.layout.granules || table.open_for_disk() + for_cleaner >= self.max_open {
            return None;
        }
        self.open(table)
    }

    /// The stream whose cursor continues the file, or that the file has, or the last one that nobody has, or the oldest.
    fn stream_for(&self, table: &BandTable, want: &AllocationRequest) -> usize {
        let continues = |stream: &Stream| {
            want.after.is_some() && stream.band.map(|band| table.cursor(band)) == want.after && stream.writer.is_none()
        };
        let best = |stream: &Stream| match stream.writer {
            Some(file) if file == want.owner.file => (3, stream.used),
            None if continues(stream) => (2, stream.used),
            None => (1, stream.used),
            Some(_) => (0, u64::MAX - stream.used),
        };
        (0..self.writers.len()).max_by_key(|&number| best(&self.writers[number])).unwrap_or(0)
    }

    /// True if a band of one's own is gone on with.
    fn takes(&self, table: &BandTable, band: u64, count: u64) -> bool {
        match self.blocks {
            Blocks::Split => table.rest(band) > 0,
            Blocks::Whole => table.rest(band) >= count,
        }
    }

    /// Band for a whole block: the fullest that nobody else has and that holds `count`.
    fn fitting(&self, table: &BandTable, count: u64, stream: Option<usize>) -> Option<u64> {
        if self.blocks == Blocks::Split {
            return None;
        }
        let own = stream.and_then(|number| self.writers[number].band);
        let free = |band: &u64| Some(*band) == own || !self.taken(*band);
        let fits = table.open.iter().copied().filter(free).filter(|&band| table.rest(band) >= count);
        fits.min_by_key(|&band| table.rest(band))
    }

    fn may_open(&self, table: &BandTable) -> bool {
        !table.empty.is_empty() && table.open_for_disk() < self.max_open
    }

    /// The next empty band behind the one opened last.
    fn open(&mut self, table: &BandTable) -> Option<u64> {
        let band = table.empty.range(self.last_opened..).next().or_else(|| table.empty.first()).copied()?;
        self.last_opened = band;
        Some(band)
    }

    /// The emptiest open band that `which` accepts.
    fn any(&self, table: &BandTable, which: impl Fn(&Streams, u64) -> bool) -> Option<u64> {
        let accepted = table.open.iter().copied().filter(|&band| which(self, band));
        accepted.max_by_key(|&band| table.rest(band))
    }

    /// Compares the streams with the table.
    pub fn check(&self, table: &BandTable) -> Result<(), String> {
        let bands = self.writers.iter().filter_map(|stream| stream.band).chain(self.moved);
        let mut bands: Vec<u64> = bands.collect();
        if let Some(band) = bands.iter().find(|&&band| !table.open.contains(&band)) {
            return Err(format!("band {band} is written and not open: {:?}", table.get(*band)));
        }
        bands.sort_unstable();
        match bands.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(format!("band {} is written by two streams", two[0])),
            None => Ok(()),
        }
    }
}
