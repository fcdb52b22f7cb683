//! Part of a volatile cache that has reached the platters when the power goes.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::image::{DiskImage, GranuleContent};
use crate::device::Bands;
use crate::units::{Granule, Span};

/// Rule for what a power cut leaves of writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteLoss {
    /// Nothing.
    All,
    /// Everything; some of the write under way.
    None,
    /// The first writes, and some of the next.
    Tail,
    /// Any of them, and of each any granules.
    Any,
}

impl WriteLoss {
    /// All four.
    pub const ALL: [WriteLoss; 4] = [WriteLoss::All, WriteLoss::None, WriteLoss::Tail, WriteLoss::Any];
}

/// A write or a reset, and what it brought about.
pub(super) struct Operation {
    pub(super) number: u64,
    pub(super) at: u64,
    pub(super) pages: Vec<GranuleContent>,
    pub(super) destroyed: Vec<(Span, Granule)>,
    /// Strict-append: the band and how far it is filled then.
    pub(super) cursor: Option<(u64, u64)>,
}

/// Part of an operation that survives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Torn,
    Lost,
}

/// Does on `image` what survives of `operations`; number `cut` was under way.
pub(super) fn apply(
    image: &mut DiskImage,
    operations: &[Operation],
    bands: &Bands,
    loss: WriteLoss,
    seed: u64,
    cut: u64,
) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let tail = random.random_range(0..=operations.len());
    // Bands of which something is lost: their cursor stays there.
    let mut ended = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let fate = match loss {
            WriteLoss::All => Fate::Lost,
            WriteLoss::None => Fate::Whole,
            WriteLoss::Tail if i < tail => Fate::Whole,
            WriteLoss::Tail if i == tail => Fate::Torn,
            WriteLoss::Tail => Fate::Lost,
            WriteLoss::Any => [Fate::Whole, Fate::Torn, Fate::Lost][random.random_range(0..3)],
        };
        let fate = if operation.number == cut && fate == Fate::Whole { Fate::Torn } else { fate };
        match bands.band_at(Granule(operation.at)) {
            None => anywhere(image, operation, fate, &mut random),
            Some(band) if ended.contains(&band) => {}
            Some(band) => {
                append(image, operation, fate, bands.span(band).at.0, band, &mut random);
                if fate != Fate::Whole {
                    ended.push(band);
                }
            }
        }
    }
}

fn anywhere(image: &mut DiskImage, operation: &Operation, fate: Fate, random: &mut Pcg64Mcg) {
    match fate {
        Fate::Lost => return,
        Fate::Whole => image.put(operation.at, &operation.pages),
        Fate::Torn => {
            for (at, page) in (operation.at..).zip(&operation.pages) {
                if random.random() {
                    image.put(at, std::slice::from_ref(page));
                }
            }
        }
    }
    for &(span, by) in &operation.destroyed {
        image.destroy(span, by);
    }
}

fn append(image: &mut DiskImage, operation: &Operation, fate: Fate, start: u64, band: u64, random: &mut Pcg64Mcg) {
    let pages = operation.pages.len();
    let survive = match fate {
        Fate::Lost => return,
        Fate::Whole => pages,
        Fate::Torn => random.random_range(0..=pages),
    };
    image.put(operation.at, &operation.pages[..survive]);
    match operation.cursor {
        Some((band, filled)) if survive == pages => image.fill(band, filled),
        // A reset under way may have been done; so may the part of a write.
        _ if pages == 0 && random.random() => image.fill(band, 0),
        _ if pages > 0 => image.fill(band, operation.at - start + survive as u64),
        _ => {}
    }
}
