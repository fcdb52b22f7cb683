//! Several sources merged into one stream: in bursts drawn at random, by their times, or one after another.
//!
//! After Le, Holliday and Amer's arrays of shingled disks, where traces are interleaved in bursts of 1 to 1000 operations. The paper does
//! not say how the next source is drawn; here all are equally likely. Left out: slowing one source down because another is behind.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dice::Dice;
use crate::error::Error;
use crate::names::known;
use crate::quantity::parse_count;
use crate::request::{InMemory, Progress, Request, Source};
use crate::schema::kept_as_text;
use crate::units::Lba;

/// Sources that can be told apart by `Request::source`.
pub const SOURCES_MAX: usize = 256;

/// 2^63 bytes, as for the volumes of a trace.
const SECTORS_MAX: u64 = 1 << 54;

/// The stream of the dice that draws sources; workloads count theirs from 0.
const STREAM: u64 = u64::MAX;

/// The weight of each source in the progress of all.
const WHOLE: u64 = 1 << 20;

/// Rule for merging several sources; as text `none`, `burst:N` or `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Interleave {
    /// One after another, in their order.
    None,
    /// In bursts, each from a source drawn among those that have more. A source may be drawn twice in a row. Only its last burst may be
    /// shorter.
    Burst {
        /// Operations of a burst.
        operations: u64,
    },
    /// By their times. At equal times the source with the lower number goes first.
    Time,
}

impl FromStr for Interleave {
    type Err = Error;

    fn from_str(text: &str) -> Result<Interleave, Error> {
        let wrong = || {
            let names = known(text, ["burst:N", "time", "none"].into_iter());
            Error::Usage(format!("`{text}` is no way to merge: {names}"))
        };
        match text {
            "none" => return Ok(Interleave::None),
            "time" => return Ok(Interleave::Time),
            _ => {}
        }
        let burst = text.strip_prefix("burst:").ok_or_else(wrong)?;
        match parse_count(burst) {
            Ok(operations) if operations > 0 => Ok(Interleave::Burst { operations }),
            _ => Err(Error::Usage(format!("`{text}`: burst:N takes a whole number from 1, such as burst:50"))),
        }
    }
}

impl fmt::Display for Interleave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interleave::None => f.write_str("none"),
            Interleave::Time => f.write_str("time"),
            Interleave::Burst { operations } => write!(f, "burst:{operations}"),
        }
    }
}

kept_as_text!(Interleave);

/// Placement of the sources' addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePlacement {
    /// One after another.
    #[default]
    EndToEnd,
    /// All from LBA 0, over each other.
    Zero,
}

impl FromStr for SourcePlacement {
    type Err = Error;

    fn from_str(text: &str) -> Result<SourcePlacement, Error> {
        match text {
            "end-to-end" => Ok(SourcePlacement::EndToEnd),
            "zero" => Ok(SourcePlacement::Zero),
            _ => {
                let names = known(text, ["end-to-end", "zero"].into_iter());
                Err(Error::Usage(format!("`{text}` is no place: {names}")))
            }
        }
    }
}

/// A source to be merged.
pub struct MergePart<S> {
    /// Its requests.
    pub source: S,
    /// Size in sectors: laid end to end, the next begins there, and a request beyond is refused.
    pub sectors: u64,
}

/// A source with a batch read ahead, whose requests already have the source's number and place.
struct Lane<S> {
    source: S,
    number: u8,
    first: Lba,
    sectors: u64,
    bounded: bool,
    batch: Vec<Request>,
    at: usize,
    /// Requests read.
    read: u64,
}

impl<S: Source> Lane<S> {
    /// Reads the next batch if the last one is used up. Returns `false` at the end of the source.
    fn has_more(&mut self) -> Result<bool, Error> {
        if self.at < self.batch.len() {
            return Ok(true);
        }
        self.at = 0;
        self.source.fill(&mut self.batch)?;
        for request in &mut self.batch {
            self.read += 1;
            request.source = self.number;
            // A flush has no place.
            if request.sectors == 0 {
                continue;
            }
            if self.bounded && request.end().0 > self.sectors {
                return Err(outside(&self.source, self.read, request.end(), self.sectors));
            }
            request.lba += self.first.0;
        }
        Ok(!self.batch.is_empty())
    }

    /// Requests taken from the source so far.
    fn given(&self) -> u64 {
        self.read - (self.batch.len() - self.at) as u64
    }
}

#[cold]
fn outside(source: &impl Source, number: u64, end: Lba, sectors: u64) -> Error {
    let problem = format!("request {number} ends at sector {end}, past the {sectors} that this source was given");
    Error::input(source.name(), problem + ": give it more, or use {sources} zero")
}

/// Several sources as one. `Request::source` is the number of the source that a request came from.
///
/// Nothing is lost, and each source keeps its order. A source that was itself merged keeps no numbers of its own;
/// `Request::volume` stays an index into the table of the source it came from.
pub struct Interleaved<S> {
    lanes: Vec<Lane<S>>,
    /// Rule for merging them.
    pub rule: Interleave,
    dice: Dice,
    /// Lanes that have more requests, ascending; `None` before the first request.
    live: Option<Vec<usize>>,
    /// Lane that the current burst is from, and the operations left in it.
    burst_lane: usize,
    burst_left: u64,
}

impl<S: Source> Interleaved<S> {
    /// Merges `parts`. Fails where there are none or too many, or where their sizes exceed 2^63 bytes.
    pub fn new(
        parts: Vec<MergePart<S>>,
        rule: Interleave,
        placement: SourcePlacement,
        seed: u64,
    ) -> Result<Interleaved<S>, Error> {
        if parts.is_empty() || parts.len() > SOURCES_MAX {
            return Err(Error::Usage(format!("{} sources can't be merged: give 1 to {SOURCES_MAX}", parts.len())));
        }
        let first = first_sectors(parts.iter().map(|part| part.sectors), placement)?;
        let lane = |(number, (part, first)): (usize, (MergePart<S>, Lba))| Lane {
            source: part.source,
            number: number as u8,
            first,
            sectors: part.sectors,
            bounded: placement == SourcePlacement::EndToEnd,
            batch: Vec::new(),
            at: 0,
            read: 0,
        };
        let lanes = parts.into_iter().zip(first).enumerate().map(lane).collect();
        Ok(Interleaved { lanes, rule, dice: Dice::new(seed, STREAM), live: None, burst_lane: 0, burst_left: 0 })
    }

    /// The number of sources.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// One of the sources.
    pub fn source(&self, number: usize) -> &S {
        &self.lanes[number].source
    }

    /// First sector of a source, and its size in sectors.
    pub fn place(&self, number: usize) -> (Lba, u64) {
        (self.lanes[number].first, self.lanes[number].sectors)
    }

    /// Requests that a source has given so far.
    pub fn given(&self, number: usize) -> u64 {
        self.lanes[number].given()
    }

    /// The lane whose turn it is, of those that have more requests, and how many operations are left in its turn.
    #[inline]
    fn turn(&mut self, live: &[usize]) -> (usize, u64) {
        match self.rule {
            Interleave::None => (live[0], u64::MAX),
            Interleave::Time => {
                let head = |lane: usize| (self.lanes[lane].batch[self.lanes[lane].at].time, lane);
                let (mut first, mut second) = (head(live[0]), None);
                for other in live[1..].iter().map(|&lane| head(lane)) {
                    if other < first {
                        second = Some(std::mem::replace(&mut first, other));
                    } else if second.is_none_or(|second| other < second) {
                        second = Some(other);
                    }
                }
                // The turn takes all requests of the lane before the first one of any other, so that lanes are compared once for them.
                let (_, number) = first;
                let lane = &self.lanes[number];
                let is_before = |request: &&Request| second.is_none_or(|second| (request.time, number) < second);
                (number, 1 + lane.batch[lane.at + 1..].iter().take_while(is_before).count() as u64)
            }
            Interleave::Burst { operations } => {
                if self.burst_left == 0 {
                    self.burst_lane = live[self.dice.below(live.len() as u64) as usize];
                    self.burst_left = operations;
                }
                (self.burst_lane, self.burst_left)
            }
        }
    }
}

/// The first sector of each source.
fn first_sectors(sizes: impl Iterator<Item = u64>, placement: SourcePlacement) -> Result<Vec<Lba>, Error> {
    let (mut first, mut end) = (Vec::new(), 0_u64);
    for sectors in sizes {
        first.push(Lba(if placement == SourcePlacement::Zero { 0 } else { end }));
        end = match placement {
            SourcePlacement::Zero => end.max(sectors),
            SourcePlacement::EndToEnd => end.saturating_add(sectors),
        };
        if end > SECTORS_MAX {
            return Err(Error::Usage("the sources together exceed 2^63 bytes: use {sources} zero, or fewer".into()));
        }
    }
    Ok(first)
}

impl<S: Source> Source for Interleaved<S> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        let mut live = match self.live.take() {
            Some(live) => live,
            None => {
                let mut live = Vec::new();
                for (number, lane) in self.lanes.iter_mut().enumerate() {
                    if lane.has_more()? {
                        live.push(number);
                    }
                }
                live
            }
        };
        while batch.len() < InMemory::BATCH && !live.is_empty() {
            let (number, turn) = self.turn(&live);
            let lane = &mut self.lanes[number];
            let room = (InMemory::BATCH - batch.len()).min(lane.batch.len() - lane.at);
            let given = room.min(usize::try_from(turn).unwrap_or(room));
            batch.extend_from_slice(&lane.batch[lane.at..lane.at + given]);
            lane.at += given;
            self.burst_left = self.burst_left.saturating_sub(given as u64);
            if !lane.has_more()? {
                live.retain(|&lane| lane != number);
                // A burst ends with its source.
                self.burst_left = 0;
            }
        }
        self.live = Some(live);
        Ok(())
    }

    fn name(&self) -> PathBuf {
        let names: Vec<String> = self.lanes.iter().map(|lane| lane.source.name().display().to_string()).collect();
        names.join(" + ").into()
    }

    /// The mean progress of the sources, or the number of requests if one of them knows no end.
    fn progress(&self) -> Progress {
        let share = |lane: &Lane<S>| {
            let Progress { done, total } = lane.source.progress();
            let total = u128::from(total?);
            // An empty source is done.
            Some((u128::from(done) * u128::from(WHOLE)).checked_div(total).map_or(WHOLE, |share| share as u64))
        };
        match self.lanes.iter().map(share).sum::<Option<u64>>() {
            Some(done) => Progress { done, total: Some(WHOLE * self.lanes.len() as u64) },
            None => Progress { done: self.lanes.iter().map(Lane::given).sum(), total: None },
        }
    }

    fn sources(&self) -> usize {
        self.lanes.len()
    }
}

#[cfg(test)]
mod tests;
