//! `smrkit mounts`: what this user has mounted.

use clap::Args;
use serde_json::Value;
use smrkit_live::mount::control;

use crate::exit::Done;
use crate::output::print_as;

const EXAMPLES: &str = "\
Examples:
  smrkit mounts
  smrkit mounts --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Mounts {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const KEYS: [&str; 6] = ["image", "meta", "mount_point", "read_only", "process", "mounted_s"];

impl Mounts {
    pub fn execute(self) -> anyhow::Result<Done> {
        let mounts = control::mounts()?;
        print_as(self.json, || mounts.iter().map(chosen).collect::<Value>(), || mounts.iter().map(line).collect())?;
        Ok(Done::All)
    }
}

fn chosen(report: &Value) -> Value {
    KEYS.iter().map(|&key| (key.to_string(), report[key].clone())).collect()
}

fn line(report: &Value) -> String {
    let path = |key: &str| control::value_path(&report[key]).unwrap_or_default();
    let how = if report["read_only"] == true { "ro" } else { "rw" };
    format!("{} on {} ({how}, process {})\n", path("image").display(), path("mount_point").display(), report["process"])
}
