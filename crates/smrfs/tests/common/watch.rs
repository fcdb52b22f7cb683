//! A disk of either model with the checker in front of it.

use std::sync::Arc;

use smrfs::device::HostManaged;
use smrfs::error::{DeviceResult, Violation};
use smrfs::safety::counts::{Counting, Order};
use smrfs::units::Span;

/// The checker, whatever disk it watches.
pub trait Watch: Send + Sync {
    /// The first violation, if there was any.
    fn first_violation(&self) -> Option<Violation>;

    /// A mount: only `live` may be read.
    fn mounted(&self, live: &[Span], order: Order) -> DeviceResult;
}

impl<D: HostManaged> Watch for Counting<D> {
    fn first_violation(&self) -> Option<Violation> {
        self.violation()
    }

    fn mounted(&self, live: &[Span], order: Order) -> DeviceResult {
        self.restart(live, order)
    }
}

/// `disk`, watched, and its checker.
pub fn watched(disk: impl HostManaged + 'static) -> (Arc<dyn HostManaged>, Arc<dyn Watch>) {
    let disk = Arc::new(Counting::new(disk));
    (disk.clone(), disk)
}
