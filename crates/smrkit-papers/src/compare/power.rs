//! Loss by power cuts: acknowledged sectors that are lost, over cuts at many physical writes of a small, full disk.

use smrkit::error::Error;
use smrkit::layer::BASELINE;
use smrkit::medium::interference::Interference;
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;

use super::schemes;
use crate::{Plan, Scale};

/// Tracks of the small disk: every LBA is looked at after a cut.
const TRACKS: u64 = 512;
/// Writes of 4 KiB before the first cut may come, so that caches are in use.
const WORKLOAD: &str = "random-write:count=6000";
const WARMUP: u64 = 4000;
/// The physical writes at which the power is cut, and for `--quick`.
const CUTS: ([u64; 8], [u64; 2]) = ([1, 40, 160, 321, 500, 800, 1200, 1500], [81, 641]);

/// The runs, cut by cut for each layer.
pub struct Cuts {
    pub plans: Vec<Plan>,
    pub layers: Vec<&'static str>,
}

pub fn plans(scale: &Scale) -> Result<Cuts, Error> {
    let drive = schemes::drive(TRACKS)?;
    let schemes = schemes::fitted(&drive)?;
    let cuts = scale.pick(CUTS.0.as_slice(), CUTS.1.as_slice());
    let mut plans = Vec::new();
    for scheme in &schemes {
        // A conventional disk is one that nothing damages.
        let drive = match scheme.layer {
            BASELINE => drive.clone().with_interference(Interference::None)?,
            _ => drive.clone(),
        };
        plans.extend(cuts.iter().map(|&cut| {
            let plan = Plan::workload(&drive, scheme.layer, WORKLOAD, scale.seed).prefill(Prefill::Full);
            let plan = plan.warmup(WARMUP).power_cut(cut);
            scheme.set.iter().fold(plan, |plan, (key, value)| plan.set(key, value))
        }));
    }
    Ok(Cuts { plans, layers: schemes.iter().map(|scheme| scheme.layer).collect() })
}

/// Text on what the cuts took from each layer.
pub fn lost(layers: &[&str], outcomes: &[Outcome]) -> Vec<String> {
    let of_layer = outcomes.chunks_exact(outcomes.len() / layers.len());
    of_layer
        .map(|runs| words(runs.iter().filter_map(|run| run.power_cut.as_ref()).map(|cut| cut.lost_sectors)))
        .collect()
}

/// The most that one cut took, and how many took anything.
fn words(lost: impl Iterator<Item = u64>) -> String {
    let lost: Vec<u64> = lost.collect();
    match lost.iter().max() {
        None => "no cut was reached".into(),
        Some(0) => "nothing".into(),
        Some(most) => {
            let some = lost.iter().filter(|&&sectors| sectors > 0).count();
            format!("{} kB at most, in {some} of {} cuts", most.div_ceil(2), lost.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn the_most_that_a_cut_took_is_told_and_how_many_did() {
        assert_eq!(words([0, 0].into_iter()), "nothing");
        assert_eq!(words([0, 9, 4].into_iter()), "5 kB at most, in 2 of 3 cuts");
    }
}
