//! The worlds of both models, and their courses.

use smrfs::age::course::{AgeingResult, Sample};
use smrfs::age::world::World;
use smrfs::device::Model;
use smrkit::drive::Drive;

/// Both models, in the order of the jobs.
pub(super) const MODELS: [Model; 2] = [Model::StrictAppend, Model::Caveat];
/// Bytes of a granule in simulation: everything here is a multiple of it, and larger ones are faster.
pub(super) const GRANULE_BYTES: u64 = 64 << 10;
pub(super) const GB: f64 = 1e9;

/// The world of one model.
pub(super) fn world(drive: &Drive, model: Model) -> World {
    World { granule_bytes: GRANULE_BYTES, ..World::paper(model, drive.clone()) }
}

/// Both models' courses of one seed.
pub(super) struct SeedPair<'a> {
    pub(super) seed: u64,
    pub(super) strict: &'a AgeingResult,
    pub(super) caveat: &'a AgeingResult,
}

impl SeedPair<'_> {
    pub(super) fn all<'a>(courses: &'a [AgeingResult], seeds: &[u64]) -> Vec<SeedPair<'a>> {
        let pairs = courses.chunks_exact(2).zip(seeds);
        pairs.map(|(pair, &seed)| SeedPair { seed, strict: &pair[0], caveat: &pair[1] }).collect()
    }
}

/// Hours by the model's clock.
pub(super) fn hours(sample: &Sample) -> f64 {
    sample.time_ns as f64 / 3.6e12
}
