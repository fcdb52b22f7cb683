//! `smrkit trace`, `layers` and `drives`.

use serde_json::Value;

use super::{Scratch, smrkit, testdata};

fn json(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(arguments).done()).expect("JSON")
}

#[test]
fn info_names_the_format_and_counts_the_requests() {
    for (file, format) in [
        ("msr.csv", "msr"),
        ("spc.csv", "spc"),
        ("blkparse.txt", "blkparse"),
        ("fio-v2.log", "fio-v2"),
        ("fio-v3.log", "fio-v3"),
        ("disksim.txt", "disksim"),
        ("fiu.txt", "fiu"),
        ("systor17.csv", "systor17"),
        ("tencent.csv", "tencent"),
        ("alibaba.csv", "alibaba"),
        ("access.log", "clf"),
    ] {
        let text = smrkit(&format!("trace info {}", testdata(file))).done();
        let first = text.lines().next().unwrap();
        assert!(first.contains(&format!("format {format}")), "{first}");
        let info = json(&format!("trace info --json - {}", testdata(file)));
        assert!(info["requests"].as_u64().unwrap() > 0, "{file}");
    }
}

#[test]
fn info_draws_its_figures() {
    let scratch = Scratch::new();
    smrkit(&format!("trace info {} --figures {}", testdata("msr.csv"), scratch.path("figures"))).done();
    let count = std::fs::read_dir(scratch.path("figures")).unwrap().count();
    assert!(count >= 2, "{count} figures");
}

#[test]
fn head_shows_as_many_requests_as_asked() {
    let text = smrkit(&format!("trace head {} -n 2", testdata("msr.csv"))).done();
    assert_eq!(text.lines().count(), 2 + 2, "{text}");
    let rows = json(&format!("trace head {} -n 2 --json", testdata("msr.csv")));
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[1]["op"], "write");
}

#[test]
fn convert_writes_parquet_and_never_over_its_source() {
    let scratch = Scratch::new();
    let trace = scratch.msr("trace.csv", &[(0, 0, 512), (1, 512, 512)]);
    smrkit(&format!("trace convert {trace} {trace}")).says(2, &["is read by this command", "write to another file"]);
    let converted = scratch.path("trace.parquet");
    smrkit(&format!("trace convert {trace} {converted}")).done();
    assert!(std::fs::read(&converted).unwrap().starts_with(b"PAR1"));
    let bad = scratch.file("bad.csv", "128166372003061629,hm,1,Read,8192,4096,58000\nx\n");
    smrkit(&format!("trace convert {bad} {}", scratch.path("bad.parquet"))).failed(3);
    assert!(!scratch.names().contains(&"bad.parquet".to_string()), "no half file is left");
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
fn the_seek_curve_is_drawn() {
    let scratch = Scratch::new();
    smrkit(&format!("drives show tiny --figure {}", scratch.path("seek.svg"))).done();
    assert!(std::fs::read_to_string(scratch.path("seek.svg")).unwrap().contains("<svg"));
    smrkit("drives show tiny-constant --figure x.svg").says(2, &["no seek curve"]);
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
