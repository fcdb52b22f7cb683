//! A served drive or array: commands in one queue, the model that says when they complete, and the image that holds the data.
//!
//! A command reads or writes the image at the moment at which the model completes it; what will be flushed soon is written when the drive
//! begins to write it, so that the host's sync runs meanwhile. Commands on the same sectors, one of which changes them, keep their order:
//! the later one waits.

mod power_cut;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::write_zeros;
use smrkit::device::{Completion, Device, LayeredDisk, MemberDrive};
use smrkit::engine::saved::SavedState;
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::{Gauges, HostZones, ZoneAction, ZoneCondition};
use smrkit::ranges::RangeMap;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::tally::{Cause, Tally};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::control::{AimedFault, InjectedFault};
use super::image::{DriveImage, Syncer};
use super::log::{Events, FoundState, LogEvent, LogWriter, Replay};
use super::model::{Model, is_power_cut};
use crate::error::{LiveError, lacks_room};
use crate::log::log;
use power_cut::{UndoLog, replaced};

/// Zeros are written in pieces of this many sectors: 8 MiB (assumption).
const ZERO_SECTORS: u64 = 1 << 14;
/// Sectors that are discarded at a time: 512 GiB, as the number of a request's sectors has 32 bits. A whole number of zones.
pub(super) const DISCARD_SECTORS: u64 = 1 << 30;
/// Commands that wait at most before clients are kept waiting (assumption).
const COMMANDS_MAX: usize = 1024;
/// Bytes of events that gather before they are written out, and in `IMAGE.smr` before the state is saved anew (assumption).
const EVENTS_BYTES: usize = 64 << 10;
const EVENTS_BYTES_MAX: u64 = 64 << 20;
/// A host that flushed after so many writes at most will soon flush the next ones, too (assumption).
const FLUSHED_WRITES: u64 = 8;
/// Time between looks at whether a full disk of the host has room again (assumption).
const ROOM_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between lines of the server's log on writes that found no room (assumption).
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The least of a drive's time for which it works for itself at once (assumption).
const STEP: Nanos = Nanos(1_000_000);

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes durable what was written.
    Flush,
    /// Discards data: zeros are read then.
    Trim,
    /// Writes zeros.
    WriteZeroes,
    /// Asks which parts are holes.
    BlockStatus,
    /// Writes data at the write pointer of the zone that begins at the offset.
    ZoneAppend,
    /// Changes the state of a zone.
    Zone(ZoneAction),
}

/// Why a command failed, with its number in Linux, which is that of NBD too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The drive can only be read.
    NotPermitted = 1,
    /// The drive or the image failed.
    Io = 5,
    /// It makes no sense.
    Invalid = 22,
    /// The image's file system is full, or the drive ends before.
    NoSpace = 28,
    /// It is longer than any may be.
    Overflow = 75,
    /// The server ends.
    Shutdown = 108,
}

/// A host's command, from its arrival to its reply.
#[derive(Debug)]
pub struct Command {
    /// Number of its client.
    pub client: u64,
    /// The client's number for it.
    pub cookie: u64,
    /// Its kind.
    pub kind: CommandKind,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// True if it must be durable before it completes.
    pub fua: bool,
    /// Zeros are to take up room.
    pub no_hole: bool,
    /// Of a block status: one extent is enough.
    pub one_extent: bool,
    /// Data to be written, or that was read.
    pub data: Vec<u8>,
    /// When it came.
    pub arrival: Nanos,
    /// How far it is.
    pub state: CommandState,
}

/// State of a command.
#[derive(Debug)]
pub enum CommandState {
    /// It was not begun.
    Waiting,
    /// The model serves it.
    UnderWay {
        /// The model's tag of the step.
        tag: u64,
        /// The step that the model serves.
        step: Option<Step>,
        /// Those after it.
        rest: Steps,
        /// True if it never completes.
        is_silent: bool,
        /// Number of the host's sync that it waits for; 0 where it waits for none.
        sync: u64,
        /// True if its data are in the image already.
        is_written: bool,
        /// What they replaced there, where a power cut may undo that.
        before: Option<Vec<u8>>,
        /// Bytes that the drive has discarded and that the image still holds, and when it had.
        discarded: Option<(Range<u64>, Nanos)>,
    },
    /// It completed at this moment of the drive's time.
    Ended(Nanos, Result<(), CommandError>),
}

/// A request of the drive, and what it does to the image.
#[derive(Debug)]
pub struct Step {
    request: Request,
    /// When it came to the drive.
    arrival: Nanos,
}

/// Requests of the drive that a command takes, made one by one: a command may be for all of the drive.
#[derive(Debug)]
pub struct Steps {
    op: Op,
    /// Sectors without a request.
    left: Range<u64>,
    /// Sectors of a request at most.
    longest: u64,
    /// True if a flush comes last.
    flushes: bool,
}

impl Steps {
    fn of(command: &Command) -> Steps {
        let sectors = command.sectors();
        let all = sectors.end - sectors.start;
        let (op, left, longest) = match command.kind {
            CommandKind::Read => (Op::Read, sectors, all),
            CommandKind::Write => (Op::Write, sectors, all),
            CommandKind::Trim => (Op::Discard, sectors, DISCARD_SECTORS),
            CommandKind::WriteZeroes => (Op::Write, sectors, ZERO_SECTORS),
            // Commands about zones take no time, an append is a write by now, and the server answers a block status from the image.
            CommandKind::Flush | CommandKind::BlockStatus | CommandKind::Zone(_) | CommandKind::ZoneAppend => {
                (Op::Flush, 0..0, 0)
            }
        };
        Steps { op, left, longest, flushes: command.fua || command.kind == CommandKind::Flush }
    }

    fn is_empty(&self) -> bool {
        self.left.is_empty() && !self.flushes
    }
}

impl Iterator for Steps {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Range { start, end } = self.left;
        if start == end {
            return std::mem::take(&mut self.flushes).then(|| Request::new(Op::Flush, Lba(0), 0));
        }
        self.left.start = end.min(start + self.longest);
        Some(Request::new(self.op, Lba(start), (self.left.start - start) as u32))
    }
}

impl Command {
    /// A command of whole sectors.
    pub fn new(kind: CommandKind, offset: u64, bytes: u64, data: Vec<u8>) -> Command {
        let (client, cookie, arrival) = (0, 0, Nanos::ZERO);
        let (fua, no_hole, one_extent, state) = (false, false, false, CommandState::Waiting);
        Command { client, cookie, kind, offset, bytes, fua, no_hole, one_extent, data, arrival, state }
    }

    /// Refuses what makes no sense on a drive of that many bytes.
    pub(super) fn check(&self, drive_bytes: u64, is_read_only: bool) -> Result<(), CommandError> {
        let (offset, bytes) = (self.offset, self.bytes);
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= drive_bytes);
        match self.kind {
            CommandKind::Flush if (offset, bytes) == (0, 0) => Ok(()),
            _ if self.changes() && is_read_only => Err(CommandError::NotPermitted),
            _ if bytes == 0 || !(offset | bytes).is_multiple_of(SECTOR_BYTES) => Err(CommandError::Invalid),
            _ if is_inside => Ok(()),
            _ => Err(if self.changes() { CommandError::NoSpace } else { CommandError::Invalid }),
        }
    }

    fn sectors(&self) -> Range<u64> {
        self.offset / SECTOR_BYTES..(self.offset + self.bytes) / SECTOR_BYTES
    }

    /// Bytes to be written that it holds.
    fn payload_bytes(&self) -> usize {
        if matches!(self.kind, CommandKind::Write | CommandKind::ZoneAppend) { self.data.len() } else { 0 }
    }

    fn changes(&self) -> bool {
        use CommandKind::{BlockStatus, Flush, Read, Trim, Write, WriteZeroes, Zone, ZoneAppend};
        match self.kind {
            Write | Trim | WriteZeroes | ZoneAppend | Zone(_) => true,
            Read | Flush | BlockStatus => false,
        }
    }

    /// Sectors that wait for other commands, and for which others wait. What changes a part of a zone, of so many sectors, moves its
    /// write pointer.
    fn held_sectors(&self, zone_sectors: Option<u64>) -> Range<u64> {
        let Range { start, end } = self.sectors();
        match zone_sectors {
            Some(zone) if self.changes() => start / zone * zone..end.next_multiple_of(zone),
            _ => start..end,
        }
    }

    /// True if the command must wait for the other: they are for the same sectors, and one changes them.
    fn conflicts(&self, other: &Command, zone_sectors: Option<u64>) -> bool {
        let (own, others) = (self.held_sectors(zone_sectors), other.held_sectors(zone_sectors));
        (self.changes() || other.changes()) && own.start < others.end && others.start < own.end
    }

    fn tag(&self) -> Option<u64> {
        if let CommandState::UnderWay { tag, .. } = self.state { Some(tag) } else { None }
    }
}

/// A state in which a drive begins.
pub enum PreparedState {
    /// The persistent cache is nearly full.
    NearlyFull,
    /// It is full.
    Full,
    /// It is full, and has been cleaned for a while.
    Cleaning,
    /// A run has saved it.
    Saved(Arc<SavedState>),
}

/// A drive or an array that is served.
pub struct ServedDrive {
    /// The image.
    pub image: DriveImage,
    pub(super) model: Model,
    events: Events,
    /// Commands in the order of their arrival, those that were begun before the others.
    pub(super) queue: VecDeque<Command>,
    /// Those that were begun.
    pub(super) begun: usize,
    /// How many times faster than the host's clock its time passes; none where nobody waits for it.
    pace: Option<f64>,
    pub(super) ended: VecDeque<Command>,
    /// Commands that the drive has completed, with the sync of the image that each waits for.
    pub(super) syncing: VecDeque<(u64, Command)>,
    syncer: Syncer,
    /// True if the image may have changed since a sync was asked for last.
    is_changed: bool,
    /// Writes that were begun since the last flush, and that there were before it.
    writes: [u64; 2],
    /// True if flushes wait until the image is durable.
    pub is_durable: bool,
    /// Bytes to be written that commands hold.
    pub(super) held_bytes: usize,
    next_tag: u64,
    /// True if a layer may lose writes that completed and were not flushed when the power is cut.
    may_lose: bool,
    undo: UndoLog,
    /// Sectors that can't be read until they are written.
    unreadable: RangeMap<()>,
    slow_by: Nanos,
    is_silent: bool,
    /// Faults of commands that match, how many did so far, and how many of these failed.
    aimed: Vec<(AimedFault, u64, u64)>,
    random: Pcg64Mcg,
    cut_seed: u64,
    has_lost: bool,
    /// Power cuts so far.
    pub power_cuts: u64,
    /// Fault that ended the service, and the remedy.
    pub failure: Option<String>,
    /// Commands that failed because they broke a rule of a host-managed drive.
    pub zone_violations: u64,
    /// Bytes of events in the state file.
    events_bytes: u64,
    /// When the host was last found to have no room for events. Some are missing in the state file then, which is to be made anew.
    lacked_room_at: Option<Instant>,
    /// When it was last said that the image has no room.
    said_full: Option<Instant>,
}

/// Where an append of `sectors` to the zone that begins at `start` goes; `None` where it breaks a rule.
fn append_place(zones: &dyn HostZones, start: u64, sectors: u64) -> Option<Lba> {
    let size = zones.limits().zone_sectors;
    let report = zones.report(start / size);
    // The pointer of a full zone is the beginning of another.
    let has_room = report.pointer + sectors <= size;
    let may_append = report.condition != ZoneCondition::Conventional && start.is_multiple_of(size) && has_room;
    let lba = Lba(start + report.pointer);
    let is_allowed = || zones.check_request(&Request::new(Op::Write, lba, sectors as u32)).is_ok();
    (may_append && is_allowed()).then_some(lba)
}

impl ServedDrive {
    /// Opens the drive of `image` in the state in which it was left.
    pub fn open(
        mut image: DriveImage,
        writer: Option<LogWriter>,
        queue: Queue,
    ) -> Result<(ServedDrive, FoundState), LiveError> {
        let saved = std::mem::take(&mut image.saved);
        let wrong = |error: &dyn ToString| LiveError::image(&image.path, error.to_string());
        let mut unreadable = RangeMap::default();
        saved.unreadable.iter().for_each(|&(lba, n)| unreadable.cover(lba..lba + n, ()));
        let mut model = Model::new(&image.system).map_err(|error| wrong(&error))?;
        let mut found = FoundState::New;
        if !saved.model.is_empty() {
            found = FoundState::Clean;
            if let Err(fault) = model.restore(&saved.model) {
                // The data of a host-managed drive is of no use without its write pointers.
                if super::image::is_host_managed(&image.system) {
                    return Err(wrong(&fault));
                }
                // Of others only times are lost with it, and what is half restored is of no use.
                log(&format!("{}: {fault}: the drive starts with a fresh state", image.path.display()));
                model = Model::new(&image.system).map_err(|error| wrong(&error))?;
                found = FoundState::New;
            }
        }
        saved.events.iter().for_each(|event| note_unreadable(&mut unreadable, event));
        if found == FoundState::Clean && !saved.events.is_empty() {
            found = FoundState::Recovered;
            let mut replay = Replay::new(model, image.system.clone());
            for (line, event) in (1..).zip(saved.events) {
                replay.follow(event, line).map_err(|error| wrong(&error))?;
            }
            model = replay.model;
            model.plan_power_cut(false);
            model.drain().map_err(|fault| wrong(&fault))?;
        }
        model.order_commands(queue, &image.system);
        let may_lose = model.may_lose();
        let syncer = Syncer::new(image.storage.clone()).map_err(|error| LiveError::io(&image.path, error))?;
        let mut drive = ServedDrive {
            image,
            model,
            events: Events::new(writer),
            queue: VecDeque::new(),
            begun: 0,
            pace: None,
            ended: VecDeque::new(),
            syncing: VecDeque::new(),
            syncer,
            is_changed: true,
            writes: [0, u64::MAX],
            is_durable: true,
            held_bytes: 0,
            next_tag: 0,
            may_lose,
            undo: UndoLog::default(),
            unreadable,
            slow_by: Nanos::ZERO,
            is_silent: false,
            aimed: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(1),
            cut_seed: 0,
            has_lost: false,
            power_cuts: 0,
            failure: None,
            zone_violations: 0,
            events_bytes: 0,
            lacked_room_at: None,
            said_full: None,
        };
        match drive.checkpoint() {
            Ok(()) => {}
            Err(error) if error.lacks_room() => drive.note_lack_of_room(&error),
            // Without the state nobody knows up to where a zone is written.
            Err(error) if drive.zones().is_some() => return Err(error),
            Err(error) => {
                log(&format!("{error}: the drive is served, and its state will not be kept"));
                drive.image.state_file = None;
            }
        }
        if found != FoundState::New {
            drive.events.add_state(&drive.model.state());
        }
        drive.events.add(LogEvent::Open(found, drive.model.now));
        drive.events.add(LogEvent::Queue(queue));
        drive.write_events();
        Ok((drive, found))
    }

    /// Takes note in the log of how many times faster than the host's clock the drive's time passes.
    pub fn keep_pace(&mut self, factor: f64) {
        self.pace = Some(factor);
        self.events.write_to_log(&LogEvent::Pace(factor));
    }

    /// The disks and the layers of all drives, in order.
    pub fn drives(&self) -> Vec<&LayeredDisk> {
        self.model.drives()
    }

    /// Gauges of the layers.
    pub fn gauges(&self) -> Gauges {
        self.model.device.gauges()
    }

    /// The drive's time.
    pub fn now(&self) -> Nanos {
        self.model.now
    }

    /// Time that the drives have spent on work of their own.
    pub fn cleaning_time(&self) -> Nanos {
        let own = |cause: &Cause| *cause != Cause::Host;
        let of = |tally: &Tally| {
            Cause::ALL.into_iter().filter(own).map(|cause| tally.reads(cause).ns + tally.writes(cause).ns).sum::<u64>()
        };
        Nanos(self.drives().into_iter().map(|drive| of(drive.disk.tally())).sum())
    }

    /// Bytes that the commands under way carry: zeros and discards carry none, however long they are.
    pub fn under_way_bytes(&self) -> u64 {
        let carries = |command: &&Command| matches!(command.kind, CommandKind::Read | CommandKind::Write);
        self.queue.iter().take(self.begun).filter(carries).map(|command| command.bytes).sum()
    }

    /// True if no more commands are to come for now.
    pub fn is_full(&self) -> bool {
        self.queue.len() + self.syncing.len() >= COMMANDS_MAX
    }

    /// A command comes.
    pub fn push(&mut self, command: Command) {
        self.held_bytes += command.payload_bytes();
        self.queue.push_back(command);
    }

    /// Takes out the commands that have not been begun and that `pick` names.
    pub fn take_waiting(&mut self, mut pick: impl FnMut(&Command) -> bool) -> Vec<Command> {
        let (taken, kept) = self.queue.drain(self.begun..).partition::<Vec<Command>, _>(|command| pick(command));
        self.queue.extend(kept);
        self.held_bytes -= taken.iter().map(Command::payload_bytes).sum::<usize>();
        taken
    }

    /// Serves a command; none if it never completes. Nothing else is under way.
    pub fn serve(&mut self, command: Command) -> Option<Command> {
        self.push(command);
        while (!self.queue.is_empty() || !self.syncing.is_empty()) && self.ended.is_empty() {
            match self.queue.is_empty() {
                true => self.receive_synced(true),
                false if self.begin_next(self.model.now) => {}
                false => self.advance(None),
            }
        }
        self.ended.pop_front()
    }

    /// Begins the first of the commands that wait, if it need not wait any longer.
    pub fn begin_next(&mut self, now: Nanos) -> bool {
        let Some(command) = self.queue.get(self.begun) else { return false };
        let zone_sectors = self.zones().map(|zones| zones.limits().zone_sectors);
        // A zone is active once the model serves its first write: until then the limit can't be looked at.
        let counts_active = self.zones().is_some_and(|zones| zones.limits().max_active > 0);
        let must_wait = self.begun > 0 && counts_active && command.changes()
            || self.queue.iter().take(self.begun).any(|other| command.conflicts(other, zone_sectors));
        // A checkpoint needs an idle drive. Once the events are four times their limit, no command begins until those in flight are done.
        let is_room_due = self.lacked_room_at.is_some_and(|since| since.elapsed() >= ROOM_CHECK_INTERVAL);
        let checkpoint_is_due =
            (self.events_bytes > 4 * EVENTS_BYTES_MAX || is_room_due) && self.begun > 0 && !self.model.is_rebuilding();
        if must_wait || checkpoint_is_due || self.model.now > now {
            return false;
        }
        if is_room_due {
            self.save_state();
        }
        if zone_sectors.is_some() && !self.begin_on_zones(now.max(self.model.now)) {
            return true;
        }
        let (at, rest) = (self.begun, Steps::of(&self.queue[self.begun]));
        let (tag, is_silent) = (self.next_tag, std::mem::take(&mut self.is_silent));
        let command = &mut self.queue[at];
        let (step, sync, is_written, before, discarded) = (None, 0, false, None, None);
        command.state = CommandState::UnderWay { tag, step, rest, is_silent, sync, is_written, before, discarded };
        self.begun += 1;
        self.submit_step(at, now.max(self.model.now));
        true
    }

    /// Begins the first of the commands that wait, on a host-managed drive: an append becomes a write. False if that was all: a command
    /// about a zone takes no time, and one that breaks a rule fails before the model has it. No other command on its zone is under way.
    fn begin_on_zones(&mut self, now: Nanos) -> bool {
        let Some(zones) = self.zones() else { return true };
        let (limits, command) = (zones.limits(), &self.queue[self.begun]);
        let Range { start, end } = command.sectors();
        let zone = start / limits.zone_sectors;
        let result = match command.kind {
            CommandKind::Zone(action) => self.act_on_zone(action, zone, now),
            CommandKind::ZoneAppend => match append_place(zones, start, end - start) {
                Some(lba) => {
                    let command = &mut self.queue[self.begun];
                    (command.kind, command.offset) = (CommandKind::Write, lba.0 * SECTOR_BYTES);
                    return true;
                }
                None => Err(CommandError::Io),
            },
            _ if Steps::of(command).all(|request| zones.check_request(&request).is_ok()) => return true,
            _ => Err(CommandError::Io),
        };
        self.zone_violations += u64::from(result.is_err());
        if let Some(mut command) = self.queue.remove(self.begun) {
            self.held_bytes -= command.payload_bytes();
            command.state = CommandState::Ended(self.model.now, result);
            self.ended.push_back(command);
        }
        false
    }

    /// Changes the state of a zone at `now`.
    fn act_on_zone(&mut self, action: ZoneAction, zone: u64, now: Nanos) -> Result<(), CommandError> {
        // At this moment in a replay too.
        self.idle_until(now, true);
        self.model.act_on_zone(action, zone).map_err(|_| CommandError::Io)?;
        self.events.add(LogEvent::Zone(action, zone));
        Ok(())
    }

    /// The zones that hosts see, of a single drive that is host-managed.
    pub fn zones(&self) -> Option<&dyn HostZones> {
        match &self.model.device {
            Device::Drive(drive) => drive.device().layer.zones(),
            Device::Array(_) => None,
        }
    }

    /// True if a drive takes writes into memory of its own and puts them on to the platters in another order.
    pub(super) fn has_write_cache(&self) -> bool {
        self.model.device.drives().iter().any(MemberDrive::has_write_cache)
    }

    /// Submits the next step of a command that is under way to the model.
    fn submit_step(&mut self, at: usize, now: Nanos) {
        let (arrival, command) = (self.model.now.max(now), &mut self.queue[at]);
        let CommandState::UnderWay { tag, step, rest, sync, .. } = &mut command.state else { return };
        let Some(request) = rest.next() else { return };
        (*tag, *step) = (self.next_tag, Some(Step { request, arrival }));
        let tag = *tag;
        match request.op {
            Op::Flush => {
                self.writes = [0, self.writes[0]];
                if self.is_durable {
                    // All that it vouches for is in the image already, so that the host's sync may run beside the drive's flush.
                    *sync = self.syncer.begin(std::mem::take(&mut self.is_changed));
                }
            }
            Op::Write if command.kind == CommandKind::Write => {
                self.writes[0] += 1;
                let will_be_flushed = command.fua || self.writes[0].max(self.writes[1]) <= FLUSHED_WRITES;
                // Of a write that is to fail, or to be cut off, less may be in the image.
                let may_fail = self.model.will_lose_power() || !self.aimed.is_empty() || self.failure.is_some();
                // Without a pace the flush comes at once, and would wait for the sync of each write.
                if will_be_flushed && self.is_durable && self.pace.is_some() && !may_fail {
                    self.write_early(at);
                }
            }
            Op::Read | Op::Write | Op::Discard => {}
        }
        self.next_tag += 1;
        self.events.begin(tag, LogEvent::Failed { request, arrival });
        if self.failure.is_some() {
            return self.fail_under_way(self.model.now);
        }
        let slow_by = std::mem::take(&mut self.slow_by);
        if let Err(fault) = self.model.submit(tag, &request, arrival, slow_by) {
            self.meet(fault);
        }
    }

    /// Writes the data of a command to the image before the drive has written them, and lets the host make them durable meanwhile. Nobody
    /// reads them before: commands on the same sectors wait.
    fn write_early(&mut self, at: usize) {
        let command = &mut self.queue[at];
        let sectors = command.sectors();
        // What fails now fails again when the drive has written it, and is told then.
        let Ok(replaced) = (if self.may_lose { replaced(&self.image, sectors, Op::Write) } else { Ok(None) }) else {
            return;
        };
        if self.image.storage.write(command.offset, &command.data).is_ok()
            && let CommandState::UnderWay { is_written, before, .. } = &mut command.state
        {
            (*is_written, *before) = (true, replaced);
            self.syncer.begin(true);
            self.is_changed = false;
        }
    }

    /// Lets time go on to `limit`; without one until a command ends, and to all else that happens at that moment.
    pub fn advance(&mut self, limit: Option<Nanos>) {
        self.advance_before(limit, None);
    }

    /// As `advance`; false if it was time to stop before all was done: one command may be long.
    pub(super) fn advance_before(&mut self, limit: Option<Nanos>, stop_at: Option<Instant>) -> bool {
        let mut until = limit.unwrap_or(Nanos::MAX);
        while self.failure.is_none() {
            let stepped = self.model.step(until);
            let mut has_completed = false;
            while let Some(done) = self.model.take_done() {
                has_completed = true;
                self.complete(done, true);
            }
            match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => self.meet(fault),
            }
            if has_completed
                && self.ended.is_empty()
                && self.failure.is_none()
                && stop_at.is_some_and(|at| Instant::now() >= at)
            {
                return false;
            }
            if until == Nanos::MAX && (has_completed || !self.ended.is_empty()) {
                // A nanosecond more than this moment: what waits begins only once its moment is over (`Device::step`).
                until = self.model.now + Nanos(1);
            }
        }
        if until < Nanos::MAX {
            self.model.now = self.model.now.max(until);
        }
        if self.failure.is_some() {
            // The service ends here; a log tells of power cuts alone.
            self.events.drop_held();
            self.fail_under_way(self.model.now);
        }
        let is_done = self.punch_discarded(stop_at);
        if self.begun == 0 && self.events_bytes > EVENTS_BYTES_MAX {
            self.save_state();
        }
        is_done
    }

    /// Frees in the image what the drive has discarded: a piece after another, since the host may need seconds for a file of many extents.
    /// False if it was time to stop before all was done.
    fn punch_discarded(&mut self, stop_at: Option<Instant>) -> bool {
        let has_discarded =
            |command: &Command| matches!(command.state, CommandState::UnderWay { discarded: Some(_), .. });
        while let Some(at) = self.queue.iter().take(self.begun).position(has_discarded) {
            if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                return false;
            }
            let CommandState::UnderWay { discarded, .. } = &mut self.queue[at].state else { break };
            let Some((left, end)) = discarded.take() else { break };
            let punched = self.punch_piece(left);
            match (punched, &mut self.queue[at].state) {
                (Ok(left), CommandState::UnderWay { discarded, .. }) if !left.is_empty() => {
                    *discarded = Some((left, end));
                }
                (punched, _) => self.go_on(at, end, punched.map(drop), true),
            }
        }
        true
    }

    /// Frees the first piece of these bytes that holds data; what is left of them then.
    fn punch_piece(&mut self, left: Range<u64>) -> Result<Range<u64>, CommandError> {
        let storage = Arc::clone(&self.image.storage);
        let data = if left.is_empty() { Ok(None) } else { storage.data_from(left.start, left.end) };
        let punched = data.and_then(|data| {
            let start = data.map_or(left.end, |data| data.start);
            let end = left.end.min(start + ZERO_SECTORS * SECTOR_BYTES);
            self.is_changed |= start < end;
            if start < end { storage.punch(start..end) } else { Ok(()) }.map(|()| end)
        });
        let end = punched.map_err(|error| self.failed(&error))?;
        self.unreadable.uncover(left.start / SECTOR_BYTES..end / SECTOR_BYTES);
        Ok(end..left.end)
    }

    /// Nothing more is begun of the commands under way that `pick` names: what the model serves now is their end.
    pub(super) fn cut_short(&mut self, pick: impl Fn(&Command) -> bool) {
        for command in self.queue.iter_mut().take(self.begun).filter(|command| pick(command)) {
            if let CommandState::UnderWay { rest, discarded, .. } = &mut command.state {
                (rest.left, rest.flushes) = (0..0, false);
                discarded.iter_mut().for_each(|(left, _)| *left = 0..0);
            }
        }
    }

    /// The model completed a step. The command's next one begins, if the drive `goes_on`.
    fn complete(&mut self, Completion { tag, start, end, .. }: Completion, goes_on: bool) {
        let Some(at) = self.queue.iter().take(self.begun).position(|one| one.tag() == Some(tag)) else { return };
        let CommandState::UnderWay { step, .. } = &mut self.queue[at].state else { return };
        let Some(Step { request, arrival }) = step.take() else { return };
        self.events.end(tag, Some(LogEvent::Served { request, arrival, start, end }));
        let done = self.carry_out(at, &request);
        match &mut self.queue[at].state {
            CommandState::UnderWay { discarded, .. } if done.is_ok() && request.op == Op::Discard => {
                *discarded = Some((request.lba.0 * SECTOR_BYTES..request.end().0 * SECTOR_BYTES, end));
            }
            _ => self.go_on(at, end, done, goes_on),
        }
    }

    /// A step is done, in the image too. The command's next one begins, if the drive `goes_on`.
    fn go_on(&mut self, at: usize, end: Nanos, done: Result<(), CommandError>, goes_on: bool) {
        let CommandState::UnderWay { rest, .. } = &self.queue[at].state else { return };
        match done {
            Ok(()) if !rest.is_empty() && goes_on => self.submit_step(at, self.model.now),
            Ok(()) if !rest.is_empty() => {}
            done => self.end(at, end, done),
        }
    }

    /// Reads or writes the image, as a step of a command asks for that has completed.
    fn carry_out(&mut self, at: usize, request: &Request) -> Result<(), CommandError> {
        let range = request.lba.0..request.end().0;
        let bytes = range.start * SECTOR_BYTES..range.end * SECTOR_BYTES;
        let fault = self.next_fault(request.op, &range);
        if fault == Some(false) {
            return Err(CommandError::Io);
        }
        let result = match request.op {
            Op::Read => {
                let read = self.read(at, range, bytes)?;
                if let (Some(true), Some(byte)) = (fault, self.queue[at].data.first_mut()) {
                    *byte ^= 1;
                }
                read
            }
            Op::Flush => {
                self.write_events();
                self.undo.clear();
                // Up to where a zone's data is good, the events alone tell.
                match self.is_durable && self.zones().is_some() {
                    true if self.lacked_room_at.is_some() => Err(io::ErrorKind::StorageFull.into()),
                    true => self.image.sync_events(),
                    false => Ok(()),
                }
            }
            Op::Write | Op::Discard => {
                let early = match &mut self.queue[at].state {
                    CommandState::UnderWay { is_written: true, before, .. } => Some(before.take()),
                    _ => None,
                };
                let is_written = early.is_some();
                if self.may_lose {
                    // The layer has not begun what comes after this request: what it has committed came before.
                    self.undo.note_commits(self.model.commits());
                    let before = match early {
                        Some(before) => before,
                        None => {
                            replaced(&self.image, range.clone(), request.op).map_err(|error| self.failed(&error))?
                        }
                    };
                    self.undo.remember(range.clone(), before);
                }
                let (command, storage) = (&self.queue[at], &*self.image.storage);
                self.is_changed |= !is_written;
                let written = match command.kind {
                    _ if is_written => Ok(()),
                    CommandKind::Write => storage.write(bytes.start, &command.data),
                    CommandKind::Trim => return Ok(()),
                    _ if command.no_hole => write_zeros(bytes, |at, zeros| storage.write(at, zeros)),
                    _ => storage.punch(bytes),
                };
                if written.is_ok() {
                    self.unreadable.uncover(range);
                }
                written
            }
        };
        result.map_err(|error| self.failed(&error))
    }

    /// Whether a request meets an aimed fault, and then whether that makes its data wrong.
    fn next_fault(&mut self, op: Op, range: &Range<u64>) -> Option<bool> {
        let random = &mut self.random;
        let mut meets = |(fault, matching, failed): &mut (AimedFault, u64, u64)| {
            let touches = range.start < fault.end && fault.first < range.end || op == Op::Flush;
            if *failed == fault.count || fault.op.is_some_and(|own| own != op) || !touches {
                return false;
            }
            *matching += 1;
            let fails = matching.is_multiple_of(fault.every) && random.random_bool(fault.probability);
            *failed += u64::from(fails);
            fails
        };
        self.aimed.iter_mut().find_map(|aimed| meets(aimed).then_some(aimed.0.corrupts))
    }

    fn read(&mut self, at: usize, range: Range<u64>, bytes: Range<u64>) -> Result<io::Result<()>, CommandError> {
        if self.unreadable.within(range).next().is_some() {
            return Err(CommandError::Io);
        }
        let data = &mut self.queue[at].data;
        data.resize((bytes.end - bytes.start) as usize, 0);
        Ok(self.image.storage.read(bytes.start, data))
    }

    fn failed(&mut self, error: &io::Error) -> CommandError {
        if !lacks_room(error) {
            log(&format!("{}: {error}", self.image.path.display()));
            return CommandError::Io;
        }
        // Whoever goes on writing would fill the disk of the log, too.
        if self.said_full.is_none_or(|said| said.elapsed() >= FULL_LOG_INTERVAL) {
            log(&format!("{}: {error}", self.image.path.display()));
            self.said_full = Some(Instant::now());
        }
        CommandError::NoSpace
    }

    /// A command has ended.
    fn end(&mut self, at: usize, end: Nanos, result: Result<(), CommandError>) {
        let Some(mut command) = self.queue.remove(at) else { return };
        self.begun -= 1;
        self.held_bytes -= command.payload_bytes();
        match std::mem::replace(&mut command.state, CommandState::Ended(end, result)) {
            CommandState::UnderWay { is_silent: true, .. } => {}
            CommandState::UnderWay { sync, .. } if result.is_ok() && self.syncer.has_failed(sync) => {
                command.state = CommandState::Ended(end, Err(CommandError::NoSpace));
                self.ended.push_back(command);
            }
            CommandState::UnderWay { sync, .. } if result.is_ok() && !self.syncer.is_done(sync) => {
                self.syncing.push_back((sync, command));
            }
            _ => self.ended.push_back(command),
        }
    }

    /// Lets the host make durable what was written, while the drive goes on.
    pub(super) fn begin_sync(&mut self) {
        self.syncer.begin(std::mem::take(&mut self.is_changed));
    }

    /// Ends commands whose data have become durable; waits for that where `waits` is true.
    pub fn receive_synced(&mut self, waits: bool) {
        match self.syncer.receive(waits) {
            // The system forgets what it could not write, and the next sync succeeds without it: each client's next flush tells of it.
            Err(error) if lacks_room(&error) => {
                self.failed(&error);
                (self.has_lost, self.is_changed) = (true, true);
            }
            // Nobody knows what else is lost.
            synced => self.give_up_on(synced),
        }
        while let Some((sync, mut command)) = self.syncing.pop_front() {
            if self.failure.is_none() && !self.syncer.is_done(sync) {
                return self.syncing.push_front((sync, command));
            }
            if let CommandState::Ended(_, result) = &mut command.state {
                *result = match () {
                    () if self.failure.is_some() => Err(CommandError::Io),
                    () if self.syncer.has_failed(sync) => Err(CommandError::NoSpace),
                    () => *result,
                };
            }
            self.ended.push_back(command);
        }
    }

    /// Nothing of what is under way is served.
    fn fail_under_way(&mut self, now: Nanos) {
        while self.begun > 0 {
            if let Some(tag) = self.queue[0].tag() {
                self.events.end(tag, None);
            }
            self.end(0, now, Err(CommandError::Io));
        }
    }

    /// A step of the model met a fault.
    fn meet(&mut self, fault: Box<Fault>) {
        if !is_power_cut(&fault) {
            return self.give_up_on(Err::<(), _>(fault));
        }
        // What was completed before the cut was: a replay finds it so.
        while let Some(done) = self.model.take_done() {
            self.complete(done, false);
        }
        self.lose_power(None);
    }

    fn give_up_on<E: ToString>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            let failure = format!("{}; the drive fails every command from now on: serve it anew", error.to_string());
            log(&format!("{}: {failure}", self.image.path.display()));
            self.failure = Some(failure);
        }
    }

    /// True if a power cut may have lost completed writes that were not flushed, since this was last asked.
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Does a little of what is due or helps while nothing waits, if any begins before `time`; returns whether it did. A command may
    /// come then.
    pub fn step_before(&mut self, time: Nanos) -> bool {
        let (from, mut span) = (self.model.free_from(), STEP);
        while from < time && self.failure.is_none() {
            if self.idle_until(time.min(from + span), false) {
                return true;
            }
            if from + span >= time {
                break;
            }
            span = span + span;
        }
        false
    }

    /// Lets drives do their own work that begins before `time`; returns whether any did. That becomes an event, since it decides which
    /// command is next; with `always` in any case.
    fn idle_until(&mut self, time: Nanos, always: bool) -> bool {
        match self.model.idle_until(time) {
            Err(fault) if is_power_cut(&fault) => {
                self.lose_power(Some(LogEvent::Interrupted(time)));
                true
            }
            Ok(false) if !always => false,
            idled => {
                self.events.add(LogEvent::Idle(time));
                let any = *idled.as_ref().unwrap_or(&false);
                self.give_up_on(idled.map(drop));
                any
            }
        }
    }

    /// Injects a fault at the drive's time `at`.
    pub fn inject(&mut self, fault: InjectedFault, at: Nanos) -> Result<(), String> {
        match fault {
            InjectedFault::PowerCut(seed) => {
                // The cut is to meet what comes after `at`, in a replay too.
                self.idle_until(self.model.now.max(at), true);
                self.cut_seed = seed;
                self.model.plan_power_cut(true);
            }
            InjectedFault::BadSector(lba) if lba >= self.image.sectors() => {
                let sectors = self.image.sectors();
                return Err(format!("sector {lba} is past the drive's end: it has {sectors}"));
            }
            InjectedFault::BadSector(lba) => self.unreadable.cover(lba..lba + 1, ()),
            InjectedFault::Slow(span) => self.slow_by = span,
            InjectedFault::Timeout => self.is_silent = true,
            InjectedFault::Aimed(fault) => self.aimed.push((fault, 0, 0)),
            InjectedFault::Clear => {
                self.aimed.clear();
                self.unreadable.clear();
            }
            InjectedFault::FailMember(disk) => {
                self.idle_until(self.model.now.max(at), true);
                self.model.fail_member(disk)?;
            }
            InjectedFault::ReplaceMember(disk) => {
                self.idle_until(self.model.now.max(at), true);
                self.model.replace_member(disk, &self.image.system)?;
            }
            InjectedFault::Idle(span) => {
                let until = self.model.now.max(at) + span;
                self.advance(Some(until));
                // That is an event of its own.
                self.idle_until(until, true);
                return Ok(());
            }
        }
        self.events.add(LogEvent::Fault(fault));
        Ok(())
    }

    /// Brings a new drive into a state in which it has served much: as if it had been written at random places (a log: all of it once,
    /// then 64 KiB at random places), of which the image knows nothing.
    pub fn prepare(&mut self, state: &PreparedState) -> Result<(), LiveError> {
        let system = self.image.system.clone();
        let (share, more) = match state {
            PreparedState::NearlyFull => (0.95, 0),
            PreparedState::Full => (1.0, 0),
            PreparedState::Cleaning => (1.0, 1000),
            PreparedState::Saved(saved) => {
                let restored = self.model.restore_saved(saved, &system);
                return restored.map_err(|error| LiveError::image(&self.image.path, error.to_string()));
            }
        };
        match self.model.fill_cache(self.image.sectors(), share, more).map_err(Error::from) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let layer = system.drives()[0].layer.name;
                let message =
                    format!("layer {layer} has no persistent cache and no log to fill: make the drive without a state");
                Err(LiveError::impossible(message))
            }
            Err(error) => Err(LiveError::image(&self.image.path, error.to_string())),
        }
    }

    /// Checks the layers' maps. Nothing is under way.
    pub fn check(&self) -> DiskResult {
        self.drives().into_iter().try_for_each(LayeredDisk::check)
    }

    /// The first parts of some sectors, as many as asked for: how many sectors, and whether they are a hole, which reads as zeros.
    pub fn extents(&self, range: Range<u64>, most: usize) -> io::Result<Vec<(u64, bool)>> {
        let mut parts: Vec<(u64, bool)> = Vec::new();
        let (mut at, end) = (range.start, range.end);
        // The last part may be longer than is known by now.
        while at < end && parts.len() <= most {
            let data = self.image.storage.data_from(at * SECTOR_BYTES, end * SECTOR_BYTES)?;
            let data = data
                .map_or(end..end, |data| (data.start / SECTOR_BYTES).max(at)..data.end.div_ceil(SECTOR_BYTES).min(end));
            for (sectors, is_hole) in [(data.start - at, true), (data.end - data.start, false)] {
                match parts.last_mut() {
                    Some((count, last)) if *last == is_hole => *count += sectors,
                    _ if sectors > 0 => parts.push((sectors, is_hole)),
                    _ => {}
                }
            }
            at = data.end;
        }
        parts.truncate(most);
        Ok(parts)
    }

    /// Ends cleanly: all data is in the image, durably, and the state beside it.
    pub fn close(mut self) -> Result<(), LiveError> {
        while self.begun > 0 {
            self.advance(None);
        }
        drop(self.take_waiting(|_| true));
        (self.ended, self.syncing) = Default::default();
        // No injected timeout may swallow this flush, and it is durable even where those of hosts were not to be.
        (self.is_silent, self.is_durable) = (false, true);
        let flush = self.serve(Command::new(CommandKind::Flush, 0, 0, Vec::new()));
        let is_flushed = matches!(flush, Some(Command { state: CommandState::Ended(_, Ok(())), .. }));
        self.events.add(LogEvent::Closed);
        self.events.flush();
        if !is_flushed || self.failure.is_some() {
            let why = self.failure.map(|failure| format!("{failure}; ")).unwrap_or_default();
            return Err(LiveError::image(&self.image.path, why + "not closed cleanly"));
        }
        self.model.drain().map_err(|fault| LiveError::image(&self.image.path, fault.to_string()))?;
        self.checkpoint()
    }

    /// Saves the state. Nothing is under way.
    fn checkpoint(&mut self) -> Result<(), LiveError> {
        let unreadable: Vec<_> =
            self.unreadable.iter().map(|(range, _)| (range.start, range.end - range.start)).collect();
        self.image.save(&self.model.state(), &unreadable)?;
        // Not before: the state that the file had until now needs these events.
        self.events.lines.clear();
        self.events_bytes = 0;
        Ok(())
    }

    /// Saves the state anew, if that can be done now. Nothing is under way.
    fn save_state(&mut self) {
        // A rebuild goes on between the requests of hosts, and is in no state.
        if self.model.is_rebuilding() {
            return;
        }
        match self.checkpoint() {
            Err(error) if error.lacks_room() => self.note_lack_of_room(&error),
            Err(error) => self.give_up_on(Err::<(), _>(error)),
            Ok(()) if self.lacked_room_at.take().is_some() => {
                log(&format!("{}: there is room again: the drive's state is kept", self.image.path.display()));
            }
            Ok(()) => {}
        }
    }

    /// The host has no room for the drive's state. Its data is served all the same: what needs no room of the host's goes on.
    fn note_lack_of_room(&mut self, error: &dyn std::fmt::Display) {
        if self.lacked_room_at.replace(Instant::now()).is_none() {
            let path = self.image.path.display();
            log(&format!("{path}: the drive's state is not kept until there is room: {error}"));
        }
    }

    /// Writes out the events that have gathered for the state file.
    fn write_events(&mut self) {
        let lines = std::mem::take(&mut self.events.lines);
        if self.lacked_room_at.is_none() {
            self.events_bytes += lines.len() as u64;
            match self.image.append(&lines).map_err(|error| LiveError::io(&self.image.path, error)) {
                Err(error) if error.lacks_room() => self.note_lack_of_room(&error),
                written => self.give_up_on(written),
            }
        }
        self.events.lines = lines;
        self.events.lines.clear();
    }

    /// Writes out events where many have gathered.
    pub fn write_gathered(&mut self) {
        if self.events.lines.len() >= EVENTS_BYTES {
            self.write_events();
        }
    }

    /// Writes out what has gathered of the log and of the events: for tests that drop a drive without closing it.
    pub fn flush_events(&mut self) {
        self.write_events();
        self.events.flush();
    }

    /// The injected faults that are still to come, in the words of `smrkit inject`.
    pub fn faults(&self) -> Vec<String> {
        let aimed = self.aimed.iter().filter(|(fault, _, failed)| *failed < fault.count);
        let mut faults: Vec<String> = aimed.map(|(fault, ..)| fault.to_string()).collect();
        if self.slow_by > Nanos::ZERO {
            faults.push(InjectedFault::Slow(self.slow_by).to_string());
        }
        if self.is_silent {
            faults.push(InjectedFault::Timeout.to_string());
        }
        if self.model.will_lose_power() {
            faults.push(InjectedFault::PowerCut(self.cut_seed).to_string());
        }
        faults
    }

    /// The moment by which what has gathered of the log is to be written out.
    pub fn log_due(&self) -> Option<Instant> {
        self.events.log_due()
    }

    /// Writes out what has gathered of the log once it is due.
    pub fn write_due_log(&mut self) {
        if self.log_due().is_some_and(|due| due <= Instant::now()) {
            self.events.flush();
        }
    }

    /// Begins the log anew, with the state that the drive has then, once it was moved away.
    pub fn rotate_log(&mut self) {
        let is_plain = self.begun == 0
            && !self.model.is_rebuilding()
            && self.slow_by == Nanos::ZERO
            && !self.model.will_lose_power();
        if is_plain && self.events.log_was_moved() {
            let opened = LogEvent::Open(FoundState::Clean, self.model.now);
            let begun = [opened, LogEvent::Queue(self.model.order), LogEvent::Pace(self.pace.unwrap_or(1.0))];
            self.events.begin_log(&self.image.run, &self.model.state(), begun);
        }
    }
}

/// Takes note of sectors that an event made unreadable or readable.
fn note_unreadable(unreadable: &mut RangeMap<()>, event: &LogEvent) {
    match event {
        LogEvent::Fault(InjectedFault::BadSector(lba)) => unreadable.cover(*lba..*lba + 1, ()),
        LogEvent::Fault(InjectedFault::Clear) => unreadable.clear(),
        LogEvent::Served { request, .. } if matches!(request.op, Op::Write | Op::Discard) => {
            unreadable.uncover(request.lba.0..request.end().0);
        }
        _ => {}
    }
}

/// Ready to be read once the image has become durable.
impl AsFd for ServedDrive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.syncer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use smrkit::experiment::system::{System, Systems};
    use smrkit::settings::Settings;

    use super::*;
    use crate::block::image;

    #[test]
    fn a_state_of_another_version_costs_no_data() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("drive.img");
        let system = System::drive("tiny-constant").layer("track-map");
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let made = image::create(&path, image::complete_record(&planned), true).unwrap();
        let mut drive = ServedDrive::open(made, None, Queue::Fcfs).unwrap().0;
        drive.serve(Command::new(CommandKind::Write, 0, 4096, vec![7; 4096])).unwrap();
        drive.close().unwrap();
        let open = || DriveImage::open(&path, |_| Ok(None)).unwrap();
        open().save(b"a state of another version", &[]).unwrap();
        let (mut drive, found) = ServedDrive::open(open(), None, Queue::Fcfs).unwrap();
        assert_eq!(found, FoundState::New);
        assert_eq!(drive.serve(Command::new(CommandKind::Read, 0, 4096, Vec::new())).unwrap().data, [7; 4096]);
        drive.close().unwrap();
        // One that could be read is not asked for its meaning either, but what can't be read stays so.
        let (mut drive, found) = ServedDrive::open(open(), None, Queue::Fcfs).unwrap();
        assert_eq!(found, FoundState::Clean);
        drive.inject(InjectedFault::BadSector(3), Nanos::ZERO).unwrap();
        drive.write_events();
        drop(drive);
        let state_file = image::state_path(&path);
        let state = String::from_utf8_lossy(&std::fs::read(&state_file).unwrap()).into_owned();
        let made_by = format!("\"made_by\":\"{}\"", smrkit::VERSION);
        assert!(state.contains(&made_by), "{state}");
        let (at, mut bytes) = (state.find(&made_by).unwrap() + made_by.len() - 2, std::fs::read(&state_file).unwrap());
        bytes[at] = b'9';
        std::fs::write(&state_file, bytes).unwrap();
        let opened = open();
        assert!(opened.note.as_ref().is_some_and(|note| note.contains("was saved by smrkit")), "{:?}", opened.note);
        let (mut drive, found) = ServedDrive::open(opened, None, Queue::Fcfs).unwrap();
        assert_eq!(found, FoundState::New);
        let read = drive.serve(Command::new(CommandKind::Read, 0, 4096, Vec::new())).unwrap();
        assert!(matches!(read.state, CommandState::Ended(_, Err(_))), "{read:?}");
    }
}
