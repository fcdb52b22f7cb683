//! Notes the commit for result files, and a hash of the simulator's sources for the stores of sweeps.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What decides on the numbers of a run. Whoever edits these crates compiles this one anew in any case.
const SOURCES: [&str; 5] = ["../smrkit/src", "../smrkit/drives", "../smrkit/workloads", "../smrkit-trace/src", "src"];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Hashes the files below a path, in the order of their names.
fn add(path: &Path, hash: &mut DefaultHasher) -> std::io::Result<()> {
    if !path.is_dir() {
        hash.write(path.to_string_lossy().as_bytes());
        let text = fs::read(path)?;
        hash.write_usize(text.len());
        hash.write(&text);
        return Ok(());
    }
    let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths.iter().try_for_each(|path| add(path, hash))
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A crate that was published stands alone: its version says all.
    if SOURCES.iter().all(|path| Path::new(path).exists()) {
        let mut hash = DefaultHasher::new();
        for path in SOURCES {
            println!("cargo::rerun-if-changed={path}");
            add(Path::new(path), &mut hash).expect("sources can be read");
        }
        println!("cargo::rustc-env=SMRKIT_SOURCES={:016x}", hash.finish());
    }
    // Every commit and checkout adds a line to it, in a clone as in a work tree of its own. A path that does not exist would
    // have this crate compiled at each build.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        let changed =
            git(&[&["status", "--porcelain", "--"][..], &SOURCES].concat()).is_some_and(|files| !files.is_empty());
        println!("cargo::rustc-env=SMRKIT_COMMIT={commit}{}", if changed { "-changed" } else { "" });
    }
}
