//! `smrkit fsck`: checks a file system that is not mounted, and repairs it.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use smrfs::fsck::report::{Problem, Report, Verdict};
use smrfs::fsck::{FsckOptions, check};
use smrkit_live::block::image::is_drive_image;
use smrkit_live::error::LiveError;
use smrkit_live::mount::control::{joined, path_value};
use smrkit_live::volume::{Open, Volume};

use super::drive_image;
use super::volume::VolumeOptions;
use crate::exit::Done;
use crate::output::{print, print_json};
use smrkit_report::format;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit fsck -n disk.img
  smrkit fsck disk.img --json

Exit code: 0 nothing is wrong, 1 all of it is repaired, 4 something is left.")]
pub struct Fsck {
    /// The image or block device; it must not be mounted.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Look only, change nothing.
    #[arg(short = 'n', long)]
    no_changes: bool,
    /// Read all data, too.
    #[arg(long)]
    read_all: bool,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Accept maps that were made for files of another owner. Needed after a copy that changed owners.
    #[arg(long)]
    accept_owners: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Fsck {
    pub fn execute(self) -> anyhow::Result<Done> {
        if is_drive_image(&self.image) {
            return drive_image::fsck(&self.image, self.no_changes);
        }
        let how = Open { read_only: self.no_changes, out_of_step: true, ..self.volume.open() };
        let mut volume = Volume::open(&self.image, &how)?;
        let options =
            FsckOptions { repair: !self.no_changes, read_all: self.read_all, accept_owners: self.accept_owners };
        let report = check(&*volume.device(), &*volume.store(), &options)
            .map_err(|error| LiveError::file_system(volume.meta(), error))?;
        let code = self.code(&volume, report.verdict);
        // If errors are left, the volume is not closed cleanly, so that the next mount does not trust saved state.
        if report.verdict != Verdict::ErrorsLeft {
            volume.close()?;
        }
        if self.json {
            print_json(&self.record(&volume, &report, code)?)?
        } else {
            print(self.text(&volume, &report))?
        }
        Ok(Done::Code(code))
    }

    /// The exit code, as that of fsck(8). An image and a directory from different moments count as an error.
    fn code(&self, volume: &Volume, verdict: Verdict) -> u8 {
        let is_misfit = volume.misfit().is_some();
        match verdict {
            Verdict::ErrorsLeft => 4,
            _ if is_misfit && self.no_changes => 4,
            Verdict::Clean if !is_misfit => 0,
            Verdict::Clean | Verdict::Repaired => 1,
        }
    }

    fn record(&self, volume: &Volume, report: &Report, code: u8) -> anyhow::Result<Value> {
        let record = json!({
            "image": path_value(&self.image),
            "meta": path_value(volume.meta()),
            "uuid": volume.superblock().uuid.to_string(),
            "was_clean": volume.was_clean,
            "in_step": volume.misfit().is_none(),
            "exit_code": code,
        });
        Ok(joined(record, serde_json::to_value(report)?))
    }

    fn text(&self, volume: &Volume, report: &Report) -> String {
        let mut text = String::new();
        if let Some(misfit) = volume.misfit() {
            let consequence = if self.no_changes { "" } else { "; taken for a pair from now on" };
            text += &format!("{misfit}{consequence}\n");
        }
        for finding in &report.findings {
            text += &format!("{}{}\n", finding.problem, if finding.repaired { " (repaired)" } else { "" });
        }
        if report.findings.iter().any(|finding| matches!(finding.problem, Problem::OtherOwner { .. })) {
            text += "--accept-owners takes such maps as the files' own\n";
        }
        let unlisted = report.found.saturating_sub(report.findings.len() as u64);
        if unlisted > 0 {
            text += &format!("and {} more\n", format::count(unlisted));
        }
        let state = if volume.was_clean { "" } else { ", not unmounted in good order" };
        text += &format!(
            "{}: {} files in {} extents{state}: ",
            self.image.display(),
            format::count(report.files),
            format::count(report.extents)
        );
        text + &match report.verdict {
            Verdict::Clean if volume.misfit().is_none() => "nothing is wrong\n".to_string(),
            Verdict::Clean => "the maps make sense\n".to_string(),
            Verdict::Repaired => format!("{} problems, all repaired\n", format::count(report.found)),
            Verdict::ErrorsLeft => {
                let left = format::count(report.found - report.repaired);
                let remedy = if self.no_changes { "run it without -n to repair what can be" } else { "see above" };
                format!("{left} problems left: {remedy}\n")
            }
        }
    }
}
