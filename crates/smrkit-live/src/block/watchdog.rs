//! A watchdog of a served drive: says in the log that one request takes long on the wall clock, and when it is over.
//!
//! The drive's one thread can't say so itself. Who waits on the drive sees its time, but not that it is the computer that is slow.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smrkit::request::Request;

/// Time after which a request takes long: hosts take a drive for dead after 30 s (assumption).
pub(super) const LONG: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Watched {
    /// Requests begun.
    begun: u64,
    current: Option<Request>,
}

/// Watches until it is dropped.
pub(super) struct Watchdog {
    watched: Arc<Mutex<Watched>>,
    _stop: Sender<()>,
}

impl Watchdog {
    /// Gives `tell` a line when a request takes `long`, whenever that has doubled, and when it is over.
    pub(super) fn start(long: Duration, tell: impl FnMut(String) + Send + 'static) -> Watchdog {
        let watched = Arc::<Mutex<Watched>>::default();
        let (stop, stopped) = mpsc::channel();
        let seen = watched.clone();
        let watch =
            move || look(&seen, long, tell, || stopped.recv_timeout(long / 4) != Err(RecvTimeoutError::Timeout));
        // A system without threads to spare goes without.
        let _ = thread::Builder::new().name("watchdog".to_string()).spawn(watch);
        Watchdog { watched, _stop: stop }
    }

    /// A request begins.
    pub(super) fn begin(&self, request: &Request) {
        let mut watched = self.watched.lock();
        watched.begun += 1;
        watched.current = Some(*request);
    }

    /// It ends.
    pub(super) fn end(&self) {
        self.watched.lock().current = None;
    }
}

fn look(watched: &Mutex<Watched>, long: Duration, mut tell: impl FnMut(String), is_over: impl Fn() -> bool) {
    let name = |Request { op, lba, sectors, .. }: Request| format!("{} of {sectors} sectors at {}", op.name(), lba.0);
    let (mut number, mut since, mut limit) = (0, Instant::now(), long);
    let mut told: Option<Request> = None;
    while !is_over() {
        let (begun, current) = {
            let watched = watched.lock();
            (watched.begun, watched.current)
        };
        let lasted = since.elapsed();
        let is_same = begun == number && current.is_some();
        if let Some(request) = told.take_if(|_| !is_same) {
            tell(format!("the {} is served, after some {} s", name(request), lasted.as_secs()));
        }
        match current {
            Some(request) if is_same && lasted >= limit => {
                tell(format!("the {} has been at work for {} s: others wait", name(request), lasted.as_secs()));
                (limit, told) = (limit * 2, Some(request));
            }
            _ if !is_same => (number, since, limit) = (begun, Instant::now(), long),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use smrkit::request::Op;
    use smrkit::units::Lba;

    use super::*;

    #[test]
    fn a_long_request_is_told_and_short_ones_are_not() {
        let (sender, lines) = mpsc::channel();
        let watchdog = Watchdog::start(Duration::from_secs(2), move |line| sender.send(line).unwrap());
        let write = Request::new(Op::Write, Lba(77), 8);
        // Many short ones together take longer than a long one.
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(3) {
            watchdog.begin(&write);
            thread::sleep(Duration::from_millis(1));
            watchdog.end();
        }
        assert!(lines.try_recv().is_err());
        watchdog.begin(&write);
        let line = lines.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(line.starts_with("the write of 8 sectors at 77 has been at work for"), "{line}");
        watchdog.end();
        // It may have been told once more by then.
        let last = std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(20)).ok())
            .find(|line| line.contains("is served"));
        let last = last.unwrap();
        assert!(last.starts_with("the write of 8 sectors at 77 is served"), "{last}");
        drop(watchdog);
        assert_eq!(
            lines.recv_timeout(Duration::from_secs(20)),
            Err(RecvTimeoutError::Disconnected),
            "the thread has ended"
        );
    }
}
