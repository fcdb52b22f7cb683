//! The clock of a disk: one of three models behind one set of functions. The simplest is in this file: a constant time per command and per
//! sector, without position or rotation.

use serde::{Deserialize, Serialize};

use super::{Buffered, Mechanical};
use crate::error::{DiskResult, Error};
use crate::geometry::{Geometry, Turn};
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

    /// Notes that the next command was sent at `moment`, while others were served. Only a buffered drive makes use of it.
    #[inline]
    pub(crate) fn sent_at(&mut self, moment: Nanos) {
        if let DriveClock::Buffered(clock) = self {
            clock.sent_at(moment);
        }
    }

    /// The size in sectors of the write-back cache that the drive keeps above its layer. 0 if it has none, or one that writes in the order of
    /// arrival, which is modelled here ([`DriveClock::completes_early`]).
    pub fn write_cache_sectors(&self) -> u64 {
        self.buffered().map_or(0, Buffered::write_cache_sectors)
    }

    /// True if the drive has a cache that writes in the order of arrival, as host-managed drives have: writes complete in it early, and a power
    /// cut loses them, though `write_cache_sectors` is 0.
    pub fn completes_early(&self) -> bool {
        self.buffered().is_some_and(Buffered::completes_early)
    }

    /// When a command that needs only the bus completes: it was sent at `sent`, and its data is carried from `start` on.
    #[inline]
    pub(crate) fn transfer(&mut self, start: Nanos, sent: Nanos, write: bool, sectors: u64) -> Nanos {
        match self {
            DriveClock::Buffered(clock) => clock.transfer(start, sent, write, sectors),
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => start,
        }
    }

    /// Moves the head over a sector, after an access whose time was known from elsewhere.
    #[inline]
    pub fn leave_at(&mut self, g: &Geometry, pba: Pba) {
        match self {
            DriveClock::Constant(_) => {}
            DriveClock::Mechanical(clock) => clock.leave_at(&g.place(pba)),
            DriveClock::Buffered(clock) => clock.media.leave_at(&g.place(pba)),
        }
    }

    /// Time to read `sectors` on one track in whatever order they pass under the head; `None` if the clock has no rotation, or they lie on
    /// several tracks.
    pub fn in_any_order(&self, g: &Geometry, now: Nanos, pba: Pba, sectors: u64) -> Option<Nanos> {
        match self {
            DriveClock::Mechanical(clock) => clock.in_any_order(g, now, pba, sectors),
            DriveClock::Constant(_) | DriveClock::Buffered(_) => None,
        }
    }

    /// The time from `now` until a read of the sector at a position would begin: overhead, seek and rotational latency; 0 for a constant
    /// clock.
    #[inline]
    pub fn estimate_at(&self, position: &Position, now: Nanos) -> Nanos {
        match self {
            DriveClock::Constant(_) => Nanos::ZERO,
            DriveClock::Mechanical(clock) => clock.estimate_at(position, now),
            DriveClock::Buffered(clock) => clock.estimate_at(position, now),
        }
    }

    /// The time from `now` until the drive can serve an access from its buffer: 0, or until there is room. `None` if it can't.
    #[inline]
    pub fn wait_for_buffer(&self, g: &Geometry, now: Nanos, write: bool, pba: Pba, sectors: u64) -> Option<Nanos> {
        let clock = self.buffered()?;
        if write { clock.wait_for_room(now, sectors) } else { clock.holds(g, now, pba, sectors).then_some(Nanos::ZERO) }
    }

    /// Where the head has to be for a sector.
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

    /// Time that the media wrote from the drive's own cache while no command was served; `None` where it has no cache.
    pub fn unwaited(&self) -> Option<Nanos> {
        self.buffered().map(|clock| clock.unwaited)
    }

    /// Starts the count of [`DriveClock::unwaited`] anew.
    pub fn reset_unwaited(&mut self) {
        if let DriveClock::Buffered(clock) = self {
            clock.unwaited = Nanos::ZERO;
        }
    }

    #[inline]
    fn buffered(&self) -> Option<&Buffered> {
        match self {
            DriveClock::Buffered(clock) => Some(clock),
            DriveClock::Constant(_) | DriveClock::Mechanical(_) => None,
        }
    }

    /// The mechanics, where there are any.
    #[inline]
    pub fn mechanical(&self) -> Option<&Mechanical> {
        match self {
            DriveClock::Constant(_) => None,
            DriveClock::Mechanical(clock) => Some(clock),
            DriveClock::Buffered(clock) => Some(&clock.media),
        }
    }

    /// Transfer of one sector at the outer edge, in picoseconds; switches of heads are left out.
    pub fn sector_ps(&self, g: &Geometry) -> u64 {
        let mechanical = match self {
            DriveClock::Constant(clock) => return clock.sector_ps,
            DriveClock::Mechanical(clock) => clock,
            DriveClock::Buffered(clock) => &clock.media,
        };
        mechanical.rotation().0 * 1000 / g.zones[0].track_sectors
    }

    /// The model's name: `constant` or `mechanical`.
    pub fn name(&self) -> &'static str {
        if self.mechanical().is_some() { "mechanical" } else { "constant" }
    }
}

/// Where the head has to be for a sector. Computed once for each request, so that estimates of waiting requests are cheap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The cylinder, from the rim inward.
    pub cylinder: u32,
    /// The surface.
    pub surface: u32,
    /// The angle at which the sector begins.
    pub angle: Turn,
}

/// Costs of the constant clock: the drive behind Cassuto's figures (derived from its Table I). Kept in picoseconds and rounded once per
/// command, so that the published counts give the published totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    command_ps: u64,
    sector_ps: u64,
}

/// An hour: more for one command must be a mistake in the unit.
const COMMAND_PS_MAX: f64 = 3.6e15;
/// A second.
const SECTOR_PS_MAX: f64 = 1e12;

impl Constant {
    /// From milliseconds per command and microseconds per sector. Errors: a cost that is negative or over an hour
    /// (a command) or a second (a sector).
    pub fn new(command_ms: f64, sector_us: f64) -> Result<Constant, Error> {
        let (command, sector) = ((command_ms * 1e9).round(), (sector_us * 1e6).round());
        if !(0.0..=COMMAND_PS_MAX).contains(&command) || !(0.0..=SECTOR_PS_MAX).contains(&sector) {
            return Err(Error::Impossible(format!(
                "a command of {command_ms} ms and {sector_us} µs a sector: give command_ms from 0 to 3600000 and \
                 sector_us from 0 to 1000000"
            )));
        }
        Ok(Constant { command_ps: command as u64, sector_ps: sector as u64 })
    }

    /// The time of a command, to the nearest nanosecond.
    #[inline]
    pub fn cost(&self, sectors: u64) -> Nanos {
        let ps = self.sector_ps.saturating_mul(sectors).saturating_add(self.command_ps);
        Nanos((ps.saturating_add(500)) / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_once_a_command() {
        let clock = Constant::new(0.0, 0.0004).unwrap();
        assert_eq!(clock.cost(1), Nanos(0));
        assert_eq!(clock.cost(10), Nanos(4));
    }

    #[test]
    fn senseless_costs_are_refused() {
        for (command, sector) in [(-1.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (1.0, 1e9)] {
            assert!(Constant::new(command, sector).is_err());
        }
    }
}
