//! The platters of a served drive: their sectors, and behind them the labels, in an image.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrkit::medium::Backing;
use smrkit::medium::held::HeldSectors;
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
