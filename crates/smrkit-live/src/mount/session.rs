//! A mount under way: the kernel's session, the thread in the background, the control socket, and how they end together.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use smrfs::device::HostManaged;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::FileSystem;

use super::background::Background;
use super::control::{self, ControlCommand, ControlReply, ControlServer, EndClient, path_value};
use super::point::{self, Unmount};
use super::{MountError, MountOptions, Unsaved, kernel, scrub};
use crate::backup;
use crate::fuse::{self, Adapter, Gate};
use crate::log::log;
use crate::survey::survey_of_mount;

/// Time that a signal leaves programs that still use the mount (assumption).
const GRACE: Duration = Duration::from_secs(5);

/// The most parts of the surface that a client gets (assumption).
const CELLS_MAX: usize = 1 << 20;

/// Reason for which a mount ends.
enum MountEnd {
    /// The kernel's session has ended: somebody has unmounted.
    Ended(io::Result<()>),
    /// The process was asked to end.
    Signal,
    /// A client asks, and waits for the outcome; true if what can't be saved is given up.
    Unmount(EndClient, bool),
}

/// Tells a mount that its process shall end.
#[derive(Clone)]
pub struct Handle(Sender<MountEnd>);

impl Handle {
    /// Unmounts, as a signal does; the second time it does not wait for programs that still use the mount.
    pub fn signal(&self) {
        // A mount that has ended needs no telling.
        let _ = self.0.send(MountEnd::Signal);
    }
}

/// A mounted file system.
pub struct Session {
    options: MountOptions,
    gate: Arc<Gate>,
    background: Background,
    server: ControlServer,
    events: Receiver<MountEnd>,
    handle: Handle,
}

impl Session {
    /// Mounts `core`, which works on `device`: when this returns, the mount point shows it.
    pub fn start(
        core: FileSystem,
        device: &Arc<dyn HostManaged>,
        options: MountOptions,
    ) -> Result<Session, MountError> {
        point::check(&options.mount_point)?;
        let damaged = backup::damaged_maps(&core);
        damaged.iter().for_each(|file| log(&format!("a damaged map, which can't be read: {file}")));
        let root = core.root();
        let gate = Arc::new(Gate::new(core));
        let background = Background::start(gate.clone(), options.commit_interval).map_err(MountError::Refused)?;
        let adapter = Adapter::new(gate.clone(), root);
        let notifier = adapter.notifier();
        let kernel = kernel::session(adapter, &options)?;
        // A new session: nothing was put there before.
        let _ = notifier.set(kernel.notifier());
        let (sender, events) = mpsc::channel();
        let ended = sender.clone();
        let spawned = thread::Builder::new().name("kernel".to_string()).spawn(move || {
            // Nobody listens any more once the process ends.
            let _ = ended.send(MountEnd::Ended(kernel.run()));
        });
        spawned.map_err(MountError::Refused)?;
        let started = Instant::now();
        let device = Arc::downgrade(device);
        let clients =
            Clients { options: options.clone(), gate: gate.clone(), device, started, damaged, events: sender.clone() };
        let server = ControlServer::start(&options.mount_point, move |command| clients.answer(command));
        let server = server.inspect_err(|_| {
            let _ = point::unmount(&options.mount_point, Unmount::Detach);
        })?;
        Ok(Session { options, gate, background, server, events, handle: Handle(sender) })
    }

    /// Handle for a signal handler.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until the end: makes everything durable, lets `close` mark the volume as clean, and tells whoever asked.
    pub fn wait(self, close: impl FnOnce() -> Result<(), MountError>) -> Result<(), MountError> {
        let waiting = self.serve();
        self.background.stop();
        let shut = self.gate.shut(|core, result| match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let unsaved = Unsaved::lost(core, error, &self.options);
                unsaved.lines().for_each(|line| log(&format!("not saved: {line}")));
                Err(unsaved)
            }
        });
        let ended = shut.map_err(MountError::Unsaved).and_then(|()| close());
        self.server.hide();
        drop(self.gate);
        let late = self.events.try_iter().filter_map(|event| match event {
            MountEnd::Unmount(client, _) => Some(client),
            MountEnd::Ended(_) | MountEnd::Signal => None,
        });
        waiting.into_iter().chain(late).for_each(|client| client.tell(&ended));
        ended
    }

    /// Until the mount is gone, or is to be left behind; gives back those who wait for the outcome.
    fn serve(&self) -> Vec<EndClient> {
        let mut waiting = Vec::new();
        let mut until: Option<Instant> = None;
        loop {
            let patience = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(patience) {
                Ok(MountEnd::Ended(result)) => {
                    if let Err(error) = result {
                        log(&format!("the session ended: {error}"));
                        // It ended by itself: nobody else takes the dead mount away.
                        let _ = point::unmount(&self.options.mount_point, Unmount::Detach);
                    }
                    return waiting;
                }
                Ok(MountEnd::Signal) if until.is_some() => return waiting,
                Ok(MountEnd::Signal) => {
                    self.end_at_a_signal();
                    until = Some(Instant::now() + GRACE);
                }
                // Another client has already had it unmounted.
                Ok(MountEnd::Unmount(client, _)) if !waiting.is_empty() => waiting.push(client),
                Ok(MountEnd::Unmount(client, gives_up)) => match self.unmount(gives_up) {
                    Ok(()) => waiting.push(client),
                    Err(error) => client.refuse(&error),
                },
                Err(RecvTimeoutError::Timeout) => {
                    log("programs still use the mount; they will see errors");
                    return waiting;
                }
                Err(RecvTimeoutError::Disconnected) => return waiting,
            }
        }
    }

    /// Unmounts; unless `gives_up`, not if something would be lost by that.
    fn unmount(&self, gives_up: bool) -> Result<(), MountError> {
        let saved = Unsaved::after_sync(&self.gate, &self.options);
        if !gives_up {
            saved.map_err(MountError::Unsaved)?;
        }
        point::unmount_patiently(&self.options.mount_point)
    }

    fn end_at_a_signal(&self) {
        log("a signal: unmounting");
        let path = &self.options.mount_point;
        if let Err(error) = point::write_back(path) {
            log(&format!("sync: {error}"));
        }
        if let Err(error) = self.gate.quietly("sync", FileSystem::sync_all) {
            log(&format!("sync: {error}"));
        }
        let unmounted = point::unmount_patiently(path).or_else(|error| match error {
            MountError::Busy(_) => point::unmount(path, Unmount::Detach),
            error => Err(error),
        });
        if let Err(error) = unmounted {
            log(&error.to_string());
        }
    }
}

/// Reply to a client on an error. Behind a gate that is shut there is no mount any more.
fn refused(error: &FsError) -> Value {
    match error {
        FsError::Errno(Errno::ENODEV) => control::ending(),
        error => control::failure(error),
    }
}

/// Answers clients of the control socket.
#[derive(Clone)]
struct Clients {
    options: MountOptions,
    gate: Arc<Gate>,
    /// Weak: at the end the image is to be free before the last client is.
    device: Weak<dyn HostManaged>,
    started: Instant,
    /// Files whose maps can't be used, and why.
    damaged: Vec<String>,
    events: Sender<MountEnd>,
}

impl Clients {
    fn answer(&self, command: ControlCommand) -> ControlReply {
        let value = match command {
            ControlCommand::Report => {
                let asked = |core: &FileSystem| Ok((core.usage()?, core.statistics(), core.flush_failed()));
                match self.gate.quietly("report", asked) {
                    Ok((usage, statistics, flush_failed)) => json!({
                        "ok": true,
                        "image": path_value(&self.options.image),
                        "meta": path_value(&self.options.meta),
                        "mount_point": path_value(&self.options.mount_point),
                        "read_only": self.options.read_only || flush_failed,
                        "flush_failed": flush_failed,
                        "process": std::process::id(),
                        "version": env!("CARGO_PKG_VERSION"),
                        "mounted_s": self.started.elapsed().as_secs_f64(),
                        "requests": self.gate.requests(),
                        "damaged_maps": self.damaged,
                        "usage": usage,
                        "statistics": statistics,
                    }),
                    Err(error) => refused(&error),
                }
            }
            ControlCommand::Survey { cells } => self.survey(cells.min(CELLS_MAX)),
            ControlCommand::Sync => self.outcome("sync", FileSystem::sync_all),
            ControlCommand::Scrub => match scrub::scrub(&self.gate) {
                Ok(report) => json!({"ok": true, "scrub": report}),
                Err(error) => refused(&error),
            },
            ControlCommand::Defragment { inode } => self.defragment(inode),
            ControlCommand::Inject { .. } => {
                control::failure("a mount takes no faults: name the image of a served drive")
            }
            ControlCommand::Unmount { give_up } => {
                return ControlReply::of_end(|client| drop(self.events.send(MountEnd::Unmount(client, give_up))));
            }
            ControlCommand::Hold => return self.hold(),
        };
        value.into()
    }

    fn survey(&self, cells: usize) -> Value {
        let surveyed = self.gate.quietly("survey", |core| {
            let device = self.device.upgrade().ok_or(FsError::Errno(Errno::ENODEV))?;
            survey_of_mount(core, &*device, cells)
        });
        match surveyed {
            Ok(survey) => json!({
                "ok": true,
                "image": path_value(&self.options.image),
                "meta": path_value(&self.options.meta),
                "survey": survey,
            }),
            Err(error) => refused(&error),
        }
    }

    fn outcome(&self, what: &str, work: impl FnOnce(&FileSystem) -> FsResult) -> Value {
        self.gate.quietly(what, work).map_or_else(|error| refused(&error), |()| control::done())
    }

    /// Step by step: a mount that is to end need not wait for the last.
    fn defragment(&self, inode: u64) -> Value {
        loop {
            let step = |core: &FileSystem| core.defragment(fuse::node(core, inode));
            match self.gate.quietly("defragment", step) {
                Ok(true) => {}
                Ok(false) => return control::done(),
                Err(error) => return refused(&error),
            }
        }
    }

    /// A thread holds the gate until the client goes on.
    fn hold(&self) -> ControlReply {
        let (outcome, result) = mpsc::channel();
        let (until_next, went_on) = mpsc::channel::<()>();
        let gate = self.gate.clone();
        let held = move |durable: &FsResult| {
            // Whoever waits for it is there: the sender below is kept until the client goes on.
            let _ = outcome.send(durable.as_ref().map_or_else(refused, |()| control::done()));
            if durable.is_ok() {
                let _ = went_on.recv();
            }
        };
        let spawned = thread::Builder::new().name("hold".to_string()).spawn(move || gate.hold(held));
        match spawned.map(|_| result.recv()) {
            Ok(Ok(mut value)) => {
                value["image"] = path_value(&self.options.image);
                value["meta"] = path_value(&self.options.meta);
                ControlReply { until_next: Some(until_next), ..value.into() }
            }
            _ => control::failure("no thread to hold the mount").into(),
        }
    }
}
