//! Data being read or written: bytes or, in simulation, only their number. Also the checksum of bytes.

use std::ops::Range;

use crc_fast::CrcAlgorithm;

/// Data to be written.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// The bytes of memory.
    Bytes(&'a [u8]),
    /// A number of bytes whose contents don't matter (simulation). They read back as zeros.
    Blank(u64),
}

impl<'a> Data<'a> {
    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Blank(bytes) => *bytes,
        }
    }

    /// `count` bytes of it from `from` on.
    pub fn part(&self, from: u64, count: u64) -> Data<'a> {
        match self {
            Data::Bytes(bytes) => Data::Bytes(&bytes[from as usize..(from + count) as usize]),
            Data::Blank(_) => Data::Blank(count),
        }
    }
}

/// Buffer that reads fill.
#[derive(Debug)]
pub enum ReadBuffer<'a> {
    /// Into these bytes, all of them.
    Bytes(&'a mut [u8]),
    /// Nowhere: this many bytes are read only for the time it takes (simulation).
    Blank(u64),
}

impl ReadBuffer<'_> {
    /// How many bytes it takes.
    pub fn bytes(&self) -> u64 {
        match self {
            ReadBuffer::Bytes(bytes) => bytes.len() as u64,
            ReadBuffer::Blank(bytes) => *bytes,
        }
    }

    /// `count` bytes of it from `from` on.
    pub fn part(&mut self, from: u64, count: u64) -> ReadBuffer<'_> {
        match self {
            ReadBuffer::Bytes(bytes) => ReadBuffer::Bytes(&mut bytes[from as usize..(from + count) as usize]),
            ReadBuffer::Blank(_) => ReadBuffer::Blank(count),
        }
    }

    /// Fills it with zeros, as a hole reads.
    pub fn clear(&mut self) {
        if let ReadBuffer::Bytes(bytes) = self {
            bytes.fill(0);
        }
    }
}

/// Overwrites a range of bytes with zeros, piece by piece, by calls of `write` with an offset and bytes.
pub fn write_zeros<E>(range: Range<u64>, mut write: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    range.clone().step_by(ZEROS.len()).try_for_each(|at| {
        let count = (range.end - at).min(ZEROS.len() as u64);
        write(at, &ZEROS[..count as usize])
    })
}

/// CRC-32C (Castagnoli; iSCSI's) of `bytes`, the checksum of everything that SMRfs stores.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Appends the checksum of the bytes.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// The bytes before the checksum; `None` if it does not match.
pub fn unsealed(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    (checksum(body) == u32::from_le_bytes(*sum)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, B.4, and the usual check value.
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(checksum(&ascending), 0x46dd_794e);
    }
}
