//! Errors of the libraries in the words of the command line: a field in braces, such as `{skip_bad_rows}`, is replaced by its option.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use smrkit::error::Error;
use smrkit::message::plain;
use smrkit_live::error::LiveError;
use smrkit_live::mount::MountError;

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
    let cause = |cause: &(dyn StdError + 'static)| {
        let known = cause.downcast_ref().map(Error::message);
        let known = known.or_else(|| cause.downcast_ref().map(LiveError::message));
        let known = known.or_else(|| cause.downcast_ref().map(MountError::message));
        let known = known.or_else(|| cause.downcast_ref().map(|told: &ChildError| told.error.clone()));
        known.unwrap_or_else(|| cause.to_string())
    };
    error.chain().map(cause).collect::<Vec<_>>().join(": ")
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
