//! The thread that works while nobody waits: commits at intervals, cleaning when it is due or the host is idle.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::fuse::Gate;
use crate::log::log;

/// Time between the thread's looks whether something is due.
const TICK: Duration = Duration::from_millis(200);

/// The host is idle after this many ticks in a row without a request: a busy machine lets programs wait that are in the midst
/// of something (assumption).
const IDLE_TICKS: u32 = 5;

/// The thread, until it is stopped.
pub(super) struct Background {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts it.
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

    /// Stops it, and waits for the step under way.
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
        // At the next tick it would be too late.
        if self.dirty && self.committed.elapsed() + self.tick > self.commit_interval {
            self.dirty = false;
            self.step("commit", |core| core.sync_all().map(|()| false));
            self.committed = Instant::now();
        }
    }

    /// Does a piece of work; an error ends it, and is logged if it is news.
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
