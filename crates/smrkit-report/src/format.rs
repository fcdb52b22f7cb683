//! Numbers as people read them: three or four digits and a unit.

use smrkit::units::SECTOR_BYTES;

/// The text for a value that does not exist.
pub const NONE: &str = "-";

/// A number with about three significant digits: `0.0123`, `3.49`, `5,980`, `1.2 M`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return NONE.into();
    }
    let digits = match size {
        0.0 => return "0".into(),
        s if !(1e-6..1e15).contains(&s) => return format!("{value:.1e}"),
        s if s >= 999_500_000.0 => return format!("{} G", short(value / 1e9)),
        s if s >= 999_500.0 => return format!("{} M", short(value / 1e6)),
        s if s >= 999.5 => return fixed(value, 0),
        s => (2 - s.log10().floor() as i32).clamp(0, 8) as usize,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// A number with `digits` decimals, or rounded to tens (-1), hundreds (-2) and so on: `1,178.30`, `1,200`.
pub fn fixed(value: f64, digits: i32) -> String {
    let unit = 10_f64.powi(digits.min(0).abs());
    // The formatter rounds decimals only, and halves to even.
    let rounded = if digits <= 0 { (value / unit).round() * unit } else { value };
    let text = format!("{:.*}", digits.max(0) as usize, rounded.abs());
    let (whole, fraction) = text.find('.').map_or((text.as_str(), ""), |point| text.split_at(point));
    let sign = if value < 0.0 { "-" } else { "" };
    // Numbers too large to count, and infinity, stay as they are.
    format!("{sign}{}{fraction}", whole.parse().map_or(whole.to_string(), count))
}

/// A count with its thousands set apart: `750,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|g| String::from_utf8_lossy(g));
    groups.collect::<Vec<_>>().join(",")
}

/// Bytes a second: `56.6 kB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    format!("{}/s", bytes(bytes_per_s))
}

/// A time in seconds with the unit that keeps it readable: `24.8 ms`, `13 min`.
pub fn seconds(value: f64) -> String {
    let (unit_s, unit) = match value.abs() {
        0.0 => (1.0, "s"),
        s if s < 0.9995e-6 => (1e-9, "ns"),
        s => time_unit(s),
    };
    format!("{} {unit}", short(value / unit_s))
}

/// A time in nanoseconds, written as `seconds` does.
pub fn nanos(value: u64) -> String {
    seconds(value as f64 / 1e9)
}

/// A size in bytes with a decimal prefix: `1.05 MB`.
pub fn bytes(value: f64) -> String {
    let (scale, unit) = byte_unit(value);
    format!("{} {unit}", short(value / scale))
}

/// The size of some sectors.
pub fn sectors(count: u64) -> String {
    bytes((count * SECTOR_BYTES) as f64)
}

/// A decimal prefix that fits a size: the number of bytes in the unit, and its name.
pub fn byte_unit(size: f64) -> (f64, &'static str) {
    match size.abs() {
        s if s < 999.5 => (1.0, "B"),
        s if s < 999.5e3 => (1e3, "kB"),
        s if s < 999.5e6 => (1e6, "MB"),
        s if s < 999.5e9 => (1e9, "GB"),
        s if s < 999.5e12 => (1e12, "TB"),
        _ => (1e15, "PB"),
    }
}

/// A unit that fits times up to `longest_s` on a linear axis: seconds in it, and its name.
pub fn time_unit(longest_s: f64) -> (f64, &'static str) {
    match longest_s {
        // A time that would be rounded up to the next unit is written in that unit.
        s if s < 0.9995e-3 => (1e-6, "µs"),
        s if s < 0.9995 => (1e-3, "ms"),
        s if s < 600.0 => (1.0, "s"),
        s if s < 7200.0 => (60.0, "min"),
        s if s < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    }
}

/// A factor such as a slowdown: `5.2×`.
pub fn times(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(NONE.into(), |v| format!("{}×", short(v)))
}

/// A ratio that may not exist.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or(NONE.into(), short)
}

/// Text from a file or a path, without terminal control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `part` of `whole` in percent; `-` if `whole` is 0.
pub fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{} %", short(100.0 * part / whole)) } else { NONE.into() }
}

/// Text with HTML's special characters escaped.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// A smrkit command for a shell, from the words after the program's name. Words that a shell would split are quoted.
pub fn command(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=/@%+".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.fold("smrkit".into(), |command, word| command + " " + &quoted(word))
}

/// Columns of a terminal that paragraphs and tables fit into.
pub const WIDTH: usize = 118;

/// A paragraph in lines of at most `width` columns, as far as words allow; lines after the first are indented like the
/// text after `mark`.
pub fn wrapped(mark: &str, text: &str, width: usize) -> String {
    let indent = mark.chars().count();
    let (mut out, mut column) = (mark.to_string(), indent);
    for (i, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > width {
            out += &format!("\n{:indent$}", "");
            column = indent;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out
}

/// Number and noun: `1 track`, `127 sectors`.
pub fn counted(value: impl Into<u64>, what: &str) -> String {
    match value.into() {
        1 => format!("1 {what}"),
        value => format!("{} {what}s", count(value)),
    }
}

/// `a, b and c`.
pub fn list(mut words: Vec<String>) -> String {
    match words.pop() {
        None => String::new(),
        Some(only) if words.is_empty() => only,
        Some(end) => format!("{} and {end}", words.join(", ")),
    }
}

/// A text that begins with a capital letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_no_idle_zeros() {
        let shown = [0.0, 0.01234, 3.486, 31.25, 999.6, 5980.0, 1_234_567.0, -2.5, 1e-9, f64::NAN].map(short);
        assert_eq!(shown, ["0", "0.0123", "3.49", "31.2", "1,000", "5,980", "1.23 M", "-2.5", "1.0e-9", "-"]);
        assert_eq!(count(750_000), "750,000");
        assert_eq!(count(12), "12");
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        let words = ["aZ9-_.,:=/@%+", "", "a b", "$x", "it's"].map(String::from);
        assert_eq!(command(words.into_iter()), "smrkit aZ9-_.,:=/@%+ '' 'a b' '$x' 'it'\\''s'");
    }

    #[test]
    fn units_change_before_the_digits_do() {
        let shown = [0.0, 4.9e-6, 0.02478, 0.99999, 31.0, 780.0, 20_000.0, 4e5].map(seconds);
        assert_eq!(shown, ["0 s", "4.9 µs", "24.8 ms", "1 s", "31 s", "13 min", "5.56 h", "4.63 days"]);
        assert_eq!([512.0, 4096.0, 5e12].map(bytes), ["512 B", "4.1 kB", "5 TB"]);
        assert_eq!(percent(1.0, 0.0), "-");
        assert_eq!(times(None), "-");
    }

    /// Values on both sides of where a unit, or the number of digits, changes.
    #[test]
    fn numbers_at_the_edges_are_written_as_they_were() {
        let powers = (-10..=16).flat_map(|power| [0.9994, 0.9995, 1.0, 1.2345].map(|by| by * 10f64.powi(power)));
        let others = [0.0, 599.99, 600.0, 7199.9, 7200.0, 172_799.0, 172_800.0, -1234.5, f64::INFINITY, f64::NAN];
        let mut made = String::new();
        for value in powers.chain(others) {
            let units = [byte_unit(value), time_unit(value)].map(|(by, unit)| format!("{} {unit}", short(by)));
            let [bytes_in, time_in] = units;
            let all =
                [short(value), seconds(value), bytes(value), rate(value), times(Some(value)), percent(value, 7.0)];
            made += &format!("{value:.6e}: {}; {bytes_in}, {time_in}, {}\n", all.join(", "), nanos(value as u64));
        }
        for width in [1, 7, 8, 9, 20] {
            made += &format!("{width}\n{}\n", wrapped("- ", "one word or two, and an abbreviation", width));
        }
        made +=
            &[escape("<a & \"b\">'"), printable("a\tb\x1b"), counted(1u64, "track"), counted(2u64, "track")].join(" ");
        insta::assert_snapshot!(made);
    }
}
