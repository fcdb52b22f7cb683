//! The platters of a served drive: their sectors, and behind them the labels, in an image.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use smrkit::medium::{Backing, DESTROYED_BYTE};
use smrkit::units::{Pba, SECTOR_BYTES};

use super::store::Store;

/// Bytes that are destroyed at a time.
static DESTROYED: [u8; 64 << 10] = [DESTROYED_BYTE; 64 << 10];

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
}

impl Backing for ImageBacking {
    fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()> {
        self.store.read(self.bytes(pba, 0).start, bytes)
    }

    fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()> {
        let end = pba.0 + bytes.len() as u64 / SECTOR_BYTES;
        if pba.0 < self.destroyed.end && self.destroyed.start < end {
            self.destroyed = 0..0;
        }
        self.store.write(self.bytes(pba, 0).start, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.store.sync()
    }

    fn discard(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.store.punch(self.bytes(pba, sectors))
    }

    fn zero(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.store.zero(self.bytes(pba, sectors))
    }

    fn is_hole(&self, pba: Pba, sectors: u64) -> bool {
        self.store.is_hole(self.bytes(pba, sectors))
    }

    fn is_destroyed(&self, pba: Pba, sectors: u64) -> bool {
        self.destroyed.start <= pba.0 && pba.0 + sectors <= self.destroyed.end || self.is_hole(pba, sectors)
    }

    fn destroy(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        let Range { start: mut at, end: last } = self.bytes(pba, sectors);
        while at < last {
            let count = (last - at).min(DESTROYED.len() as u64);
            self.store.write(at, &DESTROYED[..count as usize])?;
            at += count;
        }
        self.destroyed = pba.0..pba.0 + sectors;
        Ok(())
    }
}
