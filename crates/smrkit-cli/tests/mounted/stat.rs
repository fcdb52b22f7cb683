//! Attributes by `stat` of files on a mount over a directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::SystemTime;

use super::{Bench, is_root};

/// User who owns nothing on this system (Debian's nobody and nogroup).
const NOBODY: u32 = 65534;

#[test]
fn what_is_made_after_a_write_is_not_older_than_it() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let modified = |name: &str| fs::metadata(bench.file(name)).unwrap().modified().unwrap();
    let mut times: Vec<(String, SystemTime)> = Vec::new();
    for number in 0..500 {
        fs::write(bench.file("written"), "x").unwrap();
        let name = format!("made-{number}");
        match number % 2 {
            0 => fs::write(bench.file(&name), "").unwrap(),
            _ => fs::create_dir(bench.file(&name)).unwrap(),
        }
        let made = modified(&name);
        assert!(made >= modified("written"), "{name}: {made:?} is before the write");
        times.push((name, made));
    }
    bench.umount().done();
    bench.mount().done();
    for (name, made) in times {
        assert_eq!(modified(&name), made, "{name} after a mount");
    }
    bench.umount().done();
}

#[test]
fn set_id_bits_that_a_write_cleared_are_gone_at_once() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let file = bench.file("f");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o6777)).unwrap();
    let mode = || {
        let told = Command::new("stat").args(["-c", "%a"]).arg(&file).output().expect("stat starts");
        String::from_utf8_lossy(&told.stdout).trim().to_string()
    };
    assert_eq!(mode(), "6777");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<> f && echo more >&3"]).current_dir(bench.point());
    assert!(shell.uid(NOBODY).gid(NOBODY).status().expect("sh starts").success());
    assert_eq!(mode(), "777");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o777);
    bench.umount().done();
}
