//! Figure 3: how much of Vguard's cache a trace takes: tracks in use, and the log's length.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::super::lab::Plan;
use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use super::paper::{ACTIVE_PERCENT, LOG_PERCENT};
use super::traces::AtHand;
use super::{LAYERS, parameter, stat};
use crate::report::figure::{Axis, Body, Colour, Figure, Panel, Part};

/// The gauges that the layer keeps of its cache.
const ACTIVE: &str = "active_tracks";
const LOG: &str = "log_length";

/// The most that a run took.
struct Use {
    name: String,
    of_a_set: bool,
    active: f64,
    log: f64,
    active_percent: f64,
    log_percent: f64,
    cleaned: u64,
    copies: u64,
}

impl Use {
    fn of(name: &str, of_a_set: bool, outcome: &Outcome) -> Use {
        let (active, log) = (highest(outcome, ACTIVE), highest(outcome, LOG));
        let share = |part: f64, key: &str| 100.0 * part / parameter(outcome, key).parse().unwrap_or(f64::NAN);
        Use {
            name: name.into(),
            of_a_set,
            active,
            log,
            active_percent: share(active, "cache_tracks"),
            log_percent: share(log, "beta"),
            cleaned: stat(outcome, "bands_cleaned").unwrap_or(0),
            copies: stat(outcome, "guard_copies").unwrap_or(0),
        }
    }
}

/// The highest value of a gauge; before anything is cleaned, both gauges only rise, so that no window hides more.
fn highest(outcome: &Outcome, gauge: &str) -> f64 {
    let values = outcome.timeline.gauges.get(gauge);
    values.map_or(f64::NAN, |values| values.iter().copied().fold(0.0, f64::max))
}

pub fn item(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let run: Vec<&AtHand> = traces.iter().filter(|trace| trace.fits()).collect();
    let plans = run.iter().map(|trace| Plan::trace(drive, LAYERS[0], &trace.input, scale.seed)).collect();
    let names: Vec<(String, bool)> = run.iter().map(|trace| (trace.name.clone(), trace.is_of_a_set())).collect();
    Item::new("Figure 3: how much of Vguard's cache is used", plans, move |outcomes| {
        let uses: Vec<Use> =
            names.iter().zip(outcomes).map(|((name, of_a_set), outcome)| Use::of(name, *of_a_set, outcome)).collect();
        Shown {
            text: vec![match uses.is_empty() {
                true => "No trace is at hand: --traces names a folder.".into(),
                false => "The traces at hand on vguard: the most tracks of the cache that held something, of its 13,791, and \
                          the longest log, of β = 9,194. The paper claims it for the MSR traces, and that nothing is cleaned \
                          for CloudPhysics' too; parts of traces show less than the whole would."
                    .into(),
            }],
            rows: uses.iter().flat_map(rows).collect(),
            figure: (!uses.is_empty()).then(|| figure(&uses)),
        }
    })
}

fn rows(taken: &Use) -> Vec<Row> {
    let item = |what: &str| format!("{}: {what}", taken.name);
    let claim = if taken.of_a_set { "" } else { "; none of the paper's traces" };
    let cleaned = match taken.cleaned {
        0 => String::new(),
        bands => format!("; {bands} bands were cleaned, {} guards copied", taken.copies),
    };
    vec![
        Row::holds(
            item("tracks of the cache in use"),
            format!("at most {ACTIVE_PERCENT}"),
            taken.active_percent,
            "%",
            taken.active_percent <= ACTIVE_PERCENT,
            format!("{} tracks{claim}", taken.active),
        ),
        Row::holds(
            item("log against β"),
            format!("at most {LOG_PERCENT}"),
            taken.log_percent,
            "%",
            taken.log_percent <= LOG_PERCENT,
            format!("{} tracks{claim}{cleaned}", taken.log),
        ),
        Row::exact(&item("bands cleaned"), 0, taken.cleaned, "bands", &format!("must be none{claim}")),
    ]
}

fn figure(uses: &[Use]) -> Figure {
    let panel = |title: String, share: &dyn Fn(&Use) -> f64, tracks: &dyn Fn(&Use) -> f64, most: (f64, &str)| {
        let mut rows: Vec<String> = uses.iter().map(|taken| taken.name.clone()).collect();
        let mut totals: Vec<String> =
            uses.iter().map(|taken| format!("{:.2} %, {} tracks", share(taken), tracks(taken))).collect();
        let mut ours: Vec<f64> = uses.iter().map(share).collect();
        rows.push("the paper's highest".into());
        totals.push(most.1.into());
        ours.push(0.0);
        let paper = uses.iter().map(|_| 0.0).chain([most.0]).collect();
        Panel {
            title: Some(title),
            x: Axis::linear("Share (%)"),
            y: Axis::default(),
            guides: Vec::new(),
            body: Body::Bars {
                rows,
                totals,
                parts: vec![
                    Part { name: "ours".into(), colour: Colour::nth(0), values: ours },
                    Part { name: "paper, MSR traces".into(), colour: Colour::GREY, values: paper },
                ],
            },
        }
    };
    let panels = vec![
        panel(
            "Most tracks of the cache in use".into(),
            &|taken| taken.active_percent,
            &|taken| taken.active,
            (ACTIVE_PERCENT, "under 13 %"),
        ),
        panel(
            "Longest log, against β".into(),
            &|taken| taken.log_percent,
            &|taken| taken.log,
            (LOG_PERCENT, "under 38 %"),
        ),
    ];
    Figure {
        name: "vguard-figure-3".into(),
        title: "Figure 3: how much of Vguard's cache is used".into(),
        note: "Cleaning begins where the log reaches β, or the map α, which is the same number.".into(),
        panels,
    }
}
