//! Sectors on their way without a copy of them: cleaning moves many, and most are written as they were read.
//!
//! A buffer of these knows of each sector who holds it, and since which moment. Bytes are fetched only where somebody looks at them.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::backing::{Backing, HeldSectors};
use crate::ranges::{RangeMap, Shift};
use crate::units::{Pba, SECTOR_BYTES};

/// Held sectors from one of them on.
#[derive(Clone)]
struct HeldPart {
    held: Arc<dyn HeldSectors>,
    first: u64,
}

impl Shift for HeldPart {
    fn shifted(&self, by: u64) -> HeldPart {
        HeldPart { held: self.held.clone(), first: self.first + by }
    }
}

/// A buffer of sectors that are held elsewhere; the others are zeros.
#[derive(Clone, Default)]
pub struct HeldBuf(RangeMap<HeldPart>);

impl HeldBuf {
    /// Takes in `n` sectors, all that are held, from sector `at` on.
    pub(super) fn take(&mut self, at: u64, n: u64, held: Arc<dyn HeldSectors>) {
        self.0.cover(at..at + n, HeldPart { held, first: 0 });
    }

    /// Takes in bytes from sector `at` on.
    pub(super) fn put_bytes(&mut self, at: u64, bytes: Vec<u8>) {
        self.take(at, bytes.len() as u64 / SECTOR_BYTES, Arc::new(bytes));
    }

    /// Overlays `count` sectors of `from`, its sector `first` on, over this from sector `at` on.
    pub(super) fn put(&mut self, at: u64, from: &HeldBuf, first: u64, count: u64) {
        for (range, part) in from.0.parts(first..first + count) {
            let own = at + (range.start - first)..at + (range.end - first);
            match part {
                Some(part) => self.0.cover(own, part),
                None => self.0.uncover(own),
            }
        }
    }

    /// Fills `bytes` from sector `at` on.
    pub(super) fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        for (range, part) in self.0.parts(at..at + bytes.len() as u64 / SECTOR_BYTES) {
            let place = |sector: u64| ((sector - at) * SECTOR_BYTES) as usize;
            let bytes = &mut bytes[place(range.start)..place(range.end)];
            match part {
                Some(part) => part.held.read(part.first, bytes)?,
                None => bytes.fill(0),
            }
        }
        Ok(())
    }

    /// Writes `n` sectors, from sector `at` on, at `pba`.
    pub(super) fn write(&self, backing: &mut dyn Backing, pba: Pba, at: u64, n: u64) -> io::Result<()> {
        for (range, part) in self.0.parts(at..at + n) {
            let (to, sectors) = (pba + (range.start - at), range.end - range.start);
            let Some(HeldPart { held, first }) = part else {
                backing.zero(to, sectors)?;
                continue;
            };
            match (held.as_ref() as &dyn Any).downcast_ref::<Vec<u8>>() {
                Some(bytes) => {
                    let from = (first * SECTOR_BYTES) as usize;
                    backing.write(to, &bytes[from..from + (sectors * SECTOR_BYTES) as usize])?;
                }
                None => backing.write_held(to, held.as_ref(), first, sectors)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for HeldBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(range, part)| (range, part.first))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::medium::interference::Interference;
    use crate::medium::{Buf, Medium, MemoryBacking, WritePart};

    /// Memory whose sectors buffers hold without a copy.
    #[derive(Default)]
    struct Holding(MemoryBacking);

    impl Backing for Holding {
        fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()> {
            self.0.read(pba, bytes)
        }
        fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()> {
            self.0.write(pba, bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn can_hold(&self) -> bool {
            true
        }
    }

    #[test]
    fn what_is_held_is_moved_as_its_bytes_are() {
        let g = Geometry::uniform(10, 100).unwrap();
        let sectors = |n: u64| Buf::Bytes((0..n * SECTOR_BYTES).map(|i| (i / 7 % 251) as u8).collect());
        let media: [Box<dyn Backing>; 2] = [Box::new(Holding::default()), Box::new(MemoryBacking::default())];
        let moved = media.map(|backing| {
            let mut medium = Medium::Bytes(backing);
            medium.write(&Interference::None, &g, Pba(5), 70, &sectors(70), 0).unwrap();
            let mut found = medium.buf(70);
            medium.read(Pba(5), 70, &mut found, 0).unwrap();
            assert_eq!(found.digest(3, 60).unwrap(), sectors(70).digest(3, 60).unwrap());
            let (words, small) = ([7; 70], sectors(4));
            let parts = [
                WritePart::Record { words: &words, sectors: 2 },
                WritePart::Data { buf: &found, at: 2, sectors: 62 },
                WritePart::Data { buf: &small, at: 1, sectors: 3 },
            ];
            medium.write_parts(&Interference::None, &g, Pba(200), &parts, 67).unwrap();
            let mut again = medium.buf(67);
            medium.read(Pba(200), 67, &mut again, 0).unwrap();
            assert_eq!(medium.record_at(Pba(200), 2).unwrap(), Some(words.to_vec()));
            assert_eq!(medium.record(&again, 0, 2).unwrap(), Some(words.to_vec()));
            assert_eq!(medium.record(&again, 1, 2).unwrap(), None);
            let mut part = Buf::Bytes(vec![9; 5 * SECTOR_BYTES as usize]);
            part.put(1, &again, 60, 3).unwrap();
            let (mut all, mut whole) = (vec![0; 80 * SECTOR_BYTES as usize], medium.buf(64));
            whole.put(10, &again, 2, 20).unwrap();
            whole.put(12, &small, 0, 2).unwrap();
            medium.write(&Interference::None, &g, Pba(300), 40, &whole, 5).unwrap();
            let Medium::Bytes(backing) = &medium else { panic!("bytes") };
            backing.read(Pba(200), &mut all[..67 * SECTOR_BYTES as usize]).unwrap();
            let mut last = vec![0; 40 * SECTOR_BYTES as usize];
            backing.read(Pba(300), &mut last).unwrap();
            (medium.buf(63), matches!(medium.buf(64), Buf::Held(_)), part, all, last)
        });
        let [(few, holds, part, all, last), (_, copies, ..)] = &moved;
        assert!(*holds && !copies && matches!(few, Buf::Bytes(_)));
        assert!(matches!((part, &moved[1].2), (Buf::Bytes(a), Buf::Bytes(b)) if a == b));
        assert!(*all == moved[1].3 && *last == moved[1].4);
    }

    #[test]
    fn bytes_are_read_from_where_they_are_overlaid() {
        let sector = |at: usize| vec![at as u8; SECTOR_BYTES as usize];
        let (mut all, mut part) = (HeldBuf::default(), HeldBuf::default());
        all.put_bytes(3, (1..6).flat_map(sector).collect());
        // Sectors 2 to 5 of the five, put at 10.
        part.put(10, &all, 4, 4);
        let mut bytes = vec![9; 3 * SECTOR_BYTES as usize];
        part.read(11, &mut bytes).unwrap();
        assert_eq!(bytes, [sector(3), sector(4), sector(5)].concat());
        part.read(13, &mut bytes).unwrap();
        assert_eq!(bytes, [sector(5), sector(0), sector(0)].concat());
    }
}
