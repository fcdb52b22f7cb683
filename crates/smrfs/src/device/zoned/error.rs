//! Why a zoned device can't be used.

use smrkit::error::Error;

use crate::error::DeviceError;

/// An error of formatting or opening a zoned device.
#[derive(Debug, thiserror::Error)]
pub enum ZonedError {
    /// The zones of the device do not fit.
    #[error(transparent)]
    Unfit(#[from] Error),
    /// Its first zone holds something else.
    #[error("no SMRfs file system is on it: make one with smrkit mkfs, or check the path")]
    Foreign,
    /// A version of the table of cursors that this program does not know.
    #[error("its table of cursors has version {0}: use a newer smrkit")]
    Version(u32),
    /// Its table of cursors is damaged, or was made for other zones.
    #[error("its table of cursors is damaged or of other zones: make the file system anew (smrkit mkfs, by force)")]
    OtherZones,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
