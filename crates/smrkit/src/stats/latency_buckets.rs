//! Latencies in fine buckets, as text: what it takes to merge outcomes exactly.

use serde::{Deserialize, Serialize};

use super::buckets::{LAST, index, largest};
use crate::error::Error;

/// Latencies of each operation. `docs/reference/outcome.md` explains every key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyBuckets {
    /// Reads.
    pub read: OpLatencies,
    /// Writes.
    pub write: OpLatencies,
    /// Flushes.
    pub flush: OpLatencies,
    /// Discards.
    pub discard: OpLatencies,
}

/// Latencies of one operation: exact sum and maximum, and the fine buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpLatencies {
    /// The sum of all.
    #[serde(with = "super::wide")]
    pub sum_ns: u128,
    /// The longest.
    pub max_ns: u64,
    /// Occupied buckets and their counts, as text.
    pub buckets: String,
}

/// Digits of 6 bits. The text is made here because bytes in base64 take a third more, and a crate besides.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// A field of 3 bits that says: the rest follows.
const LONG: u64 = 7;

/// Writes occupied buckets, ascending.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    next: u64,
}

impl Writer {
    /// Adds the bucket of a latency above all before, with `count` requests.
    pub fn push(&mut self, ns: u64, count: u64) {
        let (skipped, more) = (index(ns) - self.next, count - 1);
        self.digit(skipped.min(LONG) << 3 | more.min(LONG));
        [skipped, more].into_iter().filter(|&field| field >= LONG).for_each(|field| self.number(field - LONG));
        self.next = index(ns) + 1;
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }

    /// Five bits a digit, the lowest first; all digits but the last have the sixth bit.
    fn number(&mut self, mut value: u64) {
        while value >= 32 {
            self.digit(32 | value & 31);
            value >>= 5;
        }
        self.digit(value);
    }

    fn digit(&mut self, digit: u64) {
        self.text.push(char::from(DIGITS[digit as usize]));
    }
}

/// Calls `each` with the largest latency and the count of the text's buckets, ascending.
pub(super) fn read(text: &str, mut each: impl FnMut(u64, u64)) -> Result<(), Error> {
    let mut digits = text.bytes().map(|byte| DIGITS.iter().position(|&digit| digit == byte).map(|at| at as u64));
    let mut next = 0u64;
    while let Some(digit) = digits.next() {
        let fields = digit.and_then(|digit| Some((field(digit >> 3, &mut digits)?, field(digit & 7, &mut digits)?)));
        let bucket = fields.and_then(|(skipped, more)| Some((next.checked_add(skipped)?, more.checked_add(1)?)));
        let Some((index, count)) = bucket.filter(|&(index, _)| index <= LAST) else {
            return Err(Error::Usage("latency_buckets are damaged: take the record as smrkit wrote it".into()));
        };
        each(largest(index), count);
        next = index + 1;
    }
    Ok(())
}

/// A field of 3 bits, with the digits that follow if it is a long one.
fn field(short: u64, digits: &mut impl Iterator<Item = Option<u64>>) -> Option<u64> {
    if short < LONG {
        return Some(short);
    }
    let mut rest = 0u64;
    for shift in (0..60).step_by(5) {
        let digit = digits.next()??;
        rest |= (digit & 31) << shift;
        if digit < 32 {
            return Some(rest + LONG);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbouring_buckets_of_few_requests_take_a_character_each() {
        let mut writer = Writer::default();
        (100..200).for_each(|ns| writer.push(ns, ns % 7 + 1));
        assert!(writer.finish().len() <= 103);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(buckets in prop::collection::btree_map(0u64.., 1u64..1 << 50, 0..50)) {
            let buckets: std::collections::BTreeMap<u64, u64> =
                buckets.into_iter().map(|(ns, count)| (largest(index(ns)), count)).collect();
            let mut writer = Writer::default();
            buckets.iter().for_each(|(&ns, &count)| writer.push(ns, count));
            let mut found = Vec::new();
            read(&writer.finish(), |ns, count| found.push((ns, count))).unwrap();
            prop_assert_eq!(found, buckets.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn damaged_text_is_refused_or_read(text in "[0-9A-Za-z_ü -]{0,20}") {
            let _ = read(&text, |_, count| assert!(count > 0));
        }
    }

    #[test]
    fn text_that_ends_early_or_leaves_the_range_is_refused() {
        for text in ["v", "u", " ", "________________", "u__________f"] {
            assert!(read(text, |_, _| ()).is_err(), "{text}");
        }
    }
}
