//! Faults of files: each has its own message with the remedy, and exit code 3.

use std::fs::File;
use std::io::Write;

use super::{Scratch, TINY, command, finish, outcome, smrkit, testdata};

const ROW: &str = "128166372003061629,hm,1,Read,8192,4096,58000\n";

#[test]
fn a_malformed_row_is_named_by_line_and_column() {
    let scratch = Scratch::new();
    let bad = scratch.file("bad.csv", format!("{ROW}{}", ROW.replace("Read", "Raed")));
    smrkit(&format!("run --trace {bad}"))
        .says(3, &["bad.csv:2:25", "Raed", "expected Read or Write", "--skip-bad-rows"]);
    smrkit(&format!("trace info {bad}")).says(3, &["bad.csv:2:25"]);
    smrkit(&format!("trace head {bad} -n 5")).says(3, &["bad.csv:2:25"]);
    let zero = scratch.file("zero.csv", format!("{ROW}{}", ROW.replace("4096", "0")));
    smrkit(&format!("run --trace {zero}")).says(3, &["zero.csv:2", "a size above 0"]);
    let huge = scratch.file("huge.csv", format!("{ROW}{}", ROW.replace("8192", "99999999999999999999999")));
    smrkit(&format!("run --trace {huge}")).says(3, &["huge.csv:2"]);
}

#[test]
fn skipped_rows_are_counted_and_reported() {
    let scratch = Scratch::new();
    let bad = scratch.file("bad.csv", format!("{ROW}{}{ROW}", ROW.replace("Read", "Raed")));
    let ran = smrkit(&format!("run --layer in-place --trace {bad} --skip-bad-rows"));
    assert!(ran.err.contains("1 malformed row was left out"), "{}", ran.err);
    let outcome = outcome(&format!("--layer in-place --trace {bad} --skip-bad-rows"));
    assert_eq!((&outcome["requests"], &outcome["trace_notes"]["skipped_rows"]), (&2.into(), &1.into()));
}

#[test]
fn truncated_archives_are_named_as_such() {
    let scratch = Scratch::new();
    let rows = (0..2000).map(|i| ROW.replace("8192", &(i * 7919 % 2000 * 512).to_string())).collect::<String>();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(rows.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(rows.as_bytes(), 3).unwrap();
    for (name, archive) in [("gzip", gzip), ("zstd", zstd)] {
        let whole = scratch.file(&format!("whole.{name}"), &archive);
        smrkit(&format!("trace info {whole}")).done();
        let cut = scratch.file(&format!("cut.{name}"), &archive[..archive.len() * 2 / 3]);
        for command in ["run --trace", "trace info", "run --skip-bad-rows --trace"] {
            smrkit(&format!("{command} {cut}"))
                .says(3, &[&format!("the {name} archive is truncated"), "fetch or copy"]);
        }
        let mut broken = archive.clone();
        broken[archive.len() / 2] ^= 0xff;
        broken[archive.len() / 2 + 1] ^= 0xff;
        let broken = scratch.file(&format!("broken.{name}"), broken);
        smrkit(&format!("run --trace {broken}")).says(3, &[name]);
    }
}

#[test]
fn files_that_are_no_traces() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty.csv", "");
    smrkit(&format!("run --trace {empty}")).says(3, &["empty.csv", "the file is empty"]);
    let binary = scratch.file(
        "binary.csv",
        (0..4096u32).flat_map(|i| (i.wrapping_mul(2_654_435_761)).to_le_bytes()).collect::<Vec<_>>(),
    );
    smrkit(&format!("run --trace {binary}")).says(3, &["binary.csv", "a binary file", "--format"]);
    let text = scratch.file("text.csv", "what is this?\nno trace\n");
    smrkit(&format!("run --trace {text}")).says(3, &["text.csv", "no known format", "--format csv:"]);
    smrkit(&format!("run --trace {}", scratch.path(""))).failed(3);
}

#[test]
fn drive_files_with_wrong_keys_are_named_by_line() {
    let scratch = Scratch::new();
    let tiny = std::fs::read_to_string(super::root().join("crates/smrkit/drives/tiny.toml")).unwrap();
    let wrong = scratch.file("wrong.toml", tiny.replace("\nrpm =", "\nrmp ="));
    let line = tiny.lines().position(|line| line.starts_with("rpm =")).unwrap() + 1;
    let place = format!("wrong.toml:{line}:1");
    smrkit(&format!("run --drive {wrong}")).says(3, &[&place, "unknown field `rmp`", "expected one of `rpm`"]);
    smrkit(&format!("drives show {wrong}")).says(3, &[&place]);
    let right = scratch.file("right.toml", tiny);
    smrkit(&format!("run --drive {right} --layer in-place --workload random-write:count=10")).done();
}

#[test]
fn unaligned_offsets_are_rounded_and_said() {
    let scratch = Scratch::new();
    let trace = scratch.msr("unaligned.csv", &[(0, 100, 1000), (1, 512, 512)]);
    let ran = smrkit(&format!("run --layer in-place --trace {trace}"));
    assert!(ran.err.contains("1 row was not aligned to 512 bytes"), "{}", ran.err);
    // Bytes 100 to 1100 are sectors 0 to 2.
    assert_eq!(outcome(&format!("--layer in-place --trace {trace}"))["host_written_sectors"], 4);
}

#[test]
fn rows_out_of_order_are_refused_only_where_times_matter() {
    let scratch = Scratch::new();
    let trace = scratch.msr("late.csv", &[(0, 0, 512), (9, 512, 512), (5, 1024, 512)]);
    let ran = smrkit(&format!("run --layer in-place --trace {trace}"));
    assert!(ran.err.contains("1 row has a time before the row above"), "{}", ran.err);
    ran.done();
    let remedies = ["late.csv", "--arrival flat-out", "trace convert --sort"];
    smrkit(&format!("run --layer in-place --trace {trace} --arrival trace")).says(3, &remedies);
    let sorted = scratch.path("sorted.parquet");
    smrkit(&format!("trace convert {trace} {sorted} --sort")).done();
    smrkit(&format!("run --layer in-place --trace {sorted} --arrival trace")).done();
}

#[test]
fn a_row_before_the_first_one_is_out_of_order_as_well() {
    let scratch = Scratch::new();
    let trace = scratch.msr("late.csv", &[(9, 0, 512), (5, 512, 512)]);
    smrkit(&format!("run --layer in-place --trace {trace} --arrival trace")).says(3, &["late.csv", "flat-out"]);
}

#[test]
fn a_volume_out_of_order_is_refused_as_a_whole_trace_is() {
    let scratch = Scratch::new();
    let row = |seconds: u64, disk: u64| format!("{},hm,{disk},Read,8192,4096,0\n", seconds * 10_000_000);
    let trace = scratch.file("two.csv", [row(1, 0), row(10, 1), row(5, 1), row(20, 1)].concat());
    let run = format!("run --layer in-place --trace {trace} --volume");
    smrkit(&format!("{run} 1 --arrival trace")).says(3, &["two.csv", "before the first", "flat-out"]);
    smrkit(&format!("{run} 1")).done();
}

#[test]
fn standard_input_serves_every_run_and_errors_name_it() {
    let from = |content: &str, arguments: &str| {
        let scratch = Scratch::new();
        let mut command = command();
        command.args(arguments.split_whitespace());
        command.stdin(File::open(scratch.file("piped", content)).unwrap());
        finish(command)
    };
    let three = "run --trace - --layer in-place,rmw,set-assoc --json -";
    let json: serde_json::Value = serde_json::from_str(&from(&ROW.repeat(5000), three).done()).unwrap();
    let requests: Vec<_> = json["runs"].as_array().unwrap().iter().map(|run| &run["requests"]).collect();
    assert_eq!(requests, [5000, 5000, 5000]);
    let err = from(&format!("{ROW}{}", ROW.replace("Read", "Raed")), three).failed(3);
    assert!(err.starts_with("smrkit: -:2:25:"), "{err}");
    let far = ROW.replace("8192", "8192000000000");
    let err = from(&far, "run --drive tiny --capacity 4MB --layer in-place --trace -").failed(3);
    assert!(err.starts_with("smrkit: -: request 1 ends at sector 16000000008, past"), "{err}");
}

#[test]
fn past_the_capacity_the_error_names_the_remedies() {
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 0, 4096), (1, 40 << 20, 4096)]);
    let remedies = ["far.csv", "request 2", "--fold", "--capacity auto", "--volume"];
    smrkit(&format!("run {TINY} --capacity 4MB --trace {trace}")).says(3, &remedies);
    smrkit(&format!("run {TINY} --trace {trace} --fold")).done();
    smrkit(&format!("run {TINY} --trace {trace}")).done();
}

#[test]
fn past_the_capacity_a_workload_is_told_only_what_helps_it() {
    let small = "run --drive tiny --layer in-place";
    let says = |arguments: &str, words: &[&str], none: &[&str]| {
        let err = smrkit(&format!("{small} {arguments}")).failed(3);
        assert!(words.iter().all(|word| err.contains(word)), "{err}");
        assert!(none.iter().all(|word| !err.contains(word)), "{err}");
    };
    let two = "--workload mix:count=100 --workload zipf:count=10 --interleave none";
    let of_trace = ["--volume", "--capacity auto", "the trace"];
    for large in ["--span 300MB --workload mix:count=100", &format!("--span 3MB {two}")] {
        says(large, &["past the capacity", "--fold", "smaller --span", "larger --capacity"], &of_trace);
        smrkit(&format!("{small} {large} --fold")).done();
        smrkit(&format!("{small} {large} --capacity 310MB")).done();
    }
    // Merged with a trace, a workload takes what there is: no size is known for all.
    let scratch = Scratch::new();
    let trace = scratch.msr("far.csv", &[(0, 40 << 20, 4096)]);
    let mixed = format!("--trace {trace} --workload mix:count=10 --interleave none --sources zero");
    says(&mixed, &["--fold", "larger --capacity", "--volume"], &["--capacity auto", "--span"]);
    says(&format!("{mixed} --span 1MB --capacity 4MB"), &["--fold", "--capacity auto", "--volume"], &["--span"]);
    smrkit(&format!("{small} {mixed} --span 1MB")).done();
}

#[test]
fn one_volume_of_several_is_chosen_by_number_or_name() {
    let trace = testdata("tencent.csv");
    for volume in ["999999", "sda"] {
        smrkit(&format!("run --layer in-place --trace {trace} --volume {volume}"))
            .says(3, &[&format!("no volume {volume}"), "the trace has"]);
    }
    let all = smrkit(&format!("run --layer in-place --trace {trace}"));
    assert!(all.err.contains("2 of 1058, 1 of 70000: take one alone with --volume 1058"), "{}", all.err);
    let scratch = Scratch::new();
    let timeless = scratch.path("timeless.csv");
    std::fs::write(&timeless, "op,offset,size\nW,0,4096\n").unwrap();
    smrkit(&format!("run --layer in-place --trace {timeless}")).done();
    smrkit(&format!("run --layer in-place --trace {timeless} --arrival trace"))
        .says(3, &["no times", "(it has op, offset, size)"]);
}
