//! The clock that a disk asks: one of three models behind one set of functions.

use super::{Buffered, Constant, Mechanical, Position};
use crate::error::DiskResult;
use crate::geometry::Geometry;
use crate::state::State;
use crate::units::{Nanos, Pba};

/// Cost of accesses in time.
#[derive(Clone, Debug)]
pub enum DriveClock {
    /// A constant per command and a constant per sector.
    Constant(Constant),
    /// Seek, rotation, transfer.
    Mechanical(Mechanical),
    /// A mechanical clock behind a write cache, read-ahead, or both.
    Buffered(Box<Buffered>),
}

impl State for DriveClock {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            DriveClock::Constant(_) => {}
            DriveClock::Mechanical(clock) => clock.save(out),
            DriveClock::Buffered(clock) => clock.save(out),
        }
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        match self {
            DriveClock::Constant(_) => Ok(()),
            DriveClock::Mechanical(clock) => clock.load(from),
            DriveClock::Buffered(clock) => clock.load(from),
        }
    }
}

impl DriveClock {
    /// Serves an access that is issued at `now`, moves the head, and returns when the command completes. The extent
    /// must lie on the disk.
    #[inline]
    pub fn access(&mut self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Nanos {
        match self {
            DriveClock::Constant(clock) => now + clock.cost(sectors),
            DriveClock::Mechanical(clock) => clock.access(g, now, write, pba, sectors),
            DriveClock::Buffered(clock) => clock.access(g, now, write, pba, sectors),
        }
    }

    /// The command that is served next was sent at `moment`, while others were served; only a buffered drive makes use of it.
    #[inline]
    pub(crate) fn sent_at(&mut self, moment: Nanos) {
        if let DriveClock::Buffered(clock) = self {
            clock.sent_at(moment);
        }
    }

    /// Moves the head over a sector, after an access whose time was known from elsewhere.
    #[inline]
    pub fn leave_at(&mut self, g: &Geometry, pba: Pba) {
        match self {
            DriveClock::Constant(_) => {}
            DriveClock::Mechanical(clock) => clock.leave_at(&g.place(pba)),
            DriveClock::Buffered(clock) => clock.leave_at(&g.place(pba)),
        }
    }

    /// Time to read `sectors` on one track in whatever order they pass under the head; `None` where the clock
    /// does not know better than to read them in order, or they lie on several tracks.
    pub fn in_any_order(&self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> Option<Nanos> {
        match self {
            DriveClock::Mechanical(clock) => clock.in_any_order(g, now, pba, sectors),
            DriveClock::Constant(_) | DriveClock::Buffered(_) => None,
        }
    }

    /// From `now` until a read of the sector at a position would begin: overhead, seek and rotational latency; 0 for a constant clock.
    #[inline]
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        match self {
            DriveClock::Constant(_) => Nanos::ZERO,
            DriveClock::Mechanical(clock) => clock.estimate_at(position, now),
            DriveClock::Buffered(clock) => clock.estimate_at(position, now),
        }
    }

    /// From `now` until the drive can serve an access from its buffer: at once, or when there is room. `None` where it can't.
    pub fn wait_for_buffer(&self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Option<Nanos> {
        match self {
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => None,
            DriveClock::Buffered(clock) if write => clock.wait_for_room(now, sectors),
            DriveClock::Buffered(clock) => clock.holds(g, now, pba, sectors).then_some(Nanos::ZERO),
        }
    }

    /// The place of the head for a sector.
    #[inline]
    pub fn position(&self, g: &Geometry, pba: Pba) -> Position {
        let place = g.place(pba);
        Position { cylinder: place.cylinder, surface: place.surface, angle: place.angle }
    }

    /// Makes everything written so far durable; returns when that is done.
    pub fn flush(&mut self, g: &Geometry, now: Nanos) -> Nanos {
        match self {
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => now,
            DriveClock::Buffered(clock) => clock.flush(g, now),
        }
    }

    /// The power is cut: the buffer is empty, and what it had not written yet is lost.
    pub fn power_cut(&mut self) {
        if let DriveClock::Buffered(clock) = self {
            clock.power_cut();
        }
    }

    /// Until when the media works in the background; 0 where it never does.
    pub fn busy_until(&self) -> Nanos {
        match self {
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => Nanos::ZERO,
            DriveClock::Buffered(clock) => clock.busy_until(),
        }
    }

    /// Time that the media wrote from the drive's own cache while no command was served; `None` where it has no cache.
    pub fn unwaited(&self) -> Option<Nanos> {
        match self {
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => None,
            DriveClock::Buffered(clock) => Some(clock.unwaited()),
        }
    }

    /// Counts that time anew.
    pub fn reset_unwaited(&mut self) {
        if let DriveClock::Buffered(clock) = self {
            clock.reset_unwaited();
        }
    }

    /// The mechanics, where there are any.
    pub fn mechanical(&self) -> Option<&Mechanical> {
        match self {
            DriveClock::Constant(_) => None,
            DriveClock::Mechanical(clock) => Some(clock),
            DriveClock::Buffered(clock) => Some(clock.media()),
        }
    }

    /// The model's name: `constant` or `mechanical`.
    pub fn name(&self) -> &'static str {
        if self.mechanical().is_some() { "mechanical" } else { "constant" }
    }
}
