//! The platters of a served drive: their sectors, and behind them the labels, in an image.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrkit::medium::Backing;
use smrkit::medium::HeldSectors;
use smrkit::units::{Pba, SECTOR_BYTES};

use super::store::{HeldRange, Store};

/// Platters in an image.
pub(super) struct ImageBacking {
    store: Arc<Store>,
    /// Place of the first sector in the image.
    first_byte: u64,
    /// Sectors that were destroyed last and not written since: a log destroys the same track with each of its writes.
    destroyed: Range<u64>,
}

impl ImageBacking {
    pub(super) fn new(store: Arc<Store>, first_byte: u64) -> ImageBacking {
        ImageBacking { store, first_byte, destroyed: 0..0 }
    }

    fn bytes(&self, pba: Pba, sectors: u64) -> Range<u64> {
        let start = self.first_byte + pba.0 * SECTOR_BYTES;
        start..start + sectors * SECTOR_BYTES
    }

    /// Sectors are to be written.
    fn note_write(&mut self, pba: Pba, sectors: u64) {
        if pba.0 < self.destroyed.end && self.destroyed.start < pba.0 + sectors {
            self.destroyed = 0..0;
        }
    }
}

impl Backing for ImageBacking {
    fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()> {
        self.store.read(self.bytes(pba, 0).start, bytes)
    }

    fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()> {
        self.note_write(pba, bytes.len() as u64 / SECTOR_BYTES);
        self.store.write(self.bytes(pba, 0).start, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.store.sync()
    }

    fn can_hold(&self) -> bool {
        true
    }

    fn hold(&self, pba: Pba, sectors: u64) -> io::Result<Arc<dyn HeldSectors>> {
        Ok(self.store.hold(self.bytes(pba, sectors)))
    }

    fn write_held(&mut self, pba: Pba, held: &dyn HeldSectors, first: u64, sectors: u64) -> io::Result<()> {
        self.note_write(pba, sectors);
        let to = self.bytes(pba, sectors).start;
        let range = first * SECTOR_BYTES..(first + sectors) * SECTOR_BYTES;
        match (held as &dyn Any).downcast_ref::<HeldRange>() {
            Some(held) => self.store.write_held(to, held, range),
            None => {
                let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
                held.read(first, &mut bytes)?;
                self.store.write(to, &bytes)
            }
        }
    }

    fn discard(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.store.punch(self.bytes(pba, sectors))
    }

    fn zero(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.note_write(pba, sectors);
        self.store.zero(self.bytes(pba, sectors))
    }

    fn is_hole(&self, pba: Pba, sectors: u64) -> bool {
        self.store.is_hole(self.bytes(pba, sectors))
    }

    fn is_destroyed(&self, pba: Pba, sectors: u64) -> bool {
        self.destroyed.start <= pba.0 && pba.0 + sectors <= self.destroyed.end || self.is_hole(pba, sectors)
    }

    fn destroy(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.store.destroy(self.bytes(pba, sectors))?;
        self.destroyed = pba.0..pba.0 + sectors;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: u64 = 64;
    const FIRST_BYTE: u64 = 1536;

    fn backing() -> ImageBacking {
        let [file, journal] = [(); 2].map(|()| Arc::new(tempfile::tempfile().unwrap()));
        file.set_len(FIRST_BYTE + SECTORS * SECTOR_BYTES).unwrap();
        let own = 0..FIRST_BYTE + SECTORS * SECTOR_BYTES;
        ImageBacking::new(Arc::new(Store::open(file, own, journal, None, 1).unwrap()), FIRST_BYTE)
    }

    /// The first byte of each sector; all of its bytes are the same.
    fn sectors(backing: &ImageBacking) -> Vec<u8> {
        let mut bytes = vec![1; (SECTORS * SECTOR_BYTES) as usize];
        backing.read(Pba(0), &mut bytes).unwrap();
        let sectors = bytes.chunks(SECTOR_BYTES as usize);
        assert!(sectors.clone().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        sectors.map(|sector| sector[0]).collect()
    }

    #[test]
    fn sectors_are_where_they_were_written_and_nowhere_else() {
        let mut backing = backing();
        let mut expected = vec![0; SECTORS as usize];
        backing.write(Pba(5), &[7; 3 * 512]).unwrap();
        expected[5..8].fill(7);
        backing.destroy(Pba(20), 4).unwrap();
        expected[20..24].fill(0xDB);
        assert_eq!(sectors(&backing), expected);
        // From the image itself, and from memory.
        let held = backing.hold(Pba(4), 5).unwrap();
        backing.write_held(Pba(40), &*held, 1, 3).unwrap();
        expected.copy_within(5..8, 40);
        let other = [[3; 512], [4; 512], [5; 512]].concat();
        backing.write_held(Pba(50), &other, 1, 2).unwrap();
        expected[50..52].copy_from_slice(&[4, 5]);
        assert_eq!(sectors(&backing), expected);
        backing.zero(Pba(41), 1).unwrap();
        expected[41] = 0;
        // Whole blocks of the file are freed, and nothing beyond them.
        backing.write(Pba(4), &[6; 12 * 512]).unwrap();
        expected[4..16].fill(6);
        backing.discard(Pba(4), 12).unwrap();
        expected[5..13].fill(0);
        assert_eq!(sectors(&backing), expected);
        let mut head = [1; FIRST_BYTE as usize];
        backing.store.read(0, &mut head).unwrap();
        assert_eq!(head, [0; FIRST_BYTE as usize]);
    }

    #[test]
    fn what_is_destroyed_is_known_until_any_of_it_is_written() {
        type Act = fn(&mut ImageBacking) -> io::Result<()>;
        let is_known = |act: Act| {
            let mut backing = backing();
            backing.write(Pba(0), &[7; (SECTORS * SECTOR_BYTES) as usize]).unwrap();
            backing.destroy(Pba(20), 4).unwrap();
            act(&mut backing).unwrap();
            backing.is_destroyed(Pba(20), 4)
        };
        let still: [Act; 5] = [
            |_| Ok(()),
            |backing| backing.write(Pba(19), &[7; 512]),
            |backing| backing.write(Pba(24), &[7; 512]),
            |backing| backing.zero(Pba(24), 1),
            |backing| backing.write_held(Pba(18), &vec![7; 2 * 512], 0, 2),
        ];
        assert!(still.into_iter().all(is_known));
        let no_more: [Act; 5] = [
            |backing| backing.write(Pba(19), &[7; 2 * 512]),
            |backing| backing.write(Pba(23), &[7; 512]),
            |backing| backing.zero(Pba(21), 1),
            |backing| backing.write_held(Pba(23), &vec![7; 512], 0, 1),
            |backing| backing.destroy(Pba(40), 1),
        ];
        assert!(!no_more.into_iter().any(is_known));
        let mut backing = backing();
        backing.write(Pba(0), &[7; (SECTORS * SECTOR_BYTES) as usize]).unwrap();
        backing.destroy(Pba(20), 4).unwrap();
        let parts = [(20, 4), (21, 2), (19, 5), (20, 5), (0, 1), (24, 1)];
        assert_eq!(
            parts.map(|(pba, sectors)| backing.is_destroyed(Pba(pba), sectors)),
            [true, true, false, false, false, false]
        );
    }

    #[test]
    fn what_was_never_written_is_a_hole_and_need_not_be_destroyed() {
        let backing = backing();
        assert!(backing.is_hole(Pba(0), SECTORS) && backing.is_destroyed(Pba(3), 2) && backing.can_hold());
    }
}
