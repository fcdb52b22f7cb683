//! Runs a command in the background: the program is started again, and the new process reports over a pipe whether it is ready.
//!
//! Nothing forks here, because a process with threads must not. The pipe is the child's standard output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::mount::run_directory::RUN_DIRECTORY;

/// Message of a daemon to the process that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Started {
    /// The process is at work.
    Ready,
    /// The process has failed.
    Failed {
        /// The error's text, for the front that started it to word.
        error: String,
        /// The exit code that belongs to it.
        code: u8,
    },
}

/// Starts `program` with `arguments` in the background, its standard error led into `log`; waits until it is ready.
pub fn start(program: &Path, arguments: &[OsString], log: &Path) -> io::Result<Started> {
    let log = File::options().append(true).create(true).mode(0o600).open(log)?;
    let mut command = Command::new(program);
    // The child leaves the current directory, and would look for a relative path elsewhere.
    if let Some(path) = std::env::var_os(RUN_DIRECTORY) {
        command.env(RUN_DIRECTORY, std::path::absolute(path)?);
    }
    let mut child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if line.is_empty() {
        let status = child.wait()?;
        return Err(io::Error::other(format!("the process in the background ended without a word ({status})")));
    }
    Ok(serde_json::from_str(&line)?)
}

/// In the child: leaves the terminal and the current directory of the process that started it.
pub fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir("/")
}

/// In the child: reports to the process that started it, once, and closes the pipe.
pub fn tell(started: &Started) -> io::Result<()> {
    let line = serde_json::to_string(started)? + "\n";
    // The process that started it may have been interrupted, which is no reason to stop.
    let _ = io::stdout().write_all(line.as_bytes()).and_then(|()| io::stdout().flush());
    let nowhere = File::options().write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nowhere)?)
}
