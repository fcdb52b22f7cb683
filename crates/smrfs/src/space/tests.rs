//! Decisions of the allocators and the cleaners, one by one: the same random host on each gets the same places and steps as ever.
//!
//! No other test says which of several good places is taken, or when cleaning begins and ends: so the answers that a fixed host
//! gets are summed up, and held here. A change on purpose writes the figures anew: they are what the test shows.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::bands::BandSpace;
use super::bands::{BandsOptions, Blocks, CleaningQuota, Reset};
use super::caveat::{Caveat, CaveatOptions, Placement};
use super::{AllocationRequest, CleaningStep, Live, Space, Trigger};
use crate::device::{BandReport, Bands, Model, Shape};
use crate::units::{Granule, NodeId, Owner, Span};

const FILES: u64 = 12;
const FILE_GRANULES: u64 = 60;

/// Counts of what was decided, and a sum over every detail of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decisions {
    placed: u64,
    refused: u64,
    moved: u64,
    settled: u64,
    reset: u64,
    sum: u64,
}

impl Decisions {
    /// Takes some numbers into the sum, by FNV-1a.
    fn note(&mut self, numbers: &[u64]) {
        for &number in numbers {
            self.sum = (self.sum ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A host that writes, overwrites and deletes at random.
struct Host<S: Space> {
    space: S,
    dice: Pcg64Mcg,
    /// The place of each granule of each file.
    maps: BTreeMap<(u64, u64), u64>,
    retired: Vec<Span>,
    /// Granules that files may hold.
    most: u64,
    told: Decisions,
}

impl<S: Space> Host<S> {
    fn new(mut space: S, report: &[BandReport]) -> Host<S> {
        space.start(report);
        let most = space.usable();
        let dice = Pcg64Mcg::seed_from_u64(11);
        Host { space, dice, maps: BTreeMap::new(), retired: Vec::new(), most, told: Decisions::default() }
    }

    /// One of `of` times.
    fn one_of(&mut self, of: u32) -> bool {
        self.dice.random_range(0..of) == 0
    }

    /// The file's granules are no longer at these places.
    fn retire(&mut self, places: Vec<u64>) {
        for at in places {
            let span = Span::new(at, 1);
            self.space.retire(span);
            self.retired.push(span);
        }
    }

    fn settle(&mut self) {
        for span in std::mem::take(&mut self.retired) {
            self.space.release(span);
        }
    }

    /// Writes what was placed, unless the disk fails.
    fn arrive(&mut self, span: Span, owner: Owner) -> bool {
        if self.one_of(150) {
            self.space.failed(span);
            return false;
        }
        self.space.written(span, owner);
        let old = (0..span.count).filter_map(|i| self.maps.insert((owner.file.0, owner.granule + i), span.at.0 + i));
        let old = old.collect();
        self.retire(old);
        true
    }

    fn write(&mut self, file: u64, mut granule: u64, mut count: u64) {
        while count > 0 {
            let after = granule.checked_sub(1).and_then(|before| self.maps.get(&(file, before)));
            let want = AllocationRequest {
                owner: Owner { file: NodeId(file), granule },
                after: after.map(|&at| Granule(at + 1)),
                count: count.min(8),
                more: count - count.min(8),
                moving: false,
            };
            let Some(span) = self.space.place(&want) else {
                if self.clean(Trigger::Stuck) {
                    continue;
                }
                self.told.refused += 1;
                return;
            };
            self.told.placed += 1;
            self.told.note(&[1, span.at.0, span.count]);
            if self.arrive(span, want.owner) {
                (granule, count) = (granule + span.count, count - span.count);
            }
            for _ in 0..4 {
                let Some(why) = self.space.wants_cleaning(false) else { break };
                if !self.clean(why) {
                    break;
                }
            }
        }
    }

    /// Does one step of cleaning; false if there was none.
    fn clean(&mut self, why: Trigger) -> bool {
        let step = self.space.clean(why);
        match step {
            None => self.told.note(&[2]),
            Some(CleaningStep::Move(span, owner)) => {
                self.told.moved += span.count;
                self.told.note(&[3, span.at.0, span.count]);
                if self.one_of(200) {
                    self.space.mark_unmovable(span);
                    return true;
                }
                let mut done = 0;
                while done < span.count {
                    let owner = owner.further(done);
                    let want =
                        AllocationRequest { owner, after: None, count: span.count - done, more: 0, moving: true };
                    let Some(to) = self.space.place(&want) else { break };
                    self.told.note(&[4, to.at.0, to.count]);
                    if !self.arrive(to, owner) {
                        break;
                    }
                    done += to.count;
                }
            }
            Some(CleaningStep::Settle) => {
                self.told.settled += 1;
                self.told.note(&[5]);
                self.settle();
            }
            Some(CleaningStep::Reset(band)) => {
                self.told.reset += 1;
                self.told.note(&[6, band]);
                if self.one_of(40) { self.space.reset_failed(band) } else { self.space.was_reset(band) }
            }
        }
        step.is_some()
    }

    fn act(&mut self) {
        let file = self.dice.random_range(0..FILES);
        let live = self.maps.len() as u64;
        match self.dice.random_range(0..20) {
            0..14 => {
                let granule = self.dice.random_range(0..FILE_GRANULES);
                let count = [1, 3, 8, 30][self.dice.random_range(0..4)].min(FILE_GRANULES - granule);
                if live + count <= self.most {
                    self.write(file, granule, count);
                }
            }
            14 => {
                let places = self.maps.extract_if((file, 0)..(file + 1, 0), |_, _| true).map(|(_, at)| at).collect();
                self.retire(places);
            }
            15..17 => self.space.closed(NodeId(file)),
            17 => self.settle(),
            _ => {
                for _ in 0..10 {
                    let Some(why) = self.space.wants_cleaning(true) else { break };
                    if !self.clean(why) {
                        break;
                    }
                }
            }
        }
        let counts = self.space.counts();
        let due = [false, true].map(|idle| self.space.wants_cleaning(idle).map_or(9, |why| why as u64));
        self.told.note(&[due[0], due[1], counts.readable, counts.writable, counts.write_once, counts.garbage]);
    }

    fn live_long(mut self) -> [u64; 6] {
        for step in 0..1200 {
            self.act();
            if step % 100 == 99 {
                self.space.check().unwrap();
                let live: u64 = self.space.live().from(Granule(0)).map(|(span, _)| span.count).sum();
                assert_eq!(live, self.maps.len() as u64);
            }
        }
        let Decisions { placed, refused, moved, settled, reset, sum } = self.told;
        [placed, refused, moved, settled, reset, sum]
    }
}

fn on_bands(count: u64, granules: u64, gap_granules: u64, options: BandsOptions) -> [u64; 6] {
    let bands = Bands { count, granules, gap_granules, max_open: 8 };
    let all = count * (granules + gap_granules);
    let shape =
        Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: all, did: gap_granules, dpid: 0, bands };
    let report: Vec<BandReport> = (0..count).map(|band| BandReport::new(bands.span(band), 0, None)).collect();
    Host::new(BandSpace::new(&shape, options).unwrap(), &report).live_long()
}

fn on_gaps(granules: u64, did: u64, dpid: u64, options: CaveatOptions) -> [u64; 6] {
    let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
    let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules, did, dpid, bands };
    Host::new(Caveat::new(&shape, options).unwrap(), &[]).live_long()
}

#[test]
fn strict_append_decides_as_ever() {
    let small = BandsOptions { block_granules: 8, event_granules: 30, ..BandsOptions::default() };
    let paper = BandsOptions { block_granules: 8, event_granules: 30, ..BandsOptions::paper() };
    let found = [
        on_bands(64, 10, 2, small),
        on_bands(70, 10, 0, BandsOptions { reset: Reset::Lazy, ..small }),
        on_bands(96, 7, 1, BandsOptions { blocks: Blocks::Whole, ..small }),
        on_bands(64, 10, 2, BandsOptions { pace: CleaningQuota::Event, ..small }),
        on_bands(128, 5, 1, paper),
        on_bands(64, 12, 0, BandsOptions { idle_dead_percent: 50, ..small }),
        on_bands(10, 40, 3, BandsOptions { writers: 2, ..small }),
    ];
    let expected = [
        [1837, 0, 2766, 416, 974, 415253497118135201],
        [1943, 0, 1792, 444, 922, 3979575648829357929],
        [1678, 0, 1159, 212, 1171, 1570502143252229759],
        [1792, 0, 2598, 386, 953, 899963162662962864],
        [1827, 0, 1717, 369, 1634, 2749233879589532616],
        [1729, 0, 1301, 241, 700, 17162812194753104022],
        [273, 0, 406, 29, 31, 14601347773567505886],
    ];
    assert_eq!(found, expected);
}

#[test]
fn caveat_scriptor_decides_as_ever() {
    let small = CaveatOptions { block_granules: 8, ..CaveatOptions::default() };
    let with = |placement| CaveatOptions { placement, ..small.clone() };
    let found = [
        on_gaps(900, 4, 2, small.clone()),
        on_gaps(900, 2, 5, with(Placement::NextFit)),
        on_gaps(900, 4, 0, with(Placement::FirstFit)),
        on_gaps(900, 0, 4, with(Placement::BestFit)),
        on_gaps(900, 3, 3, with(Placement::Reservation)),
        on_gaps(1000, 4, 2, CaveatOptions { split: false, ..small.clone() }),
        on_gaps(900, 4, 2, CaveatOptions { defragment: false, ..small.clone() }),
        on_gaps(500, 1, 1, small),
    ];
    let expected = [
        [1306, 0, 7374, 685, 0, 9282432541742640421],
        [1265, 0, 4836, 259, 0, 5836754539899816207],
        [1297, 0, 3016, 545, 0, 7604496967472145893],
        [1234, 0, 4683, 302, 0, 11630693914738082477],
        [1251, 0, 4965, 532, 0, 16127775483851121384],
        [1334, 0, 1368, 266, 0, 6017508212201083810],
        [1150, 82, 0, 94, 0, 7146618458968604213],
        [577, 0, 5197, 544, 0, 10960355628057483136],
    ];
    assert_eq!(found, expected);
}

fn owner(file: u64, granule: u64) -> Owner {
    Owner { file: NodeId(file), granule }
}

#[test]
fn neighbours_of_one_file_are_joined_and_split_again() {
    let mut live = Live::default();
    assert!(live.insert(Span::new(10, 5), owner(1, 0)));
    assert!(live.insert(Span::new(20, 5), owner(1, 10)));
    assert!(live.insert(Span::new(15, 5), owner(1, 5)));
    assert_eq!(live.extents(), 1);
    assert!(!live.insert(Span::new(24, 3), owner(2, 0)), "24 is taken");
    assert!(live.insert(Span::new(25, 3), owner(2, 15)), "another file goes on");
    assert_eq!(live.extents(), 2);
    assert_eq!(live.remove(Span::new(12, 14)), 14);
    let left: Vec<_> = live.from(Granule(0)).collect();
    assert_eq!(left, [(Span::new(10, 2), owner(1, 0)), (Span::new(26, 2), owner(2, 16))]);
    assert_eq!(live.granules(), 4);
    assert_eq!(live.before(Granule(26)), Some((Span::new(10, 2), owner(1, 0))));
    assert_eq!(live.within(Span::new(11, 16)).count(), 2);
    assert_eq!(live.within(Span::new(12, 14)).count(), 0);
}

#[test]
fn a_span_is_held_by_one_place_of_one_file() {
    let mut live = Live::default();
    assert!(live.insert(Span::new(10, 5), owner(1, 7)));
    assert!(live.insert(Span::new(15, 5), owner(2, 0)));
    assert!(live.holds(Span::new(10, 5), owner(1, 7)) && live.holds(Span::new(12, 2), owner(1, 9)));
    assert!(live.holds(Span::new(30, 0), owner(3, 0)), "nothing is held by anyone");
    for (span, whose) in [
        (Span::new(12, 2), owner(1, 7)),
        (Span::new(12, 2), owner(2, 9)),
        (Span::new(9, 2), owner(1, 6)),
        (Span::new(13, 4), owner(1, 10)),
        (Span::new(18, 4), owner(2, 3)),
        (Span::new(40, 1), owner(1, 0)),
        (Span::new(10, 5), owner(1, u64::MAX)),
    ] {
        assert!(!live.holds(span, whose), "{span} {whose:?}");
    }
}
