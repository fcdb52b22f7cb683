//! The parities of a stripe, and what is lost from what is left.
//!
//! P is the XOR of the data; Q is Σ 2ⁱ·Dᵢ in GF(2⁸) with the polynomial x⁸ + x⁴ + x³ + x² + 1, byte by byte, as in
//! Anvin, "The mathematics of RAID-6" (2004); R is Σ 4ⁱ·Dᵢ, the factors of ZFS's third parity. Up to three lost units solve as many
//! such sums, whose factors are a Vandermonde matrix. A sector is a word here; what the words mean is left to the caller.
//! By hand: crates for erasure codes have factors of their own, not those of md and ZFS.

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

/// Parity `number` of data units of equal length: P, Q and R for 0, 1 and 2.
pub fn parity<'a>(
    number: usize,
    words: usize,
    data: impl IntoIterator<Item = &'a [u64], IntoIter: DoubleEndedIterator>,
) -> Vec<u64> {
    let mut sum = vec![0; words];
    for unit in data.into_iter().rev() {
        for (sum, word) in sum.iter_mut().zip(unit) {
            *sum = (0..number).fold(*sum, |sum, _| twice(sum)) ^ word;
        }
    }
    sum
}

/// Restores the missing units of a stripe: `data` data units, then its parities, as many as there are places for.
pub fn recover(data: usize, units: &mut [Option<Vec<u64>>]) -> Result<(), Lost> {
    assert!(data <= units.len(), "{data} data units of a stripe of {}", units.len());
    let parities = units.len() - data;
    let missing = units.iter().filter(|unit| unit.is_none()).count();
    let Some(words) = units.iter().flatten().map(Vec::len).next().filter(|_| missing <= parities) else {
        return Err(Lost { missing, parities });
    };
    let (known, rest) = units.split_at_mut(data);
    let lost: Vec<usize> = (0..data).filter(|&i| known[i].is_none()).collect();
    // What a stored parity and that of the known units differ by is the lost units' share.
    let equation = |(number, stored): (usize, &Option<Vec<u64>>)| {
        let share = sum(of_known(number, words, known), stored.as_ref()?);
        Some((lost.iter().map(|&unit| power(number * unit)).collect(), share))
    };
    let equations = rest.iter().enumerate().filter_map(equation).take(lost.len()).collect();
    for (unit, restored) in lost.iter().zip(solved(equations)) {
        known[*unit] = Some(restored);
    }
    for (number, unit) in rest.iter_mut().enumerate().filter(|(_, unit)| unit.is_none()) {
        *unit = Some(of_known(number, words, known));
    }
    Ok(())
}

/// A parity of those units that are there.
fn of_known(number: usize, words: usize, known: &[Option<Vec<u64>>]) -> Vec<u64> {
    let zeros = vec![0; words];
    parity(number, words, known.iter().map(|unit| unit.as_deref().unwrap_or(&zeros)))
}

/// A sum of unknown units, each times its factor.
type Equation = (Vec<u8>, Vec<u64>);

/// The unknown units of as many equations that have one solution, by elimination.
fn solved(mut equations: Vec<Equation>) -> Vec<Vec<u64>> {
    for unknown in 0..equations.len() {
        let with = (unknown..equations.len()).find(|&row| equations[row].0[unknown] != 0);
        equations.swap(unknown, with.expect("no two sums of lost units are one"));
        let own = times_equation(&equations[unknown], inverse(equations[unknown].0[unknown]));
        for (row, other) in equations.iter_mut().enumerate() {
            let (factors, sum) = match row == unknown {
                true => continue,
                false => times_equation(&own, other.0[unknown]),
            };
            other.0.iter_mut().zip(factors).for_each(|(factor, own)| *factor ^= own);
            add(&mut other.1, &sum);
        }
        equations[unknown] = own;
    }
    equations.into_iter().map(|(_, unit)| unit).collect()
}

fn times_equation((factors, sum): &Equation, factor: u8) -> Equation {
    let factors = factors.iter().map(|&own| times(u64::from(own), factor) as u8).collect();
    (factors, sum.iter().map(|&word| times(word, factor)).collect())
}

fn sum(mut a: Vec<u64>, b: &[u64]) -> Vec<u64> {
    add(&mut a, b);
    a
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
        let parities = (0..parities).map(|number| parity(number, words, units()));
        data.iter().cloned().chain(parities).map(Some).collect()
    }

    proptest! {
        #[test]
        fn any_loss_within_the_parities_is_restored(
            data in stripe(), parities in 1usize..=3, third in any::<prop::sample::Index>(),
        ) {
            let whole = with_parities(&data, parities);
            let z = third.index(whole.len());
            for x in 0..whole.len() {
                for y in 0..whole.len() {
                    let mut units = whole.clone();
                    (units[x], units[y], units[z]) = (None, None, None);
                    let missing = units.iter().filter(|unit| unit.is_none()).count();
                    let restored = recover(data.len(), &mut units);
                    if missing <= parities {
                        prop_assert_eq!(restored, Ok(()));
                        prop_assert_eq!(&units, &whole, "without {}, {} and {}", x, y, z);
                    } else {
                        prop_assert_eq!(restored, Err(Lost { missing, parities }));
                    }
                }
            }
        }

        #[test]
        fn changes_added_to_the_parities_give_those_of_the_new_data(
            mut data in stripe(), index in any::<prop::sample::Index>(), new in prop::collection::vec(any::<u64>(), 4),
        ) {
            let mut old = with_parities(&data, 3);
            let (k, index) = (data.len(), index.index(data.len()));
            let mut change = data[index].clone();
            add(&mut change, &new);
            add(&mut data[index], &change);
            add(old[k].as_mut().unwrap(), &change);
            for number in [1, 2] {
                let scaled: Vec<u64> = change.iter().map(|&word| times(word, power(number * index))).collect();
                add(old[k + number].as_mut().unwrap(), &scaled);
            }
            let new = with_parities(&data, 3);
            prop_assert_eq!(&old[k..], &new[k..]);
        }
    }

    #[test]
    fn the_widest_stripe_is_restored_from_every_three_sums() {
        let data: Vec<Vec<u64>> = (0..255).map(|n: u64| vec![n.wrapping_mul(0x9e37_79b9_7f4a_7c15)]).collect();
        let whole = with_parities(&data, 3);
        for lost in [[0, 1, 254], [127, 128, 129], [0, 254, 255], [3, 253, 256], [9, 99, 257], [7, 255, 257]] {
            let mut units = whole.clone();
            lost.iter().for_each(|&unit| units[unit] = None);
            assert_eq!(recover(255, &mut units), Ok(()));
            assert_eq!(units, whole, "without {lost:?}");
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
