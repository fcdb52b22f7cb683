//! The log of a mount: lines with the time on standard error, which `smrkit mount` leads into a file.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Adds a line.
pub fn log(line: &str) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A full disk or a closed terminal is no reason to stop.
    let _ = writeln!(io::stderr(), "{} {line}", stamp(since.as_secs()));
}

/// Seconds since 1970 as `2015-07-08 12:00:00` in UTC.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The date of a day counted from 1970, in the Gregorian calendar whose years begin in March. By hand: no other date is made here, and
/// a crate of calendars and time zones would be for this line.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_know_leap_years() {
        assert_eq!(stamp(0), "1970-01-01 00:00:00");
        assert_eq!(stamp(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(stamp(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(stamp(1_767_225_599), "2025-12-31 23:59:59");
    }
}
