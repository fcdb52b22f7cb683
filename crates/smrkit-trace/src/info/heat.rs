//! Heat of each 1 MiB piece of the address space: hot spots, and a histogram.
//!
//! A request counts where it begins. Memory: 8 bytes a piece in blocks of 64 pieces, 40 MB for all of 5 TB.

use std::collections::HashMap;

use serde::Serialize;

/// Sectors in a piece.
const PIECE: u64 = 2048;
/// Pieces in a block of the hash table.
const BLOCK_PIECES: u64 = 64;
/// Parts of the histogram, at most.
const PARTS: u64 = 256;

/// Accesses by piece.
#[derive(Default)]
pub(super) struct Heat {
    /// A hash table: with requests all over a large disk, a search tree would take most of the time of reading a trace.
    blocks: HashMap<(u16, u64), Box<[Count; BLOCK_PIECES as usize]>>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    reads: u32,
    writes: u32,
}

/// Skew of the accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HotSpots {
    /// The size of a piece of the address space.
    pub piece_bytes: u64,
    /// Pieces in which at least one request begins.
    pub accessed_pieces: u64,
    /// Share of requests that begin in the most accessed 1 % of these pieces (at least one piece).
    pub hottest_1_percent_share: Option<f64>,
    /// Share of requests that begin in the most accessed 10 %.
    pub hottest_10_percent_share: Option<f64>,
}

/// Beginnings of requests over the address space: the volumes end to end, in the order of their indexes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Surface {
    /// Sectors in a part.
    pub part_sectors: u64,
    /// Reads that begin in each part.
    pub reads: Vec<u64>,
    /// Writes that begin in each part.
    pub writes: Vec<u64>,
}

impl Heat {
    pub(super) fn count(&mut self, volume: u16, lba: u64, is_write: bool) {
        let piece = lba / PIECE;
        let block = self.blocks.entry((volume, piece / BLOCK_PIECES));
        let block = block.or_insert_with(|| Box::new([Count::default(); BLOCK_PIECES as usize]));
        let count = &mut block[(piece % BLOCK_PIECES) as usize];
        let counter = if is_write { &mut count.writes } else { &mut count.reads };
        *counter = counter.saturating_add(1);
    }

    /// The pieces that were accessed, in no order.
    fn pieces(&self) -> impl Iterator<Item = (u16, u64, Count)> {
        let numbered = self.blocks.iter().flat_map(|(&(volume, block), counts)| {
            (0..BLOCK_PIECES).zip(counts.iter()).map(move |(at, &count)| (volume, block * BLOCK_PIECES + at, count))
        });
        numbered.filter(|(_, _, count)| count.reads > 0 || count.writes > 0)
    }

    /// Skew of the accesses.
    pub(super) fn hot_spots(&self) -> HotSpots {
        let total = |count: Count| u64::from(count.reads) + u64::from(count.writes);
        let mut counts: Vec<u64> = self.pieces().map(|(_, _, count)| total(count)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = counts.iter().sum();
        let share = |percent: usize| {
            let hottest = (counts.len() * percent).div_ceil(100);
            (all > 0).then(|| counts[..hottest].iter().sum::<u64>() as f64 / all as f64)
        };
        HotSpots {
            piece_bytes: PIECE * smrkit::units::SECTOR_BYTES,
            accessed_pieces: counts.len() as u64,
            hottest_1_percent_share: share(1),
            hottest_10_percent_share: share(10),
        }
    }

    /// The histogram; `ends` are the volumes' highest ends in sectors, by index.
    pub(super) fn surface(&self, ends: &[u64]) -> Surface {
        let mut pieces_before = vec![0_u64];
        for end in ends {
            pieces_before.push(pieces_before.last().unwrap_or(&0).saturating_add(end.div_ceil(PIECE)));
        }
        let pieces = *pieces_before.last().unwrap_or(&0);
        let part_pieces = pieces.div_ceil(PARTS).max(1);
        let parts = pieces.div_ceil(part_pieces) as usize;
        let mut surface =
            Surface { part_sectors: part_pieces.saturating_mul(PIECE), reads: vec![0; parts], writes: vec![0; parts] };
        for (volume, piece, count) in self.pieces() {
            let piece = pieces_before.get(usize::from(volume)).map_or(0, |before| before.saturating_add(piece));
            let at = ((piece / part_pieces) as usize).min(parts.saturating_sub(1));
            if let (Some(reads), Some(writes)) = (surface.reads.get_mut(at), surface.writes.get_mut(at)) {
                *reads += u64::from(count.reads);
                *writes += u64::from(count.writes);
            }
        }
        surface
    }
}
