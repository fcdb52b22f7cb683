//! Commands print and draw what they did: each book in `tests/reproduced` is a list of commands with their output.
//!
//! `UPDATE=1 cargo test -p smrkit-cli --test cli shown` writes the books anew; a line that moves is seen by users.

use serde_json::Value;

use super::kept::same;
use super::{Scratch, command, finish, root};

/// Runs each command with the project's files in `ROOT` and a folder of its own; the charts of a page that it writes into `PAGE` are told of too.
fn book(name: &str, commands: &[&str]) {
    let scratch = Scratch::new();
    let (project, own) = (root().canonicalize().unwrap().display().to_string(), scratch.path(""));
    let mut shown = String::new();
    for (number, line) in commands.iter().enumerate() {
        let page = scratch.path(&format!("page-{number}.html"));
        let arguments = line.replace("PAGE", &page).replace("ROOT", &project);
        let mut run = command();
        run.args(arguments.split_whitespace()).current_dir(scratch.path(""));
        let ran = finish(run);
        let code = if ran.code == 0 { String::new() } else { format!("exit code {}\n", ran.code) };
        let out = serde_json::from_str(&ran.out).map_or(ran.out, |value: Value| short(&value));
        let said = [out, ran.err, code].concat();
        let said = said.replace(&page, "PAGE").replace(&project, "ROOT").replace(&own, "");
        let lines = said.lines().map(|line| without_host(line).trim_end().to_string() + "\n").collect::<String>();
        shown += &format!("$ smrkit {line}\n{lines}");
        if let Ok(page) = std::fs::read_to_string(page) {
            shown += &charts(&page);
        }
        shown += "\n";
    }
    same(name, &shown);
}

/// The charts of a page: their data, shortened.
fn charts(page: &str) -> String {
    let (_, data) = page.split_once("\nconst page = ").expect("a page has data");
    let data: Value = serde_json::from_str(data.split_once(";\n").unwrap().0).unwrap();
    format!("charts\n{}times\n{}", short(&data["charts"]), short(&data["times"]))
}

/// Keys of what is not smrkit's to decide.
const HOSTS: [&str; 6] = ["commit", "uuid", "free_nodes", "nodes", "attribute_bytes", "host_free_bytes"];

/// A line for each key, without the host's; of a long list its length and its sum.
fn short(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let parts = map.iter().filter(|(key, _)| !HOSTS.contains(&key.as_str()));
            parts.map(|(key, value)| format!("{key}: {}\n", summed(value))).collect()
        }
        Value::Array(list) => list.iter().map(|value| format!("{}\n", summed(value))).collect(),
        other => format!("{other}\n"),
    }
}

fn summed(value: &Value) -> Value {
    match value {
        Value::Array(list) if list.len() > 12 => format!("{} of {}", list.len(), sum(value)).into(),
        Value::Array(list) => list.iter().map(summed).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), summed(value))).collect(),
        other => other.clone(),
    }
}

/// All numbers in a value, those of a list by their places.
fn sum(value: &Value) -> f64 {
    match value {
        Value::Object(map) => map.values().map(sum).sum(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at + 1) as f64 * sum(value)).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// A line without the commit that smrkit was made of, and without what the host's file system has room for.
fn without_host(line: &str) -> String {
    if line.starts_with("UUID ") {
        return "UUID".into();
    }
    if let Some((before, _)) = line.split_once("room for ") {
        return format!("{before}room");
    }
    let version = concat!("smrkit ", env!("CARGO_PKG_VERSION"));
    match line.split_once(&format!("{version} (")) {
        Some((before, after)) => format!("{before}{version}{}", after.split_once(')').map_or("", |parts| parts.1)),
        None => line.to_string(),
    }
}

#[test]
fn ageing_is_told_as_it_was() {
    book(
        "shown-ageing",
        &[
            "age -q --simulate caveat --size 1GB --bytes 3GB --defragment --benchmarks",
            "age -q --simulate strict-append --size 2GB --bytes 5GB --benchmarks --interleave file",
            "age -q --simulate strict-append --size 1GB --fill 50 --idle 30 --bytes 4GB --json -",
            "age -q --simulate caveat --size 1GB --bytes 2GB --defragment --placement adjacent --did 2MiB --json -",
            "age -q --simulate caveat --size 500MB --bytes 3GB --defragment --placement first-fit --size-factor 0.1 --json -",
            "age -q --simulate caveat --size 500MB --bytes 2GB --defragment --placement best-fit --granule 16KiB --json -",
            "age -q --simulate caveat --size 500MB --bytes 2GB --defragment --placement reservation --dpid 2MiB --json -",
            "age -q --simulate caveat --size 500MB --bytes 2GB --size-factor 0.01 --seed 5",
        ],
    );
}

#[test]
fn traces_are_told_as_they_were() {
    let files = std::fs::read_dir(root().join("testdata/traces")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    let mut commands = Vec::new();
    for file in files {
        let format = if file == "table.csv" { " --format csv:time=0:us,op=1,offset=2:bytes,size=3:bytes" } else { "" };
        commands.push(format!("trace info ROOT/testdata/traces/{file}{format}"));
        commands.push(format!("trace head ROOT/testdata/traces/{file}{format}"));
    }
    for more in [
        "trace info ROOT/testdata/office.csv.gz",
        "trace info ROOT/testdata/office.csv.gz --json",
        "trace convert -q ROOT/testdata/office.csv.gz office.parquet --sort",
        "trace info office.parquet",
        "trace head office.parquet -n 20",
    ] {
        commands.push(more.into());
    }
    book("shown-traces", &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Options of a run on a drive that can have its layers.
fn named(options: &str) -> String {
    let drive = if options.contains("zone") { "wdc-2tb" } else { "st5000as0011" };
    format!("--drive {drive} {options}")
}

#[test]
fn runs_are_told_as_they_were() {
    let mixed = "mix:count=600,size=8Ki,span=1G";
    let commands = [
        "--workload hot-cold:count=3k --report PAGE",
        "--workload MIXED --layer drive-managed,vguard --depth 8 --queue sptf --movement --report PAGE",
        "--workload MIXED --layer s-block,set-assoc,log --arrival trace --time-scale 3 --prefill random:0.5 --check",
        "--workload MIXED --layer set-assoc --set set-assoc.cache_percent=2,10",
        "--workload MIXED --workload random-read:count=300 --interleave burst:4 --sources zero --layer rmw,log",
        "--workload zipf:count=500 --workload backup:count=300 --interleave time --layer dm-zoned --warmup 100",
        "--workload MIXED --layer zone-log,dm-zoned,track-map --prefill none --think 5ms --seed 7",
        "--workload MIXED --layer drive-managed --power-cut 300",
        "--workload MIXED --array raid5:disks=4,chunk=16Ki --layer in-place,vguard --depth 4 --report PAGE",
        "--workload MIXED --array raid10:disks=4 --layer set-assoc --rebuild disk=1,write=64KiB,after=200 --report PAGE",
        "--workload MIXED --array raid6:disks=5 --layer drive-managed --rebuild scrub:read=256Ki --depth 2",
        "--workload MIXED --array dedicated:disks=2 --layer log",
        "--trace ROOT/testdata/office.csv.gz --fold --layer in-place,drive-managed --report PAGE",
    ];
    let commands: Vec<String> =
        commands.iter().map(|line| format!("run -q --capacity 5GB {}", named(&line.replace("MIXED", mixed)))).collect();
    book("shown-runs", &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn advice_is_told_as_it_was() {
    book(
        "shown-advice",
        &[
            "advise -q --drive tiny --workload mix:count=1k",
            "advise -q --drive st5000as0011 --capacity 5GB --workload random-write:count=500 --layer s-block --depth 4 --details",
            "advise -q --drive tiny --workload hot-cold:count=800 --arrival trace --json -",
            "advise -q --drive tiny --workload mix:count=500,span=2M --array raid1:disks=2 --rebuild resilver --depth 2",
        ],
    );
}

#[test]
fn drives_and_layers_are_told_as_they_were() {
    let mut commands = vec!["drives".to_string(), "layers".into()];
    commands.extend(["st5000as0011", "tiny", "wdc-2tb"].map(|drive| format!("drives show {drive}")));
    commands.extend(["vguard", "dm-zoned"].map(|layer| format!("layers show {layer}")));
    let more = [
        "drives import disksim ROOT/testdata/disksim --to drives",
        "drives show drives/drive.toml",
        "drives show drives/drive.toml --json",
    ];
    commands.extend(more.map(str::to_string));
    book("shown-drives", &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn images_are_told_as_they_were() {
    book(
        "shown-images",
        &[
            "mkfs --size 200MiB a.img",
            "mkfs --model caveat --size 300MiB --did 2MiB b.img --json",
            "mkfs --size 1GiB --band 8MiB --did 512KiB --dpid 1MiB c.img --meta d.meta --json",
            "df a.img",
            "df b.img --json",
            "df c.img --json",
            "fsck -n a.img",
            "fsck b.img --json --read-all",
            "fsck c.img --json",
            "create d.img --capacity 10GB",
            "create e.img --layer s-block --capacity 1GB --set s-block.cache_percent=2",
        ],
    );
}
