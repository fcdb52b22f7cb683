//! Numbers of a line as a page holds them: five digits that count, in as few characters as they take.
//!
//! `page.js` unpacks them. Most of a page's own data are the values of lines, so that each character is there ten thousand times.

use serde_json::{Value, json};

/// Values up to which even steps are not looked for.
const FEW: usize = 3;
/// The share by which values may miss even steps: more than floating point loses, less than a figure shows.
const MISS: f64 = 1e-9;

/// The digits of numbers as text, each worth its place here: no others but these take one character in a page.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Digits of a number as text at most: eight are 48 bits, which a page counts exactly.
const DIGITS_MAX: usize = 8;

/// The numbers packed: at even steps up to the end, or in units of a power of ten, as text or as a list, whichever is shorter. One
/// that is not finite is null.
pub fn packed(values: &[f64]) -> Value {
    even(values).unwrap_or_else(|| {
        let list = in_units(values);
        as_text(values).filter(|text| text.to_string().len() < list.to_string().len()).unwrap_or(list)
    })
}

/// Numbers in units of a power of ten that makes all of them whole, as text with this many digits for each; none where one is
/// negative or not finite, or takes too many digits.
fn as_text(values: &[f64]) -> Option<Value> {
    let unit = values.iter().filter_map(|&value| digits(value)).map(|(_, power)| power).min()?;
    let whole: Vec<u64> = values
        .iter()
        .map(|value| value * 10_f64.powi(-unit))
        .map(|scaled| (0.0..1e14).contains(&scaled).then(|| rounded(scaled).round() as u64))
        .collect::<Option<_>>()?;
    let most = whole.iter().copied().max()?;
    let count = (1..=DIGITS_MAX).find(|&count| most >> (6 * count) == 0)?;
    let digit = |number: u64, place: usize| char::from(DIGITS[(number >> (6 * place) & 63) as usize]);
    let text: String = whole.iter().flat_map(|&number| (0..count).rev().map(move |at| digit(number, at))).collect();
    Some(json!({"unit": unit, "digits": count, "text": text}))
}

/// Numbers at even steps from the first on; the last may come sooner.
fn even(values: &[f64]) -> Option<Value> {
    let [from, .., end] = *values else { return None };
    let steps = values.len().checked_sub(FEW)? + 1;
    let step = (values[steps] - from) / steps as f64;
    let misses =
        |(at, value): (usize, &f64)| (value - (from + step * at as f64)).abs() > MISS * value.abs().max(step.abs());
    let is_even = values.iter().all(|value| value.is_finite()) && !values[..=steps].iter().enumerate().any(misses);
    (is_even && steps > FEW).then(|| json!({"from": from, "step": step, "count": values.len(), "end": rounded(end)}))
}

/// Numbers in units of the power of ten in which they take the fewest characters.
fn in_units(values: &[f64]) -> Value {
    let digits: Vec<(i32, i32)> = values.iter().filter_map(|&value| digits(value)).collect();
    let length = |unit: &i32| digits.iter().map(|&(count, power)| characters(count, power - unit)).sum::<i32>();
    let unit = (-15..=12).min_by_key(length).unwrap_or(0);
    let number = |&value: &f64| match value * 10_f64.powi(-unit) {
        scaled if !scaled.is_finite() => Value::Null,
        scaled if rounded(scaled).fract() == 0.0 && scaled.abs() < 1e15 => json!(rounded(scaled) as i64),
        scaled => json!(rounded(scaled)),
    };
    json!({"unit": unit, "values": runs(values.iter().map(number))})
}

/// Numbers of which two or more that repeat the one before are told by how many they are, in a list of its own.
fn runs(numbers: impl Iterator<Item = Value>) -> Vec<Value> {
    let all: Vec<Value> = numbers.collect();
    let told = |run: &[Value]| match run {
        [one, others @ ..] if others.len() > 1 => vec![one.clone(), json!([others.len()])],
        alone => alone.to_vec(),
    };
    all.chunk_by(|one, other| one == other).flat_map(told).collect()
}

/// Digits that count of a number, and the power of ten of the last of them; none for 0, which takes one character in any unit.
fn digits(value: f64) -> Option<(i32, i32)> {
    let text = format!("{:.4e}", value.abs());
    let (mantissa, exponent) = text.split_once('e')?;
    let mantissa = mantissa.replace('.', "");
    let count = mantissa.trim_end_matches('0').len() as i32;
    (count > 0).then_some((count, exponent.parse::<i32>().ok()? + 1 - count))
}

/// Characters of this many digits times a power of ten.
fn characters(count: i32, power: i32) -> i32 {
    match power {
        0.. => count + power,
        _ if -power < count => count + 1,
        _ => 2 - power,
    }
}

/// A number with five digits that count: more can't be seen.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers, as `page.js` unpacks them.
    fn unpacked(packed: &Value) -> Vec<f64> {
        let number = |key: &str| packed[key].as_f64().unwrap();
        if let Some(text) = packed["text"].as_str() {
            let place = |digit: &u8| DIGITS.iter().position(|other| other == digit).unwrap() as f64;
            let whole = |digits: &[u8]| digits.iter().fold(0.0, |sum, digit| sum * 64.0 + place(digit));
            let numbers = text.as_bytes().chunks(number("digits") as usize).map(whole);
            return numbers.map(|whole| whole * 10_f64.powf(number("unit"))).collect();
        }
        match packed["values"].as_array() {
            Some(values) => values.iter().fold(Vec::new(), |mut all, value| {
                match (value[0].as_u64(), all.last().copied()) {
                    (Some(times), Some(last)) => all.extend(vec![last; times as usize]),
                    _ => all.push(value.as_f64().map_or(f64::NAN, |value| value * 10_f64.powf(number("unit")))),
                }
                all
            }),
            None => {
                let count = number("count") as usize;
                let step = |at: usize| number("from") + number("step") * at as f64;
                (0..count).map(|at| if at + 1 == count { number("end") } else { step(at) }).collect()
            }
        }
    }

    fn is_alike(values: &[f64]) {
        let again = unpacked(&packed(values));
        assert_eq!(values.len(), again.len());
        let differs = |(one, other): &(&f64, &f64)| match one.is_finite() {
            true => (*one - *other).abs() > 5.1e-5 * one.abs(),
            false => other.is_finite(),
        };
        assert!(!values.iter().zip(&again).any(|both| differs(&both)), "{values:?} became {again:?}");
    }

    #[test]
    fn numbers_keep_five_digits_whatever_their_size() {
        is_alike(&[]);
        is_alike(&[0.0, 0.015605, 1.25e-9, 7.0, 123_456_789.0, -3.5, f64::NAN, 1e15]);
        is_alike(&[77.754, 90.41, 38.496, 0.0]);
        is_alike(&[0.5, 0.5, 0.5, f64::NAN, f64::NAN, 0.5, 0.0, 0.0]);
        assert_eq!(packed(&[0.015605, 0.0119, 0.0]).to_string(), r#"{"unit":-4,"values":[156.05,119,0]}"#);
        assert_eq!(packed(&[2e6, 3e6]).to_string(), r#"{"unit":6,"values":[2,3]}"#);
        assert_eq!(packed(&[3.0, 3.0, 3.0, 1.0]).to_string(), r#"{"unit":0,"values":[3,[2],1]}"#);
    }

    #[test]
    fn many_numbers_are_told_as_text() {
        let values: Vec<f64> = (0..300).map(|at| (at * at % 997) as f64 * 0.0137).collect();
        is_alike(&values);
        assert_eq!(packed(&values)["digits"], 3);
        assert!(packed(&values).to_string().len() < 970);
        let text = packed(&[1.0, 64.0, 4095.0, 0.0, 7.0, 77.0, 777.0, 11.0, 3.0, 33.0, 333.0, 5.0, 2.0, 999.0, 1111.0]);
        assert_eq!(text["text"], "ABBA__AAAHBNMJALADAhFNAFACPnRX");
        // Not with a number that is negative or not finite.
        for odd in [-1.0, f64::NAN] {
            let values: Vec<f64> = values.iter().copied().chain([odd]).collect();
            is_alike(&values);
            assert!(packed(&values)["values"].is_array());
        }
    }

    #[test]
    fn even_steps_are_told_by_their_first_and_their_number() {
        let mut windows: Vec<f64> = (0..500).map(|at| at as f64 * 0.0017777).collect();
        windows.push(499.3 * 0.0017777);
        is_alike(&windows);
        assert!(packed(&windows)["step"].is_number());
        // A gap has its place twice.
        windows.insert(200, windows[200]);
        is_alike(&windows);
        assert!(packed(&windows)["step"].is_null());
    }
}
