//! Patterns whose requests hang together: runs in a hot part, and a backup with its metadata.

use super::arrivals::RequestTimes;
use super::dice::{Coin, Dice};
use super::sizes::Picker;
use super::stream::Pattern;
use crate::request::{Op, Request};
use crate::units::{Lba, Nanos};

/// Runs of single blocks in the hot part of a region; a run reads or writes throughout.
pub(super) struct RunsStream {
    pub dice: Dice,
    pub arrivals: RequestTimes,
    pub writes: Coin,
    /// First sector of the hot part, and how many blocks it has.
    pub hot: (u64, u64),
    pub block_sectors: u32,
    /// Shortest and longest run, in blocks; neither is longer than the hot part.
    pub lengths: (u64, u64),
    op: Op,
    at: u64,
    left: u64,
}

impl RunsStream {
    /// The hot part is placed in the region by the first draw.
    pub fn new(
        mut dice: Dice,
        arrivals: RequestTimes,
        writes: Coin,
        (region_first, region_blocks, hot_blocks): (u64, u64, u64),
        block_sectors: u32,
        lengths: (u64, u64),
    ) -> RunsStream {
        let first = region_first + dice.below(region_blocks - hot_blocks + 1) * u64::from(block_sectors);
        RunsStream {
            dice,
            arrivals,
            writes,
            hot: (first, hot_blocks),
            block_sectors,
            lengths,
            op: Op::Read,
            at: 0,
            left: 0,
        }
    }
}

impl Pattern for RunsStream {
    fn next(&mut self) -> Option<Request> {
        if self.left == 0 {
            self.left = self.dice.between(self.lengths.0, self.lengths.1);
            self.at = self.dice.below(self.hot.1 - self.left + 1);
            self.op = if self.writes.toss(&mut self.dice) { Op::Write } else { Op::Read };
        }
        let lba = Lba(self.hot.0 + self.at * u64::from(self.block_sectors));
        self.left -= 1;
        self.at += 1;
        let time = self.arrivals.next(&mut self.dice);
        Some(Request { time, ..Request::new(self.op, lba, self.block_sectors) })
    }

    fn peek(&self) -> Nanos {
        self.arrivals.peek()
    }
}

/// A sequential write behind an area of metadata that is updated at random.
pub(super) struct BackupStream {
    pub dice: Dice,
    pub arrivals: RequestTimes,
    pub data: Picker,
    pub metadata: Picker,
    /// Data requests between two updates; 0: none.
    pub metadata_every: u64,
    /// First sector, sectors and alignment of the metadata.
    pub metadata_area: (u64, u64, u64),
    /// First sector and sectors of the data.
    pub data_area: (u64, u64),
    pub at: u64,
    pub since: u64,
}

impl BackupStream {
    fn update(&mut self) -> (u64, u32) {
        let (first, span, align) = self.metadata_area;
        let sectors = self.metadata.pick(&mut self.dice);
        let places = (span - u64::from(sectors)) / align + 1;
        (first + self.dice.below(places) * align, sectors)
    }

    fn append(&mut self) -> (u64, u32) {
        let sectors = self.data.pick(&mut self.dice);
        if u64::from(sectors) > self.data_area.1 - self.at {
            self.at = 0;
        }
        let at = self.data_area.0 + self.at;
        self.at += u64::from(sectors);
        (at, sectors)
    }
}

impl Pattern for BackupStream {
    fn next(&mut self) -> Option<Request> {
        let due = self.metadata_every > 0 && self.since == self.metadata_every;
        self.since = if due { 0 } else { self.since + 1 };
        let (lba, sectors) = if due { self.update() } else { self.append() };
        let time = self.arrivals.next(&mut self.dice);
        Some(Request { time, ..Request::new(Op::Write, Lba(lba), sectors) })
    }

    fn peek(&self) -> Nanos {
        self.arrivals.peek()
    }
}
