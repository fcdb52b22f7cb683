//! The models over each kind of platters.

use std::sync::Arc;

use proptest::prelude::*;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Platters;
use smrfs::device::caveat::CaveatScriptor;
use smrfs::device::modelled::Modelled;
use smrfs::device::strict::StrictAppend;
use smrfs::device::{BandState, Bands, HostManaged, Model, Shape};
use smrfs::error::{DeviceError, DeviceResult, Violation};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::{Memory, WriteLoss};
use smrfs::testing::shingled::{Destructible, Shingled, WriteHistory};
use smrfs::testing::stamped::Stamped;
use smrfs::units::{Granule, Span};
use smrkit::drive::Drive;
use smrkit::tally::Cause;

const GRANULE: u64 = 512;

fn caveat(granules: u64, did: u64, dpid: u64) -> Shape {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    Shape { model: Model::Caveat, granule_bytes: GRANULE, granules, did, dpid, bands }
}

fn strict(count: u64, granules: u64, gap_granules: u64, max_open: u64) -> Shape {
    let bands = Bands { count, granules, gap_granules, max_open };
    let (did, dpid) = (gap_granules, gap_granules / 2);
    let granules = count * (granules + gap_granules);
    Shape { model: Model::StrictAppend, granule_bytes: GRANULE, granules, did, dpid, bands }
}

fn stamped(shape: &Shape) -> Stamped {
    let drive =
        Drive::load("tiny-constant").unwrap().with_capacity(shape.granules * shape.granule_bytes / 512).unwrap();
    Stamped::new(drive, shape)
}

fn memory(shape: &Shape) -> Arc<Memory> {
    Arc::new(Memory::new(shape, Arc::new(Power::new())))
}

fn bytes(count: u64, value: u8) -> Vec<u8> {
    vec![value; (count * GRANULE) as usize]
}

fn write(disk: &dyn HostManaged, at: u64, count: u64, value: u8) -> DeviceResult {
    disk.write(Granule(at), Data::Bytes(&bytes(count, value)), Cause::Host)
}

/// The value that fills the granule.
fn read(disk: &dyn HostManaged, at: u64) -> DeviceResult<u8> {
    let mut room = bytes(1, 0);
    disk.read(Granule(at), ReadBuffer::Bytes(&mut room), Cause::Host)?;
    assert!(room.iter().all(|&value| value == room[0]));
    Ok(room[0])
}

fn refusal<T: std::fmt::Debug>(result: DeviceResult<T>) -> Violation {
    match result.unwrap_err() {
        DeviceError::Violation(violation) => violation,
        other => panic!("{other}"),
    }
}

#[test]
fn strict_append_takes_appends_resets_and_reads_of_data_only() {
    let disk = StrictAppend::new(memory(&strict(4, 10, 3, 2)), strict(4, 10, 3, 2), &[]).unwrap();
    let (span, cursor) = (Span::new, Granule);
    write(&disk, 0, 4, 1).unwrap();
    write(&disk, 13, 9, 2).unwrap();
    assert_eq!(refusal(write(&disk, 5, 1, 0)), Violation::NotAtCursor { at: cursor(5), cursor: cursor(4) });
    assert_eq!(refusal(write(&disk, 3, 1, 0)), Violation::NotAtCursor { at: cursor(3), cursor: cursor(4) });
    assert_eq!(refusal(write(&disk, 4, 7, 0)), Violation::NotInOneBand { span: span(4, 7) });
    assert_eq!(refusal(write(&disk, 11, 1, 0)), Violation::NotInOneBand { span: span(11, 1) });
    assert_eq!(refusal(write(&disk, 26, 1, 0)), Violation::TooManyOpen { limit: 2 });
    write(&disk, 26, 10, 3).unwrap();
    assert_eq!(refusal(write(&disk, 52, 1, 0)), Violation::OutOfRange { span: span(52, 1), granules: 52 });
    assert_eq!(
        refusal(disk.read(cursor(3), ReadBuffer::Blank(2 * GRANULE), Cause::Host)),
        Violation::BeyondCursor { span: span(3, 2), cursor: cursor(4) }
    );
    assert_eq!(refusal(disk.reset(4)), Violation::NoSuchBand { band: 4, bands: 4 });
    assert_eq!(read(&disk, 3).unwrap(), 1);
    disk.reset(0).unwrap();
    assert_eq!(refusal(read(&disk, 0).map(|_| ())), Violation::BeyondCursor { span: span(0, 1), cursor: cursor(0) });
    write(&disk, 39, 1, 4).unwrap();
    let states: Vec<BandState> = disk.report(0, 9).unwrap().iter().map(|band| band.state).collect();
    assert_eq!(states, [BandState::Empty, BandState::Open, BandState::Full, BandState::Open]);
    assert_eq!(disk.cursors(), [0, 22, 36, 40].map(Granule));
    let again = StrictAppend::new(disk.platters.clone(), *disk.shape(), &disk.cursors()).unwrap();
    assert_eq!(refusal(write(&again, 0, 1, 0)), Violation::TooManyOpen { limit: 2 });
    assert_eq!(disk.platters.cursors(), disk.cursors());
}

#[test]
fn a_failed_append_takes_up_its_room() {
    let disk = StrictAppend::new(memory(&strict(1, 10, 0, 1)), strict(1, 10, 0, 1), &[]).unwrap();
    disk.platters.fail_next_write(2);
    assert!(matches!(write(&disk, 0, 4, 1), Err(DeviceError::Io(_))));
    write(&disk, 4, 1, 2).unwrap();
    assert_eq!((read(&disk, 1).unwrap(), read(&disk, 2).unwrap(), read(&disk, 4).unwrap()), (1, 0, 2));
}

#[test]
fn impossible_shapes_and_foreign_cursors_are_refused() {
    let good = strict(2, 10, 4, 1);
    let bad = [
        Shape { granule_bytes: 0, ..good },
        Shape { granule_bytes: 1000, ..good },
        Shape { granules: 23, ..good },
        Shape { granules: u64::MAX, ..good },
        Shape { did: 5, ..good },
        Shape { dpid: 5, ..good },
        Shape { bands: Bands { max_open: 0, ..good.bands }, ..good },
        Shape { bands: Bands { count: 0, ..good.bands }, ..good },
        Shape { bands: Bands { count: u64::MAX, ..good.bands }, ..good },
        caveat(10, 1, 1),
    ];
    for shape in bad {
        assert!(StrictAppend::new(memory(&good), shape, &[]).is_err(), "{shape:?}");
    }
    assert!(StrictAppend::new(memory(&good), Shape { granules: 24, ..good }, &[]).is_ok());
    for cursors in [&[Granule(0)][..], &[Granule(0), Granule(13)], &[Granule(11), Granule(14)]] {
        assert!(StrictAppend::new(memory(&good), good, cursors).is_err(), "{cursors:?}");
    }
    assert!(Shingled::new(memory(&good), good, WriteHistory::Blank).is_err());
    assert!(Modelled::new(Drive::load("tiny-constant").unwrap(), &caveat(1 << 40, 0, 0)).is_err());
    let disk = Shingled::new(memory(&good), caveat(10, 1, 1), WriteHistory::Blank).unwrap();
    assert!(matches!(disk.write(Granule(0), Data::Blank(100), Cause::Host), Err(DeviceError::Io(_))));
    assert_eq!(
        refusal(disk.write(Granule(0), Data::Blank(0), Cause::Host)).to_string(),
        "0..0 is outside the disk of 10 granules"
    );
    refusal(read(&disk, u64::MAX).map(|_| ()));
}

#[test]
fn a_write_destroys_did_granules_below_and_a_second_one_dpid_above() {
    let disk = Shingled::new(memory(&caveat(40, 3, 2)), caveat(40, 3, 2), WriteHistory::Blank).unwrap();
    for at in (0..40).rev() {
        write(&disk, at, 1, at as u8).unwrap();
        assert_eq!(read(&disk, at).unwrap(), at as u8);
    }
    assert!(matches!(read(&disk, 3), Err(DeviceError::Damaged { at: Granule(3), by: Granule(2) })));
    write(&disk, 0, 40, 7).unwrap();
    assert_eq!(disk.upstream_hits(), 0);
    write(&disk, 39, 1, 8).unwrap();
    assert_eq!((disk.upstream_hits(), read(&disk, 36).unwrap()), (2, 7));
    assert!(matches!(read(&disk, 37), Err(DeviceError::Damaged { at: Granule(37), by: Granule(39) })));
    let again = Shingled::new(disk.platters.clone(), *disk.shape(), WriteHistory::Unknown).unwrap();
    assert!(read(&again, 38).is_err(), "the platters remember");
    write(&again, 30, 1, 9).unwrap();
    assert!(read(&again, 29).is_err(), "it may have been the second write");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// The history kept here and the stamps of the simulator damage the same granules.
    #[test]
    fn what_is_destroyed_is_what_the_simulators_stamps_say(
        did in 0..12u64, dpid in 0..12u64, granule_sectors in 1..3u64,
        writes in prop::collection::vec((0..60u64, 1..20u64), 1..60),
    ) {
        let shape = Shape { granule_bytes: 512 * granule_sectors, ..caveat(60, did, dpid) };
        let ours = Shingled::new(memory(&shape), shape, WriteHistory::Blank).unwrap();
        let theirs = CaveatScriptor::new(Arc::new(stamped(&shape)), shape).unwrap();
        for (at, count) in writes {
            let count = count.min(60 - at);
            for disk in [&ours as &dyn HostManaged, &theirs] {
                disk.write(Granule(at), Data::Blank(count * shape.granule_bytes), Cause::Host).unwrap();
            }
            for at in 0..60 {
                let damaged = |disk: &dyn HostManaged| {
                    disk.read(Granule(at), ReadBuffer::Blank(shape.granule_bytes), Cause::Host).is_err()
                };
                prop_assert_eq!(damaged(&ours), damaged(&theirs), "{}", at);
                let alone = ours.platters.read(Granule(at), ReadBuffer::Blank(shape.granule_bytes), Cause::Host);
                prop_assert_eq!(damaged(&ours), alone.is_err());
            }
        }
    }

    /// After a cut a strict-append disk has what was flushed, and in each band a first part of what was not.
    #[test]
    fn a_band_ends_where_the_surviving_data_ends(
        steps in prop::collection::vec((0..8u8, 0..3u64, 1..6u64), 1..40), cut in 1..60u64, seed: u64, loss in 0..4usize,
    ) {
        let shape = strict(3, 10, 2, 3);
        let power = Arc::new(Power::new());
        let recorded = Arc::new(Memory::recording(&shape, power.clone()));
        let disk = StrictAppend::new(recorded.clone(), shape, &[]).unwrap();
        // The states of each band (its values), with the number of the operation that made them, and the flushes.
        let mut states = vec![vec![(0, Vec::new())]; 3];
        let mut flushed = 0;
        for (i, (what, band, count)) in (1u8..).zip(steps) {
            let mut now = states[band as usize].last().unwrap().1.clone();
            let done = match what {
                0 => disk.reset(band).map(|()| now.clear()),
                1 => disk.flush(),
                _ => write(&disk, band * 12 + now.len() as u64, count, i).map(|()| now.resize(now.len() + count as usize, i)),
            };
            if done.is_ok() {
                let number = power.operations();
                match what {
                    1 if number < cut => flushed = number,
                    1 => {}
                    _ => states[band as usize].push((number, now)),
                }
            }
        }
        for recording in [false, true] {
            let survivor = Arc::new(recorded.survivor(cut, WriteLoss::ALL[loss], seed, Arc::new(Power::new()), recording));
            let after = StrictAppend::new(survivor.clone(), shape, &survivor.cursors()).unwrap();
            for (band, states) in (0..).zip(&states) {
                let report = after.report(band, 1).unwrap()[0];
                let is: Vec<u8> = (report.start.0..report.cursor.0).map(|at| read(&after, at).unwrap()).collect();
                let flushed = states.iter().rposition(|(number, _)| *number <= flushed).unwrap();
                let possible = states[flushed..].iter().take_while(|(number, _)| *number <= cut);
                let first_part = |longer: &[u8]| longer.starts_with(&is);
                let fits = possible.clone().any(|(_, state)| {
                    first_part(state) && (is.len() >= states[flushed].1.len() || !state.starts_with(&states[flushed].1))
                });
                prop_assert!(fits, "band {}: {:?} of {:?}", band, is, possible.collect::<Vec<_>>());
            }
        }
    }

    /// After a cut each granule of a Caveat-Scriptor disk holds what was flushed or something written to it since.
    #[test]
    fn a_granule_holds_what_was_flushed_or_what_was_written_since(
        steps in prop::collection::vec((0..6u8, 0..20u64, 1..6u64), 1..40), cut in 1..60u64, seed: u64, loss in 0..4usize,
    ) {
        let shape = caveat(26, 0, 0);
        let recorded = Arc::new(Memory::recording(&shape, Arc::new(Power::new())));
        let disk = Shingled::new(recorded.clone(), shape, WriteHistory::Blank).unwrap();
        let mut possible = vec![vec![0u8]; 26];
        for (i, (what, at, count)) in (1u8..).zip(steps) {
            if what == 0 {
                disk.flush().unwrap();
            } else {
                write(&disk, at, count, i).unwrap();
            }
            let number = u64::from(i);
            if what == 0 && number < cut {
                possible.iter_mut().for_each(|values| *values = vec![*values.last().unwrap()]);
            } else if what > 0 && number <= cut {
                possible[at as usize..(at + count) as usize].iter_mut().for_each(|values| values.push(i));
            }
        }
        let loss = WriteLoss::ALL[loss];
        let survivor = recorded.survivor(cut, loss, seed, Arc::new(Power::new()), false);
        let after = Shingled::new(Arc::new(survivor), shape, WriteHistory::Unknown).unwrap();
        for (at, possible) in (0..).zip(&possible) {
            let is = read(&after, at).unwrap();
            prop_assert!(possible.contains(&is), "{}: {} of {:?}", at, is, possible);
            prop_assert!(loss != WriteLoss::All || is == possible[0]);
        }
    }
}

/// Other threads may flush between what a write does first and what follows on it.
#[test]
fn a_flush_in_the_middle_of_a_write_cuts_nothing() {
    let memory = memory(&strict(4, 8, 1, 4));
    memory.write(Granule(0), Data::Blank(3 * GRANULE), Cause::Host).unwrap();
    memory.flush_with(None).unwrap();
    memory.keep_cursor(0, Granule(3)).unwrap();
    memory.destroy(Span { at: Granule(1), count: 1 }, Granule(0)).unwrap();
    let kept = memory.survivor(u64::MAX, WriteLoss::All, 1, Arc::new(Power::new()), false);
    for disk in [&*memory, &kept] {
        assert_eq!(disk.cursors()[0], Granule(3));
        let lost = disk.read(Granule(1), ReadBuffer::Blank(GRANULE), Cause::Host);
        assert!(matches!(lost, Err(DeviceError::Damaged { at: Granule(1), by: Granule(0) })), "{lost:?}");
    }
}

#[test]
fn when_the_power_fails_the_run_stops_and_the_survivor_goes_on() {
    let shape = caveat(20, 1, 1);
    let memory = Arc::new(Memory::new(&shape, Arc::new(Power::failing_at(4))));
    let disk = Shingled::new(memory.clone(), shape, WriteHistory::Blank).unwrap();
    write(&disk, 0, 1, 1).unwrap();
    disk.flush().unwrap();
    write(&disk, 1, 1, 2).unwrap();
    for _ in 0..2 {
        assert!(matches!(write(&disk, 5, 8, 3), Err(DeviceError::PowerCut)));
        assert!(matches!(read(&disk, 0), Err(DeviceError::PowerCut)));
    }
    let values = |loss, seed| {
        let survivor = memory.survivor(4, loss, seed, Arc::new(Power::new()), false);
        let after = Shingled::new(Arc::new(survivor), shape, WriteHistory::Unknown).unwrap();
        (0..20).map(|at| read(&after, at).unwrap()).collect::<Vec<u8>>()
    };
    assert_eq!(values(WriteLoss::All, 1)[..2], [1, 0]);
    assert_eq!(values(WriteLoss::None, 1)[..2], [1, 2]);
    assert_eq!(values(WriteLoss::Any, 5), values(WriteLoss::Any, 5), "a seed decides");
    let torn = |seed| (5..13).filter(|&at| values(WriteLoss::None, seed)[at] == 3).count();
    assert!((0..20).any(|seed| (1..8).contains(&torn(seed))), "the write under way arrives in part");
    assert!(
        (0..20).any(|seed| values(WriteLoss::Any, seed)[1] == 0)
            && (0..20).any(|seed| values(WriteLoss::Any, seed)[1] == 2)
    );
}

/// Of writes in order that the power cut off, the first ones are whole, one may be in part, and of the others nothing is left.
#[test]
fn a_cut_tail_ends_with_one_torn_write() {
    let shape = caveat(64, 0, 0);
    let memory = Memory::recording(&shape, Arc::new(Power::new()));
    for at in 0..8 {
        memory.write(Granule(8 * at), Data::Bytes(&bytes(8, 7)), Cause::Host).unwrap();
    }
    let kept = |seed| -> Vec<usize> {
        let survivor = memory.survivor(9, WriteLoss::Tail, seed, Arc::new(Power::new()), false);
        let after = Shingled::new(Arc::new(survivor), shape, WriteHistory::Unknown).unwrap();
        (0..8)
            .map(|at| {
                (8 * at..8 * at + 8).filter(|&granule| read(&after, granule).is_ok_and(|value| value == 7)).count()
            })
            .collect()
    };
    let all: Vec<Vec<usize>> = (0..100).map(kept).collect();
    for kept in &all {
        let whole = kept.iter().take_while(|&&granules| granules == 8).count();
        assert!(kept.iter().skip(whole + 1).all(|&granules| granules == 0), "{kept:?}");
    }
    assert!(all.iter().any(|kept| kept.iter().any(|granules| (1..8).contains(granules))), "one is torn now and then");
}
