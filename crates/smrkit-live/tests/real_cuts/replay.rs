//! Remains of a recording after a power cut: all that was flushed, and of the rest all, nothing, or any part.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rand::{Rng, RngExt};

use crate::recorder::Event;

/// Fate of writes that no flush has covered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All unflushed writes are there.
    Kept,
    /// All unflushed writes are gone.
    Lost,
    /// Any of them, torn at 4 KiB.
    Some,
}

/// The unit that reaches a disk whole.
const WHOLE_BYTES: usize = 4096;

/// Brings `files` from the state after the first `from` events to what a cut after `to` events leaves behind.
///
/// `files` must hold what [`settle`] left: flushed writes only.
pub fn cut(
    events: &[Event],
    pending: &[usize],
    to: usize,
    loss: Loss,
    rng: &mut impl Rng,
    files: &[File; 2],
) -> io::Result<()> {
    for &index in pending.iter().filter(|&&index| index < to) {
        let Event::Write { file, offset, bytes } = &events[index] else { continue };
        let part = |piece: usize| piece * WHOLE_BYTES..((piece + 1) * WHOLE_BYTES).min(bytes.len());
        for piece in 0..bytes.len().div_ceil(WHOLE_BYTES) {
            let there = match loss {
                Loss::Kept => true,
                Loss::Lost => false,
                Loss::Some => rng.random_bool(0.5),
            };
            if there {
                files[*file].write_all_at(&bytes[part(piece)], offset + (piece * WHOLE_BYTES) as u64)?;
            }
        }
    }
    Ok(())
}

/// Applies to `files` what the event number `index` makes durable; `pending` are the writes not yet flushed.
pub fn settle(events: &[Event], pending: &mut Vec<usize>, index: usize, files: &[File; 2]) -> io::Result<()> {
    match &events[index] {
        Event::Write { .. } => pending.push(index),
        Event::Flush { file: flushed } => {
            let mut rest = Vec::new();
            for number in pending.drain(..) {
                match &events[number] {
                    Event::Write { file, offset, bytes } if file == flushed => {
                        files[*file].write_all_at(bytes, *offset)?
                    }
                    _ => rest.push(number),
                }
            }
            *pending = rest;
        }
    }
    Ok(())
}
