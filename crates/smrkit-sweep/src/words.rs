//! Keys of outcomes in words, and the units of their numbers.

use smrkit_report::format;

/// A key in words: `latency_ns.all.p99` is `p99 latency`, `parameters.cache_percent` is `cache`.
pub fn name(key: &str) -> String {
    let key = key.trim_start_matches("parameters.").trim_start_matches("engine.").trim_start_matches("verdict.");
    let words = match key.strip_prefix("latency_ns.").and_then(|latency| latency.split_once('.')) {
        Some(("all", which)) => format!("{which} latency"),
        Some((of, which)) => format!("{which} latency of {of}s"),
        None => {
            key.trim_start_matches("trace_reading.").trim_start_matches("run.").replace("_ns.", ".").replace('.', " ")
        }
    };
    let end = |words: &str, end| words.strip_suffix(end).unwrap_or(words).to_string();
    let words =
        ["_bytes_per_s", "_percent", "_bytes", "_ns", "_s"].into_iter().fold(words, |words, unit| end(&words, unit));
    words.replace("p99_9", "p99.9").replace("p99_5", "p99.5").replace('_', " ")
}

/// The unit of a column of a key's numbers up to `largest`: its name, and the factor for the numbers.
pub fn unit(key: &str, largest: f64) -> (String, f64) {
    let last = key.rsplit('.').next().unwrap_or(key);
    let time = |base_s: f64| {
        let (unit_s, name) = format::time_unit(largest * base_s);
        (name.into(), base_s / unit_s)
    };
    let bytes = |ending: &str| {
        let (unit_bytes, name) = format::byte_unit(largest);
        (format!("{name}{ending}"), 1.0 / unit_bytes)
    };
    match last {
        // All fields of a record of times are times, except the count.
        _ if key.contains("_ns.") && last != "count" => time(1e-9),
        _ if last.ends_with("_ns") => time(1e-9),
        _ if last.ends_with("_at_s") => time(1.0),
        _ if last.ends_with("_bytes") => bytes(""),
        _ if last.ends_with("_bytes_per_s") => bytes("/s"),
        _ if last.ends_with("_percent") => ("%".into(), 1.0),
        "slowdown" | "write_amplification" | "write_overloading" => ("×".into(), 1.0),
        _ => (String::new(), 1.0),
    }
}

/// True if a higher value is better: rates, and the time until a problem occurs.
pub fn is_better_high(key: &str) -> bool {
    key.ends_with("_bytes_per_s") || key.ends_with("_at_s")
}

/// A name with its unit.
pub fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.into() } else { format!("{name} ({unit})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_words_and_units() {
        let head = |key: &str, largest| with_unit(&name(key), &unit(key, largest).0);
        assert_eq!(head("latency_ns.all.p99", 24.8e6), "p99 latency (ms)");
        assert_eq!(head("latency_ns.read.p99_9", 3e9), "p99.9 latency of reads (s)");
        assert_eq!(head("parameters.cache_percent", 2.0), "cache (%)");
        assert_eq!(head("engine.depth", 32.0), "depth");
        assert_eq!(head("slowdown", 3.0), "slowdown (×)");
        assert_eq!(head("busy_by_cause_ns.map", 17.1e9), "busy by cause map (s)");
        assert_eq!(head("verdict.rate_before_bytes_per_s", 3e6), "rate before (MB/s)");
        assert_eq!(head("verdict.cache_full_at_s", 30.0), "cache full at (s)");
        assert_eq!(head("capacity.raw_sectors", 30.0), "capacity raw sectors");
        assert_eq!(unit("elapsed_ns", 2e9), ("s".into(), 1e-9));
    }

    #[test]
    fn units_end_names_and_prefixes_begin_none() {
        let names = [
            ("parameters.cache_percent", "cache"),
            ("engine.think_ns", "think"),
            ("verdict.rate_after_bytes_per_s", "rate after"),
            ("map_bytes", "map"),
            ("trace_reading.volume", "volume"),
            ("run.rebuild", "rebuild"),
            ("latency_ns.write.p99_5", "p99.5 latency of writes"),
            ("latency_ns.all.max", "max latency"),
            ("commands.host_read", "commands host read"),
        ];
        names.into_iter().for_each(|(key, words)| assert_eq!(name(key), words));
    }

    #[test]
    fn units_are_the_largest_that_fit() {
        let of = |key: &str, largest| {
            let (name, factor) = unit(key, largest);
            (name, largest * factor)
        };
        let shown = |name: &str, value| (name.to_string(), value);
        assert_eq!(of("elapsed_ns", 5e8), shown("ms", 500.0));
        assert_eq!(of("map_bytes", 4e6), shown("MB", 4.0));
        assert_eq!(of("verdict.rate_after_bytes_per_s", 8e3), shown("kB/s", 8.0));
        assert_eq!(of("parameters.cache_percent", 5.0), shown("%", 5.0));
        assert_eq!(of("write_amplification", 5.0), shown("×", 5.0));
        assert_eq!(of("write_overloading", 5.0), shown("×", 5.0));
        assert_eq!(of("requests", 5.0), shown("", 5.0));
        assert_eq!(of("latency_ns.all.count", 5.0), shown("", 5.0));
        assert_eq!((with_unit("a", ""), with_unit("a", "s")), ("a".into(), "a (s)".into()));
    }
}
