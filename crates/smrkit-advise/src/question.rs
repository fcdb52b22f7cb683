//! The question, and what its answer is compared with.

use smrkit::experiment::demand::Demand;
use smrkit::experiment::planned::PlannedRun;
use smrkit::settings::Settings;
use smrkit::stats::comparison::Judged;

use super::trial::Measured;

/// Question to the advice.
pub struct Question<'a> {
    /// The drive or array as it is; its settings are those of `depths`.
    pub run: PlannedRun,
    /// The demand.
    pub demand: &'a dyn Demand,
    /// The settings at each depth, the deepest last.
    pub depths: &'a [Settings],
    /// Traces and workloads in the demand.
    pub sources: usize,
    /// Tries layers that no shop sells, too.
    pub all: bool,
    /// Bytes of a whole disk, where a rebuild is run on a part of one.
    pub whole_disk_bytes: Option<u64>,
}

/// The system as it is at the deepest depth, and conventional disks.
pub(crate) struct Reference {
    pub own: Measured,
    pub conventional: Measured,
    /// The system, judged.
    pub before: Judged,
}
