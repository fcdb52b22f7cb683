//! Values of options, read as the schema reads the values of keys: `1k`, `1_000`, `4KiB`, `5ms`, `2%`.

use smrkit::error::Error;
use smrkit::schema::{Count, ValueKind};

/// Reads values of a kind.
pub fn value<K: ValueKind + Copy>(kind: K) -> impl Fn(&str) -> Result<K::Value, Error> + Clone {
    move |text| kind.read(text.trim(), true)
}

/// Reads whole numbers that a `T` holds.
pub fn count<T: TryFrom<u64>>(text: &str) -> Result<T, Error> {
    let count = Count(0, u64::MAX).read(text.trim(), true)?;
    T::try_from(count).map_err(|_| Error::Usage(format!("`{text}` is too large")))
}
