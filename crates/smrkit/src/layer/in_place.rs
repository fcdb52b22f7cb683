//! The conventional disk: every LBA lies at the PBA of the same number. The baseline of every comparison.
//!
//! It knows nothing of shingling, so check mode catches it under every form of interference.

use std::sync::Arc;

use crate::layer::prelude::*;
use crate::state;

pub(super) const SPEC: LayerSpec = LayerSpec::new::<InPlaceKeys>(
    super::BASELINE,
    "A conventional disk: each LBA at its own PBA, written in place.",
    "none (the baseline of all five papers)",
    &[],
);

keys! {
    struct InPlaceKeys {
    }
}

impl LayerKeys for InPlaceKeys {
    fn build(&self, drive: &Drive) -> Result<Box<dyn Layer>, Error> {
        Ok(Box::new(InPlace { sectors: drive.geometry.sectors }))
    }
}

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

    fn fill(&mut self) -> Arc<dyn Placement> {
        Arc::new(Ascending::new(self.sectors, |lba| Pba(lba.0)))
    }

    fn state(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, saved: &[u8]) -> DiskResult {
        state::finish(saved)
    }

    fn locate(&self, lba: Lba) -> Pba {
        Pba(lba.0)
    }

    fn check(&self) -> DiskResult {
        Ok(())
    }
}
