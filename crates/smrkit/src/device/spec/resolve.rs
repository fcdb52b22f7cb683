//! From keys as they were written to an array: defaults, what members inherit, and what can't be.

use super::{ArraySpec, DEPTH_MAX, DRIVES_MAX, DriveSpec, MemberSpec};
use crate::device::level::{CHUNK_SECTORS, Copies, Level, WritePolicy};
use crate::error::Error;
use crate::quantity::{parse_capacity, parse_count, parse_sectors};

/// An array as it was written.
#[derive(Clone, Debug, Default)]
pub(super) struct RawArray {
    pub level: String,
    pub disks: Option<String>,
    pub chunk: Option<String>,
    pub copies: Option<String>,
    pub write: Option<String>,
    pub drive: RawDrive,
    pub members: Vec<RawMember>,
}

/// A drive, or an array's defaults for its drives, as it was written.
#[derive(Clone, Debug, Default)]
pub(super) struct RawDrive {
    pub layer: Option<String>,
    pub drive: Option<String>,
    pub capacity: Option<String>,
    pub set: Option<Vec<(String, String)>>,
}

/// A member as it was written.
#[derive(Clone, Debug)]
pub(super) struct RawMember {
    pub count: Option<String>,
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
    let level = level(raw)?;
    let name = level.name();
    let chunk_sectors = match &raw.chunk {
        Some(text) => parse_sectors(text).map_err(|e| Error::Usage(format!("chunk: {e}")))?,
        None => CHUNK_SECTORS,
    };
    if chunk_sectors == 0 {
        return usage("chunk=0: give a chunk of 512 bytes or more, such as chunk=512KiB");
    }
    let write = raw.write.as_deref().map_or(Ok(WritePolicy::Auto), WritePolicy::named)?;
    if write != WritePolicy::Auto && level.parities() == 0 {
        return usage(format!("{name} has no parity, so that write={} says nothing: leave it out", write.name()));
    }
    let members = members(raw, name, &drive(&raw.drive, inherited)?, depth)?;
    level.check_disks(members.len())?;
    Ok(ArraySpec { level, chunk_sectors, write, members })
}

fn level(raw: &RawArray) -> Result<Level, Error> {
    let level = Level::named(raw.level.trim())?;
    let Some(text) = &raw.copies else { return Ok(level) };
    match level.spec().copies {
        Copies::Chosen => Ok(level.with_copies(u32::try_from(number("copies", text)?).unwrap_or(u32::MAX))),
        Copies::Every => usage(format!("{level} keeps a copy on every disk: leave out copies, or use raid10")),
        Copies::One => usage(format!("{level} keeps no copies: leave out copies, or use raid10")),
    }
}

fn members(raw: &RawArray, name: &str, own: &DriveSpec, depth: usize) -> Result<Vec<MemberSpec>, Error> {
    let disks = raw.disks.as_deref().map(|text| number("disks", text)).transpose()?;
    let too_many = || {
        Error::Impossible(format!(
            "{name} of more than {DRIVES_MAX} drives, nested ones included: lower disks or count"
        ))
    };
    let mut groups: Vec<(usize, MemberSpec)> = Vec::new();
    for member in &raw.members {
        let count = member.count.as_deref().map_or(Ok(1), |text| number("count", text))?;
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
    let capacity = raw.capacity.as_deref().map(parse_capacity).transpose();
    let capacity = capacity.map_err(|e| Error::Usage(format!("capacity: {e}")))?;
    if capacity == Some(0) {
        return usage("capacity=0: give a drive at least one sector (512 bytes)");
    }
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

/// A number of disks, members or copies. Any too large for an array is the largest.
fn number(key: &str, text: &str) -> Result<usize, Error> {
    match parse_count(text).map_err(|e| Error::Usage(format!("{key}: {e}")))? {
        0 => usage(format!("{key}=0: give 1 or more")),
        n => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
    }
}
