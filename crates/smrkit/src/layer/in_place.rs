//! The conventional disk: every LBA lies at the PBA of the same number. The baseline of every comparison.
//!
//! It knows nothing of shingling, so check mode catches it under every form of interference.

use super::{Capacity, Layer, LayerSpec};
use crate::disk::Disk;
use crate::error::DiskResult;
use crate::medium::Buf;
use crate::tally::Cause;
use crate::units::{Lba, Pba};

pub(super) const SPEC: LayerSpec = LayerSpec {
    name: super::BASELINE,
    summary: "A conventional disk: each LBA at its own PBA, written in place.",
    paper: "none (the baseline of all five papers)",
    parameters: &[],
    copes_with: &[],
    build: |drive, _| Ok(Box::new(InPlace { sectors: drive.geometry.sectors() })),
};

struct InPlace {
    sectors: u64,
}

impl Layer for InPlace {
    fn capacity(&self) -> Capacity {
        Capacity { raw_sectors: self.sectors, host_sectors: self.sectors, ..Capacity::default() }
    }

    fn read(&mut self, disk: &mut Disk, lba: Lba, n: u64, out: &mut Buf) -> DiskResult {
        disk.read(Pba(lba.0), n, Cause::Host, out, 0)
    }

    fn write(&mut self, disk: &mut Disk, lba: Lba, n: u64, data: &Buf) -> DiskResult {
        disk.write(Pba(lba.0), n, Cause::Host, data, 0)
    }

    fn discard(&mut self, _disk: &mut Disk, _lba: Lba, _n: u64) -> DiskResult {
        Ok(())
    }

    fn locate(&self, lba: Lba) -> Pba {
        Pba(lba.0)
    }

    fn check(&self, _disk: &Disk) -> DiskResult {
        Ok(())
    }
}
