//! Edges of a mount's surroundings: limits, odd paths, folders that a copy has lost.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use super::{Bench, MODELS, Ran, kill};

/// A write past `ulimit -f` is an error for the program that writes, and not the end of the mount.
#[test]
fn a_limit_of_file_sizes_fails_writes_and_nothing_else() {
    let Some(bench) = Bench::new("caveat", "256MiB") else { return };
    let script = format!(
        "ulimit -f 40000; exec {} mount --log {} {} {}",
        env!("CARGO_BIN_EXE_smrkit"),
        bench.path("log"),
        bench.path("disk.img"),
        bench.path("mnt")
    );
    let mut limited = Command::new("sh");
    Ran(limited.args(["-c", &script]).env("SMRKIT_RUN_DIR", bench.path("run")).output().unwrap()).done();
    let file = File::create(bench.file("f")).unwrap();
    let piece = vec![7; 1 << 20];
    let refused = (0..200).find_map(|nth| file.write_all_at(&piece, nth << 20).err().map(|error| (nth, error)));
    let (written, error) = refused.expect("an image of 40 MB at most");
    assert!(written > 8, "{written} MiB, and {error}");
    let back = fs::read(bench.file("f")).unwrap();
    assert!(back.len() as u64 >= written << 20 && back.iter().all(|&byte| byte == 7));
    fs::remove_file(bench.file("f")).unwrap();
    drop(file);
    bench.umount().done();
    bench.is_in_order();
}

#[test]
fn paths_that_are_no_text_are_served_and_told() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let path = |name: &[u8]| bench.folder.path().join(OsStr::from_bytes(name));
    let (image, meta, point, saved) = (path(b"d\xff.img"), path(b"m\xff"), path(b"p\xff"), path(b"s\xff"));
    fs::create_dir(&point).unwrap();
    let run = |arguments: &[&OsStr]| Ran(bench.command(&[]).args(arguments).output().unwrap());
    let words = |line: &'static str| line.split(' ').map(OsStr::new).collect::<Vec<_>>();
    let (image_, meta_, point_) = (image.as_os_str(), meta.as_os_str(), point.as_os_str());
    run(&[words("mkfs --json --size 64MiB --meta"), vec![meta_, image_]].concat()).done();
    run(&[words("mount"), vec![image_, point_]].concat()).done();
    fs::write(point.join("f"), "text").unwrap();
    for command in ["top --json", "top --once", "df --json", "sync"] {
        run(&[words(command), vec![point_]].concat()).done();
    }
    assert!(run(&words("mounts --json")).done().contains("255"), "the byte itself");
    assert!(run(&words("mounts")).done().contains(".img on "));
    run(&[words("backup --json"), vec![point_, saved.as_os_str()]].concat()).done();
    run(&[words("umount"), vec![point_]].concat()).done();
    for command in ["fsck -n --json", "df --json"] {
        run(&[words(command), vec![image_]].concat()).done();
    }
    run(&[words("fsck -n"), vec![saved.join("disk.img").as_os_str()]].concat()).done();
}

#[test]
fn a_relative_run_directory_is_refused() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    let run = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        Ran(command.current_dir(bench.folder.path()).env("SMRKIT_RUN_DIR", "own-run").output().unwrap())
    };
    run(&["mount", "disk.img", "mnt"]).says(1, &["give an absolute path"]);
    assert!(!bench.folder.path().join("own-run").exists());
}

/// Some programs that copy leave empty folders out.
#[test]
fn folders_that_were_lost_while_they_were_empty_are_made_again() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        let (image, lost) = (bench.path("disk.img"), ["orphans", "maps", "state"]);
        let lose = |names: &[&str]| {
            for name in names {
                fs::remove_dir(PathBuf::from(bench.path("meta")).join(name)).unwrap();
            }
        };
        lose(&lost);
        bench.is_in_order();
        bench.smrkit(&["df", &image]).done();
        bench.smrkit(&["backup", &image, &bench.path("saved")]).done();
        bench.mount_with(&["--read-only"]).done();
        bench.umount().done();
        bench.mount().done();
        fs::write(bench.file("f"), vec![1; 100_000]).unwrap();
        kill(bench.process());
        bench.umount().done();
        lose(&["orphans", "maps"]);
        bench.mount().done();
        bench.umount().done();
        bench.is_in_order();
        // The tree is none of them: with an empty one all data would be free.
        fs::rename(bench.path("meta/tree"), bench.path("meta/elsewhere")).unwrap();
        bench.mount().says(3, &["meta/tree", "put it back"]);
    }
}
