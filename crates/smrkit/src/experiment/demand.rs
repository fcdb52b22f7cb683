//! Demand on a system: a workload, a trace, requests in memory, or several merged; opened anew for each run.
//!
//! Traces are read in another crate, which implements [`Demand`] for its files.

use std::sync::Arc;

use crate::edit::{Edit, Edited, Packed, Taken};
use crate::error::Error;
use crate::interleave::{Interleave, Interleaved, MergePart, SourcePlacement};
use crate::request::{InMemory, Request, Source};
use crate::stats::outcome::{MergedSource, Replayed};
use crate::workload::Workload;

/// Remedy for a workload with addresses past the device.
pub(super) const GIVE_ROOM: &str =
    "add {fold} to take addresses modulo the capacity, or give a smaller {span} or a larger {capacity}";

/// Run for which a demand is opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    /// Sectors that every system of a comparison offers.
    pub host_sectors: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Its number among merged demands, from 0.
    pub nth: u8,
    /// True if the SHA-256 of a trace is wanted.
    pub hash: bool,
    /// True if the times of requests are to be sums of a trace's think times.
    pub think_times: bool,
}

impl Opening {
    /// Opens the only demand of a run on `host_sectors`, without a hash.
    pub fn new(host_sectors: u64, seed: u64) -> Opening {
        Opening { host_sectors, seed, nth: 0, hash: false, think_times: false }
    }
}

/// A demand on a system.
pub trait Demand: Send + Sync {
    /// The smallest disk that holds it, in sectors; `None` if it fits any disk.
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Its size if it is merged with others, in sectors; `None` if it takes a share of the space that the others leave.
    fn merged_sectors(&self) -> Result<Option<u64>, Error> {
        self.least_sectors()
    }

    /// Opens it for one run.
    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error>;

    /// Description for results, without what is found while it is served.
    fn describe(&self, opening: &Opening) -> Result<Replayed, Error> {
        Ok(self.open(&Opening { hash: true, ..*opening })?.describe())
    }

    /// Scans for volumes, before a run or after `Error::SecondVolume`.
    fn look_for_volumes(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Warnings about the demand, which are complete once it was run.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Rewords an error of a run: names the demand as the user did, and gives a remedy that fits this kind of demand.
    fn named(&self, error: Error) -> Error {
        error
    }

    /// True if a trace is part of it.
    fn has_trace(&self) -> bool {
        false
    }
}

/// A demand opened for one run.
pub trait Opened: Source {
    /// The inner demand, if this one only passes its requests on.
    fn inner_demand(&self) -> Option<&dyn Opened> {
        None
    }

    /// Description of the replay for results.
    fn describe(&self) -> Replayed {
        self.inner_demand().map_or_else(Replayed::default, |opened| opened.describe())
    }

    /// Refuses to replay a trace by its times if it has none, or if rows have a time before the first row's. Such rows count as simultaneous
    /// with the first, so that the engine can't notice the disorder.
    fn refuse_disorder(&self) -> Result<(), Error> {
        self.inner_demand().map_or(Ok(()), |opened| opened.refuse_disorder())
    }
}

/// A generated workload.
#[derive(Clone, Debug)]
pub struct GeneratedDemand {
    /// The workload.
    pub workload: Workload,
    /// The size of the disk that it assumes, in sectors; by default what every system of a comparison offers.
    pub span: Option<u64>,
}

impl From<Workload> for GeneratedDemand {
    fn from(workload: Workload) -> GeneratedDemand {
        GeneratedDemand { workload, span: None }
    }
}

impl Demand for GeneratedDemand {
    fn merged_sectors(&self) -> Result<Option<u64>, Error> {
        Ok(self.span)
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let sectors = self.span.unwrap_or(opening.host_sectors);
        let source = self.workload.nth_source(sectors, opening.seed, opening.nth)?;
        let (workload, workload_sectors) = (Some(self.workload.to_string()), Some(sectors));
        Ok(Box::new(Described::new(source, Replayed { workload, workload_sectors, ..Replayed::default() })))
    }

    fn named(&self, error: Error) -> Error {
        with_remedy(error, GIVE_ROOM)
    }
}

/// Requests in memory.
#[derive(Clone)]
pub struct Table(pub Arc<[Request]>);

impl Demand for Table {
    fn open(&self, _: &Opening) -> Result<Box<dyn Opened>, Error> {
        let source = Box::new(InMemory::new(Arc::clone(&self.0)));
        Ok(Box::new(Described::new(source, Replayed::default())))
    }
}

/// Gives an error about room this remedy, if the request would fit at another address.
pub(super) fn with_remedy(mut error: Error, remedy: &str) -> Error {
    if let Error::NoRoom(request) = &mut error
        && !request.is_too_large()
    {
        request.remedy = remedy.into();
    }
    error
}

/// A source with its description for results.
pub struct Described {
    /// Its requests.
    pub source: Box<dyn Source>,
    /// Description for results.
    pub replayed: Replayed,
    /// The error about the order of its trace's rows, if they can't be replayed by their times.
    pub disorder: Option<String>,
}

impl Described {
    /// Requests in order.
    pub fn new(source: Box<dyn Source>, replayed: Replayed) -> Described {
        Described { source, replayed, disorder: None }
    }
}

impl Source for Described {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.source.fill(batch)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }
}

impl Opened for Described {
    fn describe(&self) -> Replayed {
        self.replayed.clone()
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        let refuse = |why: &String| Error::input(self.replayed.trace.as_deref().unwrap_or("requests"), why.clone());
        self.disorder.as_ref().map_or(Ok(()), |why| Err(refuse(why)))
    }
}

impl Opened for Taken<Box<dyn Opened>> {
    fn inner_demand(&self) -> Option<&dyn Opened> {
        Some(&*self.source)
    }
}

impl Opened for Packed<Box<dyn Opened>> {
    fn inner_demand(&self) -> Option<&dyn Opened> {
        Some(&*self.source)
    }
}

/// A demand whose requests are edited.
pub struct EditedDemand {
    /// The demand.
    pub demand: Arc<dyn Demand>,
    /// Its edits.
    pub edit: Edit,
}

impl Demand for EditedDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        self.demand.least_sectors()
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        // The hash is computed separately, because the edited run may not read the trace to its end.
        let hashed = if opening.hash { Some(self.demand.describe(opening)?) } else { None };
        let source = self.edit.apply(self.demand.open(opening)?, opening.host_sectors);
        Ok(Box::new(EditedRequests { source, edit: self.edit.to_string(), hashed }))
    }

    fn look_for_volumes(&self) -> Result<(), Error> {
        self.demand.look_for_volumes()
    }

    fn warnings(&self) -> Vec<String> {
        self.demand.warnings()
    }

    fn named(&self, error: Error) -> Error {
        self.demand.named(error)
    }

    fn has_trace(&self) -> bool {
        self.demand.has_trace()
    }
}

struct EditedRequests {
    source: Edited<Box<dyn Opened>>,
    edit: String,
    hashed: Option<Replayed>,
}

impl EditedRequests {
    /// The demand below its three edits: `Edited` splits what is packed of what is taken.
    fn unedited(&self) -> &dyn Opened {
        let taken = &self.source.source.source;
        &*taken.source
    }
}

impl Source for EditedRequests {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.source.fill(batch)
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }
}

impl Opened for EditedRequests {
    fn inner_demand(&self) -> Option<&dyn Opened> {
        Some(self.unedited())
    }

    fn describe(&self) -> Replayed {
        let mut replayed = self.unedited().describe();
        if let Some(hashed) = &self.hashed {
            replayed.take_hashes(hashed);
        }
        Replayed { edit: Some(self.edit.clone()), ..replayed }
    }
}

/// Sizes of traces are rounded up to this many sectors (1 MiB), as those of a trace's volumes are.
pub const TRACE_ALIGNMENT: u64 = 2048;
/// Alignment of the workloads' shares of the remaining space: 4 KiB, in sectors.
const SHARE_ALIGNMENT: u64 = 8;
/// Remedy for addresses past the device, if a workload takes the remaining space, so that no size is known.
const NO_SIZE: &str =
    "add {fold} to take addresses modulo the capacity, give a larger {capacity}, or choose one {volume}";

/// Several demands, and how they are merged.
pub struct MergedDemand {
    demands: Vec<Box<dyn Demand>>,
    rule: Interleave,
    placement: SourcePlacement,
}

impl MergedDemand {
    /// `demands` merged by `rule`, at `placement`.
    pub fn new(demands: Vec<Box<dyn Demand>>, rule: Interleave, placement: SourcePlacement) -> MergedDemand {
        MergedDemand { demands, rule, placement }
    }

    /// The sizes that are known without a device; `None` for a workload without a span.
    fn known(&self) -> Result<Vec<Option<u64>>, Error> {
        self.demands.iter().map(|demand| demand.merged_sectors()).collect()
    }

    /// The sizes on devices of at least `host_sectors`. Laid end to end, workloads without a span share the space that the others leave.
    fn sizes(&self, host_sectors: u64) -> Result<Vec<u64>, Error> {
        let known = self.known()?;
        let without_span = known.iter().filter(|size| size.is_none()).count() as u64;
        let share = match self.placement {
            SourcePlacement::Zero => host_sectors,
            SourcePlacement::EndToEnd => {
                let taken = known.iter().flatten().fold(0, |sum, size| u64::saturating_add(sum, *size));
                let share = host_sectors.saturating_sub(taken) / without_span.max(1);
                share - share % SHARE_ALIGNMENT
            }
        };
        Ok(known.into_iter().map(|size| size.unwrap_or(share)).collect())
    }

    fn traces(&self) -> impl Iterator<Item = &dyn Demand> {
        self.demands.iter().map(|demand| &**demand).filter(|demand| demand.has_trace())
    }
}

impl Demand for MergedDemand {
    fn least_sectors(&self) -> Result<Option<u64>, Error> {
        if self.has_trace() { self.merged_sectors() } else { Ok(None) }
    }

    fn merged_sectors(&self) -> Result<Option<u64>, Error> {
        let Some(sizes) = self.known()?.into_iter().collect::<Option<Vec<u64>>>() else { return Ok(None) };
        Ok(Some(match self.placement {
            SourcePlacement::EndToEnd => sizes.iter().fold(0, |sum, size| u64::saturating_add(sum, *size)),
            SourcePlacement::Zero => sizes.iter().copied().max().unwrap_or(0),
        }))
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let mut parts = Vec::new();
        for (number, (demand, sectors)) in self.demands.iter().zip(self.sizes(opening.host_sectors)?).enumerate() {
            // More demands than fit in 8 bits are refused below.
            let opening = Opening { host_sectors: sectors, nth: number as u8, ..*opening };
            parts.push(MergePart { source: demand.open(&opening)?, sectors });
        }
        Ok(Box::new(Interleaved::new(parts, self.rule, self.placement, opening.seed)?))
    }

    fn describe(&self, opening: &Opening) -> Result<Replayed, Error> {
        let mut all = self.open(opening)?.describe();
        for (source, demand) in all.sources.iter_mut().flatten().zip(&self.demands) {
            // An opened trace has its hash once it was read to its end; `describe` reads the file for it.
            let own = demand.describe(&Opening { host_sectors: source.sectors, ..*opening })?;
            source.sha256 = own.trace_sha256;
        }
        Ok(all)
    }

    fn look_for_volumes(&self) -> Result<(), Error> {
        self.demands.iter().try_for_each(|demand| demand.look_for_volumes())
    }

    fn warnings(&self) -> Vec<String> {
        self.demands.iter().flat_map(|demand| demand.warnings()).collect()
    }

    fn named(&self, error: Error) -> Error {
        let error = if !self.has_trace() {
            with_remedy(error, GIVE_ROOM)
        } else if let Ok(None) = self.least_sectors() {
            with_remedy(error, NO_SIZE)
        } else {
            error
        };
        self.traces().fold(error, |error, trace| trace.named(error))
    }

    fn has_trace(&self) -> bool {
        self.traces().next().is_some()
    }
}

impl Opened for Interleaved<Box<dyn Opened>> {
    fn describe(&self) -> Replayed {
        let mut all = Replayed { interleave: Some(self.rule), ..Replayed::default() };
        let mut sources = Vec::with_capacity(self.len());
        for number in 0..self.len() {
            let own = self.source(number).describe();
            all.trace_notes = all.trace_notes + own.trace_notes;
            // Tables show a single reading: that of the first trace.
            all.trace_reading = all.trace_reading.take().or(own.trace_reading.clone());
            let (first, sectors) = self.place(number);
            sources.push(MergedSource {
                trace: own.trace,
                workload: own.workload,
                sha256: own.trace_sha256,
                trace_format: own.trace_format,
                trace_reading: own.trace_reading,
                sectors,
                first_lba: first.0,
                requests: self.given(number),
            });
        }
        Replayed { sources: Some(sources), ..all }
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        (0..self.len()).try_for_each(|number| self.source(number).refuse_disorder())
    }
}
