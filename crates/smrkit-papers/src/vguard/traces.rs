//! The real traces at hand: which of the paper's they are, and whether the drive holds them.

use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit_trace::TraceDemand;

use super::common::{LAYERS, VARIANT, as_published};
use super::paper;
use crate::{Plan, Scale};

/// Role of a trace in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The whole week of a volume of Table 2, by its number there.
    OfTable2(usize),
    /// The whole week of another volume of the MSR set.
    Msr,
    /// A part of an MSR volume.
    MsrPart,
    /// Of CloudPhysics.
    CloudPhysics,
    /// None of the paper's.
    Other,
}

/// A trace at hand.
pub struct AtHand {
    /// The name of its file.
    pub name: String,
    pub kind: TraceKind,
    pub input: Arc<TraceDemand>,
    /// Why it doesn't run, if so.
    pub too_large: Option<String>,
}

/// Traces that the paper did not run, and which of them `--quick` runs.
const FURTHER: [(&str, TraceKind, bool); 18] = [
    ("msr_web_3", TraceKind::Msr, true),
    ("msr_hm_0_cut7016", TraceKind::MsrPart, true),
    ("msr_hm_0_first1000", TraceKind::MsrPart, true),
    ("msr_mds_0_writes_first1000", TraceKind::MsrPart, true),
    ("msr_proj_0_writes_first1000", TraceKind::MsrPart, true),
    ("cloudphysics_sample", TraceKind::CloudPhysics, true),
    ("hp_hplajw_1week_1992", TraceKind::Other, false),
    ("flashsim_jpeg_copy", TraceKind::Other, false),
    ("bench_iozone_disksim", TraceKind::Other, false),
    ("biotracer_mobile_booting", TraceKind::Other, false),
    ("biotracer_mobile_movie", TraceKind::Other, false),
    ("blktrace_hadoop_hdd_apress", TraceKind::Other, false),
    ("blktrace_java_btrfs", TraceKind::Other, false),
    ("blktrace_java_ext4", TraceKind::Other, false),
    ("msps_devtools_release", TraceKind::Other, false),
    ("spc_financial1_first10k", TraceKind::Other, false),
    ("systor17_head", TraceKind::Other, false),
    ("tencent_cbs_sample", TraceKind::Other, false),
];

impl AtHand {
    /// Its runs on both layers.
    pub fn on_both(&self, drive: &Drive, seed: u64) -> [Plan; 2] {
        let [vguard, managed] = LAYERS.map(|layer| Plan::trace(drive, layer, &self.input, seed));
        [vguard, managed.set(VARIANT.0, VARIANT.1)]
    }

    /// True if it can run on the drive.
    pub fn fits(&self) -> bool {
        self.too_large.is_none()
    }

    /// True if the paper's claims are about traces of its set.
    pub fn is_of_a_set(&self) -> bool {
        self.kind != TraceKind::Other
    }
}

/// The traces at hand, those of Table 2 first.
pub fn at_hand(scale: &Scale, drive: &Drive) -> Result<Vec<AtHand>, Error> {
    let room_sectors = room(drive)?;
    let mut found = Vec::new();
    for (i, row) in paper::TABLE2.iter().enumerate() {
        for name in [format!("msr_{}", row.trace), row.trace.to_string()] {
            if let Some(input) = scale.traces.get(&name)? {
                found.push(look(name, TraceKind::OfTable2(i), input, room_sectors)?);
                break;
            }
        }
    }
    for (name, kind, _) in FURTHER.iter().filter(|further| further.2 || !scale.quick) {
        if let Some(input) = scale.traces.get(name)? {
            found.push(look(name.to_string(), *kind, input, room_sectors)?);
        }
    }
    Ok(found)
}

fn look(name: String, kind: TraceKind, input: Arc<TraceDemand>, room_sectors: u64) -> Result<AtHand, Error> {
    let end = input.footprint_end()?;
    let too_large = (end > room_sectors)
        .then(|| format!("it reaches to sector {end}, and the drive offers {room_sectors}; addresses are not scaled"));
    Ok(AtHand { name, kind, input, too_large })
}

/// The sectors that both layers offer.
fn room(drive: &Drive) -> Result<u64, Error> {
    let mut room = u64::MAX;
    for name in LAYERS {
        let (spec, parameters) = as_published(name)?;
        room = room.min((spec.build)(drive, &parameters)?.capacity().host_sectors);
    }
    Ok(room)
}
