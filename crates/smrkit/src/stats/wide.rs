//! Sums beyond 64 bits in JSON: a number while it fits, then its digits as text, for readers round longer numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Writes a sum; for `#[serde(with = …)]`.
pub fn serialize<S: Serializer>(sum: &u128, to: S) -> Result<S::Ok, S::Error> {
    match u64::try_from(*sum) {
        Ok(number) => number.serialize(to),
        Err(_) => sum.to_string().serialize(to),
    }
}

/// Reads a sum; for `#[serde(with = …)]`.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Digits(String),
    }
    match Written::deserialize(from)? {
        Written::Number(number) => Ok(number.into()),
        Written::Digits(digits) => digits.parse().map_err(de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use crate::stats::latency_buckets::OpLatencies;
    use serde_json::json;

    #[test]
    fn sums_beyond_64_bits_are_written_and_read_exactly() {
        for (sum_ns, written) in
            [(7, json!(7)), (u64::MAX.into(), json!(u64::MAX)), (1 << 64, json!("18446744073709551616"))]
        {
            let latencies = OpLatencies { sum_ns, ..OpLatencies::default() };
            let record = serde_json::to_value(&latencies).unwrap();
            assert_eq!(record["sum_ns"], written);
            assert_eq!(serde_json::from_value::<OpLatencies>(record).unwrap(), latencies);
        }
    }
}
