//! Ctrl-C: the first ends the run with what there is, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that a signal sets.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP from now on.
    pub fn watch() -> Interrupt {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        let handler = move || {
            if flag.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("smrkit: an interrupt will lose the results so far: {error}");
        }
        interrupt
    }

    /// Whether it is time to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops the other runs, after one of them has failed.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
