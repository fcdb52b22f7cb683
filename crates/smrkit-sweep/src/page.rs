//! The page of a sweep: the answer first, the table of all its runs, and figures over each axis that was swept.
//!
//! A case is what was asked of the disks (trace, workload, depth, …), a system the disks themselves. Figures have a panel a case and
//! a line a system, all on one scale.

use std::collections::BTreeMap;

use smrkit::error::Error;
use smrkit::layer::BASELINE;
use smrkit::stats::outcome::Outcome;
use smrkit_report::figure::{Axis, BarPart, Body, Colour, Figure, Numbers, Panel, Series, Style};
use smrkit_report::format::{NONE, capital, count, counted, short};
use smrkit_report::{Grid, Section, facts, page as of_sections};

use crate::table::{FlatRun, Spread, VALUES, cell, grouped, is_system, raw_unit, rows, spread, table, varying};
use crate::words::{self, with_unit};

/// Panels of a figure at most.
const PANELS_MAX: usize = 12;
/// Ends of an axis that are as far apart as this are drawn on a logarithmic one.
const WIDE: f64 = 20.0;

/// The page; `name` is the sweep's. Errors: none for outcomes that were read.
pub fn page(name: &str, outcomes: &[Outcome]) -> Result<String, Error> {
    let runs = Runs::new(rows(outcomes));
    let grid = runs.table()?;
    let mut sections =
        vec![Section { heading: "The answer".into(), text: runs.answer(outcomes), ..Section::default() }];
    sections.push(Section::of_table("All runs", grid));
    sections.extend(runs.figures().into_iter().map(Section::of_figure));
    sections.push(Section::of_table("What was run", facts(outcomes)));
    Ok(of_sections(&format!("smrkit sweep: {name}"), &sections))
}

/// Runs by what varied.
struct Runs {
    rows: Vec<FlatRun>,
    varying: Vec<String>,
}

impl Runs {
    fn new(rows: Vec<FlatRun>) -> Runs {
        let varying = varying(&rows);
        Runs { rows, varying }
    }

    fn table(&self) -> Result<Grid, Error> {
        let others = VALUES.into_iter().filter(|value| *value != self.measure());
        table(&self.rows, &[self.measure()].into_iter().chain(others).map(str::to_string).collect::<Vec<_>>())
    }

    fn keys(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        self.varying.iter().filter(|key| is_wanted(key)).cloned().collect()
    }

    /// The value that runs are judged by: of requests at their own times the mean latency, else the time for all.
    fn measure(&self) -> &'static str {
        let at_own_times = |row: &FlatRun| cell(row, "engine.arrival") == "trace";
        if self.rows.iter().any(at_own_times) { "latency_ns.all.mean" } else { "slowdown" }
    }

    /// Values that have figures.
    fn drawn(&self) -> [&'static str; 3] {
        [self.measure(), "latency_ns.all.p99", "write_amplification"]
    }

    /// The systems of shingled disks in each case, from the best on.
    fn ranked(&self) -> Vec<(String, Vec<(String, Spread)>)> {
        let (system, case) = (self.keys(is_system), self.keys(|key| !is_system(key)));
        let shingled: Vec<FlatRun> = self.rows.iter().filter(|row| cell(row, "layer") != BASELINE).cloned().collect();
        let cases = grouped(&shingled, &case).into_iter().map(|(own, there)| {
            let there: Vec<FlatRun> = there.into_iter().cloned().collect();
            let of = |(own, rows): (Vec<String>, Vec<&FlatRun>)| {
                Some((named(&system, &own), spread(&rows, self.measure())?))
            };
            let mut all: Vec<(String, Spread)> = grouped(&there, &system).into_iter().filter_map(of).collect();
            all.sort_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
            (named(&case, &own), all)
        });
        cases.filter(|(_, all)| !all.is_empty()).collect()
    }

    /// Sentences: which system is the best, in how many cases, and between what the values lie.
    fn answer(&self, outcomes: &[Outcome]) -> Vec<String> {
        let ranked = self.ranked();
        let merged = outcomes.iter().filter(|outcome| outcome.merged_verdicts.is_some());
        let merged: Vec<String> = merged.map(|one| format!("{}: {}", one.layer, one.verdict.text)).collect();
        let cases =
            if ranked.is_empty() { String::new() } else { format!(" in {}", counted(ranked.len() as u64, "case")) };
        let runs = format!("{} runs{cases}.", count(outcomes.len() as u64));
        [vec![[vec![runs], self.best(&ranked), self.ends(&ranked)].concat().join(" ")], merged].concat()
    }

    fn best(&self, ranked: &[(String, Vec<(String, Spread)>)]) -> Vec<String> {
        let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
        let contested: Vec<&Vec<(String, Spread)>> =
            ranked.iter().map(|(_, all)| all).filter(|all| all.len() > 1).collect();
        contested.iter().for_each(|all| *wins.entry(&all[0].0).or_default() += 1);
        let mut wins: Vec<(&str, usize)> = wins.into_iter().collect();
        wins.sort_by_key(|&(name, wins)| (std::cmp::Reverse(wins), name));
        let what = if self.measure() == "slowdown" { "takes the least time" } else { "has the least mean latency" };
        let close = contested.iter().filter(|all| all[0].1.most >= all[1].1.least).count();
        let mut said: Vec<String> = match wins.as_slice() {
            [] => Vec::new(),
            [(name, _)] => vec![format!("{name} {what}{}.", if contested.len() > 1 { " in all of them" } else { "" })],
            [(name, first), others @ ..] => {
                let others: Vec<String> = others.iter().map(|(name, wins)| format!("{name} in {wins}")).collect();
                vec![format!("{name} {what} in {first} of them, {}.", others.join(", "))]
            }
        };
        if close > 0 {
            said.push(format!("In {close} the runner-up comes as close as the seeds lie apart."));
        }
        said
    }

    /// The least and the greatest value, and whose they are.
    fn ends(&self, ranked: &[(String, Vec<(String, Spread)>)]) -> Vec<String> {
        let all =
            || ranked.iter().flat_map(|(case, all)| all.iter().map(move |(system, value)| (value.mean, case, system)));
        let least = all().min_by(|one, other| one.0.total_cmp(&other.0));
        let most = all().max_by(|one, other| one.0.total_cmp(&other.0));
        let (Some(least), Some(most)) = (least, most) else { return Vec::new() };
        let (unit, factor) = words::unit(self.measure(), most.0);
        let unit = if unit == "×" { unit } else { format!(" {unit}") };
        let text = |(value, case, system): (f64, &String, &String)| {
            let whose: Vec<&str> =
                [system, case].into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            format!("{}{unit} ({})", short(value * factor), whose.join(", "))
        };
        let what =
            if self.measure() == "slowdown" { "Multiples of a conventional disk's time" } else { "Mean latencies" };
        vec![match least.0 == most.0 {
            true => format!("{what}: {}.", text(least)),
            false => format!("{what}: from {} to {}.", text(least), text(most)),
        }]
    }

    /// A figure for each value over each axis of numbers; bars where there is no such axis.
    fn figures(&self) -> Vec<Figure> {
        let is_axis = |key: &str| {
            let mut values: Vec<String> =
                self.rows.iter().filter_map(|row| number(row, key)).map(|n| n.to_string()).collect();
            values.sort();
            values.dedup();
            values.len() > 1
        };
        let axes = self.keys(is_axis);
        let over = axes.iter().flat_map(|axis| self.drawn().map(|value| self.over(axis, value)));
        let bars = self.drawn().into_iter().filter(|_| axes.is_empty()).map(|value| self.bars(value));
        over.chain(bars).filter(|figure| !figure.panels.is_empty()).collect()
    }

    /// A value over an axis: a panel a case, a line a system, a dot a run.
    fn over(&self, axis: &str, value: &str) -> Figure {
        let case = self.keys(|key| !is_system(key) && key != axis);
        let system = self.keys(|key| is_system(key) && key != axis);
        let there: Vec<FlatRun> = self.rows.iter().filter(|row| number(row, axis).is_some()).cloned().collect();
        let systems: Vec<String> = grouped(&there, &system).into_iter().map(|(own, _)| named(&system, &own)).collect();
        let (y_numbers, factor) = words::numbers(value);
        let spans: Vec<f64> = there.iter().filter_map(|row| number(row, axis)).collect();
        let y_values: Vec<f64> = self.rows.iter().filter_map(|row| number(row, value)).collect();
        let panel = |(own, rows): (Vec<String>, Vec<&FlatRun>)| {
            let rows: Vec<FlatRun> = rows.into_iter().cloned().collect();
            let mut series = Vec::new();
            for (own, runs) in grouped(&rows, &system) {
                let name = named(&system, &own);
                let nth = systems.iter().position(|known| *known == name).unwrap_or(0);
                let colour = if cell(runs[0], "layer") == BASELINE { Colour::GREY } else { Colour::nth(nth) };
                series.extend(line(&runs, axis, value, factor).map(|(style, points)| Series {
                    name: name.clone(),
                    colour,
                    style,
                    points,
                }));
            }
            let x = scale(with_unit(&words::name(axis), raw_unit(axis)), &spans, Numbers::Plain);
            let label = if y_numbers == Numbers::Plain {
                with_unit(&words::name(value), &words::unit(value, 0.0).0)
            } else {
                words::name(value)
            };
            let y = Axis { from_zero: true, ..scale(label, &y_values, y_numbers) };
            let mut panel = Panel::new(
                Some(named(&case, &own).as_str()).filter(|title| !title.is_empty()),
                x,
                y,
                Body::Lines(series),
            );
            panel.guides = self.guides(axis, value, &system, (&case, &own), factor);
            panel
        };
        let cases = grouped(&there, &case);
        let note = format!("Lines join the means, dots are single runs{}.", rest(cases.len()));
        let panels = cases.into_iter().take(PANELS_MAX).map(panel).filter(|panel| !panel.is_empty()).collect();
        let title = format!("{} by {}", capital(&words::name(value)), words::name(axis));
        let mut figure = Figure { name: format!("{value}-by-{axis}").replace('.', "-"), title, note, panels };
        figure.share_x();
        figure.share_y();
        figure
    }

    /// Marks for systems without the axis, next to the lines of those that have it.
    fn guides(
        &self,
        axis: &str,
        value: &str,
        system: &[String],
        (case, own): (&[String], &[String]),
        factor: f64,
    ) -> Vec<(f64, String)> {
        let is_there = |row: &&FlatRun| {
            number(row, axis).is_none() && case.iter().zip(own).all(|(key, one)| cell(row, key) == *one)
        };
        let others: Vec<FlatRun> = self.rows.iter().filter(is_there).cloned().collect();
        let mut guides = Vec::new();
        for (own, rows) in grouped(&others, system) {
            guides.extend(spread(&rows, value).map(|spread| (spread.mean * factor, named(system, &own))));
        }
        guides
    }

    /// A value as bars: a panel a case, a row a system.
    fn bars(&self, value: &str) -> Figure {
        let (case, system) = (self.keys(|key| !is_system(key)), self.keys(is_system));
        let largest = self.rows.iter().filter_map(|row| number(row, value)).fold(0.0, f64::max);
        let (unit, factor) = words::unit(value, largest);
        let panel = |(own, rows): (Vec<String>, Vec<&FlatRun>)| {
            let there: Vec<FlatRun> = rows.into_iter().cloned().collect();
            let known = grouped(&there, &system)
                .into_iter()
                .filter_map(|(own, rows)| Some((named(&system, &own), spread(&rows, value)?)));
            let (rows, values): (Vec<String>, Vec<Spread>) = known.unzip();
            let totals = values.iter().map(|value| value.text(factor)).collect();
            let part = BarPart {
                name: String::new(),
                colour: Colour::SKY,
                values: values.iter().map(|value| value.mean * factor).collect(),
            };
            let mut x = Axis::linear(with_unit(&words::name(value), &unit));
            x.fixed = Some(x.range([largest * factor].into_iter()));
            let title = named(&case, &own);
            Panel::new(
                Some(title.as_str()).filter(|title| !title.is_empty()),
                x,
                Axis::default(),
                Body::Bars { rows, totals, parts: vec![part] },
            )
        };
        let cases = grouped(&self.rows, &case);
        let note =
            format!("After each bar: the mean over seeds, and its 95 % confidence interval{}.", rest(cases.len()));
        let panels = cases.into_iter().take(PANELS_MAX).map(panel).filter(|panel| !panel.is_empty()).collect();
        Figure { name: value.replace('.', "-"), title: capital(&words::name(value)), note, panels }
    }
}

/// The line through the means and, where there are several runs, a dot for each.
fn line(
    runs: &[&FlatRun],
    axis: &str,
    value: &str,
    factor: f64,
) -> impl Iterator<Item = (Style, Vec<(f64, f64)>)> + use<> {
    let point = |row: &&FlatRun| Some((number(row, axis)?, number(row, value)? * factor));
    let mut dots: Vec<(f64, f64)> = runs.iter().filter_map(point).collect();
    dots.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut means: Vec<(f64, f64)> = Vec::new();
    for at in dots.chunk_by(|one, other| one.0 == other.0) {
        means.push((at[0].0, at.iter().map(|dot| dot.1).sum::<f64>() / at.len() as f64));
    }
    let repeated = dots.len() > means.len();
    let line = (if repeated { Style::Line } else { Style::Marked }, means);
    [Some(line), repeated.then_some((Style::Points, dots))]
        .into_iter()
        .flatten()
        .filter(|(_, points)| !points.is_empty())
}

fn number(row: &FlatRun, key: &str) -> Option<f64> {
    row.get(key)?.as_f64()
}

/// An axis for such values, logarithmic where they lie far apart.
fn scale(label: String, values: &[f64], numbers: Numbers) -> Axis {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
    match least > 0.0 && most / least >= WIDE {
        true => Axis::log(label + " (logarithmic)", numbers),
        false => Axis { numbers, ..Axis::tight(label) },
    }
}

/// Values of keys in words: `vguard, depth 8`.
fn named(keys: &[String], own: &[String]) -> String {
    let plain = ["layer", "drive", "array", "trace", "workload"];
    let word = |(key, value): (&String, &String)| match plain.contains(&key.as_str()) {
        true => value.clone(),
        false => format!("{} {value}{}", words::name(key), if key.ends_with("_percent") { " %" } else { "" }),
    };
    let there = keys.iter().zip(own).filter(|(_, value)| *value != NONE);
    there.map(word).collect::<Vec<_>>().join(", ")
}

/// Text on the cases that have no panel.
fn rest(cases: usize) -> String {
    if cases > PANELS_MAX {
        format!("; the first {PANELS_MAX} of {cases} cases, the table has all")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests;
