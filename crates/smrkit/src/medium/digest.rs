//! The digest in records and labels. By hand: images hold it, so that it must never change, and it takes a multiplication a word.

/// A digest of words that tells whole records from torn ones.
pub(crate) fn digest(words: &[u64]) -> u64 {
    of_words(words.iter().copied())
}

/// The digest of the words that these bytes are.
pub(super) fn digest_bytes(bytes: &[u8]) -> u64 {
    of_words(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())))
}

fn of_words(words: impl ExactSizeIterator<Item = u64>) -> u64 {
    let length = words.len() as u64;
    words.fold(length, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}
