//! `smrkit top`: what a mount or a served drive is doing: host, cleaner, stalls, amplification.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use smrkit::quantity::{self, Bytes};
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, MountError};

use crate::exit::Done;
use crate::output::{print, print_json};
use smrkit_report::activity;

const EXAMPLES: &str = "\
Examples:
  smrkit top /mnt/smr
  smrkit top /mnt/smr --once
  smrkit top /mnt/smr --json";

/// Back to the upper left corner, and the screen empty.
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
    /// Time between pages.
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: String,
}

impl Top {
    pub fn execute(self) -> anyhow::Result<Done> {
        let interval = Duration::from_nanos(quantity::parse_duration(&self.interval)?.0);
        let interval = interval.max(Duration::from_millis(100));
        let mut client = ControlClient::connect(&mount::canonical(&self.mount_point)?)?;
        let mut report = client.ask(ControlCommand::Report)?;
        if self.json {
            print_json(&report)?;
            return Ok(Done::All);
        }
        print(page(&report, None))?;
        if self.once {
            return Ok(Done::All);
        }
        loop {
            thread::sleep(interval);
            let last = std::mem::replace(&mut report, Value::Null);
            report = match client.ask(ControlCommand::Report) {
                Err(MountError::Control { .. } | MountError::Ending) => return ended(),
                report => report?,
            };
            let clear = if io::stdout().is_terminal() { CLEAR } else { "\n" };
            print(clear.to_string() + &page(&report, Some(&last)))?;
        }
    }
}

/// Page on the work of a mount or a served drive.
fn page(report: &Value, last: Option<&Value>) -> String {
    if report["kind"] == "drive" { drive(report, last) } else { activity::page(report, last) }
}

/// Page on the work of a served drive.
fn drive(report: &Value, last: Option<&Value>) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let since = |key: &str| number(key) - last.map_or(0, |last| last[key].as_u64().unwrap_or_default());
    let word = |key: &str| report[key].as_str().unwrap_or_default();
    let fill =
        report["cache_fill"].as_f64().map_or(String::new(), |fill| format!(", cache {:.1} % full", 100.0 * fill));
    let answered = match last {
        Some(_) => format!("{} requests since", since("answered")),
        None => format!("{} requests answered", number("answered")),
    };
    format!(
        "{} of {} under {}{fill}\n{} clients, {} requests waiting, {answered}\nread {}, written {} on the platters\n",
        Bytes(number("export_bytes")),
        word("drive"),
        word("layer"),
        number("clients"),
        number("waiting"),
        Bytes(since("physical_read_bytes")),
        Bytes(since("physical_written_bytes")),
    )
}

fn ended() -> anyhow::Result<Done> {
    print("the mount has ended\n")?;
    Ok(Done::All)
}
