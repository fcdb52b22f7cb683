//! Whole lives of strict-append disks: a small file system over a disk that checks every order, without the core.
//!
//! Filling, deleting, overwriting; commits late and of single files; writes that fail; power cuts with a mount after them.

#[path = "../../smrkit/tests/common/count.rs"]
mod count;
mod space_bands_host;

use count::count_from;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::{BandReport, BandState, Bands, Model, Shape};
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::{BandsOptions, Blocks, CleaningQuota, RESERVE_BANDS, Reset};
use smrfs::space::{AllocationRequest, CleaningStep, Space, Trigger};
use smrfs::superblock::Part;
use smrfs::units::{NodeId, Owner, Span};
use space_bands_host::Host;

/// Bands of `band` granules, with gaps of a granule.
fn shape(count: u64, band: u64, max_open: u64) -> Shape {
    let bands = Bands { count, granules: band, gap_granules: 1, max_open };
    Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: count * (band + 1) + 3, did: 1, dpid: 1, bands }
}

/// Number of disks, each of a random kind.
fn disks() -> u64 {
    count_from("SMRFS_DISKS", 10)
}

/// Lets `work` go on for this many seeds.
fn seeds(seeds: u64, work: impl Fn(u64, Pcg64Mcg)) {
    for seed in 0..seeds {
        work(seed, Pcg64Mcg::seed_from_u64(seed));
    }
}

fn options(random: &mut Pcg64Mcg) -> BandsOptions {
    BandsOptions {
        reset: if random.random() { Reset::Eager } else { Reset::Lazy },
        pace: if random.random() { CleaningQuota::Steady } else { CleaningQuota::Event },
        blocks: if random.random() { Blocks::Split } else { Blocks::Whole },
        writers: random.random_range(1..5),
        block_granules: random.random_range(1..7),
        event_granules: random.random_range(1..80),
        ..BandsOptions::default()
    }
}

#[test]
fn any_life_of_a_small_disk_keeps_its_data_and_its_room() {
    seeds(disks(), |seed, mut random| {
        let shape = shape(random.random_range(8..40), random.random_range(4..24), random.random_range(1..9));
        let options = options(&mut random);
        let mut host = Host::new(&shape, options, seed).checked();
        let usable = host.usable();
        for _ in 0..1500 {
            let file = random.random_range(1..9);
            let at = random.random_range(0..usable / 4 + 1);
            let count = random.random_range(1..9).min(usable);
            match random.random_range(0..100) {
                0..60 => host.write_if_room(file, at, count),
                60..75 => host.punch(file, at, random.random_range(1..2 * count + 1)),
                75..78 => host.punch(file, 0, usable),
                78..88 => host.commit(file),
                88..90 => host.commit_all(),
                90..95 => host.close(file),
                95..99 => host.idle(random.random_range(1..40)),
                _ => host.cut_power(),
            }
        }
        host.read_all();
    });
}

#[test]
fn failed_writes_and_repeated_power_cuts_lose_neither_data_nor_room() {
    seeds(disks(), |seed, mut random| {
        let shape = shape(random.random_range(12..40), random.random_range(4..24), random.random_range(3..10));
        let options = options(&mut random);
        let mut host = Host::new(&shape, options, seed).checked().failing(300);
        let usable = host.usable();
        for at in 0..usable {
            host.write(1, at, 1);
        }
        for _ in 0..800 {
            let (at, count) = (random.random_range(0..usable), random.random_range(1..6));
            host.write(1, at, count.min(usable - at));
            match random.random_range(0..60) {
                0 => host.cut_power(),
                1..4 => host.commit(1),
                4 => host.cut_power_in_cleaning(),
                _ => {}
            }
        }
        host.read_all();
    });
}

#[test]
fn a_full_disk_is_refilled_without_a_false_no_space() {
    seeds(2, |seed, mut random| {
        for pace in [CleaningQuota::Steady, CleaningQuota::Event] {
            let shape = shape(48, 32, 4);
            let mut host = Host::new(&shape, BandsOptions { pace, block_granules: 8, ..BandsOptions::default() }, seed);
            let usable = host.usable();
            for round in 0..3 {
                for at in 0..usable {
                    host.write(1 + at % 3, at, 1);
                }
                host.idle(1000);
                for at in 0..usable {
                    host.write(1 + at % 3, at, 1);
                }
                for file in (1..4).filter(|_| round < 2) {
                    host.punch(file, 0, usable);
                }
            }
            for _ in 0..5 * usable {
                let at = random.random_range(0..usable);
                host.write(1 + at % 3, at, 1);
            }
            host.read_all();
        }
    });
}

/// Overwrites blocks at random, 5 times the capacity, at `share` percent of the granules that files can fill.
fn overwritten(options: BandsOptions, bands: u64, share: u64) -> (f64, u64) {
    // Granules of 1 MiB: a block each, 32 in a band.
    let shape = shape(bands, 32, 16);
    let options = BandsOptions { block_granules: 1, event_granules: 4 * 32, ..options };
    let mut host = Host::new(&shape, options, 7);
    let granules = host.usable() * share / 100;
    let mut random = Pcg64Mcg::seed_from_u64(share);
    for at in 0..granules {
        host.write(1, at, 1);
    }
    for _ in 0..bands * 32 {
        host.write(1, random.random_range(0..granules), 1);
    }
    host.work = Default::default();
    for _ in 0..4 * bands * 32 {
        host.write(1, random.random_range(0..granules), 1);
    }
    let work = host.work;
    let amplification = 1.0 + work.moved as f64 / work.host as f64;
    (amplification, work.most_for_one_write)
}

#[test]
fn random_overwrites_cost_little_more_than_the_space_left_asks_for() {
    for (share, amplification, most) in [(85, 4.5, 16), (90, 5.5, 24), (95, 8.5, 40), (100, 17.0, 96)] {
        let (measured, work) = overwritten(BandsOptions::default(), 96, share);
        assert!(measured <= amplification, "{share} %: {measured}");
        assert!(work <= most, "{share} %: {work} MB for one write");
    }
}

#[test]
fn whole_events_as_in_the_paper_charge_up_to_an_event_to_one_write() {
    let options = BandsOptions { blocks: Blocks::Split, ..BandsOptions::paper() };
    let (amplification, most) = overwritten(options, 96, 90);
    assert!(amplification <= 6.0, "{amplification}");
    assert!((64..=3 * 32).contains(&most), "{most} MB for one write: an event examines three bands of 96");
}

#[test]
fn files_fill_nine_tenths_and_every_granule_is_accounted_for() {
    for (bands, band, least_percent) in [(256, 8192, 90), (3200, 8192, 90), (64, 256, 90), (12, 16, 50)] {
        let shape = shape(bands, band, 16);
        let space = BandSpace::new(&shape, BandsOptions::default()).unwrap();
        assert!(space.usable() * 100 >= bands * band * least_percent, "{bands} bands: {}", space.usable());
        let counts = space.counts();
        assert_eq!((counts.writable, counts.not_writable), (bands * band, bands + 3), "gaps and what is left over");
    }
}

#[test]
fn what_cannot_work_is_refused_with_a_remedy() {
    let good = shape(16, 16, 4);
    let bands = |bands| Shape { bands, ..good };
    // The superblock keeps a band open.
    let alone = Part::shape_of(&bands(Bands { max_open: 1, ..good.bands }), 34, 2);
    for (shape, why) in [
        (bands(Bands { count: 6, ..good.bands }), "6 bands are too few: cleaning and one band of data need 7"),
        (alone, "no bands that can be written"),
        (bands(Bands { max_open: 0, ..good.bands }), "no bands that can be written"),
        (bands(Bands { granules: 0, ..good.bands }), "no bands that can be written"),
    ] {
        let error = BandSpace::new(&shape, BandsOptions::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(BandSpace::new(&bands(Bands { count: 7, ..good.bands }), BandsOptions::default()).is_ok());
}

fn owner(granule: u64) -> Owner {
    Owner { file: NodeId(1), granule }
}

#[test]
fn damaged_maps_are_refused_and_data_past_a_cursor_is_kept() {
    let shape = shape(16, 16, 4);
    let mut space = BandSpace::new(&shape, BandsOptions::default()).unwrap();
    assert!(space.adopt(Span::new(0, 4), owner(0)));
    assert!(!space.adopt(Span::new(3, 4), owner(10)), "in use already");
    assert!(!space.adopt(Span::new(14, 4), owner(10)), "in a gap");
    assert!(!space.adopt(Span::new(u64::MAX - 1, 4), owner(10)), "behind the end");
    let state = |cursor| if cursor == 0 { BandState::Empty } else { BandState::Open };
    let report: Vec<BandReport> = (0..16)
        .map(|band| (shape.bands.span(band).at, if band < 2 { 2 } else { 0 }))
        .map(|(start, cursor)| BandReport { start, cursor: start + cursor, state: state(cursor) })
        .collect();
    space.start(&report);
    space.check().unwrap();
    let want = AllocationRequest { owner: owner(50), after: None, count: 16, more: 0, moving: false };
    let placed = space.place(&want).unwrap();
    assert_eq!(placed, Span::new(17 + 2, 14), "the other band begun, at its cursor");
}

#[test]
fn bands_that_the_disk_lost_are_neither_written_nor_counted_as_room() {
    let shape = shape(32, 16, 4);
    let mut space = BandSpace::new(&shape, BandsOptions::default()).unwrap();
    assert!(space.adopt(Span::new(0, 4), owner(0)));
    let all = space.usable();
    let state = |band| match band {
        0 => BandState::ReadOnly,
        1 => BandState::Offline,
        _ => BandState::Empty,
    };
    let starts = (0..32).map(|band| (band, shape.bands.span(band).at));
    let report: Vec<BandReport> =
        starts.map(|(band, start)| BandReport { start, cursor: start, state: state(band) }).collect();
    space.start(&report);
    space.check().unwrap();
    assert_eq!(space.usable(), all - 32);
    assert_eq!(space.counts().writable, 30 * 16);
    assert_eq!(space.counts().garbage, 0);
    while let Some(span) =
        space.place(&AllocationRequest { owner: owner(9), after: None, count: 16, more: 0, moving: true })
    {
        assert!(span.at.0 >= 2 * 17, "{span}");
        space.failed(span);
    }
}

#[test]
fn two_writers_have_a_band_each_until_their_files_close() {
    let mut space = BandSpace::new(&shape(64, 16, 8), BandsOptions::default()).unwrap();
    let place = |space: &mut BandSpace, file| {
        let owner = Owner { file: NodeId(file), granule: 0 };
        let want = AllocationRequest { owner, after: None, count: 2, more: 0, moving: false };
        let span = space.place(&want).unwrap();
        space.written(span, Owner { file: NodeId(file), granule: span.at.0 });
        span.at.0 / 17
    };
    let bands = [1, 2, 1, 2, 1].map(|file| place(&mut space, file));
    assert_eq!(bands, [0, 1, 0, 1, 0]);
    space.closed(NodeId(1));
    assert_eq!(place(&mut space, 3), 0);
    assert_eq!(place(&mut space, 2), 1);
}

/// Band 0 is begun and half dead, band 1 has a dead granule, the others but three are full.
#[test]
fn a_band_begun_with_data_that_can_not_be_moved_is_written_on() {
    let shape = shape(16, 16, 8);
    let mut space = BandSpace::new(&shape, BandsOptions::default()).unwrap();
    let span = |band: u64, count| Span { count, ..shape.bands.span(band) };
    let live = |band| [4, 15, 16][(band as usize).min(2)];
    for band in 0..13 {
        assert!(space.adopt(span(band, live(band)), owner(band)));
    }
    let cursor = |band| [8, 16, 16, 0][if band < 13 { (band as usize).min(2) } else { 3 }];
    let states = [BandState::Empty, BandState::Open, BandState::Full];
    let report: Vec<BandReport> = (0..16)
        .map(|band| {
            let start = span(band, 0).at;
            BandReport { start, cursor: start + cursor(band), state: states[cursor(band) as usize / 8] }
        })
        .collect();
    space.start(&report);
    let Some(CleaningStep::Move(piece, _)) = space.clean(Trigger::Idle) else { panic!("nothing to move") };
    assert_eq!(piece, span(0, 4));
    space.mark_unmovable(Span::new(1, 1));
    space.check().unwrap();
    assert_eq!(space.counts().garbage, 1, "that of band 1");
    let want = AllocationRequest { owner: owner(20), after: None, count: 16, more: 0, moving: true };
    let places: Vec<Span> = std::iter::from_fn(|| space.place(&want)).collect();
    assert!(places.contains(&Span::new(8, 8)), "{places:?}");
    space.check().unwrap();
    space.retire(span(0, 4));
    space.check().unwrap();
}

/// Section 4.1 of the paper: under 35 % empty bands in idle time, under 5 % while the host writes, and when nothing can be placed.
#[test]
fn cleaning_is_due_at_the_papers_three_triggers_and_not_before() {
    let shape = shape(100, 16, 4);
    let options = BandsOptions { block_granules: 16, writers: 1, ..BandsOptions::paper() };
    let mut space = BandSpace::new(&shape, options).unwrap();
    let starts = (0..100).map(|band| shape.bands.span(band).at);
    let reports = starts.map(|start| BandReport { start, cursor: start, state: BandState::Empty });
    space.start(&reports.collect::<Vec<_>>());
    let owner = Owner { file: NodeId(1), granule: 0 };
    for full in 1..=100 {
        let want = AllocationRequest { owner, after: None, count: 16, more: 0, moving: false };
        let Some(span) = space.place(&want) else {
            assert!(space.clean(Trigger::Stuck).is_some(), "with {full} bands taken something can be cleaned");
            assert_eq!(100 - full + 1, RESERVE_BANDS, "only the cleaner's reserve is left");
            return;
        };
        space.written(span, owner);
        // Half of each band is garbage.
        let dead = Span { at: span.at, count: 8 };
        space.retire(dead);
        space.release(dead);
        let empty = 100 - full;
        let expected = [
            if empty < 5 { Some(Trigger::Low) } else { None },
            match empty {
                0..5 => Some(Trigger::Low),
                5..35 => Some(Trigger::Idle),
                _ => None,
            },
        ];
        assert_eq!([space.wants_cleaning(false), space.wants_cleaning(true)], expected, "{empty} % empty");
    }
    panic!("hosts filled what the cleaner needs");
}

/// Full bands of live data, bands of garbage, and empty ones.
fn taken(shape: &Shape, options: BandsOptions, live: u64, garbage: u64) -> BandSpace {
    let mut space = BandSpace::new(shape, options).unwrap();
    let band = |number: u64| shape.bands.span(number);
    for number in 0..live {
        assert!(space.adopt(band(number), owner(number * shape.bands.granules)));
    }
    let report = |number: u64| {
        let Span { at, count } = band(number);
        match number < live + garbage {
            true => BandReport { start: at, cursor: at + count, state: BandState::Full },
            false => BandReport { start: at, cursor: at, state: BandState::Empty },
        }
    };
    space.start(&(0..shape.bands.count).map(report).collect::<Vec<_>>());
    space
}

#[test]
fn low_is_at_most_half_of_what_is_not_live() {
    let shape = shape(200, 16, 4);
    // 16 bands are not live: half of them, not 5 %. Of 60, the share counts.
    for (live, garbage, due) in
        [(184, 8, None), (184, 9, Some(Trigger::Low)), (140, 50, None), (140, 51, Some(Trigger::Low))]
    {
        let space = taken(&shape, BandsOptions::paper(), live, garbage);
        assert_eq!(space.wants_cleaning(false), due, "{live} bands live, {garbage} of garbage");
    }
}

#[test]
fn a_host_with_room_in_its_own_band_is_not_stuck() {
    let shape = shape(64, 16, 4);
    let options = BandsOptions { blocks: Blocks::Split, ..BandsOptions::paper() };
    let spare = RESERVE_BANDS + 1;
    let mut space = taken(&shape, options, 40, 64 - 40 - spare);
    let want = AllocationRequest { owner: owner(5000), after: None, count: 15, more: 0, moving: false };
    let span = space.place(&want).unwrap();
    space.written(span, want.owner);
    assert_eq!(space.clean(Trigger::Stuck), None, "a granule of its own band is left");
    let span = space.place(&AllocationRequest { owner: owner(5015), count: 1, ..want }).unwrap();
    space.written(span, owner(5015));
    assert!(space.clean(Trigger::Stuck).is_some());
}
