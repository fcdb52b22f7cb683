//! The digest in records and labels.

/// A digest of words that tells whole records from torn ones.
pub fn digest(words: &[u64]) -> u64 {
    words.iter().fold(words.len() as u64, |sum, &word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}
