//! The server of a drive or an array: clients' commands go through its queue, and replies wait until the drive's clock says so.
//!
//! One thread does all of it, and waits in one place. Without a pace a command is served as soon as it is read.

mod clients;
mod commands;
mod work;

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use smrkit::settings::Queue;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::device::{BlockDevice, Ended, Unserved};
pub use super::nbd::Listener;
use super::nbd::wire::HOLE_AND_ZEROS;
use super::nbd::{Context, Export, Extent, NbdCommand, NbdError, NbdKind};
use super::pace::{Pace, PacedClock, timespec};
pub use super::report::ServeReport;
use super::watchdog::{self, Watchdog};
use super::wish::{Wish, Wishes};
use crate::error::LiveError;
use crate::log::log;
use crate::mount::control::{EndClient, joined};
use clients::NbdClients;
use commands::{DueReply, HostCommands, Job};

/// The longest read or write (that of the protocol's specification).
const LONGEST_BYTES: u32 = 32 << 20;
/// Size that hosts had better read and write.
const PREFERRED_BYTES: u32 = 4096;
/// Extents that a reply tells at most (assumption).
const EXTENTS_MAX: usize = 1 << 16;
/// Time on the wall clock after which work on commands stops to look at the clients (assumption).
const WORK: Duration = Duration::from_millis(10);
/// Time on the wall clock in which commands that the drive has begun may end once the server is asked to stop (assumption).
const GRACE: Duration = Duration::from_millis(500);

/// Pace and order of a served drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeOptions {
    /// Pace of its time.
    pub pace: Pace,
    /// The order of a drive's commands; [`Queue::Drive`] is its own where its file has one, else shortest positioning time first where
    /// it has mechanics.
    pub queue: Queue,
}

/// The server.
pub struct DriveServer {
    device: BlockDevice,
    clock: Option<PacedClock>,
    clients: NbdClients,
    commands: HostCommands,
    /// Sum of the latencies of replies, in the drive's time.
    latencies: Nanos,
    /// True if the drive may have work of its own.
    has_idle_work: bool,
    watchdog: Watchdog,
    report: ServeReport,
    /// When it ends at the latest, once it was asked to stop.
    stops_by: Option<Instant>,
    /// When work is to stop for a look at the clients.
    look_at: Instant,
    /// True if work was left when that moment came.
    has_more_work: bool,
    /// Clients that wait for its end.
    ending: Vec<EndClient>,
}

impl DriveServer {
    /// Serves `device` to whoever connects to `listener`.
    pub fn new(mut device: BlockDevice, listener: Listener, options: ServeOptions) -> DriveServer {
        device.order_commands(options.queue);
        let clock = PacedClock::new(options.pace, device.now());
        let export = Export {
            bytes: device.image().export_sectors() * SECTOR_BYTES,
            sector_bytes: SECTOR_BYTES as u32,
            preferred_bytes: PREFERRED_BYTES,
            longest_bytes: LONGEST_BYTES,
        };
        let image = device.image().path().display().to_string();
        let watchdog = Watchdog::start(watchdog::LONG, move |line| log(&format!("{image}: {line}")));
        let is_real_time = clock.as_ref().is_some_and(PacedClock::is_real_time);
        DriveServer {
            device,
            clock,
            clients: NbdClients::new(listener, export),
            commands: HostCommands::default(),
            latencies: Nanos::ZERO,
            has_idle_work: true,
            watchdog,
            report: ServeReport { is_real_time, ..ServeReport::default() },
            stops_by: None,
            look_at: Instant::now(),
            has_more_work: false,
            ending: Vec::new(),
        }
    }

    /// Serves until it is asked to stop; closes the image in good order.
    pub fn run(mut self, wishes: &Wishes) -> (ServeReport, Result<(), LiveError>) {
        while !self.is_over() {
            if self.wait(wishes) {
                self.hear(wishes);
            }
            self.look_at = Instant::now() + WORK;
            self.has_more_work = false;
            if self.stops_by.is_none() {
                self.read_commands();
            }
            self.work();
            if self.clients.send() {
                let clients = &self.clients;
                self.commands.drop_waiting(|job| clients.is_gone(job.client));
            }
        }
        self.end_all();
        self.report.has_failed = self.device.failure().is_some();
        if let Some(clock) = &self.clock {
            self.report.mean_latency = clock.wall(Nanos(self.latencies.0 / self.report.completed.max(1)));
        }
        let now = self.now();
        let closed = self.device.close(now);
        self.ending.into_iter().for_each(|client| client.tell(&closed));
        (self.report, closed)
    }

    /// True once it was asked to stop, and what the drive had begun has ended and been told, or there is no more time for that.
    fn is_over(&self) -> bool {
        let is_told = self.commands.is_empty() && !self.clients.want_to_send();
        self.stops_by.is_some_and(|by| is_told || Instant::now() >= by)
    }

    /// Commands that the drive has not begun fail; those that it has begun have a moment to end. Asked once more, it ends now.
    fn stop(&mut self) {
        let now = Instant::now();
        self.stops_by = Some(if self.stops_by.is_some() { now } else { now + GRACE });
        self.commands.take_waiting().into_iter().for_each(|job| self.complete(DueReply { job, is_served: false }));
    }

    /// The drive's time goes on to the end of all that it has begun, without a wait. No client is told that it was done: by the clock
    /// it was not yet.
    fn end_all(&mut self) {
        while !self.device.is_idle() {
            self.device.go_on(None);
            while let Some(Ended { tag, .. }) = self.device.take_ended() {
                if let Some(job) = self.commands.end(tag) {
                    self.clients.reply(DueReply { job, is_served: false });
                }
            }
        }
        while let Some((_, DueReply { job, .. })) = self.commands.take_due(Nanos::MAX) {
            self.clients.reply(DueReply { job, is_served: false });
        }
        self.clients.send();
    }

    /// Waits until a client, a wish or the clock has something to do, and reads what clients have sent. True if there may be a
    /// wish.
    fn wait(&mut self, wishes: &Wishes) -> bool {
        let until = self.clock.as_ref().and_then(|_| self.next_moment());
        let mut files = Vec::with_capacity(self.clients.count() + 2);
        files.push(PollFd::new(wishes, PollFlags::IN));
        let is_deaf = self.commands.is_full() || self.stops_by.is_some();
        self.clients.wait_for(&mut files, is_deaf);
        let has_more = self.has_more_work || !is_deaf && self.clients.has_more();
        let at_most = match has_more {
            true => Some(Duration::ZERO),
            false => {
                let by = self.stops_by.into_iter().chain(self.clients.first_mute()).min();
                by.map(|by| by.saturating_duration_since(Instant::now()))
            }
        };
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
        self.clients.receive(&ready[1..]);
        !ready[0].is_empty()
    }

    fn hear(&mut self, wishes: &Wishes) {
        for wish in wishes.told() {
            match wish {
                Wish::Stop => self.stop(),
                Wish::End(client) => {
                    self.stop();
                    self.ending.push(client);
                }
                // Whoever asked may have gone.
                Wish::Report(sender) => drop(sender.send(self.tell())),
                Wish::Inject(fault, sender) => drop(sender.send(self.device.inject(fault, self.now()))),
            }
        }
    }

    /// State of the drive and its queue.
    fn tell(&self) -> Value {
        let drives = self.device.drives();
        let sectors = drives.iter().map(|drive| drive.physical_sectors());
        let (read, written) = sectors.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let told = json!({
            "ok": true,
            "kind": "drive",
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "clients": self.clients.count(),
            "completed": self.report.completed,
            "waiting": self.commands.count(),
            "drive_time_ns": self.device.now().0,
            "cache_fill": self.device.gauges().cache_fill,
            "map_bytes": drives.iter().map(|drive| drive.layer.map_bytes()).sum::<u64>(),
            "physical_read_bytes": read * SECTOR_BYTES,
            "physical_written_bytes": written * SECTOR_BYTES,
            "lateness_ns": self.report.lateness.list().summary().all,
            "power_cuts": self.device.power_cuts(),
            "has_failed": self.device.failure().is_some(),
            "failure": self.device.failure(),
        });
        joined(told, self.device.image().describe())
    }

    /// Takes in what clients have sent, as long as there is room and time: replies that tell much take both.
    fn read_commands(&mut self) {
        let arrival = self.now();
        for client in self.clients.numbers() {
            while let Some(command) =
                self.clients.next_command(client, self.commands.is_full() || self.is_time_to_look())
            {
                self.take(client, command, arrival);
            }
        }
    }

    /// True if clients are to be looked at before work goes on.
    fn is_time_to_look(&self) -> bool {
        Instant::now() >= self.look_at
    }

    /// Puts a command into the queue.
    fn take(&mut self, client: u64, command: NbdCommand, arrival: Nanos) {
        let NbdCommand { kind, cookie, offset, bytes, fua, one_extent, data } = command;
        if kind == NbdKind::BlockStatus {
            return self.tell_status(client, cookie, offset, bytes, one_extent);
        }
        self.commands.push(Job { client, cookie, kind, offset, bytes, fua, arrival, data });
    }

    fn tell_status(&mut self, client: u64, cookie: u64, offset: u64, bytes: u64, one_extent: bool) {
        let range = offset / SECTOR_BYTES..(offset + bytes) / SECTOR_BYTES;
        let Some(connection) = self.clients.get(client) else { return };
        let most = if one_extent { 1 } else { EXTENTS_MAX };
        let told: Result<Vec<_>, Unserved> = connection
            .contexts()
            .iter()
            .map(|&context| {
                let mut extents = match context {
                    Context::Allocation => {
                        let status = |is_hole: bool| if is_hole { HOLE_AND_ZEROS } else { 0 };
                        let parts = self.device.extents(range.clone())?;
                        parts.into_iter().map(|(sectors, is_hole)| (sectors, status(is_hole))).collect()
                    }
                    Context::Track => self.device.tracks(range.clone())?,
                };
                extents.truncate(most);
                Ok((context, extents.into_iter().map(in_bytes).collect::<Vec<Extent>>()))
            })
            .collect();
        match told {
            Ok(told) => connection.status(cookie, &told),
            Err(_) => connection.failed(cookie, NbdError::Io),
        }
    }
}

fn in_bytes((sectors, status): (u64, u32)) -> Extent {
    (sectors * SECTOR_BYTES, status)
}
