//! A recount of the ledger, granule by granule, from what is readable and what is scarred.

use std::collections::VecDeque;

use super::ledger::{CaveatLedger, Tally};
use super::options::Rule;

/// Never written, or so long ago that it does not matter.
const NEVER: u64 = 0;

/// The disk spread out: for each granule whether it is readable and the number of its last write.
struct Flat {
    readable: Vec<bool>,
    order: Vec<u64>,
}

/// Compares tally and runs with what the labels of all granules say.
pub(super) fn recount(ledger: &CaveatLedger) -> Result<(), String> {
    let flat = Flat::from_ledger(ledger)?;
    let before = flat.before(ledger.did);
    let scarred = match ledger.rule {
        Rule::Lba => flat.scarred(ledger.dpid),
        Rule::Region => flat.scarred_regions(ledger.dpid),
    };
    let below = flat.below(ledger.dpid);
    let (mut tally, mut runs) = (Tally::default(), Vec::<(u64, u64, u64)>::new());
    for granule in 0..flat.order.len() {
        match (flat.readable[granule], before[granule], scarred[granule], below[granule]) {
            (true, ..) => continue,
            (_, true, ..) => tally.before += 1,
            (.., true, _) => tally.scar += 1,
            (.., below) => {
                *(if below { &mut tally.once } else { &mut tally.free }) += 1;
                let granule = granule as u64;
                match runs.last_mut() {
                    Some((_, end, _)) if *end == granule => *end += 1,
                    _ => runs.push((granule, granule + 1, granule)),
                }
                if let Some((_, end, solid)) = runs.last_mut()
                    && below
                {
                    *solid = *end;
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
        for (at, end, order) in ledger.readable.from(0) {
            flat.readable[at as usize..end as usize].fill(true);
            flat.order[at as usize..end as usize].fill(order);
        }
        for (at, end, order) in ledger.scars.from(0) {
            if let Some(granule) = (at..end).find(|&granule| flat.readable[granule as usize]) {
                return Err(format!("{granule} is readable and a scar"));
            }
            flat.order[at as usize..end as usize].fill(order);
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

    /// True if it lies in a region, DPID long, behind a run whose last DPID granules are not all newer than the region.
    fn scarred_regions(&self, dpid: u64) -> Vec<bool> {
        let dpid = dpid as usize;
        let granules = self.order.len();
        let mut scarred = vec![false; granules];
        for end in (1..=granules).filter(|&end| self.readable[end - 1] && (end == granules || !self.readable[end])) {
            let tail = (end.saturating_sub(dpid)..end).rev().take_while(|&granule| self.readable[granule]);
            let oldest = tail.map(|granule| self.order[granule]).min();
            let region = end..granules.min(end + dpid);
            let newest =
                region.clone().filter(|&granule| !self.readable[granule]).map(|granule| self.order[granule]).max();
            if oldest.zip(newest).is_some_and(|(oldest, newest)| newest >= oldest) {
                scarred[region].fill(true);
            }
        }
        scarred
    }
}
