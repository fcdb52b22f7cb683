//! Each exit code of the contract, and what the messages say.

use super::{Scratch, finish, smrkit, testdata};

#[test]
fn what_works_exits_with_0() {
    smrkit("run --drive tiny --layer in-place --workload random-write:count=10").done();
    smrkit("layers").done();
    smrkit("drives").done();
    smrkit("--help").done();
    smrkit("--version").done();
}

#[test]
fn an_integrity_violation_exits_with_5_and_says_it_once() {
    let err = smrkit("run --drive tiny --layer in-place --check --workload random-write:count=2000").failed(5);
    assert_eq!(err.matches("was damaged by a write of LBA").count(), 1, "{err}");
    assert!(err.contains("broke the shingling law"), "{err}");
}

#[test]
fn a_layer_that_copes_passes_the_check() {
    let arguments =
        "run --drive tiny --layer rmw --set rmw.region_sectors=256 --check --workload random-write:count=2000";
    smrkit(arguments).done();
}

#[test]
fn unknown_names_exit_with_2_and_name_what_there_is() {
    smrkit("run --layer nope").says(2, &["no layer is called `nope`", "in-place", "rmw", "set-assoc"]);
    smrkit("run --layer set_assoc").says(2, &["did you mean `set-assoc`?"]);
    smrkit("run --drive cassuto-tabel1").says(2, &["did you mean `cassuto-table1`?", "the path of a drive file"]);
    smrkit("run --workload random-wrte").says(2, &["did you mean `random-write`?"]);
    smrkit("run --array rad5:disks=3").says(2, &["did you mean `raid5`?"]);
    smrkit("trace head x --format blkprase").says(2, &["did you mean `blkparse`?"]);
    smrkit("run --layer in-place,nope").says(2, &["`nope`"]);
    smrkit("run --drive nope").says(2, &["`nope`", "smrkit drives lists the names", "path of a drive file"]);
    smrkit("run --workload nope").says(2, &["nope", "random-write", "desktop"]);
    smrkit("run --workload random-write:cuont=1").says(2, &["cuont", "did you mean `count`"]);
    smrkit("layers show nope").says(2, &["in-place", "rmw", "set-assoc"]);
    smrkit("drives show nope").says(2, &["smrkit drives lists the names"]);
    smrkit("nope").says(2, &["nope"]);
    smrkit("run --nope").says(2, &["--nope"]);
}

#[test]
fn parameters_exit_with_2_and_say_what_they_take() {
    smrkit("run --set nope").says(2, &["LAYER.KEY=VALUE"]);
    smrkit("run --set rmw.nope=1").says(2, &["rmw has no parameter `nope`", "region_sectors, portion, hold"]);
    smrkit("run --set rmw.portion=x").says(2, &["rmw.portion=x", "smallest, tail, region"]);
    smrkit("run --set rmw.portion=tial").says(2, &["did you mean `tail`"]);
    smrkit("run --set rmw.portoin=tail").says(2, &["did you mean `portion`"]);
    smrkit("run --set set-assoc.cache_percent=60").says(2, &["a percentage from 0.001 to 50"]);
    smrkit("run --layer in-place --set rmw.hold=1").says(2, &["add it to --layer"]);
    smrkit("run --set in-place.x=1").says(2, &["it takes no parameters"]);
}

#[test]
fn options_exit_with_2_and_say_what_they_take() {
    smrkit("run --depth 0").says(2, &["from 1 to 65536"]);
    smrkit("run --think 5").says(2, &["no unit", "5ms"]);
    smrkit("run --capacity 5q").says(2, &["unknown unit", "512KiB"]);
    smrkit("run --prefill fll").says(2, &["did you mean `full`?", "random:SHARE"]);
    smrkit("run --prefill random:2").says(2, &["a share from 0 to 1"]);
    smrkit("run --time-scale 0").says(2, &["a factor above 0"]);
    smrkit("run --time-scale -1").says(2, &["--time-scale", "is negative"]);
    smrkit("run --queue sptf").says(2, &["--depth 32"]);
    smrkit("run --arrival trace --think 5ms").says(2, &["--think", "--arrival flat-out"]);
    smrkit("run --trace a --workload desktop").says(2, &["--interleave burst:N"]);
    smrkit("run --requests a.parquet").says(2, &["name one --layer"]);
}

#[test]
fn what_no_drive_could_be_exits_with_4_and_says_the_remedy() {
    smrkit("run --drive tiny --layer rmw").says(4, &["region of 50000 sectors", "lower region_sectors"]);
    smrkit("run --workload random-write:span=100T,count=10").says(4, &["100.0 TB", "the drive offers", "lower span"]);
    smrkit("run --drive tiny --layer set-assoc --set set-assoc.region_sectors=9000").says(4, &["larger drive"]);
}

#[test]
fn an_impossible_parameter_is_named_with_its_layer_once() {
    let long = "run --drive tiny --layer drive-managed --set drive-managed.band_tracks=1000";
    let err = smrkit(long).failed(4);
    assert_eq!(err.matches("drive-managed: ").count(), 1, "{err}");
    assert!(err.contains("lower drive-managed.band_tracks"), "{err}");
}

#[test]
fn files_that_are_not_there_exit_with_3() {
    smrkit("run --trace missing.csv").says(3, &["missing.csv", "check the path"]);
    smrkit("run --drive missing.toml").says(3, &["missing.toml", "check the path"]);
    smrkit("trace info missing.csv").says(3, &["missing.csv", "check the path"]);
    smrkit("drives show missing.toml").says(3, &["missing.toml"]);
}

#[test]
fn outputs_that_cannot_be_written_exit_with_1_before_the_work() {
    // Many seconds of work would follow if the outputs were not tried first.
    let work = "run --layer in-place --workload random-write:count=200M";
    smrkit(&format!("{work} --json /nonexistent/out.json")).says(1, &["/nonexistent/out.json", "check the path"]);
    smrkit(&format!("{work} --report /nonexistent/out.html")).says(1, &["/nonexistent/out.html"]);
    smrkit(&format!("{work} --requests /nonexistent/out.parquet")).says(1, &["/nonexistent/out.parquet"]);
    smrkit(&format!("{work} --accesses /nonexistent/out.parquet")).says(1, &["/nonexistent/out.parquet"]);
}

#[test]
fn a_failed_run_leaves_no_output_files() {
    let scratch = Scratch::new();
    let (json, report) = (scratch.path("a.json"), scratch.path("a.html"));
    smrkit(&format!("run --trace missing.csv --json {json} --report {report}")).failed(3);
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

#[test]
fn an_output_never_takes_the_place_of_an_input() {
    let scratch = Scratch::new();
    let rows = std::fs::read(testdata("msr.csv")).unwrap();
    let trace = scratch.file("t.csv", &rows);
    let (hard, soft) = (scratch.path("hard.csv"), scratch.path("soft.csv"));
    std::fs::hard_link(&trace, &hard).unwrap();
    std::os::unix::fs::symlink(&trace, &soft).unwrap();
    let drive = scratch.file("d.toml", std::fs::read(super::root().join("crates/smrkit/drives/tiny.toml")).unwrap());
    let twice = scratch.path("twice");
    let before: Vec<Vec<u8>> = [&trace, &drive].map(|path| std::fs::read(path).unwrap()).into();
    let run = "run --layer in-place";
    let refused = [
        format!("{run} --trace {trace} --json {trace}"),
        format!("{run} --trace {trace} --json {hard}"),
        format!("{run} --trace {trace} --report {soft}"),
        format!("{run} --trace {soft} --requests {trace}"),
        format!("{run} --trace {trace} --accesses {hard}"),
        format!("{run} --drive {drive} --json {drive}"),
        format!("{run} --workload mix:count=1 --json {twice} --report {twice}"),
        format!("advise --trace {trace} --json {hard}"),
        format!("advise --drive {drive} --json {drive}"),
        format!("trace info {trace} --json={soft}"),
        format!("trace convert {trace} {hard}"),
    ];
    for arguments in &refused {
        let err = smrkit(arguments).failed(2);
        assert!(err.contains("write to another file") || err.contains("give each its own"), "{arguments}: {err}");
    }
    let after: Vec<Vec<u8>> = [&trace, &drive].map(|path| std::fs::read(path).unwrap()).into();
    assert_eq!(before, after);
    assert_eq!(scratch.names(), ["d.toml", "hard.csv", "soft.csv", "t.csv"]);
}

#[test]
fn a_trace_is_not_taken_for_the_name_of_an_output() {
    let scratch = Scratch::new();
    let rows = std::fs::read(testdata("msr.csv")).unwrap();
    let (first, second) = (scratch.file("a.csv", &rows), scratch.file("b.csv", &rows));
    smrkit(&format!("trace info --json {first} {second}")).failed(2);
    assert_eq!(std::fs::read(&first).unwrap(), rows);
    assert!(smrkit(&format!("trace info --json {first}")).done().starts_with('{'));
    let csv = scratch.path("out.csv");
    smrkit(&format!("trace convert {first} {csv}")).says(2, &["Parquet", ".parquet"]);
    assert_eq!(scratch.names(), ["a.csv", "b.csv"]);
}

#[test]
fn web_finds_the_page_that_is_installed_beside_the_command() {
    let scratch = Scratch::new();
    let [bin, page] =
        ["bin/smrkit", "share/smrkit/index.html"].map(|path| std::path::PathBuf::from(scratch.path(path)));
    for path in [&bin, &page] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_smrkit"), &bin).unwrap();
    let web = || {
        let mut command = std::process::Command::new(&bin);
        command.args(["web", "--print"]);
        finish(command)
    };
    web().says(1, &["not installed", "make web"]);
    std::fs::write(&page, "").unwrap();
    assert_eq!(web().done(), format!("{}\n", page.display()));
}
