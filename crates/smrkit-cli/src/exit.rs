//! Ends of a command: its exit code, and its last message, in which a field in braces, such as `{skip_bad_rows}`, is replaced by its option.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::{fmt, io};

use smrkit::error::Error;
use smrkit::message::{plain, worded};
use smrkit_live::daemon::Started;
use smrkit_live::error::LiveError;
use smrkit_live::mount::MountError;

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
    eprintln!("smrkit: {}", worded(&chain(&error), &option));
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

/// The option that sets a field.
pub fn option(field: &str) -> Cow<'static, str> {
    match field {
        "sort" => "smrkit trace convert --sort".into(),
        "use" => "--for".into(),
        other => format!("--{}", other.replace('_', "-")).into(),
    }
}

/// An error and its causes, with their fields in braces.
pub fn chain(error: &anyhow::Error) -> String {
    let message = |cause: &(dyn StdError + 'static)| {
        // `Display` of our own errors has replaced the braces already.
        if let Some(error) = cause.downcast_ref::<Error>() {
            error.message()
        } else if let Some(error) = cause.downcast_ref::<LiveError>() {
            error.message()
        } else if let Some(error) = cause.downcast_ref::<MountError>() {
            error.message()
        } else if let Some(child) = cause.downcast_ref::<ChildError>() {
            child.error.clone()
        } else {
            cause.to_string()
        }
    };
    error.chain().map(message).collect::<Vec<_>>().join(": ")
}

/// An error reported by another process of this program, and its exit code there.
#[derive(Debug)]
pub struct ChildError {
    /// The command's message.
    pub error: String,
    /// Its exit code.
    pub code: u8,
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.error))
    }
}

impl StdError for ChildError {}

/// The end of a process in the background that failed, for the command that started it.
pub fn failed(error: &anyhow::Error) -> Started {
    Started::Failed { error: chain(error), code: number(error) }
}

#[cfg(test)]
#[path = "../tests/units/exit.rs"]
mod tests;
