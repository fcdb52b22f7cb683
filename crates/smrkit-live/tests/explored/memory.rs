//! Files in memory that remember what was done to them, and what is left of that after a crash.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rand::{Rng, RngExt};
use smrkit_live::block::storage::Storage;

const PAGE: u64 = 4096;
pub const SECTOR: u64 = 512;

/// Ops of a run: some thousands.
const OPS_MAX: usize = 100_000;

/// Contents of a file. Copies share their pages.
#[derive(Clone, Default)]
pub struct Contents {
    length: u64,
    pages: Vec<Option<Arc<[u8; PAGE as usize]>>>,
}

/// A change of a file, or the order to make the changes before it durable.
#[derive(Clone)]
pub enum FileOp {
    Write(u64, Arc<[u8]>),
    Punch(Range<u64>),
    Length(u64),
    Sync,
}

impl FileOp {
    /// Sectors that it writes.
    pub fn sectors(&self) -> u64 {
        match self {
            FileOp::Write(_, bytes) => (bytes.len() as u64).div_ceil(SECTOR),
            FileOp::Punch(_) | FileOp::Length(_) | FileOp::Sync => 1,
        }
    }

    /// The part of it that a range of its bytes makes; what is no write is done whole, or not at all.
    fn part(&self, bytes: Range<usize>) -> Option<FileOp> {
        match self {
            FileOp::Write(at, all) => {
                let range = bytes.start.min(all.len())..bytes.end.min(all.len());
                (!range.is_empty()).then(|| FileOp::Write(at + range.start as u64, all[range].into()))
            }
            other => (bytes.end > 0).then(|| other.clone()),
        }
    }
}

impl Contents {
    pub fn of(bytes: &[u8]) -> Contents {
        let mut contents = Contents::default();
        for (at, page) in (0..).step_by(PAGE as usize).zip(bytes.chunks(PAGE as usize)) {
            if *page != [0; PAGE as usize][..page.len()] {
                contents.write(at, page);
            }
        }
        contents.set_length(bytes.len() as u64);
        contents
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length as usize];
        self.read(0, &mut bytes).unwrap();
        bytes
    }

    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, part) in parts(offset, bytes.len()) {
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(page) => bytes[part].copy_from_slice(&page[within]),
                None => bytes[part].fill(0),
            }
        }
        Ok(())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.pages.resize(self.pages.len().max(end.div_ceil(PAGE) as usize), None);
        for (page, within, part) in parts(offset, bytes.len()) {
            let page = self.pages[page].get_or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[within].copy_from_slice(&bytes[part]);
        }
        self.length = self.length.max(end);
    }

    pub fn set_length(&mut self, length: u64) {
        if length < self.length {
            let kept = length.next_multiple_of(PAGE).min(self.length);
            self.write(length, &vec![0; (kept - length) as usize]);
            self.pages.truncate(length.div_ceil(PAGE) as usize);
        }
        self.length = length;
    }

    fn punch(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.length);
        for (page, within, part) in parts(range.start, range.end.saturating_sub(range.start) as usize) {
            let Some(page) = self.pages.get_mut(page) else { continue };
            match part.len() as u64 == PAGE {
                true => *page = None,
                false => page.iter_mut().for_each(|page| Arc::make_mut(page)[within.clone()].fill(0)),
            }
        }
    }

    pub fn apply(&mut self, op: &FileOp) {
        match op {
            FileOp::Write(at, bytes) => self.write(*at, bytes),
            FileOp::Punch(range) => self.punch(range.clone()),
            FileOp::Length(length) => self.set_length(*length),
            FileOp::Sync => {}
        }
    }

    /// Applies the first bytes of an op.
    pub fn apply_first(&mut self, op: &FileOp, bytes: usize) {
        if let Some(part) = op.part(0..bytes) {
            self.apply(&part);
        }
    }

    /// Applies any of an op's sectors.
    pub fn apply_some(&mut self, op: &FileOp, random: &mut impl Rng) {
        for sector in 0..op.sectors() as usize {
            if random.random()
                && let Some(part) = op.part(sector * SECTOR as usize..(sector + 1) * SECTOR as usize)
            {
                self.apply(&part);
            }
        }
    }
}

/// The pages that bytes from `offset` on touch: which, where in it, and which of the bytes.
fn parts(offset: u64, count: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let n = (PAGE as usize - within).min(count - done);
        done += n;
        (n > 0).then(|| ((at / PAGE) as usize, within..within + n, done - n..done))
    })
}

/// Ops on the image (file 0) and the journal (file 1), in their order.
pub type OpLog = Arc<Mutex<Vec<(usize, FileOp)>>>;

/// A file in memory.
pub struct MemoryFile {
    contents: Mutex<Contents>,
    number: usize,
    log: Option<OpLog>,
}

impl MemoryFile {
    pub fn new(contents: Contents, number: usize, log: Option<OpLog>) -> Arc<MemoryFile> {
        Arc::new(MemoryFile { contents: Mutex::new(contents), number, log })
    }

    pub fn contents(&self) -> Contents {
        self.contents.lock().unwrap().clone()
    }

    fn change(&self, op: FileOp) -> io::Result<()> {
        self.contents.lock().unwrap().apply(&op);
        if let Some(log) = &self.log {
            let mut log = log.lock().unwrap();
            assert!(log.len() < OPS_MAX, "a request that has no end");
            log.push((self.number, op));
        }
        Ok(())
    }
}

impl Storage for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.contents.lock().unwrap().length)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.contents.lock().unwrap().read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.log.is_none() {
            self.contents.lock().unwrap().write(offset, bytes);
            return Ok(());
        }
        self.change(FileOp::Write(offset, bytes.into()))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.change(FileOp::Length(length))
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.change(FileOp::Punch(range))
    }

    fn sync(&self) -> io::Result<()> {
        self.change(FileOp::Sync)
    }

    fn allocated_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let contents = self.contents.lock().unwrap();
        let mut pages = contents.pages.iter().enumerate().skip((offset / PAGE) as usize);
        let Some(first) = pages.find(|(_, page)| page.is_some()).map(|(at, _)| at) else { return Ok(None) };
        let end = pages.find(|(_, page)| page.is_none()).map_or(contents.pages.len(), |(at, _)| at);
        let range = offset.max(first as u64 * PAGE)..(end as u64 * PAGE).min(contents.length);
        Ok((!range.is_empty()).then_some(range))
    }
}
