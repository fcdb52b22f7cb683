//! `smrkit top`: the activity of a mount or a served drive: host, cleaner, stalls, amplification.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use smrkit::quantity;
use smrkit_live::mount::control::ControlCommand;
use smrkit_live::mount::{self, MountError};

use super::drive_image::connect;
use crate::exit::Done;
use crate::output::{print, print_json};
use smrkit_report::{activity, metrics};

const EXAMPLES: &str = "\
Examples:
  smrkit top /mnt/smr
  smrkit top /mnt/smr --once
  smrkit top /mnt/smr --json";

/// Moves the cursor to the upper left corner, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
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
    pub fn execute(self) -> anyhow::Result<Done> {
        let interval = Duration::from_nanos(quantity::parse_duration(&self.interval)?.0);
        let interval = interval.max(Duration::from_millis(100));
        let mut client = connect(&mount::canonical(&self.mount_point)?)?;
        let mut report = client.ask(ControlCommand::Report)?;
        if self.json {
            print_json(&report)?;
            return Ok(Done::All);
        }
        if self.prometheus {
            print(metrics::text(&report))?;
            return Ok(Done::All);
        }
        print(activity::page(&report, None))?;
        if self.once {
            return Ok(Done::All);
        }
        loop {
            thread::sleep(interval);
            let last = std::mem::replace(&mut report, Value::Null);
            report = match client.ask(ControlCommand::Report) {
                Err(MountError::Control { .. } | MountError::Ending) => {
                    print("the mount has ended\n")?;
                    return Ok(Done::All);
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
