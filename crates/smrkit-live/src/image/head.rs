//! The head of an image: what the emulated disk itself remembers, in 4 KiB and a list of cursors.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use smrfs::device::{Bands, Model, Shape};
use smrfs::map::checksum;
use smrfs::units::Granule;

const MAGIC: &[u8; 8] = b"SMRdisk\0";
const VERSION: u32 = 1;
/// Bytes of the fixed part; the cursors follow.
const FIXED_BYTES: usize = 4096;
/// Heads are whole multiples of this, so that granules keep the alignment of the device below.
const ALIGN_BYTES: u64 = 1 << 16;

/// Properties that an emulated disk remembers of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskHead {
    /// The disk's shape.
    pub shape: Shape,
}

/// Bytes of an image before the disk's first granule.
pub fn head_bytes(shape: &Shape) -> u64 {
    (FIXED_BYTES as u64 + 8 * shape.bands.count).next_multiple_of(ALIGN_BYTES)
}

/// Bytes of a whole image; none if they can't be counted.
pub fn bytes_for(shape: &Shape) -> Option<u64> {
    shape.granules.checked_mul(shape.granule_bytes)?.checked_add(head_bytes(shape))
}

/// Why a head can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// It is something else.
    Foreign,
    /// It is of another version.
    Version(u32),
    /// It is damaged, or makes no sense.
    Damaged,
}

impl DiskHead {
    /// The fixed part.
    pub fn encode(&self) -> Vec<u8> {
        let (shape, bands) = (&self.shape, &self.shape.bands);
        let mut out = Vec::with_capacity(FIXED_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&u32::from(shape.model == Model::Caveat).to_le_bytes());
        let counts = [shape.granule_bytes, shape.granules, shape.did, shape.dpid];
        let bands = [bands.count, bands.granules, bands.gap_granules, bands.max_open];
        counts.iter().chain(&bands).for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.resize(FIXED_BYTES - 4, 0);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The head in these bytes.
    pub fn decode(bytes: &[u8]) -> Result<DiskHead, NoHead> {
        if !bytes.starts_with(MAGIC) {
            return Err(NoHead::Foreign);
        }
        let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        let version = word(8).ok_or(NoHead::Damaged)?;
        if version != VERSION {
            return Err(NoHead::Version(version));
        }
        let fixed = bytes.get(..FIXED_BYTES).ok_or(NoHead::Damaged)?;
        if word(FIXED_BYTES - 4) != Some(checksum(&fixed[..FIXED_BYTES - 4])) {
            return Err(NoHead::Damaged);
        }
        let count = |i: usize| {
            let at = 16 + 8 * i;
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or(NoHead::Damaged)
        };
        let model = match word(12) {
            Some(0) => Model::StrictAppend,
            Some(1) => Model::Caveat,
            _ => return Err(NoHead::Damaged),
        };
        let bands = Bands { count: count(4)?, granules: count(5)?, gap_granules: count(6)?, max_open: count(7)? };
        let shape =
            Shape { model, granule_bytes: count(0)?, granules: count(1)?, did: count(2)?, dpid: count(3)?, bands };
        if shape.check().is_err() || bytes_for(&shape).is_none() {
            return Err(NoHead::Damaged);
        }
        Ok(DiskHead { shape })
    }
}

/// Reads the head of an image.
pub fn read(file: &File) -> io::Result<Result<DiskHead, NoHead>> {
    let mut bytes = vec![0; FIXED_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(NoHead::Foreign)),
        done => done.map(|()| DiskHead::decode(&bytes)),
    }
}

/// Reads the cursors of all bands. One that is outside its band is taken for the band's end: nothing is written there then.
pub fn read_cursors(file: &File, shape: &Shape) -> io::Result<Vec<Granule>> {
    let mut bytes = vec![0; 8 * shape.bands.count as usize];
    file.read_exact_at(&mut bytes, FIXED_BYTES as u64)?;
    let filled = bytes.chunks_exact(8).map(|b| b.try_into().map_or(u64::MAX, u64::from_le_bytes));
    Ok((0..).zip(filled).map(|(band, filled)| shape.bands.span(band).at + filled.min(shape.bands.granules)).collect())
}

/// Writes the cursor of one band: 8 bytes within a sector, which are written whole or not at all.
pub fn write_cursor(file: &File, band: u64, filled: u64) -> io::Result<()> {
    file.write_all_at(&filled.to_le_bytes(), FIXED_BYTES as u64 + 8 * band)
}
