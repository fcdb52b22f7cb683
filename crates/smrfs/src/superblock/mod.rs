//! The superblock: whose disk it is, what it is like, and where its metadata is.
//!
//! The format is in docs/reference/smrfs-format.md. It is one granule; where its copies lie is in `area.rs`.

pub mod area;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::device::{Model, Shape};
use crate::map::{checksum, sealed};

/// First bytes of every superblock.
const MAGIC: &[u8; 8] = b"SMRfs\r\n\0";
/// The version of the format.
const VERSION: u32 = 2;
/// The fields before the path, with magic and version.
const HEAD_BYTES: usize = 146;

/// A universally unique identifier. By hand: it is made of random bytes that are drawn elsewhere, and shown; that takes no crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random one (version 4) from random bytes.
    pub fn random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The key of a volume, with which its maps are sealed. Whoever knows it can forge them: it is never shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeKey(pub [u8; 16]);

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey(..)")
    }
}

impl FromStr for Uuid {
    type Err = SuperblockError;

    fn from_str(text: &str) -> Result<Uuid, SuperblockError> {
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b'-').collect();
        let mut bytes = [0; 16];
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(SuperblockError::Malformed("a UUID"));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| SuperblockError::Malformed("a UUID"))?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| SuperblockError::Malformed("a UUID"))?;
        }
        Ok(Uuid(bytes))
    }
}

/// Why bytes are no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// The bytes are something else.
    #[error("no SMRfs file system is on it: make one with smrkit mkfs, or check the path")]
    Foreign,
    /// A version that this program does not know.
    #[error("its format is version {}, and this smrkit knows version {VERSION}: {}", .0, version_remedy(.0))]
    Version(u32),
    /// The superblock is damaged.
    #[error("its superblock is damaged: restore the image from a copy")]
    Checksum,
    /// The superblock names another size than the disk's.
    #[error("its resizing was interrupted: run smrkit resize again")]
    Resized,
    /// The checksum is right, but the fields make no sense.
    #[error("its superblock makes no sense ({0}): restore the image from a copy, or use the smrkit that made it")]
    Malformed(&'static str),
}

/// Remedy for a superblock of that version.
fn version_remedy(version: &u32) -> &'static str {
    match *version > VERSION {
        true => "use a newer smrkit",
        false => "copy the files with the smrkit that made it to a new volume (smrkit mkfs)",
    }
}

/// The superblock of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The file system.
    pub uuid: Uuid,
    /// Its metadata root.
    pub metadata: Uuid,
    /// The whole disk.
    pub shape: Shape,
    /// Counts the superblocks written; the highest counts.
    pub sequence: u64,
    /// Counts the mounts that could write.
    pub mounts: u64,
    /// True if the last mount ended in good order.
    pub is_clean: bool,
    /// The key of its maps' seals.
    pub key: VolumeKey,
    /// Path of the directory that holds the metadata.
    pub path: Vec<u8>,
}

impl Superblock {
    /// Its bytes, a whole granule. A path that is too long is an error.
    pub fn encode(&self) -> Result<Vec<u8>, SuperblockError> {
        if self.path.len() > self.path_bytes_max() {
            return Err(SuperblockError::Malformed("the path of the metadata directory is too long"));
        }
        let shape = &self.shape;
        let mut out = Vec::with_capacity(shape.granule_bytes as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.uuid.0);
        out.extend_from_slice(&self.metadata.0);
        out.push(u8::from(shape.model == Model::Caveat));
        out.push(u8::from(self.is_clean));
        let counts = [self.sequence, self.mounts];
        counts.iter().chain(&shape.words()).for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&(self.path.len() as u32).to_le_bytes());
        debug_assert_eq!(out.len(), HEAD_BYTES - 16);
        out.extend_from_slice(&self.key.0);
        out.extend_from_slice(&self.path);
        out.resize(shape.granule_bytes as usize - 4, 0);
        Ok(sealed(out))
    }

    fn path_bytes_max(&self) -> usize {
        (self.shape.granule_bytes as usize).saturating_sub(HEAD_BYTES + 4)
    }

    /// The superblock in a granule. Errors: what else the bytes are.
    pub fn decode(granule: &[u8]) -> Result<Superblock, SuperblockError> {
        let mut reader = SuperblockReader(granule);
        if reader.take::<8>().ok() != Some(*MAGIC) {
            return Err(SuperblockError::Foreign);
        }
        // Of every version: a flipped bit in the version itself is damage, and no other program helps.
        let (body, sum) = granule.split_last_chunk::<4>().ok_or(SuperblockError::Checksum)?;
        if checksum(body) != u32::from_le_bytes(*sum) {
            return Err(SuperblockError::Checksum);
        }
        let version = u32::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        let (uuid, metadata) = (Uuid(reader.take()?), Uuid(reader.take()?));
        let model = match reader.take::<1>()? {
            [0] => Model::StrictAppend,
            [1] => Model::Caveat,
            _ => return Err(SuperblockError::Malformed("its model")),
        };
        let is_clean = reader.take::<1>()? == [1];
        let (sequence, mounts) = (reader.count()?, reader.count()?);
        let mut words = [0; 8];
        for word in &mut words {
            *word = reader.count()?;
        }
        let shape = Shape::from_words(model, words);
        let path_bytes = u32::from_le_bytes(reader.take()?) as usize;
        let key = VolumeKey(reader.take()?);
        let path = reader.0.get(..path_bytes).ok_or(SuperblockError::Malformed("its path"))?.to_vec();
        if shape.granule_bytes != granule.len() as u64 || shape.check().is_err() {
            return Err(SuperblockError::Malformed("its shape"));
        }
        let superblock = Superblock { uuid, metadata, shape, sequence, mounts, is_clean, key, path };
        match superblock.path.len() <= superblock.path_bytes_max() && !superblock.path.contains(&0) {
            true => Ok(superblock),
            false => Err(SuperblockError::Malformed("its path")),
        }
    }
}

struct SuperblockReader<'a>(&'a [u8]);

impl SuperblockReader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SuperblockError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SuperblockError::Checksum)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn count(&mut self) -> Result<u64, SuperblockError> {
        self.take().map(u64::from_le_bytes)
    }
}
