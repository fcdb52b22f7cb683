//! Choice of an open segment by what is written: a file keeps its segment while it is one of those written last.
//!
//! A layer sees no files. LBAs as far apart as a segment is long stand in for them, each source having its own (assumption).

use crate::geometry::Divisor;
use crate::state::state;
use crate::units::Lba;

/// The files written last, one for each open segment of the host.
pub(in crate::layer) struct OpenFiles {
    file_sectors: Divisor,
    /// File and time of the last write, by open segment.
    files: Vec<(u64, u64)>,
    /// Writes so far.
    now: u64,
}

/// A file that none is.
const NO_FILE: u64 = u64::MAX;
const SOURCE_BITS: u32 = u8::BITS;

state! { OpenFiles { sized: files; values: now; built: file_sectors; } }

impl OpenFiles {
    /// Files of `file_sectors` LBAs, none of which has been written.
    pub fn new(open_segments: usize, file_sectors: u64) -> OpenFiles {
        OpenFiles { file_sectors: Divisor::new(file_sectors), files: vec![(NO_FILE, 0); open_segments], now: 0 }
    }

    /// The open segment for a write: the file's, or the one written longest ago.
    #[inline]
    pub fn stream(&mut self, source: u8, lba: Lba) -> u8 {
        let file = self.file_sectors.quotient(lba.0) << SOURCE_BITS | u64::from(source);
        let oldest = || self.files.iter().enumerate().min_by_key(|(_, written)| written.1).map_or(0, |(at, _)| at);
        let at = self.files.iter().position(|&(other, _)| other == file).unwrap_or_else(oldest);
        self.now += 1;
        self.files[at] = (file, self.now);
        at as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_segment_until_others_push_it_out() {
        let mut files = OpenFiles::new(2, 100);
        let streams: Vec<u8> = [0, 100, 99, 250, 101, 5].map(|lba| files.stream(0, Lba(lba))).into();
        assert_eq!(streams, [0, 1, 0, 1, 0, 1]);
        assert_eq!((files.stream(1, Lba(5)), files.stream(0, Lba(5)), files.stream(0, Lba(101))), (0, 1, 0));
    }
}
