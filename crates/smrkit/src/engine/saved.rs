//! State of a drive or an array at the end of a run, to begin another with: what `--save-state` writes and `--from-state` reads.
//!
//! The file describes its system, because a layer's state means nothing to another system. A checksum detects damage. It holds none of the
//! host's data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::system::{DriveRun, SystemRun};
use crate::VERSION;
use crate::device::Device;
use crate::device::level::Level;
use crate::device::spec::{DriveSpec, SystemSpec};
use crate::error::{Error, Fault};
use crate::stats::outcome::RunRecord;
use crate::units::Nanos;

/// Beginning of a file.
const MAGIC: &[u8] = b"smrkit state\n";
/// Bytes of the checksum at its end.
const CHECKSUM: usize = 32;

/// Appends the SHA-256 of `bytes`. State is restored without further checks, so damage has to be detected first.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = Sha256::digest(&bytes);
    bytes.extend(checksum);
    bytes
}

/// The bytes that were sealed; `None` if they are damaged or cut short.
pub fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
    (Sha256::digest(bytes)[..] == checksum[..]).then_some(bytes)
}

/// State of a drive or an array on which nothing is under way.
#[derive(Clone)]
pub struct SavedState {
    path: PathBuf,
    /// True if it was read from a file, and not taken by this process.
    is_read: bool,
    contents: Contents,
    /// The contents of its file.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Contents {
    /// The drive or the array with every drive, layer, size and parameter spelled out.
    system: String,
    used_sectors: Option<Vec<u64>>,
    /// The text of each drive file, by its path.
    drive_files: BTreeMap<String, String>,
    /// For each drive a hash of the contents of its file, which may have been renamed.
    drives: Vec<[u8; 32]>,
    /// When it was taken.
    now: Nanos,
    #[serde(serialize_with = "as_bytes")]
    state: Vec<u8>,
}

/// All at once, where serde writes a list byte by byte.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl SavedState {
    /// The state of `device`, which was built as `system` says, at `now`. Nothing is under way.
    pub fn take(system: &SystemRun, device: &Device, now: Nanos) -> Result<SavedState, Error> {
        SavedState::of(system, device.state(), now)
    }

    /// A saved state from the [`Device::state`] at `now` of a device that was built as `system` says.
    pub fn of(system: &SystemRun, state: Vec<u8>, now: Nanos) -> Result<SavedState, Error> {
        let contents = Contents { now, state, ..describe(system)? };
        let mut bytes = MAGIC.to_vec();
        crate::state::write(&(VERSION, &contents), &mut bytes);
        Ok(SavedState { path: PathBuf::from("-"), is_read: false, contents, bytes: sealed(bytes) })
    }

    /// The SHA-256 at the end of its file.
    pub fn hash(&self) -> String {
        self.bytes[self.bytes.len() - CHECKSUM..].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A state from a file's contents; `path` is for messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<SavedState, Error> {
        let refused = |problem: &str| Err(Error::input(path, problem.to_string()));
        if !bytes.starts_with(MAGIC) {
            return refused("no saved state: give a file that {save_state} has written");
        }
        let Some(payload) = unsealed(bytes).filter(|payload| payload.len() > MAGIC.len()) else {
            return refused("the saved state is damaged or cut short (its checksum is wrong): save it again");
        };
        let unreadable = || Error::input(path, "the saved state can't be read: save it again");
        // Read by itself, since the contents of another version can have another form.
        let (version, rest) = postcard::take_from_bytes::<String>(&payload[MAGIC.len()..]).map_err(|_| unreadable())?;
        if version != VERSION {
            return refused(&format!("the state was saved by smrkit {version}, and this is {VERSION}: save it again"));
        }
        let contents = postcard::from_bytes(rest).map_err(|_| unreadable())?;
        Ok(SavedState { path: path.into(), is_read: true, contents, bytes: bytes.into() })
    }

    /// Record from which its system can be built again.
    pub fn record(&self) -> RunRecord {
        let Contents { system, used_sectors, drive_files, .. } = self.contents.clone();
        RunRecord { system, used_sectors, drive_files, ..RunRecord::default() }
    }

    /// Gives `device`, which was built as `system` says, this state; returns the time. Errors: the state is of another system.
    pub fn restore(&self, system: &SystemRun, device: &mut Device) -> Result<Nanos, Error> {
        if let Some(difference) = self.difference(&describe(system)?)? {
            let message =
                format!("the saved state {difference}: run it on the system that it was saved of, or save another");
            return Err(Error::input(&self.path, message));
        }
        let refused = |fault: Box<Fault>| Error::input(&self.path, fault.to_string());
        device.restore(&self.contents.state).map_err(refused)?;
        // Only a state from a file may be damaged, and to check all of a full disk takes longer than many a run.
        if self.is_read {
            device.check().map_err(refused)?;
        }
        Ok(self.contents.now)
    }

    /// The first difference between its system and that of a `run`.
    fn difference(&self, run: &Contents) -> Result<Option<String>, Error> {
        let (saved, asked) = (SystemSpec::parse(&self.contents.system)?, SystemSpec::parse(&run.system)?);
        let same_array = shape(&saved) == shape(&asked) && self.contents.used_sectors == run.used_sectors;
        if !same_array {
            return Ok(Some(format!("is of {}, and the run is of {}", named(&saved), named(&asked))));
        }
        for (number, (saved, asked)) in saved.drives().iter().zip(asked.drives()).enumerate() {
            let same_file = self.contents.drives.get(number) == run.drives.get(number);
            let difference = drive_difference(saved, asked, same_file);
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }
}

/// Description of a system, without its state. Each `auto` is replaced by its value.
fn describe(system: &SystemRun) -> Result<Contents, Error> {
    let settled = system.with_drives(&|run: &DriveRun| {
        let parameters = (run.layer.settled)(&run.drive, &run.parameters)?;
        Ok::<_, Error>(DriveRun { parameters, ..run.clone() })
    })?;
    let drives = settled.drives().iter();
    Ok(Contents {
        system: settled.spec().to_string(),
        used_sectors: system.array().and_then(|array| array.used_sectors.clone()),
        drive_files: system.drives().iter().filter_map(DriveRun::file).collect(),
        drives: drives.map(|run| Sha256::digest(format!("{:?}", run.drive.settings)).into()).collect(),
        now: Nanos::ZERO,
        state: Vec::new(),
    })
}

/// The first difference between the saved drive and the requested one, as part of a sentence.
fn drive_difference(saved: &DriveSpec, asked: &DriveSpec, same_file: bool) -> Option<String> {
    let name = |spec: &DriveSpec| spec.drive.clone().unwrap_or_default();
    let layer = |spec: &DriveSpec| spec.layer.clone().unwrap_or_default();
    let (saved_name, asked_name) = (name(saved), name(asked));
    if !same_file && saved_name == asked_name {
        return Some(format!("is of {saved_name} as its drive file was then"));
    }
    if !same_file {
        return Some(format!("is of the drive {saved_name}, and the run is of {asked_name}"));
    }
    if let (Some(was), Some(is)) = (saved.capacity_sectors, asked.capacity_sectors)
        && was != is
    {
        return Some(format!("is of a drive of {was} sectors, and the run's has {is}"));
    }
    if layer(saved) != layer(asked) {
        return Some(format!("is of the layer {}, and the run is of {}", layer(saved), layer(asked)));
    }
    let (was, is) = saved.set.iter().zip(&asked.set).find(|(was, is)| was != is)?;
    Some(format!("is of {}.{}={}, and the run has {}={}", layer(saved), was.0, was.1, is.0, is.1))
}

/// The properties of an array, besides its drives, that have to be the same; `None` for a single drive.
fn shape(spec: &SystemSpec) -> Option<(Level, u64, usize)> {
    match spec {
        SystemSpec::Drive(_) => None,
        SystemSpec::Array(array) => Some((array.level, array.chunk_sectors, array.members.len())),
    }
}

fn named(spec: &SystemSpec) -> String {
    match spec {
        SystemSpec::Drive(_) => "a drive".into(),
        SystemSpec::Array(array) => format!("an array ({} of {})", array.level, array.members.len()),
    }
}
