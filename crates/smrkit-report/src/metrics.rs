//! The report of a mount or a served drive as text for Prometheus, by a table of numbers and their names.

use serde_json::Value;
use smrkit::stats::latency::step_end;

use crate::activity::text_of;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    /// Pairs of an upper end in nanoseconds and a count; their sum is in the report beside them.
    Histogram,
}

use Kind::{Counter, Gauge, Histogram};

/// A number of a report, or an object of numbers, whose keys become values of a label: its kind, its name without the common prefix, its place
/// in the report as a JSON pointer, and its help.
type Metric = (Kind, &'static str, &'static str, &'static str);

/// Metrics of a served drive. Seconds are by the drive's clock.
const DRIVE: [Metric; 18] = [
    (Counter, "served_seconds_total", "/served_ns", "Time that has passed since the server began."),
    (Counter, "cleaning_seconds_total", "/cleaning_ns", "Time that drives spent on work of their own."),
    (Gauge, "cleaning_ratio", "/cleaning_share", "Share of the time that drives spent on work of their own."),
    (Gauge, "cache_fill_ratio", "/cache_fill", "Share of the persistent cache in use."),
    (Histogram, "request_duration_seconds", "/latency", "Latencies of requests, as the drive has them."),
    (Histogram, "reply_lateness_seconds", "/lateness", "Lateness of replies by the host's clock."),
    (Counter, "stalls_total", "/stalls", "Requests that took longer than this."),
    (Counter, "read_bytes_total", "/host_read_bytes", "Bytes that hosts read."),
    (Counter, "written_bytes_total", "/host_written_bytes", "Bytes that hosts wrote."),
    (Counter, "platters_read_bytes_total", "/physical_read_bytes", "Bytes read from the platters."),
    (Counter, "platters_written_bytes_total", "/physical_written_bytes", "Bytes written to the platters."),
    (Gauge, "waiting_requests", "/waiting", "Requests without a reply."),
    (Gauge, "held_bytes", "/held_bytes", "Bytes of requests and replies in the server's memory."),
    (Gauge, "clients", "/clients", "Clients over NBD."),
    (Counter, "power_cuts_total", "/power_cuts", "Power cuts that were injected and met."),
    (Counter, "zone_violations_total", "/zone_violations", "Requests that broke a rule of zones."),
    (Gauge, "failed", "/has_failed", "1 once the drive has failed."),
    (Gauge, "map_bytes", "/map_bytes", "Memory of the layers' maps."),
];

/// Metrics of a mount.
const MOUNT: [Metric; 17] = [
    (Counter, "mounted_seconds_total", "/mounted_s", "Time since the mount."),
    (Counter, "requests_total", "/requests", "Requests of the kernel."),
    (Counter, "read_bytes_total", "/statistics/host_read_bytes", "Bytes that hosts read."),
    (Counter, "written_bytes_total", "/statistics/host_written_bytes", "Bytes that hosts wrote."),
    (Counter, "disk_read_bytes_total", "/statistics/read_bytes", "Bytes read from the disk."),
    (Counter, "disk_written_bytes_total", "/statistics/written_bytes", "Bytes written to the disk for hosts."),
    (Counter, "moved_bytes_total", "/statistics/moved_bytes", "Bytes that cleaning moved."),
    (Counter, "resets_total", "/statistics/resets", "Bands that were reset."),
    (Counter, "commits_total", "/statistics/commits", "Commits, and fsyncs."),
    (Counter, "stalls_total", "/statistics/stalls", "Writes that found no room without cleaning."),
    (Counter, "waited_seconds_total", "/statistics/waited_ns", "Time that writes waited for cleaning."),
    (Gauge, "buffered_bytes", "/statistics/buffered_bytes", "Unwritten bytes in memory."),
    (Gauge, "granule_bytes", "/usage/granule_bytes", "Bytes of a granule."),
    (Gauge, "live_granules", "/usage/live", "Granules that hold data."),
    (Gauge, "free_granules", "/usage/free", "Granules that are free."),
    (Gauge, "usable_granules", "/usage/usable", "Granules that files can fill in all."),
    (Gauge, "read_only", "/read_only", "1 if nothing can be written."),
];

/// Upper ends of the buckets, which include the limits of stalls. A latency less than 3 % below an end may be counted in the next bucket.
const BOUNDS_S: [f64; 15] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 7.0, 30.0];

/// The metrics of `report`, each with the image or the mount point as its label.
pub fn text(report: &Value) -> String {
    let (kind, key, metrics) = match report["kind"] == "drive" {
        true => ("drive", "image", &DRIVE[..]),
        false => ("mount", "mount_point", &MOUNT[..]),
    };
    let instance = label(key, &text_of(report, key));
    let about = ["layer", "drive", "array", "version"].map(|key| (key, report[key].as_str()));
    let about = about.into_iter().filter_map(|(key, value)| Some(",".to_string() + &label(key, value?)));
    let mut text = format!("# HELP smrkit_{kind}_info What it is.\n# TYPE smrkit_{kind}_info gauge\n");
    text += &format!("smrkit_{kind}_info{{{instance}{}}} 1\n", about.collect::<String>());
    for metric in metrics {
        add(&mut text, &format!("smrkit_{kind}_{}", metric.1), metric, &instance, report);
    }
    text
}

fn label(key: &str, value: &str) -> String {
    format!("{key}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn add(text: &mut String, name: &str, &(kind, _, place, help): &Metric, instance: &str, report: &Value) {
    let at = if kind == Histogram { format!("{place}_histogram_ns") } else { place.to_string() };
    let kind_name = ["counter", "gauge", "histogram"][kind as usize];
    let label_name = if place == "/stalls" { "over" } else { "op" };
    // A report may lack a number: a drive without a persistent cache has no fill.
    let Some(found) = report.pointer(&at).filter(|found| !found.is_null()) else { return };
    *text += &format!("# HELP {name} {help}\n# TYPE {name} {kind_name}\n");
    let scale = if at.ends_with("_ns") { 1e-9 } else { 1.0 };
    for (key, value) in found.as_object().into_iter().flatten() {
        let labels = format!("{instance},{}", label(label_name, key.trim_start_matches("over_")));
        match kind {
            Histogram => {
                let sum = report.pointer(&format!("{place}_sum_ns/{key}")).and_then(Value::as_f64);
                add_histogram(text, name, &labels, value, sum.unwrap_or_default() * scale);
            }
            _ => *text += &format!("{name}{{{labels}}} {value}\n"),
        }
    }
    match found {
        Value::Bool(is) => *text += &format!("{name}{{{instance}}} {}\n", u8::from(*is)),
        Value::Number(number) if scale == 1.0 => *text += &format!("{name}{{{instance}}} {number}\n"),
        found => found.as_f64().into_iter().for_each(|ns| *text += &format!("{name}{{{instance}}} {}\n", ns * scale)),
    }
}

fn add_histogram(text: &mut String, name: &str, labels: &str, steps: &Value, sum_s: f64) {
    // The report's last step ends at the longest latency so far, which grows. The fixed end of that step is used instead, so that no bucket's
    // count ever falls.
    let steps = steps.as_array().into_iter().flatten();
    let steps = steps.filter_map(|step| Some((step_end(step[0].as_u64()?) as f64, step[1].as_u64()?)));
    let steps: Vec<(f64, u64)> = steps.collect();
    let up_to = |bound_ns: f64| steps.iter().filter(|step| step.0 <= bound_ns).map(|step| step.1).sum::<u64>();
    for bound in BOUNDS_S {
        *text += &format!("{name}_bucket{{{labels},le=\"{bound}\"}} {}\n", up_to(bound * 1e9));
    }
    let all = up_to(f64::INFINITY);
    *text += &format!("{name}_bucket{{{labels},le=\"+Inf\"}} {all}\n{name}_sum{{{labels}}} {sum_s}\n");
    *text += &format!("{name}_count{{{labels}}} {all}\n");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_base_units_and_names_of_prometheus() {
        let report = json!({
            "kind": "drive", "image": "/a \"b\"", "layer": "log", "served_ns": 2_500_000_000u64, "has_failed": false,
            "cache_fill": null, "stalls": {"over_7s": 3}, "host_read_bytes": 7, "latency_sum_ns": {"read": 6_000_000},
            "latency_histogram_ns": {"read": [[1_000_000, 2], [4_000_000, 1]]},
        });
        let text = text(&report);
        for line in [
            r#"smrkit_drive_info{image="/a \"b\"",layer="log"} 1"#,
            "# TYPE smrkit_drive_served_seconds_total counter",
            r#"smrkit_drive_served_seconds_total{image="/a \"b\""} 2.5"#,
            r#"smrkit_drive_failed{image="/a \"b\""} 0"#,
            r#"smrkit_drive_stalls_total{image="/a \"b\"",over="7s"} 3"#,
            r#"smrkit_drive_request_duration_seconds_bucket{image="/a \"b\"",op="read",le="0.0025"} 2"#,
            r#"smrkit_drive_request_duration_seconds_bucket{image="/a \"b\"",op="read",le="0.001"} 0"#,
            r#"smrkit_drive_request_duration_seconds_bucket{image="/a \"b\"",op="read",le="+Inf"} 3"#,
            r#"smrkit_drive_request_duration_seconds_sum{image="/a \"b\"",op="read"} 0.006"#,
            r#"smrkit_drive_request_duration_seconds_count{image="/a \"b\"",op="read"} 3"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("cache_fill"), "{text}");
        // A longer latency moves the end of the step that was the last one, and no count.
        let below_1_s = |steps: Value| {
            let mut text = String::new();
            add_histogram(&mut text, "x", "", &steps, 0.0);
            text.lines().find(|line| line.contains("le=\"1\"")).map(str::to_string)
        };
        assert_eq!(below_1_s(json!([[990_000_000, 4]])), below_1_s(json!([[1_006_632_959, 4], [2_000_000_000u64, 1]])));
        let mount = json!({"mount_point": "/mnt", "read_only": true, "statistics": {"waited_ns": 500_000_000}});
        let mount = super::text(&mount);
        assert!(mount.contains("smrkit_mount_read_only{mount_point=\"/mnt\"} 1\n"), "{mount}");
        assert!(mount.contains("smrkit_mount_waited_seconds_total{mount_point=\"/mnt\"} 0.5\n"), "{mount}");
    }
}
