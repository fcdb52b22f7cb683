//! Labels of the log's sectors, from which the map can be rebuilt by the platters alone.
//!
//! The first word says whose it is and how many sectors of its request were still to come; the second how new the data
//! is, and what kind of write put it there; the third which write of the log that was.

use crate::layer::COUNT_MAX;
use crate::medium;
use crate::units::Lba;

/// Kind of the write that put a sector there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelKind {
    /// The host's.
    Host = 1,
    /// Cleaning.
    Copy = 2,
    /// Recovery, which put back what a torn request had replaced.
    Repair = 3,
}

/// A label, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogLabel {
    pub(super) lba: Lba,
    /// Sectors of the same request still to come; 0 in copies and repairs.
    pub(super) left: u64,
    /// Age of the data: of two versions the one with the higher order counts. Requests have even orders.
    pub(super) order: u64,
    pub(super) kind: LabelKind,
    /// Write of the log, counted from 1.
    pub(super) serial: u64,
}

const LEFT_BITS: u32 = 24;
const KIND_BITS: u32 = 2;

impl LogLabel {
    pub(super) fn words(self) -> medium::Label {
        let whose = self.lba.0 << LEFT_BITS | self.left;
        [whose, self.order << KIND_BITS | self.kind as u64, self.serial]
    }

    /// `None` for words that are no label of this layer.
    pub(super) fn parse(words: medium::Label) -> Option<LogLabel> {
        let kind = match words[1] & ((1 << KIND_BITS) - 1) {
            1 => LabelKind::Host,
            2 => LabelKind::Copy,
            3 => LabelKind::Repair,
            _ => return None,
        };
        let (lba, left) = (Lba(words[0] >> LEFT_BITS), words[0] & ((1 << LEFT_BITS) - 1));
        let (order, serial) = (words[1] >> KIND_BITS, words[2]);
        (order < COUNT_MAX && serial < COUNT_MAX).then_some(LogLabel { lba, left, order, kind, serial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_survives_its_packing() {
        let label = LogLabel {
            lba: Lba((1 << 39) - 5),
            left: 2047,
            order: 1 << 50 | 1,
            kind: LabelKind::Repair,
            serial: 1 << 49,
        };
        assert_eq!(LogLabel::parse(label.words()), Some(label));
        assert_eq!(LogLabel::parse([7, 0, 1]), None);
        assert_eq!(LogLabel::parse([7, 1, u64::MAX]), None);
        let counts = |order: u64, serial| LogLabel::parse([7, order << KIND_BITS | 1, serial]).is_some();
        assert!(counts(COUNT_MAX - 1, COUNT_MAX - 1));
        assert!(!counts(COUNT_MAX, 1) && !counts(1, COUNT_MAX));
    }
}
