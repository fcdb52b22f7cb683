//! From mkfs to umount, and what is left.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{Bench, MODELS, blocks, has_ended, is_mounted, is_root, signal, wait_until};

#[test]
fn what_was_written_is_there_after_the_next_mount() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        let content = blocks(3_000_000, 7, |nth| nth as u8);
        fs::create_dir(bench.file("folder")).unwrap();
        fs::write(bench.file("folder/large"), &content).unwrap();
        fs::write(bench.file("small"), "small").unwrap();
        bench.umount().done();
        assert!(!is_mounted(&bench.point()));
        bench.is_in_order();
        bench.mount().done();
        assert!(fs::read(bench.file("folder/large")).unwrap() == content);
        assert_eq!(fs::read_to_string(bench.file("small")).unwrap(), "small");
        bench.umount().done();
    }
}

#[test]
fn a_signal_ends_a_mount_cleanly() {
    for name in ["TERM", "INT"] {
        let Some(bench) = Bench::new("caveat", "64MiB") else { return };
        let (image, point) = (bench.path("disk.img"), bench.path("mnt"));
        let mut command = bench.command(&["mount", "--foreground", &image, &point]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is mounted on"), "{line}");
        fs::write(bench.file("f"), "unsynced").unwrap();
        signal(child.id(), name);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(!is_mounted(&bench.point()));
        bench.is_in_order();
        bench.mount().done();
        assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "unsynced");
        bench.umount().done();
    }
}

#[test]
fn a_signal_does_not_wait_for_ever_for_open_files() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    fs::write(bench.file("f"), "kept").unwrap();
    let open = File::open(bench.file("f")).unwrap();
    let process = bench.process();
    signal(process, "TERM");
    wait_until("the end", || has_ended(process));
    drop(open);
    bench.is_in_order();
    bench.mount().done();
    assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "kept");
    bench.umount().done();
}

/// Maps the file of its first argument, changes it, and waits.
const MAPS: &str = "
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
pages = mmap.mmap(fd, 1 << 20)
pages[500000:500005] = b'DIRTY'
print('ready', flush=True)
time.sleep(100)
";

/// A program that has changed a mapped file; none, with a word for the skip list, where there is no Python.
fn mapping(file: &Path) -> Option<Child> {
    let mut python = std::process::Command::new("python3");
    let Ok(mut program) = python.args(["-c", MAPS]).arg(file).stdout(Stdio::piped()).spawn() else {
        println!("skipped: no python3 here");
        return None;
    };
    let mut said = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
    Some(program)
}

#[test]
fn what_a_running_program_has_mapped_survives_a_signal() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    bench.mount().done();
    fs::write(bench.file("f"), vec![1; 1 << 20]).unwrap();
    let Some(mut program) = mapping(&bench.file("f")) else { return };
    let process = bench.process();
    signal(process, "TERM");
    wait_until("the end", || has_ended(process));
    program.kill().unwrap();
    program.wait().unwrap();
    bench.is_in_order();
    bench.mount().done();
    assert_eq!(&fs::read(bench.file("f")).unwrap()[500_000..500_005], b"DIRTY");
    bench.umount().done();
}

#[test]
fn mapped_changes_in_a_hole_are_data_for_who_copies() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    File::create(bench.file("f")).unwrap().set_len(1 << 20).unwrap();
    let Some(mut program) = mapping(&bench.file("f")) else { return };
    let copy = bench.path("copy");
    let copied = std::process::Command::new("cp").arg("--sparse=auto").arg(bench.file("f")).arg(&copy).status();
    assert!(copied.unwrap().success());
    assert_eq!(&fs::read(copy).unwrap()[500_000..500_005], b"DIRTY");
    program.kill().unwrap();
    program.wait().unwrap();
    bench.umount().done();
}

#[test]
fn an_ordinary_umount_is_clean_as_well() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    bench.mount().done();
    let process = bench.process();
    fs::write(bench.file("f"), "kept").unwrap();
    let program = if is_root() { "umount" } else { "fusermount3" };
    wait_until("umount", || {
        let mut command = std::process::Command::new(program);
        command.args((program == "fusermount3").then_some("-u")).arg(bench.point());
        command.stderr(Stdio::null()).status().unwrap().success()
    });
    wait_until("the end", || has_ended(process));
    bench.is_in_order();
}

#[test]
fn those_who_unmount_at_the_same_time_all_see_it_end() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    fs::write(bench.file("f"), vec![1; 8 << 20]).unwrap();
    let mut command = bench.command(&["umount", &bench.path("mnt")]);
    let running: Vec<_> = (0..3).map(|_| command.stderr(Stdio::piped()).spawn().unwrap()).collect();
    for child in running {
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        // Who comes when all is over finds nothing.
        assert!(ended.status.success() || said.contains("no SMRfs mounted"), "{said}");
    }
    bench.is_in_order();
}

#[test]
fn data_that_nobody_syncs_is_committed_after_the_interval() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let (image, point) = (bench.path("disk.img"), bench.path("mnt"));
    bench.smrkit(&["mount", "--commit-interval", "100ms", &image, &point]).done();
    fs::write(bench.file("f"), "committed").unwrap();
    wait_until("the commit", || bench.report()["statistics"]["dirty_files"] == 0);
    signal(bench.process(), "KILL");
    bench.umount().done();
    bench.mount().done();
    assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "committed");
    bench.umount().done();
}

#[test]
fn a_mount_that_is_only_read_changes_nothing() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    fs::write(bench.file("f"), "as it was").unwrap();
    bench.umount().done();
    let before = fs::read(bench.path("disk.img")).unwrap();
    let (image, point) = (bench.path("disk.img"), bench.path("mnt"));
    bench.smrkit(&["mount", "--read-only", &image, &point]).done();
    assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "as it was");
    let refused = fs::write(bench.file("f"), "changed").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    bench.umount().done();
    assert!(fs::read(bench.path("disk.img")).unwrap() == before);
}

#[test]
fn top_shows_what_was_written() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    bench.mount().done();
    let mut file = File::create(bench.file("f")).unwrap();
    std::io::Write::write_all(&mut file, &vec![1; 4 << 20]).unwrap();
    file.sync_all().unwrap();
    let report = bench.report();
    assert_eq!(report["statistics"]["host_written_bytes"], 4 << 20);
    assert!(report["statistics"]["written_bytes"].as_u64().unwrap() >= 4 << 20);
    assert_eq!(report["usage"]["live"].as_u64().unwrap() * 4096, 4 << 20);
    let page = bench.smrkit(&["top", "--once", &bench.path("mnt")]).done();
    assert!(page.contains("write amplification") && page.contains("4.19 MB"), "{page}");
    drop(file);
    bench.umount().done();
}

#[test]
fn df_of_a_mount_and_of_its_image_tell_the_same() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        fs::write(bench.file("f"), vec![1; 5 << 20]).unwrap();
        File::open(bench.file("f")).unwrap().sync_all().unwrap();
        let df = |what: &str| -> serde_json::Value {
            serde_json::from_str(&bench.smrkit(&["df", "--json", &bench.path(what)]).done()).unwrap()
        };
        let mounted = df("mnt");
        bench.umount().done();
        let image = df("disk.img");
        for key in ["raw_bytes", "usable_bytes", "live_bytes", "files", "extents", "nodes", "bands"] {
            assert_eq!(mounted[key], image[key], "{model}: {key}");
        }
        assert_eq!(mounted["live_bytes"], 5 << 20);
    }
}

#[test]
fn a_mount_waits_for_the_one_that_was_unmounted_before() {
    if !is_root() {
        println!("skipped: umount is root's");
        return;
    }
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    for round in 0..5u8 {
        bench.mount_with(&["--commit-interval", "1h"]).done();
        fs::write(bench.file("f"), vec![round; 6 << 20]).unwrap();
        wait_until("umount", || {
            let mut umount = std::process::Command::new("umount");
            umount.arg(bench.point()).stderr(Stdio::null()).status().unwrap().success()
        });
        bench.mount().done();
        assert!(fs::read(bench.file("f")).unwrap() == vec![round; 6 << 20]);
        bench.umount().done();
    }
}

#[test]
fn mounts_lists_what_is_mounted_and_nothing_that_was_killed() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    assert_eq!(bench.smrkit(&["mounts"]).done(), "");
    bench.mount_with(&["--read-only"]).done();
    let (image, point) = (bench.path("disk.img"), bench.path("mnt"));
    let line = bench.smrkit(&["mounts"]).done();
    assert_eq!(line, format!("{image} on {point} (ro, process {})\n", bench.process()));
    let listed: Value = serde_json::from_str(&bench.smrkit(&["mounts", "--json"]).done()).unwrap();
    assert_eq!((&listed[0]["image"], &listed[0]["read_only"]), (&Value::from(image), &Value::from(true)));
    super::signal(bench.process(), "KILL");
    bench.umount().done();
    assert_eq!(bench.smrkit(&["mounts", "--json"]).done().trim(), "[]");
}
