//! The server of a drive or an array: clients' commands go into the drive's queue, and each gets its reply when the drive's clock says so.
//!
//! One thread does all of it, and waits in one place. Without a pace a command is served as soon as it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use smrkit::device::NCQ_COMMANDS;
use smrkit::request::Op;
use smrkit::stats::latency::{LatencyCounts, LatencyLists};
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::attached::FileRequests;
use super::control::{ControlRequest, ControlRequests, InjectedFault};
use super::drive::{Command, CommandError, CommandKind, CommandState, ServedDrive};
pub use super::nbd::Listener;
pub use super::nbd::TlsCertificates;
use super::nbd::wire::{Extent, HOLE_AND_ZEROS};
use super::nbd::{Connection, Export, LONGEST_BYTES};
use super::pace::{Pace, PacedClock, timespec};
pub use super::ublk::UblkDevice;
use crate::error::LiveError;
use crate::mount::control::{EndClient, joined};

/// Extents that a reply tells at most (assumption).
const EXTENTS_MAX: usize = 1 << 16;
/// Clients at a time (assumption).
const CLIENTS_MAX: usize = 64;
/// Time after which a client that is mute in its handshake makes room where all places are taken and another client waits (assumption).
const CROWDED: Duration = Duration::from_millis(500);
/// Bytes that all clients together may have the server hold: beyond it they wait. Four of the longest commands (assumption).
const HELD_BYTES_MAX: usize = 4 * LONGEST_BYTES as usize;
/// Buffers that are kept for later use, and how long they may be.
const POOL_BUFFERS: usize = NCQ_COMMANDS as usize;
const POOLED_BYTES: usize = 1 << 20;
/// Time on the wall clock after which work on commands stops to look at the clients (assumption).
const WORK: Duration = Duration::from_millis(10);
/// Bytes of commands under way without a pace at which others wait, so that they can be left out once their client is gone (assumption).
const UNDER_WAY_BYTES: u64 = 8 << 20;
/// Time on the wall clock in which commands that the drive has begun may end once the server is asked to stop (assumption).
const GRACE: Duration = Duration::from_millis(500);
/// The same for the kernel, which writes back what it has in its cache (assumption).
const WRITE_BACK: Duration = Duration::from_secs(300);
/// Lateness that programs hardly notice: replies that are no later were in time, however short their latency.
const LATE: Duration = Duration::from_millis(1);

/// Latencies from which on a command counts as stalled: what users notice, what Linux's SCSI layer by default retries at, and what it gives up
/// at (assumptions).
const STALLS: [(&str, Nanos); 3] =
    [("over_1s", Nanos(1_000_000_000)), ("over_7s", Nanos(7_000_000_000)), ("over_30s", Nanos(30_000_000_000))];

/// What a server has counted.
#[derive(Default)]
struct Counters {
    /// Latencies of the commands that were completed, as the drive has them.
    latencies: LatencyCounts,
    /// Those that took longer than each of `STALLS`.
    stalls: [u64; 3],
    /// Bytes that clients read and wrote.
    read_bytes: u64,
    written_bytes: u64,
    /// Lateness of replies by the wall clock; empty without a pace.
    lateness: LatencyCounts,
}

impl Counters {
    fn note(&mut self, op: Op, latency: Nanos, bytes: u64) {
        self.latencies.record(op, latency.0);
        for (stalled, (_, span)) in self.stalls.iter_mut().zip(STALLS) {
            *stalled += u64::from(latency > span);
        }
        match op {
            Op::Read => self.read_bytes += bytes,
            Op::Write => self.written_bytes += bytes,
            Op::Flush | Op::Discard => {}
        }
    }

    /// True if the server fell behind the drive's clock: one reply in a hundred was late by more than a twentieth of the mean latency
    /// on the wall clock and by more than `LATE` (assumptions).
    fn fell_behind(&self, mean_latency: Duration) -> bool {
        let late = Duration::from_nanos(self.lateness.list().summary().all.p99);
        late > mean_latency.div_f64(20.0).max(LATE)
    }
}

/// Sectors that all drives have read and written.
fn physical_sectors(drive: &ServedDrive) -> [u64; 2] {
    let sectors = drive.drives().into_iter().map(|drive| drive.physical_sectors());
    sectors.fold([0, 0], |[read, written], one| [read + one.0, written + one.1])
}

/// What there is of each operation, with its name.
fn by_op<T>(of: [T; 4]) -> BTreeMap<&'static str, T> {
    [Op::Read, Op::Write, Op::Flush, Op::Discard].map(Op::name).into_iter().zip(of).collect()
}

/// The way in for hosts.
pub enum Frontend {
    /// Clients of NBD.
    Nbd(Listener),
    /// This machine's kernel, for which the drive is a block device.
    Ublk(Box<UblkDevice>),
    /// The kernel too, for which it is a file.
    File(FileRequests),
}

/// Number of the kernel among the clients of a drive.
const KERNEL: u64 = u64::MAX;

/// The server.
pub struct DriveServer {
    drive: ServedDrive,
    clock: Option<PacedClock>,
    clients: Clients,
    /// The drive's time when it began, the time that it had spent on cleaning, and the sectors that it had read and written.
    began: (Nanos, Nanos, [u64; 2]),
    /// True if the drive may have work of its own.
    has_idle_work: bool,
    counters: Counters,
    /// When it ends at the latest, once it was asked to stop.
    stops_by: Option<Instant>,
    /// When work is to stop for a look at the clients.
    look_at: Instant,
    /// True if work was left when that moment came.
    has_more_work: bool,
    /// Who asked for its end, and waits for it.
    ending: Vec<EndClient>,
}

impl DriveServer {
    /// Serves `drive` to whoever comes by `frontend`.
    pub fn new(mut drive: ServedDrive, frontend: Frontend, pace: Pace) -> DriveServer {
        if let Pace::Times(factor) = pace {
            drive.keep_pace(factor);
        }
        let clock = PacedClock::new(pace, drive.now());
        let (bytes, is_read_only) = (drive.image.sectors() * SECTOR_BYTES, drive.image.is_read_only);
        let export = Export { bytes, is_read_only, tls: None };
        DriveServer {
            began: (drive.now(), drive.cleaning_time(), physical_sectors(&drive)),
            drive,
            clock,
            clients: Clients {
                frontend,
                frontend_error: None,
                export,
                connections: BTreeMap::new(),
                next: 0,
                owed: BTreeSet::new(),
                pool: Vec::new(),
            },
            has_idle_work: true,
            counters: Counters::default(),
            stops_by: None,
            look_at: Instant::now(),
            has_more_work: false,
            ending: Vec::new(),
        }
    }

    /// Lets clients of NBD begin TLS before they learn of the drive.
    pub fn require_tls(&mut self, certificates: TlsCertificates) {
        self.clients.export.tls = Some(certificates);
    }

    /// Serves until it is asked to stop; closes the image cleanly. Gives what it would have reported last, if it had been asked.
    pub fn run(mut self, requests: ControlRequests) -> (Value, Result<(), LiveError>) {
        if let Frontend::Ublk(device) = &mut self.clients.frontend
            && let Err(error) = device.start()
        {
            self.clients.frontend_error = Some(error);
            self.stop();
        }
        while !self.is_over() {
            if self.wait(&requests) {
                self.receive(&requests);
            }
            self.look_at = Instant::now() + WORK;
            self.has_more_work = false;
            if self.clients.frontend_error.is_some() && self.stops_by.is_none() {
                self.stop();
            }
            self.read_commands();
            self.work();
            let gone = self.clients.send(self.is_short_of_memory());
            if !gone.is_empty() {
                // Nobody waits for the replies.
                let is_of_gone = |command: &Command| gone.contains(&command.client);
                drop(self.drive.take_waiting(is_of_gone));
                self.drive.cut_short(is_of_gone);
            }
        }
        self.end_all();
        let report = self.describe();
        let failed = self.clients.frontend_error.map(|error| LiveError::io(&self.drive.image.path, error));
        let closed = self.drive.close().and(failed.map_or(Ok(()), Err));
        self.ending.into_iter().for_each(|client| client.tell(&closed));
        (report, closed)
    }

    /// True once it was asked to stop, and what the drive had begun has ended and been told, or there is no more time for that.
    fn is_over(&self) -> bool {
        let is_told = self.drive.queue.is_empty()
            && self.drive.syncing.is_empty()
            && !self.clients.connections.values().any(Connection::wants_to_send)
            && !matches!(&self.clients.frontend, Frontend::Ublk(device) if !device.is_stopped());
        self.stops_by.is_some_and(|by| is_told || Instant::now() >= by)
    }

    /// Commands that the drive has not begun fail; those that it has begun have a moment to end. Asked once more, it ends now.
    fn stop(&mut self) {
        let (now, is_first) = (Instant::now(), self.stops_by.is_none());
        // Beside what the drive has begun, so that the end need not wait for all of it.
        self.drive.begin_sync();
        match &mut self.clients.frontend {
            // The kernel writes back its cache first, in the drive's time: what fails now is lost.
            Frontend::Ublk(device) if is_first && self.clients.frontend_error.is_none() => {
                self.stops_by = Some(now + WRITE_BACK);
                self.clients.frontend_error = device.stop().err();
            }
            _ => {
                self.stops_by = Some(if is_first { now + GRACE } else { now });
                self.fail_waiting();
            }
        }
    }

    fn fail_waiting(&mut self) {
        let waiting = self.drive.take_waiting(|_| true);
        waiting.into_iter().for_each(|command| self.clients.reply(command, Some(CommandError::Shutdown)));
    }

    /// The drive's time goes on to the end of all that it has begun, without a wait. No client is told that it was done: by the clock
    /// it was not yet.
    fn end_all(&mut self) {
        self.drive.cut_short(|_| true);
        while self.drive.begun > 0 {
            self.drive.advance(None);
        }
        let synced = std::mem::take(&mut self.drive.syncing).into_iter().map(|(_, command)| command);
        let ended = std::mem::take(&mut self.drive.ended).into_iter().chain(synced);
        ended.for_each(|command| self.clients.reply(command, Some(CommandError::Shutdown)));
        self.fail_waiting();
        self.clients.send(false);
        if let Frontend::Ublk(device) = &mut self.clients.frontend {
            device.end();
        }
    }

    /// Bytes that clients may have the server hold besides those that it holds.
    fn room(&self) -> usize {
        HELD_BYTES_MAX.saturating_sub(self.drive.held_bytes + self.clients.held_bytes())
    }

    /// True if some command would have to wait for memory.
    fn is_short_of_memory(&self) -> bool {
        self.room() < LONGEST_BYTES as usize
    }

    /// Waits until a client, a request or the clock has something to do, and reads what clients have sent. True if there may be a
    /// request.
    fn wait(&mut self, requests: &ControlRequests) -> bool {
        let until = self.clock.as_ref().and_then(|_| self.next_moment());
        // In this order: below `ready` is taken apart by it.
        let mut files = Vec::with_capacity(self.clients.connections.len() + 3);
        files.push(PollFd::new(requests, PollFlags::IN));
        files.push(PollFd::new(&self.drive, PollFlags::IN));
        let is_deaf = self.drive.is_full() || self.stops_by.is_some();
        self.clients.wait_for(&mut files, is_deaf);
        let is_short = self.is_short_of_memory();
        let has_more = self.has_more_work || !is_deaf && !is_short && self.clients.has_more();
        // A client that stays mute ends.
        let mute = self.clients.connections.values().filter_map(|client| client.mute_until(is_short));
        let place = self.clients.place_from().filter(|from| *from > Instant::now());
        let by = self.stops_by.into_iter().chain(mute).chain(self.drive.log_due()).chain(place).min();
        let by = by.map(|by| by.saturating_duration_since(Instant::now()));
        let at_most = if has_more { Some(Duration::ZERO) } else { by };
        let waited = match &self.clock {
            Some(clock) => {
                let at_most = at_most.map(|span| clock.after(span));
                clock.wait(&mut files, until.into_iter().chain(at_most).min())
            }
            None => rustix::event::poll(&mut files, at_most.map(timespec).as_ref()),
        };
        if waited.is_err() {
            return true;
        }
        let ready: Vec<PollFlags> = files.iter().map(|file| file.revents()).collect();
        drop(files);
        if !ready[1].is_empty() {
            self.drive.receive_synced(false);
        }
        self.clients.receive(&ready[2..], is_deaf);
        !ready[0].is_empty()
    }

    fn receive(&mut self, requests: &ControlRequests) {
        for request in requests.receive() {
            match request {
                ControlRequest::Stop => self.stop(),
                ControlRequest::End(client) => {
                    self.stop();
                    self.ending.push(client);
                }
                // Whoever asked may have gone.
                ControlRequest::Report(sender) => drop(sender.send(self.describe())),
                ControlRequest::Inject(fault, sender) => {
                    let injected = self.drive.inject(fault, self.now());
                    if let (InjectedFault::Idle(span), Some(clock)) = (fault, &mut self.clock) {
                        clock.skip(span);
                    }
                    drop(sender.send(injected));
                }
            }
        }
    }

    /// State of the drive and its queue.
    fn describe(&self) -> Value {
        let drives = self.drive.drives();
        let (now, cleaning, before) = self.began;
        let (served, cleaning) = (self.drive.now().since(now), self.drive.cleaning_time().since(cleaning));
        let [read, written] = physical_sectors(&self.drive);
        let [latencies, lateness] = [&self.counters.latencies, &self.counters.lateness].map(LatencyCounts::list);
        let summary = latencies.summary();
        let mean_latency = self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.wall(Nanos(summary.all.mean)));
        let histogram = |lists: &LatencyLists| by_op(lists.steps());
        let sums = |lists: &LatencyLists| by_op(lists.sums_ns().map(|sum| sum as u64));
        let rate = |bytes: u64| bytes as f64 * 1e9 / served.0.max(1) as f64;
        let described = json!({
            "ok": true,
            "kind": "drive",
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "clients": self.clients.connections.len(),
            "completed": summary.all.count,
            "waiting": self.drive.queue.len(),
            "held_bytes": self.drive.held_bytes + self.clients.held_bytes(),
            "drive_time_ns": self.drive.now().0,
            "served_ns": served.0,
            "host_read_bytes": self.counters.read_bytes,
            "host_written_bytes": self.counters.written_bytes,
            "host_read_bytes_per_s": rate(self.counters.read_bytes),
            "host_written_bytes_per_s": rate(self.counters.written_bytes),
            "latency_ns": summary,
            "latency_histogram_ns": histogram(&latencies),
            "latency_sum_ns": sums(&latencies),
            "stalls": STALLS.iter().zip(self.counters.stalls).map(|((name, _), count)| (*name, count)).collect::<BTreeMap<_, _>>(),
            "cleaning_ns": cleaning.0,
            "cleaning_share": (cleaning.0 as f64 / (served.0.max(1) * drives.len() as u64) as f64).min(1.0),
            "cache_fill": self.drive.gauges().cache_fill,
            "map_bytes": drives.iter().map(|drive| drive.layer.map_bytes()).sum::<u64>(),
            "physical_read_bytes": read.saturating_sub(before[0]) * SECTOR_BYTES,
            "physical_written_bytes": written.saturating_sub(before[1]) * SECTOR_BYTES,
            "lateness_ns": lateness.summary().all,
            "lateness_histogram_ns": histogram(&lateness),
            "lateness_sum_ns": sums(&lateness),
            "is_real_time": self.clock.as_ref().map(PacedClock::is_real_time),
            "fell_behind": self.counters.fell_behind(mean_latency),
            "power_cuts": self.drive.power_cuts,
            "missing_members": self.drive.model.missing_members(),
            "zone_violations": self.drive.zone_violations,
            "faults": self.drive.faults(),
            "has_failed": self.drive.failure.is_some(),
            "failure": self.drive.failure,
        });
        joined(described, self.drive.image.describe())
    }

    /// Takes in what clients have sent, as long as there is room and time: replies that tell much take both.
    fn read_commands(&mut self) {
        let arrival = self.now();
        let stops = self.stops_by.is_some();
        while let Some(command) = match &mut self.clients.frontend {
            // In the end too: what the kernel has in its cache comes last.
            Frontend::Ublk(device) => device.next(self.drive.zones(), &mut self.clients.pool),
            Frontend::File(requests) if !stops => requests.next(),
            Frontend::File(_) | Frontend::Nbd(_) => None,
        } {
            self.drive.push(Command { client: KERNEL, arrival, ..command });
        }
        if stops {
            return;
        }
        for client in self.clients.connections.keys().copied().collect::<Vec<_>>() {
            loop {
                let is_busy = self.drive.is_full() || self.is_time_to_look();
                let room = if is_busy { None } else { Some(self.room()) };
                let Some(command) = self.clients.next_command(client, room) else { break };
                match command.kind {
                    CommandKind::BlockStatus => self.reply_status(client, &command),
                    _ => self.drive.push(Command { client, arrival, ..command }),
                }
            }
        }
    }

    fn reply_status(&mut self, client: u64, command: &Command) {
        let (offset, bytes) = (command.offset, command.bytes);
        let range = offset / SECTOR_BYTES..(offset + bytes) / SECTOR_BYTES;
        let Some(connection) = self.clients.connections.get_mut(&client) else { return };
        let most = if command.one_extent { 1 } else { EXTENTS_MAX };
        let Ok(parts) = self.drive.extents(range, most) else {
            return connection.failed(command.cookie, CommandError::Io);
        };
        let extent = |(sectors, is_hole)| (sectors * SECTOR_BYTES, if is_hole { HOLE_AND_ZEROS } else { 0 });
        let extents: Vec<Extent> = parts.into_iter().map(extent).collect();
        connection.status(command.cookie, &extents);
    }

    /// The time of the drive at which there is something to do.
    fn next_moment(&self) -> Option<Nanos> {
        let now = self.now();
        // When a drive is free that is at work for itself.
        let free = self.drive.drives().into_iter().map(|drive| drive.now()).filter(|&free| free > now).min();
        let idle = free.or(self.has_idle_work.then_some(now)).filter(|_| self.drive.begun == 0);
        let waits = self.drive.queue.len() > self.drive.begun;
        let begin = Some(self.drive.now()).filter(|&begin| begin > now && waits);
        [self.drive.model.next(), idle, begin].into_iter().flatten().min()
    }

    /// The drive's time: the clock's, where it keeps pace.
    fn now(&self) -> Nanos {
        self.clock.as_ref().map_or(self.drive.now(), PacedClock::now)
    }

    fn is_time_to_look(&self) -> bool {
        Instant::now() >= self.look_at
    }

    /// Begins what may be begun, and replies to what is done.
    fn work(&mut self) {
        let now = self.now();
        match self.clock.is_some() {
            true => self.work_until(now),
            false => self.work_off(),
        }
        if self.clock.is_some() && self.drive.queue.is_empty() && self.drive.now() <= now {
            self.has_idle_work = self.drive.step_before(now);
            self.drive.write_gathered();
        }
        self.reply_ended();
        self.drive.rotate_log();
        self.drive.write_due_log();
    }

    /// Lets the drive's time go on to `now`, and begins what may be begun then.
    fn work_until(&mut self, now: Nanos) {
        loop {
            self.advance(Some(now));
            let mut has_begun = false;
            while self.drive.begin_next(now) {
                has_begun = true;
            }
            self.has_idle_work |= has_begun;
            self.reply_ended();
            // What has begun may end by `now` as well, and let others begin: again until nothing does.
            if !has_begun {
                return;
            }
            if self.is_time_to_look() {
                self.has_more_work = true;
                return;
            }
        }
    }

    /// Serves commands one event after another, since nobody waits for the wall clock.
    fn work_off(&mut self) {
        while !self.drive.queue.is_empty() {
            if self.is_time_to_look() {
                self.has_more_work = true;
                return;
            }
            while self.drive.under_way_bytes() < UNDER_WAY_BYTES && self.drive.begin_next(self.drive.now()) {}
            self.reply_ended();
            if self.drive.begun > 0 {
                self.advance(None);
            }
        }
    }

    fn advance(&mut self, limit: Option<Nanos>) {
        self.has_more_work |= !self.drive.advance_before(limit, Some(self.look_at));
        self.drive.write_gathered();
        self.reply_ended();
    }

    /// Replies to the commands that have ended.
    fn reply_ended(&mut self) {
        self.note_loss();
        while let Some(command) = self.drive.ended.pop_front() {
            let CommandState::Ended(end, result) = command.state else { continue };
            let latency = end.since(command.arrival);
            let op = match command.kind {
                CommandKind::Read => Op::Read,
                CommandKind::Flush | CommandKind::BlockStatus | CommandKind::Zone(_) => Op::Flush,
                CommandKind::Trim => Op::Discard,
                CommandKind::Write | CommandKind::WriteZeroes | CommandKind::ZoneAppend => Op::Write,
            };
            self.counters.note(op, latency, if result.is_ok() { command.bytes } else { 0 });
            if let Some(clock) = &self.clock {
                self.counters.lateness.record(op, clock.late(end).as_nanos() as u64);
            }
            self.clients.reply(command, result.err());
        }
    }

    /// After a loss every client that is there is owed an error.
    fn note_loss(&mut self) {
        if self.drive.take_loss() {
            self.clients.owed.extend(self.clients.connections.keys());
            if !matches!(self.clients.frontend, Frontend::Nbd(_)) {
                self.clients.owed.insert(KERNEL);
            }
        }
    }
}

/// The clients of a server.
struct Clients {
    frontend: Frontend,
    /// Error that ended it.
    frontend_error: Option<io::Error>,
    export: Export,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Clients that were there when a power cut lost what was not flushed, and whose next flush fails.
    owed: BTreeSet<u64>,
    /// Buffers for the bytes of commands.
    pool: Vec<Vec<u8>>,
}

impl Clients {
    /// Bytes that clients have asked for and not taken, and of writes that have not come as a whole.
    fn held_bytes(&self) -> usize {
        self.connections.values().map(Connection::held_bytes).sum()
    }

    /// When there is a place for a new client: now, or once one has been mute in its handshake for too long.
    fn place_from(&self) -> Option<Instant> {
        match self.connections.len() < CLIENTS_MAX {
            true => Some(Instant::now()),
            false => longest_mute(&self.connections).map(|(_, since)| since + CROWDED),
        }
    }

    /// Adds what to wait for to `files`: new clients, then each client, from which nothing is read where `is_busy`.
    fn wait_for<'a>(&'a self, files: &mut Vec<PollFd<'a>>, is_busy: bool) {
        match &self.frontend {
            Frontend::Nbd(listener) => {
                // Where there is no place, clients wait in the backlog of the socket.
                let has_place = self.place_from().is_some_and(|from| from <= Instant::now());
                files.push(PollFd::new(listener, if has_place { PollFlags::IN } else { PollFlags::empty() }));
            }
            Frontend::Ublk(device) => device.wait_for(files),
            Frontend::File(requests) => files.push(PollFd::new(requests, PollFlags::IN)),
        }
        for client in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !is_busy && client.is_open() && client.has_room());
            flags.set(PollFlags::OUT, client.wants_to_send());
            files.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
        }
    }

    /// Reads what clients have sent, and takes in new ones, as `ready` says of what was waited for.
    fn receive(&mut self, ready: &[PollFlags], is_busy: bool) {
        let (listener, Some((accepts, ready))) = (match &mut self.frontend {
            Frontend::Nbd(listener) => (listener, ready.split_first()),
            Frontend::Ublk(device) => {
                if let Err(error) = device.receive() {
                    self.frontend_error = Some(error);
                }
                return;
            }
            Frontend::File(requests) => return requests.receive(),
        }) else {
            return;
        };
        for (client, flags) in self.connections.values_mut().zip(ready) {
            let has_come = flags.contains(PollFlags::IN) || client.has_unread();
            if flags.intersects(PollFlags::HUP | PollFlags::ERR) || has_come && !is_busy {
                client.receive();
            } else if is_busy {
                client.was_not_heard();
            }
        }
        while !accepts.is_empty() {
            // Those that have just hung up are forgotten later, but take no place any more.
            let is_full = self.connections.values().filter(|client| !client.is_over()).count() >= CLIENTS_MAX;
            let mute = longest_mute(&self.connections).filter(|(_, since)| since.elapsed() >= CROWDED);
            if is_full && mute.is_none() {
                break;
            }
            let Ok(Some(stream)) = listener.accept() else { break };
            if let Some(client) = mute.filter(|_| is_full).and_then(|(mute, _)| self.connections.get_mut(&mute)) {
                client.end();
            }
            self.connections.insert(self.next, Connection::new(stream));
            self.next += 1;
        }
    }

    /// True if a client has sent something that was not looked at, and may be now.
    fn has_more(&self) -> bool {
        self.connections.values().any(Connection::has_more)
    }

    /// The next command of a client that has come as a whole, and for which there is room.
    fn next_command(&mut self, client: u64, room: Option<usize>) -> Option<Command> {
        self.connections.get_mut(&client)?.next(&self.export, &mut self.pool, room)
    }

    /// Replies to a command if its client is still there.
    fn reply(&mut self, command: Command, mut error: Option<CommandError>) {
        // A durable write vouches for itself alone: what a cut took is for the client's next flush to say.
        if command.kind == CommandKind::Flush && self.owed.remove(&command.client) {
            error = error.or(Some(CommandError::Io));
        }
        match &mut self.frontend {
            Frontend::Nbd(_) => {}
            Frontend::Ublk(device) => {
                device.reply(&command, error);
                return self.pool.push(command.data);
            }
            Frontend::File(requests) => return requests.reply(&command, error),
        }
        let Some(connection) = self.connections.get_mut(&command.client) else { return };
        if command.kind == CommandKind::Read {
            connection.reading_bytes -= command.bytes as usize;
        }
        match (command.kind, error) {
            (_, Some(error)) => connection.failed(command.cookie, error),
            (CommandKind::Read, None) => {
                let bytes = command.bytes as usize;
                return connection.data(command.cookie, command.offset, command.data, bytes, &mut self.pool);
            }
            (_, None) => connection.done(command.cookie),
        }
        self.pool.push(command.data);
    }

    /// Sends what clients take, and forgets those that are gone; returns those whose connections broke.
    fn send(&mut self, memory_is_short: bool) -> BTreeSet<u64> {
        if let Frontend::Ublk(device) = &mut self.frontend {
            device.send();
        }
        let now = Instant::now();
        for client in self.connections.values_mut() {
            if client.wants_to_send() {
                client.send(&mut self.pool);
            }
            if client.mute_until(memory_is_short).is_some_and(|until| until <= now) {
                client.end();
            }
        }
        let broken =
            self.connections.iter().filter(|(_, client)| client.is_broken()).map(|(client, _)| *client).collect();
        self.connections.retain(|_, client| !client.is_over());
        self.owed.retain(|client| *client == KERNEL || self.connections.contains_key(client));
        self.pool.retain(|buffer| (1..=POOLED_BYTES).contains(&buffer.capacity()));
        self.pool.truncate(POOL_BUFFERS);
        broken
    }
}

/// Of the clients in their handshakes the one that has been mute for longest, and since when.
fn longest_mute(connections: &BTreeMap<u64, Connection>) -> Option<(u64, Instant)> {
    let mute = connections.iter().filter_map(|(number, client)| Some((*number, client.greets_since()?)));
    mute.min_by_key(|(_, since)| *since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_fell_behind_if_replies_were_late_for_their_latency() {
        let (mut report, mean) = (Counters::default(), Duration::from_millis(10));
        assert!(!report.fell_behind(mean));
        (0..990).for_each(|_| report.lateness.record(Op::Read, 40_000));
        (0..9).for_each(|_| report.lateness.record(Op::Write, 80_000_000));
        assert!(!report.fell_behind(mean));
        (0..9).for_each(|_| report.lateness.record(Op::Write, 1_200_000));
        assert!(report.fell_behind(mean));
        // What a write cache takes in has hardly a latency.
        let mut cached = Counters::default();
        cached.lateness.record(Op::Write, 50_000);
        assert!(!cached.fell_behind(Duration::ZERO));
    }
}
