//! The write-back cache of a drive: memory in front of the layer, the same for every layer.
//!
//! A write completes once the bus has carried it here, and is destaged later, in the drive's own order: the run nearest to the head first
//! or, on a layer that appends anyway, the oldest. Writes that overlap or touch become one run. A power cut loses what is held and was not
//! flushed.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::LayeredDisk;
use crate::drive::Position;
use crate::medium::Buf;
use crate::request::Request;
use crate::state::state;
use crate::units::{Lba, Nanos};

/// Runs that are held at most (assumption). With this many a disk does two to three times as many small random writes as without a cache,
/// as real disks do, and a flush ends within a second. A layer that takes batches of more than half of it gets room for two batches: one
/// gathers while the other is written.
const RUNS_MAX: usize = 40;
/// After this long without a command the drive destages what it holds (assumption).
const QUIET: Nanos = Nanos(100_000_000);
/// Age from which on a write goes to the platters before anything else (assumption).
const AGE_MAX: Nanos = Nanos(3_000_000_000);
/// From this length on a run is a stream, which goes to the layer alone: 512 KiB (assumption).
const STREAM_SECTORS: u64 = 1024;
/// Sectors that are destaged at once if the layer has no bands, so that commands need not wait long: 8 MiB (assumption).
const BATCH_SECTORS_MAX: u64 = 16_384;

/// Contiguous sectors that wait to be destaged.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct CachedRun {
    pub lba: Lba,
    pub sectors: u64,
    /// Stamps, in check mode.
    #[serde(skip)]
    pub data: Buf,
    /// Source of its last write.
    pub source: u8,
    /// Number of its first write.
    order: u64,
    /// When its first and its last write arrived.
    since: Nanos,
    last: Nanos,
    /// When its batch became complete, if it has: waiting longer would not make it longer.
    complete_at: Option<Nanos>,
    /// Where its first sector was on the platters when it arrived; `None` on a layer that appends, where it does not matter.
    position: Option<Position>,
    /// End of the band in which it begins.
    band_end: Lba,
    /// True if the beginning of its run has been destaged already.
    is_rest: bool,
}

impl CachedRun {
    fn end(&self) -> Lba {
        self.lba + self.sectors
    }

    fn is_stream(&self) -> bool {
        self.sectors >= STREAM_SECTORS || self.is_rest
    }

    /// Sectors that are destaged at once, if it is a stream.
    fn batch_sectors(&self) -> u64 {
        if self.band_end == Lba(u64::MAX) { BATCH_SECTORS_MAX } else { self.band_end - self.lba }
    }

    /// Notes a change at `now`.
    fn note_change(&mut self, now: Nanos) {
        let is_complete = self.is_stream() && self.sectors >= self.batch_sectors();
        self.complete_at = self.complete_at.or(Some(now)).filter(|_| is_complete);
    }

    /// When it may be destaged. A stream that still grows waits until it reaches the end of its band: if it ended earlier, the layer would
    /// have to save the tracks downstream, which the rest of the stream will overwrite.
    fn ready_at(&self) -> Nanos {
        let waits = self.is_stream() && self.band_end < Lba(u64::MAX) && self.end() < self.band_end;
        if waits { (self.last + QUIET).min(self.since + AGE_MAX) } else { Nanos::ZERO }
    }
}

/// What a batch is destaged for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DestageFor {
    /// Room in the cache, at once or later.
    Room,
    /// A flush, which waits for everything.
    Flush,
}

/// A batch that is being destaged: its sectors become free as they are written, its runs when all of it is written.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Batch {
    start: Nanos,
    end: Nanos,
    runs: usize,
    sectors: u64,
}

pub(super) struct WriteCache {
    /// Sectors that it has room for.
    limit: u64,
    /// Runs that it has room for.
    runs_max: usize,
    /// In no order; none overlaps or touches another.
    runs: Vec<CachedRun>,
    by_lba: RunIndex,
    by_order: RunIndex,
    /// Those of `runs` that have a position.
    by_cylinder: RunIndex,
    /// Sectors in `runs`.
    pub sectors: u64,
    batch: Batch,
    /// Writes taken so far.
    taken: u64,
    /// The end of the last command of the host.
    last_command: Nanos,
    /// The last moment at which it became half full.
    half_full: Nanos,
    /// When the bus has carried the data of the last command that used it.
    pub bus_free_at: Nanos,
}

state! {
    WriteCache {
        values: runs, sectors, batch, taken, last_command, half_full, bus_free_at;
        built: limit, runs_max, by_lba, by_order, by_cylinder;
    }
}

/// Indices of runs, sorted by a number that each has. For so few, counting is faster than a binary search.
#[derive(Default)]
struct RunIndex(Vec<(u64, usize)>);

impl RunIndex {
    /// How many have a number below `key`.
    #[inline]
    fn below(&self, key: u64) -> usize {
        self.0.iter().map(|own| usize::from(own.0 < key)).sum()
    }

    /// Adds a run. The search begins at the end, where the latest run is by its order.
    fn insert(&mut self, key: u64, at: usize) {
        let before = self.0.iter().rposition(|own| own.0 < key);
        self.0.insert(before.map_or(0, |before| before + 1), (key, at));
    }

    /// Removes the run with index `at`, which the last run takes over.
    fn remove(&mut self, at: usize, last: usize) {
        if let Some(place) = self.0.iter().position(|own| own.1 == at) {
            self.0.remove(place);
        }
        if let Some(moved) = self.0.iter_mut().rfind(|own| own.1 == last) {
            moved.1 = at;
        }
    }
}

impl WriteCache {
    /// An empty cache of `limit_sectors` in front of a layer that takes batches of `batch_writes`.
    pub fn new(limit_sectors: u64, batch_writes: usize) -> WriteCache {
        WriteCache {
            limit: limit_sectors,
            // Two batches: see `RUNS_MAX`.
            runs_max: RUNS_MAX.max(2 * batch_writes),
            runs: Vec::new(),
            by_lba: RunIndex::default(),
            by_order: RunIndex::default(),
            by_cylinder: RunIndex::default(),
            sectors: 0,
            batch: Batch::default(),
            taken: 0,
            last_command: Nanos::ZERO,
            half_full: Nanos::ZERO,
            bus_free_at: Nanos::ZERO,
        }
    }

    /// Builds the indices of the runs of a restored state.
    pub fn index_runs(&mut self) {
        self.sectors = 0;
        (self.by_lba, self.by_order, self.by_cylinder) = Default::default();
        std::mem::take(&mut self.runs).into_iter().for_each(|run| self.insert_run(run));
    }

    /// True if it can take a write of `n` sectors at all.
    #[inline]
    pub fn takes(&self, n: u64) -> bool {
        n <= self.limit
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Forgets everything: the power was cut.
    pub fn clear(&mut self) {
        (self.sectors, self.batch) = (0, Batch::default());
        self.runs.clear();
        (self.by_lba, self.by_order, self.by_cylinder) = Default::default();
    }

    fn insert_run(&mut self, run: CachedRun) {
        self.by_lba.insert(run.lba.0, self.runs.len());
        self.by_order.insert(run.order, self.runs.len());
        if let Some(position) = run.position {
            self.by_cylinder.insert(position.cylinder.into(), self.runs.len());
        }
        self.sectors += run.sectors;
        self.runs.push(run);
    }

    /// Takes a run out; the last one moves to its index.
    fn remove_run(&mut self, at: usize) -> CachedRun {
        let run = self.runs.swap_remove(at);
        self.sectors -= run.sectors;
        self.by_lba.remove(at, self.runs.len());
        self.by_order.remove(at, self.runs.len());
        self.by_cylinder.remove(at, self.runs.len());
        run
    }

    /// Places of the runs that `n` sectors from `lba` on overlap or touch.
    #[inline]
    fn touched(&self, lba: Lba, n: u64) -> impl Iterator<Item = usize> + '_ {
        let candidates = &self.by_lba.0[..self.by_lba.below(lba.0 + n + 1)];
        candidates.iter().rev().map(|own| own.1).take_while(move |&at| lba <= self.runs[at].end())
    }

    /// True if it holds all of `n` sectors from `lba` on.
    #[inline]
    pub fn holds(&self, lba: Lba, n: u64) -> bool {
        self.touched(lba, n).any(|at| self.runs[at].lba <= lba && lba + n <= self.runs[at].end())
    }

    /// The first time from `now` on at which there is room for a write of `n` sectors at `lba`; `None` if only another batch makes room.
    #[inline]
    pub fn room_at(&self, now: Nanos, lba: Lba, n: u64) -> Option<Nanos> {
        // Sectors that are held already take no more room, and a run that is touched grows instead of a new one.
        let (mut held, mut touches) = (0, false);
        for run in self.touched(lba, n).map(|at| &self.runs[at]) {
            held += run.end().min(lba + n).0.saturating_sub(run.lba.max(lba).0);
            touches = true;
        }
        if !touches && self.runs.len() >= self.runs_max {
            return None;
        }
        let left = self.limit.checked_sub(self.sectors + n - held)?;
        let Batch { start, end, runs, sectors } = self.batch;
        if end <= now {
            return Some(now);
        }
        // The runs of a batch are free only when all of it is written.
        if !touches && self.runs.len() + runs >= self.runs_max {
            return Some(end);
        }
        if left >= sectors {
            return Some(now);
        }
        // The batch frees its sectors evenly while it is written. It may still hold `left` of them when this write
        // begins.
        let freed = u128::from((end - start).0) * u128::from(sectors - left) / u128::from(sectors);
        Some(now.max(start + Nanos(freed as u64)))
    }

    /// Notes a command that completes at `end`.
    #[inline]
    pub fn note_command(&mut self, end: Nanos) {
        self.last_command = self.last_command.max(end);
    }

    fn is_half_full(&self) -> bool {
        self.sectors > self.limit / 2 || self.runs.len() > self.runs_max / 2
    }

    /// Takes the sectors of a write at `now`. There is room for them.
    #[inline]
    pub fn put(&mut self, device: &LayeredDisk, request: &Request, data: &Buf, now: Nanos) {
        let was_half_full = self.is_half_full();
        // The first two, because the common case, a write that touches a single run, extends that run in place.
        let touched = {
            let mut places = self.touched(request.lba, request.sectors.into());
            (places.next(), places.next())
        };
        match touched {
            (Some(at), None) if self.runs[at].lba <= request.lba => self.extend(at, request, data, now),
            (first, _) => self.merge(device, request, data, now, first.is_some()),
        }
        self.taken += 1;
        if !was_half_full && self.is_half_full() {
            self.half_full = now;
        }
    }

    /// Adds a write that overwrites or continues a run which begins no later.
    fn extend(&mut self, at: usize, request: &Request, data: &Buf, now: Nanos) {
        let run = &mut self.runs[at];
        let sectors = run.sectors.max(request.end() - run.lba);
        if let Buf::Stamps(stamps) = &mut run.data
            && (stamps.len() as u64) < sectors
        {
            stamps.resize(sectors as usize, 0);
        }
        run.data.put(request.lba - run.lba, data, 0, u64::from(request.sectors));
        self.sectors += sectors - run.sectors;
        (run.sectors, run.last, run.source) = (sectors, now, request.source);
        run.note_change(now);
    }

    /// Adds a write, joining all runs that it overlaps or touches, if there are any.
    fn merge(&mut self, device: &LayeredDisk, request: &Request, data: &Buf, now: Nanos, touches: bool) {
        let (lba, end) = (request.lba, request.end());
        let mut parts = Vec::new();
        while touches && let Some(at) = self.touched(lba, end - lba).min() {
            parts.push(self.remove_run(at));
        }
        let first = parts.iter().map(|run| run.lba).min().unwrap_or(lba).min(lba);
        let last = parts.iter().map(CachedRun::end).max().unwrap_or(end).max(end);
        let mut all = device.disk.buf(last - first);
        for part in &parts {
            all.put(part.lba - first, &part.data, 0, part.sectors);
        }
        all.put(lba - first, data, 0, u64::from(request.sectors));
        let (position, band_end) = place(device, first);
        let sectors = last - first;
        let mut run = CachedRun {
            lba: first,
            sectors,
            data: all,
            source: request.source,
            order: parts.iter().map(|run| run.order).min().unwrap_or(self.taken),
            since: parts.iter().map(|run| run.since).min().unwrap_or(now),
            last: now,
            complete_at: None,
            position,
            band_end,
            is_rest: parts.iter().any(|run| run.is_rest && run.lba == first),
        };
        run.note_change(now);
        self.insert_run(run);
    }

    /// Forgets `n` sectors from `lba` on, because they are discarded or overwritten on the platters.
    pub fn remove(&mut self, device: &LayeredDisk, lba: Lba, n: u64) {
        let (end, mut at) = (lba + n, 0);
        while at < self.runs.len() {
            if self.runs[at].end() <= lba || end <= self.runs[at].lba {
                at += 1;
                continue;
            }
            // The index stays, since another run has moved there.
            let run = self.remove_run(at);
            for (first, last) in [(run.lba, lba), (end, run.end())] {
                if first < last {
                    self.keep_part(device, &run, first, last - first);
                }
            }
        }
    }

    /// Holds a part of a run that was taken out.
    fn keep_part(&mut self, device: &LayeredDisk, run: &CachedRun, lba: Lba, sectors: u64) {
        let mut data = device.disk.buf(sectors);
        data.put(0, &run.data, lba - run.lba, sectors);
        let (position, band_end) = place(device, lba);
        let mut part = CachedRun { lba, sectors, data, position, band_end, complete_at: None, ..*run };
        part.note_change(run.last);
        self.insert_run(part);
    }

    /// Overlays `out`, which was read from `n` sectors at `lba`, with the sectors that are held.
    pub fn overlay(&self, lba: Lba, n: u64, out: &mut Buf) {
        for run in &self.runs {
            let (first, end) = (run.lba.max(lba), run.end().min(lba + n));
            if first < end {
                out.put(first - lba, &run.data, first - run.lba, end - first);
            }
        }
    }

    /// The first time from `now` on at which a batch is to be destaged if no command needs the platters: when the cache is half full, a
    /// batch is complete, no command has come for a while, or something is too old. Whatever the reason, a run has to be ready. `None` if the
    /// cache is empty.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        if self.runs.is_empty() {
            return None;
        }
        let mut due = self.last_command + QUIET;
        if self.is_half_full() {
            due = due.min(self.half_full);
        }
        // The common case, without a look at every run: while writes come, the cache is half full and its first run ready.
        if due <= now && self.runs.iter().any(|run| run.ready_at() <= now) {
            return Some(now);
        }
        let mut ready = Nanos::MAX;
        for run in &self.runs {
            due = due.min(run.complete_at.unwrap_or(run.since + AGE_MAX));
            ready = ready.min(run.ready_at());
        }
        Some(due.max(ready).max(now))
    }

    /// True if at `now` some run has waited too long, and goes before commands that need the platters.
    pub fn is_overdue(&self, now: Nanos) -> bool {
        self.runs.iter().any(|run| run.since + AGE_MAX <= now)
    }

    /// Takes out the runs to be destaged next: as many as the layer takes together, or one.
    pub fn take_batch(&mut self, device: &LayeredDisk, purpose: DestageFor) -> SmallVec<[CachedRun; 8]> {
        let now = device.now();
        let is_ready = |run: &CachedRun| run.ready_at() <= now;
        // If nothing is ready and room is needed, a stream has to go before it reaches the end of its band.
        let takes_all = !self.runs.iter().any(is_ready);
        let is_eligible = |run: &CachedRun| takes_all || is_ready(run);
        let writes_max = device.layer.takes_together();
        let mut batch = SmallVec::new();
        let Some(oldest) = self.oldest(is_eligible) else { return batch };
        let is_old = self.runs[oldest].since + AGE_MAX <= now;
        // A layer that takes writes together appends them, so their LBAs make no difference to the head.
        let first = if is_old || writes_max > 1 { oldest } else { self.nearest(device, is_eligible).unwrap_or(oldest) };
        let first = self.take(device, first, purpose);
        let (mut sectors, source) = (first.sectors, first.source);
        // A stream goes to the layer alone.
        let writes_max = if first.is_stream() { 1 } else { writes_max };
        batch.push(first);
        let sectors_max = device.layer.joint_sectors().min(BATCH_SECTORS_MAX);
        // The layer is told one source for a whole batch. If a run is too long to join it, a shorter one may still fit.
        while batch.len() < writes_max
            && let Some(at) =
                self.oldest(|run| !run.is_stream() && run.source == source && sectors + run.sectors <= sectors_max)
        {
            sectors += self.runs[at].sectors;
            batch.push(self.remove_run(at));
        }
        batch
    }

    /// Notes that the last batch is written from `start` to `end`.
    pub fn note_batch(&mut self, start: Nanos, end: Nanos, batch: &[CachedRun]) {
        let sectors = batch.iter().map(|run| run.sectors).sum();
        self.batch = Batch { start, end, runs: batch.len(), sectors };
    }

    pub fn batch_start(&self) -> Nanos {
        self.batch.start
    }

    /// The oldest eligible run; of equally old ones the first in `runs`.
    fn oldest(&self, is_eligible: impl Fn(&CachedRun) -> bool) -> Option<usize> {
        let mut eligible = self.by_order.0.iter().filter(|own| is_eligible(&self.runs[own.1]));
        let &(order, first) = eligible.next()?;
        let others = eligible.take_while(|own| own.0 == order);
        Some(others.fold(first, |first, own| first.min(own.1)))
    }

    /// The run that the head reaches first; at equal times the first in `runs`. Looks at near cylinders first, and stops where the seek
    /// alone takes longer than the best run so far: seeks only get longer with distance.
    fn nearest(&self, device: &LayeredDisk, is_eligible: impl Fn(&CachedRun) -> bool) -> Option<usize> {
        let (clock, now) = (device.disk.clock().mechanical()?, device.now());
        let (runs, head) = (&self.by_cylinder.0, u64::from(clock.cylinder()));
        let distance = |run: Option<&(u64, usize)>| run.map_or(u32::MAX, |run| run.0.abs_diff(head) as u32);
        let mut inward = self.by_cylinder.below(head);
        let mut outward = inward;
        let mut best = (Nanos::MAX, usize::MAX);
        while outward > 0 || inward < runs.len() {
            let (to_outer, to_inner) = (distance(runs[..outward].last()), distance(runs.get(inward)));
            if Nanos(clock.curve().ns(to_outer.min(to_inner))) > best.0 {
                break;
            }
            let at = if to_outer <= to_inner {
                outward -= 1;
                runs[outward].1
            } else {
                inward += 1;
                runs[inward - 1].1
            };
            let run = &self.runs[at];
            if let Some(position) = run.position.filter(|_| is_eligible(run)) {
                best = best.min((clock.write_estimate(&position, now), at));
            }
        }
        (best.1 < self.runs.len()).then_some(best.1)
    }

    /// Takes out a run or, of a long stream, the part in its band. The rest stays.
    fn take(&mut self, device: &LayeredDisk, at: usize, purpose: DestageFor) -> CachedRun {
        let mut run = self.remove_run(at);
        // A flush can't wait until a stream reaches the end of its band, so it takes all of the run. Without bands there is no waiting, and
        // a stream is destaged in parts as always.
        let in_bands = run.band_end < Lba(u64::MAX);
        let sectors_max = if purpose == DestageFor::Flush && in_bands { run.sectors } else { run.batch_sectors() };
        if run.is_stream() && run.sectors > sectors_max {
            // The rest is as young as the stream: by the age of its first write it would soon be overdue.
            let data = std::mem::take(&mut run.data);
            let rest = CachedRun { is_rest: true, order: self.taken, since: run.last, data, ..run };
            self.keep_part(device, &rest, run.lba + sectors_max, run.sectors - sectors_max);
            (run.data, run.sectors) = (rest.data, sectors_max);
        }
        run
    }
}

/// Position of a sector (`None` if the layer appends), and the end of its band.
fn place(device: &LayeredDisk, lba: Lba) -> (Option<Position>, Lba) {
    let appends = device.layer.takes_together() > 1;
    let position = (!appends).then(|| device.position(device.layer.locate(lba)));
    (position, device.layer.band_end(lba).unwrap_or(Lba(u64::MAX)))
}
