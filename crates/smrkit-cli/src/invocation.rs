//! How the command was called. The process's own arguments and executable can't be used: from the Python package, they are Python's.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use smrkit_live::daemon::{self, Started};

use crate::exit::ChildError;

static INVOCATION: OnceLock<(Vec<OsString>, Option<PathBuf>)> = OnceLock::new();

/// Stores how the command was called, once.
pub fn set(words: Vec<OsString>, program: io::Result<PathBuf>) {
    let _ = INVOCATION.set((words, program.ok()));
}

/// The name that it was called by, and its arguments.
pub fn words() -> &'static [OsString] {
    INVOCATION.get().map(|(words, _)| words.as_slice()).unwrap_or_default()
}

/// The program that starts this command again.
pub fn program() -> anyhow::Result<&'static Path> {
    INVOCATION.get().and_then(|(_, program)| program.as_deref()).context("the path of this command is not known")
}

/// The arguments after the command's name.
pub fn arguments(command: &str) -> &'static [OsString] {
    words().iter().position(|word| word == command).map_or(&[], |at| &words()[at + 1..])
}

/// Starts a command of this program in the background; returns once it is ready.
pub fn start_daemon(command: &str, arguments: &[OsString], log: &Path) -> anyhow::Result<()> {
    let arguments = [&[command.into(), "--daemon".into()], arguments].concat();
    match daemon::start(program()?, &arguments, log).with_context(|| format!("the log is {}", log.display()))? {
        Started::Ready => Ok(()),
        Started::Failed { error, code } => Err(ChildError { error, code }.into()),
    }
}
