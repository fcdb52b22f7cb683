//! Allocates ahead of small sequential writes that are each flushed, such as a log's: fills the holes of the image behind them with zeros.
//!
//! A write to a hole makes the host's file system allocate a block, and the next flush has to make the allocation durable too, which takes two
//! or three times as long as a flush of data alone. Filling many blocks at once needs one allocation.

use std::ops::Range;

/// The longest write that counts as small; for longer ones an allocation of their own matters less (assumption).
const SMALL_BYTES: u64 = 64 << 10;
/// The most that is filled at a time: little compared with what a host can write in the time of an allocation (assumption).
const MOST_BYTES: u64 = 1 << 20;

/// A run of small flushed writes, each of which begins where the one before ended. Positions are bytes of the file.
#[derive(Debug, Default)]
pub struct AppendRun {
    /// End of the last write.
    end: u64,
    /// Length of the run.
    in_order: u64,
    /// The file has been filled up to here.
    filled: u64,
    /// True if the last write was flushed.
    is_flushed: bool,
}

impl AppendRun {
    /// Notes a write of `bytes` at `at`. Returns the range to be filled now. It is as long as the run so far, so that a run that ends soon has cost
    /// little.
    pub fn note_write(&mut self, at: u64, bytes: u64) -> Option<Range<u64>> {
        let end = at + bytes;
        let follows = self.is_flushed && at == self.end && bytes <= SMALL_BYTES;
        self.is_flushed = false;
        if !follows {
            *self = AppendRun { end, in_order: bytes, filled: end, is_flushed: false };
            return None;
        }
        self.end = end;
        self.in_order += bytes;
        if end < self.filled {
            return None;
        }
        self.filled = end + self.in_order.min(MOST_BYTES);
        Some(end..self.filled)
    }

    /// Notes a flush.
    pub fn note_flush(&mut self) {
        self.is_flushed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are filled for `writes` of 4 KiB in order.
    fn filled(ahead: &mut AppendRun, from: u64, writes: u64) -> Vec<Range<u64>> {
        let write = |i| {
            let fill = ahead.note_write(from + i * 4096, 4096);
            ahead.note_flush();
            fill
        };
        (0..writes).filter_map(write).collect()
    }

    #[test]
    fn as_much_is_filled_as_was_written_in_order() {
        let mut ahead = AppendRun::default();
        let fills = filled(&mut ahead, 1 << 20, 4096);
        assert!(fills.len() < 30, "{}", fills.len());
        for fill in &fills {
            let (written, bytes) = (fill.start - (1 << 20), fill.end - fill.start);
            assert!(bytes == written.min(MOST_BYTES), "{bytes} after {written}");
        }
        assert!(fills.windows(2).all(|pair| pair[1].start == pair[0].end), "each begins where the last one ended");
    }

    #[test]
    fn nothing_is_filled_for_other_writes() {
        let mut ahead = AppendRun::default();
        assert!((0..100).all(|i| ahead.note_write(i * 4096, 4096).is_none()), "they are not flushed");
        ahead.note_flush();
        let scattered = |i: u64| {
            let fill = ahead.note_write(i * 40_960, 4096);
            ahead.note_flush();
            fill
        };
        assert!((0..100).filter_map(scattered).next().is_none());
        let large = |i: u64| {
            let fill = ahead.note_write(i * MOST_BYTES, MOST_BYTES);
            ahead.note_flush();
            fill
        };
        assert!((0..100).filter_map(large).next().is_none());
    }

    #[test]
    fn a_write_follows_if_it_is_small_flushed_and_next() {
        let after = |flushed: bool, at: u64, bytes: u64| {
            let mut ahead = AppendRun::default();
            assert_eq!(ahead.note_write(1000, 4096), None);
            if flushed {
                ahead.note_flush();
            }
            ahead.note_write(at, bytes)
        };
        assert_eq!(after(true, 5096, 4096), Some(9192..17_384), "as much as was written in order");
        assert_eq!(after(true, 5096, SMALL_BYTES), Some(70_632..70_632 + 69_632));
        assert_eq!(
            [after(true, 5096, SMALL_BYTES + 1), after(true, 5095, 4096), after(true, 5097, 1)],
            [None, None, None]
        );
        assert_eq!(after(false, 5096, 4096), None);
        // What is filled is not filled again, up to its last byte.
        let mut ahead = AppendRun::default();
        let mut wrote = |at, bytes| {
            let fill = ahead.note_write(at, bytes);
            ahead.note_flush();
            fill
        };
        assert_eq!([wrote(0, 100), wrote(100, 100), wrote(200, 199)], [None, Some(200..400), None]);
        assert_eq!([wrote(399, 1), wrote(400, 1)], [Some(400..800), None]);
        assert_eq!([wrote(401, 5000), wrote(9, 9)], [Some(5401..10_802), None]);
    }
}
