//! From keys as they were written to an array: defaults, what members inherit, and what can't be.

use super::{ArraySpec, DEPTH_MAX, DRIVES_MAX, DriveSpec, MemberSpec};
use crate::device::level::{Copies, Level, WritePolicy};
use crate::error::Error;
use crate::keys;
use crate::schema::{Count, Keyed, Maybe, Sectors, Size, ValueKind, Values, Word};
use crate::units::SECTOR_BYTES;

/// The kind of `write`.
pub(super) const WRITE: Word<WritePolicy> = Word(WritePolicy::NAMES);

/// The kind of `chunk`.
pub(super) const CHUNK: Sectors = Sectors(1, u64::MAX / SECTOR_BYTES);

keys! {
    /// The values of an array.
    pub(super) struct ArrayKeys {
        /// Number of members; by default as many as are listed. A single one is repeated.
        disks: Option<u64> = Maybe(Count(1, u64::MAX)), "";
        /// Length of a chunk.
        chunk: u64 = CHUNK, "512Ki";
        /// Copies of each chunk (raid10); 2 by default.
        copies: Option<u64> = Maybe(Count(1, u64::MAX)), "";
        /// Source of the parity of a stripe written in part: its old data and parity, or the data not written.
        write: WritePolicy = WRITE, "auto";
    }
}

keys! {
    /// The values of a drive in an array.
    pub(super) struct DriveKeys {
        /// The drive's size, rounded down to whole sectors.
        capacity: Option<u64> = Maybe(Size(SECTOR_BYTES, u64::MAX)), "";
    }
}

keys! {
    /// The values of a member in a file.
    pub(super) struct MemberKeys {
        /// Number of members like this one.
        pub count: u64 = Count(1, u64::MAX), "1";
    }
}

/// An array as it was written.
#[derive(Clone, Debug)]
pub(super) struct RawArray {
    pub level: String,
    /// The values of [`ArrayKeys`].
    pub values: Values,
    pub drive: RawDrive,
    pub members: Vec<RawMember>,
}

impl RawArray {
    /// An array of which nothing but the level is given.
    pub fn new(level: impl Into<String>) -> RawArray {
        let values = Values::new(ArrayKeys::keys());
        RawArray { level: level.into(), values, drive: RawDrive::default(), members: Vec::new() }
    }
}

/// A drive, or an array's defaults for its drives, as it was written.
#[derive(Clone, Debug)]
pub(super) struct RawDrive {
    pub layer: Option<String>,
    pub drive: Option<String>,
    /// The values of [`DriveKeys`].
    pub values: Values,
    pub set: Option<Vec<(String, String)>>,
}

impl Default for RawDrive {
    fn default() -> RawDrive {
        RawDrive { layer: None, drive: None, values: Values::new(DriveKeys::keys()), set: None }
    }
}

/// A member as it was written.
#[derive(Clone, Debug)]
pub(super) struct RawMember {
    pub count: u64,
    pub drive: RawDrive,
    pub array: Option<Box<RawArray>>,
}

fn usage<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Usage(message.into()))
}

/// The array, whose drives take from `inherited` what they are not given.
pub(super) fn array(raw: &RawArray, inherited: &DriveSpec, depth: usize) -> Result<ArraySpec, Error> {
    if depth > DEPTH_MAX {
        return usage(format!("arrays nested more than {DEPTH_MAX} deep: nest fewer"));
    }
    let keys = ArrayKeys::read(&raw.values)?;
    let name = Level::name_as_written(raw.level.trim())?;
    let level = level(raw, &keys)?;
    if keys.write != WritePolicy::Auto && level.parities() == 0 {
        let write = WRITE.write(&keys.write).text;
        return usage(format!("{name} has no parity, so that write={write} says nothing: leave it out"));
    }
    let members = members(raw, keys.disks, name, &drive(&raw.drive, inherited)?, depth)?;
    level.check_disks(name, members.len())?;
    Ok(ArraySpec { level, name, chunk_sectors: keys.chunk, write: keys.write, members })
}

fn level(raw: &RawArray, keys: &ArrayKeys) -> Result<Level, Error> {
    let level = Level::named(raw.level.trim())?;
    let Some(copies) = keys.copies else { return Ok(level) };
    match level.spec().copies {
        Copies::Chosen => Ok(level.with_copies(u32::try_from(copies).unwrap_or(u32::MAX))),
        Copies::Every => usage(format!("{level} keeps a copy on every disk: leave out copies, or use raid10")),
        Copies::One => usage(format!("{level} keeps no copies: leave out copies, or use raid10")),
    }
}

fn members(
    raw: &RawArray,
    disks: Option<u64>,
    name: &str,
    own: &DriveSpec,
    depth: usize,
) -> Result<Vec<MemberSpec>, Error> {
    // Any number too large for an array is the largest.
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let disks = disks.map(size);
    let too_many = || {
        Error::Impossible(format!(
            "{name} of more than {DRIVES_MAX} drives, nested ones included: lower disks or count"
        ))
    };
    let mut groups: Vec<(usize, MemberSpec)> = Vec::new();
    for member in &raw.members {
        let count = size(member.count);
        let drive = drive(&member.drive, own)?;
        let member = match &member.array {
            Some(nested) => MemberSpec::Array(Box::new(array(nested, &drive, depth + 1)?)),
            None => MemberSpec::Drive(drive),
        };
        groups.push((count, member));
    }
    match (disks, groups.as_mut_slice()) {
        (None, []) => return usage(format!("{name} of how many disks? Write disks=N, or its members")),
        (Some(disks), []) => groups.push((disks, MemberSpec::Drive(own.clone()))),
        (Some(disks), [(count @ 1, _)]) => *count = disks,
        (Some(disks), groups) => {
            let given = groups.iter().fold(0usize, |sum, (count, _)| sum.saturating_add(*count));
            if given != disks {
                return usage(format!(
                    "disks={disks}, but {given} members are given: leave out disks, or list {disks}"
                ));
            }
        }
        (None, _) => {}
    }
    let drives = groups.iter().fold(0usize, |sum, (n, member)| sum.saturating_add(n.saturating_mul(member.drives())));
    if drives > DRIVES_MAX {
        return Err(too_many());
    }
    Ok(groups.into_iter().flat_map(|(count, member)| std::iter::repeat_n(member, count)).collect())
}

/// A drive that takes from `inherited` what it is not given. Whoever names a layer names its parameters too.
fn drive(raw: &RawDrive, inherited: &DriveSpec) -> Result<DriveSpec, Error> {
    let capacity = DriveKeys::read(&raw.values)?.capacity.map(|bytes| bytes / SECTOR_BYTES);
    let set = match (&raw.set, &raw.layer) {
        (Some(set), _) => set.clone(),
        (None, Some(_)) => Vec::new(),
        (None, None) => inherited.set.clone(),
    };
    let or = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
    Ok(DriveSpec {
        layer: or(&raw.layer, &inherited.layer),
        drive: or(&raw.drive, &inherited.drive),
        capacity_sectors: capacity.or(inherited.capacity_sectors),
        set,
    })
}
