//! Behaviour of the allocator and the cleaner of strict-append, and its limits.

use serde::{Deserialize, Serialize};

use crate::device::{Model, Shape};

/// When a band with nothing readable in it is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reset {
    /// By a cleaning event only, where it counts as one of the bands that the event examines (the paper's figure).
    Lazy,
    /// As soon as its last data is released.
    Eager,
}

/// Amount that is cleaned at a time while space is short and the host goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleaningQuota {
    /// A whole event at once, as in the paper.
    Event,
    /// A share with each write of the host, as much as keeps the free bands where they are.
    Steady,
}

/// Treatment of a block that is larger than the rest of its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocks {
    /// Blocks are split: nothing is wasted.
    Split,
    /// A block goes whole to another band as long as one more may be opened; a smaller one may fill the rest.
    Whole,
}

/// Behaviour of the allocator and the cleaner of strict-append; nothing of it is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandsOptions {
    /// When dead bands are reset.
    pub reset: Reset,
    /// Amount that is cleaned at a time while space is short.
    pub pace: CleaningQuota,
    /// Blocks at the end of a band.
    pub blocks: Blocks,
    /// Most files that have an open band of their own while they are written; on a small disk one for 32 bands.
    pub writers: u64,
    /// The largest piece that the cleaner moves at once, in granules.
    pub block_granules: u64,
    /// Granules of bands that one cleaning event examines; at least one band.
    pub event_granules: u64,
    /// Cleaning is due at once when less than this share of the bands is empty.
    pub low_percent: u64,
    /// Cleaning is done in idle time when less than this share of the bands is empty.
    pub idle_percent: u64,
    /// Idle time is spent only on bands of which at least this share is dead.
    pub idle_dead_percent: u64,
    /// Room for this many bands only the cleaner may use. A power cut in the midst of cleaning may cost one until cleaning has
    /// made it good again: at least 2 where the power can fail.
    pub reserve_bands: u64,
    /// Share of the bands that files cannot fill; more where the reserve asks for it.
    pub spare_percent: u64,
}

impl Default for BandsOptions {
    fn default() -> BandsOptions {
        BandsOptions {
            reset: Reset::Eager,
            pace: CleaningQuota::Steady,
            blocks: Blocks::Split,
            writers: 4,               // assumption
            block_granules: 256,      // 1 MiB, the paper's section 4
            event_granules: 4 * 8192, // 128 MiB, section 4.1
            low_percent: 5,           // section 4.1
            idle_percent: 35,         // section 4.1
            idle_dead_percent: 25,    // assumption: at most three granules moved for one gained
            reserve_bands: 3,         // two power cuts in the midst of cleaning may cost one each
            spare_percent: 8,         // assumption: between room for files and amplification
        }
    }
}

impl BandsOptions {
    /// As in the paper's section 4.1 and its figure 4: whole events, bands reset by events only, one log.
    pub fn paper() -> BandsOptions {
        BandsOptions {
            reset: Reset::Lazy,
            pace: CleaningQuota::Event,
            blocks: Blocks::Whole,
            writers: 1,
            idle_dead_percent: 0,
            ..BandsOptions::default()
        }
    }

    /// Bands that an event examines on a disk of that shape: no more than a 32nd of all (assumption; small disks).
    pub fn event_bands(&self, shape: &Shape) -> usize {
        let most = (shape.bands.count / 32).max(1);
        (self.event_granules / shape.bands.granules.max(1)).clamp(1, most) as usize
    }

    /// Files with an open band of their own on a disk of that shape: bands half written are room that nobody cleans.
    pub(super) fn writers_of(&self, shape: &Shape) -> u64 {
        self.writers.min(shape.bands.count / 32).max(1)
    }

    /// Bands that are kept from files at least: the reserve, the cleaner's open band, one that cleaning gains, and one of
    /// garbage, without which cleaning a full disk costs a hundred times what it gains.
    pub fn least_spare_bands(&self) -> u64 {
        self.reserve_bands + 3
    }

    pub(super) fn fit(&self, shape: &Shape) -> Result<(), BandsError> {
        if shape.model != Model::StrictAppend {
            return Err(BandsError::WrongModel);
        }
        if shape.bands.max_open == 0 || shape.bands.granules == 0 {
            return Err(BandsError::NoBands);
        }
        let end = shape.bands.count.checked_sub(1).map_or(0, |last| shape.bands.span(last).end().0);
        if end > shape.granules {
            return Err(BandsError::BandsBeyondDisk { end, granules: shape.granules });
        }
        let wrong = |name| Err(BandsError::Parameter { name });
        match self {
            _ if self.writers == 0 => return wrong("writers"),
            _ if self.block_granules == 0 => return wrong("block_granules"),
            _ if self.reserve_bands == 0 => return wrong("reserve_bands"),
            _ if self.low_percent > 50 || self.idle_percent > 100 || self.idle_dead_percent > 100 => {
                return Err(BandsError::Percent { name: "low_percent, idle_percent or idle_dead_percent", most: 50 });
            }
            _ if self.spare_percent > 90 => return Err(BandsError::Percent { name: "spare_percent", most: 90 }),
            _ => {}
        }
        let least = self.least_spare_bands() + 1;
        if shape.bands.count < least {
            return Err(BandsError::TooFewBands { bands: shape.bands.count, least });
        }
        Ok(())
    }
}

/// Why strict-append cannot run on a disk with these options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandsError {
    /// The disk is of the other model.
    #[error("the disk is no strict-append disk: use the allocator of caveat, or make it anew as strict-append")]
    WrongModel,
    /// Bands of no size, or none may be open.
    #[error(
        "the disk has no bands that can be written: give bands of at least one granule, and let one be open besides that of the superblock"
    )]
    NoBands,
    /// The bands do not fit on the disk.
    #[error("the bands end at {end}, the disk at {granules}: lower the number of bands")]
    BandsBeyondDisk {
        /// End of the last band.
        end: u64,
        /// The size of the disk.
        granules: u64,
    },
    /// Not enough of them for cleaning and data.
    #[error(
        "{bands} bands are too few: cleaning and one band of data need {least}; make the disk larger or its bands smaller"
    )]
    TooFewBands {
        /// Number of bands.
        bands: u64,
        /// Number that it takes at least.
        least: u64,
    },
    /// A parameter that must not be 0.
    #[error("{name} must be at least 1")]
    Parameter {
        /// The option's name.
        name: &'static str,
    },
    /// A share that is too large.
    #[error("{name} is too large: at most {most}")]
    Percent {
        /// The option's name.
        name: &'static str,
        /// The most it can be.
        most: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Bands;

    fn shape(count: u64, granules: u64) -> Shape {
        let bands = Bands { count, granules, gap_granules: 2, max_open: 4 };
        Shape {
            model: Model::StrictAppend,
            granule_bytes: 4096,
            granules: count * (granules + 2),
            did: 2,
            dpid: 0,
            bands,
        }
    }

    #[test]
    fn events_and_writers_are_fewer_on_small_disks() {
        let options = BandsOptions { event_granules: 100, writers: 4, ..BandsOptions::default() };
        let of = |count, granules| {
            (options.event_bands(&shape(count, granules)), options.writers_of(&shape(count, granules)))
        };
        assert_eq!([of(10, 10), of(63, 10), of(64, 10), of(319, 10)], [(1, 1), (1, 1), (2, 2), (9, 4)]);
        assert_eq!([of(3200, 10), of(3200, 11), of(3200, 101), of(3200, 0)], [(10, 4), (9, 4), (1, 4), (100, 4)]);
        assert_eq!(options.least_spare_bands(), 6);
    }

    #[test]
    fn options_that_make_no_sense_are_refused_at_their_bounds() {
        let good = BandsOptions {
            low_percent: 50,
            idle_percent: 100,
            idle_dead_percent: 100,
            spare_percent: 90,
            ..BandsOptions::default()
        };
        let disk = shape(7, 10);
        assert_eq!(good.fit(&disk), Ok(()));
        let parameter = |name| Err(BandsError::Parameter { name });
        assert_eq!(BandsOptions { writers: 0, ..good }.fit(&disk), parameter("writers"));
        assert_eq!(BandsOptions { block_granules: 0, ..good }.fit(&disk), parameter("block_granules"));
        assert_eq!(BandsOptions { reserve_bands: 0, ..good }.fit(&disk), parameter("reserve_bands"));
        for wrong in [
            BandsOptions { low_percent: 51, ..good },
            BandsOptions { idle_percent: 101, ..good },
            BandsOptions { idle_dead_percent: 101, ..good },
        ] {
            assert!(matches!(wrong.fit(&disk), Err(BandsError::Percent { most: 50, .. })));
        }
        let wrong = BandsOptions { spare_percent: 91, ..good };
        assert_eq!(wrong.fit(&disk), Err(BandsError::Percent { name: "spare_percent", most: 90 }));
        assert_eq!(good.fit(&shape(6, 10)), Err(BandsError::TooFewBands { bands: 6, least: 7 }));
        assert_eq!(good.fit(&shape(7, 0)), Err(BandsError::NoBands));
        let none = Bands { max_open: 0, ..disk.bands };
        assert_eq!(good.fit(&Shape { bands: none, ..disk }), Err(BandsError::NoBands));
        assert_eq!(good.fit(&Shape { granules: 82, ..disk }), Ok(()));
        assert_eq!(
            good.fit(&Shape { granules: 81, ..disk }),
            Err(BandsError::BandsBeyondDisk { end: 82, granules: 81 })
        );
        assert_eq!(good.fit(&Shape { model: Model::Caveat, ..disk }), Err(BandsError::WrongModel));
    }
}
