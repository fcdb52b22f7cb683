//! Cleaning of layers while nothing waits: after a delay, a stage at a time, until a request comes.
//!
//! A layer does the stages ([`super::Need::Spare`]); the disk under it keeps the time. That drives begin some 1.1 s after the
//! last command is what users report of disks that were sold; no paper has it.

use crate::keys;
use crate::schema::{Switch, Time};
use crate::units::Nanos;

keys! {
    /// When idle time is used.
    #[derive(Clone)]
    pub(in crate::layer) struct DelayKeys {
        /// Time without a command before idle_clean begins.
        idle_delay: Nanos = Time(0), "1.1s";
    }
}

keys! {
    /// Use of idle time, in layers whose papers leave it open.
    #[derive(Clone)]
    pub(in crate::layer) struct IdleKeys {
        /// Cleans while nothing waits.
        idle_clean: bool = Switch, "off";
        /// When.
        delay: DelayKeys;
    }
}

impl DelayKeys {
    /// The delay, where idle time is used.
    pub fn when(&self, used: bool) -> Option<Nanos> {
        used.then_some(self.idle_delay)
    }
}

impl IdleKeys {
    /// The delay, where idle time is used.
    pub fn delay(&self) -> Option<Nanos> {
        self.delay.when(self.idle_clean)
    }
}
