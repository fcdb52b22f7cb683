//! `smrkit trace`, `layers` and `drives`.

use serde_json::Value;

use super::files::FILES;
use super::{Scratch, outcome, outcomes, smrkit, testdata};

fn json(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(arguments).done()).expect("JSON")
}

#[test]
fn info_names_the_format_and_counts_the_requests() {
    for (file, format) in FILES {
        let text = smrkit(&format!("trace info {}", testdata(file))).done();
        let first = text.lines().next().unwrap();
        assert!(first.contains(&format!("format {format}")), "{first}");
        let info = json(&format!("trace info --json - {}", testdata(file)));
        assert!(info["requests"].as_u64().unwrap() > 0, "{file}");
    }
}

#[test]
fn info_is_not_written_over_its_trace() {
    smrkit(&format!("trace info {0} --json={0}", testdata("msr.csv"))).says(2, &["is read by this command"]);
}

#[test]
fn head_shows_as_many_requests_as_asked() {
    let text = smrkit(&format!("trace head {} -n 2", testdata("msr.csv"))).done();
    assert_eq!(text.lines().count(), 2 + 2, "{text}");
}

#[test]
fn convert_writes_parquet_and_never_over_its_source() {
    let scratch = Scratch::new();
    let trace = scratch.msr("trace.csv", &[(0, 0, 512), (1, 512, 512)]);
    smrkit(&format!("trace convert {trace} {trace}")).says(2, &["is read by this command", "write to another file"]);
    let converted = scratch.path("trace.parquet");
    smrkit(&format!("trace convert {trace} {converted}")).done();
    assert!(std::fs::read(&converted).unwrap().starts_with(b"PAR1"));
    let thinking = testdata("disksim-measured.txt");
    smrkit(&format!("trace convert {thinking} {converted} --sort")).says(0, &["its think times are left out"]);
    smrkit(&format!("trace convert {thinking} {converted}")).done();
    let time = |trace: &str| {
        outcome(&format!("-q --drive tiny --layer vguard --fold --arrival closed --trace {trace}"))["elapsed_ns"]
            .clone()
    };
    assert_eq!(time(&converted), time(&thinking), "a closed loop has the same pauses");
    let bad = scratch.file("bad.csv", "128166372003061629,hm,1,Read,8192,4096,58000\nx\n");
    smrkit(&format!("trace convert {bad} {}", scratch.path("bad.parquet"))).failed(3);
    assert!(!scratch.names().contains(&"bad.parquet".to_string()), "no half file is left");
}

#[test]
fn edited_requests_are_the_same_in_a_run_a_copy_and_a_record() {
    let scratch = Scratch::new();
    let (trace, copy, record) = (testdata("msr.csv"), scratch.path("copy.parquet"), scratch.path("run.json"));
    let edit = "--edit first=4,split=4KiB";
    smrkit(&format!("trace convert {trace} {copy} {edit}")).done();
    let run = |what: &str| {
        let own = outcome(&format!("-q --drive tiny --layer vguard --fold {what}"));
        let told = |key: &str| own.pointer(key).unwrap_or_else(|| panic!("{key}")).clone();
        (told("/requests"), told("/elapsed_ns"), told("/latency_ns"))
    };
    let edited = run(&format!("--trace {trace} {edit}"));
    let copied = run(&format!("--trace {copy}"));
    assert_eq!(edited, copied);
    let whole = run(&format!("--trace {trace}"));
    assert!(edited.0 != whole.0, "an edit changes what is run");
    smrkit(&format!("run -q --drive tiny --layer vguard --fold --trace {trace} {edit} --json {record}")).done();
    smrkit(&format!("run --repeat {record}")).done();
    for nothing in ["", "from=0s"] {
        smrkit(&format!("run --drive tiny --trace {trace} --edit={nothing}")).says(2, &["it changes nothing"]);
    }
    smrkit(&format!("run --drive tiny --trace {trace} {edit} --arrival closed")).failed(2);
}

#[test]
fn every_layer_and_drive_shows_its_values() {
    for layer in json("layers --json").as_array().unwrap() {
        let name = layer["name"].as_str().unwrap();
        let text = smrkit(&format!("layers show {name}")).done();
        for parameter in layer["parameters"].as_array().unwrap() {
            assert!(text.contains(&format!("{name}.{} = ", parameter["key"].as_str().unwrap())), "{text}");
        }
        assert_eq!(json(&format!("layers show {name} --json")), *layer);
    }
    for drive in json("drives --json").as_array().unwrap() {
        let name = drive["name"].as_str().unwrap();
        let shown = json(&format!("drives show {name} --json"));
        let settings = shown["settings"].as_array().unwrap();
        assert!(!settings.is_empty());
        for setting in settings {
            assert!(!setting["source"].as_str().unwrap().is_empty(), "{name}: {setting}");
        }
        smrkit(&format!("drives show {name}")).done();
    }
}

#[test]
fn every_command_explains_itself() {
    for command in ["", "run", "reproduce", "trace", "trace info", "trace convert", "trace head", "layers", "drives"] {
        let text = smrkit(&format!("{command} --help")).done();
        assert!(text.contains("Usage:"), "{command}");
    }
    for command in ["run", "reproduce", "trace", "trace info", "trace convert", "trace head", "layers", "drives"] {
        let text = smrkit(&format!("{command} --help")).done();
        assert!(text.contains("Examples:\n"), "{command} --help shows no example");
    }
}

/// Zone 1000 is reset and written again in both traces; the last write is not at its pointer.
#[test]
fn zone_operations_of_traces_reach_a_host_managed_disk() {
    let scratch = Scratch::new();
    let (sectors, bytes) = (1_u64 << 19, 1_u64 << 28);
    let at = 1000 * sectors;
    let queued = |rest: String| format!("8,16 1 1 0.000000000 1 Q {rest} [x]\n");
    let blkparse = [
        queued(format!("W {at} + 8")),
        queued(format!("ZR {at} + {sectors}")),
        queued(format!("W {at} + 8")),
        queued(format!("W {} + 8", at + 64)),
    ];
    let row = |what: &str, at: u64, length: u64| format!("0 /dev/sdb {what} {at} {length}\n");
    let fio = [
        "fio version 3 iolog\n".to_string(),
        row("write", at * 512, 4096),
        row("trim", at * 512, bytes),
        row("write", at * 512, 4096),
        row("write", at * 512 + 32768, 4096),
    ];
    for (name, text) in [("blkparse.txt", blkparse.concat()), ("fio.log", fio.concat())] {
        let trace = scratch.file(name, text);
        let run = format!("--trace {trace} --drive hc620 --layer zoned --prefill none");
        let outcome = &outcomes(&run)[0];
        let stats = &outcome["layer_stats"];
        assert_eq!([&stats["violations"], &stats["resets"]], [1, 1], "{name}: {outcome}");
        let first =
            format!("request 4, a write of 8 sectors at LBA {}: zone 1000 has its write pointer at LBA", at + 64);
        assert!(stats["first_violations"][0].as_str().unwrap().starts_with(&first), "{name}: {stats}");
        smrkit(&format!("run {run} --set zoned.violations=refuse")).says(5, &[&first]);
    }
}

#[test]
fn a_time_far_from_all_others_is_pointed_out() {
    let scratch = Scratch::new();
    let told = |last: u64| {
        let rows = format!("time_s,op,offset,size\n0,W,0,4096\n1,W,4096,4096\n2,R,0,4096\n{last},R,0,4096\n");
        smrkit(&format!("trace info {}", scratch.file("far.csv", rows))).done()
    };
    assert!(told(1_266_874_889).contains("14,663 days, nearly all of it one gap: look for a wrong time"));
    assert!(!told(3).contains("one gap"));
}
