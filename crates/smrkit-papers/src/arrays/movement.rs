//! Figure 2 of the paper: movement by configuration, under four schemes, on three sets of sources.

use std::sync::Arc;

use smrkit::error::Error;
use smrkit::interleave::SourcePlacement;

use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use super::measured::{Measure, MeasuredSet, keys};
use super::sets::{BLOCK_SECTORS, BLOCKS, Set, TRACES};
use super::setup::{ArrayPlan, Configuration, FILL, UpdateScheme};
use super::{claims, figures};

/// Operations of each generated source, and for `--quick`.
const COUNT: (u64, u64) = (400_000, 40_000);
/// Operations of each source of the other sets, and for `--quick`.
const SHORT: (u64, u64) = (100_000, 10_000);
/// Runs of `runs`, in blocks.
const RUN_BLOCKS: (u64, u64) = (16, 111);
/// Seeds.
const SEEDS: u64 = 5;

/// Headings of a set: its sections by scheme, and those of its figures.
struct Headings {
    schemes: [&'static str; 4],
    /// Of the figures: distance and count.
    drawn: [&'static str; 2],
    /// Of the figures' files.
    files: &'static str,
}

pub fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let count = scale.pick(COUNT.0, COUNT.1);
    let runs = Set::runs(RUN_BLOCKS.0, RUN_BLOCKS.1, count);
    let short = scale.pick(SHORT.0, SHORT.1);
    let hot = Set::hot(short);
    let runs_from_zero = Set::runs(RUN_BLOCKS.0, RUN_BLOCKS.1, short);
    let mut items = vec![
        generated(scale, &runs, SEEDS, SourcePlacement::EndToEnd, &RUNS, about_runs(&runs)),
        generated(scale, &runs_from_zero, 1, SourcePlacement::Zero, &RUNS_FROM_ZERO, about_zero()),
        generated(scale, &hot, 1, SourcePlacement::EndToEnd, &HOT, about_hot(&hot)),
    ];
    match Set::real(scale)? {
        Ok(real) => {
            let text = about_real(&real);
            items.push(of_set(&real, vec![scale.seed], SourcePlacement::EndToEnd, &REAL, text));
            items.push(of_set(&real, vec![scale.seed], SourcePlacement::Zero, &REAL_FROM_ZERO, vec![ZERO.into()]));
        }
        Err(missing) => items.push(absent(&missing)),
    }
    Ok(items)
}

fn generated(
    scale: &Scale,
    set: &Arc<Set>,
    seeds: u64,
    placement: SourcePlacement,
    headings: &'static Headings,
    text: Vec<String>,
) -> Item {
    of_set(set, scale.seeds(seeds, 1).collect(), placement, headings, text)
}

/// All configurations under all schemes.
fn of_set(
    set: &Arc<Set>,
    seeds: Vec<u64>,
    placement: SourcePlacement,
    headings: &'static Headings,
    text: Vec<String>,
) -> Item {
    let mut plans = Vec::new();
    for scheme in UpdateScheme::ALL {
        for configuration in Configuration::all() {
            let plan = |&seed| ArrayPlan { scheme, configuration, set: Arc::clone(set), placement, seed };
            plans.extend(seeds.iter().map(plan));
        }
    }
    let keys = keys(&plans);
    let sized_by_source = matches!(**set, Set::Traces(_));
    Item::of_runs(headings.schemes[0], plans, move |outcomes| {
        let measured = MeasuredSet::new(&keys, outcomes);
        shown(&measured, headings, text, sized_by_source)
    })
}

fn shown(
    measured: &MeasuredSet,
    headings: &'static Headings,
    text: Vec<String>,
    sized_by_source: bool,
) -> Vec<(&'static str, Shown)> {
    let mut all = Vec::new();
    let mut text = Some(text);
    for (scheme, heading) in UpdateScheme::ALL.into_iter().zip(headings.schemes) {
        let mut rows = claims::rows(measured, scheme, &[Measure::Distance, Measure::Count, Measure::Bands]);
        if sized_by_source {
            claims::in_strokes(measured, scheme, &mut rows);
        }
        let mut lines = text.take().unwrap_or_default();
        lines.push(about_scheme(scheme));
        all.push((heading, Shown { text: lines, rows, ..Shown::default() }));
    }
    for (measure, heading) in [Measure::Distance, Measure::Count].into_iter().zip(headings.drawn) {
        let name = format!("{}-{}", headings.files, measure.name().replace("track ", ""));
        let figure = Some(figures::bursts(&name, heading, measured, measure));
        all.push((heading, Shown { figure, ..Shown::default() }));
    }
    all
}

/// The real set is missed, by name.
fn absent(missing: &[&str]) -> Item {
    let reason = format!("{} not at hand: the set takes all four", missing.join(", "));
    let row = Row::not_comparable("movement of the real set", super::super::row::Value::None, "× pure", &reason);
    Item::new(REAL.schemes[0], Vec::new(), move |_| Shown { rows: vec![row], ..Shown::default() })
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
            schemes: [
                concat!("Figure 2 on ", $of, ": log"),
                concat!("Figure 2 on ", $of, ": band's tail copied"),
                concat!("Figure 2 on ", $of, ": band held open"),
                concat!("Figure 2 on ", $of, ": conventional"),
            ],
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
