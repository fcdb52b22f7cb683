//! The checker against the rule in flat arrays, and over disks.

use std::sync::Arc;

use proptest::prelude::*;
use smrfs::data::Data;
use smrfs::device::strict::StrictAppend;
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::{DeviceError, DeviceResult, Violation};
use smrfs::safety::Counts;
use smrfs::safety::counts::{Counting, Order};
use smrfs::testing::memory::Memory;
use smrfs::testing::memory::Power;
use smrfs::testing::shingled::{Shingled, WriteHistory};
use smrfs::units::{Granule, Span};
use smrkit::tally::Cause;

use super::law::{self, Law};

fn caveat(granules: u64, did: u64, dpid: u64) -> Shape {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    Shape { model: Model::Caveat, granule_bytes: 512, granules, did, dpid, bands }
}

fn strict(count: u64, granules: u64, gap_granules: u64, max_open: u64) -> Shape {
    let bands = Bands { count, granules, gap_granules, max_open };
    let (did, dpid) = (gap_granules, gap_granules / 2);
    let granules = count * (granules + gap_granules);
    Shape { model: Model::StrictAppend, granule_bytes: 512, granules, did, dpid, bands }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_books_say_what_a_recount_says(
        did in 0..14u64, dpid in 0..14u64,
        steps in prop::collection::vec((0..12u8, 0..70u64, 1..16u64), 1..80),
    ) {
        let shape = caveat(70, did, dpid);
        let mut law = Law::new(70, did, dpid);
        let disk = Counting::new(Shingled::new(memory(&shape), shape, WriteHistory::Blank).unwrap());
        for (what, at, count) in steps {
            let span = Span::new(at, count.min(70 - at));
            match what {
                0 => {
                    let live: Vec<Span> = (0..70).filter(|&at| law.is_live(at)).map(|at| Span::new(at, 1)).collect();
                    disk.restart(&live, if count % 2 == 0 { Order::Kept } else { Order::Forgotten }).unwrap();
                    if count % 2 == 1 {
                        law.forget(&live);
                    }
                }
                1..4 => {
                    law.discard(span);
                    disk.discard(span);
                }
                _ => {
                    let verdict = law.may_write(span);
                    if what == 4 {
                        disk.disk.platters.fail_next_write(1);
                    }
                    match (write(&disk, at, span.count), verdict) {
                        (Err(DeviceError::Violation(ours)), Err(theirs)) => prop_assert_eq!(ours, theirs),
                        (Err(DeviceError::Io(_)), Ok(())) => law.fail(span),
                        (Ok(()), Ok(())) => law.write(span),
                        (ours, theirs) => prop_assert!(false, "{}: {:?}, the law {:?}", span, ours, theirs),
                    }
                }
            }
            prop_assert_eq!(disk.counts(), law::count(&law.labels()));
        }
    }
}

fn memory(shape: &Shape) -> Arc<Memory> {
    Arc::new(Memory::new(shape, Arc::new(Power::new())))
}

fn write(disk: &dyn HostManaged, at: u64, count: u64) -> DeviceResult {
    disk.write(Granule(at), Data::Blank(count * disk.shape().granule_bytes), Cause::Host)
}

fn refusal(result: DeviceResult) -> Violation {
    match result.unwrap_err() {
        DeviceError::Violation(violation) => violation,
        other => panic!("{other}"),
    }
}

/// R, NW, WO, W.
fn four(counts: Counts) -> [u64; 4] {
    [counts.readable, counts.not_writable, counts.write_once, counts.writable]
}

#[test]
fn every_violation_is_found_before_it_reaches_the_disk() {
    let shape = caveat(100, 4, 3);
    let disk = Counting::new(Shingled::new(memory(&shape), shape, WriteHistory::Blank).unwrap());
    write(&disk, 50, 10).unwrap();
    assert_eq!(refusal(write(&disk, 55, 1)), Violation::OverLive { at: Granule(55) });
    assert_eq!(refusal(write(&disk, 40, 7)), Violation::Downstream { at: Granule(46), live: Granule(50) });
    write(&disk, 60, 5).unwrap();
    disk.discard(Span::new(60, 5));
    assert_eq!(refusal(write(&disk, 62, 1)), Violation::Upstream { at: Granule(62), live: Granule(59) });
    assert_eq!((disk.violation(), disk.violations()), (Some(Violation::OverLive { at: Granule(55) }), 3));
    assert_eq!(four(disk.counts()), [10, 7, 0, 83]);
    assert_eq!(disk.disk.upstream_hits(), 0, "nothing of it was written");
    refusal(disk.reset(0));
    assert_eq!(disk.violations(), 4);
}

#[test]
fn after_a_mount_the_order_is_known_to_the_platters_only() {
    let shape = caveat(100, 4, 3);
    let disk = Counting::new(Shingled::new(memory(&shape), shape, WriteHistory::Blank).unwrap());
    write(&disk, 50, 10).unwrap();
    disk.restart(&[Span::new(50, 10)], Order::Kept).unwrap();
    assert_eq!(four(disk.counts()), [10, 4, 3, 83]);
    disk.restart(&[Span::new(50, 10)], Order::Forgotten).unwrap();
    assert_eq!(four(disk.counts()), [10, 7, 0, 83]);
}

#[test]
fn every_violation_is_found_before_it_reaches_a_strict_append_disk() {
    let shape = strict(3, 10, 2, 3);
    let disk = Counting::new(StrictAppend::new(memory(&shape), shape, &[]).unwrap());
    write(&disk, 0, 4).unwrap();
    assert_eq!(refusal(write(&disk, 3, 1)), Violation::OverLive { at: Granule(3) });
    assert_eq!(refusal(write(&disk, 5, 1)), Violation::NotAtCursor { at: Granule(5), cursor: Granule(4) });
    assert_eq!(refusal(write(&disk, 10, 1)), Violation::NotInOneBand { span: Span::new(10, 1) });
    assert_eq!(refusal(disk.reset(0)), Violation::ResetOfLive { at: Granule(0) });
    disk.discard(Span::new(0, 3));
    assert_eq!(refusal(disk.reset(0)), Violation::ResetOfLive { at: Granule(3) });
    assert_eq!(four(disk.counts()), [1, 9, 0, 26]);
    disk.discard(Span::new(3, 1));
    disk.reset(0).unwrap();
    assert_eq!(four(disk.counts()), [0, 6, 0, 30]);
    assert_eq!(disk.violations(), 5);
}

#[test]
fn a_band_in_which_a_write_failed_is_left_alone_until_its_reset() {
    let shape = strict(2, 10, 0, 2);
    let disk = Counting::new(StrictAppend::new(memory(&shape), shape, &[]).unwrap());
    write(&disk, 0, 2).unwrap();
    disk.disk.platters.fail_next_write(1);
    assert!(write(&disk, 2, 3).is_err());
    assert_eq!(four(disk.counts()), [2, 8, 0, 10]);
    refusal(write(&disk, 5, 1));
    disk.restart(&[Span::new(0, 2)], Order::Forgotten).unwrap();
    assert_eq!(four(disk.counts()), [2, 3, 0, 15], "a report tells where the cursor is");
    write(&disk, 5, 1).unwrap();
}
