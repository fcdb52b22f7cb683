//! Moments as ISO 8601 writes them: `2024-05-01T12:00:00.25Z`, with a blank for the T, or with `+02:00` for the Z.
//!
//! The text is cut by hand, since crates' own parsers take several times as long; the calendar is jiff's.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;

/// Nanoseconds since 1970. A moment without a zone is UTC. `None` if the text is no moment.
pub(crate) fn nanoseconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, time) = text.split_once(['T', ' '])?;
    let mut date = date.split('-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, ahead_s) = zone(time)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut clock = clock.split(':').map(digits);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let has_other_parts = date.next().is_some() || clock.next().is_some();
    if has_other_parts || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = seconds([year, month, day], [hour, minute, second], ahead_s)?;
    // Further digits are cut off.
    let mut nanos = 0;
    for at in 0..9 {
        let digit = fraction.as_bytes().get(at).map_or(Some(0), |byte| digits(std::str::from_utf8(&[*byte]).ok()?))?;
        nanos = nanos * 10 + digit;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos as u64)
}

/// Seconds since 1970 of a date and a time of day, in a zone `ahead_s` ahead of UTC; `None` if there is no such moment.
fn seconds([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3], ahead_s: i64) -> Option<u64> {
    let narrow = |value: i64| i8::try_from(value).ok();
    let date = Date::new(i16::try_from(year).ok()?, narrow(month)?, narrow(day)?).ok()?;
    // The crate refuses second 60, the leap second: it is taken as the one after second 59.
    let leap = i64::from(second == 60);
    let time = Time::new(narrow(hour)?, narrow(minute)?, narrow(second - leap)?, 0).ok()?;
    let zone = Offset::from_seconds(i32::try_from(ahead_s).ok()?).ok()?;
    let moment = zone.to_timestamp(date.to_datetime(time)).ok()?;
    u64::try_from(moment.as_second() + leap).ok().filter(|_| (1970..=2500).contains(&year))
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// Splits the zone off a time of day. Returns the time of day, and the seconds by which its zone is ahead of UTC.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (clock, zone) = time.split_at(at);
    let (sign, zone) = zone.split_at(1);
    // `+02:00`, `+0200` or `+02`.
    let (hours, minutes) = match zone.split_once(':') {
        Some(parts) => parts,
        None if zone.len() == 4 && zone.is_ascii() => zone.split_at(2),
        None => (zone, "0"),
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let seconds = hours * 3600 + minutes * 60;
    (hours <= 23 && minutes <= 59).then_some((clock, if sign == "-" { -seconds } else { seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_count_from_1970_and_days_that_are_none_are_refused() {
        let of = |text: &str| nanoseconds(text.as_bytes());
        assert_eq!(of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(of("2024-02-29 23:59:59"), Some(1_709_251_199_000_000_000));
        assert_eq!(of("2024-03-01T01:00:00.25+01:00"), Some(1_709_251_200_250_000_000));
        assert_eq!(of("2024-03-01T02:00:00.25+0200"), Some(1_709_251_200_250_000_000));
        assert_eq!(of("2024-12-31T22:00:00-02"), Some(1_735_689_600_000_000_000));
        assert_eq!(of("2024-03-01T00:00"), Some(1_709_251_200_000_000_000));
        for wrong in [
            "",
            "2024-03-01",
            "2024-13-01T00:00:00",
            "2023-02-29T00:00:00",
            "2024-03-01T24:00:00",
            "2024-03-01T00:60:00",
            "2024-03-01T00:00:61",
            "2024-03-01-01T00:00:00",
            "2024-03-01T00:00:00:00",
            "2024-04-31T00:00:00",
            "2024-03-01T00:00:00+2400",
            "2024-03-01T00:00:00+01:60",
            "1969-12-31T00:00:00",
            "a-b-cT1:2:3",
            "2024-03-01T00:00:00.x",
            "2024-03-01T00:00:00.1234567890x",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_first_and_the_last_of_each_part_of_a_moment_are_taken() {
        let of = |text: &str| nanoseconds(text.as_bytes()).map(|ns| ns / 1_000_000_000);
        assert_eq!(of("1970-1-1T0:0:0"), Some(0));
        assert_eq!(of("1970-12-31T23:59:60Z"), Some(365 * 86_400));
        assert_eq!(of("1970-01-02T23:59:59+23:59"), Some(60 + 86_399));
        assert_eq!(of("1970-01-01T00:00:00-23:59"), Some(86_340));
        assert_eq!(of("1970-01-01T00:00:00+00:01"), None, "before 1970");
        assert_eq!(seconds([2500, 12, 31], [23, 59, 59], 0), Some(16_756_761_599));
        for (date, time) in [
            ([2501, 1, 1], [0, 0, 0]),
            ([1969, 12, 31], [23, 59, 59]),
            ([2000, 0, 1], [0, 0, 0]),
            ([2000, 13, 1], [0, 0, 0]),
            ([2000, 1, 0], [0, 0, 0]),
            ([2000, 1, 32], [0, 0, 0]),
            ([2000, 1, 1], [24, 0, 0]),
            ([2000, 1, 1], [0, 60, 0]),
            ([2000, 1, 1], [0, 0, 61]),
        ] {
            assert_eq!(seconds(date, time, 0), None, "{date:?} {time:?}");
        }
    }

    #[test]
    fn fractions_count_to_the_nanosecond_and_no_further() {
        let of =
            |text: &str| nanoseconds(format!("1970-01-01T00:00:01.{text}").as_bytes()).map(|ns| ns - 1_000_000_000);
        assert_eq!(of(""), Some(0));
        assert_eq!(of("5"), Some(500_000_000));
        assert_eq!(of("123456789"), Some(123_456_789));
        assert_eq!(of("1234567899"), Some(123_456_789));
        assert_eq!(of("000000001Z"), Some(1));
        assert_eq!(of("x5"), None);
        assert_eq!(nanoseconds(b"2500-01-01T00:00:00.0"), Some(16_725_225_600_000_000_000));
    }

    #[test]
    fn zones_stand_behind_the_time_in_four_forms() {
        assert_eq!(zone("1:2"), Some(("1:2", 0)));
        assert_eq!(zone("1:2Z"), Some(("1:2", 0)));
        assert_eq!(zone("1:2+03:04"), Some(("1:2", 11_040)));
        assert_eq!(zone("1:2-0304"), Some(("1:2", -11_040)));
        assert_eq!(zone("1:2+3"), Some(("1:2", 10_800)));
        assert_eq!(zone("1:2+23:59"), Some(("1:2", 86_340)));
        for wrong in ["1+24", "1+00:60", "1+", "1+x", "1+1:", "1+é1", "1+12345"] {
            assert_eq!(zone(wrong), None, "{wrong}");
        }
        assert_eq!([digits(""), digits("0012"), digits("00123"), digits("-1")], [None, Some(12), None, None]);
    }
}
