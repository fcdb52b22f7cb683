//! Commands on volumes of SMRfs, and their common options: `smrkit backup` and `restore`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use smrkit_live::backup::{self, Copy, VolumePaths};
use smrkit_live::mount::control::path_value;
use smrkit_live::volume::Open;

use crate::interrupt::Interrupt;
use crate::output::print_as;

/// Place of the metadata directory, and the users who may get at it.
#[derive(Args, Clone, Debug, Default)]
pub struct VolumeOptions {
    /// The metadata directory. Where the image says, if it was not moved.
    #[arg(long, value_name = "DIR")]
    pub meta: Option<PathBuf>,
    /// Continue although other users can access the files, or own them.
    #[arg(long)]
    pub trust_open_metadata: bool,
}

impl VolumeOptions {
    /// Options of opening it to be changed.
    pub fn open(&self) -> Open {
        Open { meta: self.meta.clone(), trust_open_metadata: self.trust_open_metadata, ..Open::default() }
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit backup /mnt/smr monday
  smrkit backup disk.img monday

Programs go on while a mount is copied. Until its metadata is, fsync and new names wait; until its data is, what is written over \
keeps its room. Where a program needs that room, the copy is begun again, and programs wait for it to end.
The copy can be mounted: smrkit mount monday/disk.img /mnt/old")]
pub struct Backup {
    /// The mount point, or an image or a zoned device that is not mounted.
    #[arg(value_name = "MOUNTPOINT|IMAGE")]
    source: PathBuf,
    /// The folder to make for disk.img and disk.meta, on a file system with extended attributes.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub fn execute(self) -> anyhow::Result<()> {
        let made = match self.source.is_dir() {
            true => backup::of_mount(&self.source, &self.folder, &until_interrupted())?,
            false => backup::of_volume(&self.source, &self.volume.open(), &self.folder, &until_interrupted())?,
        };
        print_copy(made, self.json)
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit restore monday disk.img --meta disk.meta
  smrkit restore monday /dev/nvme0n1 --meta disk.meta

A zoned device needs zones as long as the bands of the backup, and at least as many.")]
pub struct Restore {
    /// The folder that smrkit backup made; it stays as it is.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The image to make, or a zoned device.
    #[arg(value_name = "IMAGE|DEVICE")]
    image: PathBuf,
    /// The metadata directory. A new or an empty one.
    #[arg(long, value_name = "DIR")]
    meta: PathBuf,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
    /// Continue although other users can access the files, or own them.
    #[arg(long)]
    trust_open_metadata: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub fn execute(self) -> anyhow::Result<()> {
        let to = VolumePaths { image: self.image, meta: self.meta };
        let wanted = backup::RestoreOptions { to, force: self.force, trust_open_metadata: self.trust_open_metadata };
        print_copy(backup::restore(&self.folder, &wanted, &until_interrupted())?, self.json)
    }
}

/// Returns a function that returns false after a signal; the unfinished copy is then removed. A second signal does not wait for that.
fn until_interrupted() -> impl Fn() -> bool + Sync {
    let interrupt = Interrupt::watch();
    interrupt.writing();
    move || !interrupt.is_set()
}

/// Prints where the copy is, and warns of damage that it copied.
fn print_copy(made: Copy, as_json: bool) -> anyhow::Result<()> {
    let Copy { at: VolumePaths { image, meta }, damage } = made;
    damage.maps.iter().for_each(|file| eprintln!("smrkit: warning: the copy has a damaged map as it was: {file}"));
    damage.data.iter().for_each(|file| eprintln!("smrkit: warning: the copy has damaged data as it was: {file}"));
    let record = || {
        let (image, meta) = (path_value(&image), path_value(&meta));
        json!({"image": image, "meta": meta, "damaged_maps": damage.maps, "damaged_data": damage.data})
    };
    let is_whole = damage.maps.is_empty() && damage.data.is_empty();
    let state = if is_whole { "that is whole" } else { "that is damaged as it was" };
    print_as(as_json, record, || format!("{} and {} are a volume {state}\n", image.display(), meta.display()))
}
