//! The kinds of arrays: their names, how many disks they need, how many copies and parities they keep.
//!
//! What an array does when a disk is gone, and how it writes, is not decided here.

use std::fmt;

use crate::error::Error;

/// Sectors of a chunk unless said otherwise: 512 KiB, the default of Linux's md.
pub const CHUNK_SECTORS: u64 = 1024;

/// The most disks of an array with two parities: the coefficients of Q repeat after 255 data disks.
const RAID6_DISKS_MAX: usize = 257;

/// The kind of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One disk after another.
    Span,
    /// Chunks in turn on all disks.
    Raid0,
    /// A copy on every disk.
    Raid1,
    /// Chunks in turn, each on this many neighbouring disks.
    Raid10 {
        /// How often each chunk is kept.
        copies: u32,
    },
    /// A parity on the last disk.
    Raid4,
    /// A parity that goes round all disks.
    Raid5,
    /// Two parities that go round all disks.
    Raid6,
    /// One disk a source; without regard to sources, one disk after another.
    Dedicated,
}

impl Level {
    /// Every level, RAID 10 with two copies.
    pub const ALL: [Level; 8] = [
        Level::Span,
        Level::Raid0,
        Level::Raid1,
        Level::Raid10 { copies: 2 },
        Level::Raid4,
        Level::Raid5,
        Level::Raid6,
        Level::Dedicated,
    ];

    /// The level of this name; `raid10` keeps two copies.
    pub fn named(name: &str) -> Result<Level, Error> {
        Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Level::ALL.iter().map(Level::name).collect();
            let shown: String = name.chars().take(40).collect();
            Error::Usage(format!("no array is called `{shown}`: write one of {}", names.join(", ")))
        })
    }

    /// Its name in options and results.
    pub fn name(&self) -> &'static str {
        match self {
            Level::Span => "span",
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid10 { .. } => "raid10",
            Level::Raid4 => "raid4",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::Dedicated => "dedicated",
        }
    }

    /// Parity units of a stripe.
    pub fn parities(&self) -> usize {
        match self {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// How often an array of `disks` keeps each sector, parity not counted.
    pub fn copies(&self, disks: usize) -> u32 {
        match self {
            Level::Raid1 => disks as u32,
            Level::Raid10 { copies } => *copies,
            _ => 1,
        }
    }

    /// Whether addresses are dealt out in chunks.
    pub fn is_striped(&self) -> bool {
        !matches!(self, Level::Span | Level::Raid1 | Level::Dedicated)
    }

    /// The fewest disks.
    pub fn disks_min(&self) -> usize {
        match self {
            Level::Span | Level::Raid0 | Level::Dedicated => 1,
            Level::Raid1 => 2,
            Level::Raid10 { copies } => *copies as usize,
            Level::Raid4 | Level::Raid5 => 3,
            Level::Raid6 => 4,
        }
    }

    /// Refuses a number of disks that the level can't have.
    pub fn check_disks(&self, disks: usize) -> Result<(), Error> {
        let impossible = |message: String| Err(Error::Impossible(message));
        match self {
            Level::Raid10 { copies: 0 | 1 } => {
                Err(Error::Usage("raid10 with copies below 2 mirrors nothing: raise copies, or use raid0".into()))
            }
            Level::Raid10 { copies } if disks < *copies as usize => {
                impossible(format!("raid10 of {disks} disks can't keep {copies} copies: raise disks or lower copies"))
            }
            Level::Raid6 if disks > RAID6_DISKS_MAX => impossible(format!(
                "raid6 of {disks} disks: its second parity tells 255 data disks apart; lower disks to \
                 {RAID6_DISKS_MAX}, or nest smaller ones in raid0"
            )),
            _ if disks < self.disks_min() => {
                let (name, min) = (self.name(), self.disks_min());
                let other = match self {
                    Level::Raid4 | Level::Raid5 if disks == 2 => ", or use raid1",
                    Level::Raid6 if disks == 3 => ", or use raid5",
                    _ => "",
                };
                impossible(format!("{name} of {disks} disks: raise disks to {min} or more{other}"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a stripe that is written in part gets its new parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// Whichever reads less.
    #[default]
    Auto,
    /// From the old data and the old parity.
    ReadModifyWrite,
    /// From the data that is not written.
    Reconstruct,
}

impl WritePolicy {
    /// The policy of this name.
    pub fn named(name: &str) -> Result<WritePolicy, Error> {
        match name {
            "auto" => Ok(WritePolicy::Auto),
            "rmw" => Ok(WritePolicy::ReadModifyWrite),
            "reconstruct" => Ok(WritePolicy::Reconstruct),
            _ => {
                let shown: String = name.chars().take(40).collect();
                Err(Error::Usage(format!("write=`{shown}` is unknown: write auto, rmw or reconstruct")))
            }
        }
    }

    /// Its name in options and results.
    pub fn name(&self) -> &'static str {
        match self {
            WritePolicy::Auto => "auto",
            WritePolicy::ReadModifyWrite => "rmw",
            WritePolicy::Reconstruct => "reconstruct",
        }
    }
}
