//! Counts of tests, which the environment can raise.

use std::str::FromStr;

/// The count that the environment gives by this name, or `default` where it gives none.
pub fn count_from<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no count: {text}")))
}
