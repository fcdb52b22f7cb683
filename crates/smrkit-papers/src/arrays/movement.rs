//! Figure 2 of the paper: movement by configuration, under five schemes, on three sets of sources.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::interleave::SourcePlacement;

use super::measured::{Measure, MeasuredSet, keys};
use super::sets::{BLOCK_SECTORS, BLOCKS, Set, TRACES};
use super::setup::{ArrayPlan, Configuration, FILL, UpdateScheme};
use super::{claims, figures};
use crate::{Item, Row, Scale, Shown, Value};

/// Operations of each generated source, and for `--quick`.
const COUNT: (u64, u64) = (400_000, 40_000);
/// Operations of each source of the other sets, and for `--quick`.
const SHORT: (u64, u64) = (100_000, 10_000);
/// Runs of `runs`, in blocks.
const RUN_BLOCKS: (u64, u64) = (16, 111);
/// Number of seeds under the log, whose rows show the spread, and under the other schemes.
const SEEDS: (u64, u64) = (5, 2);

const HOLDS: &str = "What holds under which scheme";

/// Headings of a set.
struct Headings {
    /// Of what the paper says, and of every configuration under every scheme.
    log: &'static str,
    /// Of the figures: distance and count.
    drawn: [&'static str; 2],
    /// Of the figures' files.
    files: &'static str,
}

/// A set, how its sources lie, and what is said of it.
struct Experiment {
    set: Arc<Set>,
    placement: SourcePlacement,
    headings: &'static Headings,
    /// Under the log and under the other schemes.
    seeds: (Vec<u64>, Vec<u64>),
    text: Vec<String>,
}

pub fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let short = scale.pick(SHORT.0, SHORT.1);
    let one = || (vec![scale.seed], vec![scale.seed]);
    let runs = Set::runs(RUN_BLOCKS.0, RUN_BLOCKS.1, scale.pick(COUNT.0, COUNT.1));
    let from_zero = Set::runs(RUN_BLOCKS.0, RUN_BLOCKS.1, short);
    let hot = Set::hot(short);
    let main = Experiment {
        placement: SourcePlacement::EndToEnd,
        headings: &RUNS,
        seeds: (scale.seeds(SEEDS.0, 1).collect(), scale.seeds(SEEDS.1, 1).collect()),
        text: about_runs(&runs),
        set: runs,
    };
    let alike = Experiment {
        set: from_zero,
        placement: SourcePlacement::Zero,
        headings: &RUNS_FROM_ZERO,
        seeds: one(),
        text: about_zero(),
    };
    let random = Experiment {
        placement: SourcePlacement::EndToEnd,
        headings: &HOT,
        seeds: one(),
        text: about_hot(&hot),
        set: hot,
    };
    let mut items = vec![main.item(), alike.item(), random.item()];
    match Set::real(scale)? {
        Ok(set) => {
            let real = Experiment {
                placement: SourcePlacement::EndToEnd,
                headings: &REAL,
                seeds: one(),
                text: about_real(&set),
                set: Arc::clone(&set),
            };
            let text = vec![ZERO.into()];
            let placement = SourcePlacement::Zero;
            let real_from_zero = Experiment { set, placement, headings: &REAL_FROM_ZERO, seeds: one(), text };
            items.extend([real.item(), real_from_zero.item()]);
        }
        Err(missing) => items.push(absent(&missing)),
    }
    Ok(items)
}

impl Experiment {
    fn item(self) -> Item {
        let plans = self.plans();
        let keys = keys(&plans);
        Item::of_runs_made(self.headings.log, plans, move |outcomes| self.shown(&MeasuredSet::new(&keys, outcomes)))
    }

    /// True for the set on which every claim is judged by every measure.
    fn is_main(&self) -> bool {
        std::ptr::eq(self.headings, &RUNS)
    }

    /// The runs, the first seed's first.
    fn plans(&self) -> Vec<ArrayPlan> {
        let mut plans = Vec::new();
        for &seed in &self.seeds.0 {
            for scheme in UpdateScheme::ALL {
                if scheme != UpdateScheme::Log && !self.seeds.1.contains(&seed) {
                    continue;
                }
                let configurations = Configuration::all().into_iter().filter(|&of| self.needs(scheme, of));
                let (set, placement) = (&self.set, self.placement);
                plans.extend(configurations.map(|configuration| ArrayPlan {
                    scheme,
                    configuration,
                    set: Arc::clone(set),
                    placement,
                    seed,
                }));
            }
        }
        plans
    }

    /// True if a row, a table or a figure needs this one: sets next to the main one have the bursts that the text names.
    fn needs(&self, scheme: UpdateScheme, configuration: Configuration) -> bool {
        match configuration {
            Configuration::Striped(10 | 500) => self.is_main() && scheme != UpdateScheme::Separated,
            Configuration::Uninterleaved => self.is_main(),
            _ => true,
        }
    }

    fn shown(self, measured: &MeasuredSet) -> Vec<(&'static str, Shown)> {
        let mut all = Vec::new();
        let (judged, told): (&[Measure], &[Measure]) = match self.is_main() {
            true => (&claims::COUNTED, &[Measure::Distance, Measure::Count, Measure::Bands, Measure::Time]),
            false => (&[Measure::Distance], &[Measure::Distance, Measure::Count, Measure::Time]),
        };
        let mut rows = claims::rows(measured, judged);
        if self.is_main() {
            rows.extend(claims::more_rows(measured));
            let text = texts![
                "The measures by which each claim holds on the set `runs`; \"-\": nothing rises, so that nothing can drop.",
            ];
            all.push((HOLDS, Shown { text, table: Some(claims::table(measured)), ..Shown::default() }));
        }
        if let Set::Traces(_) = *self.set {
            claims::in_strokes(measured, &mut rows);
        }
        let schemes = if self.is_main() { UpdateScheme::ALL.map(about_scheme).into() } else { Vec::new() };
        let text = self.text.into_iter().chain(schemes).collect();
        all.push((
            self.headings.log,
            Shown { text, table: Some(claims::times_pure(measured, told)), rows, figure: None },
        ));
        for (measure, heading) in [Measure::Distance, Measure::Count].into_iter().zip(self.headings.drawn) {
            let name = format!("{}-{}", self.headings.files, measure.short_name());
            let figure = Some(figures::bursts(&name, heading, measured, measure));
            all.push((heading, Shown { figure, ..Shown::default() }));
        }
        all
    }
}

/// The real set is missed, by name.
fn absent(missing: &[&str]) -> Item {
    let reason = format!("{} not at hand: the set takes all four", missing.join(", "));
    let row = Row::not_comparable("movement of the real set", Value::None, "× pure").because(reason);
    Item::told(REAL.log, Shown { rows: vec![row], ..Shown::default() })
}

fn about_scheme(scheme: UpdateScheme) -> String {
    let (layer, set) = scheme.layer();
    let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    match set.is_empty() {
        true => format!("{}: layer {layer}. No bands are moved.", scheme.name()),
        false => format!("{}: layer {layer} with {}.", scheme.name(), set.join(", ")),
    }
}

fn about_runs(set: &Set) -> Vec<String> {
    vec![
        format!(
            "Four sources of {BLOCKS} blocks of 4 KiB, each {}: runs of single-block operations in a hot quarter placed by the \
             seed, half of the runs writing. Laid end to end; a disk is as large as a source, and {} % full.",
            set.text(),
            100.0 * FILL
        ),
        format!(
            "{}. Requests one after another, chunk {} KiB, disks written once in the order of their LBAs before. The next source \
             is drawn uniformly. Numbers are sums over the four disks, relative to pure.",
            super::setup::about_members(),
            BLOCK_SECTORS / 2
        ),
    ]
}

const ZERO: &str = "The same disks, filled alike, but all sources begin at LBA 0 and share addresses, save with dedicated, where \
                    each has a disk of its own.";

fn about_zero() -> Vec<String> {
    vec![format!("The set `runs` again, one seed. {ZERO}")]
}

fn about_hot(set: &Set) -> Vec<String> {
    vec![format!(
        "Four sources of {BLOCKS} blocks, each {}: single blocks at random in a hot quarter, so that there are no runs to lose. \
         Under a log, which the paper names, interleaving then adds no movements; they are longer, since four hot regions lie apart on each disk.",
        set.text()
    )]
}

fn about_real(set: &Set) -> Vec<String> {
    let sizes = set.sizes();
    let mib = |sectors: u64| sectors as f64 / 2048.0;
    let named = TRACES.iter().zip(&sizes);
    let named: Vec<String> = named.map(|(name, &sectors)| format!("{name} ({:.0} MiB)", mib(sectors))).collect();
    vec![format!(
        "In place of the paper's four traces, which it does not name: {}, end to end. Each is squeezed to its footprint: the \
         distinct blocks of 4 KiB that it touches, in order, so that what is never touched takes no room. A disk of the array is \
         a fourth of all; dedicated disks have the size of their own trace.",
        named.join(", ")
    )]
}

/// Headings that begin with the same words.
macro_rules! headings {
    ($of:literal, $files:literal) => {
        Headings {
            log: concat!("Figure 2 on ", $of, ": log"),
            drawn: [concat!("Figure 2 on ", $of, ": track distance"), concat!("Figure 2 on ", $of, ": track count")],
            files: $files,
        }
    };
}

const RUNS: Headings = headings!("`runs`, end to end", "runs");
const RUNS_FROM_ZERO: Headings = headings!("`runs`, all from LBA 0", "runs-from-0");
const HOT: Headings = headings!("random accesses in hot regions", "hot");
const REAL: Headings = headings!("real traces, end to end", "real");
const REAL_FROM_ZERO: Headings = headings!("real traces, all from LBA 0", "real-from-0");
