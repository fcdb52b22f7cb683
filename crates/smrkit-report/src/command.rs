//! The command that makes a comparison again, from what its outcomes record.

use serde_json::Value;
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, SystemSpec};
use smrkit::drive::Drive;
use smrkit::layer;
use smrkit::quantity::{exact_bytes, exact_duration};
use smrkit::settings::{Queue, Settings};
use smrkit::stats::outcome::{MergedSource, Outcome, Replayed};
use smrkit::units::{Nanos, SECTOR_BYTES};

use crate::label::distinct;

/// The command; none where one can't ask for these runs together, or their requests came from memory.
pub fn command(runs: &[Outcome]) -> Option<String> {
    let first = runs.first()?;
    let is_alike = |run: &Outcome| {
        (run.engine, run.seed, run.scaled) == (first.engine, first.seed, first.scaled)
            && run.replayed == first.replayed
            && run.run.rebuild == first.run.rebuild
    };
    let systems: Vec<AskedSystem> = runs.iter().map(asked).collect::<Option<_>>()?;
    let same = |system: &AskedSystem| system.on() == systems[0].on();
    if !runs.iter().all(is_alike) || !systems.iter().all(same) {
        return None;
    }
    let mut words = vec!["smrkit".to_string(), "run".into()];
    words.extend(on(first, &systems[0]));
    words.extend(layers(&systems)?);
    words.extend(option("rebuild", first.run.rebuild.as_ref()));
    words.extend(demand(&first.replayed, runs, systems[0].array.as_ref())?);
    words.extend(conditions(&first.engine, first.seed)?);
    Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

fn option(name: &str, value: Option<impl ToString>) -> Vec<String> {
    value.map_or_else(Vec::new, |value| vec![format!("--{name}"), value.to_string()])
}

fn switch(name: &str, is_on: bool) -> Vec<String> {
    if is_on { vec![format!("--{name}")] } else { Vec::new() }
}

/// The system of a run as options ask for it.
struct AskedSystem {
    /// The array, without what is the same of all its drives.
    array: Option<ArraySpec>,
    /// The drive, or each of the array's.
    drive: DriveSpec,
}

impl AskedSystem {
    /// Array, drive and capacity, which runs of a comparison share.
    fn on(&self) -> (&Option<ArraySpec>, &Option<String>, Option<u64>) {
        (&self.array, &self.drive.drive, self.drive.capacity_sectors)
    }
}

/// The system of a run; none of a merge, and of an array whose members differ.
fn asked(run: &Outcome) -> Option<AskedSystem> {
    if run.merged_runs.is_some() {
        return None;
    }
    match SystemSpec::parse(&run.run.system).ok()? {
        SystemSpec::Drive(drive) => Some(AskedSystem { array: None, drive }),
        SystemSpec::Array(array) => {
            let drive = array.members.first()?.clone();
            let is_alike = array.members.iter().all(|member| *member == drive);
            let members = vec![DriveSpec::default(); array.members.len()];
            is_alike.then_some(AskedSystem { array: Some(ArraySpec { members, ..array }), drive })
        }
    }
}

/// The drive and the array; its size where that is neither the drive's own nor made for the trace.
fn on(run: &Outcome, system: &AskedSystem) -> Vec<String> {
    let drive = &system.drive;
    let is_own = |sectors: &u64| {
        let known = drive.drive.as_ref().filter(|_| run.run.drive_files.is_empty());
        known.and_then(|name| Drive::load(name).ok()).is_some_and(|own| own.geometry.sectors == *sectors)
    };
    let size = drive.capacity_sectors.filter(|sectors| run.scaled.is_none() && !is_own(sectors));
    [
        option("drive", drive.drive.as_ref()),
        option("array", system.array.as_ref()),
        option("capacity", size.map(|sectors| exact_bytes(sectors * SECTOR_BYTES))),
    ]
    .concat()
}

/// The layers, and those of their parameters that are not as they are unless set.
fn layers(systems: &[AskedSystem]) -> Option<Vec<String>> {
    let drives: Vec<&DriveSpec> = systems.iter().map(|system| &system.drive).collect();
    let groups: Vec<&[&DriveSpec]> = drives.chunk_by(|one, next| one.layer == next.layer).collect();
    let names: Vec<&str> = groups.iter().filter_map(|group| group[0].layer.as_deref()).collect();
    let is_twice = |at: usize| names[..at].contains(&names[at]);
    if names.len() < groups.len() || (0..names.len()).any(is_twice) {
        return None;
    }
    let mut words = option("layer", Some(names.join(",")));
    for (name, group) in names.iter().zip(groups) {
        for (key, values) in set(name, group)? {
            words.extend(option("set", Some(format!("{name}.{key}={}", values.join(",")))));
        }
    }
    Some(words)
}

/// Parameters of a layer with their values, the one that changes least from run to run first; none where the runs are not every
/// combination.
fn set(layer: &str, runs: &[&DriveSpec]) -> Option<Vec<(&'static str, Vec<String>)>> {
    let mut all = Vec::new();
    let spec = layer::find(layer).ok()?;
    let drive = runs.first().and_then(|run| Drive::load(run.drive.as_deref()?).ok());
    let own = drive.and_then(|drive| spec.resolve_on(&drive, &[]).ok()).unwrap_or_default();
    for key in (spec.keys)() {
        let canonical = |text: &str| key.canonical(text).map_or_else(|_| text.to_string(), |canonical| canonical.text);
        let default = own.given().find(|(name, _)| *name == key.name).map_or(key.default, |(_, text)| text);
        let default = canonical(default);
        let value = |run: &&DriveSpec| {
            let set = run.set.iter().find(|(name, _)| name == key.name);
            set.map_or_else(|| default.clone(), |(_, value)| canonical(value))
        };
        let of_runs: Vec<String> = runs.iter().map(value).collect();
        let values = distinct(of_runs.iter().cloned());
        if values.iter().any(|value| value.contains(',')) {
            return None;
        }
        if values != [default] {
            let until_another = of_runs.iter().take_while(|value| **value == values[0]).count();
            all.push((key.name, values, until_another, of_runs));
        }
    }
    all.sort_by_key(|(.., until_another, _)| std::cmp::Reverse(*until_another));
    let combinations: usize = all.iter().map(|(_, values, ..)| values.len()).product();
    let mut alike = combinations;
    for (_, values, _, of_runs) in &all {
        alike /= values.len();
        if !(0..runs.len()).all(|at| of_runs[at] == values[at / alike % values.len()]) {
            return None;
        }
    }
    (combinations == runs.len()).then(|| all.into_iter().map(|(key, values, ..)| (key, values)).collect())
}

/// Traces and workloads; none of requests from memory or standard input.
fn demand(replayed: &Replayed, runs: &[Outcome], array: Option<&ArraySpec>) -> Option<Vec<String>> {
    let one = |trace: &Option<String>, workload: &Option<String>| match (trace, workload) {
        (Some(path), _) if path != "-" => Some(option("trace", Some(path))),
        (None, Some(text)) => Some(option("workload", Some(text))),
        _ => None,
    };
    let span = |sectors: u64| option("span", Some(exact_bytes(sectors * SECTOR_BYTES)));
    let mut words = Vec::new();
    match &replayed.sources {
        None => {
            words.extend(one(&replayed.trace, &replayed.workload)?);
            let least = runs.iter().map(|run| run.state.capacity_bytes / SECTOR_BYTES).min();
            words.extend(replayed.workload_sectors.filter(|sectors| Some(*sectors) != least).map_or(Vec::new(), span));
        }
        Some(sources) => {
            for source in sources {
                words.extend(one(&source.trace, &source.workload)?);
            }
            words.extend(option("interleave", replayed.interleave.as_ref()));
            let is_dedicated = array.is_some_and(|array| array.level == Level::Dedicated);
            if !is_dedicated && sources.iter().all(|source| source.first_lba == 0) {
                words.extend(option("sources", Some("zero")));
            }
            let generated: Vec<&MergedSource> = sources.iter().filter(|source| source.workload.is_some()).collect();
            if generated.windows(2).any(|pair| pair[0].sectors != pair[1].sectors) {
                return None;
            }
            words.extend(generated.first().map_or(Vec::new(), |source| span(source.sectors)));
        }
    }
    if let Some(reading) = &replayed.trace_reading {
        words.extend(option("volume", (reading.volume != "all").then_some(&reading.volume)));
        words.extend(option("format", reading.format.as_ref()));
        words.extend(switch("skip-bad-rows", reading.skip_bad_rows));
    }
    Some(words)
}

/// Arrivals, order and the state before, as far as they are not what they are unless given.
fn conditions(engine: &Settings, seed: u64) -> Option<Vec<String>> {
    let usual = Settings::default();
    if engine.until.is_some() {
        return None;
    }
    let [own, others] = [engine, &usual].map(|settings| serde_json::to_value(settings).ok());
    let (own, others) = (own?, others?);
    let is_asked = |key: &str| match key {
        "queue" => engine.depth > 1 || engine.queue != Queue::Fcfs,
        "check" => engine.check && engine.power_cut.is_none(),
        _ => own[key] != others[key],
    };
    let asked = own.as_object()?.iter().filter(|(key, _)| is_asked(key));
    let mut words: Vec<String> = asked.flat_map(|(key, value)| setting(key, value)).collect();
    words.extend(option("seed", (seed != usual.seed).then_some(seed)));
    Some(words)
}

/// The option that gives a setting the value that outcomes record: its key, a unit apart.
fn setting(key: &str, value: &Value) -> Vec<String> {
    let time = key.strip_suffix("_ns");
    let name = time.unwrap_or(key).replace('_', "-");
    match value {
        Value::Bool(is_on) => switch(&name, *is_on),
        Value::String(text) => option(&name, Some(text)),
        _ => match value.as_u64() {
            Some(ns) if time.is_some() => option(&name, Some(exact_duration(Nanos(ns)))),
            Some(number) => option(&name, Some(number)),
            None => option(&name, value.as_f64()),
        },
    }
}

/// A word as shells take it.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=/@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
