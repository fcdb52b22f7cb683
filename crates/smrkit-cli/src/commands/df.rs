//! `smrkit df`: the use of a shingled disk, as tables.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use smrfs::fsck::report::Fill;
use smrkit::error::Error;
use smrkit_live::block::image::is_drive_image;
use smrkit_live::mount::control::{ControlClient, ControlCommand, joined, path_value};
use smrkit_live::mount::{self, MountError};
use smrkit_live::survey::{Survey, survey};
use smrkit_live::volume::{Open, Volume};
use smrkit_report::{Grid, format};

use super::drive_image;
use super::volume::VolumeOptions;
use crate::output::print_as;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit df disk.img
  smrkit df disk.img --json

R may be read; NW must not be written; WO may be written once; W may be written. On an image, what was written when is not \
known: dead space within DPID below live data counts as NW.")]
pub struct Df {
    /// The image or block device, or where it is mounted.
    #[arg(value_name = "IMAGE|MOUNTPOINT")]
    image: PathBuf,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Df {
    pub fn execute(self) -> anyhow::Result<()> {
        if is_drive_image(&self.image) {
            return drive_image::df(&self.image, self.json);
        }
        let (about, survey) = if self.image.is_dir() { self.of_mount()? } else { self.of_image()? };
        print_as(self.json, || record(about, &survey), || text(&self.image.display().to_string(), &survey))
    }

    fn of_image(&self) -> anyhow::Result<(Value, Survey)> {
        let volume = Volume::open(&self.image, &Open { read_only: true, ..self.volume.open() })?;
        let survey = survey(&volume)?;
        let about = json!({
            "image": path_value(&self.image),
            "meta": path_value(volume.meta()),
            "uuid": volume.superblock().uuid.to_string(),
            "was_clean": volume.was_clean,
        });
        Ok((about, survey))
    }

    /// Asks the process behind a mount.
    fn of_mount(&self) -> anyhow::Result<(Value, Survey)> {
        let mut client = ControlClient::connect(&mount::canonical(&self.image)?).map_err(|error| match error {
            MountError::NotMounted(path) => {
                Error::input(path, "a directory, and no SMRfs of this user is mounted there: name the image").into()
            }
            error => anyhow::Error::from(error),
        })?;
        let mut answer = client.ask(ControlCommand::Survey)?;
        let survey = serde_json::from_value(answer["survey"].take())?;
        let about = json!({"image": answer["image"], "meta": answer["meta"], "mount_point": path_value(&self.image)});
        Ok((about, survey))
    }
}

/// The JSON record: `about`, which differs between images and mounts, and the common part.
fn record(about: Value, survey: &Survey) -> Value {
    let bytes = |granules: u64| granules * survey.shape.granule_bytes;
    let counts = &survey.usage.counts;
    let rest = json!({
        "model": survey.shape.model,
        "granule_bytes": survey.shape.granule_bytes,
        "raw_bytes": bytes(survey.shape.granules),
        "usable_bytes": bytes(survey.usage.usable),
        "free_bytes": bytes(free(survey)),
        "live_bytes": bytes(survey.usage.live),
        "promised_bytes": bytes(survey.usage.promised),
        "readable_bytes": bytes(counts.readable),
        "not_writable_bytes": bytes(counts.not_writable),
        "write_once_bytes": bytes(counts.write_once),
        "writable_bytes": bytes(counts.writable),
        "garbage_bytes": bytes(counts.garbage),
        "files": survey.files,
        "damaged_maps": survey.damaged_maps,
        "extents": survey.extents,
        "nodes": survey.usage.nodes,
        "free_nodes": survey.usage.free_nodes,
        "bands": survey.bands,
    });
    joined(about, rest)
}

fn free(survey: &Survey) -> u64 {
    survey.usage.usable.saturating_sub(survey.usage.live + survey.usage.promised)
}

/// A sentence and the tables.
fn text(name: &str, survey: &Survey) -> String {
    let mut parts = vec![summary(name, survey), table(survey).text()];
    parts.extend(survey.bands.as_ref().map(|bands| fill(bands).text()));
    parts.join("\n\n") + "\n"
}

fn summary(name: &str, survey: &Survey) -> String {
    let bytes = |granules: u64| format::bytes((granules * survey.shape.granule_bytes) as f64);
    format!(
        "{name}: {} of {} free; {} files with data in {} extents; room for {} more files{}",
        bytes(free(survey)),
        bytes(survey.usage.usable),
        format::count(survey.files),
        format::count(survey.extents),
        format::count(survey.usage.free_nodes),
        match survey.damaged_maps {
            0 => String::new(),
            count => format!("; {} files with damaged maps (smrkit fsck names them)", format::count(count)),
        }
    )
}

fn table(survey: &Survey) -> Grid {
    let mut grid = Grid::new(["disk", "bytes", "share"]);
    let raw = survey.shape.granules;
    let mut row = |name: &str, granules: u64| {
        let bytes = format::bytes((granules * survey.shape.granule_bytes) as f64);
        grid.rows.push(vec![name.into(), bytes, format::percent(granules as f64, raw as f64)]);
    };
    row("all of it, without superblocks", raw);
    let counts = &survey.usage.counts;
    row("R: may be read", counts.readable);
    row("NW: must not be written", counts.not_writable);
    row("WO: may be written once", counts.write_once);
    row("W: may be written", counts.writable);
    row("garbage (in NW)", counts.garbage);
    row("for files", survey.usage.usable);
    row("promised", survey.usage.promised);
    grid
}

fn fill(bands: &Fill) -> Grid {
    let mut grid = Grid::new(["bands", "number"]);
    let mut classes = vec![("empty".to_string(), bands.empty), ("dead".into(), bands.dead)];
    for (tenth, &count) in bands.by_tenth_live.iter().enumerate() {
        classes.push((format!("up to {} % live", 10 * (tenth + 1)), count));
    }
    classes.push(("lost".into(), bands.lost));
    for (name, count) in classes.into_iter().filter(|(_, count)| *count > 0) {
        grid.rows.push(vec![name, format::count(count)]);
    }
    grid.rows.push(vec!["(of these open)".into(), format::count(bands.open)]);
    grid
}

#[cfg(test)]
#[path = "../../tests/units/df.rs"]
mod tests;
