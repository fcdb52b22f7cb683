//! Virtual Guard: Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017.
//!
//! Writes go in place; the track that they would damage is copied to a persistent cache first. Bands are cleaned when too much is cached.
//! Under laws that count in sectors, a write damages sectors of its own track. Then nothing can be written in place, and the written track
//! itself is moved to the cache. Left out: the timing of commands in the paper's own simulator.

mod log;
#[cfg(test)]
mod tests;
mod writing;

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bands::{BandKeys, BufferKeys, Cleaner, Episode, Home, HomeLocation, Reserve};
use super::interface::IdleKeys;
use super::record_sectors;
use crate::extent_map::{MappedPiece, joined};
use crate::layer::prelude::*;
use log::{Slots, TrackLog};
use writing::CommandShare;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<VguardKeys>(
    "vguard",
    "Writes are made in place, after the track that they would damage has been copied to a persistent cache.",
    "Shafaei & Desnoyers 2017",
    &Form::ALL,
);

keys! {
    #[derive(Clone)]
    struct VguardKeys {
        /// Bands and the persistent cache.
        bands: BandKeys;
        /// Number of cached tracks above which cleaning is due; auto is 2/3 of `cache_tracks`.
        alpha: Option<u64> = THRESHOLD, "auto";
        /// Length of the log above which cleaning is due, in copied tracks, including invalid ones; auto is 2/3 of
        /// `cache_tracks`.
        beta: Option<u64> = THRESHOLD, "auto";
        /// Memory.
        buffer: BufferKeys;
        /// Whether cleaning a band stops before the next cached track; otherwise it continues to the band's end.
        partial: bool = Switch, "on";
        /// How much cleaning of an episode a command does before it is served: one phase of a band (phase), a whole
        /// band (band), or the whole episode (episode).
        spread: CommandShare = CommandShare::WORDS, "phase";
        /// Idle time. The paper leaves it unused: it would take away the guards of what is written often (section 2.3).
        idle: IdleKeys;
    }
}

const THRESHOLD: Or<Count> = Or("auto", Count(1, 1 << 30));

impl LayerKeys for VguardKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        Ok(self.plan(drive)?.0.capacity)
    }

    fn settled(self, drive: &Drive) -> VguardKeys {
        let (alpha, beta) = self.thresholds(drive);
        let bands = BandKeys { cache_tracks: Some(self.bands.cache_tracks(drive)), ..self.bands };
        VguardKeys { bands, alpha: Some(alpha), beta: Some(beta), ..self }
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Vguard::new(drive, self)?))
    }
}

/// One in this many cache tracks is kept free by cleaning (assumption).
const KEPT_FREE_SHARE: u64 = 64;

struct VguardSettings {
    alpha: u64,
    beta: u64,
    partial: bool,
    spread: CommandShare,
    idle_delay: Option<Nanos>,
    /// True if a write does not damage the rest of its own track.
    in_place: bool,
    /// Cleaning is due when the log takes more slots than this, so that commands rarely find no room.
    slots_limit: u64,
    /// The most valid entries that a copy of the map has room for, and the length of a copy.
    entries_max: u64,
    copy_sectors: u64,
    entry_bits: u64,
}

/// The copies of the map on the platters from which a drive would read its map after a power cut.
#[derive(Default, Serialize, Deserialize)]
struct SavedMap {
    /// The log's tail in the newest copy. Slots before it may be overwritten.
    tail: u64,
    /// Number of the newest entry when the last map slot was written, and the log's head then. The log would be followed from there.
    number: u64,
    head: u64,
    next_slot: usize,
    /// Home tracks that the newest copy says are cached or being cleaned, and that were rewritten since.
    rewritten: Vec<Range<u32>>,
}

struct Vguard {
    home: Home,
    log: TrackLog,
    cleaner: Cleaner,
    episode: Episode,
    settings: VguardSettings,
    saved: SavedMap,
    counts: VguardCounts,
}

state! {
    Vguard {
        parts: log;
        values: cleaner, episode, saved, counts;
        built: home, settings;
    }
}

counts! {
    VguardCounts {
        guard_copies,
        relocations,
        bands_cleaned,
        map_writes,
        cached_tracks_max,
        cache_tracks_active_max,
        log_length_max
    }
}

impl VguardKeys {
    /// The thresholds on cached tracks and on the log's length.
    fn thresholds(&self, drive: &Drive) -> (u64, u64) {
        let auto = self.bands.cache_tracks(drive) * 2 / 3;
        (self.alpha.unwrap_or(auto), self.beta.unwrap_or(auto))
    }

    /// Layout and limits of the layer on a drive.
    fn plan(&self, drive: &Drive) -> Result<(Home, Slots, VguardSettings), Error> {
        let reserve = Reserve::new(drive, &self.bands, &self.buffer);
        let cache_tracks = reserve.cache_tracks;
        let (alpha, beta) = self.thresholds(drive);
        // Cleaning is paced, so at times a little more than alpha is cached.
        let entries_max = alpha.saturating_add((alpha / 16).max(64)).min(cache_tracks);
        let copy_sectors = copy_sectors(drive, cache_tracks, entries_max);
        let home = Home::new("vguard", drive, &Reserve { map_sectors: copy_sectors, ..reserve })?;
        // The slots that one write needs.
        let least = |slots: &Slots| slots.skipped + home.reach.max(1) * slots.most + home.reach;
        let slots = Slots::new(&drive.geometry, cache_tracks, copy_sectors, home.lengths()[0]);
        let Some(slots) = slots.filter(|slots| least(slots) <= cache_tracks) else {
            return Err(Error::Impossible(format!(
                "a cache of {cache_tracks} tracks is too small for the tracks that one write may move there: raise \
                 vguard.cache_tracks"
            )));
        };
        let kept_free = cache_tracks / KEPT_FREE_SHARE + least(&slots) + 2 * (1 + home.reach) * slots.most;
        let settings = VguardSettings {
            alpha,
            beta,
            partial: self.partial,
            spread: self.spread,
            idle_delay: self.idle.delay(),
            in_place: !matches!(drive.interference.form(), Some(Form::Blocks | Form::Distances)),
            slots_limit: cache_tracks.saturating_sub(kept_free),
            entries_max,
            copy_sectors,
            entry_bits: track_bits(drive) + bits(cache_tracks),
        };
        Ok((home, slots, settings))
    }
}

/// Words of a copy of the map before its entries: kind, number, place and track of the newest entry, the stage of cleaning under way.
const COPY_HEAD_WORDS: u64 = 9;

/// Sectors of a copy of the map. A copy follows each cached track, and now and then is written to a slot of its own. It records which slots
/// hold valid entries (a bit for each) and of which tracks: about 30 KB for the 5 TB drive, as in the paper. The next entry overwrites a torn
/// one, which may damage sectors upstream (DPID); a copy is at least as long, so that no track's data is within that distance.
fn copy_sectors(drive: &Drive, slots: u64, entries_max: u64) -> u64 {
    let words = (entries_max * track_bits(drive)).div_ceil(64) + slots.div_ceil(64);
    record_sectors(COPY_HEAD_WORDS + words).max(drive.interference.upstream())
}

fn track_bits(drive: &Drive) -> u64 {
    bits(drive.geometry.tracks.min(u64::from(u32::MAX)))
}

/// Bits needed to number `count` things.
fn bits(count: u64) -> u64 {
    u64::from(64 - (count.max(2) - 1).leading_zeros())
}

impl Vguard {
    fn new(drive: &Drive, keys: &VguardKeys) -> Result<Vguard, Error> {
        let (home, slots, settings) = keys.plan(drive)?;
        Ok(Vguard {
            log: TrackLog::new(slots, &home),
            home,
            cleaner: Cleaner::default(),
            episode: Episode::default(),
            settings,
            saved: SavedMap::default(),
            counts: VguardCounts::default(),
        })
    }

    /// Current place of a sector.
    #[inline]
    fn place(&self, spot: &HomeLocation) -> Pba {
        if let Some(entry) = self.log.find(spot.track) {
            return entry.pba + spot.offset;
        }
        // While a band is rewritten, the only intact copy of a track may be in the scratch pad.
        if self.cleaner.is_working()
            && let Some(start) = self.cleaner.scratch_copy(&self.home, spot.track)
        {
            return start + spot.offset;
        }
        spot.pba
    }

    /// Reads several tracks; sectors that are contiguous on the platters in one access.
    fn read_long(&self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let mut done = 0;
        let pieces = std::iter::from_fn(|| {
            let spot = (done < n).then(|| self.home.spot(lba + done))?;
            let piece = MappedPiece { lba: lba + done, sectors: spot.left.min(n - done), pba: Some(self.place(&spot)) };
            done += piece.sectors;
            Some(piece)
        });
        joined(pieces, |MappedPiece { lba: first, sectors, pba }| {
            pba.map_or(Ok(()), |pba| disk.read(pba, sectors, Cause::Host, out, first - lba))
        })
    }

    fn check_log(&self) -> DiskResult {
        let (mut last, mut valid, mut slots) = (0, 0, 0);
        for entry in &self.log.entries {
            if entry.position < last {
                return inconsistent(format!("the cached track {} begins inside the one before", entry.track));
            }
            last = entry.position + entry.slots;
            if entry.valid {
                (valid, slots) = (valid + 1, slots + entry.slots);
                if self.log.find(entry.track).map(|found| found.position) != Some(entry.position) {
                    return inconsistent(format!("two copies of track {} are valid", entry.track));
                }
            }
        }
        let head = self.log.head;
        match (valid, slots) == (self.log.valid_entries, self.log.active_slots) {
            false => inconsistent(format!("{valid} cached tracks in {slots} slots, but the counts differ")),
            true if last > head => inconsistent(format!("the log's head {head} lies before its end {last}")),
            true if head + self.home.reach > self.saved.tail + self.log.slots() => {
                inconsistent(format!("no guard between the log's head {head} and its tail {}", self.saved.tail))
            }
            true => Ok(()),
        }
    }

    /// Writes a copy of the map to the next map slot.
    fn save(&mut self, disk: &mut Disk) -> DiskResult {
        let slot = self.saved.next_slot;
        disk.write_metadata(self.home.maps[slot], self.settings.copy_sectors)?;
        // After the write, because a torn copy frees nothing.
        self.saved = SavedMap {
            tail: self.log.tail(),
            number: self.log.next_number() - 1,
            head: self.log.head,
            next_slot: (slot + 1) % self.home.maps.len(),
            rewritten: Vec::new(),
        };
        self.counts.map_writes += 1;
        Ok(())
    }

    /// Memory of a map of `entries` entries (equation 1 of the paper).
    fn bytes_of_map(&self, entries: u64) -> u64 {
        (entries * self.settings.entry_bits).div_ceil(8)
    }
}

impl Layer for Vguard {
    fn capacity(&self) -> Capacity {
        self.home.capacity
    }

    #[inline]
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        let spot = self.home.spot(lba);
        if n <= spot.left {
            return disk.read(self.place(&spot), n, Cause::Host, out, 0);
        }
        self.read_long(disk, lba, n, out)
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let spot = self.home.spot(lba + done);
            let sectors = spot.left.min(n - done);
            self.write_piece(disk, &spot, sectors, data, done)?;
            done += sectors;
        }
        Ok(())
    }

    /// Does nothing: tracks are copied whole, so discarded sectors save no work.
    fn discard(&mut self, _disk: &mut Disk, _lba: Lba, _n: u64) -> DiskResult {
        Ok(())
    }

    #[inline]
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        match need {
            Need::Must => self.clean_what_is_due(disk),
            Need::Spare => self.clean_idly(disk),
        }
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.settings.idle_delay
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// All data is at home, and every track counts as in use.
    fn fill(&mut self) -> Arc<dyn Placement> {
        self.home.placement()
    }

    /// The map survives (assumption: its copies hold all of it), and so do the tracks that cleaning saved in the scratch pad.
    fn power_cut(&mut self) {
        self.cleaner.power_cut();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.place(&self.home.spot(lba))
    }

    fn check(&self) -> DiskResult {
        if self.log.valid_entries > self.settings.entries_max {
            return inconsistent(format!(
                "{} tracks are cached, more than a copy of the map holds",
                self.log.valid_entries
            ));
        }
        self.check_log()
    }

    /// Memory for as many entries as may be used before cleaning is due.
    fn map_bytes(&self) -> u64 {
        self.bytes_of_map(self.settings.alpha.min(self.log.slots()))
    }

    fn gauges(&self) -> Gauges {
        let (active, length) = (self.log.active_slots as f64, self.log.length() as f64);
        let invalid = if length > 0.0 { 1.0 - self.log.valid_entries as f64 / length } else { 0.0 };
        Gauges {
            cache_fill: Some(active / self.log.slots() as f64),
            others: vec![
                Gauge::count("cached_tracks", self.log.valid_entries as f64),
                Gauge::count("cache_tracks_active", active),
                Gauge::count("log_length", length),
                Gauge::share("invalid_share", invalid),
                Gauge::bytes("map_bytes", self.bytes_of_map(self.log.valid_entries)),
            ],
        }
    }

    fn stats(&self) -> LayerStats {
        self.counts.stats()
    }

    fn bands_moved(&self) -> u64 {
        self.counts.bands_cleaned
    }

    fn reset_stats(&mut self) {
        self.counts = VguardCounts::default();
        self.note_fill();
    }
}
