//! Pieces of a file that are read at once: what lies close together, by one call of the system.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

/// Bytes between two pieces that are read along with them: copying so many takes as long as another call (assumption).
const GAP_BYTES: u64 = 16 << 10;
/// Buffers that a call takes, those for gaps included.
const BUFFERS_MAX: usize = 1024;

/// Reads into each buffer what lies at its place in `file`.
pub fn read(file: &File, mut pieces: Vec<(u64, &mut [u8])>) -> io::Result<()> {
    pieces.sort_unstable_by_key(|piece| piece.0);
    let mut pieces = pieces.into_iter().peekable();
    while let Some(first) = pieces.next() {
        let (mut end, mut run) = (end_of(&first), vec![first]);
        let follows = |next: &(u64, &mut [u8]), end: u64| end <= next.0 && next.0 - end <= GAP_BYTES;
        while run.len() < BUFFERS_MAX / 2
            && let Some(next) = pieces.next_if(|next| follows(next, end))
        {
            end = end_of(&next);
            run.push(next);
        }
        read_run(file, run)?;
    }
    Ok(())
}

fn end_of(piece: &(u64, &mut [u8])) -> u64 {
    piece.0 + piece.1.len() as u64
}

/// Reads pieces in ascending order that lie close together.
fn read_run(file: &File, mut run: Vec<(u64, &mut [u8])>) -> io::Result<()> {
    if let [(at, bytes)] = &mut run[..] {
        return file.read_exact_at(bytes, *at);
    }
    let (begin, end) = (run[0].0, run.last().map_or(0, end_of));
    let gaps: Vec<usize> = run.windows(2).map(|pair| (pair[1].0 - end_of(&pair[0])) as usize).collect();
    let mut unwanted = vec![0; gaps.iter().sum()];
    let mut unwanted = &mut unwanted[..];
    let mut buffers = Vec::with_capacity(2 * run.len());
    for ((_, bytes), gap) in run.iter_mut().zip(gaps.into_iter().chain([0])) {
        let (skipped, rest) = unwanted.split_at_mut(gap);
        unwanted = rest;
        buffers.extend([IoSliceMut::new(bytes), IoSliceMut::new(skipped)]);
    }
    let read = rustix::io::preadv(file, &mut buffers, begin);
    if read.is_ok_and(|read| read as u64 == end - begin) {
        return Ok(());
    }
    // Part of it, or an error that may be a gap's: each by itself.
    run.into_iter().try_for_each(|(at, bytes)| file.read_exact_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file_of(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    proptest! {
        #[test]
        fn pieces_are_read_as_if_one_by_one(places in prop::collection::vec((0..200_000u64, 1..9000usize), 0..60)) {
            let whole: Vec<u8> = (0..220_000u32).map(|at| (at ^ (at >> 8)) as u8).collect();
            let file = file_of(&whole);
            let mut rooms: Vec<Vec<u8>> = places.iter().map(|place| vec![0; place.1]).collect();
            let pieces = places.iter().zip(&mut rooms).map(|(place, room)| (place.0, &mut room[..]));
            read(&file, pieces.collect()).unwrap();
            for (&(at, bytes), room) in places.iter().zip(&rooms) {
                prop_assert_eq!(&room[..], &whole[at as usize..][..bytes]);
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_end_is_an_error() {
        let file = file_of(&[7; 5000]);
        let (mut one, mut two) = ([0; 10], [0; 10]);
        assert!(read(&file, vec![(100, &mut one[..]), (4995, &mut two[..])]).is_err());
        read(&file, vec![(4990, &mut two[..]), (100, &mut one[..])]).unwrap();
        assert_eq!((one, two), ([7; 10], [7; 10]));
    }
}
