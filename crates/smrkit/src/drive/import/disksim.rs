//! DiskSim 4.0's descriptions: `.model` (layout, mechanics), `.seek`, `.diskspecs` (buffer, overheads), `.parv` (buses).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::{Files, Read, Toml};
use super::params::{Block, Fields, bad};
use super::{electronics, layout, seek};
use crate::error::Error;

/// A drive file made from a description.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The drive's name: that of its description, without ending.
    pub name: String,
    /// The drive file.
    pub text: String,
    /// The file that it was made from.
    pub from: PathBuf,
}

/// The drives that the files of a folder describe.
pub(super) fn import(folder: &Path, read: Read) -> Result<Vec<Imported>, Error> {
    let listed = std::fs::read_dir(folder).map_err(|error| Error::reading(folder, error))?;
    let mut paths: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let with_ending = |ending: &str| -> Vec<&PathBuf> {
        paths.iter().filter(|path| path.extension().is_some_and(|own| own == ending)).collect()
    };
    let mut used = BTreeSet::new();
    let mut drives = Vec::new();
    for ending in ["parv", "diskspecs", "model"] {
        for path in with_ending(ending) {
            if !used.contains(path.as_path()) {
                drives.extend(import_noting(path, read, &mut used)?);
            }
        }
    }
    if drives.is_empty() {
        return Err(Error::input(
            folder,
            "no .parv, .diskspecs or .model file in this folder: give the folder of a description",
        ));
    }
    Ok(drives)
}

/// The drive of one description.
pub(super) fn import_file(path: &Path, read: Read) -> Result<Imported, Error> {
    import_noting(path, read, &mut BTreeSet::new())?
        .ok_or_else(|| Error::input(path, "it sets up no disk of the kind disksim_disk: give the file of one"))
}

/// The drive of one description; `None` where a set-up has no disk but another kind of device.
fn import_noting(path: &Path, read: Read, used: &mut BTreeSet<PathBuf>) -> Result<Option<Imported>, Error> {
    let mut files = Files::new(read, used);
    let blocks = files.with_sources(path)?;
    let specs = blocks.iter().find(|block| block.of == "disksim_disk").map(Block::fields);
    let model = match (&specs, blocks.iter().find(|block| block.of == "dm_disk")) {
        (Some(specs), _) => files.block(specs, "Model", "dm_disk")?,
        (None, Some(model)) => model.clone(),
        (None, None) if blocks.iter().any(is_other_device) => return Ok(None),
        (None, None) => {
            let message = "no block disksim_disk or dm_disk, and no source line that names a file with one: add it";
            return Err(bad(path, 1, message));
        }
    };
    let model = model.fields();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().to_string();
    let mut out = Toml::default();
    out.line(&format!(
        "# {name}: made by smrkit drives import disksim from {}.",
        path.display().to_string().escape_debug()
    ));
    out.line(&format!("name = {:?}", name));
    out.line(&format!("summary = {:?}", format!("{name}, as its DiskSim description says")));
    layout::geometry(&mut out, &mut files, &model)?;
    mechanics(&mut out, &mut files, &model, specs.as_ref())?;
    if let Some(specs) = &specs {
        electronics::electronics(&mut out, specs, &blocks)?;
    }
    Ok(Some(Imported { name, text: out.into(), from: path.into() }))
}

/// True for a device that is simulated otherwise than by a disk's mechanics.
fn is_other_device(block: &Block) -> bool {
    ["disksim_simpledisk", "memsmodel_mems", "ssdmodel_ssd"].contains(&block.of.as_str())
}

/// Writes rotation, seeks and switches.
fn mechanics(out: &mut Toml, files: &mut Files, model: &Fields, specs: Option<&Fields>) -> Result<(), Error> {
    let mechanics = files.block(model, "Mechanical Model", "dm_mech_g1")?;
    let mechanics = mechanics.fields();
    if let Some(value) = mechanics.get("Access time type")
        && mechanics.text("Access time type")? != "trackSwitchPlusRotation"
    {
        let message = "Access time type: only trackSwitchPlusRotation, seeks and rotation, can be simulated: give it";
        return Err(bad(mechanics.path, value.line, message));
    }
    out.line("\n[mechanical]");
    let rpm = mechanics.number("Rotation speed (in rpms)")?;
    out.value("rpm", rpm.value, &rpm.source);
    seek::seek(out, files, &mechanics, model)?;
    let switch = mechanics.number("Head switch time")?;
    out.value("switch_ms", switch.value, &switch.source);
    match mechanics.optional("Add. write settling delay")? {
        Some(settle) if settle.value > 0.0 => out.value("write_settle_ms", settle.value, &settle.source),
        Some(settle) if settle.value < 0.0 => {
            out.line(&format!("# left out: a negative write settle of {} ms ({})", settle.value, settle.source));
        }
        _ => {}
    }
    let overhead = specs.map(|specs| specs.optional("Read miss over. after read")).transpose()?.flatten();
    match overhead {
        Some(found) => out.value("overhead_ms", found.value, &found.source),
        None => out.value("overhead_ms", 0, "assumption: the description has no overheads"),
    }
    Ok(())
}
