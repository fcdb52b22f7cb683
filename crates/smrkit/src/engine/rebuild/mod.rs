//! Rebuilding a member, resilvering it, and scrubbing an array, while a workload runs.
//!
//! Each piece is read from the surviving members and written to the new one. A window of pieces is in flight at once, and no flush is sent.
//! Left out: throttling by the host, and records that span several members (each member has records of its own).

mod order;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use crate::settings::rebuild::{Begin, RebuildOrder, RebuildSpec, Task};

use self::order::RebuildPieces;
use super::system::ArrayRun;
use super::task::BackgroundTask;
use crate::device::health::Health;
use crate::device::level::Level;
use crate::device::{Array, DonePart, MemberDrive};
use crate::error::{DiskResult, Error};
use crate::medium::Stamp;
use crate::request::{Progress, Request};
use crate::settings::Settings;
use crate::stats::counts::Times;
use crate::stats::latency::LatencyCounts;
use crate::stats::rebuild::{MemberRebuild, Rebuild, Series};
use crate::units::{Lba, Nanos, SECTOR_BYTES};

/// A rebuild or a scrub under way.
pub struct Rebuilding {
    spec: RebuildSpec,
    /// The new member, until it replaces the failed one.
    new: Option<MemberDrive>,
    pieces: RebuildPieces,
    /// The next piece.
    piece: Option<(Lba, u64)>,
    pace: Pace,
    schedule: Schedule,
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
        let (new, sectors) = match self.task {
            Task::Scrub => (None, disks.map(|disk| layout.member_sectors(disk)).max().unwrap_or(0)),
            Task::Rebuild { disk, used, .. } => {
                if !disks.contains(&disk) {
                    let last = disks.end - 1;
                    let message = format!("rebuild: the array has no disk {disk}: disks go from 0 to {last}");
                    return Err(Error::Usage(message));
                }
                if !layout.is_redundant() {
                    return Err(Error::Impossible(format!(
                        "rebuild: {} keeps nothing twice, so that a failed disk is lost: use one of {}",
                        array.level,
                        Level::redundant_names()
                    )));
                }
                // What was left out on purpose would be reported as lost.
                if settings.check && matches!(self.order, RebuildOrder::Scattered { live, .. } if live < 1.0) {
                    return Err(Error::Usage(
                        "rebuild: what is not in use is not rebuilt, and {check} would find that: leave out live, or {check}"
                            .into(),
                    ));
                }
                let mut new = array.members[disk as usize].build(settings, true)?;
                if used {
                    new.fill(Arc::new(|lba| Stamp::first(lba).0));
                }
                (Some(new), layout.member_sectors(disk))
            }
        };
        let mut pieces = RebuildPieces::new(self.order, sectors, settings.seed);
        Ok(Rebuilding {
            spec: *self,
            new,
            piece: pieces.next(),
            pieces,
            pace: Pace::new(self.window, self.rate),
            schedule: Schedule {
                rule: self.begin,
                requests: 0,
                fail_due: Nanos::MAX,
                begin_due: Nanos::MAX,
                counting_since: None,
                failed_at: None,
                began_at: None,
                ended_at: None,
            },
            sectors: 0,
            series: Series::new(),
            count: 0,
            longest_piece: Nanos::ZERO,
            foreground: LatencyCounts::default(),
            members: Vec::new(),
        })
    }
}

impl Rebuilding {
    fn end(&mut self, array: &mut Array, now: Nanos) {
        self.schedule.ended_at = Some(now);
        self.members = array.drives().iter().map(MemberDrive::watched).collect();
        if let Task::Rebuild { disk, .. } = self.spec.task {
            // Also if sectors that are not in use were left out: nobody needs them.
            array.health[disk as usize] = Health::Good;
            self.members[disk as usize].new = true;
        }
    }
}

impl BackgroundTask for Rebuilding {
    fn successor(&mut self) -> Option<(usize, &mut MemberDrive)> {
        let Task::Rebuild { disk, .. } = self.spec.task else { return None };
        Some((disk as usize, self.new.as_mut()?))
    }

    fn counting(&mut self, now: Nanos) {
        self.schedule.count(now, matches!(self.spec.task, Task::Rebuild { before: true, .. }));
    }

    fn host_done(&mut self, now: Nanos) {
        self.schedule.host_done(now);
    }

    #[inline]
    fn next(&self) -> Nanos {
        let next_piece = || if self.piece.is_some() { self.pace.next() } else { Nanos::MAX };
        self.schedule.next().unwrap_or_else(next_piece)
    }

    fn act(&mut self, array: &mut Array, now: Nanos) -> DiskResult {
        if self.schedule.failed_at.is_none() {
            self.schedule.failed_at = Some(now);
            for drive in array.drives_mut() {
                drive.watch();
            }
            if let Task::Rebuild { disk, .. } = self.spec.task {
                array.fail(disk);
            }
        }
        if self.schedule.began_at.is_none() {
            if now < self.schedule.begin_due {
                return Ok(());
            }
            self.schedule.began_at = Some(now);
            if let (Task::Rebuild { disk, .. }, Some(mut new)) = (self.spec.task, self.new.take()) {
                new.reset_counts(now)?;
                // Its accesses are recorded on the time scale of all drives, which began when counting did.
                new.device_mut().disk.record_since(self.schedule.counting_since.unwrap_or(now));
                array.replace(disk, new, self.spec.piece_sectors());
            }
        }
        let Some((at, sectors)) = self.piece else {
            // There was not even a first piece, because no records are in use.
            self.end(array, now);
            return Ok(());
        };
        self.piece = self.pieces.next();
        self.pace.begin(now, sectors * SECTOR_BYTES);
        match self.spec.task {
            Task::Rebuild { disk, .. } => array.rebuild(disk, at, sectors, now),
            Task::Scrub => array.scrub(at, sectors, now),
        }
    }

    fn done(&mut self, done: &DonePart, array: &mut Array) -> DiskResult {
        self.sectors += done.sectors;
        let since_failure = done.end - self.schedule.failed_at.unwrap_or(done.end);
        self.series.add(since_failure, done.sectors * SECTOR_BYTES);
        self.count += 1;
        self.longest_piece = self.longest_piece.max(done.end - done.begin);
        if self.pace.end(done.end) && self.piece.is_none() {
            self.end(array, done.end);
        }
        Ok(())
    }

    fn completed(&mut self, request: &Request, times: &Times) {
        if self.schedule.is_degraded() {
            self.foreground.record(request.op, (times.end - times.arrival).0);
        }
        self.schedule.completed(times.end);
    }

    fn is_over(&self) -> bool {
        self.schedule.ended_at.is_some()
    }

    fn progress(&self) -> Progress {
        Progress { done: self.sectors, total: Some(self.pieces.total().max(self.sectors)) }
    }

    fn report(&mut self, array: &mut Array) -> DiskResult<Option<Rebuild>> {
        let Schedule { counting_since, failed_at, began_at, ended_at, .. } = self.schedule;
        let (Some(counting), Some(failed), Some(began), Some(ended)) = (counting_since, failed_at, began_at, ended_at)
        else {
            return Ok(None);
        };
        let (work, bytes) = (ended - began, self.sectors * SECTOR_BYTES);
        let new = self.members.iter().find(|member| member.new);
        // A scrub has no new member: timeouts may drop any.
        let timed = match new {
            Some(new) => std::slice::from_ref(new),
            None => &self.members[..],
        };
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
            longest_command_ns: self.members.iter().map(|member| member.longest_command_ns).max().unwrap_or(0),
            longest_new_ns: new.map(|member| member.longest_command_ns),
            foreground_ns: self.foreground.list().summary(),
            members: std::mem::take(&mut self.members),
        }))
    }
}

/// Lets all drives clean without commands; returns when the last was done, or `None` if some cache still holds data.
fn settle(array: &mut Array, now: Nanos) -> DiskResult<Option<Nanos>> {
    let mut clean = now;
    for drive in array.drives_mut() {
        clean = clean.max(drive.settle()?);
    }
    let holds = |fill: Option<f64>| fill.is_some_and(|fill| fill > 0.0);
    Ok(array.drives().iter().all(|drive| !holds(drive.device().layer.gauges().cache_fill)).then_some(clean))
}

/// Paces the pieces: how many may be in flight at once, and how fast they begin.
///
/// A piece waits until the pieces before it would have been done at the rate. Unused bandwidth is not made up for. mdraid's minimum rate,
/// below which the host has to wait, is left out.
struct Pace {
    window: u32,
    outstanding: u32,
    bytes_per_s: Option<u64>,
    /// Since when pieces have begun without a gap, and the bytes begun since.
    since: Nanos,
    bytes: u64,
    /// When a piece last began or was done.
    now: Nanos,
}

impl Pace {
    /// Allows `window` pieces at once, and this many bytes a second.
    pub fn new(window: u32, bytes_per_s: Option<u64>) -> Pace {
        Pace { window, outstanding: 0, bytes_per_s, since: Nanos::ZERO, bytes: 0, now: Nanos::ZERO }
    }

    /// When the next piece begins; [`Nanos::MAX`] while the window is full.
    #[inline]
    pub fn next(&self) -> Nanos {
        if self.outstanding < self.window { self.now.max(self.due()) } else { Nanos::MAX }
    }

    /// The earliest time for the next piece. Never `Nanos::MAX`, which would mean that no piece is to come.
    fn due(&self) -> Nanos {
        let Some(rate) = self.bytes_per_s else { return Nanos::ZERO };
        let ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate);
        let due = u64::try_from(ns).map_or(u64::MAX, |ns| self.since.0.saturating_add(ns));
        Nanos(due.min(u64::MAX - 1))
    }

    pub fn begin(&mut self, now: Nanos, bytes: u64) {
        // A late piece starts the count of bytes anew, so that the time before it is not made up for.
        if now > self.due() {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes += bytes;
        self.outstanding += 1;
        self.now = now;
    }

    /// Notes that a piece is done; returns `true` if no other is in flight.
    pub fn end(&mut self, now: Nanos) -> bool {
        self.outstanding -= 1;
        self.now = now;
        self.outstanding == 0
    }
}

/// The milestones of a rebuild or a scrub, as far as they are known.
struct Schedule {
    rule: Begin,
    /// The host's requests so far.
    requests: u64,
    /// When the member is to fail, and when the work is to begin.
    fail_due: Nanos,
    begin_due: Nanos,
    /// When counting began, the member failed (or the scrub began), the work began, and all was done, in this order.
    counting_since: Option<Nanos>,
    failed_at: Option<Nanos>,
    began_at: Option<Nanos>,
    ended_at: Option<Nanos>,
}

impl Schedule {
    /// Notes that counting begins at `now`.
    pub fn count(&mut self, now: Nanos, fails_at_once: bool) {
        self.counting_since = Some(now);
        if fails_at_once {
            self.fail_due = now;
        }
        match self.rule {
            Begin::After(0) => self.set_begin(now),
            Begin::After(_) => {}
            Begin::At(time) => self.begin_due = Nanos(now.0.saturating_add(time.0)),
        }
    }

    /// Counts a completed request of the host.
    #[inline]
    pub fn completed(&mut self, now: Nanos) {
        self.requests += 1;
        if self.begin_due == Nanos::MAX && self.rule == Begin::After(self.requests) {
            self.set_begin(now);
        }
    }

    /// Notes that the host sends no more requests.
    pub fn host_done(&mut self, now: Nanos) {
        if self.began_at.is_none() && self.begin_due > now {
            self.set_begin(now);
        }
    }

    fn set_begin(&mut self, now: Nanos) {
        self.begin_due = now;
        self.fail_due = self.fail_due.min(now);
    }

    /// The next milestone, until the work has begun.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        match (self.failed_at, self.began_at) {
            (None, _) => Some(self.fail_due.min(self.begin_due)),
            (_, None) => Some(self.begin_due),
            _ => None,
        }
    }

    /// True from the failure on, until all is done.
    #[inline]
    pub fn is_degraded(&self) -> bool {
        self.failed_at.is_some() && self.ended_at.is_none()
    }
}
