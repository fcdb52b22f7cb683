//! `smrkit df`: what is on a shingled disk, as a table, a picture of its surface and a figure.

mod surface;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use smrkit::error::Error;
use smrkit_live::block::image::is_drive_image;
use smrkit_live::mount::control::{ControlClient, ControlCommand, joined, path_value};
use smrkit_live::mount::{self, MountError};
use smrkit_live::survey::{Survey, survey};
use smrkit_live::volume::{Open, Volume};

use super::drive_image;
use super::volume::VolumeOptions;
use crate::exit::Done;
use crate::output::figures;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  smrkit df disk.img
  smrkit df disk.img --json
  smrkit df disk.img --figure surface.svg

R may be read; NW must not be written; WO may be written once; W may be written. On an image, what was written when is not \
known: dead space within DPID below live data counts as NW.";

/// Cells of the surface: 16 lines of 64 on a terminal.
const CELLS: usize = 1024;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Df {
    /// The image or block device, or where it is mounted.
    #[arg(value_name = "IMAGE|MOUNTPOINT")]
    image: PathBuf,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Draw the surface into this file. PNG if it ends so, else SVG.
    #[arg(long, value_name = "FILE.svg|png")]
    figure: Option<PathBuf>,
}

impl Df {
    pub fn execute(self) -> anyhow::Result<Done> {
        if is_drive_image(&self.image) {
            if self.figure.is_some() {
                return Err(Error::Usage("--figure draws the surface of SMRfs: leave it out".into()).into());
            }
            return drive_image::df(&self.image, self.json);
        }
        let (about, survey) = if self.image.is_dir() { self.of_mount()? } else { self.of_image()? };
        if let Some(path) = &self.figure {
            figures::write(&surface::figure(&survey), path)?;
        }
        match self.json {
            true => print_json(&record(about, &survey))?,
            false => print(surface::text(&self.image.display().to_string(), &survey))?,
        }
        Ok(Done::All)
    }

    fn of_image(&self) -> anyhow::Result<(Value, Survey)> {
        let volume = Volume::open(&self.image, &Open { read_only: true, ..self.volume.open() })?;
        let survey = survey(&volume, CELLS)?;
        let about = json!({
            "image": path_value(&self.image),
            "meta": path_value(volume.meta()),
            "uuid": volume.superblock().uuid.to_string(),
            "was_clean": volume.was_clean(),
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
        let mut answer = client.ask(ControlCommand::Survey { cells: CELLS })?;
        let survey = serde_json::from_value(answer["survey"].take())?;
        let about = json!({"image": answer["image"], "meta": answer["meta"], "mount_point": path_value(&self.image)});
        Ok((about, survey))
    }
}

/// Record that images and mounts share, behind what is their own.
fn record(about: Value, survey: &Survey) -> Value {
    let bytes = |granules: u64| granules * survey.shape.granule_bytes;
    let counts = &survey.counts;
    let rest = json!({
        "model": survey.shape.model,
        "granule_bytes": survey.shape.granule_bytes,
        "raw_bytes": bytes(survey.shape.granules),
        "usable_bytes": bytes(survey.usable),
        "free_bytes": bytes(surface::free(survey)),
        "live_bytes": bytes(survey.live),
        "promised_bytes": bytes(survey.promised),
        "readable_bytes": bytes(counts.readable),
        "not_writable_bytes": bytes(counts.not_writable),
        "write_once_bytes": bytes(counts.write_once),
        "writable_bytes": bytes(counts.writable),
        "garbage_bytes": bytes(counts.garbage),
        "files": survey.files,
        "damaged_maps": survey.damaged_maps,
        "extents": survey.extents,
        "nodes": survey.nodes,
        "free_nodes": survey.free_nodes,
        "bands": survey.bands,
        "surface": survey.surface,
    });
    joined(about, rest)
}
