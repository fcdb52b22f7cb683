//! `smrkit scrub`: reads all data on a mount, and lists the files that can't be read in full.

use std::path::PathBuf;

use clap::Args;
use smrkit::quantity::Bytes;
use smrkit_live::mount::control::{ControlClient, ControlCommand};
use smrkit_live::mount::{self, Scrubbed};

use crate::exit::Done;
use crate::output::print_as;

const EXAMPLES: &str = "\
Examples:
  smrkit scrub /mnt/smr

Exit code: 0 all was read, 4 something can't be read.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
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
