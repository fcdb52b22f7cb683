//! The parities of a stripe, and what is lost from what is left.
//!
//! P is the XOR of the data; Q is Σ 2ⁱ·Dᵢ in GF(2⁸) with the polynomial x⁸ + x⁴ + x³ + x² + 1, byte by byte, as in
//! Anvin, "The mathematics of RAID-6" (2004). A sector is a word here; what the words mean is left to the caller.

/// The polynomial without its highest term.
const POLYNOMIAL: u64 = 0x1d;
/// The lowest bit of each byte.
const LOW: u64 = 0x0101_0101_0101_0101;

/// More of a stripe is gone than its parities restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{missing} units of a stripe are lost, and it has {parities} parities: replace one failed disk before the next fails"
)]
pub struct Lost {
    /// Units that are gone.
    pub missing: usize,
    /// Parities of the stripe.
    pub parities: usize,
}

/// Adds (and takes away) words: the change of P, or a sum.
pub fn add(sum: &mut [u64], words: &[u64]) {
    for (sum, word) in sum.iter_mut().zip(words) {
        *sum ^= word;
    }
}

/// P of data units of equal length.
pub fn p<'a>(words: usize, data: impl IntoIterator<Item = &'a [u64]>) -> Vec<u64> {
    let mut sum = vec![0; words];
    data.into_iter().for_each(|unit| add(&mut sum, unit));
    sum
}

/// Q of data units of equal length.
pub fn q<'a>(words: usize, data: impl IntoIterator<Item = &'a [u64], IntoIter: DoubleEndedIterator>) -> Vec<u64> {
    let mut sum = vec![0; words];
    for unit in data.into_iter().rev() {
        for (sum, word) in sum.iter_mut().zip(unit) {
            *sum = twice(*sum) ^ word;
        }
    }
    sum
}

/// Restores the missing units of a stripe: `data` data units, then P, then (if there is a place for it) Q.
pub fn recover(data: usize, units: &mut [Option<Vec<u64>>]) -> Result<(), Lost> {
    let parities = units.len().saturating_sub(data);
    let missing = units.iter().filter(|unit| unit.is_none()).count();
    let Some(words) = units.iter().flatten().map(Vec::len).next().filter(|_| missing <= parities) else {
        return Err(Lost { missing, parities });
    };
    let (known, rest) = units.split_at_mut(data.min(units.len()));
    let lost: Vec<usize> = (0..known.len()).filter(|&i| known[i].is_none()).collect();
    // The sums with a zero for what is lost; with the stored parities, what is lost alone.
    let units = known.iter().map(|unit| unit.as_deref().unwrap_or(&[]));
    let with_p = rest.first().and_then(Option::as_ref).map(|stored| sum(p(words, units.clone()), stored));
    let with_q = rest.get(1).and_then(Option::as_ref).map(|stored| sum(q_of_known(words, known), stored));
    match (lost.as_slice(), with_p, with_q) {
        (&[x], Some(p), _) => known[x] = Some(p),
        (&[x], None, Some(q)) => known[x] = Some(scaled(q, inverse(power(x)))),
        (&[x, y], Some(p), Some(q)) => {
            // p = X + Y and q = gˣ·X + gʸ·Y, so that X = (gʸ·p + q) / (gˣ + gʸ).
            let first = scaled(sum(scaled(p.clone(), power(y)), &q), inverse(power(x) ^ power(y)));
            known[y] = Some(sum(p, &first));
            known[x] = Some(first);
        }
        _ => {}
    }
    if let Some(unit @ None) = rest.first_mut() {
        *unit = Some(p(words, known.iter().flatten().map(Vec::as_slice)));
    }
    if let Some(unit @ None) = rest.get_mut(1) {
        *unit = Some(q_of_known(words, known));
    }
    Ok(())
}

/// Q of those units that are there.
fn q_of_known(words: usize, known: &[Option<Vec<u64>>]) -> Vec<u64> {
    let zeros = vec![0; words];
    q(words, known.iter().map(|unit| unit.as_deref().unwrap_or(&zeros)))
}

fn sum(mut a: Vec<u64>, b: &[u64]) -> Vec<u64> {
    add(&mut a, b);
    a
}

fn scaled(mut words: Vec<u64>, factor: u8) -> Vec<u64> {
    words.iter_mut().for_each(|word| *word = times(*word, factor));
    words
}

/// Each byte of a word times 2.
fn twice(word: u64) -> u64 {
    ((word & !(LOW << 7)) << 1) ^ (((word >> 7) & LOW) * POLYNOMIAL)
}

/// Each byte of a word times `factor`.
fn times(word: u64, factor: u8) -> u64 {
    let (mut sum, mut shifted) = (0, word);
    for bit in 0..8 {
        if factor >> bit & 1 == 1 {
            sum ^= shifted;
        }
        shifted = twice(shifted);
    }
    sum
}

/// 2 to the power `exponent`; the powers repeat after 255.
fn power(exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |product, _| twice(product)) as u8
}

/// 1 / `a`, which is a²⁵⁴; of 0, 0.
fn inverse(a: u8) -> u8 {
    (0..253).fold(a, |product, _| times(u64::from(product), a) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A product of bytes the long way: a polynomial product, then the remainder.
    fn product(a: u8, b: u8) -> u8 {
        let mut long = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u32, |sum, bit| sum ^ u32::from(a) << bit);
        for bit in (8..16).rev() {
            if long >> bit & 1 == 1 {
                long ^= 0x11d << (bit - 8);
            }
        }
        long as u8
    }

    #[test]
    fn every_product_and_inverse_is_the_field_s() {
        for a in 0..=255u8 {
            for b in 0..=255 {
                assert_eq!(times(u64::from(a) << 24, b), u64::from(product(a, b)) << 24, "{a} times {b}");
            }
            assert_eq!(product(a, inverse(a)), u8::from(a != 0));
        }
        let mut powers: Vec<u8> = (0..255).map(power).collect();
        powers.sort_unstable();
        assert_eq!(powers, (1..=255).collect::<Vec<u8>>(), "2 generates the field");
    }

    fn stripe() -> impl Strategy<Value = Vec<Vec<u64>>> {
        (1usize..24, 1usize..4)
            .prop_flat_map(|(data, words)| prop::collection::vec(prop::collection::vec(any::<u64>(), words), data))
    }

    fn with_parities(data: &[Vec<u64>], parities: usize) -> Vec<Option<Vec<u64>>> {
        let (words, units) = (data[0].len(), || data.iter().map(Vec::as_slice));
        let all = data.iter().cloned().chain([p(words, units()), q(words, units())]).map(Some);
        all.take(data.len() + parities).collect()
    }

    proptest! {
        #[test]
        fn any_loss_within_the_parities_is_restored(data in stripe(), parities in 1usize..=2) {
            let whole = with_parities(&data, parities);
            for x in 0..whole.len() {
                for y in 0..whole.len() {
                    let mut units = whole.clone();
                    (units[x], units[y]) = (None, None);
                    let restored = recover(data.len(), &mut units);
                    if x == y || parities == 2 {
                        prop_assert_eq!(restored, Ok(()));
                        prop_assert_eq!(&units, &whole, "without {} and {}", x, y);
                    } else {
                        prop_assert_eq!(restored, Err(Lost { missing: 2, parities }));
                    }
                }
            }
        }

        #[test]
        fn changes_added_to_the_parities_give_those_of_the_new_data(
            mut data in stripe(), index in any::<prop::sample::Index>(), new in prop::collection::vec(any::<u64>(), 4),
        ) {
            let mut old = with_parities(&data, 2);
            let (k, index) = (data.len(), index.index(data.len()));
            let mut change = data[index].clone();
            add(&mut change, &new);
            add(&mut data[index], &change);
            add(old[k].as_mut().unwrap(), &change);
            let scaled: Vec<u64> = change.iter().map(|&word| times(word, power(index))).collect();
            add(old[k + 1].as_mut().unwrap(), &scaled);
            let new = with_parities(&data, 2);
            prop_assert_eq!(&old[k..], &new[k..]);
        }
    }

    #[test]
    fn three_losses_are_refused_and_nothing_lost_needs_nothing() {
        let mut units = with_parities(&[vec![1, 2], vec![3, 4], vec![5, 6]], 2);
        let whole = units.clone();
        assert_eq!(recover(3, &mut units), Ok(()));
        assert_eq!(units, whole);
        units[0] = None;
        units[2] = None;
        units[4] = None;
        assert_eq!(recover(3, &mut units), Err(Lost { missing: 3, parities: 2 }));
        assert_eq!(recover(0, &mut []), Err(Lost { missing: 0, parities: 0 }));
    }
}
