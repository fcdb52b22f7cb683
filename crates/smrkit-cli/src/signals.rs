//! Signals that ask a command to end: SIGINT, SIGTERM and SIGHUP.

use std::sync::Arc;
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Makes an error of a write past the limit of file sizes (`ulimit -f`), which without a handler ends the process.
pub fn survive_file_limit() {
    // A system that refuses a handler keeps its own.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Calls `handler` for each signal from now on, in a thread of its own.
///
/// # Errors
/// If the system refuses a handler or a thread.
pub fn handle(mut handler: impl FnMut() + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals")?;
    let wait = move || signals.forever().for_each(|_| handler());
    thread::Builder::new().name("signals".into()).spawn(wait).context("signals")?;
    Ok(())
}
