//! What takes commands as they arrive and answers them in its own time: a drive with its queue, or an array of such.

use crate::error::DiskResult;
use crate::layer::Gauges;
use crate::request::Op;
use crate::units::{Lba, Nanos};

/// What sectors hold in check mode, a word each; empty where nothing is held.
pub type Words = Vec<u64>;

/// A command on its way to a target.
#[derive(Clone, Debug)]
pub struct Command {
    /// Comes back with the answer.
    pub tag: u64,
    /// What is asked for.
    pub op: Op,
    /// The first sector.
    pub lba: Lba,
    /// How many.
    pub sectors: u32,
    /// Which of several merged sources it came from.
    pub source: u8,
    /// When it arrives.
    pub arrival: Nanos,
    /// Whether a request of the host waits for it.
    pub host: bool,
    /// What is written, in check mode.
    pub words: Words,
}

impl Command {
    /// The sector after the last.
    pub fn end(&self) -> Lba {
        self.lba + u64::from(self.sectors)
    }
}

/// What became of a command.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The command's.
    pub tag: u64,
    /// Its own service began.
    pub start: Nanos,
    /// It was answered.
    pub end: Nanos,
    /// What was read, in check mode.
    pub words: Words,
}

/// A drive with its queue, or an array. Time is the caller's: it lets what happens next happen, in order.
pub trait Target {
    /// Sectors offered.
    fn host_sectors(&self) -> u64;

    /// A command arrives, not before anything that has happened here.
    fn submit(&mut self, command: Command) -> DiskResult;

    /// When something happens next by itself; [`Nanos::MAX`] if nothing is under way.
    fn next(&self) -> Nanos;

    /// Lets what happens next happen. Returns what it answered; if that is several, adds the others to `more`. What it turns
    /// to then, [`Target::resume`] begins.
    fn advance(&mut self, more: &mut Vec<Answer>) -> DiskResult<Option<Answer>>;

    /// Whether [`Target::resume`] has anything to begin.
    fn rests(&self) -> bool;

    /// Begins what comes next, once all that comes at this moment is there: a drive that orders its commands sees all of
    /// them, as it does in the engine's own loop.
    fn resume(&mut self) -> DiskResult;

    /// The first moment since counting began at which a request of the host waited for cleaning; [`Nanos::MAX`] if none did.
    fn first_wait(&self) -> Nanos;

    /// Commands that have not been answered.
    fn outstanding(&self) -> usize;

    /// How far the head would have to go to `lba`, in any unit that compares members of one size.
    fn distance(&self, lba: Lba) -> u64;

    /// Sectors of persistent cache, of all members.
    fn cache_sectors(&self) -> u64;

    /// What the layers show of their state: means of the caches and of gauges that are shares, and sums of the rest.
    fn gauges(&self) -> Gauges;

    /// Counting starts anew at `now`.
    fn reset_counts(&mut self, now: Nanos) -> DiskResult;

    /// Checks every member's books, and in check mode reads back all that was written.
    fn finish(&mut self) -> DiskResult;
}

/// What several show together: the mean of the caches and of gauges that are shares (a sum of those says nothing), and sums of
/// the rest.
pub(super) fn joined(all: impl Iterator<Item = Gauges>) -> Gauges {
    let (mut fills, mut others): (Vec<f64>, Vec<(&'static str, f64, u32)>) = (Vec::new(), Vec::new());
    for gauges in all {
        fills.extend(gauges.cache_fill);
        for (name, value) in gauges.others {
            match others.iter_mut().find(|(known, _, _)| *known == name) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1),
                None => others.push((name, value, 1)),
            }
        }
    }
    let value = |(name, sum, count): (&'static str, f64, u32)| match name.contains("share") {
        true => (name, sum / f64::from(count)),
        false => (name, sum),
    };
    Gauges {
        cache_fill: (!fills.is_empty()).then(|| fills.iter().sum::<f64>() / fills.len() as f64),
        others: others.into_iter().map(value).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_averaged_over_those_that_have_them_and_the_rest_is_summed() {
        let of = |cache_fill, others: &[(&'static str, f64)]| Gauges { cache_fill, others: others.to_vec() };
        let all = [
            of(Some(0.5), &[("invalid_share", 0.25), ("map_bytes", 10.0)]),
            of(None, &[]),
            of(Some(1.0), &[("map_bytes", 5.0), ("invalid_share", 0.75)]),
        ];
        let joined = joined(all.into_iter());
        assert_eq!(joined.cache_fill, Some(0.75));
        assert_eq!(joined.others, [("invalid_share", 0.5), ("map_bytes", 15.0)]);
    }
}
