//! Notes the commit for the result file.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().into())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Every commit and checkout adds a line to it, in a clone as in a work tree of its own. A path that does not exist would
    // have this crate compiled at each build.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=SMRKIT_COMMIT={commit}");
    }
}
