//! Comparison that no paper has: every scheme on one disk, with the same share of it lost, under the same demands; what each costs, and
//! what a power cut takes from it.

mod demands;
mod power;
mod results;
mod schemes;

use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::settings::Prefill;

use crate::{Item, Plan, Reproduction, Scale, Shown};
use demands::AskedDemand;
use results::Results;
use schemes::Fitted;

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "compare",
    paper: "The papers' schemes compared",
    summary: "Every layer on one full disk with the same share lost, under ten demands, with idle time and without.",
    before: "Disks are full, and each demand has been repeated before it is counted.",
    items,
    open,
};

const HEADING: &str = "All schemes under all demands";
const BY_DEMAND: &str = "By demand";

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let drive = schemes::drive(schemes::TRACKS)?;
    let schemes = schemes::fitted(&drive)?;
    let span = schemes.iter().map(|scheme| scheme.capacity.host_sectors).min().unwrap_or(0);
    let spare = drive.geometry.sectors() - span;
    let demands = demands::all(scale, span, spare)?;
    let mut plans = plans(&drive, &schemes, &demands, scale.seed)?;
    let cuts = power::plans(scale)?;
    let of_demands = plans.len();
    plans.extend(cuts.plans);
    let text = text(span, spare, &demands::missing(scale)?);
    let names: Vec<&'static str> = demands.iter().map(|asked| asked.name).collect();
    let layers = cuts.layers;
    Ok(vec![Item::of_runs(HEADING, plans, move |outcomes| {
        let (runs, cut) = outcomes.split_at(of_demands);
        let results = Results::new(&schemes, &names, runs, &power::lost(&layers, cut));
        let whole = Shown { text, table: Some(results.summary()), figure: Some(results.figure()), rows: Vec::new() };
        let by_demand = texts![
            "Response times in ms, and sectors written to the platters for each that the host wrote; flat out, then with idle \
             time.",
        ];
        vec![
            (HEADING, whole),
            (BY_DEMAND, Shown { text: by_demand, table: Some(results.by_demand()), ..Shown::default() }),
        ]
    })])
}

/// Every scheme under every demand, flat out and then with idle time.
fn plans(drive: &Drive, schemes: &[Fitted], demands: &[AskedDemand], seed: u64) -> Result<Vec<Plan>, Error> {
    let mut plans = Vec::new();
    for scheme in schemes {
        for asked in demands {
            for idle in [false, true] {
                let plan = Plan::replay(drive, scheme.layer, Arc::clone(&asked.requests), seed);
                let plan = plan.prefill(Prefill::Full).warmup(asked.warmup);
                let plan = scheme.with_idle(idle)?.into_iter().fold(plan, |plan, (key, value)| plan.set(&key, value));
                plans.push(if idle { plan.open_arrivals(1.0) } else { plan });
            }
        }
    }
    Ok(plans)
}

fn text(span: u64, spare: u64, missing: &[&str]) -> Vec<String> {
    let mut text = texts![
        format!(
            "A disk of {:.2} GB with tracks of 1 MiB, of which every shingled scheme keeps {} % from the host ({:.2} GB): guards, \
             caches and spare space alike. Requests stay in the {:.2} GB that all of them offer; traces are folded into them. \
             Counted are a demand's last 20,000 requests, after it has written twice what is kept, or after 260,000 requests; \
             traces are repeated for that.",
            demands::gb(span + spare),
            schemes::LOST_PERCENT,
            demands::gb(spare),
            demands::gb(span),
        ),
        format!("Without idle time: one request after another. With idle time: {}.", demands::about_idle()),
        "Means and 99.9 % are geometric means over the demands, as multiples of the conventional disk's under the same requests; \
         the longest is of any demand; \"written\" is the geometric mean of sectors written to the platters for each of the host. \
         A power cut takes what was acknowledged and is lost or old afterwards: the most of eight cuts, under random writes on a \
         full disk of an eighth of the size.",
    ];
    if !missing.is_empty() {
        text.push(format!("Not at hand, and left out: {} (name a folder of traces).", missing.join(", ")));
    }
    text
}

fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "No paper compares the schemes on one disk. Its size, its seeks and the share that is lost are assumptions; all else \
         that a layer's parameters leave open has its default.",
        "track-map needs bands of nine tracks to lose no more than the others; with the paper's four a fifth of the disk is lost, \
         and an update of a full band takes 4 writes instead of 9.",
        "rmw loses less the longer its regions are, and costs more: its regions are as short as the share allows.",
    ])
}
