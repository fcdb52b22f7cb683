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
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::device::HostManaged;
use crate::error::{FsError, FsResult, SealFault};
use crate::fs::mount::{self, STATE};
use crate::map::{self, Decoded, FileMap, Head, Stored};
use crate::meta::{MetadataStore, Time};
use crate::space::Live;
use crate::units::{Granule, NodeId, Owner, Span};
use report::{Finding, Problem, Report, Verdict};
use scan::{Fix, continues};
use surface::Surface;

/// The most problems that a report lists; all are counted (assumption).
const LISTED_MAX: usize = 1000;

/// Options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsckOptions {
    /// Repair what can be repaired; otherwise nothing is changed.
    pub repair: bool,
    /// Read all data.
    pub read_all: bool,
    /// Take maps that were made for another owner as the files' own.
    pub accept_owners: bool,
}

/// Checks the file system on `device` with its names and maps in `store`, and repairs it if `options` say so. Nobody else may use either
/// meanwhile. Fails at errors of device and store that are no problem of the file system, such as a full disk.
pub fn check(device: &dyn HostManaged, store: &dyn MetadataStore, options: &FsckOptions) -> FsResult<Report> {
    let mut check = Check {
        device,
        store,
        options,
        surface: Surface::from_device(device)?,
        report: Report::default(),
        extents: Vec::new(),
        shared: Vec::new(),
        sharing: BTreeSet::new(),
        parts: BTreeSet::new(),
        fixes: BTreeMap::new(),
        without_map: HashSet::new(),
        marks: Vec::new(),
        of_other_owners: BTreeMap::new(),
        has_unknown_parts: false,
        buffer: Vec::new(),
    };
    check.run()?;
    Ok(check.report)
}

/// A check under way.
struct Check<'a> {
    device: &'a dyn HostManaged,
    store: &'a dyn MetadataStore,
    options: &'a FsckOptions,
    surface: Surface,
    report: Report,
    /// The extents of all maps: first in the order of the maps, then in that of the disk and without overlaps.
    extents: Vec<(Span, Owner)>,
    /// Shared extents, once for each further owner.
    shared: Vec<(Span, Owner)>,
    /// Files that may share extents with others.
    sharing: BTreeSet<NodeId>,
    /// Parts that maps name.
    parts: BTreeSet<u64>,
    fixes: BTreeMap<NodeId, Fix>,
    without_map: HashSet<NodeId>,
    /// The mark of each map. Copies have the same mark.
    marks: Vec<(u64, NodeId)>,
    /// Files whose maps were made for another owner, with the message.
    of_other_owners: BTreeMap<NodeId, String>,
    /// True if some map can't be read, so that its parts are unknown.
    has_unknown_parts: bool,
    /// Memory for data that is read.
    buffer: Vec<u8>,
}

impl Check<'_> {
    fn run(&mut self) -> FsResult {
        self.scan_maps()?;
        // Copies of maps are dropped first, so that they don't count as overlaps with their originals.
        self.resolve_marks()?;
        self.resolve_overlaps()?;
        (self.report.counts, self.report.bands) = self.surface.count(&self.extents);
        self.check_saved()?;
        let (store, repair) = (self.store, self.options.repair);
        store.check_attributes(repair, &mut |file, reason| {
            self.add_problem(Problem::BadAttribute { file: file.0, reason });
        })?;
        let leaked = self.leaked_parts()?;
        if repair && (self.report.found > 0 || !leaked.is_empty()) {
            self.repair(&leaked)?;
        }
        let report = &mut self.report;
        report.verdict = match report.found - report.repaired {
            0 if report.found == 0 => Verdict::Clean,
            0 => Verdict::Repaired,
            _ => Verdict::ErrorsLeft,
        };
        report.extents = self.extents.len() as u64;
        report.granules = self.extents.iter().map(|(span, _)| span.count).sum();
        report.parts = self.parts.len() as u64;
        report.leaked_parts = leaked.len() as u64;
        Ok(())
    }

    /// Reports a problem that a repair fixes.
    fn add_problem(&mut self, problem: Problem) {
        self.add_finding(Finding { problem, repaired: self.options.repair });
    }

    /// Reports a problem that can't be repaired.
    fn add_unrepairable(&mut self, problem: Problem) {
        self.add_finding(Finding { problem, repaired: false });
    }

    fn add_finding(&mut self, finding: Finding) {
        self.report.found += 1;
        self.report.repaired += u64::from(finding.repaired);
        if self.report.findings.len() < LISTED_MAX {
            self.report.findings.push(finding);
        }
    }

    /// Compares the saved free map with the maps, whose extents are in the order of the disk.
    fn check_saved(&mut self) -> FsResult {
        let Some(bytes) = self.store.load_state(STATE)? else { return Ok(()) };
        let reason = match mount::decode(&bytes, &self.surface.shape) {
            None => Some("it makes no sense".to_string()),
            Some(saved) => {
                let files: BTreeSet<NodeId> = saved.extents.iter().map(|(_, owner)| owner.file).collect();
                for file in files.into_iter().filter(|file| self.without_map.contains(file)).collect::<Vec<_>>() {
                    self.add_problem(Problem::LostMap { file: file.0 });
                }
                let saved = by_owner(&saved.extents, &saved.shared);
                let found = by_owner(&self.extents, &self.shared);
                difference(joined(saved.into_iter()), joined(found.into_iter()))
            }
        };
        if let Some(reason) = reason {
            self.add_problem(Problem::StaleState { name: STATE.to_string(), reason });
        }
        Ok(())
    }

    /// Sorts the extents by their place on the disk, and resolves overlaps.
    fn resolve_overlaps(&mut self) -> FsResult {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_unstable();
        let mut begin = 0;
        while begin < extents.len() {
            // The group of extents that overlap with another of the group. A long one may reach beyond several that follow it.
            let mut end = begin + 1;
            let mut reach = extents[begin].0.end();
            while end < extents.len() && extents[end].0.at < reach {
                reach = reach.max(extents[end].0.end());
                end += 1;
            }
            match &extents[begin..end] {
                [single] => self.extents.push(*single),
                overlapping => {
                    let resolved = self.resolve_overlap(overlapping)?;
                    self.extents.extend(resolved);
                }
            }
            begin = end;
        }
        Ok(())
    }

    /// Decides which of overlapping extents keep their granules; returns the remaining extents, in the order of the disk.
    fn resolve_overlap(&mut self, overlapping: &[(Span, Owner)]) -> FsResult<Vec<(Span, Owner)>> {
        let mut changes: BTreeMap<_, (Time, u64)> = BTreeMap::new();
        for (_, owner) in overlapping {
            if let Entry::Vacant(entry) = changes.entry(owner.file) {
                entry.insert(self.last_change(owner.file)?);
            }
        }
        // Files that changed last keep their data.
        let mut by_precedence = overlapping.to_vec();
        by_precedence.sort_by_key(|(_, owner)| (Reverse(changes[&owner.file]), owner.file, owner.granule));
        // Granules that extents with precedence over this one keep.
        let mut kept = Live::default();
        for (span, owner) in by_precedence {
            let mut at = span.at;
            let overlaps: Vec<(Span, Owner)> = kept.within(span).collect();
            for (common, keeper) in overlaps {
                // What lies before this overlap, if anything.
                kept.insert(Span { at, count: common.at - at }, owner.further(at - span.at));
                let part = (common, owner.further(common.at - span.at));
                if self.sharing.contains(&owner.file) && self.sharing.contains(&keeper.file) {
                    self.shared.push(part);
                } else {
                    let place = self.make_hole(part);
                    self.add_problem(Problem::Overlap { place, kept_by: keeper.file.0 });
                }
                at = common.end();
            }
            kept.insert(Span { at, count: span.end() - at }, owner.further(at - span.at));
        }
        Ok(kept.from(Granule(0)).collect())
    }

    /// Stores the fixes, and removes obsolete parts when all fixes are durable.
    fn repair(&self, leaked: &[u64]) -> FsResult {
        let store = self.store;
        store.remove_state(STATE)?;
        // New numbers are above all existing ones, so that no part is overwritten.
        let mut next = store.spills()?.into_iter().chain(self.parts.iter().copied()).max().map_or(1, |last| last + 1);
        let mut obsolete: Vec<u64> = leaked.to_vec();
        for (&file, fix) in &self.fixes {
            obsolete.extend(self.store_fix(file, fix, &mut next)?);
        }
        store.sync_all()?;
        for number in self.unnamed_parts(obsolete)? {
            store.remove_spill(number)?;
        }
        store.sync_all()
    }

    /// Stores a repaired map of a file; returns the parts that it no longer needs. A damaged map is kept in the store under another name.
    fn store_fix(&self, file: NodeId, fix: &Fix, next_part: &mut u64) -> FsResult<Vec<u64>> {
        let store = self.store;
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
        let (mut head, mut map, mut stored) = if is_empty {
            store.store_state(&format!("damaged-map.{file}"), &record)?;
            store.forget_mark(file)?;
            // Size and times of its own record are kept if they can be read; those of a forged record are not the file's.
            let summary = map::summary(&record).ok().filter(|_| is_own);
            (summary.map_or_else(Head::default, |summary| summary.head), FileMap::default(), Stored::new())
        } else {
            let Decoded { summary, map, stored } = map::decode(&record, |number| store.load_spill(number))?;
            (summary.head, map, stored)
        };
        for &(first, count) in &fix.holes {
            map.remove(first..first + count);
        }
        if fix.head || is_empty {
            head.promised = 0;
        }
        if i64::try_from(head.size).is_err() {
            head.size = map.end().saturating_mul(self.surface.shape.granule_bytes).min(i64::MAX as u64);
        }
        let mut number = || {
            *next_part += 1;
            *next_part - 1
        };
        let plan = stored.plan(&mut map, &head, store.map_bytes_max(), &mut number);
        plan.parts.iter().try_for_each(|(number, part)| store.store_spill(*number, part))?;
        plan.parts.iter().try_for_each(|(number, _)| store.sync_spill(*number))?;
        store.store_map(file, &plan.record)?;
        store.sync(file)?;
        Ok(stored.adopt(plan))
    }

    /// Returns those of `parts` that no map names now, or none of them if some map can't be read.
    fn unnamed_parts(&self, mut parts: Vec<u64>) -> FsResult<Vec<u64>> {
        if parts.is_empty() {
            return Ok(parts);
        }
        let (mut named, mut has_unknown_parts) = (BTreeSet::new(), false);
        self.store.inspect(&mut |_, found| {
            let record = match found {
                Ok(None) => return Ok(()),
                Ok(Some(map)) => map.record,
                Err(FsError::Seal(error)) => match error.fault {
                    SealFault::Owner { map, .. } => map.record,
                    _ => error.stored,
                },
                Err(error) => return Err(error),
            };
            match map::part_numbers(&record, |number| self.store.load_spill(number)) {
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
