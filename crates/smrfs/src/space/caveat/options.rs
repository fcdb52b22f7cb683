//! Options of the allocator of Caveat-Scriptor, by name on the command line.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use smrkit::names::known;

/// Why an allocator can't be made, or an option not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaveatError {
    /// Nothing fits on the disk next to its safety gaps.
    #[error(
        "a disk of {granules} granules with DID {did}, DPID {dpid} and blocks of {block} has no room for files: \
         take a larger disk, smaller blocks or smaller distances"
    )]
    TooSmall {
        /// The size of the disk.
        granules: u64,
        /// Its DID.
        did: u64,
        /// Its DPID.
        dpid: u64,
        /// The block.
        block: u64,
    },
    /// A block of no length.
    #[error("blocks of 0 granules: set block_granules to 1 or more")]
    NoBlock,
    /// No such name.
    #[error("there is no {what} \"{name}\": {choices}")]
    NoSuchName {
        /// The option that the name is of.
        what: &'static str,
        /// The name.
        name: String,
        /// The name that was meant, if one is near, and all there are.
        choices: String,
    },
}

macro_rules! named {
    ($(#[$about:meta])* $type:ident, $what:literal, $($(#[$doc:meta])* $variant:ident = $name:literal $(or $former:literal)?,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $type { $($(#[$doc])* $variant,)* }

        impl $type {
            /// All there are.
            pub const ALL: &'static [$type] = &[$($type::$variant,)*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = CaveatError;
            fn from_str(name: &str) -> Result<$type, CaveatError> {
                match name {
                    $($name $(| $former)? => Ok($type::$variant),)*
                    _ => Err(CaveatError::NoSuchName {
                        what: $what,
                        name: name.to_string(),
                        choices: known(name, [$($name),*].into_iter()),
                    }),
                }
            }
        }
    };
}

named! {
    /// By which rule it is told what may be written.
    Rule, "safety rule",
    /// Granule by granule.
    Lba = "lba",
    /// The paper's: the whole region behind a run at once.
    Region = "region",
}

named! {
    /// Policy by which data is placed.
    Placement, "placement policy",
    /// Next to the file's own last block, else in the smallest run that holds the rest; keeps room next to open files.
    Adjacent = "adjacent" or "beside",
    /// The paper's: from where the last write ended, for all files.
    NextFit = "next-fit",
    /// The first run of the disk.
    FirstFit = "first-fit",
    /// The shortest run.
    BestFit = "best-fit",
    /// Next-fit, with room kept next to each open file.
    Reservation = "reservation",
}

/// Behaviour of the allocator; nothing of it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaveatOptions {
    /// The rule for writes.
    pub rule: Rule,
    /// The placement policy.
    pub placement: Placement,
    /// True if a block may be cut up where no run is long enough for it.
    pub split: bool,
    /// The largest block, in granules.
    pub block_granules: u64,
    /// Blocks of room kept next to an open file.
    pub reserved_blocks: u64,
    /// True if to clean, and to keep room for it. Without, all of the disk is for files until their gaps fill it.
    pub defragment: bool,
    /// Windows looked at before the best of them is emptied.
    pub samples: u32,
    /// Blocks of room above the reserve below which each write of a host is followed by some cleaning.
    pub slack_blocks: u64,
    /// The most blocks moved for each block that a host writes, before room has run out.
    pub moved_per_block: u64,
    /// Seed of the places where windows are sampled.
    pub seed: u64,
}

impl Default for CaveatOptions {
    /// The numbers were chosen by measuring: docs/design/performance.md.
    fn default() -> CaveatOptions {
        CaveatOptions {
            rule: Rule::Lba,
            placement: Placement::Adjacent,
            split: true,
            block_granules: 256,
            reserved_blocks: 8,
            defragment: true,
            samples: 200,
            slack_blocks: 32,
            moved_per_block: 24,
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused_with_the_choices() {
        for &placement in Placement::ALL {
            assert_eq!(placement.name().parse(), Ok(placement));
            assert_eq!(serde_json::to_value(placement).unwrap(), placement.name());
        }
        assert_eq!("region".parse(), Ok(Rule::Region));
        let error = "worst-fit".parse::<Placement>().unwrap_err().to_string();
        assert!(error.contains("worst-fit") && error.contains("next-fit"), "{error}");
    }
}
