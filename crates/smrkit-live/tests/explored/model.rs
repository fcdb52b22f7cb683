//! Promises to a host: the contents of each sector in the order in which they were asked for, and the flushes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PLACES_BITS: u32 = 12;

/// Random bytes: `fill` copies a sector from one of 2^PLACES_BITS places in them, behind numbers that no other write has.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; (1 << PLACES_BITS) + 512];
    Pcg64Mcg::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
});

/// Bytes that a sector of the host's is filled with: by its LBA and the number of its write. 0 is none: zeros.
pub fn fill(lba: u64, write: u64, sector: &mut [u8]) {
    if write == 0 {
        return sector.fill(0);
    }
    let seed = (lba << 40 ^ write).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let noise = &NOISE[(seed >> (64 - PLACES_BITS)) as usize..];
    sector.copy_from_slice(&noise[..sector.len()]);
    sector[..8].copy_from_slice(&write.to_le_bytes());
    sector[8..16].copy_from_slice(&seed.to_le_bytes());
}

/// The write that a sector's contents are of; none if they are no write's, or another LBA's.
fn write_of(lba: u64, sector: &[u8]) -> Option<u64> {
    let write = u64::from_le_bytes(sector[..8].try_into().unwrap());
    let mut expected = [0; 512];
    fill(lba, write, &mut expected);
    (expected[..] == *sector).then_some(write)
}

/// Writes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Writes that were acknowledged.
    Acknowledged,
    /// Writes that were flushed.
    Flushed,
}

/// Every request's effect.
#[derive(Clone, Default)]
pub struct Model {
    /// Contents of each LBA: the request and the number of the write, 0 for a trim.
    sectors: BTreeMap<u64, Vec<(usize, u64)>>,
    /// Requests that were flushes.
    flushes: Vec<usize>,
}

impl Model {
    /// What is found after a crash amid `request`: the host knows no more.
    pub fn found(bytes: &[u8], request: usize) -> Model {
        let found = (0..).zip(bytes.chunks_exact(512)).map(|(lba, sector)| {
            let write = write_of(lba, sector).unwrap_or_else(|| panic!("LBA {lba} holds what nobody wrote"));
            (lba, vec![(request, write)])
        });
        Model { sectors: found.collect(), flushes: vec![request + 1] }
    }

    pub fn write(&mut self, request: usize, lba: u64, sectors: u64, number: u64) {
        for lba in lba..lba + sectors {
            self.sectors.entry(lba).or_default().push((request, number));
        }
    }

    /// True if an LBA may hold anything but zeros.
    pub fn was_written(&self, lba: u64) -> bool {
        self.sectors.get(&lba).is_some_and(|all| all.iter().any(|&(_, number)| number > 0))
    }

    pub fn flush(&mut self, request: usize) {
        self.flushes.push(request);
    }

    /// The first request whose writes a crash amid `request` may lose.
    fn kept_before(&self, request: usize, promise: Promise) -> usize {
        match promise {
            Promise::Acknowledged => request,
            Promise::Flushed => {
                self.flushes[..self.flushes.partition_point(|&at| at < request)].last().map_or(0, |&at| at)
            }
        }
    }

    /// The contents that an LBA may have, the first of them what was promised, if a crash interrupts `request`.
    fn allowed(&self, lba: u64, request: usize, kept_before: usize) -> impl Iterator<Item = u64> + '_ {
        let all = self.sectors.get(&lba).map_or(&[][..], |all| &all[..]);
        let first = all.partition_point(|&(at, _)| at < kept_before);
        let kept = first.checked_sub(1).map_or(0, |at| all[at].1);
        let later = all[first..].iter().take_while(move |&&(at, _)| at <= request);
        std::iter::once(kept).chain(later.map(|&(_, number)| number))
    }

    /// Checks what was read from `lba` on after a crash that interrupted `request`.
    pub fn judge(&self, lba: u64, bytes: &[u8], request: usize, promise: Promise) -> Result<(), String> {
        let kept_before = self.kept_before(request, promise);
        for (lba, sector) in (lba..).zip(bytes.chunks_exact(512)) {
            let found = write_of(lba, sector);
            if !found.is_some_and(|found| self.allowed(lba, request, kept_before).any(|allowed| allowed == found)) {
                let allowed: Vec<u64> = self.allowed(lba, request, kept_before).collect();
                let head = &sector[..16];
                return Err(format!(
                    "LBA {lba} reads as {found:?} ({head:?}), not as one of {allowed:?}, in request {request}"
                ));
            }
        }
        Ok(())
    }
}
