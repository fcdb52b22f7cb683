//! Several demands as one: how large each is, where it goes, and what a result says of it.

use crate::error::Error;
use crate::experiment::demand::{Demand, GIVE_ROOM, Opened, Opening, with_remedy};
use crate::interleave::{Interleave, Interleaved, MergePart, SourcePlacement};
use crate::stats::outcome::{MergedSource, Replayed};

/// Sizes of traces end at multiples of 1 MiB, in sectors, as the volumes of a trace do.
pub const TRACE_ALIGNMENT: u64 = 2048;
/// Alignment of workloads' shares of the rest: whole blocks of 4 KiB, in sectors.
const SHARE_ALIGNMENT: u64 = 8;
/// Remedy where addresses lie past the device, and a workload takes what there is, so that no size is known.
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

    /// The sizes on devices of at least `host_sectors`. Laid end to end, workloads without a span share what the others
    /// leave.
    fn sizes(&self, host_sectors: u64) -> Result<Vec<u64>, Error> {
        let known = self.known()?;
        let open = known.iter().filter(|size| size.is_none()).count() as u64;
        let share = match self.placement {
            SourcePlacement::Zero => host_sectors,
            SourcePlacement::EndToEnd => {
                let taken = known.iter().flatten().fold(0, |sum, size| u64::saturating_add(sum, *size));
                let share = host_sectors.saturating_sub(taken) / open.max(1);
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

    /// Each is as large as ever, also where they lie elsewhere than they say.
    fn open(&self, opening: &Opening) -> Result<Box<dyn Opened>, Error> {
        let is_weighted = matches!(self.rule, Interleave::Burst { weighted: true, .. });
        let mut parts = Vec::new();
        for (number, (demand, sectors)) in self.demands.iter().zip(self.sizes(opening.host_sectors)?).enumerate() {
            // More than can be numbered are refused below.
            let opening = Opening { host_sectors: sectors, nth: number as u8, placement: None, ..*opening };
            let requests = if is_weighted { Some(demand.count(&opening)?) } else { None };
            parts.push(MergePart { source: demand.open(&opening)?, sectors, requests });
        }
        let placement = opening.placement.unwrap_or(self.placement);
        Ok(Box::new(Interleaved::new(parts, self.rule, placement, opening.seed)?))
    }

    fn describe(&self, opening: &Opening) -> Result<Replayed, Error> {
        let mut all = self.open(opening)?.describe();
        for (source, demand) in all.sources.iter_mut().flatten().zip(&self.demands) {
            let own = demand.describe(&Opening { host_sectors: source.sectors, placement: None, ..*opening })?;
            source.sha256 = own.trace_sha256.or(own.requests_sha256);
        }
        Ok(all)
    }

    fn look_for_volumes(&self) -> Result<(), Error> {
        self.demands.iter().try_for_each(|demand| demand.look_for_volumes())
    }

    fn named(&self, error: Error) -> Error {
        let error = match self.least_sectors() {
            _ if !self.has_trace() => with_remedy(error, GIVE_ROOM),
            Ok(None) => with_remedy(error, NO_SIZE),
            _ => error,
        };
        self.traces().fold(error, |error, trace| trace.named(error))
    }

    fn has_trace(&self) -> bool {
        self.traces().next().is_some()
    }
}

impl Opened for Interleaved<Box<dyn Opened>> {
    fn describe(&self) -> Replayed {
        let mut all = Replayed { interleave: Some(self.rule()), ..Replayed::default() };
        let source = |number: usize| {
            let own = self.source(number).describe();
            let (notes, more) = (&mut all.trace_notes, own.trace_notes);
            notes.skipped_rows += more.skipped_rows;
            notes.unaligned_rows += more.unaligned_rows;
            notes.out_of_order_rows += more.out_of_order_rows;
            all.trace_reading = all.trace_reading.take().or(own.trace_reading.clone());
            let (first, sectors) = self.place(number);
            MergedSource {
                trace: own.trace,
                workload: own.workload,
                sha256: own.trace_sha256.or(own.requests_sha256),
                trace_format: own.trace_format,
                trace_reading: own.trace_reading,
                sectors,
                first_lba: first.0,
                requests: self.given(number),
            }
        };
        let sources = (0..self.len()).map(source).collect();
        Replayed { sources: Some(sources), ..all }
    }

    fn refuse_disorder(&self) -> Result<(), Error> {
        (0..self.len()).try_for_each(|number| self.source(number).refuse_disorder())
    }
}
