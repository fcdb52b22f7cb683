//! Actions of an owner, with the value to set; what was run says what it brings.

use super::advice::{Action, Advice, Remedy};
use super::remedies::{ChangeKind, OwnerStep, RECORD_BYTES};

/// Seconds that kernels wait for a command unless told otherwise.
const KERNEL_S: u64 = 30;

/// Actions that are worth doing, the surest first; none where there is no problem.
pub fn actions(advice: &Advice) -> Vec<Action> {
    if !advice.problems.any() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    let mut add = |what: String, command: Option<String>| actions.push(Action { what, command });
    for remedy in best_of_each(advice) {
        if let Some((what, command)) = worth(remedy) {
            add(what, command.map(str::to_string));
        }
    }
    let longest_ns = advice.present.last().map_or(0, |hardest| hardest.own.longest_command_ns);
    if advice.problems.dropped_7s {
        let seconds = timeout_s(longest_ns);
        add(
            format!(
                "Let the kernel wait for {seconds} s, twice the longest command; hardware RAID that gives up after 7 s is no use"
            ),
            Some(format!("echo {seconds} > /sys/block/sdX/device/timeout")),
        );
        add(
            "Let a bad sector give up after 7 s (SCT ERC), so that the longer timeout is for cleaning only".into(),
            Some("smartctl -l scterc,70,70 /dev/sdX".into()),
        );
    }
    if let Some(rebuilt) = advice.present.last().and_then(|hardest| hardest.own.rebuild) {
        let kb_per_s =
            (rebuilt.bytes as f64 / 1024.0 / (rebuilt.elapsed_ns as f64 / 1e9).max(1e-9) / 2.0).ceil().max(1.0);
        add(
            "md: hold the rebuild to half of what the disk does, if users must not wait for it".into(),
            Some(format!("echo {kb_per_s} > /sys/block/mdX/md/sync_speed_max")),
        );
        add(
            "ZFS: give the resilver fewer commands at once, which shortens the longest".into(),
            Some("echo 1 > /sys/module/zfs/parameters/zfs_vdev_scrub_max_active".into()),
        );
    }
    actions
}

/// Seconds to wait for commands of which the longest takes so long: twice as long, in steps of the kernel's own timeout.
fn timeout_s(longest_ns: u64) -> u64 {
    (2 * longest_ns).div_ceil(KERNEL_S * 1_000_000_000).max(1) * KERNEL_S
}

/// The best remedies, in the order of the table; of several sizes of writes, and of several pauses, the smallest that does as much.
fn best_of_each(advice: &Advice) -> impl Iterator<Item = &Remedy> {
    let is_best = move |remedy: &&Remedy| {
        let best = || Remedy::best_of(&advice.remedies, remedy.kind);
        let is_one_of_many = matches!(remedy.kind, ChangeKind::WriteSize | ChangeKind::Idle);
        remedy.rank().is_some() && (!is_one_of_many || best().is_some_and(|best| std::ptr::eq(best, *remedy)))
    };
    advice.remedies.iter().filter(is_best)
}

/// The owner's action for a change, if there is one.
fn worth(remedy: &Remedy) -> Option<(String, Option<&'static str>)> {
    let change = &remedy.change;
    Some(match (remedy.kind, remedy.step) {
        (ChangeKind::Conventional, _) => ("Buy conventional disks (CMR in the data sheet)".into(), None),
        (ChangeKind::Drive, _) => (format!("Buy the {change}"), None),
        (ChangeKind::WriteSize, step) => {
            let is_large = matches!(step, Some(OwnerStep::WriteBytes(RECORD_BYTES..)));
            let records =
                if is_large { "zfs set recordsize=4M POOL/DATASET" } else { "zfs set recordsize=1M POOL/DATASET" };
            (format!("Gather {change}: larger records, on md larger chunks"), Some(records))
        }
        (ChangeKind::Parameter, Some(OwnerStep::WriteCache)) => {
            ("Switch the write cache on".into(), Some("hdparm -W1 /dev/sdX"))
        }
        (ChangeKind::Idle, _) => (format!("Leave the disk time, as over idle nights: {change}"), None),
        (ChangeKind::Rebuild, Some(OwnerStep::Records)) => {
            (format!("ZFS: {change}, before data is written"), Some("zfs set recordsize=1M POOL/DATASET"))
        }
        (ChangeKind::Rebuild, Some(OwnerStep::Order)) => {
            (format!("Rebuild {change}: md does, ZFS on mirrors by"), Some("zpool replace -s POOL sdX sdY"))
        }
        (ChangeKind::Dedicated, _) => (format!("Use {change}"), None),
        (
            ChangeKind::Chunk
            | ChangeKind::Level
            | ChangeKind::Parameter
            | ChangeKind::Rebuild
            | ChangeKind::Layer
            | ChangeKind::Range,
            _,
        ) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_at_least_twice_the_longest_command() {
        let of = |seconds: u64| timeout_s(seconds * 1_000_000_000);
        assert_eq!([of(0), of(8), of(15), of(16), of(45), of(100)], [30, 30, 30, 60, 90, 210]);
    }
}
