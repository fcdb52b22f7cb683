//! The server of a drive or an array: it queues clients' commands, and replies to each when the drive's clock has reached its completion.
//! Without a pace it replies as soon as the model has served a command.
//!
//! One thread does everything, in a loop: wait for events, read commands, serve the drive, send replies.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use smrkit::request::Op;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::attached::FileRequests;
use super::control::{ControlRequest, ControlRequests, InjectedFault};
use super::drive::{Command, CommandError, CommandKind, ServedDrive};
use super::nbd::{Connection, Export, SharedMemory};
pub use super::nbd::{Listener, TlsCertificates};
use super::pace::{Pace, PacedClock, timespec};
use super::report::Counters;
pub use super::ublk::{UblkDevice, lack_of_ublk};
use crate::error::LiveError;
use crate::mount::control::EndClient;

/// Most clients at a time (assumption).
const CLIENTS_MAX: usize = 64;
/// If all places are taken, a client that has sent nothing for this long in its handshake is closed for another one (assumption). A client
/// that comes after a thousand silent ones waits for 0.75 s.
const CROWDED_TIMEOUT: Duration = Duration::from_millis(50);
/// The host's time for serving the drive before the server looks for messages of clients again (assumption).
const TIME_SLICE: Duration = Duration::from_millis(10);
/// Without a pace, no more commands are begun while this many bytes are in flight. Commands that still wait cost nothing if their client
/// disconnects (assumption).
const IN_FLIGHT_BYTES: u64 = 8 << 20;
/// How long in-flight commands may go on after the server is asked to stop (assumption).
const STOP_GRACE: Duration = Duration::from_millis(500);
/// The same for a ublk device, because the kernel first writes back its page cache (assumption).
const WRITE_BACK_GRACE: Duration = Duration::from_secs(300);

/// How clients reach the drive.
pub enum Frontend {
    /// Clients of NBD.
    Nbd(Listener),
    /// A block device of this machine's kernel.
    Ublk(Box<UblkDevice>),
    /// A file, by FUSE.
    File(FileRequests),
}

/// The client number of the kernel, with ublk and FUSE.
const KERNEL: u64 = u64::MAX;

/// The server.
pub struct DriveServer {
    drive: ServedDrive,
    clock: Option<PacedClock>,
    clients: Clients,
    /// True if the drive may have background work to do.
    has_idle_work: bool,
    counters: Counters,
    /// When the server ends at the latest; `None` until it is asked to stop.
    stop_deadline: Option<Instant>,
    /// When to stop serving the drive and look for messages of clients.
    slice_ends: Instant,
    /// True if there was work left at that time.
    has_more_work: bool,
    /// Clients of the control socket that asked the server to end, and wait for that.
    end_clients: Vec<EndClient>,
}

impl DriveServer {
    /// A server of `drive` for clients of `frontend`.
    pub fn new(mut drive: ServedDrive, frontend: Frontend, pace: Pace) -> DriveServer {
        if let Pace::Times(factor) = pace {
            drive.set_pace(factor);
        }
        let clock = PacedClock::new(pace, drive.now());
        let (bytes, is_read_only) = (drive.image.bytes, drive.image.is_read_only);
        DriveServer {
            counters: Counters::new(&drive),
            drive,
            clock,
            clients: Clients {
                frontend,
                frontend_error: None,
                export: Export { bytes, is_read_only, tls: None },
                connections: BTreeMap::new(),
                next: 0,
                last_heard: 0,
                memory: SharedMemory::default(),
                owed_errors: BTreeSet::new(),
            },
            has_idle_work: true,
            stop_deadline: None,
            slice_ends: Instant::now(),
            has_more_work: false,
            end_clients: Vec::new(),
        }
    }

    /// Requires NBD clients to begin TLS before they can ask for the drive.
    pub fn require_tls(&mut self, certificates: TlsCertificates) {
        self.clients.export.tls = Some(certificates);
    }

    /// Serves until it is asked to stop, then closes the image cleanly. Returns the last report.
    pub fn run(mut self, requests: ControlRequests) -> (Value, Result<(), LiveError>) {
        if let Frontend::Ublk(device) = &mut self.clients.frontend {
            self.clients.frontend_error = device.start().err();
        }
        loop {
            if self.clients.frontend_error.is_some() && self.stop_deadline.is_none() {
                self.stop();
            }
            if self.is_over() {
                break;
            }
            if self.wait(&requests) {
                self.handle_control_requests(&requests);
            }
            self.has_more_work = false;
            self.read_commands();
            self.serve_slice();
            let gone = self.clients.send();
            if !gone.is_empty() {
                self.drive.abandon(|command| gone.contains(&command.client));
            }
        }
        self.finish_in_flight();
        let report = self.report();
        let failed = self.clients.frontend_error.map(|error| LiveError::io(&self.drive.image.path, error));
        let closed = self.drive.close().and(failed.map_or(Ok(()), Err));
        self.end_clients.into_iter().for_each(|client| client.tell(&closed));
        (report, closed)
    }

    /// True if the server was asked to stop, and every reply is sent that can be sent by the deadline.
    fn is_over(&self) -> bool {
        let Some(deadline) = self.stop_deadline else { return false };
        let now = Instant::now();
        // After `inject slow 1h`, for example, no command in flight can end in time.
        let ends_in_time = self.clock.as_ref().is_none_or(|clock| {
            let latest = clock.after(deadline.saturating_duration_since(now));
            self.has_more_work || self.drive.model.next().is_some_and(|next| next <= latest)
        });
        let is_done = (self.drive.queue_length() == 0 || !ends_in_time)
            && self.drive.ended.is_empty()
            && !self.clients.connections.values().any(Connection::wants_to_send)
            && !matches!(&self.clients.frontend, Frontend::Ublk(device) if !device.is_stopped());
        is_done || now >= deadline
    }

    /// Handles a request to stop: waiting commands fail, and in-flight ones get `STOP_GRACE` to end. A second request ends the server now.
    fn stop(&mut self) {
        let (now, is_first) = (Instant::now(), self.stop_deadline.is_none());
        // The fsync runs during the grace time, so that `close` has less left to sync.
        self.drive.begin_close();
        match &mut self.clients.frontend {
            // The kernel first writes back its page cache, in the drive's time. If these writes failed, data would be lost.
            Frontend::Ublk(device) if is_first && self.clients.frontend_error.is_none() => {
                self.stop_deadline = Some(now + WRITE_BACK_GRACE);
                self.clients.frontend_error = device.stop().err();
            }
            _ => {
                self.stop_deadline = Some(if is_first { now + STOP_GRACE } else { now });
                self.fail_waiting();
            }
        }
    }

    fn fail_waiting(&mut self) {
        for command in self.drive.take_waiting(|_| true) {
            self.clients.reply(command, Err(CommandError::Shutdown));
        }
    }

    /// Lets the model complete the commands in flight without waiting for the clock. Their clients get an error, because by the clock they
    /// have not completed.
    fn finish_in_flight(&mut self) {
        self.drive.cancel_remaining_requests(|_| true);
        while !self.drive.in_flight.is_empty() {
            self.drive.advance(None, None);
        }
        for command in std::mem::take(&mut self.drive.ended) {
            self.clients.reply(command, Err(CommandError::Shutdown));
        }
        self.fail_waiting();
        self.clients.send();
        if let Frontend::Ublk(device) = &mut self.clients.frontend {
            device.end();
        }
    }

    /// Waits for a message of a client, a control request or the clock, and receives what clients have sent. Returns true if there may be
    /// a control request.
    fn wait(&mut self, requests: &ControlRequests) -> bool {
        // `ready` below has the same order.
        let mut files = Vec::with_capacity(self.clients.connections.len() + 3);
        files.push(PollFd::new(requests, PollFlags::IN));
        files.push(PollFd::new(&self.drive.syncer.done, PollFlags::IN));
        let is_paused = self.drive.is_full() || self.stop_deadline.is_some();
        self.clients.wait_for(&mut files, is_paused);
        let clients = || self.clients.connections.values();
        let has_more = self.has_more_work || !is_paused && clients().any(Connection::has_more);
        // What the host's clock decides: the end of the server, of clients that send nothing, or of their places, and writes that are due.
        let silent = clients().filter_map(Connection::idle_deadline);
        let place = self.clients.next_place().map(|(from, _)| from).filter(|from| *from > Instant::now());
        let deadline = [self.stop_deadline, self.drive.write_due(), place].into_iter().flatten().chain(silent).min();
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let at_most = if has_more { Some(Duration::ZERO) } else { timeout };
        let waited = match &self.clock {
            Some(clock) => {
                let at_most = at_most.map(|span| clock.after(span));
                clock.wait(&mut files, self.next_event_at().into_iter().chain(at_most).min())
            }
            None => rustix::event::poll(&mut files, at_most.map(timespec).as_ref()),
        };
        // Most likely interrupted by a signal. What was not received now is received in the next round.
        if waited.is_err() {
            return true;
        }
        let ready: Vec<PollFlags> = files.iter().map(|file| file.revents()).collect();
        drop(files);
        if !ready[1].is_empty() {
            self.drive.receive_synced(false);
        }
        self.clients.receive(&ready[2..], is_paused);
        !ready[0].is_empty()
    }

    fn handle_control_requests(&mut self, requests: &ControlRequests) {
        for request in requests.receive() {
            match request {
                ControlRequest::Stop => self.stop(),
                ControlRequest::End(client) => {
                    self.stop();
                    self.end_clients.push(client);
                }
                // The client may have hung up.
                ControlRequest::Report(sender) => drop(sender.send(self.report())),
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

    /// The report on the drive and its queue.
    fn report(&self) -> Value {
        let held_bytes = self.clients.memory.held_by_all();
        json!(self.counters.report(&self.drive, self.clock.as_ref(), self.clients.connections.len(), held_bytes))
    }

    /// Queues the commands that clients have sent, as long as there is memory and time. Replies to block status take both.
    fn read_commands(&mut self) {
        let (arrival, until) = (self.now(), Instant::now() + TIME_SLICE);
        let stops = self.stop_deadline.is_some();
        while let Some(command) = match &mut self.clients.frontend {
            // While stopping, too: the kernel writes back its page cache.
            Frontend::Ublk(device) => device.next(self.drive.zones()),
            Frontend::File(requests) if !stops => requests.next(),
            Frontend::File(_) | Frontend::Nbd(_) => None,
        } {
            let memory = self.clients.memory.hold(command.data.len());
            self.drive.push(Command { client: KERNEL, arrival, memory, ..command });
        }
        if stops {
            return;
        }
        // Begins behind the client that was heard last, since it may have used up the time or filled the queue, as it may again.
        let mut clients: Vec<u64> = self.clients.connections.keys().copied().collect();
        let next = clients.partition_point(|client| *client <= self.clients.last_heard);
        clients.rotate_left(next);
        for client in clients {
            loop {
                let is_busy = self.drive.is_full() || Instant::now() >= until;
                let Clients { connections, export, last_heard, .. } = &mut self.clients;
                let Some(connection) = connections.get_mut(&client) else { break };
                let Some(command) = connection.next_command(export, is_busy) else { break };
                *last_heard = client;
                if command.kind != CommandKind::BlockStatus {
                    self.drive.push(Command { client, arrival, ..command });
                    continue;
                }
                // The image answers at once: where its holes are takes the drive no time.
                let range = command.offset / SECTOR_BYTES..(command.offset + command.bytes) / SECTOR_BYTES;
                match self.drive.extents(range, command.extents_max) {
                    Ok(extents) => connection.reply_status(command, &extents),
                    Err(_) => connection.reply(command, Err(CommandError::Io)),
                }
            }
        }
    }

    /// The drive's time of the next thing to do.
    fn next_event_at(&self) -> Option<Nanos> {
        let now = self.now();
        // The end of the first background work that is going on.
        let free = self.drive.drives().into_iter().map(|drive| drive.now()).filter(|&free| free > now).min();
        let idle = free.or(self.has_idle_work.then_some(now)).filter(|_| self.drive.in_flight.is_empty());
        let begin = Some(self.drive.now()).filter(|&begin| begin > now && !self.drive.waiting.is_empty());
        [self.drive.model.next(), idle, begin].into_iter().flatten().min()
    }

    /// The drive's time: that of the clock, or without a pace that of the model.
    fn now(&self) -> Nanos {
        self.clock.as_ref().map_or(self.drive.now(), PacedClock::now)
    }

    fn is_slice_over(&self) -> bool {
        Instant::now() >= self.slice_ends
    }

    /// Serves the drive for a time slice of its own, which clients' block statuses can't use up.
    fn serve_slice(&mut self) {
        self.slice_ends = Instant::now() + TIME_SLICE;
        let now = self.now();
        match self.clock.is_some() {
            true => self.serve_paced(now),
            false => self.serve_unpaced(),
        }
        if self.clock.is_some() && self.drive.queue_length() == 0 && self.drive.now() <= now {
            self.has_idle_work = self.drive.step_before(now);
        }
        self.reply_ended();
        self.drive.rotate_log();
        self.drive.write_what_is_due();
    }

    /// Advances the drive to `now`, and begins waiting commands.
    fn serve_paced(&mut self, now: Nanos) {
        loop {
            self.advance(Some(now));
            let mut has_begun = false;
            while self.drive.begin_next(now) {
                has_begun = true;
            }
            self.has_idle_work |= has_begun;
            // A command that has just begun may also end by `now`, so that another one can begin.
            if !has_begun {
                return;
            }
            if self.is_slice_over() {
                self.has_more_work = true;
                return;
            }
        }
    }

    /// Serves all commands, without waiting for the clock.
    fn serve_unpaced(&mut self) {
        while self.drive.queue_length() > 0 {
            if self.is_slice_over() {
                self.has_more_work = true;
                return;
            }
            while self.drive.in_flight_bytes() < IN_FLIGHT_BYTES && self.drive.begin_next(self.drive.now()) {}
            if !self.drive.in_flight.is_empty() {
                self.advance(None);
            }
        }
    }

    fn advance(&mut self, limit: Option<Nanos>) {
        self.has_more_work |= !self.drive.advance(limit, Some(self.slice_ends));
        self.reply_ended();
    }

    /// Replies to the commands that have ended.
    fn reply_ended(&mut self) {
        if self.drive.take_loss() {
            // The next flush of every connected client has to fail, because it can't keep what the client wrote before the loss.
            self.clients.owed_errors.extend(self.clients.connections.keys());
            if !matches!(self.clients.frontend, Frontend::Nbd(_)) {
                self.clients.owed_errors.insert(KERNEL);
            }
        }
        while let Some(command) = self.drive.take_ended() {
            let Some((end, result)) = command.ended else { continue };
            let latency = end.since(command.arrival);
            let op = match command.kind {
                CommandKind::Read => Op::Read,
                CommandKind::Flush | CommandKind::BlockStatus | CommandKind::Zone(_) => Op::Flush,
                CommandKind::Trim => Op::Discard,
                CommandKind::Write | CommandKind::WriteZeroes | CommandKind::ZoneAppend => Op::Write,
            };
            let late = self.clock.as_ref().map(|clock| clock.late(end));
            self.counters.note(op, latency, late, if result.is_ok() { command.bytes } else { 0 });
            self.clients.reply(command, result);
        }
    }
}

/// The clients of a server.
struct Clients {
    frontend: Frontend,
    /// The error that ended the frontend.
    frontend_error: Option<io::Error>,
    export: Export,
    connections: BTreeMap<u64, Connection>,
    /// The number of the next client.
    next: u64,
    /// The client that sent the last command.
    last_heard: u64,
    memory: SharedMemory,
    /// Clients whose next flush fails, because unflushed data was lost while they were connected.
    owed_errors: BTreeSet<u64>,
}

impl Clients {
    /// When a new client can be accepted, and the client that is closed for it: none as long as there is a place, else the one that has been
    /// silent in its handshake for longest.
    fn next_place(&self) -> Option<(Instant, Option<u64>)> {
        // Clients that have just hung up are removed later, and take no place.
        if self.connections.values().filter(|client| !client.is_over()).count() < CLIENTS_MAX {
            return Some((Instant::now(), None));
        }
        let silent =
            self.connections.iter().filter_map(|(number, client)| Some((client.handshake_idle_since()?, *number)));
        silent.min().map(|(since, number)| (since + CROWDED_TIMEOUT, Some(number)))
    }

    /// Adds the descriptors to wait for to `files`: that of the frontend, then that of each client. While the server `is_busy`, clients are
    /// not read from.
    fn wait_for<'a>(&'a self, files: &mut Vec<PollFd<'a>>, is_busy: bool) {
        match &self.frontend {
            Frontend::Nbd(listener) => {
                // Without a place, clients wait in the socket's backlog.
                let has_place = self.next_place().is_some_and(|(from, _)| from <= Instant::now());
                files.push(PollFd::new(listener, if has_place { PollFlags::IN } else { PollFlags::empty() }));
            }
            Frontend::Ublk(device) => device.wait_for(files),
            Frontend::File(requests) => files.push(PollFd::new(&requests.incoming, PollFlags::IN)),
        }
        for client in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !is_busy && client.wants_to_receive());
            flags.set(PollFlags::OUT, client.wants_to_send());
            files.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
        }
    }

    /// Receives from clients and accepts new ones. `ready` has the results of waiting for `wait_for`'s descriptors.
    fn receive(&mut self, ready: &[PollFlags], is_busy: bool) {
        match &mut self.frontend {
            Frontend::Nbd(_) => {}
            Frontend::Ublk(device) => {
                self.frontend_error = self.frontend_error.take().or(device.receive().err());
                return;
            }
            // Only that the server is awake: `FileRequests::next` has the requests.
            Frontend::File(requests) => return drop(requests.incoming.receive()),
        }
        let Some((accepts, ready)) = ready.split_first() else { return };
        for (client, flags) in self.connections.values_mut().zip(ready) {
            let has_come = flags.contains(PollFlags::IN) || client.has_unread();
            let has_hung_up = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            if has_hung_up && !client.wants_to_receive() {
                // Its input is full, so that the end behind it would stay unread, and `poll` would not wait as long as it does.
                client.is_ended = true;
            } else if has_hung_up || has_come && !is_busy {
                client.receive();
            } else if is_busy {
                client.note_not_polled();
            }
        }
        while !accepts.is_empty()
            && let Some((_, silent)) = self.next_place().filter(|(from, _)| *from <= Instant::now())
            && let Frontend::Nbd(listener) = &self.frontend
            && let Ok(Some(stream)) = listener.accept()
        {
            if let Some(client) = silent.and_then(|silent| self.connections.get_mut(&silent)) {
                client.is_ended = true;
            }
            self.connections.insert(self.next, Connection::new(stream, self.memory.of_new_client()));
            self.next += 1;
        }
    }

    /// Replies to a command if its client is still connected.
    fn reply(&mut self, command: Command, mut result: Result<(), CommandError>) {
        // Not a write with FUA: it promises only its own data, while a flush promises everything before it.
        if command.kind == CommandKind::Flush && self.owed_errors.remove(&command.client) {
            result = result.and(Err(CommandError::Io));
        }
        match &mut self.frontend {
            Frontend::Nbd(_) => {
                if let Some(connection) = self.connections.get_mut(&command.client) {
                    connection.reply(command, result);
                }
            }
            Frontend::Ublk(device) => device.reply(&command, result),
            Frontend::File(requests) => requests.reply(&command, result),
        }
    }

    /// Sends replies and removes closed clients. Returns the clients whose connections broke.
    fn send(&mut self) -> BTreeSet<u64> {
        if let Frontend::Ublk(device) = &mut self.frontend {
            device.send();
        }
        let now = Instant::now();
        for client in self.connections.values_mut() {
            if client.wants_to_send() {
                client.send();
            }
            if client.idle_deadline().is_some_and(|until| until <= now) {
                client.is_ended = true;
            }
        }
        let broken =
            self.connections.iter().filter(|(_, client)| client.is_broken()).map(|(client, _)| *client).collect();
        self.connections.retain(|_, client| !client.is_over());
        self.owed_errors.retain(|client| *client == KERNEL || self.connections.contains_key(client));
        broken
    }
}
