//! What is kept step by step, compared with a recount.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use super::Caveat;
use super::ledger::{CaveatLedger, Order, Tally, WritableRun, WritableRuns};
use crate::units::Granule;

impl Caveat {
    pub(super) fn recount(&self) -> Result<(), String> {
        let ledger = &self.ledger;
        let readable = ledger.readable.count();
        if readable != self.live.granules() + self.retired.count() {
            return Err(format!(
                "{readable} granules are readable, {} live, {} retired",
                self.live.granules(),
                self.retired.count()
            ));
        }
        let all = self.live.from(Granule(0)).map(|(span, _)| span);
        for span in all.chain(self.retired.iter().map(|(range, ())| range.into())) {
            if ledger.readable.count_within(span.range()) != span.count {
                return Err(format!("{span} is live or retired, and not readable"));
            }
        }
        recount(ledger)
    }
}

impl WritableRuns {
    /// All runs in ascending order.
    pub(super) fn all(&self) -> impl Iterator<Item = WritableRun> + '_ {
        self.by_start.iter().map(|(&from, &(to, solid))| WritableRun { from, to, solid })
    }

    /// True if the three indexes say the same.
    fn agree(&self) -> bool {
        let lengths: BTreeSet<(u64, u64)> = self.all().map(|run| (run.to - run.from, run.from)).collect();
        let solid = self.all().map(|run| (run.from, run.to - run.solid));
        let roomy: BTreeMap<u64, u64> = solid.filter(|&(_, solid)| solid >= self.unit).collect();
        lengths == self.by_length && roomy == self.roomy && roomy.values().sum::<u64>() == self.roomy_granules
    }
}

/// Never written, or so long ago that it does not matter.
const NEVER: u64 = 0;

/// The disk spread out: for each granule whether it is readable and the number of its last write.
struct Flat {
    readable: Vec<bool>,
    order: Vec<u64>,
}

/// Compares tally and runs with what the labels of all granules say.
fn recount(ledger: &CaveatLedger) -> Result<(), String> {
    let flat = Flat::from_ledger(ledger)?;
    let before = flat.before(ledger.did);
    let scarred = flat.scarred(ledger.dpid);
    let below = flat.below(ledger.dpid);
    let (mut tally, mut runs) = (Tally::default(), Vec::<WritableRun>::new());
    for granule in 0..flat.order.len() {
        match (flat.readable[granule], before[granule], scarred[granule], below[granule]) {
            (true, ..) => continue,
            (_, true, ..) => tally.before += 1,
            (.., true, _) => tally.scar += 1,
            (.., below) => {
                *(if below { &mut tally.once } else { &mut tally.free }) += 1;
                let granule = granule as u64;
                match runs.last_mut() {
                    Some(run) if run.to == granule => run.to += 1,
                    _ => runs.push(WritableRun { from: granule, to: granule + 1, solid: granule }),
                }
                if let Some(run) = runs.last_mut()
                    && below
                {
                    run.solid = run.to;
                }
            }
        }
    }
    if tally != ledger.tally {
        return Err(format!("counted step by step {:?}, recounted {tally:?}", ledger.tally));
    }
    if let Some((kept, found)) = ledger.runs.all().zip(runs.iter().copied()).find(|(kept, found)| kept != found) {
        return Err(format!("a writable run is kept as {kept:?} and found as {found:?}"));
    }
    if ledger.runs.all().count() != runs.len() || !ledger.runs.agree() {
        return Err(format!("{} writable runs are kept, {} found", ledger.runs.all().count(), runs.len()));
    }
    Ok(())
}

impl Flat {
    fn from_ledger(ledger: &CaveatLedger) -> Result<Flat, String> {
        let granules = ledger.granules as usize;
        let mut flat = Flat { readable: vec![false; granules], order: vec![NEVER; granules] };
        for (Range { start, end }, &Order(order)) in ledger.readable.iter() {
            flat.readable[start as usize..end as usize].fill(true);
            flat.order[start as usize..end as usize].fill(order);
        }
        for (Range { start, end }, &Order(order)) in ledger.scars.iter() {
            if let Some(granule) = (start..end).find(|&granule| flat.readable[granule as usize]) {
                return Err(format!("{granule} is readable and a scar"));
            }
            flat.order[start as usize..end as usize].fill(order);
        }
        Ok(flat)
    }

    /// True if readable data follows within DID.
    fn before(&self, did: u64) -> Vec<bool> {
        let mut next = u64::MAX;
        let mut found: Vec<bool> = (0..self.order.len())
            .rev()
            .map(|granule| {
                let before = next <= granule as u64 + did;
                if self.readable[granule] {
                    next = granule as u64;
                }
                before
            })
            .collect();
        found.reverse();
        found
    }

    /// True if readable data lies within DPID above.
    fn below(&self, dpid: u64) -> Vec<bool> {
        let mut end = None;
        (0..self.order.len() as u64)
            .map(|granule| {
                let below = end.is_some_and(|end| granule < end + dpid);
                if self.readable[granule as usize] {
                    end = Some(granule + 1);
                }
                below
            })
            .collect()
    }

    /// True if readable data that is not newer lies within DPID above.
    fn scarred(&self, dpid: u64) -> Vec<bool> {
        let mut oldest: VecDeque<usize> = VecDeque::new();
        (0..self.order.len())
            .map(|granule| {
                while oldest.front().is_some_and(|&above| (above as u64) + dpid < granule as u64) {
                    oldest.pop_front();
                }
                let scarred = oldest.front().is_some_and(|&above| self.order[above] <= self.order[granule]);
                if self.readable[granule] {
                    while oldest.back().is_some_and(|&above| self.order[above] >= self.order[granule]) {
                        oldest.pop_back();
                    }
                    oldest.push_back(granule);
                }
                scarred
            })
            .collect()
    }
}
