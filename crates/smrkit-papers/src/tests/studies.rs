//! Results of whole studies, and of the ageing of a file system: text, record and page.

use serde_json::Value;
use smrfs::age::course::{CourseOptions, PAPER_DISK_BYTES};
use smrfs::age::world::World;
use smrfs::device::Model;
use smrfs::workload::driver::End;
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::experiment::pool::{Monitor, RunWatch};
use smrkit_report::Grid;
use smrkit_report::figure::{Axis, Figure};

use super::made_up::{self, Dice};
use super::{kept_path, kept_text};
use crate::ageing::Aged;
use crate::lab::{JobResult, Work};
use crate::row::Row;
use crate::study::Study;
use crate::traces::Traces;
use crate::{Item, Reproduction, Scale, Shown};

fn aged(model: Model, end: End, directory: Option<&str>) -> Aged {
    let world = World::paper(model, Drive::load("wdc-2tb").unwrap());
    let shape = world.shape();
    let options = CourseOptions::paper(PAPER_DISK_BYTES, 7);
    let course = made_up::course(&mut Dice::new(3), end);
    let known = directory.is_none();
    let about = (known.then_some(&world), known.then_some(&shape));
    Aged::new(directory.map(String::from), about, PAPER_DISK_BYTES, &options, course, end == End::Stopped)
}

#[test]
fn made_up_courses_of_ageing_are_shown_as_they_were() {
    let mut text = String::new();
    let cases = [
        (Model::Caveat, End::Done, None),
        (Model::StrictAppend, End::Full, None),
        (Model::Caveat, End::Stopped, Some("/mnt/x")),
    ];
    for (model, end, directory) in cases {
        let aged = aged(model, end, directory);
        let mut record = serde_json::to_value(aged.record(Some("abc"))).unwrap();
        let samples = record["samples"].as_array_mut().unwrap();
        assert_eq!(samples.len(), 12);
        samples.truncate(2);
        text += &format!("{}\n", aged.text());
        let record = record.as_object().unwrap().iter().filter(|(key, _)| *key != "version");
        text.extend(record.map(|(key, value)| format!("{key}: {value}\n")));
        text.extend(aged.figures().iter().map(super::figure));
    }
    kept_text::same(&kept_path("age"), &text);
}

#[test]
fn a_page_of_ageing_has_what_was_measured() {
    let page = aged(Model::Caveat, End::Done, None).page();
    let parts =
        ["smrkit age", "In short", "Caveat-Scriptor, simulated", "Benchmarks", "postmark", "Space while ageing"];
    for part in parts {
        assert!(page.contains(part), "{part}");
    }
}

/// A monitor that stops the work after this many questions.
struct Until(std::sync::atomic::AtomicI64);

impl Until {
    fn questions(questions: i64) -> Until {
        Until(questions.into())
    }
}

impl Monitor for Until {
    fn goes_on(&self) -> bool {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0
    }

    fn commit(&self) -> Option<&str> {
        Some("abc")
    }

    fn threads(&self) -> usize {
        0
    }
}

/// A job whose result is a course.
struct Aging(End);

impl Work for Aging {
    fn make(&self, _: &mut RunWatch) -> Result<JobResult, Error> {
        Ok(JobResult::FileSystem(Box::new(made_up::course(&mut Dice::new(1), self.0))))
    }

    fn described(&self) -> String {
        String::new()
    }
}

fn jobs(ends: &[End]) -> Vec<Box<dyn Work>> {
    ends.iter().map(|&end| Box::new(Aging(end)) as Box<dyn Work>).collect()
}

fn described(made: &[Option<JobResult>]) -> Shown {
    Shown { text: vec![format!("{} of {} runs", made.iter().flatten().count(), made.len())], ..Shown::default() }
}

fn some_items(_: &Scale) -> Result<Vec<Item>, Error> {
    let compared = Item::told("Compared", {
        let row = |item: &str, holds| Row::holds(item, 1.0, 2.0, "s", holds).because("measured");
        let rows = vec![
            row("a", true),
            row("b", true).by_construction(),
            row("c", true).derived(),
            row("d", false),
            Row::not_comparable("e", 3.0, "s").because("not told"),
        ];
        let mut table = Grid::new(["drive", "rate"]);
        table.rows.push(vec!["tiny".into(), "7".into()]);
        let mut figure = Figure::lines("lines", "Lines", Axis::linear("x"), Axis::linear("y"), Vec::new());
        figure.note = "Read it so.".into();
        Shown { text: vec!["Said.".into()], table: Some(table), rows, figure: Some(figure) }
    });
    let whole = Item::of_jobs("Whole", jobs(&[End::Done, End::Full]), |made| vec![("Whole", described(&made))]);
    let partial =
        Item::of_jobs("Partial", jobs(&[End::Done, End::Stopped]), |made| vec![("Partial", described(&made))]);
    let lost = Item::of_jobs("Lost", jobs(&[End::Stopped]), |made| vec![("Lost", described(&made))]);
    Ok(vec![compared, whole, Item { partial: true, ..partial }, Item { partial: true, ..lost }])
}

const STUDY: Reproduction = Reproduction {
    name: "study",
    paper: "A & B 2020",
    summary: "All of it.",
    before: "Disks are empty.",
    items: some_items,
    open: || Ok(vec!["How large the disk is.".into()]),
};

fn made(questions: i64, quick: bool) -> Study {
    let scale = Scale { quick, seed: 5, traces: Traces::default() };
    Study::make(&[&STUDY], scale, &Until::questions(questions)).unwrap()
}

#[test]
fn a_study_is_summed_up_and_tells_what_an_interrupt_left_out() {
    let study = made(1000, true);
    assert!(study.interrupted, "two runs did not come to their end");
    let version = smrkit::VERSION;
    let expected = format!(
        "\
5 comparisons: 3 agree (1 of them by construction), 1 differ, 1 are not comparable.
By construction: what goes in was solved from, or fitted to, the paper's number, so that agreement is no evidence.
1 more agree with numbers derived here, which the paper does not print; with its own, 1 do.
Interrupted: what had been run until then follows.
Quick: fewer seeds and shorter runs than in full; the verdicts are rougher.
Seed 5, smrkit {version} (abc).

A & B 2020
══════════
Disks are empty.

Compared
Said.
"
    );
    let text = study.text();
    assert!(text.starts_with(&expected), "{text}");
    let last = "
Whole
2 of 2 runs

Partial
Interrupted: 1 of 2 runs were made; what needs the others is left out.
1 of 2 runs

Lost
Interrupted: 0 of 1 runs were made, so nothing is compared here.

What the paper leaves open, or contradicts
- How large the disk is.
";
    assert!(text.ends_with(last), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    let tables = ["drive rate", "tiny 7", "item paper ours unit verdict", "b 1 2 s agree measured; by construction"];
    assert!(tables.iter().all(|table| words.contains(table)), "{text}");
}

#[test]
fn a_study_that_never_began_says_so() {
    let study = made(0, false);
    assert!(study.interrupted);
    let text = study.text();
    assert!(text.contains("\nInterrupted\nNothing was run.\n"), "{text}");
    assert!(!text.contains("comparisons") && !text.contains("Quick"), "{text}");
}

#[test]
fn the_record_of_a_study_names_each_row_and_table() {
    let study = made(1000, false);
    let record = serde_json::to_value(study.record()).unwrap();
    let rows = record["rows"].as_array().unwrap();
    let items: Vec<&str> = rows.iter().map(|row| row["item"].as_str().unwrap()).collect();
    assert_eq!(items, ["a", "b", "c", "d", "e"].map(|item| format!("Compared / {item}")));
    let of = |key: &str| rows.iter().map(|row| row[key].to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(of("by_construction"), "false true false false false");
    assert_eq!(of("verdict").replace('"', ""), "agree agree agree differs not-comparable");
    assert_eq!(of("basis").replace('"', ""), "paper fitted derived paper paper");
    assert_eq!((of("paper"), of("ours")), ("1.0 1.0 1.0 1.0 null".into(), "2.0 2.0 2.0 2.0 3.0".into()));
    assert_eq!(rows[0]["unit"], "s");
    assert_eq!(rows[1]["reason"], "measured; by construction");
    let head = ["schema", "version", "commit", "seed", "quick", "interrupted"].map(|key| record[key].clone());
    let version = smrkit::VERSION;
    assert_eq!(Value::from(head.to_vec()), serde_json::json!([1, version, "abc", 5, false, true]));
    let table = serde_json::json!([{
        "reproduction": "study", "heading": "Compared", "header": ["drive", "rate"], "rows": [["tiny", "7"]]
    }]);
    assert_eq!(record["tables"], table);
    let names: Vec<&str> = study.figures().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["lines"]);
}

#[test]
fn the_page_of_a_study_has_all_that_its_text_has() {
    let page = made(1000, true).page();
    let parts = [
        "Reproduced: A &amp; B 2020",
        "In short",
        "5 comparisons",
        "Compared",
        "Read it so.",
        "tiny",
        "not-comparable",
        "What the paper leaves open",
        "Disks are empty.",
        "How large the disk is.",
    ];
    for part in parts {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn seeds_and_sizes_follow_the_scale() {
    let scale = |quick| Scale { quick, seed: u64::MAX, traces: Traces::default() };
    assert_eq!((scale(true).pick(3, 1), scale(false).pick(3, 1)), (1, 3));
    assert_eq!(scale(false).seeds(3, 1).collect::<Vec<_>>(), [u64::MAX, 0, 1]);
    assert_eq!(scale(true).seeds(3, 1).collect::<Vec<_>>(), [u64::MAX]);
}

#[test]
fn studies_are_found_by_name_or_all_that_follow_a_paper() {
    let names = |name: &str| crate::find(name).unwrap().iter().map(|of| of.name).collect::<Vec<_>>();
    assert_eq!(names("caveat"), ["caveat"]);
    assert_eq!(names("compare"), ["compare"]);
    let all = names("all");
    assert!(all.len() == crate::REPRODUCTIONS.len() - 1 && !all.contains(&"compare"), "{all:?}");
    let unknown = crate::find("x").err().unwrap().to_string();
    assert!(
        unknown.contains("nothing to reproduce is called 'x': there are") && unknown.contains("caveat: Kadekodi"),
        "{unknown}"
    );
}

#[test]
fn a_folder_of_traces_is_searched_by_name_and_ending() {
    let folder = tempfile::tempdir().unwrap();
    let none = Traces::find(Some(&folder.path().join("none"))).unwrap_err();
    assert!(none.to_string().contains("none"), "{none}");
    made_up::traces(folder.path());
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let traces = Traces::find(Some(folder.path())).unwrap();
    assert_eq!(traces.files().len(), 10);
    assert!(traces.files().iter().all(|file| file.is_file()));
    assert!(traces.get("wdev_1").unwrap().is_some() && traces.get("wdev").unwrap().is_none());
    assert!(Traces::default().get("wdev_1").unwrap().is_none() && Traces::default().files().is_empty());
}
