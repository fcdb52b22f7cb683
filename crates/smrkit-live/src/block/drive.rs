//! A served drive or array: commands in one queue, the model that says when they complete, and the image that holds the data.
//!
//! A command reads or writes the image when the model completes it. Data that the client will probably flush soon is written when the
//! model begins the write, so that the host's fsync runs at the same time. Two commands for the same sectors, of which one changes them,
//! are served in the order of their arrival: the later one waits.

mod power_cut;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::write_zeros;
use smrkit::device::{Completion, Device, LayeredDisk};
use smrkit::engine::saved::SavedState;
use smrkit::error::{DiskResult, Error, Fault};
use smrkit::layer::{Gauges, HostZones, ZoneAction, ZoneCondition};
use smrkit::ranges::RangeMap;
use smrkit::request::{Op, Request};
use smrkit::settings::Queue;
use smrkit::tally::Cause;
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};

use super::control::{AimedFault, InjectedFault};
use super::image::{DriveImage, Syncer, is_host_managed};
use super::log::{Events, FoundState, LogEvent, LogWriter, Replay};
use super::model::{Model, is_power_cut};
use super::nbd::HeldMemory;
use crate::error::{LiveError, lacks_room};
use crate::log::log;
use power_cut::{UndoLog, read_before_write};

/// Zeros are written, and discarded ranges punched out, 8 MiB at a time, so that other commands can be served in between (assumption).
const ZERO_SECTORS: u64 = 1 << 14;
/// The longest discard request, 512 GiB: a request counts its sectors in 32 bits. A whole number of zones.
pub(super) const DISCARD_SECTORS: u64 = 1 << 30;
/// Queue length at which no more commands are read from clients (assumption).
const COMMANDS_MAX: usize = 1024;
/// Bytes of events that are buffered before they are written to `IMAGE.smr`, and that it holds before a new checkpoint (assumption).
const EVENTS_BYTES: usize = 64 << 10;
const EVENTS_BYTES_MAX: u64 = 64 << 20;
/// If at most this many writes came between the last two flushes, the next write is expected to be flushed soon, too (assumption).
const FLUSHED_WRITES: u64 = 8;
/// Written data is synced after this time, or once there is so much of it, if no flush has come, so that a later fsync, such as the one
/// at the end, has little left to write. The host needs 0.2 to 0.5 s for 4,096 pages at random places of a new image (assumptions).
const WRITE_BACK_DELAY: Duration = Duration::from_secs(2);
const WRITE_BACK_BYTES: usize = 16 << 20;
/// What the host writes for a smaller write, too.
const PAGE_BYTES: usize = 4096;
/// Time between looks at whether a full disk of the host has room again (assumption).
const ROOM_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two messages about a full disk, which would otherwise fill the disk of the server's log (assumption).
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest span of the drive's time that `step_before` looks ahead for background work (assumption).
const STEP: Nanos = Nanos(1_000_000);

/// Kind of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandKind {
    /// Reads data.
    #[default]
    Read,
    /// Writes data.
    Write,
    /// Makes durable what was written.
    Flush,
    /// Discards data. The sectors read as zeros afterwards.
    Trim,
    /// Writes zeros.
    WriteZeroes,
    /// Asks which parts of the image are holes.
    BlockStatus,
    /// Writes data at the write pointer of the zone that begins at the offset.
    ZoneAppend,
    /// Changes the state of a zone.
    Zone(ZoneAction),
}

/// Why a command failed. The numbers are those of Linux and of NBD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The drive can only be read.
    NotPermitted = 1,
    /// The drive or the image failed.
    Io = 5,
    /// The command is malformed.
    Invalid = 22,
    /// The image's file system is full, or the command goes past the drive's end.
    NoSpace = 28,
    /// The command is longer than the protocol allows.
    Overflow = 75,
    /// The server is shutting down.
    Shutdown = 108,
}

/// A host's command, from its arrival to its reply.
#[derive(Debug, Default)]
pub struct Command {
    /// Number of the client.
    pub client: u64,
    /// The client's number for it.
    pub cookie: u64,
    /// What it does.
    pub kind: CommandKind,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// True if it must be durable before it completes.
    pub fua: bool,
    /// True if zeros must be allocated in the image, not punched out.
    pub no_hole: bool,
    /// Most extents of a block status.
    pub extents_max: usize,
    /// Data to be written, or that was read.
    pub data: Vec<u8>,
    /// When it arrived.
    pub arrival: Nanos,
    /// When the model completed it, and the result. The reply may still have to wait for an fsync of the image.
    pub ended: Option<(Nanos, Result<(), CommandError>)>,
    /// How far it has got in the model and in the image.
    pub progress: Progress,
    /// The memory that it counts as, and its reply will.
    pub memory: HeldMemory,
}

/// Progress of a command that the model has begun.
#[derive(Debug, Default)]
pub struct Progress {
    /// Tag of its latest request in the model.
    tag: u64,
    /// The request that the model is serving, and when the model got it.
    request: Option<(Request, Nanos)>,
    /// The requests after it.
    rest: Requests,
    /// True if the client never gets a reply: because of an injected timeout, or because it has gone.
    is_unanswered: bool,
    /// Number of the fsync of the image that the reply waits for; 0 if there is none to wait for.
    sync: u64,
    /// True if the data is in the image already.
    is_written: bool,
    /// The image's data before an early write, if a power cut may undo the write.
    before: Option<Vec<u8>>,
    /// Bytes that the model has discarded and that are not yet punched out of the image, and when the model had finished.
    discarded: Option<(Range<u64>, Nanos)>,
}

/// The requests to the model that a command consists of. They are made one by one, because a command may cover the whole drive.
#[derive(Debug)]
struct Requests {
    op: Op,
    /// Sectors for which no request has been made.
    left: Range<u64>,
    /// Most sectors of one request.
    longest: u64,
    /// True if a flush is to follow.
    flushes: bool,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests { op: Op::Flush, left: 0..0, longest: 0, flushes: false }
    }
}

impl Requests {
    fn is_empty(&self) -> bool {
        self.left.is_empty() && !self.flushes
    }
}

impl Iterator for Requests {
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
    /// A new command.
    pub fn new(kind: CommandKind, offset: u64, bytes: u64, data: Vec<u8>) -> Command {
        Command { kind, offset, bytes, data, ..Command::default() }
    }

    /// Refuses a command that is malformed, or goes past the end of a drive of `drive_bytes`.
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

    /// The requests to the model that the command consists of.
    fn requests(&self) -> Requests {
        let left = self.sectors();
        let all = left.end - left.start;
        let flushes = self.fua || self.kind == CommandKind::Flush;
        let (op, longest) = match self.kind {
            CommandKind::Read => (Op::Read, all),
            CommandKind::Write => (Op::Write, all),
            CommandKind::Trim => (Op::Discard, DISCARD_SECTORS),
            CommandKind::WriteZeroes => (Op::Write, ZERO_SECTORS),
            // Zone commands take no time in the model, an append has been turned into a write before, and the server answers block
            // status from the image.
            CommandKind::Flush | CommandKind::BlockStatus | CommandKind::Zone(_) | CommandKind::ZoneAppend => {
                return Requests { flushes, ..Requests::default() };
            }
        };
        Requests { op, left, longest, flushes }
    }

    fn changes(&self) -> bool {
        !matches!(self.kind, CommandKind::Read | CommandKind::Flush | CommandKind::BlockStatus)
    }

    /// The sectors that a conflicting command must not touch meanwhile. On a zoned drive a change of any part of a zone moves the zone's
    /// write pointer, and so covers the whole zone.
    fn locked_sectors(&self, zone_sectors: Option<u64>) -> Range<u64> {
        let Range { start, end } = self.sectors();
        match zone_sectors {
            Some(zone) if self.changes() => start / zone * zone..end.next_multiple_of(zone),
            _ => start..end,
        }
    }

    /// True if the command must wait for the other one: both are for the same sectors, and one of them changes the data.
    fn conflicts(&self, other: &Command, zone_sectors: Option<u64>) -> bool {
        let (own, others) = (self.locked_sectors(zone_sectors), other.locked_sectors(zone_sectors));
        (self.changes() || other.changes()) && own.start < others.end && others.start < own.end
    }
}

/// The state that a new drive is brought into before its first use.
pub enum PreparedState {
    /// The persistent cache is nearly full.
    NearlyFull,
    /// It is full.
    Full,
    /// The cache is full, and the drive has been cleaning for a while.
    Cleaning,
    /// A state saved by `smrkit run`.
    Saved(Arc<SavedState>),
}

/// Injected faults that have not happened yet.
struct PendingFaults {
    /// Delay of the next request.
    slow_by: Nanos,
    /// True if the next command is never to get a reply (an injected timeout).
    next_times_out: bool,
    aimed: Vec<ArmedFault>,
    /// Decides which commands meet an aimed fault that has a probability.
    random: Pcg64Mcg,
    /// Seed of the next power cut.
    cut_seed: u64,
}

/// An injected fault that waits for commands that match it.
struct ArmedFault {
    fault: AimedFault,
    /// Commands that have matched so far.
    matches: u64,
    /// How many of them have failed.
    failures: u64,
}

/// A served drive or array.
pub struct ServedDrive {
    /// The image.
    pub image: DriveImage,
    pub(super) model: Model,
    events: Events,
    /// Commands that the model has not been given yet, in the order of their arrival.
    pub(super) waiting: VecDeque<Command>,
    /// Those that it is serving, in the order in which it was given them.
    pub(super) in_flight: Vec<Command>,
    /// Commands that have ended and whose replies have not been taken, in the order of their ends.
    pub(super) ended: VecDeque<Command>,
    next_tag: u64,
    /// How many times faster than the host's clock the drive's time passes; `None` if commands complete at once.
    pace: Option<f64>,
    pub(super) syncer: Syncer,
    /// When the image was first changed after the last fsync was started; `None` if it was not.
    dirty_since: Option<Instant>,
    /// How much was written since then, in whole pages. A page counts again each time it is written.
    dirty_bytes: usize,
    /// Writes since the last flush.
    writes_since_flush: u64,
    /// Writes between the last two flushes.
    writes_before_flush: u64,
    /// True if a flush completes only after the image is durable on the host.
    pub is_durable: bool,
    /// True if a power cut may lose writes that were acknowledged and not flushed.
    may_lose: bool,
    undo: UndoLog,
    /// Sectors that fail to be read until they are written again.
    unreadable: RangeMap<()>,
    faults: PendingFaults,
    /// True if acknowledged writes may have been lost, and nobody has asked since.
    has_lost: bool,
    /// Power cuts so far.
    pub power_cuts: u64,
    /// Why every command fails from now on, and the remedy.
    pub failure: Option<String>,
    /// True once the drive is being closed. Whoever closes it reports a failure, so that it is not logged as well.
    is_closing: bool,
    /// Commands that failed because they broke a rule of a host-managed drive.
    pub zone_violations: u64,
    /// Bytes of events in the state file.
    events_bytes: u64,
    /// When the host was last found to have no room for events; `None` if it has room. The state file then lacks events, and is
    /// incomplete until the next checkpoint.
    lacked_room_at: Option<Instant>,
    /// When the last message about a full disk was logged.
    full_logged_at: Option<Instant>,
}

/// The LBA at which a zone append of `sectors` to the zone at `start` writes; `None` if the append breaks a rule.
fn append_place(zones: &dyn HostZones, start: u64, sectors: u64) -> Option<Lba> {
    let size = zones.limits().zone_sectors;
    let report = zones.report(start / size);
    // The write pointer of a full zone is the first sector of the next one.
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
        let checkpoint = std::mem::take(&mut image.checkpoint);
        let wrong = |error: &dyn ToString| LiveError::image(&image.path, error.to_string());
        let mut unreadable = RangeMap::default();
        checkpoint.unreadable.iter().for_each(|&(lba, n)| unreadable.cover(lba..lba + n, ()));
        checkpoint.events.iter().for_each(|event| update_unreadable(&mut unreadable, event));
        let mut model = Model::new(&image.system).map_err(|error| wrong(&error))?;
        let mut found = FoundState::New;
        if !checkpoint.model.is_empty() {
            match model.restore(&checkpoint.model) {
                Ok(()) => found = FoundState::Clean,
                // The data of a host-managed drive is of no use without its write pointers.
                Err(fault) if is_host_managed(&image.system) => return Err(wrong(&fault)),
                Err(fault) => {
                    // Other drives lose nothing but the right times. A new model replaces this one, which may be restored by half.
                    log(&format!("{}: {fault}: the drive starts with a fresh state", image.path.display()));
                    model = Model::new(&image.system).map_err(|error| wrong(&error))?;
                }
            }
        }
        if found == FoundState::Clean && !checkpoint.events.is_empty() {
            found = FoundState::Recovered;
            let mut replay = Replay::new(model, image.system.clone());
            for (line, event) in (1..).zip(checkpoint.events) {
                replay.follow(event, line).map_err(|error| wrong(&error))?;
            }
            model = replay.model;
            // A power cut that was planned and has not come yet is forgotten with the server that planned it.
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
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            ended: VecDeque::new(),
            next_tag: 0,
            pace: None,
            syncer,
            // A killed server may have left data that the host has not synced.
            dirty_since: Some(Instant::now()),
            dirty_bytes: 0,
            writes_since_flush: 0,
            // Nothing tells yet that the client flushes often.
            writes_before_flush: u64::MAX,
            is_durable: true,
            may_lose,
            undo: UndoLog::default(),
            unreadable,
            faults: PendingFaults {
                slow_by: Nanos::ZERO,
                next_times_out: false,
                aimed: Vec::new(),
                random: Pcg64Mcg::seed_from_u64(1),
                cut_seed: 0,
            },
            has_lost: false,
            power_cuts: 0,
            failure: None,
            is_closing: false,
            zone_violations: 0,
            events_bytes: 0,
            lacked_room_at: None,
            full_logged_at: None,
        };
        match drive.checkpoint() {
            Ok(()) => {}
            Err(error) if error.lacks_room() => drive.note_lack_of_room(&error),
            // Without the state the write pointers of a zoned drive would be unknown after the next start.
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

    /// Sets how many times faster than the host's clock the drive's time passes, and logs it.
    pub fn set_pace(&mut self, factor: f64) {
        self.pace = Some(factor);
        self.events.write_to_log(&LogEvent::Pace(factor));
    }

    /// The drives of the array, or the only one.
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

    /// Time that the drives have spent on background work, such as cleaning.
    pub fn cleaning_time(&self) -> Nanos {
        let background_ns = |drive: &LayeredDisk| {
            let (tally, causes) = (drive.disk.tally(), Cause::ALL.into_iter().filter(|cause| *cause != Cause::Host));
            causes.map(|cause| tally.reads(cause).ns + tally.writes(cause).ns).sum::<u64>()
        };
        Nanos(self.drives().into_iter().map(background_ns).sum())
    }

    /// Bytes of the reads and writes in flight. Zeros and discards carry no data, however long they are.
    pub fn in_flight_bytes(&self) -> u64 {
        let has_data = |command: &&Command| matches!(command.kind, CommandKind::Read | CommandKind::Write);
        self.in_flight.iter().filter(has_data).map(|command| command.bytes).sum()
    }

    /// True if no more commands should be pushed for now.
    pub fn is_full(&self) -> bool {
        self.queue_length() + self.ended.len() >= COMMANDS_MAX
    }

    /// Commands that wait or are in flight.
    pub fn queue_length(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// Queues a command.
    pub fn push(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// Removes the waiting commands that `pick` accepts, and returns them.
    pub fn take_waiting(&mut self, pick: impl FnMut(&Command) -> bool) -> VecDeque<Command> {
        let (taken, kept) = self.waiting.drain(..).partition(pick);
        self.waiting = kept;
        taken
    }

    /// Takes the first command that has ended and whose fsync, if it waits for one, is done.
    pub(super) fn take_ended(&mut self) -> Option<Command> {
        // After a failure the reply is an error, whatever comes of the fsync.
        let is_due = |command: &Command| self.failure.is_some() || self.syncer.is_done(command.progress.sync);
        let at = self.ended.iter().position(is_due)?;
        let mut command = self.ended.remove(at)?;
        let sync = command.progress.sync;
        if let Some((_, result @ Ok(()))) = &mut command.ended
            && sync > 0
        {
            *result = match () {
                () if self.failure.is_some() => Err(CommandError::Io),
                () if self.syncer.has_failed(sync) => Err(CommandError::NoSpace),
                () => Ok(()),
            };
        }
        Some(command)
    }

    /// Serves a command and returns it, or `None` if an injected timeout swallows it. No other command may be queued.
    pub fn serve(&mut self, command: Command) -> Option<Command> {
        self.push(command);
        loop {
            if let Some(command) = self.take_ended() {
                return Some(command);
            }
            match self.queue_length() == 0 {
                true if self.ended.is_empty() => return None,
                true => self.receive_synced(true),
                false if self.begin_next(self.model.now) => {}
                false => {
                    self.advance(None, None);
                }
            }
        }
    }

    /// Gives the first waiting command to the model, unless it has to wait longer; returns whether it did.
    pub fn begin_next(&mut self, now: Nanos) -> bool {
        let Some(command) = self.waiting.front() else { return false };
        let limits = self.zones().map(HostZones::limits);
        let zone_sectors = limits.map(|limits| limits.zone_sectors);
        // A zone becomes active when the model serves its first write. While writes are in flight, nobody can tell yet whether another
        // zone would exceed the limit.
        let counts_active = limits.is_some_and(|limits| limits.max_active > 0);
        let is_busy = !self.in_flight.is_empty();
        let must_wait = is_busy && counts_active && command.changes()
            || self.in_flight.iter().any(|other| command.conflicts(other, zone_sectors));
        // A checkpoint needs an idle drive. Once the events are four times their limit, no command begins until those in flight are done.
        let is_room_due = self.lacked_room_at.is_some_and(|since| since.elapsed() >= ROOM_CHECK_INTERVAL);
        let checkpoint_is_due =
            (self.events_bytes > 4 * EVENTS_BYTES_MAX || is_room_due) && is_busy && !self.model.is_rebuilding();
        if must_wait || checkpoint_is_due || self.model.now > now {
            return false;
        }
        if is_room_due {
            self.save_state();
        }
        if limits.is_some() && !self.prepare_on_zones(now) {
            return true;
        }
        let Some(mut command) = self.waiting.pop_front() else { return false };
        let is_unanswered = std::mem::take(&mut self.faults.next_times_out);
        command.progress = Progress { rest: command.requests(), is_unanswered, ..Progress::default() };
        self.in_flight.push(command);
        self.submit_request(self.in_flight.len() - 1, now);
        true
    }

    /// Prepares the first waiting command of a host-managed drive, on whose zone no other command is in flight. An append becomes a write.
    /// Returns false if the command has ended here: zone commands take no time, and one that breaks a rule never reaches the model.
    fn prepare_on_zones(&mut self, now: Nanos) -> bool {
        let (Some(zones), Some(command)) = (self.zones(), self.waiting.front()) else { return true };
        let Range { start, end } = command.sectors();
        let zone = start / zones.limits().zone_sectors;
        let result = match command.kind {
            CommandKind::Zone(action) => self.act_on_zone(action, zone, now),
            CommandKind::ZoneAppend => match append_place(zones, start, end - start) {
                Some(lba) => {
                    let command = &mut self.waiting[0];
                    (command.kind, command.offset) = (CommandKind::Write, lba.0 * SECTOR_BYTES);
                    return true;
                }
                None => Err(CommandError::Io),
            },
            _ if command.requests().all(|request| zones.check_request(&request).is_ok()) => return true,
            _ => Err(CommandError::Io),
        };
        self.zone_violations += u64::from(result.is_err());
        if let Some(command) = self.waiting.pop_front() {
            self.ended.push_back(Command { ended: Some((self.model.now, result)), ..command });
        }
        false
    }

    /// Changes the state of a zone at `now`.
    fn act_on_zone(&mut self, action: ZoneAction, zone: u64, now: Nanos) -> Result<(), CommandError> {
        // Logged, so that a replay changes the zone at the same time.
        self.idle_until(now, true);
        self.model.act_on_zone(action, zone).map_err(|_| CommandError::Io)?;
        self.events.add(LogEvent::Zone(action, zone));
        Ok(())
    }

    /// The zones of a single host-managed drive.
    pub fn zones(&self) -> Option<&dyn HostZones> {
        match &self.model.device {
            Device::Drive(drive) => drive.device().layer.zones(),
            Device::Array(_) => None,
        }
    }

    /// Submits the next request of an in-flight command to the model.
    fn submit_request(&mut self, at: usize, now: Nanos) {
        let (tag, arrival) = (self.next_tag, self.model.now.max(now));
        let Command { kind, fua, progress, .. } = &mut self.in_flight[at];
        let Some(request) = progress.rest.next() else { return };
        (progress.tag, progress.request) = (tag, Some((request, arrival)));
        let (is_write, fua) = (*kind == CommandKind::Write, *fua);
        self.next_tag += 1;
        match request.op {
            Op::Flush => {
                self.writes_before_flush = std::mem::take(&mut self.writes_since_flush);
                if self.is_durable {
                    // Every write that this flush covers has completed, and so is in the image. The host's fsync can start now, and runs
                    // while the model flushes.
                    self.in_flight[at].progress.sync = self.begin_sync();
                }
            }
            Op::Write if is_write => {
                self.writes_since_flush += 1;
                let writes = self.writes_since_flush.max(self.writes_before_flush);
                let will_be_flushed = fua || writes <= FLUSHED_WRITES;
                // A write that fails or is torn must not be in the image as a whole.
                let may_fail = self.model.will_lose_power() || !self.faults.aimed.is_empty() || self.failure.is_some();
                // Without a pace the flush follows at once, and would have to wait for an fsync of each write.
                if will_be_flushed && self.is_durable && self.pace.is_some() && !may_fail {
                    self.write_early(at);
                }
            }
            Op::Read | Op::Write | Op::Discard => {}
        }
        self.events.hold_request(tag, LogEvent::Failed { request, arrival });
        if self.failure.is_some() {
            return self.fail_in_flight(self.model.now);
        }
        let slow_by = std::mem::take(&mut self.faults.slow_by);
        if let Err(fault) = self.model.submit(tag, &request, arrival, slow_by) {
            self.handle_fault(fault);
        }
    }

    /// Writes a command's data to the image before the model completes the write, and starts an fsync that runs meanwhile. Nobody can read
    /// the data too early, because commands for the same sectors wait.
    fn write_early(&mut self, at: usize) {
        let command = &mut self.in_flight[at];
        let sectors = command.sectors();
        // If it fails, it is tried again when the model has completed the write, and the error is reported then.
        let before = if self.may_lose { read_before_write(&self.image, sectors, Op::Write) } else { Ok(None) };
        if let Ok(before) = before
            && self.image.storage.write(command.offset, &command.data).is_ok()
        {
            (command.progress.is_written, command.progress.before) = (true, before);
            let bytes = command.data.len();
            self.note_dirty(bytes);
            self.begin_sync();
        }
    }

    /// Advances the model to the time `limit`; without a limit, to the time at which the next command ends. Stops when the host's clock passes
    /// `stop_at`, since one command may take the host long. Returns false if there is work left.
    pub fn advance(&mut self, limit: Option<Nanos>, stop_at: Option<Instant>) -> bool {
        let mut until = limit.unwrap_or(Nanos::MAX);
        let ended_before = self.ended.len();
        while self.failure.is_none() {
            let stepped = self.model.step(until);
            let mut has_completed = false;
            while let Some(done) = self.model.take_completion() {
                has_completed = true;
                self.complete_request(done, true);
            }
            match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => self.handle_fault(fault),
            }
            let has_ended = self.ended.len() > ended_before;
            // Without a limit, commands may begin again only after everything at the time of this completion is processed.
            let may_stop = has_completed && self.failure.is_none() && (limit.is_some() || !has_ended);
            if may_stop && stop_at.is_some_and(|at| Instant::now() >= at) {
                return false;
            }
            if until == Nanos::MAX && (has_completed || has_ended) {
                // One nanosecond more, so that everything that happens at this time is processed: `Device::step` begins waiting
                // commands only after their time.
                until = self.model.now + Nanos(1);
            }
        }
        if until < Nanos::MAX {
            self.model.now = self.model.now.max(until);
        }
        if self.failure.is_some() {
            // The log ends here: it can express a failure by a power cut, but no other.
            self.events.held.clear();
            self.fail_in_flight(self.model.now);
        }
        let is_done = self.punch_discarded(stop_at);
        if self.events.lines.len() >= EVENTS_BYTES {
            self.write_events();
        }
        if self.in_flight.is_empty() && self.events_bytes > EVENTS_BYTES_MAX {
            self.save_state();
        }
        is_done
    }

    /// Punches discarded ranges out of the image, piece by piece, because the host may need seconds for a file of many extents. Returns
    /// false if it stopped at `stop_at` with work left.
    fn punch_discarded(&mut self, stop_at: Option<Instant>) -> bool {
        while let Some(at) = self.in_flight.iter().position(|command| command.progress.discarded.is_some()) {
            if stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                return false;
            }
            let Some((bytes, end)) = self.in_flight[at].progress.discarded.take() else { break };
            match self.punch_piece(bytes) {
                Ok(left) if !left.is_empty() => self.in_flight[at].progress.discarded = Some((left, end)),
                punched => self.continue_command(at, end, punched.map(drop), true),
            }
        }
        true
    }

    /// Punches out the first piece of `bytes` that holds data. Returns what is left of `bytes` behind it.
    fn punch_piece(&mut self, bytes: Range<u64>) -> Result<Range<u64>, CommandError> {
        let storage = Arc::clone(&self.image.storage);
        let data = if bytes.is_empty() { Ok(None) } else { storage.data_from(bytes.start, bytes.end) };
        let punched = data.and_then(|data| {
            let start = data.map_or(bytes.end, |data| data.start);
            let end = bytes.end.min(start + ZERO_SECTORS * SECTOR_BYTES);
            if start < end {
                self.note_dirty(0);
                storage.punch(start..end)?;
            }
            Ok(end)
        });
        let end = punched.map_err(|error| self.log_io_error(&error))?;
        self.unreadable.uncover(bytes.start / SECTOR_BYTES..end / SECTOR_BYTES);
        Ok(end..bytes.end)
    }

    /// Forgets the commands that `pick` accepts, because nobody waits for their replies any more. What the model is serving goes on.
    pub(super) fn abandon(&mut self, pick: impl Fn(&Command) -> bool) {
        drop(self.take_waiting(&pick));
        self.cancel_remaining_requests(&pick);
        for command in self.in_flight.iter_mut().filter(|command| command.kind == CommandKind::Read && pick(command)) {
            command.progress.is_unanswered = true;
            // No data will be read for it. The drive may take long to end it, and others need the memory.
            command.memory = HeldMemory::default();
        }
    }

    /// Ends the in-flight commands that `pick` accepts after the request that the model is serving.
    pub(super) fn cancel_remaining_requests(&mut self, pick: impl Fn(&Command) -> bool) {
        for command in self.in_flight.iter_mut().filter(|command| pick(command)) {
            command.progress.rest = Requests::default();
            command.progress.discarded.iter_mut().for_each(|(left, _)| *left = 0..0);
        }
    }

    /// Handles a request that the model has completed. `submits_next` is false during a power cut, when no further one may begin.
    fn complete_request(&mut self, Completion { tag, start, end, .. }: Completion, submits_next: bool) {
        let Some(at) = self.in_flight.iter().position(|command| command.progress.tag == tag) else { return };
        let Some((request, arrival)) = self.in_flight[at].progress.request.take() else { return };
        self.events.release_request(tag, Some(LogEvent::Served { request, arrival, start, end }));
        match self.apply_to_image(at, &request) {
            Ok(()) if request.op == Op::Discard => {
                let bytes = request.lba.0 * SECTOR_BYTES..request.end().0 * SECTOR_BYTES;
                self.in_flight[at].progress.discarded = Some((bytes, end));
            }
            done => self.continue_command(at, end, done, submits_next),
        }
    }

    /// Submits the next request of a command whose last one is done in the image too, or completes the command.
    fn continue_command(&mut self, at: usize, end: Nanos, done: Result<(), CommandError>, submits_next: bool) {
        match done {
            Ok(()) if self.in_flight[at].progress.rest.is_empty() => self.complete_command(at, end, Ok(())),
            Ok(()) if submits_next => self.submit_request(at, self.model.now),
            Ok(()) => {}
            Err(error) => self.complete_command(at, end, Err(error)),
        }
    }

    /// Reads or writes the image for a request that the model has completed.
    fn apply_to_image(&mut self, at: usize, request: &Request) -> Result<(), CommandError> {
        let range = request.lba.0..request.end().0;
        let bytes = range.start * SECTOR_BYTES..range.end * SECTOR_BYTES;
        let fault = self.take_armed_fault(request.op, &range);
        if fault.is_some_and(|fault| !fault.corrupts) {
            return Err(CommandError::Io);
        }
        let result = match request.op {
            Op::Read if self.unreadable.within(range.clone()).next().is_some() => return Err(CommandError::Io),
            Op::Read if self.in_flight[at].progress.is_unanswered => return Ok(()),
            Op::Read => {
                let data = &mut self.in_flight[at].data;
                data.resize((bytes.end - bytes.start) as usize, 0);
                let read = self.image.storage.read(bytes.start, data);
                if let (Some(_), Some(byte)) = (fault, data.first_mut()) {
                    *byte ^= 1;
                }
                read
            }
            Op::Flush => {
                self.write_events();
                self.undo.clear();
                // After a crash of the host only the events tell how far a zone is written. They must be as durable as its data.
                match self.is_durable && self.zones().is_some() {
                    true if self.lacked_room_at.is_some() => Err(io::ErrorKind::StorageFull.into()),
                    true => self.image.sync_events(),
                    false => Ok(()),
                }
            }
            Op::Write | Op::Discard => {
                let progress = &mut self.in_flight[at].progress;
                let (is_written, early) = (progress.is_written, progress.before.take());
                if self.may_lose {
                    // The layer has not begun anything after this request, so its commits cover earlier writes only.
                    self.undo.note_commits(self.model.commits());
                    let before = match is_written {
                        true => early,
                        false => read_before_write(&self.image, range.clone(), request.op)
                            .map_err(|error| self.log_io_error(&error))?,
                    };
                    self.undo.add(range.clone(), before);
                }
                if !is_written {
                    let command = &self.in_flight[at];
                    let zeros = if command.no_hole { bytes.end - bytes.start } else { 0 };
                    self.note_dirty(command.data.len() + zeros as usize);
                }
                let (command, storage) = (&self.in_flight[at], &*self.image.storage);
                let written = match command.kind {
                    _ if is_written => Ok(()),
                    CommandKind::Write => storage.write(bytes.start, &command.data),
                    // `punch_discarded` does it, piece by piece.
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
        result.map_err(|error| self.log_io_error(&error))
    }

    /// The armed fault that this request meets, if any, and counts it.
    fn take_armed_fault(&mut self, op: Op, range: &Range<u64>) -> Option<AimedFault> {
        let PendingFaults { aimed, random, .. } = &mut self.faults;
        let mut strikes = |ArmedFault { fault, matches, failures }: &mut ArmedFault| {
            let touches = range.start < fault.end && fault.first < range.end || op == Op::Flush;
            if *failures == fault.count || fault.op.is_some_and(|own| own != op) || !touches {
                return false;
            }
            *matches += 1;
            let fails = matches.is_multiple_of(fault.every) && random.random_bool(fault.probability);
            *failures += u64::from(fails);
            fails
        };
        aimed.iter_mut().find_map(|armed| strikes(armed).then_some(armed.fault))
    }

    /// Logs an error of the image, and returns the one for the client.
    fn log_io_error(&mut self, error: &io::Error) -> CommandError {
        let is_full = lacks_room(error);
        if !is_full || self.full_logged_at.is_none_or(|at| at.elapsed() >= FULL_LOG_INTERVAL) {
            log(&format!("{}: {error}", self.image.path.display()));
            self.full_logged_at = is_full.then(Instant::now).or(self.full_logged_at);
        }
        if is_full { CommandError::NoSpace } else { CommandError::Io }
    }

    /// Moves a command in flight to those that have ended.
    fn complete_command(&mut self, at: usize, end: Nanos, result: Result<(), CommandError>) {
        let command = Command { ended: Some((end, result)), ..self.in_flight.remove(at) };
        if !command.progress.is_unanswered {
            self.ended.push_back(command);
        }
    }

    /// Notes a change of the image, and how much data there is to sync because of it. Holes and discards have none.
    fn note_dirty(&mut self, bytes: usize) {
        self.dirty_since.get_or_insert_with(Instant::now);
        self.dirty_bytes += bytes.next_multiple_of(PAGE_BYTES);
    }

    /// Starts an fsync of the image if it was changed; returns the number of the fsync that makes it durable. The fsync runs while the drive
    /// is served.
    fn begin_sync(&mut self) -> u64 {
        self.dirty_bytes = 0;
        self.syncer.begin(self.dirty_since.take().is_some())
    }

    /// Starts the last fsync, which [`ServedDrive::close`] waits for.
    pub(super) fn begin_close(&mut self) {
        self.is_closing = true;
        self.begin_sync();
    }

    /// Notes which fsyncs are done. With `waits`, waits until one is.
    pub fn receive_synced(&mut self, waits: bool) {
        match self.syncer.receive(waits) {
            // The kernel drops pages that it could not write, and the next fsync succeeds without them. So every client's next flush fails.
            Err(error) if lacks_room(&error) => {
                self.log_io_error(&error);
                (self.has_lost, self.dirty_since) = (true, Some(Instant::now()));
            }
            // After any other error nobody knows what is on the host's disk.
            Err(error) => self.fail_drive(error),
            Ok(()) => {}
        }
    }

    /// Fails the commands in flight.
    fn fail_in_flight(&mut self, now: Nanos) {
        while let Some(first) = self.in_flight.first() {
            self.events.release_request(first.progress.tag, None);
            self.complete_command(0, now, Err(CommandError::Io));
        }
    }

    /// Handles a fault of the model: a power cut, or the end of the drive.
    fn handle_fault(&mut self, fault: Box<Fault>) {
        if !is_power_cut(&fault) {
            return self.fail_drive(fault);
        }
        // The model completed these before the cut, and a replay will complete them too.
        while let Some(done) = self.model.take_completion() {
            self.complete_request(done, false);
        }
        self.lose_power(None);
    }

    /// Makes the drive fail every command from now on.
    fn fail_drive(&mut self, error: impl std::fmt::Display) {
        // Later errors follow from the first one.
        if self.failure.is_some() {
            return;
        }
        let failure = format!("{error}; the drive fails every command from now on: serve it anew");
        if !self.is_closing {
            log(&format!("{}: {failure}", self.image.path.display()));
        }
        self.failure = Some(failure);
    }

    /// True if acknowledged writes may have been lost since this was last asked.
    pub fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Lets idle drives do some background work that begins before `time`; returns whether there was any. It stops after the first span
    /// with work in it, so that the server can look for new commands.
    pub fn step_before(&mut self, time: Nanos) -> bool {
        let (from, mut span) = (self.model.free_from(), STEP);
        let mut until = from;
        while until < time && self.failure.is_none() {
            until = time.min(from + span);
            if self.idle_until(until, false) {
                return true;
            }
            span = span + span;
        }
        false
    }

    /// Lets idle drives do all background work that begins before `time`; returns whether there was any. If there was, or with `always`,
    /// it is logged, because a replay must do the same work before the next command.
    fn idle_until(&mut self, time: Nanos, always: bool) -> bool {
        match self.model.idle_until(time) {
            Err(fault) if is_power_cut(&fault) => {
                self.lose_power(Some(LogEvent::Interrupted(time)));
                true
            }
            Ok(false) if !always => false,
            idled => {
                self.events.add(LogEvent::Idle(time));
                idled.unwrap_or_else(|fault| {
                    self.fail_drive(fault);
                    false
                })
            }
        }
    }

    /// Injects a fault at the drive's time `at`.
    pub fn inject(&mut self, fault: InjectedFault, at: Nanos) -> Result<(), String> {
        let at = self.model.now.max(at);
        // These act on the model. Idling up to the fault is logged, so that a replay has done the same work before it.
        if let InjectedFault::PowerCut(_) | InjectedFault::FailMember(_) | InjectedFault::ReplaceMember(_) = fault {
            self.idle_until(at, true);
        }
        match fault {
            InjectedFault::PowerCut(seed) => {
                self.faults.cut_seed = seed;
                self.model.plan_power_cut(true);
            }
            InjectedFault::BadSector(lba) if lba >= self.image.sectors() => {
                let sectors = self.image.sectors();
                return Err(format!("sector {lba} is past the drive's end: it has {sectors}"));
            }
            InjectedFault::BadSector(lba) => self.unreadable.cover(lba..lba + 1, ()),
            InjectedFault::Slow(span) => self.faults.slow_by = span,
            InjectedFault::Timeout => self.faults.next_times_out = true,
            InjectedFault::Aimed(fault) => self.faults.aimed.push(ArmedFault { fault, matches: 0, failures: 0 }),
            InjectedFault::Clear => {
                self.faults.aimed.clear();
                self.unreadable.clear();
            }
            InjectedFault::FailMember(disk) => self.model.fail_member(disk)?,
            InjectedFault::ReplaceMember(disk) => self.model.replace_member(disk, &self.image.system)?,
            InjectedFault::Idle(span) => {
                self.advance(Some(at + span), None);
                // Logs the idle time, which needs no line for the fault.
                self.idle_until(at + span, true);
                return Ok(());
            }
        }
        self.events.add(LogEvent::Fault(fault));
        Ok(())
    }

    /// Ages a new drive: its model is written at random places (a log-structured layer completely once, then 64 KiB at random places). The
    /// image stays as it is.
    pub fn prepare(&mut self, state: &PreparedState) -> Result<(), LiveError> {
        let unusable = |path: &std::path::Path, error: Error| LiveError::image(path, error.to_string());
        let (share, more) = match state {
            PreparedState::NearlyFull => (0.95, 0),
            PreparedState::Full => (1.0, 0),
            PreparedState::Cleaning => (1.0, 1000),
            PreparedState::Saved(saved) => {
                let restored = self.model.restore_saved(saved, &self.image.system);
                return restored.map_err(|error| unusable(&self.image.path, error));
            }
        };
        match self.model.fill_cache(self.image.sectors(), share, more) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let layer = self.image.system.drives()[0].layer.name;
                let message =
                    format!("layer {layer} has no persistent cache and no log to fill: make the drive without a state");
                Err(LiveError::impossible(message))
            }
            Err(fault) => Err(unusable(&self.image.path, fault.into())),
        }
    }

    /// Checks the layers' maps. No command may be in flight.
    pub fn check(&self) -> DiskResult {
        self.drives().into_iter().try_for_each(LayeredDisk::check)
    }

    /// The first `most` extents of a range: the number of sectors, and whether they are a hole, which reads as zeros.
    pub fn extents(&self, range: Range<u64>, most: usize) -> io::Result<Vec<(u64, bool)>> {
        let mut extents: Vec<(u64, bool)> = Vec::new();
        let (mut at, end) = (range.start, range.end);
        // One more than asked for: only then is the end of the last one known.
        while at < end && extents.len() <= most {
            let data = self.image.storage.data_from(at * SECTOR_BYTES, end * SECTOR_BYTES)?;
            let data = data
                .map_or(end..end, |data| (data.start / SECTOR_BYTES).max(at)..data.end.div_ceil(SECTOR_BYTES).min(end));
            for (sectors, is_hole) in [(data.start - at, true), (data.end - data.start, false)] {
                match extents.last_mut() {
                    Some((count, last)) if *last == is_hole => *count += sectors,
                    _ if sectors > 0 => extents.push((sectors, is_hole)),
                    _ => {}
                }
            }
            at = data.end;
        }
        extents.truncate(most);
        Ok(extents)
    }

    /// Closes the drive cleanly: makes all data durable, and saves the state.
    pub fn close(mut self) -> Result<(), LiveError> {
        self.is_closing = true;
        while !self.in_flight.is_empty() {
            self.advance(None, None);
        }
        self.waiting.clear();
        self.ended.clear();
        // No injected fault may fail or swallow this flush, and it must be durable even if those of clients are not.
        self.faults.aimed.clear();
        (self.faults.next_times_out, self.is_durable) = (false, true);
        self.events.add(LogEvent::Closing);
        let flush = self.serve(Command::new(CommandKind::Flush, 0, 0, Vec::new()));
        let is_flushed = matches!(flush, Some(Command { ended: Some((_, Ok(()))), .. }));
        self.events.add(LogEvent::Closed);
        self.events.flush();
        if !is_flushed || self.failure.is_some() {
            let why = self.failure.map(|failure| format!("{failure}; ")).unwrap_or_default();
            return Err(LiveError::image(&self.image.path, why + "not closed cleanly"));
        }
        self.model.drain().map_err(|fault| LiveError::image(&self.image.path, fault.to_string()))?;
        // Last, once the data is durable: a state file without events says that the drive was closed cleanly.
        self.checkpoint()
    }

    /// Replaces the state file. No command may be in flight.
    fn checkpoint(&mut self) -> Result<(), LiveError> {
        let unreadable: Vec<_> =
            self.unreadable.iter().map(|(range, _)| (range.start, range.end - range.start)).collect();
        self.image.save(&self.model.state(), &unreadable)?;
        // Only now: until the file is replaced, the state in it needs these events.
        self.events.lines.clear();
        self.events_bytes = 0;
        Ok(())
    }

    /// Tries to save the state during service. No command may be in flight.
    fn save_state(&mut self) {
        // The state has no place for a rebuild in progress.
        if self.model.is_rebuilding() {
            return;
        }
        match self.checkpoint() {
            Err(error) if error.lacks_room() => self.note_lack_of_room(&error),
            Err(error) => self.fail_drive(error),
            Ok(()) if self.lacked_room_at.take().is_some() => {
                log(&format!("{}: there is room again: the drive's state is kept", self.image.path.display()));
            }
            Ok(()) => {}
        }
    }

    /// Notes that the host has no room for the state. The drive is served all the same, because reads and overwrites need none.
    fn note_lack_of_room(&mut self, error: &dyn std::fmt::Display) {
        if self.lacked_room_at.replace(Instant::now()).is_none() {
            let path = self.image.path.display();
            log(&format!("{path}: the drive's state is not kept until there is room: {error}"));
        }
    }

    /// Appends the buffered events to the state file. While the host has no room they are dropped, because the next checkpoint makes up
    /// for them.
    fn write_events(&mut self) {
        if self.lacked_room_at.is_none() {
            self.events_bytes += self.events.lines.len() as u64;
            match self.image.append(&self.events.lines).map_err(|error| LiveError::io(&self.image.path, error)) {
                Ok(()) => {}
                Err(error) if error.lacks_room() => self.note_lack_of_room(&error),
                Err(error) => self.fail_drive(error),
            }
        }
        self.events.lines.clear();
    }

    /// Writes out all buffered events, for tests that drop a drive without closing it.
    pub fn flush_events(&mut self) {
        self.write_events();
        self.events.flush();
    }

    /// The injected faults that have not happened yet, as `smrkit inject` spells them.
    pub fn faults(&self) -> Vec<String> {
        let PendingFaults { slow_by, next_times_out, aimed, cut_seed, .. } = &self.faults;
        let aimed = aimed.iter().filter(|armed| armed.failures < armed.fault.count);
        let slow = (*slow_by > Nanos::ZERO).then_some(InjectedFault::Slow(*slow_by));
        let timeout = next_times_out.then_some(InjectedFault::Timeout);
        let power_cut = self.model.will_lose_power().then_some(InjectedFault::PowerCut(*cut_seed));
        let aimed = aimed.map(|armed| InjectedFault::Aimed(armed.fault));
        aimed.chain(slow).chain(timeout).chain(power_cut).map(|fault| fault.to_string()).collect()
    }

    fn sync_due(&self) -> Option<Instant> {
        let delay = if self.dirty_bytes < WRITE_BACK_BYTES { WRITE_BACK_DELAY } else { Duration::ZERO };
        Some(self.dirty_since? + delay)
    }

    /// The time by which buffered lines of the log must be written out, or the image must be synced.
    pub fn write_due(&self) -> Option<Instant> {
        self.events.log_due().into_iter().chain(self.sync_due()).min()
    }

    /// Writes out buffered lines of the log, and starts an fsync of the image, if they are due.
    pub fn write_what_is_due(&mut self) {
        let is_past = |due: Option<Instant>| due.is_some_and(|due| due <= Instant::now());
        if is_past(self.events.log_due()) {
            self.events.flush();
        }
        if is_past(self.sync_due()) {
            self.begin_sync();
        }
    }

    /// Starts a new log if the old one was moved away (log rotation). The new one begins with the drive's state, which is complete only
    /// when nothing is in flight or pending.
    pub fn rotate_log(&mut self) {
        let is_state_complete = self.in_flight.is_empty()
            && !self.model.is_rebuilding()
            && self.faults.slow_by == Nanos::ZERO
            && !self.model.will_lose_power();
        if is_state_complete && self.events.log_was_moved() {
            let opened = LogEvent::Open(FoundState::Clean, self.model.now);
            let begun = [opened, LogEvent::Queue(self.model.order), LogEvent::Pace(self.pace.unwrap_or(1.0))];
            self.events.begin_log(&self.image.run, &self.model.state(), begun);
        }
    }
}

/// Updates the unreadable sectors after an event.
fn update_unreadable(unreadable: &mut RangeMap<()>, event: &LogEvent) {
    match event {
        LogEvent::Fault(InjectedFault::BadSector(lba)) => unreadable.cover(*lba..*lba + 1, ()),
        LogEvent::Fault(InjectedFault::Clear) => unreadable.clear(),
        LogEvent::Served { request, .. } if matches!(request.op, Op::Write | Op::Discard) => {
            unreadable.uncover(request.lba.0..request.end().0);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use smrkit::experiment::system::{System, Systems};
    use smrkit::settings::Settings;

    use super::*;
    use crate::block::image::{self, Storage};

    /// An image whose disk can't make anything durable.
    struct NeverDurable(File);

    impl Storage for NeverDurable {
        fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
            Storage::read(&self.0, offset, bytes)
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            Storage::write(&self.0, offset, bytes)
        }

        fn punch(&self, range: Range<u64>) -> io::Result<()> {
            self.0.punch(range)
        }

        fn sync(&self) -> io::Result<()> {
            Err(io::Error::other("the disk failed"))
        }

        fn data_from(&self, offset: u64, end: u64) -> io::Result<Option<Range<u64>>> {
            self.0.data_from(offset, end)
        }
    }

    #[test]
    fn an_error_of_the_last_sync_is_told_by_who_closes_the_drive_and_once() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("drive.img");
        let system = System::drive("tiny-constant").layer("track-map");
        let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
        let made = image::create(&path, image::complete_record(&planned), true).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut drive = ServedDrive::open(made.over(Arc::new(NeverDurable(file))), None, Queue::Fcfs).unwrap().0;
        drive.begin_close();
        drive.receive_synced(true);
        assert!(drive.failure.is_some() && drive.is_closing);
        let written = drive.serve(Command::new(CommandKind::Write, 0, 512, vec![7; 512])).unwrap();
        assert!(matches!(written.ended, Some((_, Err(CommandError::Io)))), "{written:?}");
        let told = drive.close().unwrap_err().to_string();
        assert!(told.matches("the disk failed").count() == 1 && told.contains("not closed cleanly"), "{told}");
    }

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
        // The state of another version is not interpreted, but bad sectors stay bad.
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
        assert!(matches!(read.ended, Some((_, Err(_)))), "{read:?}");
    }
}
