//! Several traces and workloads as one input: how large each is, where it goes, and what a result says of it.

use smrkit::error::Error;
use smrkit::interleave::{Interleave, Interleaved, Part, Placement};
use smrkit::request::Source;
use smrkit::stats::outcome::{MergedSource, Replayed};

use crate::input::{Input, Opened};

/// Traces end at multiples of 1 MiB, in sectors, as the volumes of a trace do.
const TRACE_ALIGNMENT: u64 = 2048;
/// What workloads are left is shared out in whole blocks of 4 KiB, in sectors.
const SHARE_ALIGNMENT: u64 = 8;

/// Several inputs, none of them merged itself, and how they are merged.
pub struct Merged {
    inputs: Vec<Input>,
    rule: Interleave,
    placement: Placement,
}

impl Merged {
    pub fn new(inputs: Vec<Input>, rule: Interleave, placement: Placement) -> Merged {
        Merged { inputs, rule, placement }
    }

    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The sizes that are known without a device; `None` for a workload without --span.
    fn known(&self) -> Result<Vec<Option<u64>>, Error> {
        let size = |input: &Input| match input {
            Input::Trace(trace) => Ok(Some(trace.footprint_end()?.next_multiple_of(TRACE_ALIGNMENT))),
            Input::Workload(_, span) => Ok(*span),
            Input::Merged(merged) => merged.least_sectors(),
        };
        self.inputs.iter().map(size).collect()
    }

    /// The smallest device that holds all; `None` where a workload takes what there is.
    pub fn least_sectors(&self) -> Result<Option<u64>, Error> {
        let Some(sizes) = self.known()?.into_iter().collect::<Option<Vec<u64>>>() else { return Ok(None) };
        Ok(Some(match self.placement {
            Placement::EndToEnd => sizes.iter().fold(0, |sum, size| u64::saturating_add(sum, *size)),
            Placement::Zero => sizes.iter().copied().max().unwrap_or(0),
        }))
    }

    /// The size of each on devices of at least `host_sectors`. Laid end to end, workloads without --span share what the
    /// others leave.
    fn sizes(&self, host_sectors: u64) -> Result<Vec<u64>, Error> {
        let known = self.known()?;
        let open = known.iter().filter(|size| size.is_none()).count() as u64;
        let share = match self.placement {
            Placement::Zero => host_sectors,
            Placement::EndToEnd => {
                let taken = known.iter().flatten().fold(0, |sum, size| u64::saturating_add(sum, *size));
                let share = host_sectors.saturating_sub(taken) / open.max(1);
                share - share % SHARE_ALIGNMENT
            }
        };
        Ok(known.into_iter().map(|size| size.unwrap_or(share)).collect())
    }

    /// Opens all for devices of at least `host_sectors`; they are as large as ever, also where they lie as in `elsewhere`.
    pub fn open(
        &self,
        host_sectors: u64,
        seed: u64,
        hash: bool,
        elsewhere: Option<Placement>,
    ) -> Result<Interleaved<Opened>, Error> {
        let weighted = matches!(self.rule, Interleave::Burst { weighted: true, .. });
        let mut parts = Vec::new();
        for (number, (input, sectors)) in self.inputs.iter().zip(self.sizes(host_sectors)?).enumerate() {
            // More than can be numbered are refused below.
            let open = || input.open_nth(sectors, seed, number as u8, hash);
            let requests = match input {
                _ if !weighted => None,
                Input::Trace(trace) => Some(trace.requests()?),
                Input::Workload(..) | Input::Merged(_) => Some(count(&mut open()?)?),
            };
            parts.push(Part { source: open()?, sectors, requests });
        }
        Interleaved::new(parts, self.rule, elsewhere.unwrap_or(self.placement), seed)
    }

    /// What was merged.
    pub fn describe(&self, opened: &Interleaved<Opened>) -> Replayed {
        let mut all = Replayed { interleave: Some(self.rule.to_string()), ..Replayed::default() };
        let source = |(number, input): (usize, &Input)| {
            let own = input.describe(opened.source(number));
            let (notes, more) = (&mut all.trace_notes, own.trace_notes);
            notes.skipped_rows += more.skipped_rows;
            notes.unaligned_rows += more.unaligned_rows;
            notes.out_of_order_rows += more.out_of_order_rows;
            all.trace_reading = all.trace_reading.take().or(own.trace_reading);
            let (first, sectors) = opened.place(number);
            MergedSource {
                trace: own.trace,
                workload: own.workload,
                sha256: own.trace_sha256,
                sectors,
                first_lba: first.0,
                requests: opened.given(number),
            }
        };
        let sources = self.inputs.iter().enumerate().map(source).collect();
        Replayed { sources: Some(sources), ..all }
    }
}

/// Counts what is left of a source, by reading it to its end.
fn count(source: &mut impl Source) -> Result<u64, Error> {
    let (mut count, mut batch) = (0, Vec::new());
    loop {
        source.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(count);
        }
        count += batch.len() as u64;
    }
}
