//! An array that is served: its drives work at the same time, and commands are under way together.
//!
//! Things happen in the order of the drives' time, and not before that is asked for. Whoever asks for the same, in larger steps or
//! smaller ones, finds the same, so that a log can be replayed.

use std::collections::BTreeSet;
use std::ops::Range;

use smrkit::device::{
    Array, Command, Completion, Contents, DriveContents, LayeredDisk, Member, MemberDrive, NCQ_COMMANDS, Queueing,
    SectorWords, Served,
};
use smrkit::engine::system::{ArrayRun, DriveRun, MemberRun};
use smrkit::error::{DiskResult, Error, Fault as DiskFault};
use smrkit::power::Power;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::units::{Lba, Nanos};

use super::queue::queueing;
use super::unsettled::{Begun, Unsettled};
use super::written::Written;

/// The tag of a command that is served alone.
const ALONE: u64 = 1 << 40;

/// Sectors of each drive that are compared, or brought in step, at a time (assumption).
const OWN_WORK_SECTORS: u64 = 1024;

/// An array, and what is under way.
pub(super) struct ServedArray {
    array: Box<Array>,
    /// The array's time: that of the last event or arrival.
    now: Nanos,
    /// Completed, until the caller takes note.
    done: Vec<Completion>,
    unsettled: Unsettled,
    /// True if the power is to be cut with a drive's next write.
    will_lose_power: bool,
}

impl ServedArray {
    /// The array of drives that `build` makes, in order. What is begun in which part is kept in `bits`.
    pub(super) fn new(
        run: &ArrayRun,
        contents: Contents,
        mut build: impl FnMut(&DriveRun) -> Result<(LayeredDisk, DriveContents), Error>,
        bits: Option<Written>,
    ) -> Result<ServedArray, Error> {
        let array = run.build_of(contents, |member| {
            let MemberRun::Drive(run) = member else { return Err(Error::Impossible("an array of arrays".into())) };
            let (device, contents) = build(run)?;
            let queueing = Queueing::new(Queue::Fcfs, NCQ_COMMANDS, None);
            Ok(Member::Drive(Box::new(MemberDrive::new(device, queueing, contents))))
        })?;
        let unsettled = Unsettled::new(array.layout(), bits);
        Ok(ServedArray {
            array: Box::new(array),
            now: Nanos::ZERO,
            done: Vec::new(),
            unsettled,
            will_lose_power: false,
        })
    }

    /// Its drives, in order.
    pub(super) fn drives(&self) -> Vec<&LayeredDisk> {
        self.array.members().iter().flat_map(Member::layered).collect()
    }

    pub(super) fn drives_mut(&mut self) -> Vec<&mut LayeredDisk> {
        self.array.drives().into_iter().map(MemberDrive::device_mut).collect()
    }

    /// The array itself, to be looked at.
    pub(super) fn array(&self) -> &Array {
        &self.array
    }

    /// The order in which its drives serve commands that wait, from now on. Nothing is under way.
    pub(super) fn order_commands(&mut self, queue: Queue, runs: &[&DriveRun]) {
        self.array.order_commands(|number| queueing(queue, &runs[number].drive));
    }

    /// The array's time: that of what last happened or came.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Moment at which something happens next, as far as that is known.
    pub(super) fn next(&self) -> Option<Nanos> {
        let next = if self.array.has_pending() { self.now } else { self.array.next() };
        (next < Nanos::MAX).then_some(next)
    }

    /// Lets one thing happen that comes not after `limit`; tells whether there was any.
    pub(super) fn step(&mut self, limit: Nanos) -> DiskResult<bool> {
        self.array.step(&mut self.now, limit, &mut self.done)
    }

    /// Lets all happen that comes until `time`.
    pub(super) fn go_on_until(&mut self, time: Nanos) -> DiskResult {
        while self.step(time)? {}
        self.wait_until(time);
        Ok(())
    }

    /// Sets its time on to `time`, until when nothing happens.
    pub(super) fn wait_until(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }

    /// Commands that have been completed and not been asked for.
    pub(super) fn take_done(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.done)
    }

    /// A command that writes `words` comes at `arrival`, or now if that is past. Its drives are busy for `slow` first.
    pub(super) fn send(
        &mut self,
        tag: u64,
        request: &Request,
        (arrival, slow): (Nanos, Nanos),
        words: SectorWords,
    ) -> DiskResult {
        self.go_on_until(arrival)?;
        let range = request.lba.0..request.end().0;
        if self.array.is_redundant() && matches!(request.op, Op::Write | Op::Discard) {
            let begun = if request.op == Op::Write { Begun::Writes } else { Begun::Discard };
            self.unsettled.note(range, begun).map_err(DiskFault::Io)?;
        }
        if slow > Nanos::ZERO {
            self.keep_busy(request.lba, slow)?;
        }
        let command = Command { tag, request: *request, arrival: self.now, host: true, stamps: words };
        self.array.submit(command)
    }

    /// Keeps the drives busy for `span` that have a sector of the array.
    fn keep_busy(&mut self, lba: Lba, span: Nanos) -> DiskResult {
        let layout = self.array.layout();
        let disks: Vec<usize> = (0..layout.copies()).map(|copy| layout.copy(lba, copy).0 as usize).collect();
        let (now, mut drives) = (self.now, self.array.drives());
        for disk in disks {
            let drive = &mut drives[disk];
            if drive.outstanding() == 0 {
                drive.device_mut().idle_until(now)?;
            }
            let busy_until = drive.device().now().max(now) + span;
            drive.device_mut().disk.wait_until(busy_until);
        }
        Ok(())
    }

    /// Serves a command while nothing else is under way; what was read.
    pub(super) fn serve_at(
        &mut self,
        request: &Request,
        arrival: (Nanos, Nanos),
        words: SectorWords,
    ) -> DiskResult<(Served, SectorWords)> {
        self.send(ALONE, request, arrival, words)?;
        while self.done.is_empty() && self.step(Nanos::MAX)? {}
        let Some(Completion { start, end, stamps, .. }) = self.done.pop() else {
            let message = format!("the array has not completed {request:?}");
            return Err(Box::new(DiskFault::Inconsistent(message)));
        };
        if request.op == Op::Flush {
            self.unsettled.settle().map_err(DiskFault::Io)?;
        }
        self.now = self.now.max(end);
        Ok((Served { start, end }, stamps))
    }

    /// Lets drives with nothing to do do all of what is due or helps that begins before `time`, one drive after another; tells whether
    /// any did something.
    pub(super) fn idle_until(&mut self, time: Nanos) -> DiskResult<bool> {
        self.go_on_until(time)?;
        let mut any = false;
        for drive in self.array.drives().into_iter().filter(|drive| drive.outstanding() == 0) {
            while drive.device_mut().step_before(time)? {
                any = true;
            }
        }
        Ok(any)
    }

    /// True if the power is to be cut.
    pub(super) fn will_lose_power(&self) -> bool {
        self.will_lose_power
    }

    /// Cuts the power of all drives with the next write of any.
    pub(super) fn cut_power(&mut self, seed: u64) {
        self.will_lose_power = true;
        for drive in self.drives_mut() {
            drive.disk.cut_power(Power::new(vec![1], seed));
        }
    }

    /// Takes back a cut that no write has met.
    fn keep_power(&mut self) {
        self.will_lose_power = false;
        self.drives_mut().into_iter().for_each(|drive| drive.disk.cut_power(Power::default()));
    }

    /// The power comes back: what was under way is gone, the layers rebuild their maps, and copies and parity are brought in step.
    pub(super) fn recover(&mut self) -> DiskResult {
        self.done.clear();
        self.keep_power();
        self.array.recover()?;
        self.wait_for_all();
        self.bring_in_step()
    }

    /// The image was used before, and not closed in good order; `host` knows what it holds.
    pub(super) fn recover_found(&mut self, host: &mut Written) -> DiskResult {
        self.unsettled.find(host).map_err(DiskFault::Io)?;
        self.recover()
    }

    /// Switches the array off in good order and on again.
    pub(super) fn restart(&mut self, runs: &[&DriveRun]) {
        for (drive, run) in self.array.drives().into_iter().zip(runs) {
            drive.restart(&run.drive);
        }
        self.keep_power();
        self.now = Nanos::ZERO;
    }

    fn wait_for_all(&mut self) {
        let latest = self.drives().iter().map(|drive| drive.now()).max().unwrap_or_default();
        self.now = self.now.max(latest);
        let now = self.now;
        self.drives_mut().into_iter().for_each(|drive| drive.disk.wait_until(now));
    }

    /// Other copies become the first, and parity that of the data, where writes may have been caught half done.
    fn bring_in_step(&mut self) -> DiskResult {
        for (sectors, begun) in self.unsettled.extents() {
            self.renew(sectors, begun)?;
        }
        let flush = Request::new(Op::Flush, Lba(0), 0);
        self.serve_at(&flush, (self.now, Nanos::ZERO), SectorWords::new()).map(drop)
    }

    fn renew(&mut self, Range { start, end }: Range<u64>, begun: Begun) -> DiskResult {
        if begun == Begun::Discard {
            let request = Request::new(Op::Discard, Lba(start), (end - start) as u32);
            let stamps = SectorWords::new();
            self.array.submit(Command { tag: ALONE, request, arrival: self.now, host: false, stamps })?;
            return self.end_own_work();
        }
        let layout = self.array.layout();
        let rows = match layout.parities() {
            0 => start..end,
            // Whole stripes, by their place on the members.
            _ => {
                let (stripe, chunk) = (layout.stripe_sectors(), layout.chunk_sectors());
                start / stripe * chunk..end / stripe * chunk
            }
        };
        for first in rows.clone().step_by(OWN_WORK_SECTORS as usize) {
            self.array.resync(Lba(first), OWN_WORK_SECTORS.min(rows.end - first), self.now)?;
            self.end_own_work()?;
        }
        Ok(())
    }

    /// Lets the array's own work come to its end.
    fn end_own_work(&mut self) -> DiskResult {
        while self.step(Nanos::MAX)? {}
        while self.array.take_done().is_some() {}
        self.done.clear();
        Ok(())
    }

    /// Compares copies with each other and parity with data, where `host` has anything.
    pub(super) fn compare(&mut self, host: &mut Written) -> DiskResult {
        if !self.array.is_redundant() {
            return Ok(());
        }
        let layout = self.array.layout().clone();
        // By the places on the members.
        let mut parts = BTreeSet::new();
        for run in host.runs(0..layout.host_sectors()).map_err(DiskFault::Io)? {
            for piece in layout.pieces(Lba(run.start), run.end - run.start) {
                for (_, at) in (0..layout.copies()).map(|copy| layout.copy(piece.lba, copy)) {
                    parts.extend(at.0 / OWN_WORK_SECTORS..(at.0 + piece.sectors).div_ceil(OWN_WORK_SECTORS));
                }
            }
        }
        for part in parts {
            self.array.scrub(Lba(part * OWN_WORK_SECTORS), OWN_WORK_SECTORS, self.now)?;
            self.end_own_work()?;
        }
        Ok(())
    }

    /// Books of all layers, if all keep some: each after how many words it is.
    pub(super) fn books(&self) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        for drive in self.drives() {
            let books = drive.layer.books()?;
            all.push(books.len() as u64);
            all.extend(books);
        }
        Some(all)
    }

    /// Gives the layers what they had in their books.
    pub(super) fn take_books(&mut self, mut all: &[u64]) -> DiskResult {
        let cut_short = || Box::new(DiskFault::Inconsistent("the books of an array's layers are cut short".into()));
        for drive in self.drives_mut() {
            let (&words, rest) = all.split_first().ok_or_else(cut_short)?;
            let (own, rest) = rest.split_at_checked(words as usize).ok_or_else(cut_short)?;
            drive.layer.take_books(own)?;
            all = rest;
        }
        Ok(())
    }
}
