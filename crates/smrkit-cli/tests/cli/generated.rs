//! Parts of the documentation that come from the code: options, keys and tables between two marks of a page, and the sample
//! trace of the tour.
//!
//! `UPDATE=1 cargo test -p smrkit-cli --test cli generated` writes all of it anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;
use smrkit::device::level::{LEVELS, LevelSpec, SectorSpread};
use smrkit::device::spec::ArraySpec;
use smrkit::edit::Edit;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::record::{Column, ColumnType, Table};
use smrkit::request::Op;
use smrkit::schema::Key;
use smrkit::stats::outcome::{JoinedColumn, Outcome, Section, sections};
use smrkit::workload::{WORKLOADS, Workload};
use smrkit_advise::uses::{Pace, USES, Use};
use smrkit_live::block::report::DriveReport;

use super::docs::pages;
use super::helped::options;
use super::{root, smrkit};

/// The beginning of a generated part of a page: `<!--generated:NAME-->`, with hyphens in the name. Without spaces it is one word.
const BEGIN: &str = "<!--generated:";

/// Its end.
const END: &str = "<!--end-->";

fn updates() -> bool {
    std::env::var_os("UPDATE").is_some()
}

#[test]
fn generated_parts_of_the_pages_follow_the_code() {
    let (layers, drives) = (json("layers"), json("drives"));
    let mut parts: BTreeMap<String, String> = layers
        .iter()
        .filter(|layer| !list(layer, "parameters").is_empty())
        .map(|layer| (format!("parameters-of-{}", word(layer, "name")), parameters(layer)))
        .collect();
    parts.insert("layers".into(), index(&layers));
    parts.insert("drives".into(), drive_table(&drives));
    parts.insert("keys-of-workloads".into(), shared_keys());
    parts.insert("workloads".into(), workloads());
    parts.insert("uses".into(), uses());
    parts.insert("levels".into(), levels());
    parts.insert("keys-of-arrays".into(), keys(&ArraySpec::keys()));
    parts.insert("keys-of-edits".into(), keys(&Edit::keys()));
    parts.insert("keys-of-rebuilds".into(), keys(&RebuildSpec::keys()));
    parts.insert("keys-of-served-drives".into(), report_keys());
    parts.extend(outcome_columns());
    parts.extend(options());
    let mut unused: Vec<&String> = parts.keys().collect();
    for page in pages().into_iter().filter(|page| page.starts_with(root().join("docs"))) {
        let text = std::fs::read_to_string(&page).unwrap();
        let made = renewed(&text, &page, &parts, &mut unused);
        if updates() && made != text {
            std::fs::write(&page, &made).unwrap();
        } else {
            assert!(made == text, "{}: run UPDATE=1 cargo test -p smrkit-cli --test cli generated", page.display());
        }
    }
    assert!(unused.is_empty(), "no page has {unused:?}");
}

/// A page with its generated parts as the code has them.
fn renewed(text: &str, page: &Path, parts: &BTreeMap<String, String>, unused: &mut Vec<&String>) -> String {
    let mut pieces = text.split(BEGIN);
    let mut made = pieces.next().unwrap().to_string();
    for piece in pieces {
        let (name, rest) = piece.split_once("-->").expect("the mark's end");
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("{}: {name} has no end", page.display()));
        let part = parts.get(name).unwrap_or_else(|| panic!("{}: nothing makes {name}", page.display()));
        unused.retain(|other| *other != name);
        write!(made, "{BEGIN}{name}-->\n{part}{END}{after}").unwrap();
    }
    made
}

/// A section for each use: what it is, its keys, what is assumed.
fn uses() -> String {
    let section = |one: &Use| {
        let keys: String =
            one.keys.iter().map(|(key, default, meaning)| format!("- `{key}={default}`: {meaning}\n")).collect();
        let how = match one.pace {
            _ if one.work.is_of_array() => "work of an array",
            Pace::Own(_) => "requests come at times of their own",
            Pace::AtOnce(_) => "a fixed amount of work",
        };
        let what = one.what[..1].to_uppercase() + &one.what[1..];
        let keys = if keys.is_empty() { keys } else { format!("{keys}\n") };
        format!("\n## {}\n\n{what}: {how}.\n\n{keys}{}\n", one.name, one.assumed)
    };
    USES.iter().map(section).collect::<String>() + "\n"
}

fn json(command: &str) -> Vec<Value> {
    serde_json::from_str(&smrkit(&format!("{command} --json")).done()).unwrap()
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap()
}

fn table(heading: &str, rows: impl Iterator<Item = String>) -> String {
    let rule = heading.matches('|').skip(1).map(|_| "---|").collect::<String>();
    rows.fold(format!("{heading}\n|{rule}\n"), |made, row| made + &row + "\n")
}

fn index(layers: &[Value]) -> String {
    let rows = layers.iter().map(|layer| {
        format!(
            "| [`{0}`](layers/{0}.md) | {1} | {2} |",
            word(layer, "name"),
            word(layer, "summary"),
            word(layer, "paper")
        )
    });
    table("| layer | what it does | paper |", rows)
}

/// Values of a key, unless its default shows them: a number in a range, or a switch. Help has all ranges.
fn takes(text: &str) -> String {
    let plain =
        ["a whole number", "a percentage", "a number", "a size", "a duration", "a share", "one size", "on or off"];
    let kind = text.rsplit(", or ").next().unwrap();
    if plain.iter().any(|plain| kind.starts_with(plain)) { String::new() } else { format!(" Takes {text}.") }
}

fn parameters(layer: &Value) -> String {
    let line = |key: &Value| {
        let [name, default, kind, summary] = ["key", "default", "takes", "summary"].map(|field| word(key, field));
        format!("- `{name}={default}`: {summary}{}\n", takes(kind))
    };
    list(layer, "parameters").iter().map(line).collect()
}

fn drive_table(drives: &[Value]) -> String {
    let rows = drives.iter().map(|drive| {
        let gigabytes = drive["raw_sectors"].as_f64().unwrap() * 512e-9;
        let digits = if gigabytes < 1.0 { 4 } else { 0 };
        format!(
            "| `{}` | {gigabytes:.digits$} GB | {} | {} |",
            word(drive, "name"),
            word(drive, "clock"),
            word(drive, "summary")
        )
    });
    table("| drive | size | clock | what it is |", rows)
}

fn levels() -> String {
    let row = |level: &LevelSpec| format!("| `{}` | {} | {} |", level.name, disks(level), room(level));
    table("| level | disks *n* | capacity, with *c* whole chunks on the smallest member |", LEVELS.iter().map(row))
}

fn disks(level: &LevelSpec) -> String {
    match level.disks_max {
        usize::MAX => format!("{} or more", level.disks_min),
        most => format!("{} to {most}", level.disks_min),
    }
}

fn room(level: &LevelSpec) -> String {
    let each = if level.is_per_source { "; each source has a member of its own" } else { "" };
    match (level.spread, level.copies_max) {
        (SectorSpread::EndToEnd, _) => format!("all sectors, one member after another{each}"),
        (SectorSpread::Whole, _) => "all sectors of the smallest member".into(),
        (SectorSpread::Chunks, 1) => "*n* · *c* chunks".into(),
        (SectorSpread::Chunks, copies) => format!("⌊*n* · *c* / {copies}⌋ chunks"),
        (SectorSpread::Stripes, _) => format!("(*n* − {}) · *c* chunks", level.parities),
    }
}

/// Each key with its default, if it has one.
fn keys(keys: &[Key]) -> String {
    let line = |key: &Key| {
        let equals = if key.default.is_empty() { "" } else { "=" };
        format!("- `{}{equals}{}`: {}{}\n", key.name, key.default, key.help, takes(&key.domain().to_string()))
    };
    keys.iter().map(line).collect()
}

/// The columns of an outcome, a part for each section: a table of its columns, then the records that they hold.
fn outcome_columns() -> BTreeMap<String, String> {
    let mut places: Vec<(Table, Vec<String>)> = Vec::new();
    records_in("", &Outcome::table().unwrap().columns, &mut places);
    let part = |section: &Section| {
        let rows = section.columns.iter().map(|JoinedColumn { column, drives, runs, .. }| {
            let [drives, runs] = [drives, runs].map(|rule| rule.replace("unset", "").replace('_', " "));
            format!("| `{}` | {} | {drives} | {runs} |", column.name, column.help)
        });
        let made = table("| key | what it tells | of an array | of several runs |", rows);
        let is_here = |path: &str| section.columns.iter().any(|one| Some(one.column.name) == path.split('.').next());
        made + &held_records(places.iter().filter(|(_, paths)| is_here(&paths[0])))
    };
    sections().iter().map(|section| (format!("outcome-{}", slug(section.name)), part(section))).collect()
}

/// Records that columns hold, each with its columns.
fn held_records<'a>(places: impl Iterator<Item = &'a (Table, Vec<String>)>) -> String {
    let mut made = String::new();
    for (record, paths) in places {
        let heading = paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
        writeln!(made, "\n**{heading}**: {}\n", record.about).unwrap();
        for column in &record.columns {
            writeln!(made, "- `{}`: {}", column.name, column.help).unwrap();
        }
    }
    made
}

/// The keys of a served drive's report, then the records that they hold.
fn report_keys() -> String {
    let (report, mut places) = (DriveReport::table().unwrap(), Vec::new());
    records_in("", &report.columns, &mut places);
    let rows = report.columns.iter().map(|column| format!("| `{}` | {} |", column.name, column.help));
    table("| key | what it tells |", rows) + &held_records(places.iter())
}

/// Collects the records that columns hold, each with all paths to it.
fn records_in(path: &str, columns: &[Column], places: &mut Vec<(Table, Vec<String>)>) {
    // Members of an array are outcomes again.
    for column in columns.iter().filter(|column| column.name != "members" || !path.is_empty()) {
        let path = below(path, column.name);
        let Some(record) = (column.table)() else { continue };
        match places.iter_mut().find(|(known, _)| known.name == record.name) {
            Some((_, paths)) => paths.push(path.clone()),
            None => places.push((record, vec![path.clone()])),
        }
        records_in(&path, &(column.table)().unwrap().columns, places);
    }
}

/// The path of a key.
pub fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}

fn slug(section: &str) -> String {
    section.to_lowercase().replace(", ", "-").replace(' ', "-")
}

/// The columns of an outcome as attributes of Python's class.
fn stub() -> String {
    let mut made = String::new();
    for JoinedColumn { column, .. } in sections().into_iter().flat_map(|section| section.columns) {
        // A checker need not see that a key may be absent: whoever asks for it knows the run.
        let python = if column.may_be_absent { column.python.trim_end_matches(" | None") } else { &column.python };
        let mut line = String::from("    #:");
        for word in column.help.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > 120 {
                writeln!(made, "{line}").unwrap();
                line = "    #:".into();
            }
            write!(line, " {word}").unwrap();
        }
        writeln!(made, "{line}\n    {}: {python}", column.name).unwrap();
    }
    made
}

#[test]
fn the_python_class_has_the_columns_of_an_outcome_generated() {
    const MARKS: [&str; 2] = ["    # Generated from the table of columns.\n", "    # End of the columns.\n"];
    let path = root().join("crates/smrkit-py/python/smrkit/_outcome.py");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let made = format!("{before}{}{}{}{after}", MARKS[0], stub(), MARKS[1]);
    if updates() {
        std::fs::write(&path, &made).unwrap();
    } else {
        assert!(made == text, "run UPDATE=1 cargo test -p smrkit-cli --test cli generated");
    }
}

/// Keys that three workloads or more have, with one meaning.
fn shared() -> Vec<Key> {
    let all: Vec<Key> = WORKLOADS.iter().flat_map(|info| info.keys()).collect();
    let mut found: Vec<Key> = Vec::new();
    for key in &all {
        let same = |other: &&Key| other.name == key.name && other.help == key.help;
        if all.iter().filter(same).count() >= 3 && !found.iter().any(|other| same(&other)) {
            found.push(*key);
        }
    }
    found
}

fn shared_keys() -> String {
    let line = |key: Key| format!("- `{}`: {}{}\n", key.name, key.help, takes(&key.domain().to_string()));
    shared().into_iter().map(line).collect()
}

/// Each workload: what it does, the keys that have a default, and the keys that are its own.
fn workloads() -> String {
    let shared = shared();
    let mut made = String::new();
    for info in WORKLOADS {
        let keys = info.keys();
        let set = keys.iter().filter(|key| !key.default.is_empty());
        let defaults: Vec<_> = set.map(|key| format!("{}={}", key.name, key.default)).collect();
        writeln!(made, "**`{}`**: {}. `{}`\n", info.name, info.summary, defaults.join(",")).unwrap();
        let own: Vec<_> =
            keys.iter().filter(|key| !shared.iter().any(|s| s.name == key.name && s.help == key.help)).collect();
        for key in &own {
            writeln!(made, "- `{}`: {}{}", key.name, key.help, takes(&key.domain().to_string())).unwrap();
        }
        made += if own.is_empty() { "" } else { "\n" };
    }
    made
}

/// The workload behind `testdata/office.csv.gz`: half an hour of a small office's server, and a backup.
const OFFICE: &str = "hot-cold:span=300G,start=200G,size=4Ki/60:8Ki/20:16Ki/20,hot_share=5%,hot_access_share=70%,\
    write_share=0.75,rate=10,arrivals=poisson,duration=30min,align=4Ki \
    + burst:span=500G,start=500G,size=4Ki,interval=40ms,on=60s,off=4min,duration=30min,align=4Ki \
    + sequential-write:start=1T,size=512Ki,interval=100ms,count=2000";

/// Rows as MSR Cambridge's traces have them.
fn office() -> String {
    let mut source = Workload::parse(OFFICE).unwrap().source(10 << 30, 1).unwrap();
    let (mut rows, mut batch) = (String::new(), Vec::new());
    loop {
        source.fill(&mut batch).unwrap();
        if batch.is_empty() {
            return rows;
        }
        for request in &batch {
            let ticks = 133_000_000_000_000_000 + request.time.0 / 100;
            let op = if request.op == Op::Read { "Read" } else { "Write" };
            let [offset, size] = [request.lba.0, u64::from(request.sectors)].map(|sectors| sectors * 512);
            writeln!(rows, "{ticks},office,0,{op},{offset},{size},0").unwrap();
        }
    }
}

#[test]
fn the_sample_trace_is_what_its_workload_makes() {
    use std::io::{Read, Write};
    let path = root().join("testdata/office.csv.gz");
    if updates() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(office().as_bytes()).unwrap();
        std::fs::write(&path, encoder.finish().unwrap()).unwrap();
    }
    let mut rows = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut rows).unwrap();
    assert!(rows == office(), "UPDATE=1 cargo test -p smrkit-cli --test cli generated writes it anew");
}
