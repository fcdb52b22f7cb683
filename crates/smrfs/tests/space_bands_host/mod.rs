//! A small file system over one `Space`, and a disk that checks every order it is given.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::{BandReport, BandState, Shape};
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::{AllocationRequest, CleaningStep, Space, Trigger};
use smrfs::units::{Granule, NodeId, Owner, Span};

/// Granule of a file -> granule of the disk and what was written there.
type Map = BTreeMap<(u64, u64), (u64, u64)>;

/// Work of the cleaner.
#[derive(Clone, Copy, Debug, Default)]
#[allow(dead_code)]
pub struct Work {
    pub host: u64,
    pub moved: u64,
    pub most_for_one_write: u64,
    pub stuck: u64,
    pub settles: u64,
}

pub struct Host {
    shape: Shape,
    options: BandsOptions,
    space: BandSpace,
    content: Vec<u64>,
    cursors: Vec<u64>,
    held: Vec<bool>,
    map: Map,
    durable: Map,
    retired: Vec<(u64, Span)>,
    stamp: u64,
    random: Pcg64Mcg,
    /// One of this many writes fails; 0: none.
    failing: u32,
    checked: bool,
    pub work: Work,
    charged: u64,
}

impl Host {
    pub fn new(shape: &Shape, options: BandsOptions, seed: u64) -> Host {
        let count = shape.bands.count as usize;
        let mut host = Host {
            shape: *shape,
            options,
            space: BandSpace::new(shape, options).unwrap(),
            content: vec![0; shape.granules as usize],
            cursors: vec![0; count],
            held: vec![false; count],
            map: Map::new(),
            durable: Map::new(),
            retired: Vec::new(),
            stamp: 0,
            random: Pcg64Mcg::seed_from_u64(seed ^ 0x5eed),
            failing: 0,
            checked: false,
            work: Work::default(),
            charged: 0,
        };
        host.mount();
        host
    }

    /// Everything is compared with a recount after each step.
    pub fn checked(mut self) -> Host {
        self.checked = true;
        self
    }

    /// One of `each` writes fails.
    pub fn failing(mut self, each: u32) -> Host {
        self.failing = each;
        self
    }

    pub fn usable(&self) -> u64 {
        self.space.usable()
    }

    /// Writes as long as it does not go beyond what statfs promised.
    pub fn write_if_room(&mut self, file: u64, at: u64, count: u64) {
        let there = self.map.range((file, at)..(file, at + count)).count() as u64;
        if self.map.len() as u64 + count - there <= self.usable() {
            self.write(file, at, count);
        }
    }

    pub fn write(&mut self, file: u64, at: u64, count: u64) {
        let mut done = 0;
        self.charged = 0;
        while done < count {
            let span = self.put(file, at + done, count - done, count - done, false);
            let span = span.unwrap_or_else(|| self.no_space());
            done += span.count;
            self.work.host += span.count;
        }
        while let Some(why) = self.space.wants_cleaning(false) {
            if !self.step(why) {
                break;
            }
        }
        self.work.most_for_one_write = self.work.most_for_one_write.max(self.charged);
        self.check();
    }

    fn no_space(&self) -> ! {
        panic!(
            "no space with {} of {} in use, {} retired; {:?}\n{:?}\n{:?}\n{}",
            self.map.len(),
            self.usable(),
            self.retired.iter().map(|(_, span)| span.count).sum::<u64>(),
            self.space.counts(),
            self.shape,
            self.options,
            self.picture(),
        )
    }

    /// Live, cursor and whether it was given up, band by band.
    fn picture(&self) -> String {
        let live = |band: usize| {
            let span = self.shape.bands.span(band as u64);
            self.map.values().filter(|(place, _)| span.contains(Span::new(*place, 1))).count()
        };
        let bands = self.cursors.iter().zip(&self.held).enumerate();
        bands
            .map(|(band, (cursor, held))| format!("{}/{cursor}{} ", live(band), if *held { "!" } else { "" }))
            .collect()
    }

    /// Places and writes at most `count`; cleans where a host's block finds no room.
    fn put(&mut self, file: u64, at: u64, count: u64, more: u64, moving: bool) -> Option<Span> {
        let owner = Owner { file: NodeId(file), granule: at };
        let after = at.checked_sub(1).and_then(|before| self.map.get(&(file, before)));
        let after = after.map(|&(place, _)| Granule(place + 1));
        let count = count.min(self.options.block_granules);
        let want = AllocationRequest { owner, after, count, more: more - count, moving };
        for _ in 0..100 {
            let mut span = self.space.place(&want);
            if span.is_none() && !moving {
                self.work.stuck += 1;
                while self.step(Trigger::Stuck) {}
                span = self.space.place(&want);
            }
            let span = span?;
            assert!(0 < span.count && span.count <= count);
            if self.write_disk(span, moving) {
                self.space.written(span, owner);
                self.remap(owner, span, moving);
                return Some(span);
            }
            self.space.failed(span);
        }
        None
    }

    /// The file's map names the new place; the old one is retired.
    fn remap(&mut self, owner: Owner, span: Span, moving: bool) {
        let file = owner.file.0;
        for n in 0..span.count {
            let key = (file, owner.granule + n);
            let place = span.at.0 + n;
            let mut stamp = self.content[place as usize];
            if let Some(&(old, before)) = self.map.get(&key) {
                if moving {
                    stamp = before;
                    self.content[place as usize] = before;
                }
                self.retire(file, Span::new(old, 1));
            }
            self.map.insert(key, (place, stamp));
        }
    }

    fn retire(&mut self, file: u64, span: Span) {
        self.space.retire(span);
        self.retired.push((file, span));
    }

    /// The disk: refuses what is not at a cursor, and more open bands than it allows.
    fn write_disk(&mut self, span: Span, moving: bool) -> bool {
        let band = self.shape.bands.band_at(span.at).expect("a write in a gap") as usize;
        let whole = self.shape.bands.span(band as u64);
        assert!(whole.contains(span), "a write over the end of a band");
        assert_eq!(
            span.at.0,
            whole.at.0 + self.cursors[band],
            "a write not at the cursor of {band}: {}",
            self.picture()
        );
        let fails = self.failing > 0 && !self.held.contains(&true) && self.random.random_ratio(1, self.failing);
        let count = if fails { self.random.random_range(0..span.count + 1) } else { span.count };
        for n in 0..count {
            self.stamp += 1;
            self.content[(span.at.0 + n) as usize] = self.stamp;
        }
        self.cursors[band] += count;
        self.held[band] |= fails;
        self.charged += if moving { count } else { 0 };
        self.work.moved += if moving { count } else { 0 };
        let size = self.shape.bands.granules;
        let open = self.cursors.iter().filter(|&&cursor| cursor > 0 && cursor < size).count() as u64;
        assert!(open <= self.shape.bands.max_open, "{open} bands are open: {}", self.picture());
        !fails
    }

    pub fn punch(&mut self, file: u64, at: u64, count: u64) {
        let gone: Vec<_> =
            self.map.range((file, at)..(file, at + count)).map(|(&key, &place)| (key, place.0)).collect();
        for (key, place) in gone {
            self.map.remove(&key);
            self.retire(file, Span::new(place, 1));
        }
        self.check();
    }

    /// One file's map becomes durable, and what it no longer names is free.
    pub fn commit(&mut self, file: u64) {
        self.durable.retain(|&(whose, _), _| whose != file);
        self.durable.extend(self.map.range((file, 0)..(file + 1, 0)).map(|(&key, &place)| (key, place)));
        let (gone, kept) = std::mem::take(&mut self.retired).into_iter().partition(|&(whose, _)| whose == file);
        self.retired = kept;
        let gone: Vec<(u64, Span)> = gone;
        for (_, span) in gone {
            self.space.release(span);
        }
        self.check();
    }

    pub fn commit_all(&mut self) {
        if self.checked {
            self.durable.clone_from(&self.map);
        }
        for (_, span) in std::mem::take(&mut self.retired) {
            self.space.release(span);
        }
        self.check();
    }

    pub fn close(&mut self, file: u64) {
        self.space.closed(NodeId(file));
    }

    pub fn idle(&mut self, steps: u64) {
        for _ in 0..steps {
            let Some(why) = self.space.wants_cleaning(true) else { return };
            self.step(why);
        }
        self.check();
    }

    /// One step of cleaning; tells whether there was one.
    fn step(&mut self, why: Trigger) -> bool {
        match self.space.clean(why) {
            None => return false,
            Some(CleaningStep::Settle) => {
                self.work.settles += 1;
                // Maps of some files may not fit: their retired data stays.
                if self.checked && why != Trigger::Stuck && self.random.random_ratio(1, 4) {
                    let file = self.random.random_range(1..9);
                    self.commit(file);
                } else {
                    self.commit_all();
                }
            }
            Some(CleaningStep::Reset(band)) => self.reset(band),
            Some(CleaningStep::Move(span, owner)) => self.carry(span, owner),
        }
        self.check();
        true
    }

    fn carry(&mut self, span: Span, owner: Owner) {
        assert!(span.count <= self.options.block_granules);
        let mut done = 0;
        while done < span.count {
            let (place, stamp) = self.map[&(owner.file.0, owner.granule + done)];
            assert_eq!(place, span.at.0 + done, "a piece to be moved is not where the map has it");
            assert_eq!(self.content[place as usize], stamp, "granule {place} was damaged");
            let left = span.count - done;
            match self.put(owner.file.0, owner.granule + done, left, left, true) {
                Some(put) => done += put.count,
                None => return,
            }
        }
    }

    fn reset(&mut self, band: u64) {
        let span = self.shape.bands.span(band);
        let named = |map: &Map| map.values().any(|&(place, _)| span.contains(Span::new(place, 1)));
        if self.checked {
            assert!(!named(&self.map), "band {band} is reset and a map in memory names it");
            assert!(!named(&self.durable), "band {band} is reset and a durable map names it");
        }
        self.cursors[band as usize] = 0;
        self.held[band as usize] = false;
        self.content[span.at.0 as usize..span.end().0 as usize].fill(0);
        self.space.was_reset(band);
    }

    /// Cuts the power: data that are not durable are gone; the file system is mounted again.
    pub fn cut_power(&mut self) {
        self.map = self.durable.clone();
        self.retired.clear();
        self.held.fill(false);
        self.space = BandSpace::new(&self.shape, self.options).unwrap();
        self.mount();
        self.read_all();
        self.check();
    }

    /// As `cut_power`, in the midst of cleaning with only some maps durable.
    pub fn cut_power_in_cleaning(&mut self) {
        let steps = self.random.random_range(1..30);
        for _ in 0..steps {
            let Some(why) = self.space.wants_cleaning(true) else { break };
            if !matches!(self.space.clean(why), Some(step) if self.carried(step)) {
                break;
            }
        }
        self.cut_power();
    }

    fn carried(&mut self, step: CleaningStep) -> bool {
        match step {
            CleaningStep::Move(span, owner) => self.carry(span, owner),
            CleaningStep::Reset(band) => self.reset(band),
            CleaningStep::Settle => return false,
        }
        true
    }

    fn mount(&mut self) {
        for (&(file, granule), &(place, _)) in &self.map {
            assert!(self.space.adopt(Span::new(place, 1), Owner { file: NodeId(file), granule }));
        }
        let report: Vec<BandReport> = (0..self.shape.bands.count).map(|band| self.report(band)).collect();
        self.space.start(&report);
    }

    fn report(&self, band: u64) -> BandReport {
        let cursor = self.cursors[band as usize];
        let state = match cursor {
            0 => BandState::Empty,
            _ if cursor == self.shape.bands.granules => BandState::Full,
            _ => BandState::Open,
        };
        let start = self.shape.bands.span(band).at;
        BandReport { start, cursor: start + cursor, state }
    }

    pub fn read_all(&self) {
        for (key, &(place, stamp)) in &self.map {
            assert_eq!(self.content[place as usize], stamp, "{key:?} at {place} was damaged");
        }
    }

    fn check(&self) {
        if !self.checked {
            return;
        }
        if let Err(wrong) = self.space.check() {
            panic!("{wrong}");
        }
        let counts = self.space.counts();
        let size = self.shape.bands.granules;
        let retired: u64 = self.retired.iter().map(|(_, span)| span.count).sum();
        assert_eq!(counts.retired, retired);
        assert_eq!(counts.readable, self.map.len() as u64 + retired);
        let bands = self.cursors.iter().zip(&self.held);
        let written: u64 = bands.map(|(&cursor, &held)| if held { size } else { cursor }).sum();
        let all = self.shape.bands.count * size;
        assert_eq!(counts.garbage, written - counts.readable);
        assert_eq!(counts.garbage + counts.writable, all - counts.readable);
        assert_eq!(counts.readable + counts.not_writable + counts.write_once + counts.writable, self.shape.granules);
    }
}
