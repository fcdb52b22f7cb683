//! Sectors on their way to and from a medium.

use std::io;

use super::digest::{digest, digest_bytes};
use super::held::HeldBuf;
use crate::error::{DiskResult, Fault};
use crate::units::SECTOR_BYTES;

/// Sectors on their way: nothing, stamps, or bytes, as the medium holds.
#[derive(Clone, Debug, Default)]
pub enum Buf {
    /// Nothing.
    #[default]
    NoData,
    /// A stamp a sector.
    Stamps(Vec<u64>),
    /// 512 bytes a sector.
    Bytes(Vec<u8>),
    /// Bytes that are held elsewhere.
    Held(HeldBuf),
}

impl Buf {
    /// Makes room for at least `n` sectors; what was there stays.
    pub fn room(&mut self, n: u64) {
        match self {
            Buf::NoData => {}
            Buf::Stamps(v) if v.len() < n as usize => v.resize(n as usize, 0),
            Buf::Bytes(v) if v.len() < (n * SECTOR_BYTES) as usize => v.resize((n * SECTOR_BYTES) as usize, 0),
            _ => {}
        }
    }

    /// A digest of `n` sectors from `at` on, which tells a torn write from a whole one; 0 where nothing is held.
    pub fn digest(&self, at: u64, n: u64) -> DiskResult<u64> {
        Ok(match self {
            Buf::NoData => 0,
            Buf::Stamps(v) => digest(&v[range(at, n)]),
            Buf::Bytes(v) => digest_bytes(&v[range(at * SECTOR_BYTES, n * SECTOR_BYTES)]),
            Buf::Held(v) => {
                let mut bytes = vec![0; (n * SECTOR_BYTES) as usize];
                v.read(at, &mut bytes).map_err(io_fault)?;
                digest_bytes(&bytes)
            }
        })
    }

    /// Overlays `count` sectors of `from`, its sector `first` on, over this from sector `at` on.
    pub fn put(&mut self, at: u64, from: &Buf, first: u64, count: u64) -> DiskResult {
        let bytes = |sector: u64| range(sector * SECTOR_BYTES, count * SECTOR_BYTES);
        match (self, from) {
            (Buf::NoData, Buf::NoData) => {}
            (Buf::Stamps(to), Buf::Stamps(from)) => to[range(at, count)].copy_from_slice(&from[range(first, count)]),
            (Buf::Bytes(to), Buf::Bytes(from)) => to[bytes(at)].copy_from_slice(&from[bytes(first)]),
            (Buf::Bytes(to), Buf::Held(from)) => from.read(first, &mut to[bytes(at)]).map_err(io_fault)?,
            (Buf::Held(to), Buf::Bytes(from)) => to.put_bytes(at, from[bytes(first)].to_vec()),
            (Buf::Held(to), Buf::Held(from)) => to.put(at, from, first, count),
            _ => unreachable!("buffers of different media"),
        }
        Ok(())
    }
}

pub(super) fn io_fault(error: io::Error) -> Box<Fault> {
    Box::new(Fault::Io(error))
}

pub(super) fn range(at: u64, n: u64) -> std::ops::Range<usize> {
    at as usize..(at + n) as usize
}
