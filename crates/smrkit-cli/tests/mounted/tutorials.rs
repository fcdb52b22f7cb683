//! Tutorials whose commands need mounts: the listings marked `sh`, one after another, as a reader types them.

use std::fs;
use std::process::Command;

use super::attached::{EXT4, has};
use super::{Bench, Ran, is_root};

/// The commands of a page, as one script that ends with the first that fails.
fn commands(page: &str) -> String {
    let path = format!("{}/../../docs/tutorials/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    let listings = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    listings.collect()
}

/// Runs a script in a folder of its own, in which nothing is mounted.
fn run(script: &str) -> String {
    let bench = Bench { folder: tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_smrkit")).parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [built, "/usr/sbin".into(), "/sbin".into()].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(bench.folder.path());
    shell.env("PATH", std::env::join_paths(folders).unwrap()).env("SMRKIT_RUN_DIR", bench.path("run"));
    Ran(shell.output().unwrap()).done()
}

#[test]
fn smrfs_is_mounted_and_crashed() {
    if let Err(error) = smrkit_live::mount::check_system() {
        return println!("skipped: can't mount here: {error}");
    }
    let process = "kill -9 $(smrkit mounts | sed 's/.*process \\([0-9]*\\).*/\\1/')";
    // What is on a mount can't be read once its process is gone.
    let script = commands("smrfs.md").replace("kill -9 PID\ncat mnt/kept", process);
    let said = run(&script);
    for words in ["nothing is wrong", "kept\n", "R: may be read"] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
}

mod long {
    use super::*;

    #[test]
    fn a_database_loses_what_it_did_not_flush_and_no_more() {
        if let Err(error) = smrkit_live::mount::check_system() {
            return println!("skipped: can't mount here: {error}");
        }
        if !is_root() || !fs::exists("/dev/loop-control").unwrap() || !has("sqlite3") || !EXT4.is_here() {
            return println!("skipped: can't mount a loop device here with sqlite3 on it");
        }
        let said = run(&commands("database.md").replace("1 2 3 4 5 6 7 8", "1 2"));
        // The journal of the last of them is written ahead.
        let lines = said.lines().skip_while(|line| !line.starts_with("extra:"));
        let counts: Vec<(u64, u64)> = lines.filter_map(confirmed_and_kept).collect();
        assert!(counts.len() >= 4, "{said}");
        assert!(counts.iter().all(|(confirmed, kept)| kept >= confirmed), "confirmed sales are lost: {said}");
    }

    /// Of `extra: 57 confirmed, 58 in the table`.
    fn confirmed_and_kept(line: &str) -> Option<(u64, u64)> {
        let (confirmed, kept) = line.split_once(": ")?.1.split_once(" confirmed, ")?;
        Some((confirmed.parse().ok()?, kept.strip_suffix(" in the table")?.parse().ok()?))
    }
}
