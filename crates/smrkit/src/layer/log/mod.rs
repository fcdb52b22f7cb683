//! The log-structured layer: the scheme under the array paper (Le, Holliday, Amer), after Rosenblum and Ousterhout, "The
//! Design and Implementation of a Log-Structured File System", SOSP 1991.
//!
//! The drive is divided into segments (bands with guards). Every write is appended to an open segment; a map of extents finds each LBA.
//! When few segments are free, one is cleaned: its live sectors are read in runs and appended to the log. Left out: checkpoints of the map,
//! and the time to read the log after a power cut.
//!
//! [`Log`] follows [`LogRules`]; `zone_log` uses it with zones as segments, and with rules of its own.

mod clean;
pub(super) mod segments;
#[cfg(test)]
mod tests;
pub(super) mod victims;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::GarbageCollection;
use super::interface::IdleKeys;
use super::runs::read_unwritten;
use crate::extent_map::{ExtentMap, joined};
use crate::geometry::Divisor;
use crate::layer::prelude::*;
use crate::schema::{Time, Word};
use clean::{Job, LiveRun};
pub(super) use segments::BYTES_A_SEGMENT;
use segments::{FreeOrder, SegmentLayout, SegmentPlace, SegmentTable};
use victims::VictimPolicy;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<LogKeys>(
    "log",
    "Everything is appended to a log of segments; the live part of old segments is moved to clean them.",
    "Le, Holliday and Amer; Rosenblum and Ousterhout 1991",
    &Form::ALL,
)
.putting_rewriting_off();

keys! {
    struct LogKeys {
        /// Number of tracks in a segment, without its guard.
        segment_tracks: u64 = Count(1, 1 << 20), "20";
        /// Which segment is cleaned: the one closed first (fifo), the one with the least live data (greedy), or the
        /// best by age and live share (cost-benefit).
        policy: VictimPolicy = POLICY, "greedy";
        /// Share of the log that is not offered to the host, in addition to a reserve of a few segments.
        spare_percent: f64 = percent(0.1, 90.0), "7";
        /// Which data gets an open segment of its own: none, data that cleaning moves (hot), or the data of each source
        /// (source).
        separate: Separate = Separate::WORDS, "none";
        /// Whether a full disk has its spare segments at the outer edge instead of the inner one.
        spare_outer: bool = Switch, "off";
        /// Most waiting writes that are combined into one append.
        shared_writes: u64 = Count(1, 64), "1";
        /// Time that an append of host data takes in addition to its transfer, unless it continues the LBAs of the
        /// append before; clock means that the drive's clock determines the whole time.
        append_time: Option<Nanos> = Or("clock", Time(1)), "clock";
        /// Cleaning in idle time.
        idle: IdleKeys;
    }
}

const POLICY: Word<VictimPolicy> = Word(&[
    ("fifo", VictimPolicy::Fifo),
    ("greedy", VictimPolicy::Greedy),
    ("cost-benefit", VictimPolicy::CostBenefit),
]);
words! {
    enum Separate {
        None = "none",
        Hot = "hot",
        Source = "source",
    }
}

impl LayerKeys for LogKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(Log::new(drive, self)?))
    }
}

/// Sectors of the longest request that is whole or absent after a power cut; a longer one is divided into such parts (512 KiB: assumption).
pub(super) const WHOLE_SECTORS: u64 = 1024;

/// Free segments that only cleaning may use.
const RESERVE: u64 = 2;
/// Free segments beyond the reserve, below which cleaning is due.
const CLEAN_BELOW: u64 = 1;

/// The most sources with an open segment of their own; source i uses segment i modulo this (assumption).
const STREAMS_MAX: usize = 16;

/// If sources are separated, the fewest segments for each open one (assumption).
const SEGMENTS_A_STREAM: usize = 16;

/// Open segment that a write of the host goes to.
pub(super) enum HostStream {
    /// The first.
    First,
    /// One for each source.
    Source,
    /// One for each temperature of data (hot, warm, cold), or fewer if fewer are open. The last also takes data that cleaning moves.
    Temperature,
}

/// Write lifetime hints: the numbers of fcntl(2), RWH_WRITE_LIFE_NOT_SET to RWH_WRITE_LIFE_EXTREME.
pub(super) mod lifetime {
    pub const NOT_SET: u8 = 0;
    pub const SHORT: u8 = 2;
    pub const MEDIUM: u8 = 3;
    pub const LONG: u8 = 4;
    pub const EXTREME: u8 = 5;
}

/// The files written last, one for each open segment of the host. A file keeps its segment as long as it is one of them. A layer sees no
/// files, so stretches of LBAs stand in for them, separately for each source (assumption).
pub(in crate::layer) struct OpenFiles {
    file_sectors: Divisor,
    /// By open segment.
    files: Vec<OpenFile>,
    /// Writes so far.
    now: u64,
}

/// The file last written to an open segment.
#[derive(Clone, Serialize, Deserialize)]
struct OpenFile {
    file: u64,
    /// `OpenFiles::now` of the last write.
    written: u64,
    /// Lifetime of the segment's first data.
    life: u8,
}

/// The number of no file.
const NO_FILE: u64 = u64::MAX;
const SOURCE_BITS: u32 = u8::BITS;

state! { OpenFiles { sized: files; values: now; built: file_sectors; } }

impl OpenFiles {
    /// Files of `file_sectors` LBAs; none has been written.
    pub fn new(open_segments: usize, file_sectors: u64) -> OpenFiles {
        OpenFiles {
            file_sectors: Divisor::new(file_sectors),
            files: vec![OpenFile { file: NO_FILE, written: 0, life: lifetime::NOT_SET }; open_segments],
            now: 0,
        }
    }

    /// Chooses the stream for a write: the file's own or, if it has none, the one written longest ago of those whose lifetime fits best.
    /// `open` are the open segments by stream.
    pub fn stream(&mut self, source: u8, lba: Lba, life: Option<u8>, open: &[Option<u32>]) -> u8 {
        let file = self.file_sectors.quotient(lba.0) << SOURCE_BITS | u64::from(source);
        // Without a hint all streams fit equally well.
        let misfit = |stream: usize| {
            let open_life = open[stream].map(|_| self.files[stream].life);
            life.map_or(0, |life| lifetime_misfit(open_life, life))
        };
        let stream = match self.files.iter().position(|known| known.file == file) {
            Some(stream) => stream,
            None => {
                let all = 0..self.files.len();
                all.min_by_key(|&stream| (misfit(stream), self.files[stream].written)).unwrap_or(0)
            }
        };
        self.now += 1;
        // A segment keeps the lifetime of its first data.
        let first_life = self.files[stream].life;
        let keeps_life = open[stream].is_some() && first_life != lifetime::NOT_SET;
        let life = if keeps_life { first_life } else { life.unwrap_or(lifetime::NOT_SET) };
        self.files[stream] = OpenFile { file, written: self.now, life };
        stream as u8
    }
}

/// How badly data of lifetime `life` fits an open segment with data of lifetime `open`, or a new one (`None`). XFS first fills open zones
/// of the same short or medium life, then opens another, and then takes zones with similar lifetimes (xfs_zoned_hint_score and
/// xfs_select_zone_nowait in fs/xfs/xfs_zone_alloc.c).
fn lifetime_misfit(open: Option<u8>, life: u8) -> u8 {
    use lifetime::{EXTREME, LONG, MEDIUM, SHORT};
    let is_long = |life: u8| [LONG, EXTREME].contains(&life);
    match open {
        Some(open_life) if open_life == life && [SHORT, MEDIUM].contains(&life) => 0,
        None => 1,
        Some(open_life) if open_life == life || is_long(open_life) && is_long(life) => 2,
        Some(_) => 3,
    }
}

/// A contiguous stretch of a request that has been written.
#[derive(Clone, Copy)]
struct WrittenStretch {
    lba: Lba,
    sectors: u64,
    pba: Pba,
    segment: u32,
}

/// Rules by which a log is written and cleaned.
pub(super) struct LogRules {
    /// Open segments.
    pub streams: usize,
    /// How the host's writes choose a stream.
    pub host: HostStream,
    /// True if cleaning moves live data to the last open segment, instead of that of the data's stream.
    pub survivors_apart: bool,
    pub policy: VictimPolicy,
    pub free_order: FreeOrder,
    /// Segments that the host must leave free.
    pub reserve: u64,
    /// Cleaning is due below this many free segments beyond the reserve, or below the share `low_space` of the space that the host leaves
    /// unused, whichever is more.
    pub clean_below: u64,
    pub low_space: f64,
    /// Share of a segment that must be dead before it is cleaned.
    pub least_dead: f64,
    /// True if the number of a source is the lifetime of its data.
    pub hints: bool,
    /// True if a segment is free as soon as nothing in it is live.
    pub resets: bool,
    /// True if a full disk has its spare segments at the outer edge.
    pub spare_outer: bool,
    /// The most writes that are appended as one access.
    pub shared_writes: usize,
    /// What an append takes beyond its transfer time, unless it continues the LBAs of the append before; `None` if the clock decides.
    /// `sector_ps` is the transfer time of a sector in picoseconds.
    pub append: Option<Nanos>,
    pub sector_ps: u64,
    /// Delay of cleaning in idle time.
    pub idle: Option<Nanos>,
    /// Requests up to this length are whole or absent after a power cut.
    pub whole_sectors: u64,
    /// Sectors upstream of a rewritten one that the rewrite may damage (DPID).
    pub dpid_sectors: u64,
}

pub(super) struct Log {
    rules: LogRules,
    /// If the host has an open segment for each of the files written last.
    files: Option<OpenFiles>,
    segments: SegmentTable,
    /// The source that the next writes come from.
    source: u8,
    map: ExtentMap,
    job: Option<Job>,
    capacity: Capacity,
    /// Sectors that the host has written: the clock for the age of data.
    age: u64,
    /// Where the host's last write ended.
    host_end: Lba,
    /// True if the next append begins a write that does not continue at `host_end`.
    is_jump: bool,
    /// The parts of the request that is being written.
    parts: Vec<WrittenStretch>,
    /// The runs that a stage of cleaning moves.
    runs: Vec<LiveRun>,
    counts: LogCounts,
}

state! {
    Log {
        parts: files, segments;
        values: source, map, job, age, host_end, counts;
        built: rules, capacity, is_jump, parts, runs;
    }
}

#[derive(Default, Serialize, Deserialize)]
struct LogCounts {
    collections: u64,
    bands_cleaned: u64,
    /// Segments that became free without anything moved.
    resets: u64,
    /// Cleaned segments that still had live data to move.
    segments_moved: u64,
    first_cleaning_request: Option<u64>,
    garbage: GarbageCollection,
}

/// The host's share of a log.
#[derive(Clone, Copy)]
pub(super) struct HostShare {
    pub host_sectors: u64,
    /// Requests up to this length are whole or absent.
    pub whole_sectors: u64,
}

impl HostShare {
    /// The host's share of `log` sectors: what is left after `reserved` (open segments, the reserve, the gain of cleaning), one whole request, and
    /// `spare_percent` of the rest. `None` if nothing is left.
    pub fn new(log: u64, reserved: u64, spare_percent: f64) -> Option<HostShare> {
        let rest = log.saturating_sub(reserved);
        let whole_sectors = WHOLE_SECTORS.min(rest / 2);
        let host_sectors = ((rest - whole_sectors) as f64 * (1.0 - spare_percent / 100.0)) as u64;
        (host_sectors > 0).then_some(HostShare { host_sectors, whole_sectors })
    }
}

/// The segments of a drive, and the host's share of them.
struct LogPlan {
    layout: SegmentLayout,
    places: Vec<SegmentPlace>,
    /// Segments that hold any sector, and the sectors of all of them.
    usable: u64,
    sectors: u64,
    streams: usize,
    /// `None` if there is no room for the segments that are open or being cleaned.
    share: Option<HostShare>,
}

impl LogKeys {
    /// The plan for segments of `segment_tracks` tracks, which are not the parameter's when a remedy is sought.
    fn plan(&self, drive: &Drive, segment_tracks: u64) -> Result<LogPlan, Error> {
        let (layout, places) = SegmentLayout::of_bands(drive, segment_tracks)?;
        let lengths = || places.iter().map(|place| u64::from(place.sectors)).filter(|&sectors| sectors > 0);
        let (usable, sectors) = (lengths().count() as u64, lengths().sum());
        let streams = match self.separate {
            Separate::None => 1,
            Separate::Hot => 2,
            Separate::Source => (usable as usize / SEGMENTS_A_STREAM).clamp(1, STREAMS_MAX),
        };
        // An open segment for each stream, two that cleaning may need, and one that a round of it gains.
        let reserved = (streams as u64 + RESERVE + CLEAN_BELOW) * lengths().max().unwrap_or(0);
        let share = HostShare::new(sectors, reserved, self.spare_percent);
        Ok(LogPlan { layout, places, usable, sectors, streams, share })
    }

    /// The error for a drive without room for the segments that are open or being cleaned, with the remedy.
    fn too_few(&self, drive: &Drive, plan: &LogPlan) -> Error {
        let LogPlan { usable, sectors, streams, .. } = plan;
        let guards = drive.geometry.sectors - sectors;
        let why = if guards > *sectors { format!(" next to guards of {guards}") } else { String::new() };
        let has_room = |tracks: u64| self.plan(drive, tracks).is_ok_and(|plan| plan.share.is_some());
        let tracks = self.segment_tracks;
        let longest = drive.geometry.zones.iter().map(|zone| zone.tracks).max().unwrap_or(0);
        // Halves and doubles are tried: any length that helps will do.
        let mut shorter = (1..u64::BITS).map(|halvings| tracks >> halvings).filter(|&tracks| tracks > 0);
        let mut longer = (1..u64::BITS).filter_map(|doublings| tracks.checked_mul(1 << doublings));
        let remedy = if shorter.any(has_room) {
            "lower log.segment_tracks, or "
        } else if longer.any(|tracks| tracks <= longest && has_room(tracks)) {
            "raise log.segment_tracks, or "
        } else {
            ""
        };
        Error::Impossible(format!(
            "the drive holds {usable} segments of {sectors} sectors in all{why}, too few for {streams} open ones, three to clean \
             with and data: {remedy}take a larger drive"
        ))
    }
}

impl Log {
    fn new(drive: &Drive, keys: &LogKeys) -> Result<Log, Error> {
        let plan = keys.plan(drive, keys.segment_tracks)?;
        let Some(share) = plan.share else { return Err(keys.too_few(drive, &plan)) };
        let spare_sectors = plan.sectors - share.host_sectors;
        let capacity = Capacity::new(drive, share.host_sectors, 0, spare_sectors);
        let rules = LogRules {
            streams: plan.streams,
            host: if keys.separate == Separate::Source { HostStream::Source } else { HostStream::First },
            survivors_apart: keys.separate == Separate::Hot,
            policy: keys.policy,
            free_order: FreeOrder::Oldest,
            reserve: RESERVE,
            clean_below: CLEAN_BELOW,
            low_space: 0.0,
            least_dead: 0.0,
            hints: false,
            resets: false,
            spare_outer: keys.spare_outer,
            shared_writes: keys.shared_writes as usize,
            append: keys.append_time,
            sector_ps: drive.clock.sector_ps(&drive.geometry),
            idle: keys.idle.delay(),
            whole_sectors: share.whole_sectors,
            dpid_sectors: drive.interference.upstream(),
        };
        Ok(Log::by_rules(plan.layout, plan.places, capacity, rules, None))
    }

    /// An empty log of the segments at `places`, with these rules.
    pub(super) fn by_rules(
        layout: SegmentLayout,
        places: Vec<SegmentPlace>,
        capacity: Capacity,
        rules: LogRules,
        files: Option<OpenFiles>,
    ) -> Log {
        Log {
            segments: SegmentTable::new(layout, places, &rules),
            source: 0,
            rules,
            files,
            map: ExtentMap::new(),
            job: None,
            capacity,
            age: 0,
            host_end: Lba(0),
            is_jump: false,
            parts: Vec::new(),
            runs: Vec::new(),
            counts: LogCounts::default(),
        }
    }

    /// The stream of the host's next write.
    fn stream(&mut self, lba: Lba) -> u8 {
        // With hints, the number of a source is the lifetime of its data, as in fcntl(2).
        let life = self.rules.hints.then_some(self.source % (lifetime::EXTREME + 1));
        if let Some(files) = &mut self.files {
            return files.stream(self.source, lba, life, &self.segments.open);
        }
        match self.rules.host {
            HostStream::First => 0,
            HostStream::Source => (usize::from(self.source) % self.rules.streams) as u8,
            HostStream::Temperature => {
                // Hot, warm and cold data of f2fs (f2fs_rw_hint_to_seg_type in fs/f2fs/segment.c).
                let temperature = match life {
                    Some(lifetime::SHORT) => 0,
                    Some(lifetime::EXTREME) => 2,
                    _ => 1,
                };
                temperature.min(self.rules.streams as u8 - 1)
            }
        }
    }

    /// Writes runs of the host, `n` sectors in total: a request, a part of one, or several that were queued together. After a power cut all of
    /// them are there or none. `data` has their sectors one after another, from sector `at` on.
    fn write_whole(&mut self, disk: &mut Disk, runs: &[(Lba, u64)], n: u64, data: &Buf, at: u64) -> DiskResult {
        let stream = self.stream(runs[0].0);
        if n > self.segments.room(stream) || self.is_short(stream, n) {
            self.make_room(disk, stream, n)?;
        }
        self.age += n;
        self.parts.clear();
        self.append_runs(disk, (stream, Cause::Host), runs.iter().copied(), (data, at))?;
        // The map is updated only when all is written. Until then the replaced sectors stay live, so that cleaning keeps them.
        self.note_parts(self.age);
        Ok(())
    }

    /// Appends runs to a stream, divided into `parts` at the ends of segments. The map does not point to the parts yet.
    fn append_runs(
        &mut self,
        disk: &mut Disk,
        (stream, cause): (u8, Cause),
        runs: impl Iterator<Item = (Lba, u64)> + Clone,
        (data, at): (&Buf, u64),
    ) -> DiskResult {
        let n: u64 = runs.clone().map(|(_, sectors)| sectors).sum();
        let mut done = 0;
        // `written` counts sectors that are written and not yet in a part.
        let (mut segment, mut pba, mut written) = (0, Pba(0), 0);
        for (mut lba, mut left) in runs {
            while left > 0 {
                if written == 0 {
                    (segment, pba, written) = self.append(disk, stream, n - done, cause, data, at + done)?;
                    done += written;
                }
                let sectors = left.min(written);
                self.parts.push(WrittenStretch { lba, sectors, pba, segment });
                (lba, left) = (lba + sectors, left - sectors);
                (pba, written) = (pba + sectors, written - sectors);
            }
        }
        Ok(())
    }

    /// Points the map to the written parts. `age` is that of their data.
    fn note_parts(&mut self, age: u64) {
        self.map.fetch(self.parts.iter().map(|part| part.lba));
        for i in 0..self.parts.len() {
            let WrittenStretch { lba, sectors, pba, segment } = self.parts[i];
            self.map.replace(lba, sectors, Some(pba), |old, sectors| self.segments.remove_live(old, sectors));
            self.segments.add_live(segment, lba, sectors);
            // `end_write` closes a full segment, which must happen once, after its last part.
            if self.parts.get(i + 1).is_none_or(|next| next.segment != segment) {
                self.segments.end_write(segment, age);
            }
        }
        self.parts.clear();
        self.reset_emptied();
    }

    /// Writes the first of `n` sectors of `data`, from sector `at` on, as far as the open segment has room; returns (segment, PBA,
    /// sectors).
    #[inline]
    fn append(
        &mut self,
        disk: &mut Disk,
        stream: u8,
        n: u64,
        cause: Cause,
        data: &Buf,
        at: u64,
    ) -> DiskResult<(u32, Pba, u64)> {
        let index = self.segments.open_segment(stream)?;
        let segment = self.segments.get(index);
        let (pba, sectors) = (segment.head(), n.min(segment.room()));
        match self.rules.append {
            // The first append of a request that does not continue the one before takes the given time, not the clock's.
            Some(append) if self.is_jump && cause == Cause::Host && at == 0 => {
                let lasting = append + Nanos(self.rules.sector_ps.saturating_mul(sectors) / 1000);
                disk.write_lasting(lasting, pba, sectors, cause, data)?;
                self.is_jump = false;
            }
            _ => disk.write(pba, sectors, cause, data, at)?,
        }
        // After the write: a torn one leaves the head where it was, and is overwritten.
        self.segments.wrote(index, sectors);
        Ok((index, pba, sectors))
    }

    /// Frees the closed segments without live data.
    fn reset_emptied(&mut self) {
        if !self.segments.closed.emptied.is_empty() {
            self.counts.resets += self.segments.free_emptied();
        }
    }
}

impl Layer for Log {
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        joined(self.map.pieces(lba, n), |piece| match piece.pba {
            Some(pba) => disk.read(pba, piece.sectors, Cause::Host, out, piece.lba - lba),
            None => read_unwritten(disk, piece.lba, piece.sectors, out, piece.lba - lba),
        })
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        self.is_jump = lba != self.host_end;
        self.host_end = lba + n;
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.rules.whole_sectors);
            self.write_whole(disk, &[(lba + done, count)], count, data, done)?;
            done += count;
        }
        Ok(())
    }

    fn takes_together(&self) -> usize {
        self.rules.shared_writes
    }

    fn joint_sectors(&self) -> u64 {
        self.rules.whole_sectors
    }

    fn write_together(&mut self, disk: &mut Disk, writes: &[QueuedWrite]) -> DiskResult {
        let (data, n) = QueuedWrite::joined(disk, writes);
        if n > self.joint_sectors() {
            return writes.iter().try_for_each(|one| self.write(disk, one.lba, one.sectors, one.data));
        }
        self.is_jump = true;
        let runs: SmallVec<[(Lba, u64); 8]> = writes.iter().map(|one| (one.lba, one.sectors)).collect();
        self.write_whole(disk, &runs, n, &data, 0)
    }

    fn discard(&mut self, _disk: &mut Disk, lba: Lba, n: u64) -> DiskResult {
        self.map.replace(lba, n, None, |old, sectors| self.segments.remove_live(old, sectors));
        self.reset_emptied();
        Ok(())
    }

    /// Cleans in idle time only as long as it pays (see [`Log::cleaning_helps`]).
    fn step(&mut self, disk: &mut Disk, need: Need) -> DiskResult<bool> {
        let wanted = match need {
            Need::Must => self.job.as_ref().is_some_and(|job| !job.idle) || self.cleaning_is_due(),
            Need::Spare => self.rules.idle.is_some() && (self.job.is_some() || self.cleaning_helps()),
        };
        Ok(wanted && self.clean_stage(disk, need)?)
    }

    fn idle_delay(&self) -> Option<Nanos> {
        self.rules.idle
    }

    fn set_source(&mut self, source: u8) {
        self.source = source;
    }

    fn keeps_acknowledged(&self) -> bool {
        true
    }

    /// Fills the log as if every LBA had been appended once, in order: full segments, then one that is open, and the rest free.
    fn fill(&mut self) -> Arc<dyn Placement> {
        let host = self.capacity.host_sectors;
        if self.rules.spare_outer {
            self.segments.spare_first(host);
        }
        // The first LBA and the first PBA of each segment in use.
        let mut runs: Vec<(Lba, Pba)> = Vec::with_capacity(self.segments.free.len());
        let mut done = 0;
        while done < host
            && let Some((start, sectors)) = self.segments.fill(Lba(done), host - done)
        {
            runs.push((Lba(done), start));
            done += sectors;
        }
        self.age = host;
        let ends = runs.iter().skip(1).map(|run| run.0).chain([Lba(host)]);
        self.map = ExtentMap::of_runs(runs.iter().zip(ends).map(|(&(first, pba), end)| (pba, end - first)));
        let place = move |lba: Lba| {
            let (first, pba) = runs[runs.partition_point(|run| run.0 <= lba) - 1];
            pba + (lba - first)
        };
        Arc::new(Ascending::new(host, place))
    }

    /// The map survives (assumption: each segment records its contents). The torn request has no effect, and its sectors are skipped.
    fn power_cut(&mut self) {
        for part in std::mem::take(&mut self.parts) {
            self.segments.skip(part.segment, part.sectors);
        }
        self.segments.power_cut(self.rules.dpid_sectors);
        // A segment that holds only skipped sectors is freed at once, because cleaning must not find empty segments if `resets` is set.
        self.reset_emptied();
    }

    layer_state!();

    fn locate(&self, lba: Lba) -> Pba {
        self.map.get(lba).unwrap_or(Pba(lba.0))
    }

    fn is_mapped(&self, lba: Lba) -> bool {
        self.map.get(lba).is_some()
    }

    /// Checks that no two LBAs share a sector, that each lies in the written part of a segment, and the segments.
    fn check(&self) -> DiskResult {
        let mut live = vec![0; self.segments.all.len()];
        let mut places: Vec<(Pba, u64)> = Vec::new();
        for (lba, mut n, mut pba) in self.map.mapped(Lba(0), self.capacity.host_sectors) {
            places.push((pba, n));
            while n > 0 {
                let (at, count) = self.segments.part_at(pba, n);
                let is_written = pba < self.segments.get(at).head();
                ensure!(is_written, "LBA {lba} lies at PBA {pba}, where segment {at} was not written");
                live[at as usize] += count;
                (n, pba) = (n - count, pba + count);
            }
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            ensure!(pair[0].0 + pair[0].1 <= pair[1].0, "PBA {} belongs to two LBAs", pair[1].0);
        }
        for (at, (segment, live)) in self.segments.all.iter().zip(live).enumerate() {
            let counted = u64::from(segment.live);
            ensure!(counted == live, "segment {at} counts {counted} live sectors, but {live} are mapped");
        }
        self.segments.check(self.job.as_ref().map(|job| job.victim))
    }

    fn map_bytes(&self) -> u64 {
        self.map.bytes() + self.segments.bytes()
    }

    fn gauges(&self) -> Gauges {
        let free = self.segments.free.len() as f64;
        let others = vec![
            Gauge::count(if self.rules.resets { "free_zones" } else { "free_segments" }, free),
            Gauge::share("invalid_share", self.segments.invalid_share()),
            Gauge::count("log_sectors", self.segments.log_sectors as f64),
            Gauge::bytes("map_bytes", self.map_bytes()),
        ];
        Gauges { cache_fill: None, others }
    }

    fn room_before_cleaning(&self) -> Option<u64> {
        // Cleaning becomes due when a segment is taken that leaves fewer than `clean_below_sectors` free.
        let spare = self.segments.free_sectors.checked_sub(self.clean_below_sectors());
        Some(spare.map_or(0, |spare| spare + self.segments.room(0)))
    }

    fn stats(&self) -> LayerStats {
        let counts = &self.counts;
        let named = [("bands_cleaned", counts.bands_cleaned), ("moved_sectors", counts.garbage.moved_sectors)];
        let all =
            LayerStats::new(named, counts.first_cleaning_request).with("collections", Scalar::Int(counts.collections));
        if self.rules.resets { all.with("zones_reset", Scalar::Int(counts.resets)) } else { all }
    }

    fn bands_moved(&self) -> u64 {
        self.counts.segments_moved
    }

    fn garbage_collection(&self) -> Option<GarbageCollection> {
        self.rules.resets.then_some(self.counts.garbage)
    }

    fn reset_stats(&mut self) {
        self.counts = LogCounts::default();
    }
}
