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
use crate::meta::MetadataStore;
use crate::units::Span;
use report::{Finding, Problem, Report, Verdict};
use scan::Scan;
use surface::Surface;

/// A saved free map: its name in the store, and how to read it. `live` tells what it says is live; none if it makes no sense.
pub struct Saved<'a> {
    /// Its name in the store.
    pub name: &'a str,
    /// Reads it.
    pub live: &'a dyn Fn(&[u8]) -> Option<Vec<Span>>,
}

/// What to check.
pub struct Options<'a> {
    /// Mend what can be mended; otherwise nothing is changed.
    pub repair: bool,
    /// Read all data.
    pub read_all: bool,
    /// How many problems are listed; all are counted.
    pub listed: usize,
    /// The saved free map, if there may be one.
    pub saved: Option<Saved<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { repair: false, read_all: false, listed: 1000, saved: None }
    }
}

/// The problems so far.
struct Findings {
    list: Vec<Finding>,
    listed: usize,
    found: u64,
    repaired: u64,
    repair: bool,
}

impl Findings {
    /// Notes a problem that a repair mends.
    fn add(&mut self, problem: Problem) {
        self.note(problem, self.repair);
    }

    /// Notes a problem that nothing here can mend.
    fn add_left(&mut self, problem: Problem) {
        self.note(problem, false);
    }

    fn note(&mut self, problem: Problem, repaired: bool) {
        self.found += 1;
        self.repaired += u64::from(repaired);
        if self.list.len() < self.listed {
            self.list.push(Finding { problem, repaired });
        }
    }

    fn verdict(&self) -> Verdict {
        match self.found - self.repaired {
            0 if self.found == 0 => Verdict::Clean,
            0 => Verdict::Repaired,
            _ => Verdict::ErrorsLeft,
        }
    }
}

/// Checks the file system on `device` with its names and maps in `store`, and repairs it if `options` say so. Nobody else
/// may use either meanwhile. Errors: those of device and store that tell nothing of the file system, such as a full disk.
pub fn check(device: &dyn HostManaged, store: &dyn MetadataStore, options: &Options<'_>) -> FsResult<Report> {
    let mut findings =
        Findings { list: Vec::new(), listed: options.listed, found: 0, repaired: 0, repair: options.repair };
    let mut surface = Surface::of(device)?;
    let mut scan = Scan::default();
    scan.run(device, store, &surface, options.read_all, &mut findings)?;
    overlap::resolve(&mut scan, store, &mut findings)?;
    surface.fill(&scan.extents);
    if let Some(saved) = &options.saved {
        check_saved(store, saved, &scan, &mut findings)?;
    }
    let leaked = scan.leaked(store)?;
    for &part in &leaked {
        findings.add(Problem::LeakedPart { part });
    }
    if options.repair && findings.found > 0 {
        let saved = options.saved.as_ref().map(|saved| saved.name);
        repair::run(store, device.shape().granule_bytes, &scan, &leaked, saved)?;
    }
    Ok(Report {
        verdict: findings.verdict(),
        found: findings.found,
        repaired: findings.repaired,
        findings: findings.list,
        files: scan.files,
        extents: scan.extents.len() as u64,
        granules: scan.extents.iter().map(|extent| extent.span.count).sum(),
        behind_end: scan.behind_end,
        parts: scan.parts.len() as u64,
        read: scan.read,
        counts: surface.counts(),
        bands: surface.bands_by_fill(),
    })
}

/// Compares a saved free map with the maps; `scan` is in the order of the disk by now.
fn check_saved(store: &dyn MetadataStore, saved: &Saved<'_>, scan: &Scan, findings: &mut Findings) -> FsResult {
    let Some(bytes) = store.load_state(saved.name)? else { return Ok(()) };
    let reason = match (saved.live)(&bytes) {
        None => Some("it makes no sense".to_string()),
        Some(mut live) => {
            live.sort_unstable();
            let said = joined(live.into_iter());
            let found = joined(scan.extents.iter().map(|extent| extent.span));
            let differs = said.iter().zip(&found).find(|(said, found)| said != found);
            match differs {
                Some((said, found)) => Some(format!("it has {said} where the maps have {found}")),
                None if said.len() != found.len() => Some("it ends too early or too late".to_string()),
                None => None,
            }
        }
    };
    if let Some(reason) = reason {
        findings.add(Problem::StaleState { name: saved.name.to_string(), reason });
    }
    Ok(())
}

/// Spans in the order of the disk; those that touch are one.
fn joined(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    for span in spans.filter(|span| !span.is_empty()) {
        match out.last_mut().filter(|last| last.end() == span.at) {
            Some(last) => last.count += span.count,
            None => out.push(span),
        }
    }
    out
}
