//! PNG files of opaque pictures: 8 bits a channel, one filter for all rows (PNG specification, third edition, W3C 2025).
//!
//! Chunks are written by hand: the `png` crate reads the format too, and needs six more crates.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// The end of the header: 8 bits a channel; red, green and blue; the one compression and the one set of filters; no interlace.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];
/// The filter that keeps each byte's difference from the one above: most rows of a figure are like the row before.
const UP: u8 = 2;

/// The file of a picture with three bytes a pixel, row after row from the top.
///
/// # Panics
/// If `pixels` is not `width` by `height`.
pub fn encode(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    assert_eq!(pixels.len() as u64, 3 * u64::from(width) * u64::from(height), "a picture of {width} by {height}");
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &[&width.to_be_bytes()[..], &height.to_be_bytes(), &FORMAT].concat());
    chunk(&mut file, b"IDAT", &compressed(3 * width as usize, pixels));
    chunk(&mut file, b"IEND", &[]);
    file
}

/// The rows, each behind its filter.
fn compressed(row_bytes: usize, pixels: &[u8]) -> Vec<u8> {
    let mut filtered = Vec::with_capacity(pixels.len() + pixels.len() / row_bytes.max(1));
    let mut above: &[u8] = &vec![0; row_bytes];
    for row in pixels.chunks(row_bytes.max(1)) {
        filtered.push(UP);
        filtered.extend(row.iter().zip(above).map(|(byte, above)| byte.wrapping_sub(*above)));
        above = row;
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&filtered).and_then(|()| encoder.finish()).expect("memory takes what is written")
}

/// Appends a chunk: length, type, data, and the CRC of the last two.
fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).expect("a chunk below 4 GiB");
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    for part in [&length.to_be_bytes()[..], kind, data, &crc.sum().to_be_bytes()] {
        file.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The parts of a file: type and data of each chunk, whose CRCs are right.
    fn chunks(file: &[u8]) -> Vec<(&[u8], &[u8])> {
        let mut rest = file.strip_prefix(&SIGNATURE).expect("the signature");
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_at(4);
            let (named, after) = after.split_at(4 + u32::from_be_bytes(length.try_into().unwrap()) as usize);
            let mut crc = Crc::new();
            crc.update(named);
            assert_eq!(after[..4], crc.sum().to_be_bytes());
            chunks.push(named.split_at(4));
            rest = &after[4..];
        }
        chunks
    }

    #[test]
    fn a_picture_is_read_back_to_the_byte() {
        let (width, height) = (7, 5);
        let pixels: Vec<u8> = (0..3 * width * height).map(|i| (i * i * 31) as u8).collect();
        let file = encode(width, height, &pixels);
        let parts = chunks(&file);
        assert_eq!(parts.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [b"IHDR", b"IDAT", b"IEND"]);
        assert_eq!(parts[0].1, [0, 0, 0, 7, 0, 0, 0, 5, 8, 2, 0, 0, 0]);
        let mut rows = Vec::new();
        flate2::read::ZlibDecoder::new(parts[1].1).read_to_end(&mut rows).unwrap();
        let row = 3 * width as usize;
        let mut read = vec![0; row];
        for coded in rows.chunks(row + 1) {
            assert_eq!(coded[0], UP);
            let above = read[read.len() - row..].to_vec();
            read.extend(coded[1..].iter().zip(above).map(|(byte, above)| byte.wrapping_add(above)));
        }
        assert_eq!(read[row..], pixels);
    }
}
