//! Checks a file system that is not mounted: its maps against the disk and each other, and repairs what can be repaired.
//!
//! It trusts the disk's report and the maps, in this order, and nothing else. Maps are read one at a time; 40 bytes are kept for each
//! extent, and 8 for each part. Left out: the tree of names (the conventional file system has a check of its own), and whether shingling
//! has damaged data, which shows only when the data is read.
//!
//! Two maps may name the same granules. If both say that they share, both keep them. Otherwise one map is out of date, and its granules were
//! given to the other file since. So the file that changed last keeps them; within a file, the place nearest to its beginning does.
//!
//! Every step of a repair leaves the file system no worse than before, so that a repair that was interrupted can be run again:
//!
//! 1. The saved free map is removed.
//! 2. The new record of each file replaces the old one.
//! 3. Parts that no map names any more are removed.

pub mod report;
mod scan;
mod surface;

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::device::HostManaged;
use crate::error::{FsError, FsResult, SealFault};
use crate::fs::mount;
use crate::fs::mount::STATE;
use crate::map;
use crate::map::{Decoded, FileMap, Head, Stored};
use crate::meta::{MetadataStore, Time};
use crate::space::Live;
use crate::units::{Granule, NodeId, Owner, Span};
use report::{Findings, Problem, Report};
use scan::{Fix, Scan, continues, last_change};
use surface::Surface;

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Repair what can be repaired; otherwise nothing is changed.
    pub repair: bool,
    /// Read all data.
    pub read_all: bool,
    /// The most problems to list. All are counted.
    pub listed: usize,
    /// Take maps that were made for another owner as the files' own.
    pub accept_owners: bool,
}

impl Default for FsckOptions {
    fn default() -> Self {
        FsckOptions { repair: false, read_all: false, listed: 1000, accept_owners: false }
    }
}

/// Checks the file system on `device` with its names and maps in `store`, and repairs it if `options` say so. Nobody else may use either
/// meanwhile. Fails at errors of device and store that are no problem of the file system, such as a full disk.
pub fn check(device: &dyn HostManaged, store: &dyn MetadataStore, options: &FsckOptions) -> FsResult<Report> {
    let mut findings =
        Findings { list: Vec::new(), listed: options.listed, found: 0, repaired: 0, repair: options.repair };
    let mut surface = Surface::from_device(device)?;
    let mut scan = Scan::default();
    scan.run(device, store, &surface, options.read_all, &mut findings)?;
    scan.resolve_marks(store, options.accept_owners, &mut findings)?;
    resolve_overlaps(&mut scan, store, &mut findings)?;
    surface.fill(&scan.extents);
    check_saved(device, store, &scan, &mut findings)?;
    store.check_attributes(options.repair, &mut |file, reason| {
        findings.add(Problem::BadAttribute { file: file.0, reason });
    })?;
    let leaked = scan.leaked(store)?;
    if options.repair && (findings.found > 0 || !leaked.is_empty()) {
        repair(store, device.shape().granule_bytes, &scan, &leaked)?;
    }
    Ok(Report {
        verdict: findings.verdict(),
        found: findings.found,
        repaired: findings.repaired,
        findings: findings.list,
        files: scan.files,
        extents: scan.extents.len() as u64,
        granules: scan.extents.iter().map(|(span, _)| span.count).sum(),
        behind_end: scan.behind_end,
        parts: scan.parts.len() as u64,
        leaked_parts: leaked.len() as u64,
        read: scan.read,
        counts: surface.counts,
        bands: surface.bands_by_fill(),
    })
}

/// Compares the saved free map with the maps. `scan` has been sorted in the order of the disk.
fn check_saved(device: &dyn HostManaged, store: &dyn MetadataStore, scan: &Scan, findings: &mut Findings) -> FsResult {
    let Some(bytes) = store.load_state(STATE)? else { return Ok(()) };
    let reason = match mount::decode(&bytes, device.shape()) {
        None => Some("it makes no sense".to_string()),
        Some(saved) => {
            let mut files: Vec<NodeId> = saved.extents.iter().map(|(_, owner)| owner.file).collect();
            files.sort_unstable();
            files.dedup();
            for file in files.into_iter().filter(|file| scan.without_map.contains(file)) {
                findings.add(Problem::LostMap { file: file.0 });
            }
            let saved = by_owner(&saved.extents, &saved.shared);
            let found = by_owner(&scan.extents, &scan.shared);
            difference(joined(saved.into_iter()), joined(found.into_iter()))
        }
    };
    if let Some(reason) = reason {
        findings.add(Problem::StaleState { name: STATE.to_string(), reason });
    }
    Ok(())
}

/// Joins extents and shared extents in an order that makes two lists comparable: that of the disk, or if any are shared, that of files and
/// their granules, because it does not matter which owner of an extent is listed first.
fn by_owner(extents: &[(Span, Owner)], shared: &[(Span, Owner)]) -> Vec<(Span, Owner)> {
    let mut all = [extents, shared].concat();
    if !shared.is_empty() {
        all.sort_unstable_by_key(|(_, owner)| (owner.file, owner.granule));
    }
    all
}

/// Says where the saved free map and the maps first differ.
fn difference(
    mut saved: impl Iterator<Item = (Span, Owner)>,
    mut found: impl Iterator<Item = (Span, Owner)>,
) -> Option<String> {
    loop {
        match (saved.next(), found.next()) {
            (None, None) => return None,
            (saved, found) if saved == found => {}
            (Some((span, owner)), None) => {
                return Some(format!("it has {span} of file {}, the maps do not", owner.file));
            }
            (_, Some((span, owner))) => {
                return Some(format!("the maps have {span} of file {}, it does not", owner.file));
            }
        }
    }
}

/// Extents in the order of the disk, with contiguous ones of a file joined.
fn joined(extents: impl Iterator<Item = (Span, Owner)>) -> impl Iterator<Item = (Span, Owner)> {
    let mut extents = extents.filter(|(span, _)| !span.is_empty()).peekable();
    std::iter::from_fn(move || {
        let mut first = extents.next()?;
        while let Some(next) = extents.next_if(|next| continues(first, *next)) {
            first.0.count += next.0.count;
        }
        Some(first)
    })
}

/// Sorts the extents by their place on the disk, and resolves overlaps.
fn resolve_overlaps(scan: &mut Scan, store: &dyn MetadataStore, findings: &mut Findings) -> FsResult {
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
            [single] => kept.push(*single),
            several => kept.extend(resolve_overlap(several, scan, store, findings)?),
        }
        begin = end;
    }
    scan.extents = kept;
    Ok(())
}

/// Decides which of overlapping extents keep their granules; returns the remaining extents, in the order of the disk.
fn resolve_overlap(
    several: &[(Span, Owner)],
    scan: &mut Scan,
    store: &dyn MetadataStore,
    findings: &mut Findings,
) -> FsResult<Vec<(Span, Owner)>> {
    let mut changes: BTreeMap<_, (Time, u64)> = BTreeMap::new();
    for (_, owner) in several {
        if let Entry::Vacant(entry) = changes.entry(owner.file) {
            entry.insert(last_change(store, owner.file)?);
        }
    }
    let mut order = several.to_vec();
    order.sort_by_key(|(_, owner)| (Reverse(changes[&owner.file]), owner.file, owner.granule));
    let mut taken = Live::new();
    for (span, owner) in order {
        let mut at = span.at;
        let overlaps: Vec<(Span, Owner)> = taken.within(span).collect();
        for (common, keeper) in overlaps {
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

/// Stores the fixes, and removes obsolete parts when all fixes are durable.
fn repair(store: &dyn MetadataStore, granule_bytes: u64, scan: &Scan, leaked: &[u64]) -> FsResult {
    store.remove_state(STATE)?;
    // New numbers are above all existing ones, so that no part is overwritten.
    let mut next = store.spills()?.into_iter().chain(scan.parts.iter().copied()).max().map_or(1, |last| last + 1);
    let mut obsolete: Vec<u64> = leaked.to_vec();
    for (&file, fix) in &scan.fixes {
        obsolete.extend(store_fix(store, granule_bytes, file, fix, &mut next)?);
    }
    store.sync_all()?;
    for number in unnamed_parts(store, obsolete)? {
        store.remove_spill(number)?;
    }
    store.sync_all()
}

/// Stores a repaired map of a file; returns the parts that it no longer needs. A damaged map is kept in the store under another name.
fn store_fix(
    store: &dyn MetadataStore,
    granule_bytes: u64,
    file: NodeId,
    fix: &Fix,
    next: &mut u64,
) -> FsResult<Vec<u64>> {
    let (record, is_own) = match store.load_map(file) {
        Ok(Some(record)) => (record, true),
        Ok(None) => return Ok(Vec::new()),
        Err(FsError::Seal(error)) => match error.fault {
            SealFault::Owner { map, .. } if fix.reseal => (map.record, true),
            _ => (error.stored, false),
        },
        Err(error) => return Err(error),
    };
    let is_empty = fix.empty || !is_own;
    let (mut head, mut map, mut stored) = match is_empty {
        false => {
            let Decoded { summary, map, stored } = map::decode(&record, |number| store.load_spill(number))?;
            (summary.head, map, stored)
        }
        true => {
            store.store_state(&format!("damaged-map.{file}"), &record)?;
            store.forget_mark(file)?;
            (
                map::summary(&record).ok().filter(|_| is_own).map_or_else(Head::default, |summary| summary.head),
                FileMap::new(),
                Stored::new(),
            )
        }
    };
    for &(first, count) in &fix.holes {
        map.remove(first..first + count);
    }
    if fix.head || is_empty {
        head.promised = 0;
    }
    if i64::try_from(head.size).is_err() {
        head.size = map.end().saturating_mul(granule_bytes).min(i64::MAX as u64);
    }
    let mut number = || {
        *next += 1;
        *next - 1
    };
    let plan = stored.plan(&mut map, &head, store.map_bytes_max(), &mut number);
    plan.parts.iter().try_for_each(|(number, part)| store.store_spill(*number, part))?;
    plan.parts.iter().try_for_each(|(number, _)| store.sync_spill(*number))?;
    store.store_map(file, &plan.record)?;
    store.sync(file)?;
    Ok(stored.adopt(plan))
}

/// Returns those of `parts` that no map names now, or none of them if some map can't be read.
fn unnamed_parts(store: &dyn MetadataStore, mut parts: Vec<u64>) -> FsResult<Vec<u64>> {
    if parts.is_empty() {
        return Ok(parts);
    }
    let (mut named, mut has_unknown_parts) = (BTreeSet::new(), false);
    store.inspect(&mut |_, found| {
        let record = match found {
            Ok(None) => return Ok(()),
            Ok(Some(map)) => map.record,
            Err(FsError::Seal(error)) => match error.fault {
                SealFault::Owner { map, .. } => map.record,
                _ => error.stored,
            },
            Err(error) => return Err(error),
        };
        match map::part_numbers(&record, |number| store.load_spill(number)) {
            Ok(numbers) => named.extend(numbers),
            Err(FsError::Corrupt(_) | FsError::ForgedPart(_)) => has_unknown_parts = true,
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    parts.sort_unstable();
    parts.dedup();
    parts.retain(|part| !has_unknown_parts && !named.contains(part));
    Ok(parts)
}
