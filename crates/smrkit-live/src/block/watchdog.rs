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
struct WatchedRequest {
    /// Requests begun.
    begun: u64,
    current: Option<Request>,
}

/// Watches until it is dropped.
pub(super) struct Watchdog {
    watched: Arc<Mutex<WatchedRequest>>,
    _stop: Sender<()>,
}

impl Watchdog {
    /// Gives `tell` a line when a request takes `long`, whenever that has doubled, and when it is over.
    pub(super) fn start(long: Duration, tell: impl FnMut(String) + Send + 'static) -> Watchdog {
        let watched = Arc::<Mutex<WatchedRequest>>::default();
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

    /// Ends the watch.
    pub(super) fn end(&self) {
        self.watched.lock().current = None;
    }
}

fn look(watched: &Mutex<WatchedRequest>, long: Duration, mut tell: impl FnMut(String), is_over: impl Fn() -> bool) {
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

    /// Lines that are told when `states` are seen one after the other: the number of requests begun, and whether one is at work.
    fn told(long: Duration, states: &[(u64, bool)]) -> Vec<String> {
        let watched = Mutex::<WatchedRequest>::default();
        let (lines, at) = (std::cell::RefCell::new(Vec::new()), std::cell::Cell::new(0));
        let next = || {
            let Some(&(begun, is_at_work)) = states.get(at.get()) else { return true };
            at.set(at.get() + 1);
            let current = is_at_work.then(|| Request::new(Op::Read, Lba(begun), 8));
            *watched.lock() = WatchedRequest { begun, current };
            false
        };
        look(&watched, long, |line| lines.borrow_mut().push(format!("{}: {line}", at.get())), next);
        lines.into_inner()
    }

    #[test]
    fn the_request_that_takes_long_is_told_and_when_it_is_over() {
        let states =
            [(0, false), (1, true), (1, true), (1, true), (1, false), (2, true), (2, true), (3, true), (3, false)];
        let works = |at: u64, number: u64| {
            format!("{at}: the read of 8 sectors at {number} has been at work for 0 s: others wait")
        };
        let is_over =
            |at: u64, number: u64| format!("{at}: the read of 8 sectors at {number} is served, after some 0 s");
        let expected = [works(3, 1), works(4, 1), is_over(5, 1), works(7, 2), is_over(8, 2)];
        assert_eq!(told(Duration::ZERO, &states), expected);
        assert_eq!(told(Duration::from_secs(3600), &states), [""; 0]);
    }
}
