//! The name and colour of each run of a comparison, used by tables, pages and figures.

use std::collections::BTreeMap;

use smrkit::layer::BASELINE;
use smrkit::stats::measured::Measured;
use smrkit::stats::outcome::{Outcome, Scalar};

use crate::figure::Colour;
use crate::format;

/// The runs, and after them the measured drive, if there is one, as an outcome with the host's view only.
pub fn beside(runs: &[Outcome], measured: Option<&Measured>) -> Vec<Outcome> {
    runs.iter().chain(measured.map(|measured| &measured.run)).cloned().collect()
}

/// The name of each run: its array's level, its layer, and the settings that differ from other runs of that layer.
pub fn names(runs: &[Outcome]) -> Vec<String> {
    let plain: Vec<String> = runs.iter().map(|run| name(run, runs)).collect();
    // Runs whose names would be the same are numbered.
    let numbered = |at: usize| match plain[..at].iter().filter(|before| **before == plain[at]).count() {
        0 => plain[at].clone(),
        same => format!("{} ({})", plain[at], same + 1),
    };
    (0..plain.len()).map(numbered).collect()
}

/// The runs with their names.
pub fn named(runs: &[Outcome]) -> impl Iterator<Item = (String, &Outcome)> {
    names(runs).into_iter().zip(runs)
}

fn name(run: &Outcome, runs: &[Outcome]) -> String {
    // The name of an array's run begins with its level: `raid5 rmw`.
    let level = run.array.as_deref().and_then(|array| array.split(':').next());
    let mut words: Vec<String> = level.map(str::to_string).into_iter().chain([layer(&run.layer).into()]).collect();
    let same_layer: Vec<&Outcome> = runs.iter().filter(|r| r.layer == run.layer).collect();
    words.extend(settings(run, &same_layer));
    if let Some(array) = &run.array
        && runs.iter().any(|r| r.array != run.array)
    {
        words.push(array.clone());
    }
    if runs.iter().any(|r| r.drive != run.drive) {
        words.push(format!("on {}", run.drive));
    }
    if runs.iter().any(|r| r.seed != run.seed) {
        words.push(format!("seed {}", run.seed));
    }
    if same_layer.iter().any(|r| r.engine.depth != run.engine.depth) {
        words.push(format!("depth {}", run.engine.depth));
    }
    if same_layer.iter().any(|r| r.engine.queue != run.engine.queue) {
        words.push(run.engine.queue.name().into());
    }
    if runs.iter().any(|r| workload(r) != workload(run)) {
        words.extend(workload(run).map(str::to_string));
    }
    words.join(" ")
}

/// A layer's name for people. The layer without shingling has another name than its key.
fn layer(name: &str) -> &str {
    if name == BASELINE { "conventional (CMR)" } else { name }
}

/// The layers and parameters of a run's drives that differ from those in the same places of the runs `same_layer`.
fn settings(run: &Outcome, same_layer: &[&Outcome]) -> Vec<String> {
    // If the members of an array do not differ, the array's outcome has the parameters.
    let is_mixed = same_layer.iter().any(|run| run.parameters.is_empty());
    let drives: fn(&Outcome) -> &[Outcome] = if is_mixed { Outcome::drives } else { std::slice::from_ref };
    let (mut layers, mut parameters) = (Vec::new(), BTreeMap::<&str, Vec<String>>::new());
    for (place, drive) in drives(run).iter().enumerate() {
        let others = || same_layer.iter().filter_map(|&run| drives(run).get(place));
        if others().any(|other| other.layer != drive.layer) {
            layers.push(layer(&drive.layer).to_string());
        }
        for (key, value) in &drive.parameters {
            // Compares the values asked for, as `auto` may give each run another one.
            let differs = |other: &Outcome| other.layer == drive.layer && asked(other, key) != asked(drive, key);
            if others().any(differs) {
                parameters.entry(key).or_default().push(scalar(value));
            }
        }
    }
    let parameters = parameters.into_iter().map(|(key, values)| format!("{key}={}", distinct(values).join(",")));
    distinct(layers).into_iter().chain(parameters).collect()
}

/// A parameter as it was asked for.
fn asked<'a>(run: &'a Outcome, key: &str) -> Option<&'a Scalar> {
    run.asked.get(key).or_else(|| run.parameters.get(key))
}

/// The different values, in order of first sight.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn workload(run: &Outcome) -> Option<&str> {
    run.replayed.trace.as_deref().or(run.replayed.workload.as_deref())
}

/// A parameter's value as text.
pub fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::List(counts) if counts.len() > 12 => format!("{} values", counts.len()),
        Scalar::List(counts) => counts.iter().map(|&c| format::count(c)).collect::<Vec<_>>().join(" "),
        _ => value.to_string(),
    }
}

/// The colour of each run, and whether its lines are broken: `in-place` is grey, the others take the palette in turn.
pub fn line_styles(runs: &[Outcome]) -> Vec<(Colour, bool)> {
    let (mut baselines, mut others) = (0, 0);
    let style = |run: &Outcome| match run.layer == BASELINE {
        true => {
            baselines += 1;
            (Colour::GREY, baselines > 1)
        }
        false => {
            others += 1;
            (Colour::nth(others - 1), others > Colour::PALETTE.len())
        }
    };
    runs.iter().map(style).collect()
}
