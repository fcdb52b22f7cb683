//! The activity of a mount or a served drive as text, for `smrkit top`.
//!
//! Rates are those between two reports; with one report, those since the mount.

use serde_json::Value;
use smrkit::quantity::Bytes;

use crate::format::{bytes, count, counted, nanos, rate, seconds as duration};

/// Width of the bar that shows the disk.
const BAR: usize = 60;

/// The text for `report`, with rates since `last`.
pub fn page(report: &Value, last: Option<&Value>) -> String {
    if report["kind"] == "drive" { drive(report, last) } else { mount(report, last) }
}

/// The text on a served drive.
fn drive(report: &Value, last: Option<&Value>) -> String {
    let number = |key: &str| number(report, key);
    // The growth of a counter since the last report, or all of it.
    let since = |key: &str| number(key) - last.map_or(0, |last| last[key].as_u64().unwrap_or_default());
    let word = |key: &str| report[key].as_str().unwrap_or_default();
    let fill =
        report["cache_fill"].as_f64().map_or(String::new(), |fill| format!(", cache {:.1} % full", 100.0 * fill));
    let completed = match last {
        Some(_) => format!("{} requests since", since("completed")),
        None => format!("{} requests completed", number("completed")),
    };
    let mut details = String::new();
    for (plural, key) in [("reads", "read"), ("writes", "write"), ("flushes", "flush"), ("discards", "discard")] {
        let latency = |what: &str| report["latency_ns"][key][what].as_u64().unwrap_or_default();
        let requests = latency("count");
        if requests > 0 {
            let [p50, p99, max] = ["p50", "p99", "max"].map(|what| nanos(latency(what)));
            let name = if requests == 1 { key } else { plural };
            details += &format!("{} {name} took {p50} (median), {p99} (99 %), {max} (longest)\n", count(requests));
        }
    }
    let [over_1s, over_7s, over_30s] =
        ["over_1s", "over_7s", "over_30s"].map(|key| report["stalls"][key].as_u64().unwrap_or_default());
    if over_1s > 0 {
        details +=
            &format!("{} took over 1 s, {over_7s} over 7 s, {over_30s} over 30 s\n", counted(over_1s, "request"));
    }
    let cleaning_share = report["cleaning_share"].as_f64().unwrap_or_default();
    if cleaning_share > 0.0 {
        details += &format!("the drive's own work took {:.1} % of its time\n", 100.0 * cleaning_share);
    }
    let late = |what: &str| report["lateness_ns"][what].as_u64().unwrap_or_default();
    if late("count") > 0 {
        let [p50, p99, max] = ["p50", "p99", "max"].map(|what| nanos(late(what)));
        let priority = if report["is_real_time"] == true { "real-time" } else { "ordinary" };
        details += &format!(
            "replies were late by {p50} (median), {p99} (99 %), {max} (longest), at {priority} priority of the server\n"
        );
    }
    if report["fell_behind"] == true {
        let mean = nanos(report["latency_ns"]["all"]["mean"].as_u64().unwrap_or_default());
        details += &format!(
            "that is much for a mean latency of {mean}: serve it at a slower pace, or do not rely on details of this run\n"
        );
    }
    for missing in report["missing_members"].as_array().into_iter().flatten() {
        details += &match missing[1].as_f64() {
            None => format!("member {} has failed\n", missing[0]),
            Some(share) => format!("member {} is new, and {:.1} % of it are rebuilt\n", missing[0], 100.0 * share),
        };
    }
    // Rates are per second of the drive's time.
    let seconds = (since("served_ns") as f64 / 1e9).max(1e-9);
    let host = |key: &str| format!("{} ({})", Bytes(since(key)), rate(since(key) as f64 / seconds));
    let array = report["array"].as_str().map_or_else(String::new, |array| format!("{array}, "));
    for fault in report["faults"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        details += &format!("injected: {fault}\n");
    }
    let failure = report["failure"].as_str().map_or(String::new(), |failure| format!("failed: {failure}\n"));
    format!(
        "{} of {array}{} under {}{fill}\n{failure}{} clients, {} requests waiting, {completed}\nhost: {} read, {} written\nplatters: {} read, {} written\n{details}",
        Bytes(number("export_bytes")),
        word("drive"),
        word("layer"),
        number("clients"),
        number("waiting"),
        host("host_read_bytes"),
        host("host_written_bytes"),
        Bytes(since("physical_read_bytes")),
        Bytes(since("physical_written_bytes")),
    )
}

/// The text on a mount.
fn mount(report: &Value, last: Option<&Value>) -> String {
    let mounted_s = |report: &Value| report["mounted_s"].as_f64().unwrap_or(0.0);
    let seconds = (mounted_s(report) - last.map_or(0.0, mounted_s)).max(1e-3);
    // Since the last report, and since the mount.
    let both = |key: &str| {
        let statistic = |report: &Value| number(&report["statistics"], key) as f64;
        (statistic(report) - last.map_or(0.0, statistic), statistic(report))
    };
    let mut text = format!("{} on {}\n", text_of(report, "image"), text_of(report, "mount_point"));
    text += &format!("mounted for {}, {} requests\n\n", duration(mounted_s(report)), count(number(report, "requests")));
    if report["flush_failed"] == true {
        text +=
            "a flush failed: read-only, and nothing is acknowledged any more (smrkit umount names what is unsaved)\n";
    }
    let damaged = report["damaged_maps"].as_array().map_or(0, Vec::len);
    if damaged > 0 {
        text += &format!("{damaged} files can't be read, because their maps are damaged (smrkit fsck names them)\n");
    }
    text += &format!("{}\n{}\n\n", space(report), surface(report));
    text += &format!("{:<22} {:>12} {:>14}\n", "", "per second", "since mount");
    let rows = [
        ("written by the host", "host_written_bytes"),
        ("read by the host", "host_read_bytes"),
        ("written to the disk", "written_bytes"),
        ("moved by the cleaner", "moved_bytes"),
        ("read from the disk", "read_bytes"),
    ];
    for (name, key) in rows {
        let (recent, total) = both(key);
        text += &format!("{name:<22} {:>12} {:>14}\n", rate(recent.max(0.0) / seconds), bytes(total));
    }
    let counts = ["host_written_bytes", "written_bytes", "moved_bytes"].map(both);
    let amplification = |of: fn((f64, f64)) -> f64| match counts.map(of) {
        [host, written, moved] if host > 0.0 => format!("{:.2}", (written + moved) / host),
        _ => "-".to_string(),
    };
    let (recent, total) = (amplification(|(recent, _)| recent), amplification(|(_, total)| total));
    text += &format!("{:<22} {recent:>12} {total:>14}\n\n", "write amplification");
    text + &counters(report)
}

fn counters(report: &Value) -> String {
    let get = |key: &str| number(&report["statistics"], key);
    let mut text = format!("cleaner: {} pieces moved, {} bands reset", get("moves"), get("resets"));
    if get("unmovable") + get("failed_resets") > 0 {
        let (unmovable, failed) = (get("unmovable"), get("failed_resets"));
        text += &format!(
            "; {unmovable} pieces could not be moved, {failed} resets failed: unmount, and check all data (smrkit fsck)"
        );
    }
    text += "\n";
    text += &format!(
        "one write waited for cleaning {} at most, while {} were moved; {} found no room without it\n",
        nanos(get("longest_stall_ns")),
        bytes(get("most_moved_for_one_write_bytes") as f64),
        match get("stalls") {
            0 => "none".to_string(),
            writes => counted(writes, "write"),
        },
    );
    text + &format!(
        "commits: {}; {} in memory, {} files not yet durable\n",
        get("commits"),
        bytes(get("buffered_bytes") as f64),
        get("dirty_files"),
    )
}

/// The space used and free, in words.
fn space(report: &Value) -> String {
    let usage = &report["usage"];
    let size = |granules: u64| bytes((granules * number(usage, "granule_bytes")) as f64);
    let [live, usable, free] = ["live", "usable", "free"].map(|key| size(number(usage, key)));
    let [garbage, retired] = ["garbage", "retired"].map(|key| size(number(&usage["counts"], key)));
    format!("space: {live} of {usable} used, {free} free; garbage {garbage}, not yet released {retired}")
}

/// The disk's granules by state, as a bar.
fn surface(report: &Value) -> String {
    let counts = &report["usage"]["counts"];
    let parts = [("readable", 'R'), ("not_writable", 'x'), ("write_once", 'o'), ("writable", '.')];
    let all: u64 = parts.iter().map(|(key, _)| number(counts, key)).sum();
    let mut bar = String::new();
    let mut sum = 0;
    for (key, letter) in parts {
        sum += number(counts, key);
        let until = if all == 0 { 0 } else { (sum as u128 * BAR as u128 / all as u128) as usize };
        while bar.len() < until {
            bar.push(letter);
        }
    }
    format!("[{bar:<BAR$}]  R readable, x not writable (NW), o write once (WO), . writable (W)")
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or(0)
}

/// The text at `key`. A path that is not UTF-8 is in the report as a list of bytes.
pub(crate) fn text_of(of: &Value, key: &str) -> String {
    match &of[key] {
        Value::Array(bytes) => {
            let bytes: Vec<u8> = bytes.iter().filter_map(|byte| byte.as_u64()?.try_into().ok()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        text => text.as_str().unwrap_or("?").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(seconds: f64, host_mb: u64, moved_mb: u64) -> Value {
        json!({
            "image": "a.img", "mount_point": "/mnt", "mounted_s": seconds, "requests": 7,
            "usage": {"granule_bytes": 4096, "usable": 1000, "live": 250, "free": 750,
                      "counts": {"readable": 250, "not_writable": 250, "write_once": 0, "writable": 500}},
            "statistics": {"host_written_bytes": host_mb * 1_000_000, "written_bytes": host_mb * 1_000_000,
                           "moved_bytes": moved_mb * 1_000_000},
        })
    }

    #[test]
    fn rates_and_amplification_are_those_since_the_last_report() {
        let page = page(&report(12.0, 30, 25), Some(&report(10.0, 10, 5)));
        assert!(page.contains("written by the host         10 MB/s          30 MB\n"), "{page}");
        assert!(page.contains("write amplification            2.00           1.83\n"), "{page}");
    }

    #[test]
    fn the_bar_shows_each_state_by_its_share() {
        let bar = surface(&report(1.0, 0, 0));
        let count = |letter: char| bar[..BAR + 1].matches(letter).count();
        assert_eq!((count('R'), count('x'), count('o'), count('.')), (15, 15, 0, 30));
    }

    #[test]
    fn failures_are_told_where_there_are_any() {
        let of = |unmovable: u64, failed: u64| {
            counters(&json!({"statistics": {"moves": 3, "resets": 4, "unmovable": unmovable, "failed_resets": failed,
                "stalls": 5, "longest_stall_ns": 6_000_000, "most_moved_for_one_write_bytes": 7000, "commits": 8,
                "buffered_bytes": 9000, "dirty_files": 10}}))
        };
        let rest = "\none write waited for cleaning 6 ms at most, while 7 kB were moved; 5 writes found no room without it\n\
                    commits: 8; 9 kB in memory, 10 files not yet durable\n";
        assert_eq!(of(0, 0), format!("cleaner: 3 pieces moved, 4 bands reset{rest}"));
        let failures = "; 1 pieces could not be moved, 0 resets failed: unmount, and check all data (smrkit fsck)";
        assert_eq!(of(1, 0), format!("cleaner: 3 pieces moved, 4 bands reset{failures}{rest}"));
        assert!(of(0, 1).contains("0 pieces could not be moved, 1 resets failed"));
        assert!(counters(&json!({})).starts_with("cleaner: 0 pieces moved, 0 bands reset\n"));
    }

    #[test]
    fn a_served_drive_tells_what_was_done_since_the_last_report() {
        let report = |completed: u64, read: u64| {
            json!({"kind": "drive", "drive": "tiny", "layer": "rmw", "export_bytes": 1 << 20, "clients": 2, "waiting": 3,
                "completed": completed, "physical_read_bytes": read, "physical_written_bytes": 2048,
                "host_read_bytes": completed * 1024, "served_ns": completed * 500_000_000})
        };
        let whole = "1Mi of tiny under rmw\n2 clients, 3 requests waiting, 9 requests completed\nhost: 9Ki (2.05 kB/s) read, 0 B (0 B/s) written\nplatters: 4Ki read, 2Ki written\n";
        let plain =
            |text: String| text.replace("MiB", "Mi").replace("KiB", "Ki").replace(" Mi", "Mi").replace(" Ki", "Ki");
        assert_eq!(plain(page(&report(9, 4096), None)), whole);
        let since = plain(page(&report(9, 4096), Some(&report(5, 1024))));
        assert!(
            since.contains(
                "4 requests since\nhost: 4Ki (2.05 kB/s) read, 0 B (0 B/s) written\nplatters: 3Ki read, 0 B written"
            ),
            "{since}"
        );
        let mut full = report(9, 0);
        full["cache_fill"] = json!(0.254);
        full["failure"] = json!("it burns");
        full["latency_ns"] = json!({"flush": {"count": 2, "p50": 1_600_000_000, "p99": 3_000_000_000_u64, "max": 3_000_000_000_u64},
                "write": {"count": 1, "p50": 1000, "p99": 1000, "max": 1000}});
        let full = page(&full, None);
        assert!(full.contains("under rmw, cache 25.4 % full\nfailed: it burns\n2 clients"), "{full}");
        assert!(full.contains("2 flushes took 1.6 s (median), 3 s (99 %), 3 s (longest)\n"), "{full}");
        assert!(full.contains("\n1 write took "), "{full}");
    }

    #[test]
    fn nothing_written_by_the_host_has_no_amplification() {
        let none = page(&report(0.0, 0, 5), None);
        assert!(none.contains("write amplification               -              -\n"), "{none}");
        assert!(none.contains("space: 1.02 MB of 4.1 MB used, 3.07 MB free"), "{none}");
        let empty = surface(&json!({}));
        assert!(empty.starts_with(&format!("[{}]", " ".repeat(BAR))), "{empty}");
    }
}
