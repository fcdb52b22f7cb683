//! Commands on mounts: `smrkit mounts`, `umount`, `sync`, `top` and `scrub`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::Value;
use smrkit::quantity::{Bytes, parse_duration};
use smrkit_live::mount::control::{self, ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError, Scrubbed};
use smrkit_report::{activity, metrics};

use super::drive_image::connect;
use crate::exit::Done;
use crate::output::{print, print_as, print_json};

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit mounts
  smrkit mounts --json")]
pub struct Mounts {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const KEYS: [&str; 6] = ["image", "meta", "mount_point", "read_only", "process", "mounted_s"];

impl Mounts {
    pub fn execute(self) -> anyhow::Result<()> {
        let mounts = control::mounts()?;
        let record = |report: &Value| KEYS.iter().map(|&key| (key.to_string(), report[key].clone())).collect::<Value>();
        print_as(self.json, || mounts.iter().map(record).collect::<Value>(), || mounts.iter().map(line).collect())
    }
}

fn line(report: &Value) -> String {
    let path = |key: &str| control::value_path(&report[key]).unwrap_or_default();
    let how = if report["read_only"] == true { "ro" } else { "rw" };
    format!("{} on {} ({how}, process {})\n", path("image").display(), path("mount_point").display(), report["process"])
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit umount /mnt/smr")]
pub struct Umount {
    /// The mount point.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
    /// Unmount even if some data can't be saved; data that was synced before is safe.
    #[arg(long)]
    give_up: bool,
}

impl Umount {
    pub fn execute(self) -> anyhow::Result<()> {
        mount::end(&mount::canonical(&self.mount_point)?, self.give_up)?;
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit sync /mnt/smr

sync(1) does not reach a mount: Linux never tells it.")]
pub struct Sync {
    /// The mount point.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
}

impl Sync {
    pub fn execute(self) -> anyhow::Result<()> {
        let point = mount::canonical(&self.mount_point)?;
        let synced = mount::sync(&point);
        // The kernel reports only that the sync failed; the mount itself knows whether a flush was lost.
        if synced.is_err()
            && let Ok(report) = ControlClient::connect(&point).and_then(|mut client| client.ask(ControlCommand::Report))
            && report["flush_failed"] == true
        {
            bail!("a flush failed: nothing is acknowledged any more (smrkit umount names what is unsaved)");
        }
        synced?;
        Ok(())
    }
}

/// Moves the cursor to the upper left corner, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit top /mnt/smr
  smrkit top /mnt/smr --once
  smrkit top /mnt/smr --json")]
pub struct Top {
    /// The mount point, or the image that smrkit serve serves.
    #[arg(value_name = "MOUNTPOINT|IMAGE")]
    mount_point: PathBuf,
    /// Print it once.
    #[arg(long)]
    once: bool,
    /// Print it once, as JSON.
    #[arg(long, conflicts_with = "once")]
    json: bool,
    /// Print it once, as text for Prometheus.
    #[arg(long, conflicts_with_all = ["once", "json"])]
    prometheus: bool,
    /// Time between updates.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: String,
}

impl Top {
    pub fn execute(self) -> anyhow::Result<()> {
        let interval = Duration::from_nanos(parse_duration(&self.interval)?.0);
        let interval = interval.max(Duration::from_millis(100));
        let mut client = connect(&mount::canonical(&self.mount_point)?)?;
        let mut report = client.ask(ControlCommand::Report)?;
        if self.json {
            return print_json(&report);
        }
        if self.prometheus {
            return print(metrics::text(&report));
        }
        print(activity::page(&report, None))?;
        if self.once {
            return Ok(());
        }
        loop {
            thread::sleep(interval);
            let last = std::mem::replace(&mut report, Value::Null);
            report = match client.ask(ControlCommand::Report) {
                Err(MountError::Control { .. } | MountError::Ending) => {
                    return print("the mount has ended\n");
                }
                Err(MountError::Daemon(why)) => {
                    print(format!("{why}\n"))?;
                    report = last;
                    continue;
                }
                report => report?,
            };
            let clear = if io::stdout().is_terminal() { CLEAR } else { "\n" };
            print(clear.to_string() + &activity::page(&report, Some(&last)))?;
        }
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit scrub /mnt/smr

Exit code: 0 all was read, 4 something can't be read.")]
pub struct Scrub {
    /// The mount point.
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Scrub {
    pub fn execute(self) -> anyhow::Result<Done> {
        let mut client = ControlClient::connect(&mount::canonical(&self.mount_point)?)?;
        let mut answer = client.ask(ControlCommand::Scrub)?;
        let report: Scrubbed = serde_json::from_value(answer["scrub"].take())?;
        print_as(self.json, || &report, || self.text(&report))?;
        Ok(if report.damaged_bytes == 0 { Done::All } else { Done::Code(4) })
    }

    fn text(&self, report: &Scrubbed) -> String {
        let point = self.mount_point.display();
        let file = |file: &mount::Damaged| {
            let path = file.path.as_deref().unwrap_or("/(a file without a known name)");
            format!("{point}{path}: {} can't be read: restore the file from a backup\n", Bytes(file.damaged_bytes))
        };
        let files: String = report.files.iter().map(file).collect();
        let read = Bytes(report.read_bytes);
        files
            + &match report.files.len() {
                0 => format!("{point}: {read} read, nothing is wrong\n"),
                count => format!("{point}: {read} read; {count} files are damaged\n"),
            }
    }
}
