//! Exit codes, and the last message of a command.

use std::io;

use smrkit::error::Error;
use smrkit::message::worded;
use smrkit_live::error::LiveError;
use smrkit_live::mount::MountError;

use crate::remedy::{self, ChildError};

/// End of a command without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// All of it.
    All,
    /// Interrupted; the results so far have been written.
    Interrupted,
    /// Complete, with an exit code that depends on the result.
    Code(u8),
}

impl From<()> for Done {
    /// A command without other ends is done when it returns.
    fn from((): ()) -> Done {
        Done::All
    }
}

/// The exit code of a command's result. A closed pipe of our output is no error.
pub fn code(result: anyhow::Result<Done>) -> u8 {
    let error = match result {
        Ok(Done::All) => return 0,
        Ok(Done::Interrupted) => return 130,
        Ok(Done::Code(code)) => return code,
        Err(error) if is_closed_pipe(&error) => return 0,
        Err(error) => error,
    };
    eprintln!("smrkit: {}", worded(&remedy::chain(&error), &remedy::option));
    number(&error)
}

/// The exit code of an error.
pub fn number(error: &anyhow::Error) -> u8 {
    if let Some(child) = error.downcast_ref::<ChildError>() {
        return child.code;
    }
    match error.downcast_ref::<Error>().map(Error::cause) {
        Some(Error::Usage(_)) => 2,
        Some(Error::Input(_) | Error::NoRoom(_) | Error::Io { writing: false, .. }) => 3,
        Some(Error::Impossible(_)) => 4,
        Some(Error::Fault(_)) => 5,
        None => of_mount(error).or(error.downcast_ref().map(of_live)).unwrap_or(1),
        _ => 1,
    }
}

/// The exit code of an error about a mount, where it is not 1.
fn of_mount(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref()? {
        MountError::PointMissing(_) | MountError::PointNotDirectory(_) | MountError::PointNotEmpty(_) => Some(3),
        MountError::PointInMetadata { .. } => Some(4),
        MountError::Volume(error) => Some(of_live(error)),
        _ => None,
    }
}

/// The exit code of an error about an image or a metadata directory.
fn of_live(error: &LiveError) -> u8 {
    match error {
        LiveError::Impossible(_) | LiveError::NoAttributes(_) | LiveError::ShortAttributes { .. } => 4,
        LiveError::Full(_) | LiveError::FullToMark(_) => 1,
        LiveError::Corrupt(_) => 5,
        LiveError::Interrupted => 130,
        _ => 3,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
#[path = "../tests/units/exit.rs"]
mod tests;
