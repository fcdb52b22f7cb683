//! Signals that ask a command to end: SIGINT, SIGTERM and SIGHUP.

use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

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
