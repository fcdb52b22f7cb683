//! The second pass: what two maps name, or one map twice.
//!
//! If both say that they share, both keep it. Otherwise one of them is out of date: it was replaced, and its granules were given
//! to the other. So the file that changed last keeps them; within a file, the place nearest to its beginning does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Findings;
use super::report::Problem;
use super::scan::{Scan, changed};
use crate::error::FsResult;
use crate::meta::{MetadataStore, Time};
use crate::space::live::Live;
use crate::units::{Granule, Owner, Span};

/// Sorts the extents by their place on the disk; of those that overlap, one keeps the place.
pub(super) fn resolve(scan: &mut Scan, store: &dyn MetadataStore, findings: &mut Findings) -> FsResult {
    let mut extents = std::mem::take(&mut scan.extents);
    extents.sort_unstable();
    let mut kept = Vec::with_capacity(extents.len());
    let mut begin = 0;
    while begin < extents.len() {
        let mut end = begin + 1;
        let mut reach = extents[begin].0.end();
        while end < extents.len() && extents[end].0.at < reach {
            reach = reach.max(extents[end].0.end());
            end += 1;
        }
        match &extents[begin..end] {
            [alone] => kept.push(*alone),
            several => kept.extend(settle(several, scan, store, findings)?),
        }
        begin = end;
    }
    scan.extents = kept;
    Ok(())
}

/// Decides who keeps what of extents that overlap; tells what is left, in the order of the disk.
fn settle(
    several: &[(Span, Owner)],
    scan: &mut Scan,
    store: &dyn MetadataStore,
    findings: &mut Findings,
) -> FsResult<Vec<(Span, Owner)>> {
    let mut changes: BTreeMap<_, (Time, u64)> = BTreeMap::new();
    for (_, owner) in several {
        if let Entry::Vacant(entry) = changes.entry(owner.file) {
            entry.insert(changed(store, owner.file)?);
        }
    }
    let mut order = several.to_vec();
    order.sort_by_key(|(_, owner)| (Reverse(changes[&owner.file]), owner.file, owner.granule));
    let mut taken = Live::new();
    for (span, owner) in order {
        let mut at = span.at;
        let others: Vec<(Span, Owner)> = taken.overlapping(span).collect();
        for (other, keeper) in others {
            let Some(common) = other.overlap(span) else { continue };
            taken.insert(Span { at, count: common.at - at }, owner.further(at - span.at));
            let part = (common, owner.further(common.at - span.at));
            if scan.sharing.contains(&owner.file) && scan.sharing.contains(&keeper.file) {
                scan.shared.push(part);
            } else {
                let place = scan.hole(part);
                findings.add(Problem::Overlap { place, kept_by: keeper.file.0 });
            }
            at = common.end();
        }
        taken.insert(Span { at, count: span.end() - at }, owner.further(at - span.at));
    }
    Ok(taken.from(Granule(0)).collect())
}
