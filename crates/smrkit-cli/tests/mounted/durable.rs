//! Durability after the process behind a mount has been killed, however little its commits in the background did.

use std::fs;
use std::process::Command;

use super::{Bench, MODELS};

/// Nothing becomes durable by itself in these tests.
const NEVER: [&str; 2] = ["--commit-interval", "1h"];

pub(super) fn git(bench: &Bench, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(bench.file("work")).args(["-c", "user.name=n", "-c", "user.email=e"]).args(arguments);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().expect("git starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_git_repository_is_whole_after_a_kill() {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: git is missing");
        return;
    }
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount_with(&NEVER).done();
        fs::create_dir(bench.file("work")).unwrap();
        git(&bench, &["init", "-q"]);
        for number in 0..20 {
            fs::write(bench.file(&format!("work/{number}")), vec![number; 100 * usize::from(number)]).unwrap();
        }
        git(&bench, &["add", "."]);
        git(&bench, &["commit", "-q", "-m", "all"]);
        let head = git(&bench, &["rev-parse", "HEAD"]);
        bench.kill_and_mount();
        git(&bench, &["fsck", "--full"]);
        assert_eq!(git(&bench, &["rev-parse", "HEAD"]), head, "{model}");
        assert_eq!(git(&bench, &["ls-tree", "--name-only", "HEAD"]).lines().count(), 20);
        bench.umount().done();
    }
}

#[test]
fn what_was_written_before_a_sync_is_there_after_a_kill() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount_with(&NEVER).done();
        fs::create_dir(bench.file("folder")).unwrap();
        fs::write(bench.file("folder/large"), vec![7; 1 << 20]).unwrap();
        fs::write(bench.file("small"), "small").unwrap();
        bench.smrkit(&["sync", &bench.path("mnt")]).done();
        fs::write(bench.file("later"), "later").unwrap();
        bench.kill_and_mount();
        assert!(fs::read(bench.file("folder/large")).unwrap() == vec![7; 1 << 20], "{model}");
        assert_eq!(fs::read_to_string(bench.file("small")).unwrap(), "small");
        assert_eq!(fs::read_to_string(bench.file("later")).unwrap(), "", "nothing else had made it durable");
        bench.umount().done();
        bench.smrkit(&["sync", &bench.path("mnt")]).says(1, &["no SMRfs mounted"]);
        bench.smrkit(&["sync", &bench.path("nowhere")]).says(3, &["nowhere"]);
    }
}

#[test]
fn data_that_nobody_syncs_is_durable_after_the_usual_interval() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    fs::write(bench.file("f"), "committed").unwrap();
    // Twice what the page says: the machine may be busy.
    std::thread::sleep(std::time::Duration::from_secs(1));
    bench.kill_and_mount();
    assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "committed");
    bench.umount().done();
}
