//! Errors of the libraries in the words of the command line: each field by its option.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use smrkit::error::Error;
use smrkit::message::{Field, Message};
use smrkit_live::error::LiveError;
use smrkit_live::mount::MountError;

/// Option that sets a field.
pub fn option(field: Field) -> Cow<'static, str> {
    match field {
        Field::Sort => "smrkit trace convert --sort".into(),
        other => format!("--{}", other.name().replace('_', "-")).into(),
    }
}

/// An error and its causes, with their fields for a front to word.
pub fn chain(error: &anyhow::Error) -> Message {
    let cause = |cause: &(dyn StdError + 'static)| {
        let known = cause.downcast_ref().map(Error::message);
        let known = known.or_else(|| cause.downcast_ref().map(LiveError::message));
        let known = known.or_else(|| cause.downcast_ref().map(MountError::message));
        let known = known.or_else(|| cause.downcast_ref().map(|told: &ChildError| told.error.clone()));
        known.unwrap_or_else(|| cause.to_string().into())
    };
    error.chain().map(cause).reduce(|told, cause| told + ": " + cause).unwrap_or_else(|| "".into())
}

/// An error that another process of ours told, and its exit code there.
#[derive(Debug)]
pub struct ChildError {
    /// The command's message.
    pub error: Message,
    /// Its exit code.
    pub code: u8,
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for ChildError {}
