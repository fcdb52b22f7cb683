//! When a member fails, the work begins, and all is done.

use super::Begin;
use crate::units::Nanos;

/// The moments of a rebuild or a scrub, as far as they are known; each comes once, in the order of the fields.
pub(super) struct Schedule {
    begin: Begin,
    /// The host's requests so far.
    requests: u64,
    /// When the member is to fail and when the work is to begin.
    fails: Nanos,
    begins: Nanos,
    counting: Option<Nanos>,
    /// When the member failed, or the scrub began.
    failed: Option<Nanos>,
    begun: Option<Nanos>,
    ended: Option<Nanos>,
}

impl Schedule {
    pub fn new(begin: Begin) -> Schedule {
        let (fails, begins) = (Nanos::MAX, Nanos::MAX);
        Schedule { begin, requests: 0, fails, begins, counting: None, failed: None, begun: None, ended: None }
    }

    /// Counting begins; `before` says that the member fails at once.
    pub fn count(&mut self, now: Nanos, before: bool) {
        self.counting = Some(now);
        if before {
            self.fails = now;
        }
        match self.begin {
            Begin::After(0) => self.begin_at(now),
            Begin::After(_) => {}
            Begin::At(time) => self.begins = Nanos(now.0.saturating_add(time.0)),
        }
    }

    /// A request of the host was completed.
    #[inline]
    pub fn completed(&mut self, now: Nanos) {
        self.requests += 1;
        if self.begins == Nanos::MAX && self.begin == Begin::After(self.requests) {
            self.begin_at(now);
        }
    }

    /// No more requests come.
    pub fn host_done(&mut self, now: Nanos) {
        if self.begun.is_none() && self.begins > now {
            self.begin_at(now);
        }
    }

    fn begin_at(&mut self, now: Nanos) {
        self.begins = now;
        self.fails = self.fails.min(now);
    }

    /// The moment that comes next, until the work has begun.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        match (self.failed, self.begun) {
            (None, _) => Some(self.fails.min(self.begins)),
            (_, None) => Some(self.begins),
            _ => None,
        }
    }

    /// The member fails; false if it had failed before.
    pub fn fail(&mut self, now: Nanos) -> bool {
        self.failed.replace(self.failed.unwrap_or(now)).is_none()
    }

    /// The work begins, if it is time: since when requests are counted.
    pub fn begin(&mut self, now: Nanos) -> Option<Nanos> {
        if self.begun.is_some() || now < self.begins {
            return None;
        }
        self.begun = Some(now);
        Some(self.counting.unwrap_or(now))
    }

    /// Nothing is left to do.
    pub fn end(&mut self, now: Nanos) {
        self.ended = Some(now);
    }

    pub fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// True from the failure on, until all is done.
    #[inline]
    pub fn is_degraded(&self) -> bool {
        self.failed.is_some() && self.ended.is_none()
    }

    /// Time since the failure.
    #[inline]
    pub fn since_failure(&self, now: Nanos) -> Nanos {
        now - self.failed.unwrap_or(now)
    }

    /// When counting began, the member failed, the work began, and all was done; `None` before that.
    pub fn moments(&self) -> Option<[Nanos; 4]> {
        Some([self.counting?, self.failed?, self.begun?, self.ended?])
    }
}
