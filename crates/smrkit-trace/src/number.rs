//! Numbers out of records and text: integers and decimals with overflow checks, eight digits at a time on the fast path.
//!
//! The eight-digit step is the known one of three multiplications on a 64-bit word (see Lemire, "Quickly parsing
//! eight digits", 2018). By hand: decimals are scaled to whole numbers, which the standard library's parser does not.

/// The little-endian number of 16 bits at byte `at`; 0 past the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

/// The little-endian number of 32 bits at byte `at`; 0 past the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

/// The little-endian number of 64 bits at byte `at`; 0 past the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

/// 10^n for n ≤ 8.
const TEN_TO: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The eight bytes at `at`, the first lowest; none near the end of the text.
#[inline(always)]
pub(crate) fn word(text: &[u8], at: usize) -> Option<u64> {
    let bytes = text.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Number of digits before the first of the eight bytes that is none.
#[inline(always)]
pub(crate) fn leading_digits(word: u64) -> usize {
    let x = word ^ 0x3030_3030_3030_3030;
    // A byte of x is 0 to 9 for a digit; adding 0x76 sets its top bit from 10 on, x itself from 128 on. A carry can
    // only come out of a byte that is no digit, so the lowest mark is right, and no other is looked at.
    let marks = (x.wrapping_add(0x7676_7676_7676_7676) | x) & 0x8080_8080_8080_8080;
    marks.trailing_zeros() as usize / 8
}

/// The number that eight bytes of digits write, the first digit in the lowest byte. Zero bytes count as zeros.
#[inline(always)]
fn eight(word: u64) -> u64 {
    const PAIRS: u64 = 0x0000_00FF_0000_00FF;
    let v = word & 0x0F0F_0F0F_0F0F_0F0F;
    // Bytes 0, 2, 4 and 6 become the numbers of pairs of digits.
    let v = v.wrapping_mul(10).wrapping_add(v >> 8);
    // The upper half of each product adds up two of the four pairs at their places.
    let high = (v & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((v >> 16) & PAIRS).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

/// The integer that starts at `at`, and where it ends. `None` if there is no digit, if it has 20 digits or more, or near the end of the text:
/// the caller then takes its slow path.
#[inline(always)]
pub(crate) fn digits(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = word(text, at)?;
    let n = leading_digits(first);
    if n < 8 {
        // Shifted so that the digits are the last of the eight, behind zeros.
        return (n > 0).then(|| (eight(first << (64 - 8 * n)), at + n));
    }
    let (value, at) = (eight(first), at + 8);
    let second = word(text, at)?;
    let n = leading_digits(second);
    if n < 8 {
        let rest = if n == 0 { 0 } else { eight(second << (64 - 8 * n)) };
        return Some((value * TEN_TO[n] + rest, at + n));
    }
    let (value, at) = (value * TEN_TO[8] + eight(second), at + 8);
    let third = word(text, at)?;
    let n = leading_digits(third);
    // More than 19 digits may overflow.
    if n > 3 {
        return None;
    }
    let rest = if n == 0 { 0 } else { eight(third << (64 - 8 * n)) };
    Some((value * TEN_TO[n] + rest, at + n))
}

/// Why a text is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoNumber {
    /// Something else than digits.
    Malformed,
    /// A minus sign before digits.
    Negative,
    /// Larger than 64 bits hold.
    Overflow,
}

/// An unsigned integer, the whole text.
pub(crate) fn integer(text: &[u8]) -> Result<u64, NoNumber> {
    if let [b'-', digit, ..] = text
        && digit.is_ascii_digit()
    {
        return Err(NoNumber::Negative);
    }
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(NoNumber::Malformed);
    }
    let mut value = 0_u64;
    for digit in text {
        let step = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        value = step.ok_or(NoNumber::Overflow)?;
    }
    Ok(value)
}

/// A decimal number times `scale`, rounded to the nearest integer: `decimal(b"1.5", 1000)` is 1500. `scale` is a power
/// of ten. An exponent is understood, at the precision of a double.
pub(crate) fn decimal(text: &[u8], scale: u64) -> Result<u64, NoNumber> {
    if let [b'-', digit, ..] = text
        && (digit.is_ascii_digit() || *digit == b'.')
    {
        return Err(NoNumber::Negative);
    }
    // Rare: few programs write times with an exponent.
    if memchr::memchr2(b'e', b'E', text).is_some() {
        return exponent(text, scale);
    }
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(NoNumber::Malformed);
    }
    let whole = if whole.is_empty() { 0 } else { integer(whole)? };
    let (mut part, mut weight) = (0, scale);
    for digit in fraction {
        let digit = u64::from(digit - b'0');
        if weight == 1 {
            // The first digit too many rounds.
            part += u64::from(digit >= 5);
            break;
        }
        weight /= 10;
        part += digit * weight;
    }
    whole.checked_mul(scale).and_then(|v| v.checked_add(part)).ok_or(NoNumber::Overflow)
}

fn exponent(text: &[u8], scale: u64) -> Result<u64, NoNumber> {
    let plain = text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let value = std::str::from_utf8(text).ok().filter(|_| plain).and_then(|t| t.parse::<f64>().ok());
    let value = (value.ok_or(NoNumber::Malformed)? * scale as f64).round();
    if value < u64::MAX as f64 { Ok(value as u64) } else { Err(NoNumber::Overflow) }
}

/// A hexadecimal integer, with or without `0x`.
pub(crate) fn hexadecimal(text: &[u8]) -> Result<u64, NoNumber> {
    let text = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_hexdigit) {
        return Err(NoNumber::Malformed);
    }
    let text = std::str::from_utf8(text).map_err(|_| NoNumber::Malformed)?;
    u64::from_str_radix(text, 16).map_err(|_| NoNumber::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_fast_integer_is_the_slow_one(value: u64, digits_kept in 1_usize..=20, after in any::<[u8; 9]>()) {
            let mut text = value.to_string().into_bytes();
            text.truncate(digits_kept);
            let expected = integer(&text);
            let length = text.len();
            text.push(b',');
            text.extend_from_slice(&after);
            text.extend_from_slice(&[0; 16]);
            match digits(&text, 0) {
                Some(found) => prop_assert_eq!(found, (expected.unwrap(), length)),
                None => prop_assert!(length >= 20),
            }
        }

        #[test]
        fn only_digits_count_as_digits(bytes: [u8; 8]) {
            let expected = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
            prop_assert_eq!(leading_digits(u64::from_le_bytes(bytes)), expected);
        }

        #[test]
        fn a_decimal_is_exact_to_the_nanosecond(s in 0_u64..18_000_000_000, ns in 0_u64..1_000_000_000) {
            let text = format!("{s}.{ns:09}");
            prop_assert_eq!(decimal(text.as_bytes(), 1_000_000_000), Ok(s * 1_000_000_000 + ns));
        }
    }

    #[test]
    fn odd_numbers_are_told_apart() {
        assert_eq!(integer(b"-7"), Err(NoNumber::Negative));
        assert_eq!(integer(b"7x"), Err(NoNumber::Malformed));
        assert_eq!(integer(b""), Err(NoNumber::Malformed));
        assert_eq!(integer(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(integer(b"18446744073709551616"), Err(NoNumber::Overflow));
        assert_eq!(decimal(b".5", 1000), Ok(500));
        assert_eq!(decimal(b"2.0004999", 1000), Ok(2000));
        assert_eq!(decimal(b"2.0005", 1000), Ok(2001));
        assert_eq!(decimal(b"1.5e+3", 1000), Ok(1_500_000));
        assert_eq!(decimal(b".", 1000), Err(NoNumber::Malformed));
        assert_eq!(decimal(b"5.", 1000), Ok(5000));
        assert_eq!(decimal(b"0.0000", 1), Ok(0));
        for negative in ["-0.1", "-.5", "-5", "-1e3"] {
            assert_eq!(decimal(negative.as_bytes(), 1000), Err(NoNumber::Negative), "{negative}");
        }
        for malformed in ["-", "-x", "-e3", "", "1.x", "x.1", ".-5"] {
            assert_eq!(decimal(malformed.as_bytes(), 1000), Err(NoNumber::Malformed), "{malformed}");
        }
        assert_eq!(decimal(b"1e40", 1000), Err(NoNumber::Overflow));
        assert_eq!(decimal(b"20000000000", 1_000_000_000), Err(NoNumber::Overflow));
        assert_eq!(hexadecimal(b"0x1F"), Ok(31));
        assert_eq!(hexadecimal(b"g"), Err(NoNumber::Malformed));
    }
}
