//! The head of an image: the emulated disk's own persistent state, in 4 KiB and a list of the bands' cursors.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use smrfs::device::{Model, Shape};
use smrfs::map::{sealed, unsealed};
use smrfs::units::Granule;

const MAGIC: &[u8; 8] = b"SMRdisk\0";
const VERSION: u32 = 1;
/// Bytes of the fixed part; the cursors follow.
const FIXED_BYTES: usize = 4096;
/// Heads are multiples of this, so that granules keep the alignment of the device below.
const ALIGN_BYTES: u64 = 1 << 16;

/// Bytes of an image before the disk's first granule.
pub fn head_bytes(shape: &Shape) -> u64 {
    (FIXED_BYTES as u64 + 8 * shape.bands.count).next_multiple_of(ALIGN_BYTES)
}

/// Bytes of a whole image; `None` if the number overflows.
pub fn bytes_for(shape: &Shape) -> Option<u64> {
    shape.granules.checked_mul(shape.granule_bytes)?.checked_add(head_bytes(shape))
}

/// The reason why a head can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// The file is something else.
    Foreign,
    /// An image of another version.
    Version(u32),
    /// The head is damaged, or makes no sense.
    Damaged,
}

/// Encodes the fixed part of the head of a disk with this shape.
pub fn encode(shape: &Shape) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIXED_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&u32::from(shape.model == Model::Caveat).to_le_bytes());
    shape.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.resize(FIXED_BYTES - 4, 0);
    sealed(out)
}

/// Decodes the shape of a disk from the fixed part of its head.
pub fn decode(bytes: &[u8]) -> Result<Shape, NoHead> {
    if !bytes.starts_with(MAGIC) {
        return Err(NoHead::Foreign);
    }
    let word = |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let version = word(8).ok_or(NoHead::Damaged)?;
    if version != VERSION {
        return Err(NoHead::Version(version));
    }
    let fixed = bytes.get(..FIXED_BYTES).ok_or(NoHead::Damaged)?;
    unsealed(fixed).ok_or(NoHead::Damaged)?;
    let model = match word(12) {
        Some(0) => Model::StrictAppend,
        Some(1) => Model::Caveat,
        _ => return Err(NoHead::Damaged),
    };
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(fixed[16..].chunks_exact(8)) {
        *word = bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    let shape = Shape::from_words(model, words);
    if shape.check().is_err() || bytes_for(&shape).is_none() {
        return Err(NoHead::Damaged);
    }
    Ok(shape)
}

/// Reads the head of an image.
pub fn read(file: &File) -> io::Result<Result<Shape, NoHead>> {
    let mut bytes = vec![0; FIXED_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(NoHead::Foreign)),
        done => done.map(|()| decode(&bytes)),
    }
}

/// Reads the cursors of all bands. A cursor outside its band counts as the band's end, so that nothing is written there.
pub fn read_cursors(file: &File, shape: &Shape) -> io::Result<Vec<Granule>> {
    let mut bytes = vec![0; 8 * shape.bands.count as usize];
    file.read_exact_at(&mut bytes, FIXED_BYTES as u64)?;
    let filled = bytes.chunks_exact(8).map(|b| b.try_into().map_or(u64::MAX, u64::from_le_bytes));
    Ok((0..).zip(filled).map(|(band, filled)| shape.bands.span(band).at + filled.min(shape.bands.granules)).collect())
}

/// Writes the cursor of one band. Its 8 bytes are within a sector, so a crash can't tear them.
pub fn write_cursor(file: &File, band: u64, filled: u64) -> io::Result<()> {
    file.write_all_at(&filled.to_le_bytes(), FIXED_BYTES as u64 + 8 * band)
}

#[cfg(test)]
mod tests {
    use smrfs::device::Bands;

    use super::*;

    fn shape(count: u64) -> Shape {
        let bands = Bands { count, granules: 10, gap_granules: 3, max_open: 7 };
        Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: 13 * count, did: 3, dpid: 2, bands }
    }

    #[test]
    fn a_head_comes_back_and_no_byte_of_it_can_be_changed() {
        let none = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        for shape in [shape(20), Shape { model: Model::Caveat, bands: none, ..shape(20) }] {
            let bytes = encode(&shape);
            assert_eq!((bytes.len(), decode(&bytes)), (FIXED_BYTES, Ok(shape)));
            for at in (0..80).chain([200, FIXED_BYTES - 5, FIXED_BYTES - 1]) {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                let expected = match at {
                    0..8 => NoHead::Foreign,
                    8..12 => NoHead::Version(VERSION ^ (1 << (8 * (at - 8)))),
                    _ => NoHead::Damaged,
                };
                assert_eq!(decode(&changed), Err(expected), "byte {at}");
            }
            for cut in [0, 7, 8, 11, 12, FIXED_BYTES - 1] {
                let expected = if cut < 8 { NoHead::Foreign } else { NoHead::Damaged };
                assert_eq!(decode(&bytes[..cut]), Err(expected), "cut to {cut}");
            }
        }
        let impossible = Shape { granules: 1, ..shape(20) };
        assert_eq!(decode(&encode(&impossible)), Err(NoHead::Damaged));
    }

    #[test]
    fn heads_have_room_for_the_cursors_of_all_bands() {
        let bytes = [0, 1, 7680, 7681, 15_872, 15_873].map(|count| head_bytes(&shape(count)));
        assert_eq!(bytes, [65_536, 65_536, 65_536, 131_072, 131_072, 196_608]);
        assert_eq!(bytes_for(&shape(20)), Some(65_536 + 260 * 4096));
        assert_eq!(bytes_for(&Shape { granules: u64::MAX / 4096 + 1, ..shape(20) }), None);
        assert_eq!(bytes_for(&Shape { granules: u64::MAX / 4096, ..shape(20) }), None);
    }

    #[test]
    fn cursors_are_kept_band_by_band() {
        let file = tempfile::tempfile().unwrap();
        let shape = shape(5);
        file.set_len(head_bytes(&shape)).unwrap();
        file.write_all_at(&encode(&shape), 0).unwrap();
        for (band, filled) in [(0, 3), (2, 10), (4, 11), (3, u64::MAX)] {
            write_cursor(&file, band, filled).unwrap();
        }
        let cursors: Vec<u64> = read_cursors(&file, &shape).unwrap().into_iter().map(|cursor| cursor.0).collect();
        assert_eq!(cursors, [3, 13, 36, 49, 62]);
        assert_eq!(read(&file).unwrap(), Ok(shape));
        file.set_len(FIXED_BYTES as u64 - 1).unwrap();
        assert_eq!(read(&file).unwrap(), Err(NoHead::Foreign));
    }
}
