//! The kinds of arrays, as a table: how sectors are spread over the members, how many copies and parities are kept.
//!
//! To add a level, add a row here and, if it spreads sectors in a new way, that to `address.rs`.

use std::fmt;

use crate::error::Error;
use crate::names::known;

/// Sectors of a chunk unless said otherwise: 512 KiB, the default of Linux's md.
pub const CHUNK_SECTORS: u64 = 1024;

/// The most data disks with several parities: the coefficients of Q repeat after that many, and so do those of R.
const DATA_DISKS_MAX: usize = 255;

/// The way in which the sectors of an array are spread over its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorSpread {
    /// One member after another.
    EndToEnd,
    /// Every member holds all of them.
    Whole,
    /// Chunks in turn, each on as many neighbouring members as there are copies.
    Chunks,
    /// Chunks in turn, with parity units in every stripe.
    Stripes,
}

/// Properties of a level.
#[derive(Debug)]
pub struct LevelSpec {
    /// The level.
    pub level: Level,
    /// Its name in options and results.
    pub name: &'static str,
    /// Way in which sectors are spread.
    pub spread: SectorSpread,
    /// The most copies of a sector, parity not counted; fewer if there are fewer disks.
    pub copies_max: usize,
    /// Parity units of a stripe.
    pub parities: usize,
    /// True if they go round all disks; else they lie on the last.
    pub rotates: bool,
    /// True if each source has a disk of its own.
    pub is_per_source: bool,
    /// The fewest disks.
    pub disks_min: usize,
    /// The most disks.
    pub disks_max: usize,
    /// The level to use in its place where there is one disk too few.
    pub instead: Option<&'static str>,
}

/// A level without redundancy: the others say how they differ from it.
const PLAIN: LevelSpec = LevelSpec {
    level: Level::Span,
    name: "span",
    spread: SectorSpread::EndToEnd,
    copies_max: 1,
    parities: 0,
    rotates: false,
    is_per_source: false,
    disks_min: 1,
    disks_max: usize::MAX,
    instead: None,
};

/// A level with one parity.
const PARITY: LevelSpec =
    LevelSpec { spread: SectorSpread::Stripes, parities: 1, disks_min: 3, instead: Some("raid1"), ..PLAIN };

/// Every level.
pub const LEVELS: [LevelSpec; 9] = [
    PLAIN,
    LevelSpec { level: Level::Raid0, name: "raid0", spread: SectorSpread::Chunks, ..PLAIN },
    LevelSpec {
        level: Level::Raid1,
        name: "raid1",
        spread: SectorSpread::Whole,
        copies_max: usize::MAX,
        disks_min: 2,
        ..PLAIN
    },
    LevelSpec {
        level: Level::Raid10,
        name: "raid10",
        spread: SectorSpread::Chunks,
        copies_max: 2,
        disks_min: 2,
        ..PLAIN
    },
    LevelSpec { level: Level::Raid4, name: "raid4", ..PARITY },
    LevelSpec { level: Level::Raid5, name: "raid5", rotates: true, ..PARITY },
    LevelSpec {
        level: Level::Raid6,
        name: "raid6",
        parities: 2,
        rotates: true,
        disks_min: 4,
        disks_max: DATA_DISKS_MAX + 2,
        instead: Some("raid5"),
        ..PARITY
    },
    LevelSpec {
        level: Level::Raidz3,
        name: "raidz3",
        parities: 3,
        rotates: true,
        disks_min: 5,
        disks_max: DATA_DISKS_MAX + 3,
        instead: Some("raid6"),
        ..PARITY
    },
    LevelSpec { level: Level::Dedicated, name: "dedicated", is_per_source: true, ..PLAIN },
];

/// ZFS's names of levels that have an older one.
const OF_ZFS: [(&str, &str); 4] = [("mirror", "raid1"), ("raidz", "raid5"), ("raidz1", "raid5"), ("raidz2", "raid6")];

/// The names of all levels, and those of ZFS.
fn all_names() -> impl Iterator<Item = &'static str> + Clone {
    LEVELS.iter().map(|spec| spec.name).chain(OF_ZFS.iter().map(|(alias, _)| *alias))
}

/// The kind of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// One disk after another.
    Span,
    /// Chunks in turn on all disks.
    Raid0,
    /// A copy on every disk.
    Raid1,
    /// Chunks in turn, each on two neighbouring disks.
    Raid10,
    /// A parity on the last disk.
    Raid4,
    /// A parity that goes round all disks.
    Raid5,
    /// Two parities that go round all disks.
    Raid6,
    /// Three parities that go round all disks.
    Raidz3,
    /// One disk a source; without regard to sources, one disk after another.
    Dedicated,
}

impl Level {
    /// The level of this name or of ZFS's name for it.
    pub fn named(name: &str) -> Result<Level, Error> {
        let name = Level::name_as_written(name)?;
        let common = OF_ZFS.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, common)| common);
        Ok(LEVELS.iter().find(|spec| spec.name == common).expect("a level of each name").level)
    }

    /// A level's name or ZFS's name for it, if it is one.
    pub fn name_as_written(name: &str) -> Result<&'static str, Error> {
        if name.starts_with("draid") {
            return Err(Error::Usage("ZFS's dRAID is not simulated".into()));
        }
        all_names().find(|known| *known == name).ok_or_else(|| {
            // Cut short, because the text may be anything.
            let shown: String = name.chars().take(40).collect();
            Error::Usage(format!("no array is called `{shown}`; {}", known(name, all_names())))
        })
    }

    /// The names of all levels, ZFS's too, with commas between.
    pub fn names() -> String {
        all_names().collect::<Vec<_>>().join(", ")
    }

    /// The names of the levels that keep copies or parity, with commas between.
    pub fn redundant_names() -> String {
        let is_redundant = |spec: &&LevelSpec| spec.parities > 0 || spec.copies_max > 1;
        LEVELS.iter().filter(is_redundant).map(|spec| spec.name).collect::<Vec<_>>().join(", ")
    }

    /// Properties of the level.
    pub fn spec(&self) -> &'static LevelSpec {
        LEVELS.iter().find(|spec| spec.level == *self).expect("the table has every level")
    }

    /// Its name in options and results.
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// Parity units of a stripe.
    pub fn parities(&self) -> usize {
        self.spec().parities
    }

    /// Number of copies that an array of `disks` keeps of each sector, parity not counted.
    pub fn copies(&self, disks: usize) -> u32 {
        disks.min(self.spec().copies_max) as u32
    }

    /// True if addresses are dealt out in chunks.
    pub fn is_striped(&self) -> bool {
        matches!(self.spec().spread, SectorSpread::Chunks | SectorSpread::Stripes)
    }

    /// Refuses a number of disks that the level, which the user calls `name`, can't have.
    pub fn check_disks(&self, name: &str, disks: usize) -> Result<(), Error> {
        let spec = self.spec();
        let min = spec.disks_min;
        let is_zfs = OF_ZFS.iter().any(|(alias, _)| *alias == name);
        // A user who named the level as ZFS does gets the remedy in the same words.
        let in_same_words = |other: &'static str| {
            // From the end, so that raid5 is called raidz1 and not raidz.
            let alias = OF_ZFS.iter().rev().find(|(_, common)| is_zfs && *common == other);
            alias.map_or(other, |(alias, _)| alias)
        };
        if disks > spec.disks_max {
            return Err(Error::Impossible(format!(
                "{name} of {disks} disks: its parities tell {DATA_DISKS_MAX} data disks apart; lower disks to {}",
                spec.disks_max
            )));
        }
        if disks < min {
            // The level named instead needs one disk less.
            let other = spec.instead.filter(|_| disks + 1 == min);
            let other = other.map_or(String::new(), |other| format!(", or use {}", in_same_words(other)));
            return Err(Error::Impossible(format!("{name} of {disks} disks: raise disks to {min} or more{other}")));
        }
        Ok(())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_names_the_numbers_of_disks_that_it_takes() {
        let said = |level: Level, disks| level.check_disks(level.name(), disks).map_err(|error| error.to_string());
        for (level, least) in [
            (Level::Span, 1),
            (Level::Raid0, 1),
            (Level::Raid1, 2),
            (Level::Raid10, 2),
            (Level::Raid4, 3),
            (Level::Raid5, 3),
            (Level::Raid6, 4),
            (Level::Raidz3, 5),
        ] {
            assert_eq!(said(level, least), Ok(()), "{level:?}");
            if least > 1 {
                let few = said(level, least - 1).unwrap_err();
                assert!(few.contains(&format!("of {} disks: raise disks to {least} or more", least - 1)), "{few}");
                assert_eq!(few.contains(", or use "), level.spec().instead.is_some(), "{few}");
            }
            if least > 2 {
                assert!(!said(level, least - 2).unwrap_err().contains(", or use "));
            }
            let most = level.spec().disks_max;
            assert!(said(level, most).is_ok());
            if most < usize::MAX {
                assert!(said(level, most + 1).unwrap_err().contains(&format!("lower disks to {most}")));
            }
        }
        let copies = [Level::Raid1, Level::Raid10, Level::Raid5].map(|level| level.copies(5));
        assert_eq!(copies, [5, 2, 1]);
    }

    #[test]
    fn levels_go_by_the_names_of_zfs_too() {
        let named = ["mirror", "raidz", "raidz1", "raidz2", "raidz3"].map(|name| Level::named(name).unwrap());
        assert_eq!(named, [Level::Raid1, Level::Raid5, Level::Raid5, Level::Raid6, Level::Raidz3]);
        let few = Level::Raid5.check_disks("raidz1", 2).unwrap_err().to_string();
        assert!(few.starts_with("raidz1 of 2 disks: raise disks to 3 or more, or use mirror"), "{few}");
        let refused = Level::named("radz3").unwrap_err().to_string();
        assert!(refused.contains("did you mean `raidz3`?"), "{refused}");
        assert!(OF_ZFS.iter().all(|(alias, _)| LEVELS.iter().all(|spec| spec.name != *alias)));
    }
}
