//! Rebuilding a member, resilvering it, and scrubbing an array, while a workload runs.
//!
//! Each piece is read from the members that survive and written to the new one; a window of pieces is under way at once, and no
//! flush is sent. Left out: the host's way of slowing down for it (`pace.rs`), and records that belong together over several
//! members (each member has records of its own).

mod order;
mod pace;
#[cfg(test)]
mod tests;

pub use crate::settings::rebuild::{Begin, RebuildOrder, RebuildSpec, Task};

use self::order::{RebuildPieces, RecordRuns};
use self::pace::RateLimiter;
use super::system::{ArrayRun, MemberRun};
use super::task::BackgroundTask;
use crate::device::level::Level;
use crate::device::{Array, DonePart, Member};
use crate::error::{DiskResult, Error};
use crate::message::{Field, Message};
use crate::request::{Progress, Request};
use crate::settings::Settings;
use crate::stats::counts::Times;
use crate::stats::histogram::LatencyCounts;
use crate::stats::rebuild::{MemberRebuild, Rebuild, Series};
use crate::units::{Lba, Nanos, SECTOR_BYTES};

/// A rebuild or a scrub under way.
pub struct Rebuilding {
    spec: RebuildSpec,
    /// The new member, until it is in its place.
    new: Option<Member>,
    /// Its drives, by their number among all of the array's.
    new_drives: std::ops::Range<usize>,
    pieces: RebuildPieces,
    total_sectors: u64,
    /// The next piece.
    piece: Option<(Lba, u64)>,
    pace: RateLimiter,
    outstanding: u32,
    requests: u64,
    /// When it is to fail and when the work is to begin, as far as that is known.
    fails: Nanos,
    begins: Nanos,
    /// When counting began, the member failed (or the scrub began), the work began, and all was done.
    counting: Option<Nanos>,
    failed: Option<Nanos>,
    begun: Option<Nanos>,
    ended: Option<Nanos>,
    /// The last that happened.
    now: Nanos,
    sectors: u64,
    series: Series,
    count: u64,
    longest_piece: Nanos,
    foreground: LatencyCounts,
    members: Vec<MemberRebuild>,
}

impl RebuildSpec {
    /// The work, to be run alongside the host's. `array` and `settings` are those of the run.
    pub fn build(&self, array: &ArrayRun, settings: &Settings) -> Result<Rebuilding, Error> {
        let layout = array.layout()?;
        let disks = 0..layout.disks() as u32;
        let (new, new_drives, sectors) = match self.task {
            Task::Scrub => (None, 0..0, disks.map(|disk| layout.member_sectors(disk)).max().unwrap_or(0)),
            Task::Rebuild { disk, .. } if !disks.contains(&disk) => {
                return Err(Error::Usage(format!(
                    "rebuild: the array has no disk {disk}: disks go from 0 to {}",
                    disks.end - 1
                )));
            }
            Task::Rebuild { .. } if layout.copies() == 1 && layout.parities() == 0 => {
                return Err(no_redundancy(array));
            }
            Task::Rebuild { disk, .. } => {
                self.check(settings)?;
                let disk = disk as usize;
                let first = array.drives_before(disk);
                let new = array.members[disk].build_member(settings)?;
                (Some(new), first..array.drives_before(disk + 1), layout.member_sectors(disk as u32))
            }
        };
        let pieces = match self.order {
            RebuildOrder::Ascending { sectors: piece } => RebuildPieces::ascending(sectors, piece),
            RebuildOrder::Scattered { record_sectors, run_sectors, live, sorted } => {
                let mean = run_sectors as f64 / record_sectors as f64;
                RebuildPieces::scattered(sectors, record_sectors, RecordRuns { mean, live, sorted }, settings.seed)
            }
        };
        Ok(Rebuilding::new(*self, new, new_drives, pieces))
    }

    fn check(&self, settings: &Settings) -> Result<(), Error> {
        match self.order {
            RebuildOrder::Scattered { live, .. } if live < 1.0 && settings.check => Err(Error::senseless(
                Field::Rebuild,
                Message::from("rebuild: what is not in use is not rebuilt, and ")
                    + Field::Check
                    + " would find that: leave out live, or "
                    + Field::Check,
            )),
            _ => Ok(()),
        }
    }
}

/// No disk of `array` can be rebuilt. One of an array inside it could be, but `disk` counts those of the outer level.
fn no_redundancy(array: &ArrayRun) -> Error {
    let is_nested = array.members.iter().any(|member| matches!(member, MemberRun::Array(_)));
    let remedy = match is_nested {
        true => {
            Message::from(
                "what its members keep twice is not rebuilt from here: use raid10 in place of a raid0 of mirrors, \
                           or run one of its members alone as ",
            ) + Field::Array
        }
        false => Message::from(format!("use one of {}", Level::redundant_names())),
    };
    let problem = format!("rebuild: {} keeps nothing twice, so that a failed disk is lost: ", array.level);
    Error::impossible(Field::Rebuild, Message::from(problem) + remedy)
}

impl Rebuilding {
    fn new(
        spec: RebuildSpec,
        new: Option<Member>,
        new_drives: std::ops::Range<usize>,
        mut pieces: RebuildPieces,
    ) -> Rebuilding {
        let total_sectors = pieces.total();
        let piece = pieces.next();
        Rebuilding {
            spec,
            new,
            new_drives,
            pieces,
            total_sectors,
            piece,
            pace: RateLimiter::new(spec.rate),
            outstanding: 0,
            requests: 0,
            fails: Nanos::MAX,
            begins: Nanos::MAX,
            counting: None,
            failed: None,
            begun: None,
            ended: None,
            now: Nanos::ZERO,
            sectors: 0,
            series: Series::default(),
            count: 0,
            longest_piece: Nanos::ZERO,
            foreground: LatencyCounts::default(),
            members: Vec::new(),
        }
    }

    /// The time to act has come for all that waits for the host's requests.
    fn begin_at(&mut self, now: Nanos) {
        self.now = now;
        self.begins = now;
        self.fails = self.fails.min(now);
    }

    /// The member fails, or the scrub begins.
    fn fail(&mut self, array: &mut Array, now: Nanos) {
        self.failed = Some(now);
        for drive in array.drives() {
            drive.watch();
        }
        if let Task::Rebuild { disk, .. } = self.spec.task {
            array.fail(disk);
        }
    }

    /// The work begins: the new member takes the place of the failed one.
    fn begin_work(&mut self, array: &mut Array, now: Nanos) -> DiskResult {
        self.begun = Some(now);
        if let (Task::Rebuild { disk, .. }, Some(mut new)) = (self.spec.task, self.new.take()) {
            new.reset_counts(now)?;
            let counting = self.counting.unwrap_or(now);
            new.drives().into_iter().for_each(|drive| drive.device_mut().disk.record_since(counting));
            array.replace(disk, new, self.spec.piece_sectors());
        }
        Ok(())
    }

    #[inline]
    fn begin_piece(&mut self, array: &mut Array, at: Lba, sectors: u64, now: Nanos) -> DiskResult {
        self.piece = self.pieces.next();
        self.outstanding += 1;
        self.pace.begin(now, sectors * SECTOR_BYTES);
        match self.spec.task {
            Task::Rebuild { disk, .. } => array.rebuild(disk, at, sectors, now),
            Task::Scrub => array.scrub(at, sectors, now),
        }
    }

    /// Nothing is left to do.
    fn end(&mut self, array: &mut Array, now: Nanos) {
        self.ended = Some(now);
        if let Task::Rebuild { disk, .. } = self.spec.task {
            array.make_whole(disk);
        }
        self.members = array.drives().iter().map(|drive| drive.watched()).collect();
        for new in &mut self.members[self.new_drives.clone()] {
            new.new = true;
        }
    }
}

impl BackgroundTask for Rebuilding {
    fn successor(&mut self) -> Option<(usize, &mut Member)> {
        Some((self.new_drives.start, self.new.as_mut()?))
    }

    fn counting(&mut self, now: Nanos) {
        self.counting = Some(now);
        self.now = now;
        if matches!(self.spec.task, Task::Rebuild { before: true, .. }) {
            self.fails = now;
        }
        match self.spec.begin {
            Begin::After(0) => self.begin_at(now),
            Begin::After(_) => {}
            Begin::At(time) => self.begins = Nanos(now.0.saturating_add(time.0)),
        }
    }

    fn host_done(&mut self, now: Nanos) {
        if self.begun.is_none() && self.begins > now {
            self.begin_at(now);
        }
    }

    #[inline]
    fn next(&self) -> Nanos {
        match (self.failed, self.begun, &self.piece) {
            (None, _, _) => self.fails.min(self.begins),
            (_, None, _) => self.begins,
            (_, _, Some(_)) if self.outstanding < self.spec.window => self.now.max(self.pace.due()),
            _ => Nanos::MAX,
        }
    }

    fn act(&mut self, array: &mut Array, now: Nanos) -> DiskResult {
        self.now = now;
        if self.failed.is_none() {
            self.fail(array, now);
        }
        if self.begun.is_none() && now >= self.begins {
            self.begin_work(array, now)?;
        }
        match (self.begun, self.piece) {
            (None, _) => Ok(()),
            (Some(_), Some((at, sectors))) => self.begin_piece(array, at, sectors, now),
            // Nothing of the disk is in use.
            (Some(_), None) => {
                self.end(array, now);
                Ok(())
            }
        }
    }

    fn done(&mut self, done: &DonePart, array: &mut Array) -> DiskResult {
        self.now = done.end;
        self.outstanding -= 1;
        self.sectors += done.sectors;
        self.series.add(done.end - self.failed.unwrap_or(done.end), done.sectors * SECTOR_BYTES);
        self.count += 1;
        self.longest_piece = self.longest_piece.max(done.end - done.begin);
        if self.piece.is_none() && self.outstanding == 0 {
            self.end(array, done.end);
        }
        Ok(())
    }

    fn completed(&mut self, request: &Request, times: &Times) {
        self.requests += 1;
        if self.failed.is_some() && self.ended.is_none() {
            self.foreground.record(request.op, (times.end - times.arrival).0);
        }
        if self.begins == Nanos::MAX && self.spec.begin == Begin::After(self.requests) {
            self.begin_at(times.end);
        }
    }

    fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    fn progress(&self) -> Progress {
        Progress { done: self.sectors, total: Some(self.total_sectors.max(self.sectors)) }
    }

    fn report(&mut self, array: &mut Array) -> DiskResult<Option<Rebuild>> {
        let (Some(counting), Some(failed), Some(begun), Some(ended)) =
            (self.counting, self.failed, self.begun, self.ended)
        else {
            return Ok(None);
        };
        let (work, bytes) = (ended - begun, self.sectors * SECTOR_BYTES);
        let new = &self.members[self.new_drives.clone()];
        let timed = if new.is_empty() { &self.members[..] } else { new };
        let longest = |members: &[MemberRebuild]| members.iter().map(|member| member.longest_command_ns).max();
        Ok(Some(Rebuild {
            spec: self.spec,
            begin_ns: (failed - counting).0,
            elapsed_ns: (ended - failed).0,
            work_ns: work.0,
            clean_ns: settle(array, ended)?.map(|clean| (clean - failed).0),
            bytes,
            bytes_per_s: if work > Nanos::ZERO { bytes as f64 / work.as_secs() } else { 0.0 },
            series: std::mem::take(&mut self.series),
            pieces: self.count,
            longest_piece_ns: self.longest_piece.0,
            dropped: timed.iter().any(|member| member.commands_over_7s > 0),
            dropped_7s: timed.iter().any(|member| member.commands_over_7s > 0),
            dropped_30s: timed.iter().any(|member| member.commands_over_30s > 0),
            longest_command_ns: longest(&self.members).unwrap_or(0),
            longest_new_ns: longest(new),
            foreground_ns: self.foreground.list().summary(),
            members: std::mem::take(&mut self.members),
        }))
    }
}

/// Lets all drives clean, without a command; when the last was done, unless some cache still holds something.
fn settle(array: &mut Array, now: Nanos) -> DiskResult<Option<Nanos>> {
    let mut clean = now;
    for drive in array.drives() {
        clean = clean.max(drive.settle()?);
    }
    let holds = |fill: Option<f64>| fill.is_some_and(|fill| fill > 0.0);
    Ok(array.drives().iter().all(|drive| !holds(drive.device().layer.gauges().cache_fill)).then_some(clean))
}
