//! `smrkit mkfs`: makes a file system, an image and its metadata directory.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde_json::{Value, json};
use smrfs::device::Model;
use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit::settings::SettingChoice;
use smrkit_live::image::ImageTarget;
use smrkit_live::mount::control::path_value;
use smrkit_live::volume::{CreatedVolume, Layout, MkfsOptions, mkfs};
use smrkit_options::value::one_of;

use crate::output::print_as;

#[derive(Args)]
#[command(after_help = "\
Examples:
  smrkit mkfs --size 2GiB disk.img
  smrkit mkfs --model caveat --size 2GiB --did 3MiB --dpid 1MiB disk.img --meta disk.meta --force
  smrkit mkfs /dev/nvme0n1 --meta disk.meta

The metadata directory must be on a file system with extended attributes of users, such as ext4, xfs or btrfs. It is made \
if it does not exist. What exists is left alone without --force.")]
pub struct Mkfs {
    /// The image file to make, or a block device; on a zoned one, the zones are the bands.
    #[arg(value_name = "IMAGE|DEVICE")]
    image: PathBuf,
    /// The metadata directory. A new or an empty one, on a conventional file system [default: the name of the image,
    /// ending in .meta].
    #[arg(long, value_name = "DIR")]
    meta: Option<PathBuf>,
    /// The model of the host-managed disk.
    #[arg(long, value_parser = one_of(&MODELS), default_value = "strict-append")]
    model: Model,
    /// Size of the image [default: the size of the device or file].
    #[arg(long, value_parser = Bytes::from_str)]
    size: Option<Bytes>,
    /// Drive isolation distance: a write destroys data up to this far behind it, at higher addresses [default: 1MiB;
    /// 1/1024 of an image under 1 GiB].
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str)]
    did: Option<Bytes>,
    /// Drive prefix isolation distance: a second write of the same place destroys data up to this far before it
    /// [default: the value of --did].
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str)]
    dpid: Option<Bytes>,
    /// Size of a strict-append disk's bands. The gap behind each is not counted [default: 32MiB; less on a small image].
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str)]
    band: Option<Bytes>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The models by their names.
pub const MODELS: [SettingChoice<Model>; 2] = [
    SettingChoice {
        value: Model::StrictAppend,
        name: "strict-append",
        meaning: "Bands, each written from its start on",
    },
    SettingChoice {
        value: Model::Caveat,
        name: "caveat",
        meaning: "Caveat-Scriptor: write anywhere, at the host's own risk",
    },
];

impl Mkfs {
    pub fn execute(self) -> anyhow::Result<()> {
        let bytes = |size: Option<Bytes>| size.map(|size| size.0);
        let layout = Layout {
            model: self.model,
            size_bytes: self.size.map_or(0, |size| size.0),
            did_bytes: bytes(self.did),
            dpid_bytes: bytes(self.dpid),
            band_bytes: bytes(self.band),
        };
        let made = mkfs(&MkfsOptions { image: self.image.clone(), meta: self.meta()?, layout, force: self.force })?;
        if let Some(free) = made.host_free_bytes.map(Bytes) {
            let (image, shape) = (self.image.display(), &made.superblock.shape);
            let whole = Bytes(shape.granules * shape.granule_bytes);
            eprintln!(
                "smrkit: {image} may grow to {whole}, and its file system has {free} free: choose a smaller --size, or another place"
            );
        }
        print_as(self.json, || self.record(&made), || self.text(&made))
    }

    /// The metadata directory; by default next to the image, where that is a file.
    fn meta(&self) -> Result<PathBuf, Error> {
        match &self.meta {
            Some(meta) => Ok(meta.clone()),
            None if matches!(ImageTarget::for_path(&self.image), Ok(ImageTarget::Device(_))) => {
                Err(Error::Usage("the metadata of a device needs a directory: name it with --meta DIR".to_string()))
            }
            None => Ok(self.image.with_extension("meta")),
        }
    }

    fn record(&self, made: &CreatedVolume) -> Value {
        let (shape, probe) = (&made.superblock.shape, &made.probe);
        let granule = shape.granule_bytes;
        json!({
            "image": path_value(&self.image),
            "meta": path_value(&made.meta),
            "uuid": made.superblock.uuid.to_string(),
            "model": shape.model,
            "granule_bytes": granule,
            "raw_bytes": shape.granules * granule,
            "usable_bytes": made.usable * granule,
            "did_bytes": shape.did * granule,
            "dpid_bytes": shape.dpid * granule,
            "zoned": made.zones.is_some(),
            "bands": shape.bands.count,
            "band_bytes": shape.bands.granules * granule,
            "attribute_bytes": probe.attribute_bytes,
            "free_nodes": probe.free_nodes,
            "host_free_bytes": made.host_free_bytes,
        })
    }

    fn text(&self, made: &CreatedVolume) -> String {
        let shape = &made.superblock.shape;
        let size = |granules: u64| Bytes(granules * shape.granule_bytes);
        let mut text = format!("{}: {} for files of {}", self.image.display(), size(made.usable), size(shape.granules));
        let (did, dpid) = (size(shape.did), size(shape.dpid));
        let (count, band) = (shape.bands.count, size(shape.bands.granules));
        text += &match (shape.model, made.zones) {
            (_, Some(zones)) => {
                format!(", strict-append, {count} zones of {band}, {} of them conventional\n", zones.conventional)
            }
            (Model::StrictAppend, None) => {
                format!(", strict-append, {count} bands of {band}, DID {did}, DPID {dpid}\n")
            }
            (Model::Caveat, None) => format!(", caveat, DID {did}, DPID {dpid}\n"),
        };
        text += &format!("UUID {}\n", made.superblock.uuid);
        let (nodes, attributes) = (made.probe.free_nodes, made.probe.attribute_bytes);
        text + &format!(
            "{}: room for {nodes} files; {attributes} bytes for the attributes of each\n",
            made.meta.display()
        )
    }
}
