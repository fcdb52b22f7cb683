//! Figure 3: how much of Vguard's cache a trace takes: tracks in use, and the log's length.

use smrkit::drive::Drive;
use smrkit::stats::outcome::Outcome;

use super::super::bars::{self, Bar};
use super::common::{LAYERS, never_cleans};
use super::paper::{ACTIVE_PERCENT, CACHE_TRACKS, LOG_PERCENT, VGUARD_THRESHOLD};
use super::traces::AtHand;
use crate::{Item, Plan, Row, Scale, Shown, Value};
use smrkit_report::figure::{Colour, Figure};
use smrkit_report::format::count;

/// The most that a run took.
struct Use {
    name: String,
    /// True if the paper's claims are about its set of traces.
    of_a_set: bool,
    active: u64,
    log: u64,
    cleans: Row,
    copies: u64,
}

impl Use {
    fn from_outcome(name: &str, of_a_set: bool, outcome: &Outcome) -> Use {
        let stat = |key: &str| outcome.layer_stats.count(key).unwrap_or(0);
        Use {
            name: name.into(),
            of_a_set,
            active: stat("cache_tracks_active_max"),
            log: stat("log_length_max"),
            cleans: never_cleans(&format!("{name}: bands cleaned"), outcome, "must be none"),
            copies: stat("guard_copies"),
        }
    }

    fn active_percent(&self) -> f64 {
        100.0 * self.active as f64 / CACHE_TRACKS as f64
    }

    fn log_percent(&self) -> f64 {
        100.0 * self.log as f64 / VGUARD_THRESHOLD as f64
    }
}

pub fn item(scale: &Scale, drive: &Drive, traces: &[AtHand]) -> Item {
    let run: Vec<&AtHand> = traces.iter().filter(|trace| trace.fits()).collect();
    let plans = run.iter().map(|trace| Plan::trace(drive, LAYERS[0], &trace.input, scale.seed)).collect();
    let names: Vec<(String, bool)> = run.iter().map(|trace| (trace.name.clone(), trace.is_of_a_set())).collect();
    Item::new("Figure 3: how much of Vguard's cache is used", plans, move |outcomes| {
        let uses: Vec<Use> = names
            .iter()
            .zip(outcomes)
            .map(|((name, of_a_set), outcome)| Use::from_outcome(name, *of_a_set, outcome))
            .collect();
        Shown {
            text: vec![match uses.is_empty() {
                true => "No trace is at hand: name a folder of traces.".into(),
                false => "The traces at hand on vguard: the most tracks of the cache that held something, of its 13,791, and \
                          the longest log, of β = 9,194. The paper claims it for the MSR traces, and that nothing is cleaned \
                          for CloudPhysics' too; parts of traces show less than the whole would."
                    .into(),
            }],
            rows: uses.iter().flat_map(rows).collect(),
            figure: (!uses.is_empty()).then(|| figure(&uses)), ..Shown::default() }
    })
}

fn rows(taken: &Use) -> Vec<Row> {
    let item = |what: &str| format!("{}: {what}", taken.name);
    let (active, log) = (taken.active_percent(), taken.log_percent());
    if !taken.of_a_set {
        let ours = format!("{active:.2} %, {log:.2} %, {}", taken.cleans.ours.text());
        let reason = format!("none of the paper's sets; {} guards copied", count(taken.copies));
        return vec![
            Row::beside(item("tracks in use, log against β, bands cleaned"), Value::None, ours, "").because(reason),
        ];
    }
    let at_most = |what: &str, most: f64, ours: f64, tracks: u64| {
        let reason = format!("{} tracks, {} guards copied", count(tracks), count(taken.copies));
        Row::holds(item(what), format!("at most {most}"), ours, "%", ours <= most).because(reason)
    };
    vec![
        at_most("tracks of the cache in use", ACTIVE_PERCENT, active, taken.active),
        at_most("log against β", LOG_PERCENT, log, taken.log),
        taken.cleans.clone(),
    ]
}

fn figure(uses: &[Use]) -> Figure {
    let panel = |title: &str, share: &dyn Fn(&Use) -> f64, tracks: &dyn Fn(&Use) -> u64, most: (f64, &str)| {
        let bar = |taken: &Use| {
            let total = format!("{:.2} %, {} tracks", share(taken), count(tracks(taken)));
            Bar::new(0, &taken.name, share(taken), total)
        };
        let paper = Bar::new(1, "the paper's highest", most.0, most.1);
        let kinds = [("ours", Colour::nth(0)), ("paper, MSR traces", Colour::GREY)];
        bars::panel(Some(title), "Share (%)", kinds, uses.iter().map(bar).chain([paper]).collect())
    };
    let active = (ACTIVE_PERCENT, "under 13 %");
    let panels = [
        panel("Most tracks of the cache in use", &Use::active_percent, &|taken| taken.active, active),
        panel("Longest log, against β", &Use::log_percent, &|taken| taken.log, (LOG_PERCENT, "under 38 %")),
    ];
    Figure::new(
        "vguard-figure-3",
        "Figure 3: how much of Vguard's cache is used",
        "Cleaning begins where the log reaches β, or the map α, which is the same number.",
        panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_shares_of_the_cache_and_of_the_logs_bound() {
        let (active, log) = (CACHE_TRACKS / 4, VGUARD_THRESHOLD / 2);
        let used =
            Use { name: "a".into(), of_a_set: false, active, log, cleans: Row::near("", 0.0, 0.0, "", 0.0), copies: 0 };
        assert!((used.active_percent() - 25.0).abs() < 0.1, "{}", used.active_percent());
        assert!((used.log_percent() - 50.0).abs() < 0.1, "{}", used.log_percent());
    }
}
