//! Reasons why bytes are no map record.

use crate::error::FsError;

/// The newest version of a record.
pub(super) const VERSION: u8 = 2;

/// Why bytes are no map record, or no part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The record ends too early.
    #[error("it ends too early")]
    Short,
    /// There is something behind its end.
    #[error("there is something behind its end")]
    Long,
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Checksum,
    /// A version that this program does not know.
    #[error("it is of version {0}, and this program knows {VERSION}: use a newer one")]
    Version(u8),
    /// A kind that does not exist, or is not the one that belongs here.
    #[error("it is of an unknown kind ({0})")]
    Kind(u8),
    /// A number outside its range.
    #[error("a number in it is out of range")]
    Range,
    /// A part in the place of another.
    #[error("part {found} is in the place of part {wanted}")]
    WrongPart {
        /// The part that the record names.
        wanted: u64,
        /// The part's own number.
        found: u64,
    },
    /// The extents are not as many as the record says.
    #[error("its extents have {found} granules, and it says {said}")]
    Granules {
        /// The record's number.
        said: u64,
        /// The number in its extents.
        found: u64,
    },
}

impl From<MapError> for FsError {
    fn from(error: MapError) -> FsError {
        FsError::Corrupt(format!("a map record is damaged: {error}; run smrkit fsck"))
    }
}
