//! Disks on top of other disks. Methods that they don't override are forwarded to the disk below.

use std::sync::Arc;

use smrkit::tally::Cause;
use smrkit::units::Nanos;

use super::{BandReport, HostManaged, Shape};
use crate::data::{Data, ReadBuffer};
use crate::error::DeviceResult;
use crate::units::{Granule, HostJournal, Span};

/// Forwards all methods of [`HostManaged`].
macro_rules! all {
    ($($to:tt)*) => {
        pass_on! { $($to)*
            fn shape(&self) -> &Shape;
            fn read(&self, at: Granule, room: ReadBuffer<'_>, cause: Cause) -> DeviceResult;
            fn expect(&self, span: Span);
            fn start_flush(&self);
            fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult;
            fn reset(&self, band: u64) -> DeviceResult;
            fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>>;
            fn discard(&self, span: Span);
            fn reserve(&self, bytes: u64) -> DeviceResult;
            fn room_bytes(&self) -> DeviceResult<Option<u64>>;
            fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult;
            fn now(&self) -> Nanos;
            fn wait_until(&self, time: Nanos);
        }
    };
}

/// A disk on top of another one. Methods that an implementation leaves out are forwarded; it gets [`HostManaged`] as well.
///
/// Best named by its path (`stacked::Stacked`): where both traits are in scope, a call could mean either. An implementation
/// calls `self.below()`.
#[allow(missing_docs, reason = "each is that of `HostManaged`")]
pub trait Stacked: Send + Sync {
    /// The disk below.
    type Below: HostManaged + ?Sized;

    /// The disk below.
    fn below(&self) -> &Self::Below;

    all! { self => self.below(); }
}

impl<D: HostManaged + ?Sized> Stacked for Arc<D> {
    type Below = D;

    fn below(&self) -> &D {
        self
    }
}

impl<S: Stacked> HostManaged for S {
    all! { self => Stacked::; }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::device::{BandState, Bands, Model};
    use crate::error::{DeviceError, Violation};

    const BANDS: Bands = Bands { count: 3, granules: 10, gap_granules: 0, max_open: 2 };
    const DISK: Shape =
        Shape { model: Model::StrictAppend, granule_bytes: 512, granules: 30, did: 0, dpid: 0, bands: BANDS };

    /// A disk that tells what it is asked.
    #[derive(Default)]
    struct Telling(Mutex<Vec<String>>);

    impl Telling {
        fn tell(&self, what: impl std::fmt::Display) -> DeviceResult {
            self.0.lock().push(what.to_string());
            Err(DeviceError::Violation(Violation::NoBands))
        }

        fn told(&self) -> Vec<String> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    impl HostManaged for Telling {
        fn shape(&self) -> &Shape {
            &DISK
        }

        fn read(&self, at: Granule, room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
            self.tell(format_args!("read {at} {}", room.bytes()))
        }

        fn expect(&self, span: Span) {
            let _ = self.tell(format_args!("expect {span}"));
        }

        fn start_flush(&self) {
            let _ = self.tell("start of a flush");
        }

        fn write(&self, at: Granule, data: Data<'_>, _cause: Cause) -> DeviceResult {
            self.tell(format_args!("write {at} {}", data.bytes()))
        }

        fn reset(&self, band: u64) -> DeviceResult {
            self.tell(format_args!("reset {band}"))
        }

        fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<BandReport>> {
            let _ = self.tell(format_args!("report {first} {count}"));
            Ok(vec![BandReport::new(BANDS.span(1), 4, Some(BandState::ReadOnly))])
        }

        fn discard(&self, span: Span) {
            let _ = self.tell(format_args!("discard {span}"));
        }

        fn reserve(&self, bytes: u64) -> DeviceResult {
            self.tell(format_args!("reserve {bytes}"))
        }

        fn room_bytes(&self) -> DeviceResult<Option<u64>> {
            Ok(Some(77))
        }

        fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
            self.tell(format_args!("flush with {journal:?}"))
        }

        fn now(&self) -> Nanos {
            Nanos(99)
        }

        fn wait_until(&self, time: Nanos) {
            let _ = self.tell(format_args!("wait {}", time.0));
        }
    }

    struct Plain(Arc<Telling>);

    impl Stacked for Plain {
        type Below = Telling;

        fn below(&self) -> &Telling {
            &self.0
        }
    }

    const ASKED: [&str; 11] = [
        "read 5 1024",
        "expect 6..9",
        "write 7 512",
        "reset 2",
        "report 1 2",
        "discard 8..9",
        "start of a flush",
        "reserve 4096",
        "flush with None",
        "flush with Some(HostJournal(5))",
        "wait 1234",
    ];

    #[test]
    fn a_disk_before_another_passes_everything_on() {
        let below = Arc::new(Telling::default());
        for disk in [&Plain(below.clone()) as &dyn HostManaged, &below.clone()] {
            assert!(disk.read(Granule(5), ReadBuffer::Blank(1024), Cause::Host).is_err());
            disk.expect(Span::new(6, 3));
            assert!(disk.write(Granule(7), Data::Blank(512), Cause::Map).is_err());
            assert!(disk.reset(2).is_err());
            assert_eq!(disk.report(1, 2).unwrap(), [BandReport::new(BANDS.span(1), 4, Some(BandState::ReadOnly))]);
            disk.discard(Span::new(8, 1));
            disk.start_flush();
            assert!(disk.reserve(4096).is_err() && disk.flush().is_err());
            assert!(disk.flush_with(Some(HostJournal(5))).is_err());
            disk.wait_until(Nanos(1234));
            assert_eq!((*disk.shape(), disk.room_bytes().unwrap(), disk.now()), (DISK, Some(77), Nanos(99)));
            assert_eq!(below.told(), ASKED);
        }
    }
}
