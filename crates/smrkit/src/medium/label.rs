//! Labels of sectors: a few words that a layer gives it, such as whose it is and when it was written.
//!
//! Disks keep a sector's own address and checksum with it, and some are formatted to 520 or 528 bytes; here there is
//! room for [`LABEL_WORDS`] words (assumption). Sector and label are written together and lost together: a label counts
//! only as long as its sector holds what was written with it. A disk of bytes keeps labels behind its last sector,
//! sixteen in a sector, each with a digest of itself. It writes a label after its sector, and takes it off before the
//! sector is overwritten or destroyed: whoever reads labels need not read the data.

use std::collections::BTreeMap;
use std::io;

use super::Backing;
use super::digest::digest;
use crate::units::{Pba, SECTOR_BYTES};

/// Words of a label.
pub const LABEL_WORDS: usize = 3;

/// The words that a layer gives a sector; all 0 is none.
pub type Label = [u64; LABEL_WORDS];

/// No label.
pub(super) const NONE: Label = [0; LABEL_WORDS];

const PAGE: u64 = 256;

/// Labels of a disk of stamps, each with the stamp that was written with it.
#[derive(Default)]
pub(super) struct Labels(BTreeMap<u64, Box<[(u64, Label); PAGE as usize]>>);

impl Labels {
    /// Gives the sector `pba`, which holds `stamp`, this label.
    pub(super) fn set(&mut self, pba: Pba, stamp: u64, label: Label) {
        let page = self.0.entry(pba.0 / PAGE).or_insert_with(|| Box::new([(0, NONE); PAGE as usize]));
        page[(pba.0 % PAGE) as usize] = (stamp, label);
    }

    /// The labels of `n` sectors from `pba` on, with the stamps written with them: (sector from `pba`, stamp, label); those that
    /// were taken off are there as [`NONE`].
    pub(super) fn within(&self, pba: Pba, n: u64) -> impl Iterator<Item = (u64, u64, Label)> + '_ {
        let end = pba.0 + n;
        let slots = self.0.range(pba.0 / PAGE..end.div_ceil(PAGE)).flat_map(|(page, slots)| {
            let first = page * PAGE;
            slots.iter().enumerate().map(move |(i, slot)| (first + i as u64, slot))
        });
        slots
            .filter(move |&(at, slot)| pba.0 <= at && at < end && *slot != (0, NONE))
            .map(move |(at, &(stamp, label))| (at - pba.0, stamp, label))
    }
}

const SECTOR: usize = SECTOR_BYTES as usize;
const SLOT: usize = 8 * (LABEL_WORDS + 1);
const SLOTS: u64 = SECTOR_BYTES / SLOT as u64;

/// The sectors behind the last of `capacity` that hold the labels of `n` sectors from `pba` on, and what they hold.
fn slots(backing: &dyn Backing, capacity: u64, pba: Pba, n: u64) -> io::Result<(Pba, Vec<u8>)> {
    let (first, sectors) = place(capacity, pba, n);
    let mut bytes = vec![0; sectors as usize * SECTOR];
    backing.read(first, &mut bytes)?;
    Ok((first, bytes))
}

/// The place of the labels of `n` sectors from `pba` on: the first sector, and how many.
fn place(capacity: u64, pba: Pba, n: u64) -> (Pba, u64) {
    let (first, end) = (pba.0 / SLOTS, (pba.0 + n).div_ceil(SLOTS));
    (Pba(capacity + first), end - first)
}

/// The bytes of the slots of `n` sectors from `pba` on, in the sectors that hold them.
fn within(pba: Pba, n: u64) -> std::ops::Range<usize> {
    let at = (pba.0 % SLOTS) as usize * SLOT;
    at..at + n as usize * SLOT
}

/// Labels the sectors from `pba` on, which have been written.
pub(super) fn write_bytes(backing: &mut dyn Backing, capacity: u64, pba: Pba, labels: &[Label]) -> io::Result<()> {
    let n = labels.len() as u64;
    let (first, mut bytes) = slots(backing, capacity, pba, n)?;
    for (slot, label) in bytes[within(pba, n)].chunks_exact_mut(SLOT).zip(labels) {
        let words = label.iter().copied().chain([digest(label)]);
        for (out, word) in slot.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }
    backing.write(first, &bytes)
}

/// Takes the labels off `n` sectors from `pba` on, which may be many.
pub(super) fn clear_range(backing: &mut dyn Backing, capacity: u64, pba: Pba, n: u64) -> io::Result<()> {
    let end = pba + n;
    let (whole, whole_end) = (pba.0.div_ceil(SLOTS), end.0 / SLOTS);
    if whole >= whole_end {
        return clear_bytes(backing, capacity, pba, n);
    }
    let (first, last) = (Pba(whole * SLOTS), Pba(whole_end * SLOTS));
    clear_bytes(backing, capacity, pba, first - pba)?;
    backing.zero(Pba(capacity + whole), whole_end - whole)?;
    clear_bytes(backing, capacity, last, end - last)
}

/// Takes the labels off `n` sectors from `pba` on, before they are overwritten or destroyed: a label that is there is its
/// sector's, so that recovery reads no data.
pub(super) fn clear_bytes(backing: &mut dyn Backing, capacity: u64, pba: Pba, n: u64) -> io::Result<()> {
    let (first, sectors) = place(capacity, pba, n);
    if backing.is_hole(first, sectors) {
        return Ok(());
    }
    let (_, mut bytes) = slots(backing, capacity, pba, n)?;
    let own = &mut bytes[within(pba, n)];
    if own.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    own.fill(0);
    backing.write(first, &bytes)
}

/// The labels among `n` sectors from `pba` on.
pub(super) fn read_bytes(backing: &dyn Backing, capacity: u64, pba: Pba, n: u64) -> io::Result<Vec<(u64, Label)>> {
    let (first, sectors) = place(capacity, pba, n);
    if backing.is_hole(first, sectors) {
        return Ok(Vec::new());
    }
    let (_, bytes) = slots(backing, capacity, pba, n)?;
    let labels = bytes[within(pba, n)].chunks_exact(SLOT).enumerate().filter_map(|(i, slot)| {
        let mut words = slot.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let label: Label = std::array::from_fn(|_| words.next().unwrap_or_default());
        let is_whole = label != NONE && words.next() == Some(digest(&label));
        is_whole.then_some((i as u64, label))
    });
    Ok(labels.collect())
}

#[cfg(test)]
mod tests {
    use crate::geometry::Geometry;
    use crate::medium::interference::Interference;
    use crate::medium::{Label, Medium, MemoryBacking, Stamps, WritePart};
    use crate::units::Pba;

    const LABELS: [Label; 40] = [[1, 2, 3]; 40];

    fn media() -> [Medium; 2] {
        [Medium::Stamps(Stamps::new()), Medium::Bytes(Box::new(MemoryBacking::default()))]
    }

    /// Writes 40 sectors, of whose content `fill` decides, or the first `limit` of them.
    fn write(medium: &mut Medium, pba: u64, fill: u8, limit: u64, labels: Option<&[Label]>) {
        let mut buf = medium.buf(40);
        match &mut buf {
            crate::medium::Buf::Stamps(v) => v.fill(u64::from(fill) << 40),
            crate::medium::Buf::Bytes(v) => v.fill(fill),
            _ => {}
        }
        let part = match labels {
            Some(labels) => WritePart::Labelled { buf: &buf, at: 0, sectors: 40, labels },
            None => WritePart::Data { buf: &buf, at: 0, sectors: 40 },
        };
        medium.write_parts(&Interference::Blocks { reach: 4 }, &geometry(), Pba(pba), &[part], limit).unwrap();
    }

    fn geometry() -> Geometry {
        Geometry::uniform(10, 100).unwrap()
    }

    fn labelled(medium: &Medium, pba: u64, n: u64) -> Vec<u64> {
        let found = medium.labels(&geometry(), Pba(pba), n).unwrap();
        assert!(found.iter().all(|(_, label)| *label == LABELS[0]));
        found.into_iter().map(|(i, _)| pba + i).collect()
    }

    #[test]
    fn written_sectors_carry_labels_and_lost_ones_do_not() {
        for mut medium in media() {
            write(&mut medium, 105, 1, 17, Some(&LABELS));
            assert_eq!(labelled(&medium, 0, 1000), (105..122).collect::<Vec<_>>());
            assert_eq!(labelled(&medium, 110, 5), (110..115).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_label_goes_with_the_data_of_its_sector() {
        for mut medium in media() {
            write(&mut medium, 100, 1, 40, Some(&LABELS));
            // Overwrites sectors 60 to 99 without labels, and destroys the three after them.
            write(&mut medium, 60, 2, 40, None);
            assert_eq!(labelled(&medium, 0, 1000), (103..140).collect::<Vec<_>>());
            write(&mut medium, 100, 3, 5, None);
            assert_eq!(labelled(&medium, 0, 1000), (108..140).collect::<Vec<_>>());
        }
    }

    #[test]
    fn labels_are_taken_off_a_range_and_no_others() {
        for (from, n) in [(109, 3), (110, 60), (112, 48), (0, 1000)] {
            for mut medium in media() {
                [100, 140].iter().for_each(|&pba| write(&mut medium, pba, 1, 40, Some(&LABELS)));
                medium.clear_labels(&geometry(), Pba(from), n).unwrap();
                let left: Vec<u64> = (100..180).filter(|pba| !(from..from + n).contains(pba)).collect();
                assert_eq!(labelled(&medium, 0, 1000), left, "{n} from {from} on");
            }
        }
    }
}
