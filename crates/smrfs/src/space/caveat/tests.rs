//! The closed forms of the safety rule; and ledger and allocator compared with a disk kept granule by granule, whose history is
//! remembered whole.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::device::{Bands, Model};

fn shape(granules: u64, did: u64, dpid: u64) -> Shape {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    Shape { model: Model::Caveat, granule_bytes: 4096, granules, did, dpid, bands }
}

fn space(granules: u64, did: u64, dpid: u64) -> Caveat {
    let options = CaveatOptions { block_granules: 4, ..CaveatOptions::default() };
    Caveat::new(&shape(granules, did, dpid), options).expect("possible")
}

fn owner(file: u64, granule: u64) -> Owner {
    Owner { file: NodeId(file), granule }
}

/// R, NW, WO, W.
fn labels(space: &Caveat) -> [u64; 4] {
    space.check().expect("the recount agrees");
    let counts = space.counts();
    let all = [counts.readable, counts.not_writable, counts.write_once, counts.writable];
    assert_eq!(all.iter().sum::<u64>(), space.ledger.granules);
    all
}

fn free(space: &mut Caveat, span: Span) {
    space.retire(span);
    space.release(span);
}

#[test]
fn the_rows_of_the_papers_figure_2() {
    let mut space = space(200, 8, 5);
    space.written(Span::new(50, 20), owner(1, 0));
    assert_eq!(labels(&space), [20, 8, 5, 167], "row 2");
    space.written(Span::new(70, 20), owner(1, 20));
    assert_eq!(labels(&space), [40, 8, 5, 147], "row 3");
    free(&mut space, Span::new(70, 20));
    assert_eq!(labels(&space), [20, 13, 0, 167], "row 4");
}

#[test]
fn closed_forms_of_deleting() {
    for (did, dpid) in [(8, 5), (5, 8), (0, 3), (3, 0), (0, 0)] {
        for deleted in 1..30 {
            let mut space = space(300, did, dpid);
            for part in 0..5 {
                space.written(Span::new(100 + 20 * part, 20), owner(1, 20 * part));
            }
            assert_eq!(labels(&space), [100, did, dpid, 200 - did - dpid]);
            free(&mut space, Span::new(130, deleted));
            let writable = deleted.saturating_sub(did + dpid);
            let lost = deleted - writable;
            assert_eq!(labels(&space), [100 - deleted, did + lost, dpid, 200 - did - dpid + writable]);
            // Free cleaning: with the last of the run its gaps come back.
            free(&mut space, Span::new(100, 30));
            free(&mut space, Span::new(130 + deleted, 70 - deleted));
            assert_eq!(labels(&space), [0, 0, 0, 300]);
        }
    }
}

#[test]
fn after_a_mount_what_is_dead_below_live_data_is_not_writable() {
    let mut space = space(300, 8, 5);
    assert!(space.adopt(Span::new(100, 20), owner(1, 0)));
    assert!(space.adopt(Span::new(122, 20), owner(2, 0)));
    assert!(!space.adopt(Span::new(141, 2), owner(3, 0)), "141 is another's");
    assert!(!space.adopt(Span::new(299, 2), owner(3, 0)), "beyond the disk");
    space.start(&[]);
    assert_eq!(labels(&space), [40, 8 + 2 + 5, 0, 300 - 55]);
}

#[test]
fn a_failed_write_is_not_retried_in_place() {
    let mut space = space(1000, 0, 0);
    let want = AllocationRequest { owner: owner(1, 0), after: None, count: 4, more: 0, moving: false };
    let mut tried: Vec<Span> = Vec::new();
    for _ in 0..20 {
        let span = space.place(&want).expect("room");
        assert!(tried.iter().all(|before| before.overlap(span).is_none()), "{span} again");
        space.failed(span);
        tried.push(span);
    }
}

#[test]
fn a_failed_write_counts_as_written() {
    let mut space = space(200, 8, 5);
    space.written(Span::new(50, 20), owner(1, 0));
    space.failed(Span::new(70, 3));
    assert_eq!(labels(&space), [20, 8 + 3, 2, 167]);
}

#[test]
fn two_writers_do_not_interleave() {
    let mut space = space(10_000, 8, 5);
    let mut ends = [None, None];
    for block in 0..60 {
        for file in [0, 1] {
            let want = AllocationRequest {
                owner: owner(file, 4 * block),
                after: ends[file as usize],
                count: 4,
                more: 0,
                moving: false,
            };
            let span = space.place(&want).expect("room");
            space.written(span, want.owner);
            ends[file as usize] = Some(span.end());
        }
    }
    let most = 2 * 60 / RESERVED_BLOCKS as usize + 1;
    assert!(space.live.extents() <= most, "{} extents", space.live.extents());
}

#[test]
fn a_disk_without_room_beside_its_gaps_is_refused() {
    for (granules, did, dpid) in [(10, 100, 0), (10, 4, 4), (0, 0, 0), (100, u64::MAX, 1)] {
        let error = Caveat::new(&shape(granules, did, dpid), CaveatOptions::default()).unwrap_err();
        assert!(error.to_string().contains("larger disk"), "{error}");
    }
}

/// History of one granule, as one who forgets nothing knows it.
#[derive(Clone, Copy, Default)]
struct Known {
    readable: bool,
    /// When it was last written; 0: never.
    written: u64,
}

/// The rule, word by word, on the whole history. NW, WO, W.
fn by_the_law(disk: &[Known], did: usize, dpid: usize) -> [u64; 3] {
    let mut counts = [0; 3];
    for (here, known) in disk.iter().enumerate().filter(|(_, known)| !known.readable) {
        let below = &disk[here + 1..disk.len().min(here + 1 + did)];
        let above = &disk[here.saturating_sub(dpid)..here];
        let harmed = above.iter().any(|x| x.readable && known.written >= x.written);
        let label = match () {
            () if below.iter().any(|x| x.readable) || harmed => 0,
            () if above.iter().any(|x| x.readable) => 1,
            () => 2,
        };
        counts[label] += 1;
    }
    counts
}

#[test]
fn any_order_of_operations_leaves_what_the_whole_history_says() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for _ in 0..60 {
        let granules = random.random_range(60..400);
        let (did, dpid) = (random.random_range(0..12), random.random_range(0..12));
        let options =
            CaveatOptions { block_granules: random.random_range(1..6), defragment: false, ..Default::default() };
        let Ok(mut space) = Caveat::new(&shape(granules, did, dpid), options) else { continue };
        let mut disk = vec![Known::default(); granules as usize];
        let (mut live, mut retired) = (Vec::<Span>::new(), Vec::<Span>::new());
        for time in 1..400 {
            match random.random_range(0..10) {
                0..=5 => {
                    let after = (!live.is_empty() && random.random_bool(0.5))
                        .then(|| live[random.random_range(0..live.len())].end());
                    let whose = owner(time, 0);
                    let want = AllocationRequest {
                        owner: whose,
                        after,
                        count: random.random_range(1..6),
                        more: 0,
                        moving: false,
                    };
                    let Some(span) = space.place(&want) else { continue };
                    let failed = random.random_bool(0.1);
                    if failed {
                        space.failed(span)
                    } else {
                        space.written(span, whose)
                    }
                    if !failed {
                        live.push(span)
                    }
                    for known in &mut disk[span.at.0 as usize..span.end().0 as usize] {
                        assert!(!known.readable);
                        *known = Known { readable: !failed, written: time };
                    }
                }
                6 | 7 if !live.is_empty() => {
                    let whole = live.swap_remove(random.random_range(0..live.len()));
                    let kept = random.random_range(0..whole.count);
                    if kept > 0 {
                        live.push(Span { count: kept, ..whole })
                    }
                    let gone = Span { at: whole.at + kept, count: whole.count - kept };
                    space.retire(gone);
                    retired.push(gone);
                }
                8 if !retired.is_empty() => {
                    let gone = retired.swap_remove(random.random_range(0..retired.len()));
                    space.release(gone);
                    for known in &mut disk[gone.at.0 as usize..gone.end().0 as usize] {
                        known.readable = false;
                    }
                }
                _ => {}
            }
            let [readable, not_writable, once, free] = labels(&space);
            let law = by_the_law(&disk, did as usize, dpid as usize);
            assert_eq!([not_writable, once, free], law, "DID {did}, DPID {dpid}, {granules}");
            assert_eq!(readable, disk.iter().filter(|known| known.readable).count() as u64);
        }
    }
}

#[test]
fn the_search_for_a_window_is_bounded_however_small_the_pieces() {
    let mut space = space(200_000, 8, 5);
    for at in (0..190_000).step_by(2) {
        assert!(space.adopt(Span::new(at, 1), owner(at, 0)));
    }
    space.start(&[]);
    let (_, visited) = space.sample(4000);
    assert!((16_000..=16 * 4001).contains(&visited), "{visited} extents");
}

#[test]
fn cleaning_for_one_write_ends_after_the_disk_was_moved_a_few_times() {
    let mut space = space(1000, 8, 5);
    for at in (0..400).step_by(20) {
        assert!(space.adopt(Span::new(at, 3), owner(at, 0)));
    }
    space.start(&[]);
    assert!(matches!(space.clean(Trigger::Stuck), Some(CleaningStep::Move(..))));
    space.progress.moved(4 * 1000 - 3);
    assert!(space.clean(Trigger::Stuck).is_some());
    space.progress.moved(4 * 1000);
    assert_eq!(space.clean(Trigger::Stuck), None);
    space.raise_budget(1);
    assert!(space.clean(Trigger::Stuck).is_some(), "for the next one");
}

#[test]
fn a_small_disk_takes_a_block_in_pieces_of_a_unit_and_no_less() {
    let options = CaveatOptions { block_granules: 8, ..CaveatOptions::default() };
    let fragmented = |run: u64| {
        let mut space = Caveat::new(&shape(256, 0, 0), options.clone()).expect("possible");
        assert_eq!(space.ledger.runs.unit, 4, "a 64th of the disk");
        for at in (0..256).step_by(run as usize + 1) {
            assert!(space.adopt(Span::new(at, 1), owner(at, 0)));
        }
        space.start(&[]);
        let want = AllocationRequest { owner: owner(1, 0), after: None, count: 8, more: 0, moving: false };
        space.place(&want).map(|span| span.count)
    };
    assert_eq!(fragmented(8), Some(8), "whole where a run holds it");
    assert_eq!(fragmented(6), Some(6));
    assert_eq!(fragmented(3), None, "cleaning makes longer ones");
}

#[test]
fn names_round_trip_and_others_are_refused_with_the_choices() {
    for placement in Placement::ALL {
        assert_eq!(placement.name().parse::<Placement>().unwrap(), placement);
        assert_eq!(serde_json::to_value(placement).unwrap(), placement.name());
    }
    let error = "worst-fit".parse::<Placement>().unwrap_err().to_string();
    assert!(error.contains("worst-fit") && error.contains("next-fit"), "{error}");
}

#[test]
fn room_is_kept_from_others_until_the_file_is_closed() {
    let mut reservations = Reservations::default();
    let (a, b) = (NodeId(1), NodeId(2));
    reservations.renew(a, 10, 20, 1);
    assert_eq!(reservations.others(b, 15, 30), Some((10, 20)));
    assert_eq!(reservations.others(a, 15, 30), None);
    reservations.renew(b, 5, 30, 1);
    assert_eq!(reservations.others(a, 0, 30), Some((5, 10)), "up to where another's begins");
    reservations.end(a);
    assert_eq!(reservations.others(b, 0, 100), None);
    for file in 0..100 {
        reservations.renew(NodeId(file), 1000 + 10 * file, 1005 + 10 * file, 1);
    }
    assert!(
        reservations.by_file.len() <= RESERVATIONS_MAX && reservations.by_start.len() == reservations.by_file.len()
    );
}

#[test]
fn files_fill_95_percent_of_8_gib_and_less_of_little_disks() {
    let share = |mib: u64, did_mib: u64, dpid_mib: u64| {
        let reserve = Reserve::new(mib * 256, did_mib * 256, dpid_mib * 256, 256);
        reserve.usable as f64 / reserve.granules as f64
    };
    for (did, dpid) in [(1, 1), (2, 0), (0, 2)] {
        assert!(share(8190, did, dpid) >= 0.95, "{did}/{dpid}: {}", share(8190, did, dpid));
    }
    assert!(share(8192, 3, 1) >= 0.93);
    assert!(share(2048, 1, 1) >= 0.88, "{}", share(2048, 1, 1));
    assert!(share(64, 1, 1) > 0.3 && share(64, 1, 1) < 0.6, "{}", share(64, 1, 1));
}

#[test]
fn the_reserve_grows_with_readable_data_up_to_usable() {
    for (granules, gap) in [(2_000_000, 256), (500_000, 256), (16_384, 256), (700, 1)] {
        let reserve = Reserve::new(granules, gap, gap, gap);
        let usable = reserve.usable;
        let rooms: Vec<u64> = (0..=20).map(|part| reserve.beside(usable * part / 20).expect("fits")).collect();
        assert!(rooms.is_sorted(), "{rooms:?}");
        assert!(rooms[20] + reserve.loss < granules - usable, "{rooms:?}");
    }
}
