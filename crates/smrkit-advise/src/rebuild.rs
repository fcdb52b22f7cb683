//! The sentences on a rebuild: how long, compared with conventional disks, and whether it drops a disk.

use smrkit::stats::comparison::RebuildFigures;

use super::advice::{Advice, Present};
use smrkit_report::format;

/// Sentence on the rebuild: its time, and the disks that a timeout would drop; `None` without one.
pub fn sentence(advice: &Advice) -> Option<String> {
    let Present { own, conventional, against, .. } = advice.present.last()?;
    let (rebuilt, usual) = (own.rebuild?, conventional.rebuild?);
    let times = format::short(against.rebuild.unwrap_or(1.0));
    let time = |rebuilt: &RebuildFigures| format::seconds(time_s(rebuilt, advice.whole_disk_bytes));
    let longest = format::nanos(own.longest_command_ns);
    let dropped = match (own.dropped_7s, own.dropped_30s) {
        (0, _) => "no disk is dropped".to_string(),
        (_, 0) => "a timeout of 7 s drops a disk, one of 30 s does not".into(),
        _ => "timeouts of 7 s and of 30 s drop a disk".into(),
    };
    let part = advice.whole_disk_bytes.map_or(String::new(), |whole| {
        let (whole, part) = (format::bytes(whole as f64), format::bytes(rebuilt.disk_bytes as f64));
        format!(" That is for a disk of {whole}, if all of it goes like the {part} that were run.")
    });
    Some(format!(
        "The rebuild takes {}, {times} times as long as on conventional disks ({}), and {dropped}: the longest command takes \
         {longest}.{part}",
        time(&rebuilt),
        time(&usual),
    ))
}

/// The time of a rebuild in seconds; of a whole disk, where a part was run.
pub fn time_s(rebuilt: &RebuildFigures, whole_disk_bytes: Option<u64>) -> f64 {
    let whole = whole_disk_bytes.map_or(1.0, |whole| whole as f64 / rebuilt.disk_bytes.max(1) as f64);
    rebuilt.elapsed_ns as f64 / 1e9 * whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_disk_takes_as_many_times_as_long_as_it_is_larger() {
        let part = RebuildFigures { elapsed_ns: 3_000_000_000, disk_bytes: 4_000, ..RebuildFigures::default() };
        assert_eq!(time_s(&part, None), 3.0);
        assert_eq!(time_s(&part, Some(18_000)), 13.5);
    }
}
