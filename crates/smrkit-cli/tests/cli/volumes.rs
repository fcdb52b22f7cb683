//! `mkfs`, `fsck` and `df` as their users meet them: what is refused, with which words, and that nothing is changed then.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Scratch, at};

const MKFS: &str = "mkfs --model caveat --size 64MiB a.img --meta a.meta";

/// All files below a directory: path, length and content of the small ones.
fn everything(folder: &Path) -> Vec<(String, u64, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() {
            all.push((name, 0, Vec::new()));
            all.extend(everything(&path));
        } else {
            let file = fs::File::open(&path).unwrap();
            let mut head = vec![0; 1 << 20];
            let read = file.read_at(&mut head, 0).unwrap();
            head.truncate(read);
            all.push((name, file.metadata().unwrap().len(), head));
        }
    }
    all.sort();
    all
}

/// The command is refused with `code` and `words`, and nothing is changed.
#[track_caller]
fn refused(scratch: &Scratch, arguments: &str, code: i32, words: &[&str]) {
    let before = everything(scratch.0.path());
    at(scratch, arguments).says(code, words);
    assert!(everything(scratch.0.path()) == before, "{arguments} changed something");
}

#[test]
fn mkfs_makes_both_models_and_says_what_they_are_like() {
    let scratch = Scratch::new();
    let out = at(&scratch, MKFS).done();
    assert!(out.contains("caveat") && out.contains("a.meta"), "{out}");
    assert_eq!(fs::metadata(scratch.path("a.img")).unwrap().len(), 64 << 20);
    let json = at(&scratch, "mkfs --model strict-append --size 256MiB b.img --meta b.meta --json").done();
    let made: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(made["model"], "strict-append");
    assert!(made["bands"].as_u64().unwrap() > 10, "{made}");
    let (raw, usable) = (made["raw_bytes"].as_u64().unwrap(), made["usable_bytes"].as_u64().unwrap());
    assert!(usable > raw / 2 && usable < raw && raw <= 256 << 20, "{made}");
    let meta = scratch.path("b.meta");
    assert_eq!(made["meta"], fs::canonicalize(meta).unwrap().display().to_string());
}

#[test]
fn mkfs_needs_no_more_than_an_image_and_its_size() {
    let scratch = Scratch::new();
    let made: Value = serde_json::from_str(&at(&scratch, "mkfs --size 64MiB disk.img --json").done()).unwrap();
    assert_eq!(made["model"], "strict-append");
    assert_eq!(scratch.names(), ["disk.img", "disk.meta"]);
    at(&scratch, "fsck -n disk.img").done();
}

#[test]
fn mkfs_leaves_alone_what_exists_unless_forced() {
    let scratch = Scratch::new();
    at(&scratch, MKFS).done();
    refused(&scratch, MKFS, 3, &["a.img", "--force"]);
    refused(&scratch, "mkfs --model caveat --size 64MiB new.img --meta a.meta", 3, &["a.meta", "--force"]);
    fs::create_dir(scratch.path("full")).unwrap();
    scratch.file("full/precious", "x");
    for force in ["", "--force"] {
        let arguments = format!("mkfs --model caveat --size 64MiB new.img --meta full {force}");
        refused(&scratch, &arguments, 3, &["full is not empty", "--meta"]);
    }
    scratch.file("text", "something else");
    refused(&scratch, "mkfs --model caveat --size 64MiB text --meta new", 3, &["text", "--force"]);
    at(&scratch, &format!("{MKFS} --force")).done();
    at(&scratch, "mkfs --model caveat --size 64MiB text --meta a.meta --force").done();
}

#[test]
fn mkfs_refuses_what_no_disk_can_be() {
    let scratch = Scratch::new();
    let mkfs = |rest: &str| format!("mkfs --model strict-append new.img --meta new {rest}");
    refused(&scratch, &mkfs(""), 4, &["--size"]);
    refused(&scratch, &mkfs("--size 100KiB"), 4, &["too few", "raise --size"]);
    refused(&scratch, &mkfs("--size 2MiB --did 1MiB"), 4, &["--did"]);
    refused(&scratch, &mkfs("--size 1GiB --did 1000"), 4, &["--did", "multiple of 4KiB"]);
    refused(&scratch, &mkfs("--size 1GiB --band 0"), 4, &["--band"]);
    refused(&scratch, &mkfs("--size 1GiB --band 600MiB"), 4, &["--size"]);
    refused(&scratch, &mkfs("--size 1TiB --band 4KiB --did 0 --dpid 0"), 4, &["bands", "raise --band"]);
    refused(&scratch, &mkfs("--size 12EiB"), 2, &["--size"]);
    refused(&scratch, &mkfs("--size 1q"), 2, &["unknown unit"]);
    refused(&scratch, "mkfs --model caveat --size 64MiB new/a.img --meta new", 4, &["keep them apart"]);
    refused(
        &scratch,
        "mkfs --model caveat --size 64MiB nowhere/a.img --meta new",
        3,
        &["nowhere/a.img", "check the path"],
    );
    refused(&scratch, "mkfs --model caveat --size 64MiB a.img --meta no/where", 3, &["no/where", "check the path"]);
    refused(
        &scratch,
        "mkfs --model caveat --size 64MiB /dev/null --meta new",
        3,
        &["neither a file nor a block device"],
    );
}

#[test]
fn a_full_host_disk_is_refused_and_nothing_is_left_of_the_try() {
    let Some(small) = Tmpfs::mount("size=1200k") else {
        eprintln!("skipped: needs root to mount a small file system");
        return;
    };
    let fill = |bytes: usize| fs::write(small.0.path().join("fill"), vec![1; bytes]).unwrap();
    fill(1 << 20);
    let image = small.0.path().join("a.img").display().to_string();
    let scratch = Scratch::new();
    // Wherever room ends: in the head, in the superblocks, or not at all.
    let mut made = Vec::new();
    for left in (1..=12).map(|n| n * 8192) {
        fill((1200 << 10) - left);
        let ran = at(&scratch, &format!("mkfs --model caveat --size 64MiB {image} --meta meta"));
        made.push(ran.code == 0);
        if ran.code == 0 {
            fs::remove_file(&image).unwrap();
            fs::remove_dir_all(scratch.path("meta")).unwrap();
        } else {
            ran.says(1, &["full", "free some space"]);
        }
        assert_eq!(fs::read_dir(small.0.path()).unwrap().count(), 1, "only the fill is there ({left} bytes left)");
        assert!(scratch.names().is_empty(), "{:?}", scratch.names());
    }
    assert!(!made[0] && made[made.len() - 1], "{made:?}");
    let meta = small.0.path().join("meta").display().to_string();
    at(&scratch, &format!("mkfs --model caveat --size 64MiB a.img --meta {meta}"))
        .says(1, &["full", "free some space"]);
    assert_eq!(fs::read_dir(small.0.path()).unwrap().count(), 1, "only the fill is there");
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
}

#[test]
fn a_file_system_without_attributes_is_refused() {
    let Some(plain) = Ramfs::mount() else {
        eprintln!("skipped: needs root to mount a file system without attributes");
        return;
    };
    let scratch = Scratch::new();
    let meta = plain.0.path().join("meta").display().to_string();
    refused(
        &scratch,
        &format!("mkfs --model caveat --size 64MiB a.img --meta {meta}"),
        4,
        &["extended attributes", "ext4"],
    );
    assert!(!Path::new(&meta).exists());
}

#[test]
fn df_and_fsck_tell_of_a_new_disk_and_change_nothing() {
    for model in ["caveat", "strict-append"] {
        let scratch = Scratch::new();
        at(&scratch, &format!("mkfs --model {model} --size 64MiB a.img --meta a.meta")).done();
        let before = everything(scratch.0.path());
        let df: Value = serde_json::from_str(&at(&scratch, "df a.img --json").done()).unwrap();
        let bytes = |key: &str| df[key].as_u64().unwrap();
        let kinds = ["readable_bytes", "not_writable_bytes", "write_once_bytes", "writable_bytes"];
        assert_eq!(kinds.into_iter().map(bytes).sum::<u64>(), bytes("raw_bytes"), "{df}");
        assert_eq!((bytes("live_bytes"), bytes("free_bytes")), (0, bytes("usable_bytes")));
        let text = at(&scratch, "df a.img").done();
        assert!(text.contains("NW: must not be written"), "{text}");
        let fsck: Value = serde_json::from_str(&at(&scratch, "fsck -n a.img --json").done()).unwrap();
        assert_eq!((&fsck["verdict"], &fsck["was_clean"]), (&Value::from("clean"), &Value::from(true)));
        assert!(everything(scratch.0.path()) == before, "{model}");
        at(&scratch, "fsck a.img").done();
    }
}

#[test]
fn fsck_repairs_a_damaged_map_and_says_so_by_its_exit_code() {
    let scratch = Scratch::new();
    at(&scratch, MKFS).done();
    let stub = scratch.path("a.meta/tree/file");
    fs::write(&stub, "").unwrap();
    let set = Command::new("setfattr").args(["-n", "user.smrfs.map", "-v", "nonsense", &stub]).output();
    if !set.is_ok_and(|set| set.status.success()) {
        eprintln!("skipped: needs setfattr");
        return;
    }
    let before = everything(scratch.0.path());
    let looked = at(&scratch, "fsck -n a.img");
    assert_eq!((looked.code, looked.out.contains("without -n")), (4, true), "{}{}", looked.out, looked.err);
    assert!(everything(scratch.0.path()) == before);
    assert!(at(&scratch, "df a.img").done().contains("smrkit fsck names them"));
    let repaired = at(&scratch, "fsck a.img");
    assert_eq!((repaired.code, repaired.out.contains("repaired")), (1, true), "{}{}", repaired.out, repaired.err);
    at(&scratch, "fsck a.img").done();
    at(&scratch, "df a.img").done();
}

#[test]
fn images_and_directories_that_do_not_belong_together_are_refused() {
    let scratch = Scratch::new();
    at(&scratch, MKFS).done();
    at(&scratch, "mkfs --model caveat --size 64MiB b.img --meta b.meta").done();
    scratch.file("foreign", vec![1; 100_000]);
    scratch.file("empty", "");
    fs::create_dir(scratch.path("folder")).unwrap();
    let image = fs::read(scratch.path("a.img")).unwrap();
    scratch.file("cut", &image[..image.len() / 2]);
    let mut newer = image.clone();
    newer[8] = 9;
    scratch.file("newer", newer);
    for command in ["df", "fsck", "fsck -n"] {
        refused(&scratch, &format!("{command} missing.img"), 3, &["missing.img", "smrkit mkfs"]);
        refused(&scratch, &format!("{command} foreign"), 3, &["foreign", "no SMRfs image"]);
        refused(&scratch, &format!("{command} empty"), 3, &["empty", "no SMRfs image"]);
        refused(&scratch, &format!("{command} cut"), 3, &["cut short", "restore"]);
        refused(&scratch, &format!("{command} newer"), 3, &["newer smrkit"]);
        refused(&scratch, &format!("{command} folder"), 3, &["folder"]);
        refused(&scratch, &format!("{command} a.img --meta b.meta"), 3, &["b.meta", "another image", "--meta"]);
        refused(&scratch, &format!("{command} a.img --meta folder"), 3, &["folder", "no metadata directory", "--meta"]);
        refused(&scratch, &format!("{command} a.img --meta nowhere"), 3, &["nowhere", "--meta"]);
        refused(&scratch, &format!("{command} a.img --meta foreign"), 3, &["foreign is no directory"]);
    }
    let file = fs::File::open(scratch.path("a.img")).unwrap();
    file.try_lock().unwrap();
    for command in ["df", "fsck", "fsck -n", "mkfs --force --model caveat --size 64MiB --meta a.meta"] {
        refused(&scratch, &format!("{command} a.img"), 3, &["a.img is in use", "end that first"]);
    }
}

#[test]
fn fsck_takes_an_older_copy_for_a_pair_where_it_may_change_it() {
    let scratch = Scratch::new();
    at(&scratch, MKFS).done();
    fs::copy(scratch.path("a.img"), scratch.path("older")).unwrap();
    (0..2).for_each(|_| drop(at(&scratch, "fsck a.img").done()));
    fs::rename(scratch.path("older"), scratch.path("a.img")).unwrap();
    refused(&scratch, "df a.img", 3, &["smrkit fsck"]);
    let before = everything(scratch.0.path());
    let looked = at(&scratch, "fsck -n a.img");
    assert_eq!((looked.code, looked.out.contains("not of the same moment")), (4, true), "{}{}", looked.out, looked.err);
    assert!(everything(scratch.0.path()) == before);
    let taken = at(&scratch, "fsck a.img");
    assert_eq!((taken.code, taken.out.contains("a pair from now on")), (1, true), "{}{}", taken.out, taken.err);
    assert!(at(&scratch, "fsck a.img").done().contains("nothing is wrong"));
}

/// A small file system of the kernel's, unmounted at the end.
struct Tmpfs(tempfile::TempDir);
struct Ramfs(tempfile::TempDir);

fn mounted(kind: &str, options: &str) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new("mount").args(["-t", kind, "-o", options, "none"]).arg(folder.path()).output().ok()?;
    status.status.success().then_some(folder)
}

fn unmount(folder: &tempfile::TempDir) {
    let _ = Command::new("umount").arg(folder.path()).output();
}

impl Tmpfs {
    fn mount(options: &str) -> Option<Tmpfs> {
        mounted("tmpfs", options).map(Tmpfs)
    }
}

impl Ramfs {
    fn mount() -> Option<Ramfs> {
        mounted("ramfs", "mode=755").map(Ramfs)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}
