//! Notes the commit for the result file.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    if let Some(output) = output.ok().filter(|output| output.status.success()) {
        println!("cargo::rustc-env=SMRKIT_COMMIT={}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
