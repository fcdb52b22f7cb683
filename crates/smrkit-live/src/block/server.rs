//! The server of a drive or an array: clients' commands go through its queue, and replies wait until the drive's clock says so.
//!
//! One thread does all of it, and waits in one place. Without a pace a command is served as soon as it is read.

mod clients;
mod commands;
mod work;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::{Value, json};
use smrkit::settings::Queue;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::device::{BlockDevice, Unserved};
pub use super::nbd::Listener;
use super::nbd::wire::HOLE_AND_ZEROS;
use super::nbd::{Context, Export, Extent, NbdCommand, NbdError, NbdKind};
use super::pace::{Pace, PacedClock};
pub use super::report::ServeReport;
use super::watchdog::{self, Watchdog};
use super::wish::{Wish, Wishes};
use crate::error::LiveError;
use crate::log::log;
use crate::mount::control::{EndClient, joined};
use clients::NbdClients;
use commands::{HostCommands, Job};

/// The longest read or write (that of the protocol's specification).
const LONGEST_BYTES: u32 = 32 << 20;
/// Size that hosts had better read and write.
const PREFERRED_BYTES: u32 = 4096;
/// Extents that a reply tells at most (assumption).
const EXTENTS_MAX: usize = 1 << 16;

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
    is_stopping: bool,
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
            is_stopping: false,
            ending: Vec::new(),
        }
    }

    /// Serves until it is asked to stop; closes the image in good order.
    pub fn run(mut self, wishes: &Wishes) -> (ServeReport, Result<(), LiveError>) {
        while !(self.is_stopping && self.commands.is_empty()) {
            if self.wait(wishes) {
                self.hear(wishes);
            }
            self.read_commands();
            self.work();
            self.clients.send();
        }
        self.report.has_failed = self.device.failure().is_some();
        if let Some(clock) = &self.clock {
            self.report.mean_latency = clock.wall(Nanos(self.latencies.0 / self.report.completed.max(1)));
        }
        let now = self.now();
        let closed = self.device.close(now);
        self.ending.into_iter().for_each(|client| client.tell(&closed));
        (self.report, closed)
    }

    /// Waits until a client, a wish or the clock has something to do, and reads what clients have sent. True if there may be a
    /// wish.
    fn wait(&mut self, wishes: &Wishes) -> bool {
        let until = self.clock.as_ref().and_then(|_| self.next_moment());
        let mut files = Vec::with_capacity(self.clients.count() + 2);
        files.push(PollFd::new(wishes, PollFlags::IN));
        self.clients.wait_for(&mut files, self.commands.is_full());
        let waited = match &self.clock {
            Some(clock) => clock.wait(&mut files, until),
            None => rustix::event::poll(&mut files, self.clients.has_more().then(Timespec::default).as_ref()),
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
                Wish::Stop => self.is_stopping = true,
                Wish::End(client) => {
                    self.is_stopping = true;
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

    fn read_commands(&mut self) {
        let (came, arrival) = (self.clients.commands(), self.now());
        for (client, command) in came {
            self.take(client, command, arrival);
        }
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
