//! The check of a file system that is not mounted: maps against the disk and each other, and what can be mended.
//!
//! It trusts the disk's report and the maps, in this order, and nothing else. Maps are read one at a time; of each extent 40
//! bytes are kept, and of each part 8. Left out: the tree of names (the conventional file system has a check of its own),
//! and whether shingling has damaged data, which only reading it tells.

mod overlap;
mod repair;
pub mod report;
mod scan;
mod surface;

use crate::device::HostManaged;
use crate::error::FsResult;
use crate::fs::mount::{self, STATE};
use crate::meta::MetadataStore;
use crate::units::{NodeId, Owner, Span};
use report::Findings;
use report::{Problem, Report};
use scan::{Scan, continues};
use surface::Surface;

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Mend what can be mended; otherwise nothing is changed.
    pub repair: bool,
    /// Read all data.
    pub read_all: bool,
    /// Number of problems that are listed; all are counted.
    pub listed: usize,
    /// Take maps that were made for another owner as the files' own.
    pub accept_owners: bool,
}

impl Default for FsckOptions {
    fn default() -> Self {
        FsckOptions { repair: false, read_all: false, listed: 1000, accept_owners: false }
    }
}

/// Checks the file system on `device` with its names and maps in `store`, and repairs it if `options` say so. Nobody else
/// may use either meanwhile. Errors: those of device and store that tell nothing of the file system, such as a full disk.
pub fn check(device: &dyn HostManaged, store: &dyn MetadataStore, options: &FsckOptions) -> FsResult<Report> {
    let mut findings =
        Findings { list: Vec::new(), listed: options.listed, found: 0, repaired: 0, repair: options.repair };
    let mut surface = Surface::from_device(device)?;
    let mut scan = Scan::default();
    scan.run(device, store, &surface, options.read_all, &mut findings)?;
    scan.settle_marks(store, options.accept_owners, &mut findings)?;
    overlap::resolve(&mut scan, store, &mut findings)?;
    surface.fill(&scan.extents);
    check_saved(device, store, &scan, &mut findings)?;
    store.check_attributes(options.repair, &mut |file, reason| {
        findings.add(Problem::BadAttribute { file: file.0, reason });
    })?;
    let leaked = scan.leaked(store)?;
    if options.repair && (findings.found > 0 || !leaked.is_empty()) {
        repair::run(store, device.shape().granule_bytes, &scan, &leaked)?;
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
        counts: surface.counts(),
        bands: surface.bands_by_fill(),
    })
}

/// Compares the saved free map with the maps; `scan` is in the order of the disk by now.
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
            let said = by_owner(&saved.extents, &saved.shared);
            let found = by_owner(&scan.extents, &scan.shared);
            difference(joined(said.into_iter()), joined(found.into_iter()))
        }
    };
    if let Some(reason) = reason {
        findings.add(Problem::StaleState { name: STATE.to_string(), reason });
    }
    Ok(())
}

/// Extents and what is shared of them, in the order of the disk; where anything is shared, in that of files and their places,
/// for it does not matter who is taken for the first owner.
fn by_owner(extents: &[(Span, Owner)], shared: &[(Span, Owner)]) -> Vec<(Span, Owner)> {
    let mut all = [extents, shared].concat();
    if !shared.is_empty() {
        all.sort_unstable_by_key(|(_, owner)| (owner.file, owner.granule));
    }
    all
}

/// The first place where the saved free map and the maps differ.
fn difference(
    mut said: impl Iterator<Item = (Span, Owner)>,
    mut found: impl Iterator<Item = (Span, Owner)>,
) -> Option<String> {
    loop {
        match (said.next(), found.next()) {
            (None, None) => return None,
            (said, found) if said == found => {}
            (Some((span, owner)), None) => {
                return Some(format!("it has {span} of file {}, the maps do not", owner.file));
            }
            (_, Some((span, owner))) => {
                return Some(format!("the maps have {span} of file {}, it does not", owner.file));
            }
        }
    }
}

/// Extents in the order of the disk; those that go on in the same file are one.
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
