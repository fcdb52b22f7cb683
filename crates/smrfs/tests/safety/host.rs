//! A host without a file system: writes, partial frees, late releases, cleaning, failed writes, remounts and crashes, over
//! an allocator and a watched disk, whose books must agree after each.

use std::sync::{Arc, Mutex};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::HostManaged;
use smrfs::device::stacked;
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::safety::counts::{Counting, Order};
use smrfs::space::{AllocationRequest, CleaningStep, Space, Trigger};
use smrfs::units::{Granule, NodeId, Owner, Span};
use smrkit::tally::Cause;

const FILES: u64 = 6;
/// More steps than that in one go, and cleaning never ends.
const STEPS_MAX: u64 = 100_000;

/// Fails a write when told so, after a part of it.
pub struct Failing {
    disk: Arc<dyn HostManaged>,
    next: Mutex<Option<u64>>,
}

impl stacked::Stacked for Failing {
    type Below = dyn HostManaged;

    fn below(&self) -> &Self::Below {
        &*self.disk
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        match self.next.lock().unwrap().take() {
            None => self.below().write(at, data, cause),
            Some(granules) => {
                let part = data.part(0, (granules * self.below().shape().granule_bytes).min(data.bytes()));
                if part.bytes() > 0 {
                    self.below().write(at, part, cause)?;
                }
                Err(DeviceError::Io(std::io::Error::other("a write that was to fail")))
            }
        }
    }
}

/// Something written: what a map would name.
#[derive(Clone, Copy, Debug)]
struct Piece {
    span: Span,
    owner: Owner,
    /// Value that the granule was filled with.
    value: u8,
    /// True if a durable map names it.
    durable: bool,
}

impl Piece {
    fn part(self, from: u64, count: u64) -> Piece {
        let span = Span { at: self.span.at + from, count };
        Piece { span, owner: self.owner.further(from), ..self }
    }
}

/// Behaviour of a host.
pub struct Manner {
    /// The largest write, in granules.
    pub write_max: u64,
    /// Share of the usable granules that are kept live, in percent.
    pub fill: u64,
    /// True if data comes back and is compared.
    pub bytes: bool,
    /// Operations between full checks.
    pub check_every: u64,
    /// One write of this many fails; 0: none.
    pub fails: u64,
    /// One operation of this many is a remount.
    pub remounts: u64,
}

pub struct Host<'a> {
    pub disk: Counting<Failing>,
    space: Box<dyn Space>,
    make: &'a dyn Fn() -> Box<dyn Space>,
    manner: Manner,
    live: Vec<Piece>,
    retired: Vec<Piece>,
    lengths: [u64; FILES as usize],
    ends: [Option<Granule>; FILES as usize],
    random: Pcg64Mcg,
    pub operations: u64,
    pub moved: u64,
    pub refused: u64,
}

impl<'a> Host<'a> {
    pub fn new(
        disk: Arc<dyn HostManaged>,
        make: &'a dyn Fn() -> Box<dyn Space>,
        manner: Manner,
        seed: u64,
    ) -> Host<'a> {
        let disk = Counting::new(Failing { disk, next: Mutex::new(None) });
        let mut host = Host {
            disk,
            space: make(),
            make,
            manner,
            live: Vec::new(),
            retired: Vec::new(),
            lengths: [0; FILES as usize],
            ends: [None; FILES as usize],
            random: Pcg64Mcg::seed_from_u64(seed),
            operations: 0,
            moved: 0,
            refused: 0,
        };
        host.space.start(&host.disk.report(0, u64::MAX).unwrap());
        host.agree("an empty disk");
        host
    }

    fn chance(&mut self, of: u64) -> bool {
        of > 0 && self.random.random_range(0..of) == 0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.random_range(0..n.max(1))
    }

    /// One random operation.
    pub fn step(&mut self) {
        self.operations += 1;
        let full = self.space.live().granules() * 100 > self.space.usable() * self.manner.fill;
        match self.below(100) {
            _ if self.chance(self.manner.remounts) => self.remount(),
            0..60 if !full => self.append(),
            0..30 => self.overwrite(),
            30..60 => self.free(),
            60..70 => self.overwrite(),
            70..78 => self.free(),
            78..79 => self.delete(),
            79..92 => self.release_some(),
            92..97 => self.clean(),
            _ => {
                let file = self.below(FILES);
                self.space.closed(NodeId(file));
                self.agree("closed");
            }
        }
        if self.operations.is_multiple_of(self.manner.check_every) {
            self.check();
        }
    }

    fn append(&mut self) {
        let file = self.below(FILES);
        let owner = Owner { file: NodeId(file), granule: self.lengths[file as usize] };
        let (count, more) = (1 + self.below(self.manner.write_max), self.below(3) * self.manner.write_max);
        let after = self.ends[file as usize];
        let written = self.put(AllocationRequest { owner, after, count, more, moving: false });
        self.lengths[file as usize] += written;
    }

    fn overwrite(&mut self) {
        if self.live.is_empty() {
            return self.append();
        }
        let old = self.live[self.random.random_range(0..self.live.len())];
        let count = 1 + self.below(self.manner.write_max.min(old.span.count));
        let from = self.below(old.span.count - count + 1);
        let owner = old.owner.further(from);
        let after = (from > 0).then_some(old.span.at + from);
        let written = self.put(AllocationRequest { owner, after, count, more: 0, moving: false });
        // The cleaner may have moved some of it.
        let found: Vec<Span> =
            self.live.iter().filter(|piece| piece.owner == old.owner).map(|piece| piece.span).collect();
        if found.contains(&old.span) && written > 0 {
            self.retire(Span { at: old.span.at + from, count: written });
        }
    }

    fn free(&mut self) {
        if let Some(index) = (!self.live.is_empty()).then(|| self.random.random_range(0..self.live.len())) {
            let span = self.live[index].span;
            let count = if self.chance(2) { span.count } else { 1 + self.below(span.count) };
            let from = self.below(span.count - count + 1);
            self.retire(Span { at: span.at + from, count });
        }
    }

    fn delete(&mut self) {
        let file = NodeId(self.below(FILES));
        let spans: Vec<Span> =
            self.live.iter().filter(|piece| piece.owner.file == file).map(|piece| piece.span).collect();
        spans.into_iter().for_each(|span| self.retire(span));
        self.ends[file.0 as usize] = None;
    }

    /// Some maps become durable: new data is safe, and old data of no use any more.
    fn release_some(&mut self) {
        for _ in 0..self.below(6) {
            if !self.live.is_empty() {
                let index = self.random.random_range(0..self.live.len());
                self.live[index].durable = true;
            }
            if !self.retired.is_empty() {
                let index = self.random.random_range(0..self.retired.len());
                self.release(index);
            }
        }
    }

    fn settle(&mut self) {
        self.live.iter_mut().for_each(|piece| piece.durable = true);
        while !self.retired.is_empty() {
            self.release(self.retired.len() - 1);
        }
    }

    fn release(&mut self, index: usize) {
        let gone = self.retired.swap_remove(index);
        self.space.release(gone.span);
        self.disk.discard(gone.span);
        self.agree("release");
    }

    fn clean(&mut self) {
        let idle = self.chance(2);
        let Some(why) = self.space.wants_cleaning(idle) else { return };
        for _ in 0..1 + self.below(20) {
            let Some(step) = self.space.clean(why) else { return };
            if !self.carry_out(step) {
                return;
            }
        }
    }

    /// Writes as much of what is wanted as there is room for; tells how much.
    fn put(&mut self, want: AllocationRequest) -> u64 {
        let mut done = 0;
        while done < want.count {
            let owner = want.owner.further(done);
            let rest = AllocationRequest { owner, count: want.count - done, ..want };
            let Some(span) = self.place(&rest) else {
                self.refused += 1;
                break;
            };
            if self.write(span, owner, None) {
                self.ends[owner.file.0 as usize] = Some(span.end());
                done += span.count;
            }
        }
        done
    }

    fn place(&mut self, want: &AllocationRequest) -> Option<Span> {
        for _ in 0..STEPS_MAX {
            let placed = self.space.place(want);
            if let Some(span) = placed {
                assert!((1..=want.count).contains(&span.count), "{span} for {want:?}");
                return placed;
            }
            let step = self.space.clean(Trigger::Stuck)?;
            if !self.carry_out(step) {
                return None;
            }
        }
        panic!("cleaning never ends");
    }

    /// One step of cleaning; `false` if there was no room for it.
    fn carry_out(&mut self, step: CleaningStep) -> bool {
        match step {
            CleaningStep::Settle => self.settle(),
            CleaningStep::Reset(band) => {
                self.disk.reset(band).unwrap();
                self.space.was_reset(band);
                self.agree("a reset");
            }
            CleaningStep::Move(span, owner) => return self.move_away(span, owner),
        }
        true
    }

    fn move_away(&mut self, span: Span, owner: Owner) -> bool {
        let mut done = 0;
        while done < span.count {
            let from = Span { at: span.at + done, count: span.count - done };
            let holds = |piece: &&Piece| piece.span.overlap(from).is_some();
            let piece = *self
                .live
                .iter()
                .find(|piece| holds(piece) && piece.span.at <= from.at)
                .expect("a move of what is dead");
            let count = from.count.min(piece.span.end() - from.at);
            assert_eq!(piece.owner.further(from.at - piece.span.at), owner.further(done), "a move of another's data");
            self.read(piece);
            let want = AllocationRequest {
                owner: owner.further(done),
                after: None,
                count,
                more: from.count - count,
                moving: true,
            };
            let Some(to) = self.space.place(&want) else { return false };
            if self.write(to, want.owner, Some(piece.value)) {
                self.retire(Span { count: to.count, ..from });
                self.moved += to.count;
                done += to.count;
            }
        }
        true
    }

    /// Writes what was placed; `false` if that failed.
    fn write(&mut self, span: Span, owner: Owner, value: Option<u8>) -> bool {
        let bytes = span.count * self.disk.shape().granule_bytes;
        let value = value.unwrap_or(self.operations as u8);
        if self.chance(self.manner.fails) {
            let part = self.below(span.count + 1);
            *self.disk.disk.next.lock().unwrap() = Some(part);
        }
        let fill = if self.manner.bytes { vec![value; bytes as usize] } else { Vec::new() };
        let data = if self.manner.bytes { Data::Bytes(&fill) } else { Data::Blank(bytes) };
        match self.disk.write(span.at, data, Cause::Host) {
            Ok(()) => {
                let pieces = self.shared(span, owner);
                self.space.written_in_pieces(&pieces);
                let live = pieces.into_iter().map(|(span, owner)| Piece { span, owner, value, durable: false });
                self.live.extend(live);
            }
            Err(DeviceError::Io(_)) => {
                self.space.failed(span);
                self.agree("a failed write");
                return false;
            }
            Err(other) => panic!("{other}"),
        }
        self.agree("a write");
        true
    }

    /// Owner of a write: now and then two places of the file share it.
    fn shared(&mut self, span: Span, owner: Owner) -> Vec<(Span, Owner)> {
        let first = if self.below(4) == 0 { 1 + self.below(span.count) } else { span.count };
        let rest = Span { at: span.at + first, count: span.count - first };
        let elsewhere = owner.further(first + 1_000_000);
        let pieces = [(Span { count: first, ..span }, owner), (rest, elsewhere)];
        pieces.into_iter().filter(|(span, _)| !span.is_empty()).collect()
    }

    fn retire(&mut self, span: Span) {
        self.space.retire(span);
        let touched: Vec<usize> =
            (0..self.live.len()).rev().filter(|&i| self.live[i].span.overlap(span).is_some()).collect();
        for index in touched {
            let whole = self.live.swap_remove(index);
            let gone = whole.span.overlap(span).unwrap();
            let (before, behind) = (gone.at - whole.span.at, whole.span.end() - gone.end());
            self.retired.push(whole.part(before, gone.count));
            let rest = [(0, before), (before + gone.count, behind)].into_iter().filter(|&(_, count)| count > 0);
            self.live.extend(rest.map(|(from, count)| whole.part(from, count)));
        }
        self.agree("retire");
    }

    /// An unmount and a mount, or a crash: then what no durable map names is gone, and what one does is back.
    fn remount(&mut self) {
        if self.chance(2) {
            self.settle();
        } else {
            self.live.append(&mut self.retired);
            self.live.retain(|piece| piece.durable);
        }
        self.space = (self.make)();
        for i in (1..self.live.len()).rev() {
            let j = self.random.random_range(0..=i);
            self.live.swap(i, j);
        }
        for piece in &self.live {
            assert!(self.space.adopt(piece.span, piece.owner), "{piece:?} is not adopted");
        }
        let spans: Vec<Span> = self.live.iter().map(|piece| piece.span).collect();
        self.space.start(&self.disk.report(0, u64::MAX).unwrap());
        self.disk.restart(&spans, Order::Forgotten).unwrap();
        self.ends = [None; FILES as usize];
        self.agree("a mount");
    }

    /// The allocator and the checker, which know nothing of each other, count the same; nothing has been violated.
    fn agree(&self, after: &str) {
        let (ours, theirs) = (self.disk.counts(), self.space.counts());
        let four = |c: smrfs::space::Counts| [c.readable, c.not_writable, c.write_once, c.writable];
        assert_eq!(four(theirs), four(ours), "R, NW, WO, W of the allocator and of the checker after {after}");
        assert_eq!(four(ours).iter().sum::<u64>(), self.disk.shape().granules);
        let retired: u64 = self.retired.iter().map(|piece| piece.span.count).sum();
        assert_eq!(theirs.retired, retired, "retired after {after}");
        assert_eq!(self.disk.violation(), None);
    }

    fn read(&self, piece: Piece) {
        let bytes = piece.span.count * self.disk.shape().granule_bytes;
        if !self.manner.bytes {
            return self.disk.read(piece.span.at, ReadBuffer::Blank(bytes), Cause::Host).unwrap();
        }
        let mut room = vec![0; bytes as usize];
        self.disk.read(piece.span.at, ReadBuffer::Bytes(&mut room), Cause::Host).unwrap();
        assert!(room == vec![piece.value; room.len()], "{piece:?} has changed");
    }

    /// Nothing readable is damaged, and the allocator's books are right.
    pub fn check(&self) {
        self.live.iter().chain(&self.retired).for_each(|&piece| self.read(piece));
        self.space.check().unwrap();
    }
}
