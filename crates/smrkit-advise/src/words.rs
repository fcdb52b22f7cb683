//! Every sentence of the answer, and what an owner can do, with its price and its command. Nothing is said that no run showed.

use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::Timeline;
use smrkit::stats::verdict;
use smrkit_report::format::{self, rate};

use crate::LoadKind;
use crate::advice::{Action, Advice, Measure, NotRun, Present, Remedy, Verdict};
use crate::changes::{ChangeKind, LONGEST_REBUILD_S, Software};
use crate::comparison::{Effect, Problems, Trajectory};

/// From this share of it in use on, a cache is called full (assumption).
const FULL: f64 = 0.9;
/// A percentile is told where it is this many times that of conventional disks.
const TOLD: f64 = 1.5;
/// Writes of less than this that continue no other one are small and random: what a database or a virtual machine does (assumption).
const SMALL_BYTES: f64 = 131_072.0;
/// Seconds that kernels wait for a command unless told otherwise.
const KERNEL_S: u64 = 30;
/// Nobody waits longer than this for a command: ZFS calls a pool hung then (zfs_deadman_ziotime_ms).
const LONGEST_TIMEOUT_S: u64 = 300;

/// Writes the answer: the word, the sentences, the actions. `outcome` and `usual` are the system as it is and conventional disks under
/// the load on which changes were tried.
pub fn answer(advice: &mut Advice, outcome: &Outcome, usual: &Outcome) {
    advice.conclude();
    let mut lines = lines(advice, &outcome.timeline);
    let is_overloaded = verdict::is_overloaded(usual);
    if is_overloaded && !advice.system.is_conventional {
        lines.push("CMR disks can't keep up with these arrival times either: stretch them with --time-scale.".into());
    } else if verdict::is_overloaded(outcome) {
        lines.push(backlog(outcome));
    }
    lines.extend(verdict::scaling(outcome));
    lines.retain(|line| !line.is_empty());
    advice.text = lines.join("\n");
    advice.actions = actions(advice);
}

/// The lines, the answer first.
fn lines(advice: &Advice, timeline: &Timeline) -> Vec<String> {
    let mut lines = match advice.verdict {
        Verdict::Refused => refused(advice),
        Verdict::TooShort => too_short(advice),
        _ if advice.rebuild.is_some() => rebuild(advice),
        _ => vec![headline(advice), course(advice, timeline), waits(advice)],
    };
    if !matches!(advice.verdict, Verdict::Refused | Verdict::TooShort) {
        lines.push(certainty(advice));
        lines.push(outcome_of_changes(advice));
        if advice.state.prefill == Prefill::None {
            lines.push("The disks were empty at the start; disks in use may be slower.".into());
        }
    }
    let missing = advice.remedies.iter().filter(|remedy| remedy.not_run == Some(NotRun::Interrupted)).count();
    if missing > 0 {
        lines.push(format!("Interrupted: {missing} of {} changes were not tried.", advice.remedies.len()));
    }
    lines
}

/// What a host-managed disk refuses comes before all else: no time holds.
fn refused(advice: &Advice) -> Vec<String> {
    let own = &advice.judged().own;
    let (all, of) = (own.refused, own.requests.max(own.refused));
    vec![
        format!(
            "A host-managed disk would refuse {} of these {} requests; ignore the times.",
            format::count(all),
            format::count(of)
        ),
        format!(
            "{} takes writes only in order within each zone, from software that knows of zones.",
            advice.system.drive
        ),
    ]
}

fn too_short(advice: &Advice) -> Vec<String> {
    let longest = advice.present.iter().map(|present| present.own.elapsed_ns).max().unwrap_or(0);
    vec![format!(
        "Too short to say: the whole load takes {} of simulated time, in which a drive's RAM or cache hides the rest. Give a longer \
         one: a longer trace, or a workload with more count, bytes or duration.",
        format::nanos(longest)
    )]
}

/// The answer in a sentence.
fn headline(advice: &Advice) -> String {
    let pace = pace(advice);
    let capital = || pace[..1].to_uppercase() + &pace[1..];
    match advice.verdict {
        Verdict::Conventional => format!("{}.", capital()),
        Verdict::Fine => format!("No problem: {pace}."),
        Verdict::SomewhatSlower => format!("Somewhat slower than CMR disks: {pace}."),
        Verdict::Depends => format!(
            "Perhaps. As simulated {pace}; but some figures of this drive are estimates, and {}.",
            at_worst(advice.problems_at_ends)
        ),
        Verdict::Slow => format!("Slow: {pace}."),
        _ => format!("{}: {pace}.", dropping(&advice.judged().own)),
    }
}

/// What may be at an end of the drive's range.
fn at_worst(problems: Problems) -> &'static str {
    match problems {
        Problems { dropped_30s: true, .. } => "at one end of them a timeout of 30 s drops a disk",
        Problems { dropped_7s: true, .. } => "at one end of them a timeout of 7 s drops a disk",
        _ => "at one end of them it is more than twice as slow as CMR disks",
    }
}

/// How fast it is, beside conventional disks.
fn pace(advice: &Advice) -> String {
    let present = advice.judged();
    let Present { own, conventional, against, .. } = present;
    let range = range(advice);
    let is_conventional = advice.system.is_conventional;
    let at = at_depth(advice, present);
    if advice.is_open() {
        let beside = if is_conventional {
            String::new()
        } else {
            format!(", {} on CMR disks", format::nanos(conventional.mean_ns))
        };
        return format!("a request takes {} on average{range}{beside}", format::nanos(own.mean_ns));
    }
    let later = own.cache_full_at_s.filter(|&at_s| at_s > 0.0);
    // Of the requests from then on; what a conventional disk does with all of them may be something else.
    let times = against.from_first_wait.and_then(|later| later.elapsed).or(against.whole.elapsed);
    let usual =
        own.lasting_bytes_per_s() * times.unwrap_or(own.elapsed_ns as f64 / conventional.elapsed_ns.max(1) as f64);
    let beside = if is_conventional { String::new() } else { format!(", CMR disks {}", rate(usual)) };
    match later {
        Some(at_s) if !is_conventional => format!(
            "it does {} for {}, then {}{range}{at}{beside}",
            rate(own.rate_before_bytes_per_s),
            format::seconds(at_s),
            rate(own.lasting_bytes_per_s())
        ),
        _ => format!("it does {}{range}{at}{beside}", rate(own.lasting_bytes_per_s())),
    }
}

/// The range, in parentheses.
fn range(advice: &Advice) -> String {
    let Some(range) = advice.range else { return String::new() };
    let text = match range.of {
        Measure::RebuildS => [range.low, range.high].map(format::seconds),
        Measure::MeanNs => [range.low, range.high].map(|ns| format::nanos(ns as u64)),
        Measure::BytesPerS => [range.low, range.high].map(rate),
    };
    format!(" (the real drive perhaps {} to {})", text[0], text[1])
}

/// The depth, where there are several.
fn at_depth(advice: &Advice, present: &Present) -> String {
    match (advice.present.len() > 1 && advice.rebuild.is_none(), present.depth) {
        (false, _) => String::new(),
        (true, 1) => " with one request at a time".into(),
        (true, depth) => format!(" with {depth} requests at a time"),
    }
}

/// Whom timeouts drop.
fn dropping(run: &Trajectory) -> &'static str {
    match (run.dropped_7s, run.dropped_30s) {
        (0, _) => "No disk is dropped",
        (_, 0) => "A timeout of 7 s drops a disk",
        _ => "Timeouts of 7 s and 30 s drop a disk",
    }
}

/// When the cache fills, and what that is like.
fn course(advice: &Advice, timeline: &Timeline) -> String {
    let own = &advice.judged().own;
    let (who, work) = awaited(advice);
    let bytes = |bytes: u64| {
        let verb = match (advice.demand.read_bytes, advice.demand.written_bytes) {
            (0, _) => "written",
            (_, 0) => "read",
            _ => "read and written",
        };
        format!("{} {verb}", format::bytes(bytes as f64))
    };
    let has_cache = advice.system.cache_sectors > 0;
    let all = bytes(advice.demand.read_bytes + advice.demand.written_bytes);
    let elapsed = format::nanos(own.elapsed_ns);
    match own.cache_full_at_s {
        _ if advice.system.is_conventional => String::new(),
        Some(0.0) => format!("{who} wait for {work} from the first on."),
        Some(at_s) => {
            // Cleaning that has begun in a pause makes requests wait as well.
            let window = (at_s * 1e9) as u64 / timeline.window_ns.max(1);
            let is_full = timeline.cache_fill.get(window as usize).is_some_and(|&fill| fill >= FULL);
            let what = if is_full { "The drive's cache is full".into() } else { format!("{who} wait for {work}") };
            // A part of a disk has a part of its cache.
            let part = advice.whole_disk_bytes.and(own.rebuild).map_or(String::new(), |rebuilt| {
                format!(", on the {} of the disk that were simulated", format::bytes(rebuilt.disk_bytes as f64))
            });
            format!(
                "{what} after {} ({}){part}.",
                format::seconds(at_s),
                bytes(own.cache_full_after_bytes.unwrap_or(0))
            )
        }
        None if has_cache => {
            let used = timeline.cache_fill.last();
            let used = used.map_or(String::new(), |&share| {
                format!("; the drive's cache is {} full by then", format::percent(share, 1.0))
            });
            // Reads fill no cache.
            let longer = if advice.demand.written_bytes > 0 { ", and a longer load may fill it" } else { "" };
            format!("No request waits for cleaning. The load is over after {elapsed} ({all}){used}{longer}.")
        }
        None if advice.system.cleans => format!("No request waits for cleaning within {elapsed} ({all})."),
        None => format!("Nothing has to be rewritten within {elapsed} ({all})."),
    }
}

/// Requests that wait, and for what: a layer that puts no work off rewrites as part of a write.
fn awaited(advice: &Advice) -> (&'static str, &'static str) {
    match advice.system.cleans || advice.system.cache_sectors > 0 {
        true => ("Requests", "cleaning"),
        false => ("Writes", "rewriting"),
    }
}

/// The longest wait and the slowest hundredth, and whom a timeout drops.
fn waits(advice: &Advice) -> String {
    let Present { own, conventional, against, .. } = advice.judged();
    let longest = format::nanos(own.longest_stall_ns);
    let disk = if own.disks > 1 { "a disk" } else { "the drive" };
    let drops = match (own.dropped_7s, own.dropped_30s) {
        (0, _) if own.longest_stall_ns > own.longest_command_ns && own.longest_stall_ns > 7_000_000_000 => {
            format!(
                ", mostly in the host's queue; no timeout (7 s or 30 s) drops {disk}, since it runs from the dispatch"
            )
        }
        (0, _) => format!("; no timeout (7 s or 30 s) drops {disk}"),
        (_, 0) => format!("; a timeout of 7 s drops {disk}, one of 30 s does not"),
        _ => format!("; timeouts of 7 s and 30 s drop {disk}"),
    };
    let mut text = format!("The longest wait is {longest}{drops}.");
    if against.whole.p99 > TOLD && !advice.system.is_conventional {
        let (p99, usual) = (format::nanos(own.p99_ns), format::nanos(conventional.p99_ns));
        text += &format!(" One request in a hundred takes {p99} or longer ({usual} on CMR disks).");
    }
    if conventional.dropped_7s > 0 && !advice.system.is_conventional {
        text += " CMR disks would be dropped as well.";
    }
    text
}

/// A load that the drive can't keep up with, though conventional disks can.
fn backlog(outcome: &Outcome) -> String {
    let bytes = (outcome.host_read_sectors + outcome.host_written_sectors) as f64 * 512.0;
    let asked = bytes / (outcome.arrivals_ns as f64 / 1e9).max(1e-9);
    let served = bytes / (outcome.elapsed_ns as f64 / 1e9).max(1e-9);
    format!("The drive can't keep up: you ask for {}, it manages {}, and the backlog grows.", rate(asked), rate(served))
}

/// The work of an array of its own, as its software calls it.
fn work(advice: &Advice) -> &'static str {
    match (&advice.rebuild, advice.array.map(|array| array.software)) {
        (Some(RebuildSpec { task: Task::Scrub, .. }), _) => "scrub",
        (_, Some(Software::Zfs)) => "resilver",
        _ => "rebuild",
    }
}

/// The answer on a rebuild, and a line for each load: a rebuild that nobody disturbs is the exception.
fn rebuild(advice: &Advice) -> Vec<String> {
    let (work, present) = (work(advice), advice.judged());
    let Some(seconds) = advice.rebuild_s(&present.own) else { return vec![format!("The {work} did not end.")] };
    let disk = present.own.rebuild.map_or(0, |rebuilt| advice.whole_disk_bytes.unwrap_or(rebuilt.disk_bytes));
    let disk = format::bytes(disk as f64);
    let what =
        if work == "scrub" { format!("The scrub of disks of {disk}") } else { format!("The {work} of a {disk} disk") };
    let calm = advice.present.first().filter(|_| advice.hardest > 0);
    let calm = calm.and_then(|calm| advice.rebuild_s(&calm.own)).map(format::seconds);
    let when = match present.load {
        LoadKind::Light => " in light use",
        LoadKind::Asked => " under your load",
        LoadKind::Unused => "",
    };
    let range = range(advice);
    let time = match calm {
        Some(calm) => format!("{calm}{range} while nobody uses it, {}{when}", format::seconds(seconds)),
        None => format!("{}{range}{when}", format::seconds(seconds)),
    };
    let usual =
        advice.rebuild_s(&present.conventional).map_or(String::new(), |usual| match advice.system.is_conventional {
            true => String::new(),
            false => format!("; CMR disks take {}", format::seconds(usual)),
        });
    let mut dropped = dropping(&present.own).to_string();
    if advice.verdict == Verdict::Depends {
        dropped = format!("Some figures of this drive are estimates, and {}", at_worst(advice.problems_at_ends));
    }
    let mut lines = vec![format!("{what} takes {time}{usual}. {dropped}.")];
    for present in &advice.present {
        let (Some(own), Some(usual)) = (advice.rebuild_s(&present.own), advice.rebuild_s(&present.conventional)) else {
            continue;
        };
        let when = match present.load {
            LoadKind::Unused => "Nobody using it".to_string(),
            LoadKind::Light => "Light use (up to 20 requests a second of 4 KiB, half of them reads)".into(),
            LoadKind::Asked if advice.is_open() => "Under your load".into(),
            LoadKind::Asked => format!("Under your load, {} at a time", present.depth),
        };
        let beside =
            if advice.system.is_conventional { String::new() } else { format!(" (CMR {})", format::seconds(usual)) };
        let longest = format::nanos(present.own.longest_command_ns);
        let drops = match (present.own.dropped_7s, present.own.dropped_30s) {
            (0, _) => "timeouts of 7 s and 30 s drop no disk",
            (_, 0) => "a timeout of 7 s drops a disk, one of 30 s does not",
            _ => "timeouts of 7 s and 30 s drop a disk",
        };
        lines.push(format!("{when}: {}{beside}, longest command {longest}; {drops}.", format::seconds(own)));
    }
    if let Some(rebuilt) = present.own.rebuild.filter(|_| advice.whole_disk_bytes.is_some()) {
        let part = format::bytes(rebuilt.disk_bytes as f64);
        lines.push(format!("Simulated on {part} of each disk, and scaled up to all of it."));
    }
    let in_order = matches!(
        advice.rebuild,
        Some(RebuildSpec { order: RebuildOrder::Ascending { .. }, task: Task::Rebuild { .. }, .. })
    );
    if in_order && advice.array.is_some_and(|array| !array.rebuilds_in_order()) {
        lines.push("ZFS never rebuilds a RAIDZ in disk order: ask for --rebuild resilver.".into());
    }
    lines
}

/// What the estimates in the drive's file do to the answer; nothing where an end without effect was not run.
fn certainty(advice: &Advice) -> String {
    let ends = || advice.remedies.iter().filter(|remedy| remedy.kind == ChangeKind::Range);
    let is_known = ends().all(|end| end.effect.is_some());
    let matter = ends().any(|end| end.effect != Some(Effect::None));
    match (ends().next().is_some(), matter || advice.problems_at_ends.any()) {
        (true, false) if is_known => "Some figures of this drive are estimates; none of them changes the answer.".into(),
        (true, true) if is_known && advice.verdict != Verdict::Depends => {
            "Some figures of this drive are estimates, and the real drive may do better or worse: --details shows by which.".into()
        }
        _ => String::new(),
    }
}

/// That nothing would do, where that is so.
fn outcome_of_changes(advice: &Advice) -> String {
    let changes = || advice.remedies.iter().filter(|remedy| remedy.kind != ChangeKind::Range);
    let fixes = changes().any(|remedy| matches!(remedy.rank(), Some(0 | 1)));
    match advice.problems.any() && changes().any(|remedy| remedy.effect.is_some()) && !fixes {
        true => "Nothing that was tried would cure it.".into(),
        false => String::new(),
    }
}

/// What an owner can do, the surest first; nothing where there is no problem, and nothing that the array's software can't do.
pub fn actions(advice: &Advice) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut add =
        |what: String, cost: &str, command: Option<String>| actions.push(Action { what, cost: cost.into(), command });
    if advice.verdict == Verdict::Refused {
        add(
            "Put something on it that writes zones in order: dm-zoned below any file system, or Btrfs, F2FS or SMRfs in its zoned mode".into(),
            "dm-zoned cleans in the background like a drive-managed disk",
            None,
        );
        add("Or use CMR disks".into(), "other disks", None);
        return actions;
    }
    if !advice.problems.any() {
        return actions;
    }
    for remedy in worth_doing(advice) {
        let Some(figures) = remedy.trajectory.as_ref().map(|run| figures(advice, run)) else { continue };
        let so_far = if remedy.effect == Some(Effect::FixesSoFar) { ", as far as was simulated" } else { "" };
        let help = if remedy.rank() == Some(2) { " (helps, but not enough)" } else { "" };
        let unused = if advice.judged().load == LoadKind::Light { " while nobody uses it" } else { "" };
        let shown = format!("{figures}{unused}{so_far}{help}");
        match remedy.kind {
            ChangeKind::Conventional => add(format!("Use CMR disks: {shown}"), "other disks", None),
            ChangeKind::WriteSize if is_small_and_random(advice) => add(
                format!(
                    "Use a program that gathers small writes and writes {} in one place: {shown}. A larger recordsize or chunk does not do that",
                    remedy.change.trim_start_matches("writes of ")
                ),
                "what is gathered in memory is lost in a crash",
                None,
            ),
            ChangeKind::WriteSize => {
                let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
                add(
                    format!("Write {} at a time: {shown}", remedy.change.trim_start_matches("writes of ")),
                    "a small change within a large record rewrites all of it",
                    is_zfs.then(|| "zfs set recordsize=1M POOL/DATASET".into()),
                );
            }
            ChangeKind::WriteCache => add(
                format!("Switch the drive's write cache on, if it is off: {shown}"),
                "a power cut loses what was not flushed, which file systems allow for",
                Some("hdparm -W1 /dev/sdX".into()),
            ),
            ChangeKind::Idle => add(rest(advice, remedy), "the same work takes longer", None),
            ChangeKind::RebuildRecords if !is_small_and_random(advice) || advice.judged().load == LoadKind::Light => {
                add(
                    format!("Keep large files in records of 1 MiB, from the beginning: {shown}"),
                    "holds for data written from then on; databases and virtual machines on it become slower",
                    Some("zfs set recordsize=1M POOL/DATASET-OF-LARGE-FILES".into()),
                )
            }
            ChangeKind::RebuildOrder => add(
                format!("Rebuild in disk order: {shown}"),
                "checksums are verified only by the scrub that ZFS starts afterwards",
                Some("zpool replace -s POOL sdX sdY".into()),
            ),
            ChangeKind::RebuildPieces if is_bearable(advice, remedy) => {
                let is_resilver =
                    matches!(advice.rebuild, Some(RebuildSpec { order: RebuildOrder::Scattered { .. }, .. }));
                let is_scrub = matches!(advice.rebuild, Some(RebuildSpec { task: Task::Scrub, .. }));
                let queue = if is_resilver || is_scrub { "scrub" } else { "rebuild" };
                add(
                    format!("Let ZFS keep one command of the {} outstanding: {shown}", work(advice)),
                    "every scrub and resilver on this computer goes slower, until you set it back",
                    Some(format!("echo 1 > /sys/module/zfs/parameters/zfs_vdev_{queue}_max_active")),
                );
            }
            ChangeKind::RebuildSpeed if is_bearable(advice, remedy) => {
                let limit = remedy.change.trim_start_matches("at ").trim_end_matches(" at most");
                let kib_per_s = half_kib_per_s(advice);
                add(
                    format!("Hold the {} to half its speed, {limit}: {shown}", work(advice)),
                    "the array goes without redundancy for that much longer",
                    Some(format!("echo {kib_per_s} > /sys/block/mdX/md/sync_speed_max")),
                );
            }
            ChangeKind::Dedicated => {
                add(format!("Give each source a disk of its own: {shown}"), "as many disks as sources", None)
            }
            ChangeKind::RebuildRecords
            | ChangeKind::RebuildPieces
            | ChangeKind::RebuildSpeed
            | ChangeKind::Chunk
            | ChangeKind::Level
            | ChangeKind::Layer
            | ChangeKind::Range => {}
        }
    }
    if advice.problems.dropped_7s {
        actions.extend(timeouts(advice));
    }
    actions
}

/// Timeouts under which the drive is not dropped; none where no timeout that makes sense is long enough.
fn timeouts(advice: &Advice) -> Vec<Action> {
    let longest_ns = advice.present.iter().map(|present| present.own.longest_command_ns).max().unwrap_or(0);
    let seconds = timeout_s(longest_ns);
    if seconds > LONGEST_TIMEOUT_S {
        return Vec::new();
    }
    let mut actions = vec![Action {
        what: format!(
            "Let the kernel wait {seconds} s, twice the longest command. A hardware RAID controller gives up after 7 s and will drop the \
             disk: don't use one"
        ),
        cost: "a disk that is really dead stalls the array for that long".into(),
        command: Some(format!("echo {seconds} > /sys/block/sdX/device/timeout")),
    }];
    // Without another copy a sector that is given up early is lost.
    if advice.array.is_some_and(|array| array.is_redundant()) {
        actions.push(Action {
            what: "Let the disk give up a bad sector after 7 s (SCT ERC), so that the array mends it".into(),
            cost: "has to be set after each power-up, and some disks don't take it".into(),
            command: Some("smartctl -l scterc,70,70 /dev/sdX".into()),
        });
    }
    actions
}

/// Seconds to wait for commands of which the longest takes so long: twice as long, in steps of the kernel's own timeout.
fn timeout_s(longest_ns: u64) -> u64 {
    (2 * longest_ns).div_ceil(KERNEL_S * 1_000_000_000).max(1) * KERNEL_S
}

/// Half the speed of the rebuild as it is, in KiB/s.
fn half_kib_per_s(advice: &Advice) -> u64 {
    let rebuilt = advice.judged().own.rebuild.unwrap_or_default();
    (rebuilt.bytes as f64 / (rebuilt.elapsed_ns as f64 / 1e9).max(1e-9) / 2.0 / 1024.0) as u64
}

/// True of a slower rebuild that is still over before long.
fn is_bearable(advice: &Advice, remedy: &Remedy) -> bool {
    remedy.trajectory.as_ref().and_then(|run| advice.rebuild_s(run)).is_some_and(|seconds| seconds <= LONGEST_REBUILD_S)
}

/// True of small writes here and there, which larger records make worse: each then rewrites a whole record.
fn is_small_and_random(advice: &Advice) -> bool {
    advice.demand.mean_write_bytes.is_some_and(|bytes| bytes < SMALL_BYTES)
        && advice.demand.sequential_share.is_some_and(|share| share < 0.5)
}

/// The changes that fix it or help, in the order of the table; of several sizes of writes, and of several pauses, the smallest that does
/// as much.
fn worth_doing(advice: &Advice) -> impl Iterator<Item = &Remedy> {
    let is_best = move |remedy: &&Remedy| {
        let best = || Remedy::best_of(&advice.remedies, remedy.kind);
        let is_one_of_many = matches!(remedy.kind, ChangeKind::WriteSize | ChangeKind::Idle);
        remedy.rank().is_some() && (!is_one_of_many || best().is_some_and(|best| std::ptr::eq(best, *remedy)))
    };
    advice.remedies.iter().filter(is_best)
}

/// What a change brings.
fn figures(advice: &Advice, run: &Trajectory) -> String {
    if let Some(seconds) = advice.rebuild_s(run) {
        return format!("{}, longest command {}", format::seconds(seconds), format::nanos(run.longest_command_ns));
    }
    let pace = match advice.is_open() {
        true => format!("{} on average", format::nanos(run.mean_ns)),
        false => rate(run.lasting_bytes_per_s()),
    };
    format!("{pace}, longest wait {}", format::nanos(run.longest_stall_ns))
}

/// How much rest the drive needs.
fn rest(advice: &Advice, remedy: &Remedy) -> String {
    let enough = remedy.rank().is_some_and(|rank| rank < 2);
    let end = if enough { "it keeps up" } else { "it does better, but does not keep up" };
    match (remedy.time_scale, &remedy.trajectory) {
        (Some(scale), _) => {
            let now = advice.engine.time_scale;
            format!("Ask less of it: with {} of this load {end}", format::percent(now / scale, 1.0))
        }
        (None, Some(run)) => {
            let at = if enough { format!(", at {}", rate(run.lasting_bytes_per_s())) } else { String::new() };
            format!(
                "Give it rest: with {} after each request ({} of the time) {end}{at}",
                remedy.change,
                format::percent(run.idle_share, 1.0)
            )
        }
        (None, None) => format!("Give it rest: {}", remedy.change),
    }
}

/// The effect of a drive at an end of its range, compared with the drive that was run.
pub fn at_an_end(effect: Effect) -> &'static str {
    match effect {
        Effect::Fixes | Effect::FixesSoFar | Effect::Helps => "better",
        Effect::Mixed => "mixed",
        Effect::None => "the same",
        Effect::Worsens => "worse",
    }
}

/// The effect of a change in a word or two.
pub fn effect(is_problem: bool, remedy: &Remedy) -> &'static str {
    match remedy.effect {
        None => "not run",
        Some(effect) if remedy.kind == ChangeKind::Range => at_an_end(effect),
        Some(Effect::Fixes | Effect::FixesSoFar) if remedy.kind == ChangeKind::Idle => "keeps up",
        Some(Effect::Fixes) => "fixes it",
        Some(Effect::FixesSoFar) => "fixes it so far",
        Some(Effect::Helps) if is_problem => "helps",
        Some(Effect::Helps) => "better",
        Some(Effect::Mixed) => "mixed",
        Some(Effect::None) if is_problem => "does not help",
        Some(Effect::None) => "no difference",
        Some(Effect::Worsens) => "worse",
    }
}
