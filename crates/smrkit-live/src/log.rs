//! The log of a mount: lines with the time on standard error, which `smrkit mount` leads into a file.

use std::io::{self, Write};

use jiff::Timestamp;

/// Adds a line.
pub fn log(line: &str) {
    // A full disk or a closed terminal is no reason to stop.
    let _ = writeln!(io::stderr(), "{} {line}", stamp(Timestamp::now()));
}

/// A moment as `2015-07-08 12:00:00` in UTC.
fn stamp(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_know_leap_years() {
        let stamp = |second| stamp(Timestamp::from_second(second).unwrap());
        assert_eq!(stamp(0), "1970-01-01 00:00:00");
        assert_eq!(stamp(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(stamp(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(stamp(1_767_225_599), "2025-12-31 23:59:59");
    }
}
