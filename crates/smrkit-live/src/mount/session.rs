//! A running mount: the kernel's session, background work (commits, cleaning, scrubs), replies to clients, and its end, at which everything is
//! durable, or the files that are not are named.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use smrfs::device::HostManaged;
use smrfs::error::{Errno, FsError, FsResult};
use smrfs::fs::{FileSystem, Scrubbed, Unsaved};
use smrfs::units::{NodeId, Owner, Span};
use smrkit::quantity::Bytes;

use super::control::{self, ControlCommand, ControlReply, ControlServer, EndClient, path_value};
use super::point::{self, Unmount};
use super::{MountError, MountOptions};
use crate::fuse::{Adapter, Gate};
use crate::log::log;
use crate::survey::survey_of_mount;
use crate::volume;

/// Time for which programs can still use the mount after a signal (assumption).
const GRACE: Duration = Duration::from_secs(5);

/// The most files that a message names; of others it has the number.
const NAMED_FILES_MAX: usize = 5;

enum MountEvent {
    /// The kernel's session has ended, because of an unmount.
    Ended(io::Result<()>),
    /// The process was asked to end.
    Signal,
    /// A client asks for the end, and waits for the outcome; true to unmount even if some data can't be saved.
    Unmount(EndClient, bool),
}

/// Ends a mount from another thread.
#[derive(Clone)]
pub struct Handle(Sender<MountEvent>);

impl Handle {
    /// Unmounts after a signal. The second call does not wait for programs that still use the mount.
    pub fn signal(&self) {
        // The mount may have ended already.
        let _ = self.0.send(MountEvent::Signal);
    }
}

/// A mounted file system.
pub struct Session {
    mount: Mount,
    /// The thread for background work, and the sender whose end stops it.
    background: (JoinHandle<()>, Sender<()>),
    server: ControlServer,
    events: Receiver<MountEvent>,
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
        let (stop, stopped) = mpsc::channel();
        let (commit_interval, worker_gate) = (options.commit_interval, gate.clone());
        let worker = thread::Builder::new()
            .name("background".into())
            .spawn(move || work_in_background(&worker_gate, commit_interval, &stopped))
            .map_err(MountError::Refused)?;
        let adapter = Adapter::new(gate.clone(), root);
        let notifier = adapter.notifier();
        let kernel = point::session(adapter, &options)?;
        // It can't be set already, because the adapter is new.
        let _ = notifier.set(kernel.notifier());
        let (sender, events) = mpsc::channel();
        let ended = sender.clone();
        let spawned = thread::Builder::new().name("kernel".into()).spawn(move || {
            // An error is ignored: once the process ends, there is no receiver any more.
            let _ = ended.send(MountEvent::Ended(kernel.run()));
        });
        spawned.map_err(MountError::Refused)?;
        let started = Instant::now();
        let mount = Mount { options, gate, device: Arc::downgrade(device), started, damaged, events: sender };
        let answering = mount.clone();
        let server = ControlServer::start(&mount.options.mount_point, move |command| answering.answer(command))
            .inspect_err(|_| {
                let _ = point::unmount(&mount.options.mount_point, Unmount::Detach);
            })?;
        Ok(Session { mount, background: (worker, stop), server, events })
    }

    /// Handle for a signal handler.
    pub fn handle(&self) -> Handle {
        Handle(self.mount.events.clone())
    }

    /// Serves the mount until its end. Then makes everything durable, calls `close` to mark the volume as clean, and replies to waiting clients.
    pub fn wait(self, close: impl FnOnce() -> Result<(), MountError>) -> Result<(), MountError> {
        let waiting = self.serve();
        let (worker, stop) = self.background;
        drop(stop);
        if worker.join().is_err() {
            log("the thread in the background had ended with a bug");
        }
        let shut = self.mount.gate.shut(|core, result| {
            result.map_err(|error| {
                let (lines, message) = unsaved_files(core, &error, true, &self.mount.options);
                lines.iter().for_each(|line| log(&format!("not saved: {line}")));
                MountError::Unsaved(message)
            })
        });
        let ended = shut.and_then(|()| close());
        // No client can connect from here on. Those that have asked for the end in the meantime get the outcome as well.
        drop(self.server);
        let late = self.events.try_iter().filter_map(|event| match event {
            MountEvent::Unmount(client, _) => Some(client),
            MountEvent::Ended(_) | MountEvent::Signal => None,
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
                Ok(MountEvent::Ended(result)) => {
                    if let Err(error) = result {
                        log(&format!("the session ended: {error}"));
                        // It ended by itself, so the dead mount has to be removed here.
                        let _ = point::unmount(&self.mount.options.mount_point, Unmount::Detach);
                    }
                    return waiting;
                }
                Ok(MountEvent::Signal) if deadline.is_some() => return waiting,
                Ok(MountEvent::Signal) => {
                    self.unmount_at_signal();
                    deadline = Some(Instant::now() + GRACE);
                }
                // It is unmounted already, for another client.
                Ok(MountEvent::Unmount(client, _)) if !waiting.is_empty() => waiting.push(client),
                Ok(MountEvent::Unmount(client, gives_up)) => match self.unmount(gives_up) {
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
        let Mount { gate, options, .. } = &self.mount;
        let synced = gate.ask("sync", |core| {
            let synced = core.sync_all();
            Ok(synced.map_err(|error| MountError::Unsaved(unsaved_files(core, &error, false, options).1)))
        });
        if !gives_up {
            // If the gate is shut, the mount has ended already.
            synced.unwrap_or(Ok(()))?;
        }
        point::unmount_patiently(&options.mount_point)
    }

    fn unmount_at_signal(&self) {
        log("a signal: unmounting");
        let path = &self.mount.options.mount_point;
        if let Err(error) = point::write_back(path) {
            log(&format!("sync: {error}"));
        }
        if let Err(error) = self.mount.gate.ask("sync", FileSystem::sync_all) {
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
fn error_reply(error: &FsError) -> Value {
    match error {
        FsError::Errno(Errno::ENODEV) => control::ending(),
        error => control::failure(error),
    }
}

/// A mount as clients of the control socket see it.
#[derive(Clone)]
struct Mount {
    options: MountOptions,
    gate: Arc<Gate>,
    /// Weak, so that the image is free at the end even if a client is still connected.
    device: Weak<dyn HostManaged>,
    started: Instant,
    /// Files whose maps can't be used, and why.
    damaged: Vec<String>,
    events: Sender<MountEvent>,
}

impl Mount {
    fn answer(&self, command: ControlCommand) -> ControlReply {
        let value = match command {
            ControlCommand::Report => self.report(),
            ControlCommand::Survey => {
                let survey = self.gate.ask("survey", |core| {
                    let device = self.device.upgrade().ok_or(FsError::Errno(Errno::ENODEV))?;
                    survey_of_mount(core, &*device)
                });
                survey.map(|survey| control::joined(self.places(), json!({"survey": survey})))
            }
            ControlCommand::Sync => self.gate.ask("sync", FileSystem::sync_all).map(|()| control::done()),
            ControlCommand::Scrub => scrub(&self.gate).map(|report| json!({"ok": true, "scrub": report})),
            ControlCommand::Inject { .. } => {
                Ok(control::failure("a mount takes no faults: name the image of a served drive"))
            }
            ControlCommand::Unmount { give_up } => {
                return ControlReply::of_end(|client| drop(self.events.send(MountEvent::Unmount(client, give_up))));
            }
            ControlCommand::Keep => return self.keep(),
            ControlCommand::Kept => self.gate.ask("backup", |core| Ok(core.keeps())).map(|keeps| match keeps {
                true => control::done(),
                false => control::failure(
                    "programs needed the room of what was being copied: free some room on the mount, or try when they write less",
                ),
            }),
        };
        value.unwrap_or_else(|error| error_reply(&error)).into()
    }

    /// A reply with the paths of the volume.
    fn places(&self) -> Value {
        json!({"ok": true, "image": path_value(&self.options.image), "meta": path_value(&self.options.meta)})
    }

    fn report(&self) -> FsResult<Value> {
        let figures = |core: &FileSystem| Ok((core.usage()?, core.statistics(), core.flush_failed()));
        let (usage, statistics, flush_failed) = self.gate.ask("report", figures)?;
        let report = json!({
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
        });
        Ok(control::joined(self.places(), report))
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
        let spawned = thread::Builder::new().name("keep".into()).spawn(move || gate.keep(copied));
        match spawned.map(|_| result.recv()) {
            Ok(Ok(Ok(()))) => {
                let kept = Box::new(KeptData(self.gate.clone()));
                ControlReply { until_next: Some(until_next), until_end: Some(kept), ..self.places().into() }
            }
            Ok(Ok(Err(FsError::Errno(Errno::EBUSY)))) => {
                control::failure("another backup of this mount is being made: wait for it").into()
            }
            Ok(Ok(Err(error))) => error_reply(&error).into(),
            _ => control::failure("no thread to keep what is to be copied").into(),
        }
    }
}

/// Data that a mount keeps for a client, until this is dropped.
struct KeptData(Arc<Gate>);

impl Drop for KeptData {
    fn drop(&mut self) {
        // A mount that has ended keeps nothing.
        let _ = self.0.ask("backup", |core| Ok(core.let_go()));
    }
}

/// Time between two checks for background work.
const TICK: Duration = Duration::from_millis(200);

/// The host counts as idle after this many ticks in a row without a request. On a busy machine a program may pause for shorter times in the middle of
/// its work (assumption).
const IDLE_TICKS: u32 = 5;

/// Cleans and commits until the sender of `stopped` is dropped.
fn work_in_background(gate: &Gate, commit_interval: Duration, stopped: &Receiver<()>) {
    let mut last_error = None;
    // Does a piece of work. True if there is more; false after an error, which is logged unless it is the same as the last.
    let mut step = |what: &str, work: &dyn Fn(&FileSystem) -> FsResult<bool>| match gate.ask(what, work) {
        Ok(more) => {
            last_error = None;
            more
        }
        Err(error) => {
            let error = Some(format!("{what}: {error}"));
            if last_error != error {
                log(error.as_deref().unwrap_or_default());
                last_error = error;
            }
            false
        }
    };
    let tick = TICK.min(commit_interval);
    let (mut committed, mut is_dirty, mut is_failure_logged) = (Instant::now(), false, false);
    let (mut requests_before, mut quiet_ticks) = (0, 0u32);
    while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        if !is_failure_logged && gate.ask("look", |core| Ok(core.flush_failed())).unwrap_or(false) {
            is_failure_logged = true;
            log(
                "data could not be made durable: the mount is read-only from now on, and nothing is acknowledged; what was \
                 synced before is safe (smrkit umount names the rest)",
            );
        }
        let requests = gate.requests();
        let is_quiet = requests == requests_before;
        requests_before = requests;
        quiet_ticks = if is_quiet { quiet_ticks.saturating_add(1) } else { 0 };
        is_dirty |= !is_quiet;
        let is_idle = quiet_ticks >= IDLE_TICKS;
        let until = Instant::now() + TICK;
        while step("background", &|core| core.background(is_idle)) {
            // It may have moved data, and the new maps are to be made durable.
            is_dirty = true;
            let host_is_back = is_idle && gate.requests() != requests;
            if host_is_back || Instant::now() >= until {
                break;
            }
        }
        // Commits now if the next tick would be too late.
        if is_dirty && committed.elapsed() + tick > commit_interval {
            is_dirty = false;
            step("commit", &|core| core.sync_all().map(|()| false));
            committed = Instant::now();
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

/// Reads all live data; shared data once for each of its owners, because its damage is reported for each file.
fn scrub(gate: &Gate) -> FsResult<ScrubReport> {
    let live = gate.ask("scrub", |core| Ok([core.live(), core.further_owners()].concat()))?;
    let (read_bytes, damaged) = scrub_pieces(live, |piece, owner| gate.ask("scrub", |core| core.scrub(piece, owner)))?;
    let path = |core: &FileSystem, id| core.path_to(id).map(|path| String::from_utf8_lossy(&path).into_owned());
    let name = |(id, damaged_bytes)| Ok(Damaged { path: gate.ask("scrub", |core| Ok(path(core, id)))?, damaged_bytes });
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

/// Names the files with data that is not durable because of `error`: a line for each, and a message with the remedy. `is_lost` is true if the
/// mount has ended, and the data with it.
fn unsaved_files(core: &FileSystem, error: &FsError, is_lost: bool, options: &MountOptions) -> (Vec<String>, String) {
    let (image, meta, point) = (options.image.display(), options.meta.display(), options.mount_point.display());
    let line = |Unsaved { path, data_bytes, .. }: Unsaved| {
        let path = path.map_or("a file".into(), |path| String::from_utf8_lossy(&path).into_owned());
        let what = match data_bytes {
            None => "its name".to_string(),
            Some(0) => "what was written since its last sync".to_string(),
            Some(bytes) => format!("what was written since its last sync, {} in memory", Bytes(bytes)),
        };
        format!("{point}{path} ({what})")
    };
    let lines: Vec<String> = core.unsaved().into_iter().map(line).collect();
    let files = match lines.len() {
        0 => "changes of names".to_string(),
        1..=NAMED_FILES_MAX => lines.join(", "),
        count => format!("{} and {} more files", lines[..NAMED_FILES_MAX].join(", "), count - NAMED_FILES_MAX),
    };
    let (flush_failed, is_full) = (core.flush_failed(), error.errno() == Errno::ENOSPC);
    let (reason, to_unmount) = match (flush_failed, is_full) {
        (true, _) => (
            format!(
                "a disk of {image} or {meta} failed to make data durable, so nothing can be saved any more; all that was \
                 synced before is safe, and {}",
                if is_lost { "there at the next mount" } else { "the mount is read-only" }
            ),
            "copy these files elsewhere, they can still be read, and end it with",
        ),
        (false, true) => (
            format!("the disk of {image} or {meta} is full"),
            "free some room there, or delete files on the mount, and run smrkit umount again, or give up what is not saved:",
        ),
        (false, false) => (error.to_string(), "try again, or give up what is not saved:"),
    };
    let remedy = match is_lost {
        true => "the mount has ended: check the disk (its log, dmesg), and mount again".to_string(),
        false => format!("nothing was unmounted: {to_unmount} smrkit umount --give-up {point}"),
    };
    let message = format!("not saved: {files}: {reason}; {remedy}");
    (lines, message)
}
