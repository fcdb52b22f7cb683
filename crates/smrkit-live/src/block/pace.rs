//! The relation of the drive's clock to the host's: none, or a constant factor.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, poll};
use rustix::time::Timespec;
use smrkit::error::Error;
use smrkit::quantity::parse_number;
use smrkit::units::Nanos;

/// The last part of a wait is spent spinning, because a sleep would end late by about this much. Only at real-time priority (assumption).
const SPIN: Duration = Duration::from_micros(60);

/// How fast the drive's time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// Commands complete at once; no time passes between them.
    #[default]
    None,
    /// This many times as fast as the host's clock.
    Times(f64),
}

impl FromStr for Pace {
    type Err = Error;
    fn from_str(text: &str) -> Result<Pace, Error> {
        let factor = match text {
            "none" => return Ok(Pace::None),
            "real" => 1.0,
            _ => parse_number(text)?,
        };
        match (0.001..=1000.0).contains(&factor) {
            true => Ok(Pace::Times(factor)),
            false => Err(Error::Usage(format!("'{text}': expected none, real, or a factor from 0.001 to 1000"))),
        }
    }
}

/// The clock of a drive that is served at a pace.
pub struct PacedClock {
    factor: f64,
    /// The host's time when the clock was started.
    begun: Instant,
    /// The drive's time then.
    from: Nanos,
    /// True if this process has real-time priority, and so may spin at the end of a wait.
    pub(super) is_real_time: bool,
}

impl PacedClock {
    /// Starts the clock of a drive whose time is `from`; `None` without a pace.
    pub fn new(pace: Pace, from: Nanos) -> Option<PacedClock> {
        let Pace::Times(factor) = pace else { return None };
        // The kernel may delay timers by the slack, to wake several threads at once.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Some(PacedClock { factor, begun: Instant::now(), from, is_real_time: take_real_time_priority() })
    }

    /// The drive's time now.
    pub fn now(&self) -> Nanos {
        self.from + Nanos((self.begun.elapsed().as_nanos() as f64 * self.factor) as u64)
    }

    /// Sets the drive's clock forward.
    pub(super) fn skip(&mut self, span: Nanos) {
        self.from += span;
    }

    /// The drive's time after `span` of the host's time.
    pub(super) fn after(&self, span: Duration) -> Nanos {
        self.now() + Nanos((span.as_nanos() as f64 * self.factor) as u64)
    }

    /// Converts a span of the drive's time to the host's.
    pub(super) fn wall(&self, span: Nanos) -> Duration {
        Duration::from_nanos((span.0 as f64 / self.factor) as u64)
    }

    /// How late it is in the host's time for an event that was due at `due` of the drive's.
    pub(super) fn late(&self, due: Nanos) -> Duration {
        self.wall(self.now().since(due))
    }

    /// Polls `files`, at most until the drive's time is `until`.
    pub(super) fn wait(&self, files: &mut [PollFd<'_>], until: Option<Nanos>) -> rustix::io::Result<usize> {
        let Some(until) = until else { return poll(files, None) };
        let left = self.wall(until.since(self.now()));
        let asleep = if self.is_real_time { left.saturating_sub(SPIN) } else { left };
        let seen = poll(files, Some(&timespec(asleep)))?;
        if seen > 0 || !self.is_real_time {
            return Ok(seen);
        }
        while self.now() < until {
            std::hint::spin_loop();
        }
        poll(files, Some(&timespec(Duration::ZERO)))
    }
}

pub(super) fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}

/// Requests real-time priority for this thread and those that it starts, because at ordinary priority completions are late on a busy
/// machine. Returns whether it was granted. A single core would be blocked by the spinning.
#[allow(unsafe_code)]
fn take_real_time_priority() -> bool {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        return false;
    }
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the call only reads its parameter.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock's own span lies between two of the wall clock, one within it and one around it.
    #[test]
    fn the_clock_goes_as_many_times_faster_as_asked() {
        for factor in [0.25, 1.0, 40.0] {
            let around = Instant::now();
            let clock = PacedClock { factor, begun: Instant::now(), from: Nanos(5_000_000_000), is_real_time: false };
            let within = Instant::now();
            thread::sleep(Duration::from_millis(2));
            let least = within.elapsed();
            let now = clock.now().0 - 5_000_000_000;
            let most = around.elapsed();
            let [least, most] = [least, most].map(|span| (span.as_nanos() as f64 * factor) as u64);
            assert!(least <= now && now <= most, "{factor}: {least} <= {now} <= {most}");
            assert_eq!(clock.wall(Nanos(1000)), Duration::from_nanos((1000.0 / factor) as u64));
            assert_eq!(clock.late(Nanos::MAX), Duration::ZERO);
            assert!(clock.late(Nanos(4_000_000_000)) >= clock.wall(Nanos(1_000_000_000)));
            let until = clock.now() + Nanos(100_000);
            while clock.now() < until {
                // A signal may end the wait early.
                let _ = clock.wait(&mut [], Some(until));
            }
            assert!(clock.late(Nanos(5_000_000_000)) >= clock.wall(Nanos(100_000)));
        }
    }

    #[test]
    fn a_pace_is_none_real_or_a_factor() {
        let table = [
            ("none", Some(Pace::None)),
            ("real", Some(Pace::Times(1.0))),
            ("0.001", Some(Pace::Times(0.001))),
            ("2.5", Some(Pace::Times(2.5))),
            ("1000", Some(Pace::Times(1000.0))),
            ("0", None),
            ("0.0009", None),
            ("1001", None),
            ("-1", None),
            ("fast", None),
            ("", None),
        ];
        for (text, pace) in table {
            assert_eq!(text.parse::<Pace>().ok(), pace, "{text}");
        }
        let said = "1001".parse::<Pace>().unwrap_err().to_string();
        assert!(said.contains("'1001': expected none, real, or a factor from 0.001 to 1000"), "{said}");
        assert!(PacedClock::new(Pace::None, Nanos(5)).is_none());
        let span = Duration::new(3, 7);
        assert_eq!((timespec(span).tv_sec, timespec(span).tv_nsec), (3, 7));
    }
}
