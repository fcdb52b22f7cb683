//! Measured drives next to simulated ones: the validation traces of DiskSim 4.0 on the drives that its descriptions make, and
//! public tests of shingled disks.
//!
//! Traces and descriptions are others' work and don't come with smrkit; a folder holds them, or they are missed.

use std::path::PathBuf;

use smrkit::error::Error;
use smrkit::experiment::pool::RunWatch;
use smrkit_report::figure::{Axis, Figure, Series, Style};

mod public;

use super::validation::{Subject, Validation, subjects};
use crate::{Item, JobResult, Reproduction, Row, Scale, Shown, Work};

pub const REPRODUCTION: Reproduction = Reproduction {
    name: "drives",
    paper: "Measured drives: DiskSim 4.0 (2008), and public tests of shingled disks",
    summary: "Response times of seven drives, from their descriptions alone; rates of shingled disks that others measured.",
    before: "Drives of the 1990s are imported from their descriptions; requests keep the traces' think times, one outstanding. \
             Shingled disks are full.",
    items,
    open,
};

/// DiskSim's own rms in ms, as published with it (its `valid/runvalid`). The last three come with it, but not with our data.
#[allow(clippy::approx_constant, reason = "0.318 is measured")]
const PUBLISHED: [(&str, f64); 10] = [
    ("cheetah4LP", 0.318),
    ("barracuda", 0.349),
    ("atlas_III", 0.378),
    ("ibm18es", 0.135),
    ("hp_c3323a", 0.306),
    ("hp_c2490a", 0.254),
    ("dec_rz26", 0.340),
    ("cheetah9LP", 0.107),
    ("atlas10k", 0.268),
    ("hp_c2247a", 0.090),
];
/// Drives on which DiskSim's own times for single requests were compared, and are near chance.
const NEAR_CHANCE: [&str; 6] = ["cheetah4LP", "barracuda", "atlas_III", "ibm18es", "hp_c3323a", "dec_rz26"];
/// Distance from the measurement beyond DiskSim's that still agrees: more than halves of one trace differ from each other.
const MARGIN_MS: f64 = 0.05;
/// DiskSim's share of hp_c2490a's slow reads within 0.5 ms, from its times for each request.
const CLOSE_READS: (&str, f64) = ("hp_c2490a", 83.5);
/// Points of a distribution that are drawn.
const DRAWN: usize = 200;

/// Folders in which measured drives are looked for, from the working directory.
const FOLDERS: [&str; 2] = ["measured/disksim", "../shared/measured/disksim"];

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("SMRKIT_MEASURED").map(|folder| PathBuf::from(folder).join("disksim"));
    named.into_iter().chain(FOLDERS.map(PathBuf::from)).find(|folder| folder.is_dir())
}

fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    let mut items = described()?;
    items.extend(public::items(scale)?);
    Ok(items)
}

fn described() -> Result<Vec<Item>, Error> {
    let Some(folder) = folder() else {
        let text = "Descriptions and traces are missed: give the folder that holds disksim/ in SMRKIT_MEASURED.";
        return Ok(vec![Item::told("Response times", Shown { text: vec![text.into()], ..Shown::default() })]);
    };
    let of_drive = |subject: Subject| {
        let heading =
            PUBLISHED.iter().map(|(name, _)| *name).find(|name| *name == subject.name).unwrap_or("another drive");
        let jobs: Vec<Box<dyn Work>> = vec![Box::new(subject)];
        let show = move |made: Vec<Option<JobResult>>| {
            let validations = made.into_iter().flatten().filter_map(JobResult::validation);
            validations.map(|validation| (heading, shown(&validation))).collect()
        };
        Item::of_jobs(heading, jobs, show)
    };
    Ok(subjects(&folder)?.0.into_iter().map(of_drive).collect())
}

impl Work for Subject {
    fn make(&self, _: &mut RunWatch) -> Result<JobResult, Error> {
        self.validate().map(|validation| JobResult::Validation(Box::new(validation)))
    }

    #[cfg(test)]
    fn described(&self) -> String {
        format!("{self:?}")
    }
}

fn shown(of: &Validation) -> Shown {
    let mut rows = Vec::new();
    if let Some((_, theirs)) = PUBLISHED.iter().find(|(name, _)| *name == of.drive) {
        let reason = format!("rms of both distributions, compared with DiskSim's: at most {MARGIN_MS} ms more");
        rows.push(Row::holds("rms", *theirs, of.rms_ms, "ms", of.rms_ms <= theirs + MARGIN_MS).because(reason));
    }
    let error = (of.mean_ours_ms / of.mean_measured_ms - 1.0).abs();
    let reason = "compared with the measured mean: within 5 %";
    rows.push(Row::holds("mean", of.mean_measured_ms, of.mean_ours_ms, "ms", error <= 0.05).because(reason));
    let share = 100.0 * of.slow_reads_within_half_ms as f64 / of.slow_reads.max(1) as f64;
    let single = "reads over 3 ms within 0.5 ms";
    match of.drive == CLOSE_READS.0 {
        true => {
            let reason =
                "compared with DiskSim's share, at least 75 %: this drive's times are exact enough for single requests";
            rows.push(Row::holds(single, CLOSE_READS.1, share, "%", share >= 75.0).because(reason));
        }
        false => {
            let reason = match NEAR_CHANCE.contains(&of.drive.as_str()) {
                true => "DiskSim itself is near chance on this drive",
                false => "no share of DiskSim's is at hand for this drive",
            };
            rows.push(Row::not_comparable(single, share, "%").because(reason));
        }
    }
    Shown { rows, figure: Some(figure(of)), ..Shown::default() }
}

/// Both distributions.
fn figure(of: &Validation) -> Figure {
    let series = [(0, "measured", Style::Line), (1, "simulated", Style::Dashed)].map(|(nth, name, style)| {
        let times = &of.times_ms[nth];
        let point = |n: usize| {
            let at = (n * times.len() / DRAWN).min(times.len().saturating_sub(1));
            times.get(at).map(|ms| (*ms, 100.0 * n as f64 / DRAWN as f64))
        };
        Series::nth(nth, name, style, (0..=DRAWN).filter_map(point).collect())
    });
    let (x, y) = (Axis::linear("Response time (ms)"), Axis::linear("Requests completed (%)"));
    Figure::lines(&format!("drives-{}", of.drive), &format!("Response times of {}", of.drive), x, y, series.into())
}

fn open() -> Result<Vec<String>, Error> {
    Ok(texts![
        "Halves of one trace differ by 0.02 to 0.27 ms in rms: smaller differences mean nothing.",
        "Users' reports name neither the state of the drive nor the file system's own writes.",
        "A negative settling time of writes (hp_c2490a, dec_rz26) is left out, as are remapped defects and the bus \
         protocol; so is that dec_rz26 reads sectors as they pass, which would take its rms to 0.41 ms.",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Agreement, Value};

    fn validation(drive: &str, rms_ms: f64, mean_ours_ms: f64, close: u64) -> Validation {
        Validation {
            drive: drive.into(),
            requests: 8,
            rms_ms,
            mean_measured_ms: 10.0,
            mean_ours_ms,
            slow_reads: 8,
            slow_reads_within_half_ms: close,
            times_ms: [(0..8).map(f64::from).collect(), (0..400).map(f64::from).collect()],
        }
    }

    /// Its rows: item, ours, verdict.
    fn rows(of: &Validation) -> Vec<(String, f64, Agreement)> {
        let ours = |value: &Value| if let Value::Number(ours) = value { *ours } else { f64::NAN };
        shown(of).rows.iter().map(|row| (row.item.clone(), ours(&row.ours), row.verdict)).collect()
    }

    #[test]
    fn a_drive_agrees_that_is_hardly_farther_off_than_disksim() {
        let verdicts = |of: Validation| rows(&of).iter().map(|row| row.2).collect::<Vec<_>>();
        use Agreement::{Agree, Differs, NotComparable};
        // DiskSim's own rms is 0.318 ms, and 0.254 ms with 83.5 % of the slow reads close.
        assert_eq!(verdicts(validation("cheetah4LP", 0.368, 10.49, 8)), [Agree, Agree, NotComparable]);
        assert_eq!(verdicts(validation("cheetah4LP", 0.369, 9.51, 8)), [Differs, Agree, NotComparable]);
        assert_eq!(verdicts(validation("hp_c2490a", 0.254, 10.51, 6)), [Agree, Differs, Agree]);
        assert_eq!(verdicts(validation("hp_c2490a", 0.31, 9.49, 5)), [Differs, Differs, Differs]);
        assert_eq!(verdicts(validation("unknown", 0.0, 10.0, 0)), [Agree, NotComparable]);
    }

    #[test]
    fn rows_name_what_they_are_of_and_why_there_is_no_verdict() {
        let shown_rows = rows(&validation("atlas_III", 0.25, 10.25, 2));
        let single = "reads over 3 ms within 0.5 ms";
        let expected = [
            ("rms", 0.25, Agreement::Agree),
            ("mean", 10.25, Agreement::Agree),
            (single, 25.0, Agreement::NotComparable),
        ];
        assert_eq!(shown_rows, expected.map(|(item, ours, verdict)| (item.to_string(), ours, verdict)));
        let why = |drive: &str| shown(&validation(drive, 0.25, 10.0, 2)).rows.pop().unwrap().reason;
        assert_eq!(why("atlas_III"), "DiskSim itself is near chance on this drive");
        assert_eq!(why("cheetah9LP"), "no share of DiskSim's is at hand for this drive");
        assert!(why("hp_c2490a").contains("at least 75 %"));
        let none = Validation { slow_reads: 0, ..validation("atlas_III", 0.25, 10.0, 0) };
        assert_eq!(rows(&none)[2].1, 0.0);
    }

    #[test]
    fn both_distributions_are_drawn_by_two_hundredths() {
        let figure = figure(&validation("atlas_III", 0.25, 10.0, 2));
        assert_eq!((figure.name.as_str(), figure.title.as_str()), ("drives-atlas_III", "Response times of atlas_III"));
        let smrkit_report::figure::Body::Lines(series) = &figure.panels[0].body else { panic!("no lines") };
        let [measured, simulated] = &series[..] else { panic!("{series:?}") };
        assert_eq!((measured.name.as_str(), measured.style), ("measured", Style::Line));
        assert_eq!((simulated.name.as_str(), simulated.style), ("simulated", Style::Dashed));
        let at = |series: &Series| [0, 1, 100, 200].map(|n| series.points[n]);
        assert_eq!(at(measured), [(0.0, 0.0), (0.0, 0.5), (4.0, 50.0), (7.0, 100.0)]);
        assert_eq!(at(simulated), [(0.0, 0.0), (2.0, 0.5), (200.0, 50.0), (399.0, 100.0)]);
        assert_eq!((measured.points.len(), simulated.points.len()), (201, 201));
        let empty = Validation { times_ms: [Vec::new(), Vec::new()], ..validation("atlas_III", 0.25, 10.0, 2) };
        let smrkit_report::figure::Body::Lines(series) = &super::figure(&empty).panels[0].body else {
            panic!("no lines")
        };
        assert!(series.iter().all(|series| series.points.is_empty()));
    }
}
