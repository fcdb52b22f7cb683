//! `smrkit drives`: the drives that come with smrkit; one in full, every value with its source and its seek curve.

mod identify;
mod measure;
mod validate;

use clap::{Args, Subcommand};
use smrkit::drive::catalogue::{Model, models, recording_in_words};
use smrkit::drive::{DRIVES, Drive, DriveSetting};
use smrkit::error::Error;
use smrkit::experiment::system::System;
use smrkit::layer::AS_SOLD;
use smrkit::quantity::Bytes;
use smrkit::settings::Settings;

use crate::output::print_as;
use smrkit_report::catalogue::{self, drive_in_short, law_in_words};
use smrkit_report::{Grid, format};

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  smrkit drives
  smrkit drives show st5000as0011
  smrkit drives show my-drive.toml
  smrkit drives identify WD40EFAX-68JH4N0
  smartctl -i /dev/sda | smrkit drives identify -
  smrkit drives measure /dev/sdX > measure.fio
  smrkit drives fit logs --to my-drive.toml
  smrkit drives import disksim descriptions --to drives
  smrkit drives validate measured/disksim"
)]
pub struct Drives {
    #[command(subcommand)]
    what: Option<DrivesCommand>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum DrivesCommand {
    /// All drives, a line each (the default).
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// One drive, or a drive file: every value with its source, and the seek curve.
    Show {
        /// The drive's name, a model string, or the path of a drive file.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// How disks record, by whose word, and which drive stands for each.
    Identify(identify::Identify),
    /// A job for fio that measures a disk, for over an hour, and destroys what is on it.
    Measure(measure::Measure),
    /// What the logs of that job say of the disk: its kind, and a drive file.
    Fit(measure::FitCommand),
    /// Drive files from descriptions in another format.
    #[command(subcommand)]
    Import(measure::Import),
    /// Replay measured traces on the drives of their descriptions; how close the response times come.
    Validate(validate::Validate),
}

impl Drives {
    pub fn execute(self) -> anyhow::Result<()> {
        match self.what.unwrap_or(DrivesCommand::List { json: self.json }) {
            DrivesCommand::List { json } => {
                let drives = DRIVES.iter().map(|(name, _)| Drive::load(name)).collect::<Result<Vec<_>, Error>>()?;
                print_as(json, || drives.iter().map(drive_in_short).collect::<Vec<_>>(), || list(&drives))
            }
            DrivesCommand::Show { name, json } => {
                let drive = Drive::load(&name)?;
                print_as(json, || catalogue::drive(&drive), || show(&drive))
            }
            DrivesCommand::Identify(identify) => identify.execute(),
            DrivesCommand::Measure(measure) => measure.execute(),
            DrivesCommand::Fit(fit) => fit.execute(),
            DrivesCommand::Import(import) => import.execute(),
            DrivesCommand::Validate(validate) => validate.execute(),
        }
    }
}

fn list(drives: &[Drive]) -> String {
    let line = |drive: &Drive| {
        let size = Bytes::of_sectors(drive.geometry.sectors).to_string();
        format!("{:<16} {size:>9}  {:<10}  {}\n", drive.name, drive.clock.name(), drive.summary)
    };
    let lines: String = drives.iter().map(line).collect();
    lines
        + "\nsmrkit drives show NAME gives every value with its source; a path to a drive file works wherever a name does.\n"
}

fn show(drive: &Drive) -> String {
    let geometry = &drive.geometry;
    let mut text = format!("{}: {}\n", drive.name, drive.summary);
    let is_modelled = |model: &Model| model.is_own_preset && model.preset == Some(drive.name.as_str());
    if let Some(Model { name, recording, basis, source, .. }) = models().find(is_modelled) {
        let recording = recording_in_words(recording);
        text += &format!("Modelled after {name}: {recording}, by {basis} ({source}).\n");
    }
    if let Some(model) = drive.stands_for() {
        text += &format!("Stands for {model}, which has no drive of its own here.\n");
    }
    text.push('\n');
    text += &format!(
        "{} sectors ({}), {} tracks in {} recording zones, longest track {} sectors\n\n",
        geometry.sectors,
        Bytes::of_sectors(geometry.sectors),
        geometry.tracks,
        geometry.zones.len(),
        geometry.longest_track()
    );
    text += &capacity(drive).map_or(String::new(), |text| text + "\n");
    let form = drive.interference.form().map_or("none", |form| form.name());
    text += &format!("Shingling ({form}): {}\n", law_in_words(&drive.interference));
    let mut grid = Grid::new(["value", "", "known", "source"]);
    for setting in &drive.settings {
        let value = in_words(setting);
        grid.rows.push(vec![setting.key.clone(), value, setting.basis().into(), setting.source.clone()]);
    }
    let assumed = drive.settings.iter().filter(|setting| setting.basis() == "assumed").count();
    text += &format!("\n{assumed} of {} values are assumed, at least in part.\n", drive.settings.len());
    text += &format!("\n{}\n", grid.text());
    if let Some((third, random)) = drive.average_seek() {
        text += &format!("\nSeek over a third of the stroke {third}, mean between random sectors {random}.\n");
        text += &curve(&drive.seek_curve());
    }
    text
}

/// A value with its range and unit. Sizes get the prefix that keeps them readable.
fn in_words(setting: &DriveSetting) -> String {
    let a_second = if setting.unit.ends_with("/s") { "/s" } else { "" };
    let is_size = setting.unit.starts_with("bytes") || setting.unit.is_empty() && setting.key.ends_with("_bytes");
    let shown = |text: &str| match text.parse::<Bytes>() {
        Ok(bytes) if is_size => format!("{bytes}{a_second}"),
        _ => text.to_string(),
    };
    let range = match &setting.range {
        Some((low, high)) => format!(" ({} to {})", shown(low), shown(high)),
        None => String::new(),
    };
    // A size has its unit already.
    let unit = if is_size { "" } else { &setting.unit };
    format!("{}{range} {unit}", shown(&setting.value)).trim_end().to_string()
}

/// A sentence on the capacity that the drive offers as it is sold, and the part that it keeps for itself.
fn capacity(drive: &Drive) -> Option<String> {
    let run = System::of(drive.clone()).layer(AS_SOLD).run(Settings::default()).ok()?;
    let sold = &run.system().drives()[0];
    let capacity = (sold.layer.capacity)(&sold.drive, &sold.parameters).ok()?;
    let mut text = format!("As sold, under {}, it offers {}", sold.layer.name, format::sectors(capacity.host_sectors));
    if capacity.cache_sectors > 0 {
        text += &format!(", and has a persistent cache of {}", format::sectors(capacity.cache_sectors));
    }
    if capacity.spare_sectors > 0 {
        text += &format!(", and {} of spare room", format::sectors(capacity.spare_sectors));
    }
    Some(text + ".\n")
}

/// The seek curve in characters: a line for each distance, as long as the time.
fn curve(points: &[(f64, f64)]) -> String {
    let longest_ms = points.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let mut text = String::from("\nSeek time by distance (share of the stroke):\n");
    for (share, ms) in points {
        let bar = "█".repeat((ms / longest_ms.max(1e-9) * 50.0).round() as usize);
        text += &format!("  {:>8.3} %  {bar} {ms:.2} ms\n", share * 100.0);
    }
    text
}

#[cfg(test)]
#[path = "../../tests/units/drives.rs"]
mod tests;
