//! Health of members: those that work, and the rebuilt part of a new one.

use serde::{Deserialize, Serialize};

use crate::units::Lba;

/// The state of a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum Health {
    /// The member works.
    #[default]
    Good,
    /// The member has failed.
    Failed,
    /// The member is new, and holds what has been rebuilt.
    New(RebuiltUnits),
}

/// Rebuilt part of a new member, in units of some sectors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RebuiltUnits {
    sectors: u64,
    unit_sectors: u64,
    /// One bit for each unit.
    done: Vec<u64>,
    left: u64,
}

impl RebuiltUnits {
    /// A member of `sectors`, of which nothing is rebuilt.
    pub fn nothing(sectors: u64, unit_sectors: u64) -> RebuiltUnits {
        let units = sectors.div_ceil(unit_sectors);
        RebuiltUnits { sectors, unit_sectors, done: vec![0; units.div_ceil(64) as usize], left: units }
    }

    fn units(&self, at: Lba, sectors: u64) -> std::ops::Range<u64> {
        at.0 / self.unit_sectors..(at.0 + sectors).div_ceil(self.unit_sectors)
    }

    /// Notes sectors that have been rebuilt. Only whole units count.
    pub fn note(&mut self, at: Lba, sectors: u64) {
        let end = at.0 + sectors;
        // Rounded down, except at the member's end, where the last unit may be shorter than the others.
        let end_unit = if end >= self.sectors { end.div_ceil(self.unit_sectors) } else { end / self.unit_sectors };
        for unit in at.0.div_ceil(self.unit_sectors)..end_unit {
            let (word, bit) = (&mut self.done[(unit / 64) as usize], 1 << (unit % 64));
            self.left -= u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// True if all of these sectors have been rebuilt.
    pub fn has(&self, at: Lba, sectors: u64) -> bool {
        self.units(at, sectors).all(|unit| self.done[(unit / 64) as usize] & (1 << (unit % 64)) != 0)
    }

    /// True if nothing is left to be rebuilt.
    pub fn is_whole(&self) -> bool {
        self.left == 0
    }
}

impl Health {
    /// True if commands can be sent to it.
    pub fn works(&self) -> bool {
        !matches!(self, Health::Failed)
    }

    /// True if it works, and holds everything.
    #[inline]
    pub fn is_good(&self) -> bool {
        matches!(self, Health::Good)
    }

    /// Notes rebuilt sectors of a new member.
    pub(super) fn rebuilt(&mut self, at: Lba, sectors: u64) {
        if let Health::New(rebuilt) = self {
            rebuilt.note(at, sectors);
            if rebuilt.is_whole() {
                *self = Health::Good;
            }
        }
    }

    /// True if it holds these sectors.
    #[inline]
    pub fn has(&self, at: Lba, sectors: u64) -> bool {
        match self {
            Health::Good => true,
            Health::Failed => false,
            Health::New(rebuilt) => rebuilt.has(at, sectors),
        }
    }
}
