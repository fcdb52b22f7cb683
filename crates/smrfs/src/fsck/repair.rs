//! The last pass: maps without what was wrong in them, and no parts that nobody names.
//!
//! Every step leaves the file system no worse than before, so that a repair that was cut short can be run again: the saved
//! free map goes first, a file's new record replaces its old one, and only then parts are removed.

use std::collections::BTreeSet;

use super::scan::{Fix, Scan};
use crate::error::{FsError, FsResult, SealFault};
use crate::fs::mount::STATE;
use crate::map::{self, Decoded, FileMap, Head, Stored};
use crate::meta::MetadataStore;
use crate::units::NodeId;

pub(super) fn run(store: &dyn MetadataStore, granule_bytes: u64, scan: &Scan, leaked: &[u64]) -> FsResult {
    store.remove_state(STATE)?;
    // Nobody takes a number twice, so that a part is never overwritten.
    let mut next = store.spills()?.into_iter().chain(scan.parts.iter().copied()).max().map_or(1, |last| last + 1);
    let mut obsolete: Vec<u64> = leaked.to_vec();
    for (&file, fix) in &scan.fixes {
        obsolete.extend(mend(store, granule_bytes, file, fix, &mut next)?);
    }
    store.sync_all()?;
    for number in still_leaked(store, obsolete)? {
        store.remove_spill(number)?;
    }
    store.sync_all()
}

/// Gives a file a map without what was wrong; tells what parts it no longer needs.
fn mend(store: &dyn MetadataStore, granule_bytes: u64, file: NodeId, fix: &Fix, next: &mut u64) -> FsResult<Vec<u64>> {
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
    Ok(stored.done(plan))
}

/// Of `parts` those that no map names now; none if there is a map that does not tell.
fn still_leaked(store: &dyn MetadataStore, mut parts: Vec<u64>) -> FsResult<Vec<u64>> {
    if parts.is_empty() {
        return Ok(parts);
    }
    let (mut named, mut blind) = (BTreeSet::new(), false);
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
            Err(FsError::Corrupt(_) | FsError::ForgedPart(_)) => blind = true,
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    parts.sort_unstable();
    parts.dedup();
    parts.retain(|part| !blind && !named.contains(part));
    Ok(parts)
}
