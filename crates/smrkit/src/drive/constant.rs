//! The constant clock: s per command and b per sector, without position or rotation.
//!
//! This is the drive behind Cassuto's figures (derived from its Table I). Costs are kept in picoseconds and rounded once per
//! command, so that counts replay to the published totals.

use crate::error::Error;
use crate::units::Nanos;

/// Costs of the constant clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    command_ps: u64,
    sector_ps: u64,
}

/// An hour: more for one command is taken for a mistake in the unit.
const COMMAND_PS_MAX: f64 = 3.6e15;

impl Constant {
    /// From milliseconds per command and microseconds per sector. Errors: a cost that is negative or over an hour
    /// (a command) or a second (a sector).
    pub fn new(command_ms: f64, sector_us: f64) -> Result<Constant, Error> {
        let (command, sector) = ((command_ms * 1e9).round(), (sector_us * 1e6).round());
        if !(0.0..=COMMAND_PS_MAX).contains(&command) || !(0.0..=1e12).contains(&sector) {
            return Err(Error::Impossible(format!(
                "a command of {command_ms} ms and {sector_us} µs a sector: give command_ms from 0 to 3600000 and \
                 sector_us from 0 to 1000000"
            )));
        }
        Ok(Constant { command_ps: command as u64, sector_ps: sector as u64 })
    }

    /// Milliseconds per command.
    pub fn command_ms(&self) -> f64 {
        self.command_ps as f64 / 1e9
    }

    /// Microseconds per sector.
    pub fn sector_us(&self) -> f64 {
        self.sector_ps as f64 / 1e6
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
    fn costs_read_back_make_the_same_clock() {
        let clock = Constant::new(1.055052349, 7.462971).unwrap();
        assert_eq!(Constant::new(clock.command_ms(), clock.sector_us()).unwrap(), clock);
    }

    #[test]
    fn senseless_costs_are_refused() {
        for (command, sector) in [(-1.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0), (1.0, 1e9)] {
            assert!(Constant::new(command, sector).is_err());
        }
    }
}
