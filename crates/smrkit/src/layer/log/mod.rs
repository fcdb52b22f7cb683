//! The log-structured layer: the scheme under the array paper (Le, Holliday, Amer), after Rosenblum and Ousterhout, "The
//! Design and Implementation of a Log-Structured File System", SOSP 1991.
//!
//! The drive is cut into segments (bands with guards). Every write is appended to an open segment; a map by extents says
//! where each LBA lies. When few segments are free, one is cleaned: its live sectors are read in runs and appended to the
//! log. Left out: checkpoints of the map, which would shorten the recovery that reads the whole log.

mod append;
mod check;
mod clean;
mod full;
mod label;
mod layout;
mod recovery;
mod segment;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{
    Capacity, Gauge, Gauges, Layer, LayerKeys, LayerSpec, Need, Scalar, TABLES_BYTES_MAX, inconsistent, stats_of,
};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::{DiskResult, Error};
use crate::extent_map::{ExtentMap, joined};
use crate::keys;
use crate::medium::interference::Form;
use crate::medium::{Buf, Placement};
use crate::quantity::Bytes;
use crate::schema::{Count, Word, percent};
use crate::tally::Cause;
use crate::units::{Lba, Pba};
use append::WrittenStretch;
use clean::{Job, LiveRun};
use layout::{SegmentLayout, Totals};
use segment::Segment;
use victims::{VictimPolicy, Victims};

pub(super) const SPEC: LayerSpec = LayerSpec::new::<LogKeys>(
    "log",
    "Everything is appended to a log of segments; the live part of old segments is moved to clean them.",
    "Le, Holliday and Amer; Rosenblum and Ousterhout 1991",
    &Form::ALL,
);

keys! {
    /// The parameters.
    #[derive(Clone)]
    struct LogKeys {
        /// Tracks of a segment, its guard not counted.
        segment_tracks: u64 = Count(1, 1 << 20), "20";
        /// Segment that is cleaned: the oldest, the one with the least live data, or by age and live share.
        policy: VictimPolicy = POLICY, "greedy";
        /// Share of the log not offered to the host, beyond a reserve of a few segments.
        spare_percent: f64 = percent(0.1, 90.0), "7";
        /// Open segments: one for all; one for what survived cleaning; or one for each source.
        separate: Separate = SEPARATE, "none";
    }
}

const POLICY: Word<VictimPolicy> = Word(&[
    ("fifo", VictimPolicy::Fifo),
    ("greedy", VictimPolicy::Greedy),
    ("cost-benefit", VictimPolicy::CostBenefit),
]);
const SEPARATE: Word<Separate> =
    Word(&[("none", Separate::None), ("hot", Separate::Hot), ("source", Separate::Source)]);

impl LayerKeys for LogKeys {
    fn capacity(&self, drive: &Drive) -> Result<Capacity, Error> {
        let totals = layout::totals(drive, self.segment_tracks)?;
        Ok(LogPlan::new(drive, &totals, self)?.capacity)
    }

    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Log::new(drive, self)?))
    }
}

/// A request of up to this many sectors is whole or absent after a power cut; a longer one is by parts. 512 KiB: assumption.
const WHOLE_SECTORS: u64 = 1024;

/// Sources that have an open segment of their own at most; source i has number i modulo this. Assumption.
const STREAMS_MAX: usize = 16;

/// Segments to every open one, at least, where sources are separated. Assumption.
const SEGMENTS_A_STREAM: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Separate {
    None,
    Hot,
    Source,
}

struct Log {
    layout: SegmentLayout,
    segments: Vec<Segment>,
    /// Free segments, the one that is used next first.
    free: VecDeque<u32>,
    free_sectors: u64,
    /// The open segment of each stream.
    open: Vec<Option<u32>>,
    separate: Separate,
    /// The source that the next writes come from.
    source: u8,
    victims: Victims,
    /// Sectors of closed segments without live data.
    closed_dead: u64,
    map: ExtentMap,
    job: Option<Job>,
    capacity: Capacity,
    /// Sectors of the longest segment.
    longest: u64,
    /// Requests up to this length are whole or absent.
    whole_sectors: u64,
    /// Sectors that the host has written: the time by which data ages.
    age: u64,
    /// Writes of the log so far.
    serial: u64,
    /// Sectors written since each segment was last free, and those of them that the map points to.
    log_sectors: u64,
    live_sectors: u64,
    entries: u64,
    /// The parts of the request that is being written.
    parts: Vec<WrittenStretch>,
    /// The runs that a stage of cleaning moves.
    runs: Vec<LiveRun>,
    counts: LogCounts,
}

#[derive(Default)]
struct LogCounts {
    requests: u64,
    collections: u64,
    bands_cleaned: u64,
    /// Segments cleaned that had something left to move.
    segments_moved: u64,
    moved_sectors: u64,
    first_cleaning_request: Option<u64>,
}

/// Shares of the segments.
struct LogPlan {
    separate: Separate,
    streams: usize,
    whole_sectors: u64,
    capacity: Capacity,
}

impl LogPlan {
    fn new(drive: &Drive, segments: &Totals, keys: &LogKeys) -> Result<LogPlan, Error> {
        let tables = segments.usable * (size_of::<Segment>() + size_of::<layout::SegmentPlace>()) as u64;
        if tables > TABLES_BYTES_MAX {
            return Err(Error::Impossible(format!(
                "{} segments take {} of memory, and tables may take {}: raise log.segment_tracks, or take a smaller drive",
                segments.usable,
                Bytes(tables),
                Bytes(TABLES_BYTES_MAX)
            )));
        }
        LogPlan::for_drive(drive, segments, keys).map_err(|streams| too_few(drive, segments, streams, keys))
    }

    /// The plan, or the number of streams that there is no room for.
    fn for_drive(drive: &Drive, segments: &Totals, keys: &LogKeys) -> Result<LogPlan, usize> {
        let Totals { usable, sectors: log, longest, .. } = *segments;
        let separate = keys.separate;
        let streams = match separate {
            Separate::None => 1,
            Separate::Hot => 2,
            Separate::Source => (usable as usize / SEGMENTS_A_STREAM).clamp(1, STREAMS_MAX),
        };
        // An open segment a stream, and three: two that cleaning may need, one that it gains at least in a round.
        let rest = log.saturating_sub((streams as u64 + 3) * longest);
        let whole_sectors = WHOLE_SECTORS.min(rest / 2);
        let spare = keys.spare_percent / 100.0;
        let host_sectors = ((rest - whole_sectors) as f64 * (1.0 - spare)) as u64;
        if host_sectors == 0 {
            return Err(streams);
        }
        let capacity = Capacity {
            raw_sectors: drive.geometry.sectors(),
            host_sectors,
            cache_sectors: 0,
            guard_sectors: drive.geometry.sectors() - log,
            spare_sectors: log - host_sectors,
        };
        Ok(LogPlan { separate, streams, whole_sectors, capacity })
    }
}

/// A drive without room for the segments that are open or being cleaned, and what helps.
fn too_few(drive: &Drive, segments: &Totals, streams: usize, keys: &LogKeys) -> Error {
    let Totals { usable, sectors, tracks, .. } = *segments;
    let guards = drive.geometry.sectors() - sectors;
    let why = if guards > sectors { format!(" next to guards of {guards}") } else { String::new() };
    let has_room = |tracks: u64| {
        let other = layout::totals(drive, tracks);
        other.is_ok_and(|other| LogPlan::for_drive(drive, &other, keys).is_ok())
    };
    let shorter = (1..u64::BITS).map(|halvings| tracks >> halvings).take_while(|&tracks| tracks > 0);
    let longest = drive.geometry.zones().iter().map(|zone| zone.tracks).max().unwrap_or(0);
    let longer = std::iter::successors(tracks.checked_mul(2), |tracks| tracks.checked_mul(2));
    let remedy = if shorter.into_iter().any(has_room) {
        "lower log.segment_tracks, or "
    } else if longer.take_while(|&tracks| tracks <= longest).any(has_room) {
        "raise log.segment_tracks, or "
    } else {
        ""
    };
    Error::Impossible(format!(
        "the drive holds {usable} segments of {sectors} sectors in all{why}, too few for {streams} open ones, three to clean \
         with and data: {remedy}take a larger drive"
    ))
}

impl Log {
    fn new(drive: &Drive, keys: &LogKeys) -> Result<Log, Error> {
        let segment_tracks = keys.segment_tracks;
        let totals = layout::totals(drive, segment_tracks)?;
        let LogPlan { separate, streams, whole_sectors, capacity } = LogPlan::new(drive, &totals, keys)?;
        let (layout, places) = SegmentLayout::new(drive, segment_tracks);
        let free = (0..places.len() as u32).filter(|&at| places[at as usize].sectors > 0).collect();
        Ok(Log {
            layout,
            segments: places.into_iter().map(Segment::new).collect(),
            free,
            free_sectors: totals.sectors,
            open: vec![None; streams],
            separate,
            source: 0,
            victims: Victims::new(keys.policy),
            closed_dead: 0,
            map: ExtentMap::new(),
            job: None,
            capacity,
            longest: totals.longest,
            whole_sectors,
            age: 0,
            serial: 0,
            log_sectors: 0,
            live_sectors: 0,
            entries: 0,
            parts: Vec::new(),
            runs: Vec::new(),
            counts: LogCounts::default(),
        })
    }

    /// The stream of the host's next write.
    #[inline]
    fn stream(&self) -> u8 {
        match self.separate {
            Separate::Source => (usize::from(self.source) % self.open.len()) as u8,
            _ => 0,
        }
    }
}

/// Reads sectors that were never written: the time of a conventional disk, and zeros.
fn read_unwritten(disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf, at: u64) -> DiskResult {
    let mut scratch = disk.buf(n);
    disk.read(Pba(lba.0), n, Cause::Host, &mut scratch, 0)?;
    out.put(at, &disk.buf(n), 0, n);
    Ok(())
}

impl Layer for Log {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    #[inline]
    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        self.counts.requests += 1;
        joined(self.map.pieces(lba, n), |piece| match piece.pba {
            Some(pba) => disk.read(pba, piece.sectors, Cause::Host, out, piece.lba - lba),
            None => read_unwritten(disk, piece.lba, piece.sectors, out, piece.lba - lba),
        })
    }

    #[inline]
    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.whole_sectors);
            self.write_whole(disk, lba + done, count, data, done)?;
            done += count;
        }
        self.counts.requests += 1;
        Ok(())
    }

    fn discard(&mut self, disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.counts.requests += 1;
        for (_, sectors, pba) in self.map.mapped(lba, n) {
            disk.discard(pba, sectors)?;
        }
        self.forget(lba, n);
        self.map.remove(lba, n);
        Ok(())
    }

    fn flush(&mut self, disk: &mut Disk) -> DiskResult {
        self.counts.requests += 1;
        disk.flush()
    }

    /// Cleaning ahead of need only finds more live data to move, so that nothing is done in idle time but what is due.
    #[inline]
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        if need == Need::Spare || self.job.is_none() && !self.cleaning_is_due() {
            return Ok(false);
        }
        self.clean_stage(disk)
    }

    fn set_source(&mut self, source: u8) {
        self.source = source;
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    fn fill(&mut self) -> Arc<dyn Placement> {
        self.fill_in_order()
    }

    fn recover(&mut self, disk: &mut Disk) -> DiskResult {
        self.rebuild(disk)
    }

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or(Pba(lba.0))
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        self.check_books()
    }

    fn map_bytes(&self) -> u64 {
        let lists = self.entries * size_of::<segment::SegmentEntry>() as u64;
        self.map.bytes() + lists + (self.segments.capacity() * size_of::<Segment>()) as u64 + self.victims.bytes()
    }

    fn gauges(&self) -> Gauges {
        let invalid = self.log_sectors - self.live_sectors;
        let others = vec![
            Gauge::count("free_segments", self.free.len() as f64),
            Gauge::share("invalid_share", invalid as f64 / self.log_sectors.max(1) as f64),
            Gauge::count("log_sectors", self.log_sectors as f64),
            Gauge::count("map_bytes", self.map_bytes() as f64),
        ];
        Gauges { cache_fill: None, others }
    }

    fn stats(&self) -> BTreeMap<String, Scalar> {
        let counts = &self.counts;
        let named = [
            ("collections", counts.collections),
            ("bands_cleaned", counts.bands_cleaned),
            ("moved_sectors", counts.moved_sectors),
        ];
        stats_of(named, counts.first_cleaning_request)
    }

    fn bands_moved(&self) -> u64 {
        self.counts.segments_moved
    }

    fn reset_stats(&mut self) {
        self.counts = LogCounts::default();
    }
}
