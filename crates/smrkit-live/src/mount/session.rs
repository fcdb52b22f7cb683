//! A running mount: the kernel's session, background work (commits, cleaning, scrubs), replies to clients, and its end, at which everything is
//! durable, or the files that are not are named.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smrfs::device::HostManaged;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::{FileSystem, Scrubbed};
use smrfs::units::{NodeId, Owner, Span};
use smrkit::quantity::Bytes;

use super::control::{self, ControlCommand, ControlReply, ControlServer, EndClient, path_value};
use super::point::{self, Unmount};
use super::{MountError, MountOptions};
use crate::fuse::{self, Adapter, Gate};
use crate::log::log;
use crate::survey::survey_of_mount;
use crate::volume;

/// Time for which programs can still use the mount after a signal (assumption).
const GRACE: Duration = Duration::from_secs(5);

/// The most cells of a survey that a client gets (assumption).
const CELLS_MAX: usize = 1 << 20;

enum MountEnd {
    /// The kernel's session has ended, because of an unmount.
    Ended(io::Result<()>),
    /// The process was asked to end.
    Signal,
    /// A client asks for it, and waits for the outcome; true to unmount even if some data can't be saved.
    Unmount(EndClient, bool),
}

/// Ends a mount from another thread.
#[derive(Clone)]
pub struct Handle(Sender<MountEnd>);

impl Handle {
    /// Unmounts after a signal. The second call does not wait for programs that still use the mount.
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
    /// Mounts `core`, which uses `device`. When this returns, the file system is visible at the mount point.
    pub fn start(
        core: FileSystem,
        device: &Arc<dyn HostManaged>,
        options: MountOptions,
    ) -> Result<Session, MountError> {
        point::check(&options.mount_point)?;
        let damaged = volume::damaged_maps(&core);
        damaged.iter().for_each(|file| log(&format!("a damaged map, which can't be read: {file}")));
        let root = core.root();
        let gate = Arc::new(Gate::new(core));
        let background = Background::start(gate.clone(), options.commit_interval).map_err(MountError::Refused)?;
        let adapter = Adapter::new(gate.clone(), root);
        let notifier = adapter.notifier();
        let kernel = point::session(adapter, &options)?;
        // It can't be set already, because the adapter is new.
        let _ = notifier.set(kernel.notifier());
        let (sender, events) = mpsc::channel();
        let ended = sender.clone();
        let spawned = thread::Builder::new().name("kernel".to_string()).spawn(move || {
            // An error is ignored: once the process ends, there is no receiver any more.
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

    /// Serves the mount until its end. Then makes everything durable, calls `close` to mark the volume as clean, and tells waiting clients.
    pub fn wait(self, close: impl FnOnce() -> Result<(), MountError>) -> Result<(), MountError> {
        let waiting = self.serve();
        self.background.stop();
        let shut = self.gate.shut(|core, result| {
            let saved = result.map_err(|error| Unsaved::new(core, error, true, &self.options));
            saved.inspect_err(|unsaved| unsaved.lines().for_each(|line| log(&format!("not saved: {line}"))))
        });
        let ended = shut.map_err(MountError::Unsaved).and_then(|()| close());
        drop(self.server);
        drop(self.gate);
        let late = self.events.try_iter().filter_map(|event| match event {
            MountEnd::Unmount(client, _) => Some(client),
            MountEnd::Ended(_) | MountEnd::Signal => None,
        });
        waiting.into_iter().chain(late).for_each(|client| client.tell(&ended));
        ended
    }

    /// Handles events until the mount has ended, or is detached as programs still use it after a signal. Returns clients that await the outcome.
    fn serve(&self) -> Vec<EndClient> {
        let mut waiting = Vec::new();
        let mut deadline: Option<Instant> = None;
        loop {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.events.recv_timeout(left) {
                Ok(MountEnd::Ended(result)) => {
                    if let Err(error) = result {
                        log(&format!("the session ended: {error}"));
                        // It ended by itself, so the dead mount has to be removed here.
                        let _ = point::unmount(&self.options.mount_point, Unmount::Detach);
                    }
                    return waiting;
                }
                Ok(MountEnd::Signal) if deadline.is_some() => return waiting,
                Ok(MountEnd::Signal) => {
                    self.end_at_a_signal();
                    deadline = Some(Instant::now() + GRACE);
                }
                // It is unmounted already, for another client.
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

    /// Unmounts. Unless `gives_up` is set, fails if some data can't be saved.
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

/// The reply to a client on an error. If the gate is shut, the mount has ended.
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
    /// Weak, so that the image is free at the end even if a client is still connected.
    device: Weak<dyn HostManaged>,
    started: Instant,
    /// Files whose maps can't be used, and why.
    damaged: Vec<String>,
    events: Sender<MountEnd>,
}

impl Clients {
    fn answer(&self, command: ControlCommand) -> ControlReply {
        let value = match command {
            ControlCommand::Report => self.report(),
            ControlCommand::Survey { cells } => self.survey(cells.min(CELLS_MAX)),
            ControlCommand::Sync => self.gate.quietly("sync", FileSystem::sync_all).map(|()| control::done()),
            ControlCommand::Scrub => scrub(&self.gate).map(|report| json!({"ok": true, "scrub": report})),
            ControlCommand::Defragment { inode } => self.defragment(inode),
            ControlCommand::Inject { .. } => {
                Ok(control::failure("a mount takes no faults: name the image of a served drive"))
            }
            ControlCommand::Unmount { give_up } => {
                return ControlReply::of_end(|client| drop(self.events.send(MountEnd::Unmount(client, give_up))));
            }
            ControlCommand::Keep => return self.keep(),
            ControlCommand::Kept => self.gate.quietly("backup", |core| Ok(core.keeps())).map(|keeps| match keeps {
                true => control::done(),
                false => control::failure(
                    "programs needed the room of what was being copied: free some room on the mount, or try when they write less",
                ),
            }),
        };
        value.unwrap_or_else(|error| refused(&error)).into()
    }

    fn report(&self) -> FsResult<Value> {
        let figures = |core: &FileSystem| Ok((core.usage()?, core.statistics(), core.flush_failed()));
        let (usage, statistics, flush_failed) = self.gate.quietly("report", figures)?;
        Ok(json!({
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
        }))
    }

    fn survey(&self, cells: usize) -> FsResult<Value> {
        let survey = self.gate.quietly("survey", |core| {
            let device = self.device.upgrade().ok_or(FsError::Errno(Errno::ENODEV))?;
            survey_of_mount(core, &*device, cells)
        })?;
        Ok(json!({
            "ok": true,
            "image": path_value(&self.options.image),
            "meta": path_value(&self.options.meta),
            "survey": survey,
        }))
    }

    /// Moves a file's data step by step, so that a mount that is to end need not wait for the last step.
    fn defragment(&self, inode: u64) -> FsResult<Value> {
        let step = |core: &FileSystem| core.defragment(fuse::node(core, inode));
        while self.gate.quietly("defragment", step)? {}
        Ok(control::done())
    }

    /// Keeps everything as it is, for a backup. A thread keeps names and maps until the client's next line.
    fn keep(&self) -> ControlReply {
        let (outcome, result) = mpsc::channel();
        let (until_next, next_line) = mpsc::channel::<()>();
        let gate = self.gate.clone();
        let copied = move |kept: FsResult| {
            let is_kept = kept.is_ok();
            let _ = outcome.send(kept);
            if is_kept {
                // Returns an error when `until_next` is dropped, at the client's next line or when it hangs up.
                let _ = next_line.recv();
            }
        };
        let spawned = thread::Builder::new().name("keep".to_string()).spawn(move || gate.keep(copied));
        match spawned.map(|_| result.recv()) {
            Ok(Ok(Ok(()))) => {
                let (image, meta) = (path_value(&self.options.image), path_value(&self.options.meta));
                let value = json!({"ok": true, "image": image, "meta": meta});
                let kept = Box::new(Kept(self.gate.clone()));
                ControlReply { until_next: Some(until_next), until_end: Some(kept), ..value.into() }
            }
            Ok(Ok(Err(FsError::Errno(Errno::EBUSY)))) => {
                control::failure("another backup of this mount is being made: wait for it").into()
            }
            Ok(Ok(Err(error))) => refused(&error).into(),
            _ => control::failure("no thread to keep what is to be copied").into(),
        }
    }
}

/// Data that a mount keeps for a client, until this is dropped.
struct Kept(Arc<Gate>);

impl Drop for Kept {
    fn drop(&mut self) {
        // A mount that has ended keeps nothing.
        let _ = self.0.quietly("backup", |core| Ok(core.let_go()));
    }
}

/// Time between two checks for background work.
const TICK: Duration = Duration::from_millis(200);

/// The host counts as idle after this many ticks in a row without a request. On a busy machine a program may pause for shorter times in the middle of
/// its work (assumption).
const IDLE_TICKS: u32 = 5;

/// The thread for background work.
pub(super) struct Background {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    pub(super) fn start(gate: Arc<Gate>, commit_interval: Duration) -> std::io::Result<Background> {
        let (stop, stopped) = mpsc::channel();
        let tick = TICK.min(commit_interval);
        let mut work = BackgroundWork {
            gate,
            commit_interval,
            tick,
            committed: Instant::now(),
            requests: 0,
            quiet_ticks: 0,
            dirty: false,
            error: None,
            is_given_up: false,
        };
        let thread = thread::Builder::new().name("background".to_string()).spawn(move || {
            while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                work.tick();
            }
        })?;
        Ok(Background { stop, thread })
    }

    /// Stops the thread, and waits for its current step.
    pub(super) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            log("the thread in the background had ended with a bug");
        }
    }
}

struct BackgroundWork {
    gate: Arc<Gate>,
    commit_interval: Duration,
    /// Time until the next tick.
    tick: Duration,
    committed: Instant,
    /// Requests of the kernel at the last tick.
    requests: u64,
    /// Ticks in a row without a request.
    quiet_ticks: u32,
    /// True if something may have changed since the last commit.
    dirty: bool,
    /// The last error, so that it is logged once.
    error: Option<String>,
    /// True once it was logged that nothing can be made durable any more.
    is_given_up: bool,
}

impl BackgroundWork {
    fn tick(&mut self) {
        if !self.is_given_up && self.gate.quietly("look", |core| Ok(core.flush_failed())).unwrap_or(false) {
            self.is_given_up = true;
            log(
                "data could not be made durable: the mount is read-only from now on, and nothing is acknowledged; what was \
                 synced before is safe (smrkit umount names the rest)",
            );
        }
        let requests = self.gate.requests();
        let is_quiet = requests == self.requests;
        self.quiet_ticks = if is_quiet { self.quiet_ticks.saturating_add(1) } else { 0 };
        let idle = self.quiet_ticks >= IDLE_TICKS;
        self.dirty |= !is_quiet;
        self.requests = requests;
        let until = Instant::now() + TICK;
        while self.step("background", |core| core.background(idle)) {
            self.dirty = true;
            let host_is_back = idle && self.gate.requests() != requests;
            if host_is_back || Instant::now() >= until {
                break;
            }
        }
        // Commits now if the next tick would be too late.
        if self.dirty && self.committed.elapsed() + self.tick > self.commit_interval {
            self.dirty = false;
            self.step("commit", |core| core.sync_all().map(|()| false));
            self.committed = Instant::now();
        }
    }

    /// Does a piece of work. Returns true if there is more; false after an error, which is logged unless it is the same as the last.
    fn step(&mut self, what: &str, work: impl FnOnce(&smrfs::fs::FileSystem) -> smrfs::error::FsResult<bool>) -> bool {
        match self.gate.quietly(what, work) {
            Ok(more) => {
                self.error = None;
                more
            }
            Err(error) => {
                let error = format!("{what}: {error}");
                if self.error.as_ref() != Some(&error) {
                    log(&error);
                    self.error = Some(error);
                }
                false
            }
        }
    }
}

/// Granules that a scrub reads at a time, while the gate is held: 1 MiB (assumption).
const PIECE: u64 = 256;

/// Report of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that can't be read, or that belong to files whose maps are damaged.
    pub damaged_bytes: u64,
    /// The files with damaged bytes.
    pub files: Vec<Damaged>,
}

/// A file with data that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damaged {
    /// Its path on the mount, with replacements for bytes that are not UTF-8. `None` if no name is known.
    pub path: Option<String>,
    /// The bytes that can't be read.
    pub damaged_bytes: u64,
}

/// Reads all live data.
fn scrub(gate: &Gate) -> FsResult<ScrubReport> {
    let live = gate.quietly("scrub", |core| Ok([core.live(), core.further_owners()].concat()))?;
    let (read_bytes, damaged) =
        scrub_pieces(live, |piece, owner| gate.quietly("scrub", |core| core.scrub(piece, owner)))?;
    let path = |core: &FileSystem, id| core.path_to(id).map(|path| String::from_utf8_lossy(&path).into_owned());
    let name =
        |(id, damaged_bytes)| Ok(Damaged { path: gate.quietly("scrub", |core| Ok(path(core, id)))?, damaged_bytes });
    let files: Vec<Damaged> = damaged.into_iter().map(name).collect::<FsResult<_>>()?;
    let damaged_bytes = files.iter().map(|file| file.damaged_bytes).sum();
    Ok(ScrubReport { read_bytes, damaged_bytes, files })
}

/// Reads live data in pieces; shared data once for each file. Returns the bytes that were read, and the damaged bytes of each file.
pub(crate) fn scrub_pieces<E>(
    live: Vec<(Span, Owner)>,
    mut scrub: impl FnMut(Span, Owner) -> Result<Scrubbed, E>,
) -> Result<(u64, BTreeMap<NodeId, u64>), E> {
    let (mut read_bytes, mut damaged) = (0, BTreeMap::new());
    for (span, owner) in live {
        for skip in (0..span.count).step_by(PIECE as usize) {
            let piece = Span { at: span.at + skip, count: PIECE.min(span.count - skip) };
            let found = scrub(piece, owner.further(skip))?;
            read_bytes += found.read_bytes;
            if found.damaged_bytes > 0 {
                *damaged.entry(owner.file).or_default() += found.damaged_bytes;
            }
        }
    }
    Ok((read_bytes, damaged))
}

/// The most files that a message names; of others it has the number.
const NAMED: usize = 5;

/// Files with data that is not durable, and the reason.
#[derive(Debug)]
pub struct Unsaved {
    files: Vec<smrfs::fs::Unsaved>,
    error: FsError,
    flush_failed: bool,
    /// True if the mount has ended, and the data with it.
    is_lost: bool,
    options: MountOptions,
}

impl Unsaved {
    fn new(core: &FileSystem, error: FsError, is_lost: bool, options: &MountOptions) -> Box<Unsaved> {
        let (files, flush_failed) = (core.unsaved(), core.flush_failed());
        Box::new(Unsaved { files, error, flush_failed, is_lost, options: options.clone() })
    }

    /// Makes everything durable. The error has the files for which that failed.
    pub(super) fn after_sync(gate: &Gate, options: &MountOptions) -> Result<(), Box<Unsaved>> {
        let synced =
            gate.quietly("sync", |core| Ok(core.sync_all().map_err(|error| Unsaved::new(core, error, false, options))));
        // A gate that lets nobody in is that of a mount that has ended.
        synced.unwrap_or(Ok(()))
    }

    /// A line for each file.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|smrfs::fs::Unsaved { path, data_bytes, .. }| {
            let path = path.as_ref().map_or("a file".into(), |path| String::from_utf8_lossy(path));
            let what = match data_bytes {
                None => "its name".to_string(),
                Some(0) => "what was written since its last sync".to_string(),
                Some(bytes) => format!("what was written since its last sync, {} in memory", Bytes(*bytes)),
            };
            format!("{}{path} ({what})", self.options.mount_point.display())
        })
    }
}

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (image, meta) = (self.options.image.display(), self.options.meta.display());
        let point = self.options.mount_point.display();
        let named: Vec<String> = self.lines().take(NAMED).collect();
        let more = self.files.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more files") } else { String::new() };
        let what = if named.is_empty() { "changes of names".into() } else { named.join(", ") };
        write!(f, "not saved: {what}{more}: ")?;
        let is_full = self.error.errno() == Errno::ENOSPC;
        match (self.flush_failed, is_full) {
            (true, _) => write!(
                f,
                "a disk of {image} or {meta} failed to make data durable, so nothing can be saved any more; all that was \
                 synced before is safe, and {}",
                if self.is_lost { "there at the next mount" } else { "the mount is read-only" }
            )?,
            (false, true) => write!(f, "the disk of {image} or {meta} is full")?,
            (false, false) => write!(f, "{}", self.error)?,
        }
        if self.is_lost {
            return write!(f, "; the mount has ended: check the disk (its log, dmesg), and mount again");
        }
        write!(f, "; nothing was unmounted: ")?;
        match (self.flush_failed, is_full) {
            (true, _) => write!(f, "copy these files elsewhere, they can still be read, and end it with ")?,
            (false, true) => write!(
                f,
                "free some room there, or delete files on the mount, and run smrkit umount again, or give up what is not \
                 saved: "
            )?,
            (false, false) => write!(f, "try again, or give up what is not saved: ")?,
        }
        write!(f, "smrkit umount --give-up {point}")
    }
}
