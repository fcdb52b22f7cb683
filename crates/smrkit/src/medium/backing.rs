//! Stores of real bytes.

use std::any::Any;
use std::io;
use std::sync::Arc;

use crate::units::{Pba, SECTOR_BYTES};

/// Byte that a destroyed sector reads as on a disk of bytes.
pub const DESTROYED_BYTE: u8 = 0xDB;

/// A store of real bytes: a file, a partition, or memory.
pub trait Backing: Send {
    /// Fills `bytes` from the sector `pba` on; never written sectors read as zeros.
    fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()>;
    /// Stores `bytes` from the sector `pba` on.
    fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written durable.
    fn flush(&mut self) -> io::Result<()>;
    /// True if it can hold sectors as they are without a copy of them.
    fn can_hold(&self) -> bool {
        false
    }
    /// Sectors as they are now, whatever is written later: a copy, unless the medium can hold them.
    fn hold(&self, pba: Pba, sectors: u64) -> io::Result<Arc<dyn HeldSectors>> {
        let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
        self.read(pba, &mut bytes)?;
        Ok(Arc::new(bytes))
    }
    /// Stores `sectors` sectors of those held, from `first` on, from the sector `pba` on.
    fn write_held(&mut self, pba: Pba, held: &dyn HeldSectors, first: u64, sectors: u64) -> io::Result<()> {
        let mut bytes = vec![0; (sectors * SECTOR_BYTES) as usize];
        held.read(first, &mut bytes)?;
        self.write(pba, &bytes)
    }
    /// True if it is known at no cost that nothing was ever written to these sectors.
    fn is_hole(&self, _pba: Pba, _sectors: u64) -> bool {
        false
    }
    /// True if it is known at no cost that these sectors need not be destroyed: they hold nothing, or are unreadable already.
    fn is_destroyed(&self, pba: Pba, sectors: u64) -> bool {
        self.is_hole(pba, sectors)
    }
    /// Makes these sectors unreadable: from now on they hold [`DESTROYED_BYTE`].
    fn destroy(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.write(pba, &vec![DESTROYED_BYTE; (sectors * SECTOR_BYTES) as usize])
    }
    /// Takes note that nobody needs what these sectors hold: until they are written again, they may read as they are or as zeros.
    fn discard(&mut self, _pba: Pba, _sectors: u64) -> io::Result<()> {
        Ok(())
    }
    /// Makes these sectors read as zeros.
    fn zero(&mut self, pba: Pba, sectors: u64) -> io::Result<()> {
        self.write(pba, &vec![0; (sectors * SECTOR_BYTES) as usize])
    }
}

/// Sectors as they were at one moment, whatever is written since.
pub trait HeldSectors: Any + Send + Sync {
    /// Fills `bytes` from the sector `first` of them on.
    fn read(&self, first: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Bytes in memory.
impl HeldSectors for Vec<u8> {
    fn read(&self, first: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = (first * SECTOR_BYTES) as usize;
        bytes.copy_from_slice(&self[from..from + bytes.len()]);
        Ok(())
    }
}

/// Bytes held in memory, for tests and small images.
#[derive(Default)]
pub struct MemoryBacking {
    bytes: Vec<u8>,
}

impl Backing for MemoryBacking {
    fn read(&self, pba: Pba, bytes: &mut [u8]) -> io::Result<()> {
        let from = ((pba.0 * SECTOR_BYTES) as usize).min(self.bytes.len());
        let known = bytes.len().min(self.bytes.len() - from);
        bytes[..known].copy_from_slice(&self.bytes[from..from + known]);
        bytes[known..].fill(0);
        Ok(())
    }

    fn write(&mut self, pba: Pba, bytes: &[u8]) -> io::Result<()> {
        let from = (pba.0 * SECTOR_BYTES) as usize;
        if self.bytes.len() < from + bytes.len() {
            self.bytes.resize(from + bytes.len(), 0);
        }
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
