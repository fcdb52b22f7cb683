//! The second pass: what two maps name, or one map twice.
//!
//! If both say that they share, both keep it. Otherwise one of them is out of date: it was replaced, and its granules were given
//! to the other. So the file that changed last keeps them; within a file, the place nearest to its beginning does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::Findings;
use super::extent::Extent;
use super::report::Problem;
use super::scan::{Scan, changed};
use crate::error::FsResult;
use crate::meta::{MetadataStore, Time};
use crate::space::live::Live;
use crate::units::{Owner, Span};

/// Sorts the extents by their place on the disk; of those that overlap, one keeps the place.
pub(super) fn resolve(scan: &mut Scan, store: &dyn MetadataStore, findings: &mut Findings) -> FsResult {
    let mut extents = std::mem::take(&mut scan.extents);
    extents.sort_unstable();
    let mut kept = Vec::with_capacity(extents.len());
    let mut begin = 0;
    while begin < extents.len() {
        let mut end = begin + 1;
        let mut reach = extents[begin].span.end();
        while end < extents.len() && extents[end].span.at < reach {
            reach = reach.max(extents[end].span.end());
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
    several: &[Extent],
    scan: &mut Scan,
    store: &dyn MetadataStore,
    findings: &mut Findings,
) -> FsResult<Vec<Extent>> {
    let mut changes: BTreeMap<_, (Time, u64)> = BTreeMap::new();
    for extent in several {
        if let Entry::Vacant(entry) = changes.entry(extent.file) {
            entry.insert(changed(store, extent.file)?);
        }
    }
    let mut order: Vec<&Extent> = several.iter().collect();
    order.sort_by_key(|extent| (Reverse(changes[&extent.file]), extent.file, extent.first));
    let mut taken = Live::new();
    for extent in order {
        let mut at = extent.span.at;
        let others: Vec<(Span, Owner)> = taken.overlapping(extent.span).collect();
        for (other, owner) in others {
            let Some(common) = other.overlap(extent.span) else { continue };
            keep(&mut taken, extent, Span { at, count: common.at - at });
            let part = Extent { span: common, first: extent.first + (common.at - extent.span.at), ..*extent };
            if scan.sharing.contains(&extent.file) && scan.sharing.contains(&owner.file) {
                scan.shared.push(part);
            } else {
                let place = scan.hole(&part);
                findings.add(Problem::Overlap { place, kept_by: owner.file.0 });
            }
            at = common.end();
        }
        keep(&mut taken, extent, Span { at, count: extent.span.end() - at });
    }
    let kept = taken.overlapping(Span { at: several[0].span.at, count: u64::MAX - several[0].span.at.0 });
    Ok(kept.map(|(span, owner)| Extent { span, file: owner.file, first: owner.granule }).collect())
}

fn keep(taken: &mut Live, extent: &Extent, span: Span) {
    let owner = Owner { file: extent.file, granule: extent.first }.further(span.at - extent.span.at);
    taken.insert(span, owner);
}
