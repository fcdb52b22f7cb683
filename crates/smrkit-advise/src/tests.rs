//! Sentences and actions on made-up figures, and the rules that no printed command may break.

use std::collections::BTreeMap;
use std::sync::Arc;

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildSpec, Task};
use smrkit::experiment::demand::{Demand, GeneratedDemand};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::{self, Unwatched};
use smrkit::experiment::system::{AskedCapacity, System};
use smrkit::layer::HOST_MANAGED_DISK;
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::{Outcome, Replayed, State};
use smrkit::stats::timeline::Timeline;
use smrkit::units::Nanos;
use smrkit::workload::Workload;

use crate::advice::{Advice, AdvisedDemand, AdvisedSystem, Answer, End, KnownFigures, Present, Remedy, Verdict};
use crate::budget::{Budget, Recovery};
use crate::changes::{ArrayFacts, ChangeKind, Software};
use crate::comparison::{Comparison, Effect, Judged, Multiples, Problems, RebuildFigures, Trajectory};
use crate::screen::{self, Screen};
use crate::sums::ReportedWaits;
use crate::trial::Trial;
use crate::uses::AskedUse;
use crate::words;
use crate::{Buffer, Load, LoadKind, Need};

const S: u64 = 1_000_000_000;

fn times(multiple: f64) -> Comparison {
    let whole = Multiples { elapsed: Some(multiple), mean: multiple, p99: multiple, longest: multiple };
    Comparison { whole, from_first_wait: None, rebuild: None }
}

/// A run of 100 s at this many bytes a second, whose longest request takes so many seconds.
fn run(bytes_per_s: f64, longest_s: u64) -> Trajectory {
    Trajectory {
        requests: 1000,
        bytes: (bytes_per_s * 100.0) as u64,
        elapsed_ns: 100 * S,
        rate_before_bytes_per_s: Some(bytes_per_s),
        longest_stall_ns: longest_s * S,
        longest_read_ns: longest_s * S,
        longest_write_ns: longest_s * S,
        longest_command_ns: longest_s * S,
        dropped_7s: u64::from(longest_s > 7),
        dropped_30s: u64::from(longest_s > 30),
        disks: 1,
        ..Trajectory::default()
    }
}

/// The answer on one drive that takes this many times as long as conventional disks, before its sentences.
fn advice(multiple: f64, longest_s: u64) -> Advice {
    let own = Trajectory { cleans: true, ..run(1e6, longest_s) };
    let conventional = run(1e6 * multiple, 0);
    let against = times(multiple);
    Advice {
        schema: 1,
        answer: Answer::Unknown,
        verdict: Verdict::Fine,
        text: String::new(),
        actions: Vec::new(),
        asked_use: None,
        is_even: true,
        is_endless: false,
        note: None,
        reported: None,
        need: Need::default(),
        problems: Judged::new(&own, &against).problems,
        range: None,
        drive_range: None,
        budget: None,
        array: None,
        present: vec![Present { load: LoadKind::Asked, depth: 1, own, conventional, against }],
        hardest: 0,
        trimmed: Vec::new(),
        assumes_written: true,
        refused_where_written: None,
        ends: Vec::new(),
        lacks_room_at_an_end: false,
        remedies: Vec::new(),
        runs: Vec::new(),
        complete: true,
        recovery: Recovery::Unknown,
        is_rest_known: true,
        is_tried: true,
        is_preview: false,
        system: AdvisedSystem {
            drive: "tiny".into(),
            drive_file: None,
            layer: "any".into(),
            array: None,
            parameters: BTreeMap::new(),
            host_sectors: 8000,
            cache_sectors: 8,
            cleans: true,
            is_conventional: false,
            is_dynamic: false,
            known: KnownFigures::default(),
            slowest: None,
            rebuilt: None,
        },
        demand: AdvisedDemand {
            replayed: Replayed::default(),
            requests: 1000,
            read_bytes: 0,
            written_bytes: 5_000_000,
            mean_write_bytes: Some(4096.0),
            sequential_share: Some(0.0),
        },
        rebuild: None,
        whole_disk_bytes: None,
        whole_bytes: Some(1e8),
        engine: Settings::default(),
        state: State::default(),
        scaled: None,
        seed: 1,
        version: "",
        commit: None,
    }
}

fn use_named(text: &str) -> AskedUse {
    text.parse().unwrap()
}

/// A use of this many bytes in all, such as a backup.
fn amount(multiple: f64, bytes: f64) -> Advice {
    Advice { asked_use: Some(use_named("restic:bytes=1G")), whole_bytes: Some(bytes), ..advice(multiple, 1) }
}

fn remedy(kind: ChangeKind, change: &str, effect: Effect, run: Trajectory, against: Comparison) -> Remedy {
    let problems = Judged::new(&run, &against).problems;
    Remedy {
        kind,
        change: change.into(),
        effect: Some(effect),
        problems: Some(problems),
        not_run: None,
        trajectory: Some(run),
        against: Some(against),
    }
}

fn cmr(effect: Effect, run: Trajectory) -> Remedy {
    remedy(ChangeKind::Conventional, "CMR disks", effect, run, times(1.0))
}

fn end(worse: bool, trajectory: Trajectory) -> End {
    End { worse, problems: Problems::default(), trajectory }
}

fn answered(mut advice: Advice) -> Advice {
    words::answer(&mut advice, &Outcome::default());
    advice
}

/// The answer, its verdict, and the line that begins with a word.
fn said(advice: Advice, beginning: &str) -> (Answer, Verdict, String) {
    let advice = answered(advice);
    let line =
        advice.text.lines().find(|line| line.starts_with(beginning)).unwrap_or_else(|| panic!("{}", advice.text));
    (advice.answer, advice.verdict, line.to_string())
}

#[test]
fn the_answer_begins_with_yes_or_no_and_the_reason() {
    let begins = |advice: Advice| {
        let (answer, verdict, line) = said(advice, "");
        (answer, verdict, line)
    };
    let (yes, no) = (Answer::Yes, Answer::No);
    assert_eq!(
        begins(advice(1.2, 1)),
        (yes, Verdict::Fine, "Yes: tiny does as well as a CMR disk for this load.".into())
    );
    let somewhat = "Yes, though this load takes 1.8 times as long on tiny as on a CMR disk.";
    assert_eq!(begins(advice(1.8, 1)), (yes, Verdict::SomewhatSlower, somewhat.into()));
    let slow = |times: &str| format!("No: this load takes {times} as long on tiny as on a CMR disk.");
    assert_eq!(begins(advice(3.04, 1)), (no, Verdict::Slow, slow("3 times")));
    // The mean is not why.
    let mut p99 = open(2.4);
    p99.present[0].against.whole.mean = 1.6;
    let text = "No: tiny keeps up, but one request in a hundred takes 2.4 times as long as on a CMR disk.";
    assert_eq!(begins(p99), (no, Verdict::Slow, text.into()));
    assert_eq!(begins(advice(34.7, 8)), (no, Verdict::Slow, slow("35 times")));
    assert_eq!(begins(advice(31.7e6, 1)), (no, Verdict::Slow, slow("more than 99 times")));
    let dropped = "No: the system would drop a disk, which does not answer for 31 s, and kernels wait 30 s.";
    assert_eq!(begins(advice(1.0, 31)), (no, Verdict::Dropped, dropped.into()));
    let mut raid = advice(1.0, 8);
    raid.array = Some(ArrayFacts::new("raid5", Level::Raid5, None));
    let by_raid = "Perhaps: a disk (tiny) does not answer for 8 s. Kernels wait 30 s; a hardware RAID controller waits 7 s and would drop it.";
    assert_eq!(begins(raid), (Answer::Perhaps, Verdict::DroppedByRaid, by_raid.into()));
    let mut refused = advice(1.0, 1);
    refused.present[0].own.refused = 993;
    let text = "No: tiny is host-managed and takes writes only in order within each zone. It would refuse 99 % of these requests.";
    assert_eq!(begins(refused), (no, Verdict::Refused, text.into()));
    let mut full = advice(1.0, 1);
    (full.present[0].own.refused, full.present[0].own.refused_by_full_zones) = (993, 900);
    let text = "No: tiny is host-managed, and its zones were full: until a zone is reset it takes no more writes, so that 99 % of these \
                requests would be refused.";
    let full = answered(full);
    assert_eq!(full.text.lines().next(), Some(text));
    assert!(full.actions[0].what.starts_with("Reset each zone"), "{:?}", full.actions);
    // A yes is one for writes such as these.
    let mut zoned = advice(1.0, 1);
    (zoned.system.layer, zoned.demand.written_bytes) = (HOST_MANAGED_DISK.into(), 1);
    let zoned = answered(zoned).text;
    assert!(
        zoned.contains("for this load. But it is host-managed: most file systems can't be put on it.\n"),
        "{zoned}"
    );
    assert!(zoned.contains("the disk refuses all others"), "{zoned}");
    let mut short = advice(9.0, 1);
    short.present[0].own.elapsed_ns = S;
    short.present[0].conventional.elapsed_ns = S / 9;
    let (answer, verdict, text) = begins(short);
    assert!(answer == Answer::Unknown && verdict == Verdict::TooShort, "{text}");
    assert!(text.starts_with("Too short to say: the whole load takes 1 s of simulated time"), "{text}");
}

#[test]
fn what_is_not_the_shingling_is_said() {
    let mut overloaded = advice(1.1, 1);
    overloaded.present[0].conventional.falls_behind = true;
    let text = "No, but not because of the shingling: a CMR disk can't keep up with this either.";
    assert_eq!(said(overloaded, "No"), (Answer::No, Verdict::Overloaded, text.into()));
    let mut far = advice(1.0, 1);
    (far.present[0].own.falls_behind, far.present[0].conventional.falls_behind) = (true, true);
    far.present[0].conventional.elapsed_ns = 20 * S;
    let text = "No: tiny can't keep up with this load. A CMR disk can't either, but tiny takes 5 times as long.";
    assert_eq!(said(far, "No"), (Answer::No, Verdict::FallsBehind, text.into()));
    let mut conventional = advice(1.0, 1);
    conventional.system.is_conventional = true;
    let text = "Yes, as far as shingling goes: tiny is conventional (CMR), so it has nothing to clean after this load.";
    assert_eq!(said(conventional, "Yes"), (Answer::Yes, Verdict::Conventional, text.into()));
    let swamped = |mean_ms: u64| {
        let mut one = open(1.0);
        one.system.is_conventional = true;
        one.present[0].own.mean_ns = mean_ms * 1_000_000;
        said(one, "").1
    };
    assert_eq!((swamped(20), swamped(4620)), (Verdict::Conventional, Verdict::Overloaded));
    let mut busy = advice(1.0, 1);
    busy.system.is_conventional = true;
    busy.present[0].conventional.falls_behind = true;
    let (_, verdict, text) = said(busy, "No");
    assert_eq!(verdict, Verdict::Overloaded);
    assert_eq!(
        text,
        "No, but that has nothing to do with shingling: tiny is conventional (CMR), and can't keep up with this load."
    );
}

#[test]
fn what_is_enough_is_advised_before_what_only_helps() {
    let mut one = advice(9.0, 1);
    let ran = |hours: u64| {
        let rebuild = Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
        Trajectory { rebuild, ..run(1e6, 1) }
    };
    one.rebuild = Some(RebuildSpec::parse("resilver").unwrap());
    one.array = Some(ArrayFacts::new("mirror", Level::Raid1, one.rebuild));
    one.need.within = Some(Nanos(24 * 3600 * S));
    (one.present[0].own, one.present[0].conventional) = (ran(400), ran(28));
    one.remedies = vec![
        cmr(Effect::Helps, ran(28)),
        remedy(ChangeKind::RebuildOrder, "in disk order", Effect::FixesSoFar, ran(17), times(1.0)),
    ];
    let one = answered(one);
    let whats: Vec<&str> = one.actions.iter().map(|action| action.what.as_str()).collect();
    assert_eq!(whats, ["Rebuild in disk order: 17 h, as far as was simulated"], "{}", one.text);
}

#[test]
fn a_rebuild_is_as_many_times_slower_as_the_times_that_are_told() {
    let mut one = advice(4.0, 1);
    let ran = |hours: u64| Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
    one.rebuild = Some(RebuildSpec::parse("rebuild").unwrap());
    (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (ran(58), ran(20));
    assert!(answered(one).text.contains("2.9 times as long"));
}

#[test]
fn disks_that_cannot_keep_up_either_are_no_cure() {
    let cures = |falls_behind: bool| {
        let mut one = advice(9.0, 1);
        one.present[0].own.falls_behind = true;
        one.present[0].conventional.falls_behind = falls_behind;
        one.present[0].conventional.elapsed_ns = 11 * S;
        one.remedies.push(cmr(Effect::Helps, run(9e6, 1)));
        answered(one).actions.iter().filter(|action| action.what.contains("CMR disks, which")).count()
    };
    assert_eq!((cures(true), cures(false)), (0, 1));
}

#[test]
fn a_backlog_is_called_that() {
    let mut behind = advice(400_000.0, 1);
    behind.engine.arrival = Arrival::Trace;
    behind.asked_use = Some(use_named("postgres"));
    behind.present[0].own = Trajectory {
        falls_behind: true,
        arrivals_ns: 40 * S,
        longest_stall_ns: 60 * S,
        bytes: 100_000_000,
        ..run(1e6, 60)
    };
    let advice = answered(behind);
    let lines: Vec<&str> = advice.text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "No: tiny can't keep up with a PostgreSQL database; a CMR disk can.",
            "How fast: this load asks for 2.5 MB/s, and the drive does 1 MB/s, so that the backlog grows: what comes in an hour takes it 2.5 h. \
             A program that keeps 1 request outstanding would wait 100 ms for each."
        ]
    );
    assert!(!advice.text.contains("times"), "{}", advice.text);
}

#[test]
fn a_load_without_an_end_is_judged_by_a_full_cache() {
    let day = 86_400.0;
    let mut endless = advice(1.0, 1);
    (endless.is_endless, endless.whole_bytes, endless.engine.arrival) = (true, None, Arrival::Trace);
    let from_full = |multiple: f64| {
        let mut one = Advice { is_endless: true, whole_bytes: None, ..advice(multiple, 1) };
        (one.engine.arrival, one.present[0].own.full_after_s) = (Arrival::Trace, Some(day));
        one
    };
    let text = "No: a request takes 9 times as long on tiny as on a CMR disk. That is once the drive's cache is full, after about 24 h of this.";
    assert_eq!(said(from_full(9.0), "No").2, text);
    let text = "Why: the drive's cache is full after about 24 h of this, but no request waits long for that.";
    assert_eq!(said(from_full(1.0), "Why").2, text);
    assert_eq!(said(endless, "Yes").1, Verdict::Fine);
    let filling = |is_endless: bool, whole: Option<f64>| {
        let mut one = Advice { is_endless, whole_bytes: whole, ..advice(1.0, 1) };
        one.present[0].own.full_in_s = Some(500.0);
        answered(one)
    };
    let unseen = filling(true, None);
    assert_eq!((unseen.answer, unseen.verdict), (Answer::Unknown, Verdict::TooShort));
    assert_eq!(
        unseen.text,
        "Not known for longer: until the drive's cache is full, after about 10 min of this, it does as well as a CMR disk. What comes \
         then was not simulated.\nHow fast: 1 MB/s; a CMR disk 1 MB/s."
    );
    // 100 MB were run at 1 MB/s; in 500 s more it is full.
    assert_eq!(filling(false, Some(5e8)).verdict, Verdict::Fine, "it ends before the cache is full");
    assert_eq!(
        filling(false, Some(7e8)).text,
        "Not known for all 700 MB: until the drive's cache is full, after about 10 min of this, it does 1 MB/s. What comes then was not \
         simulated."
    );
}

#[test]
fn a_need_is_what_counts() {
    let hour = Nanos(3_600 * S);
    // 18 GB at 1 MB/s are 5 hours.
    let asked = |within: Option<u64>, every: Option<u64>| {
        let need = Need {
            within: within.map(|h| Nanos(h * hour.0)),
            every: every.map(|h| Nanos(h * hour.0)),
            ..Need::default()
        };
        Advice { need, ..amount(9.0, 18e9) }
    };
    let text = "Yes: a backup by restic takes 5 h of the 8 h that you have.";
    assert_eq!(said(asked(Some(8), None), "Yes"), (Answer::Yes, Verdict::Meets, text.into()));
    let text = "No: a backup by restic takes longer than the 4 h that you have.";
    assert_eq!(said(asked(Some(4), None), "No"), (Answer::No, Verdict::Misses, text.into()));
    let mut neither = asked(Some(4), None);
    neither.present[0].conventional = run(1.1e6, 0);
    assert!(said(neither, "No").2.ends_with("A CMR disk would not do it either."));
    let text = "Yes: a backup by restic takes 5 h of the 24 h until the next.";
    assert_eq!(said(asked(None, Some(24)), "Yes"), (Answer::Yes, Verdict::Meets, text.into()));
    let first = Advice { is_rest_known: false, ..asked(None, Some(24)) };
    let text = "Yes: a backup by restic takes 5 h of the 24 h until the next, if the drive has cleaned up when the next one begins, which is tried now.";
    assert_eq!(said(first, "Yes").2, text);
    let rested = |every| {
        let budget = Budget { at_once_bytes: Some(9_000_000_000), rest_s: Some(36_000.0), ..Budget::default() };
        Advice { budget: Some(budget), ..asked(None, Some(every)) }
    };
    let text =
        "Yes: a backup by restic takes 5 h of the 24 h until the next, and the drive has cleaned up after 10 h more.";
    assert_eq!(said(rested(24), "Yes"), (Answer::Yes, Verdict::Meets, text.into()));
    let mut both = rested(24);
    both.need.within = Some(Nanos(8 * hour.0));
    let text =
        "Yes: a backup by restic takes 5 h of the 8 h that you have, and the drive has cleaned up after 10 h more.";
    assert_eq!(said(both, "Yes").2, text);
    let late = answered(rested(9)).text;
    assert!(late.contains("Why: the drive needs 10 h of rest to move what was written from its cache to"), "{late}");
    let text = "No: a backup by restic is done, but its cleaning is not, when the next one begins after 9 h.";
    assert_eq!(said(rested(9), "No"), (Answer::No, Verdict::Misses, text.into()), "a CMR disk has nothing to clean");
    // It takes 18 GB in five hours, and never has the rest for that again: at 0.5 MB/s it is done in 10 h, each time.
    let unrested = |every| {
        let budget = Budget { rest_s: None, for_ever_bytes_per_s: Some(5e5), ..rested(every).budget.unwrap() };
        Advice { budget: Some(budget), ..asked(None, Some(every)) }
    };
    let text = "Yes: a backup by restic takes 5 h of the 24 h until the next.";
    assert_eq!(said(unrested(24), "Yes"), (Answer::Yes, Verdict::Meets, text.into()));
    assert_eq!(said(unrested(9), "No").1, Verdict::Misses);
    let kept = |p99_ms: u64| {
        let mut one = advice(9.0, 1);
        one.need.keep = Some(Nanos(10_000_000));
        one.present[0].own.p99_ns = p99_ms * 1_000_000;
        one
    };
    assert_eq!(
        said(kept(9), "Yes").2,
        "Yes: 99 of 100 requests are answered within 10 ms, though the longest request takes 1 s."
    );
    assert_eq!(said(kept(11), "No").2, "No: one request in a hundred waits longer than the 10 ms that you allow.");
}

#[test]
fn what_is_not_known_of_a_drive_may_change_the_answer() {
    let mut at_risk = advice(1.2, 1);
    at_risk.ends = vec![end(true, run(0.2e6, 8)), end(false, run(1.1e6, 1))];
    let at_risk = answered(at_risk);
    let lines: Vec<&str> = at_risk.text.lines().collect();
    assert_eq!(at_risk.verdict, Verdict::Depends);
    assert_eq!(
        lines[0],
        "Perhaps: some figures of tiny are estimates, and at the worst of them it does 200 kB/s, a CMR disk 1.2 MB/s."
    );
    assert_eq!(lines[1], "How fast: 1 MB/s (0.2 to 1.1 MB/s); a CMR disk 1.2 MB/s.");
    assert_eq!(lines[2], "Why: no request waits for cleaning.", "as it is taken to be it is as fast");
    assert_eq!(
        lines[3],
        "What to do: to be sure use CMR disks: 1.2 MB/s. If you have the shingled disk already and it is empty, measure it."
    );
    let mut close = advice(1.2, 1);
    close.ends = vec![end(true, run(0.98e6, 1)), end(false, run(1.02e6, 1))];
    let close = answered(close);
    assert!(close.verdict == Verdict::Fine && close.range.is_none(), "{}", close.text);
    let mut needed = amount(1.2, 18e9);
    needed.need.within = Some(Nanos(4 * 3_600 * S));
    needed.ends = vec![end(true, run(0.5e6, 1)), end(false, run(2e6, 1))];
    assert!(said(needed, "Perhaps").2.ends_with("and it does what you need only at the best of them."));
    let mut dropping = advice(1.2, 1);
    dropping.ends = vec![end(true, run(0.9e6, 44))];
    assert!(
        said(dropping, "Perhaps").2.ends_with("and with some of their possible values the system would drop a disk.")
    );
}

#[test]
fn how_long_and_how_fast_have_their_range() {
    let mut long = amount(2.0, 18e9);
    long.ends = vec![end(true, run(0.5e6, 1)), end(false, run(2e6, 1))];
    assert_eq!(said(long, "How long").2, "How long: 5 h (2.5 to 10 h) for 18 GB, which is 1 MB/s; a CMR disk 2.5 h.");
    let mut falls = advice(20.0, 4);
    falls.present[0].own = Trajectory {
        cache_full_at_s: Some(60.0),
        rate_before_bytes_per_s: Some(20e6),
        rate_after_bytes_per_s: Some(1e6),
        ..run(1e6, 4)
    };
    assert_eq!(
        said(falls, "How fast").2,
        "How fast: 20 MB/s for 60 s, then 1 MB/s; a CMR disk 20 MB/s. The longest command takes 4 s."
    );
    let mut slow = advice(9.0, 1);
    slow.engine.arrival = Arrival::Trace;
    assert_eq!(said(slow, "No").2, "No: a request takes 9 times as long on tiny as on a CMR disk.");
    let mut open = advice(1.0, 1);
    open.engine.arrival = Arrival::Trace;
    let latencies = |ms: u64| Trajectory {
        mean_ns: ms * 1_000_000,
        p99_ns: 10 * ms * 1_000_000,
        longest_stall_ns: 100 * ms * 1_000_000,
        longest_read_ns: 100 * ms * 1_000_000,
        ..run(1e6, 0)
    };
    (open.present[0].own, open.present[0].conventional) = (latencies(12), latencies(9));
    assert_eq!(
        said(open, "How fast").2,
        "How fast: a request takes 12 ms on average, one in a hundred 120 ms or more, the longest 1.2 s; on a CMR disk 9 ms, 90 ms and \
         900 ms."
    );
}

#[test]
fn the_reason_says_when_the_cache_is_full_if_that_matters() {
    let why = |multiple: f64, fill: f64, cache: u64, cleans, full_at_s: Option<f64>| {
        let mut one = advice(multiple, 1);
        (one.system.cache_sectors, one.system.cleans) = (cache, cleans);
        one.present[0].own.cache_full_at_s = full_at_s;
        one.present[0].own.cache_full_after_bytes = full_at_s.map(|_| 7_000_000);
        let cache_fill = if cache > 0 { vec![0.1, 0.1, 0.1, 0.1, fill, 0.25] } else { Vec::new() };
        let timeline = Timeline { window_ns: S, cache_fill, ..Timeline::default() };
        words::answer(&mut one, &Outcome { timeline, ..Outcome::default() });
        one.text.lines().nth(2).unwrap().to_string()
    };
    let full = "Why: the cache on the drive's platters is full after 4 s (7 MB), and from then on requests wait while the drive moves what is in \
                it to its place.";
    assert_eq!(why(3.0, 0.9, 8, true, Some(4.0)), full);
    let full = "Why: the drive's cache is full after 4 s (7 MB), but no request waits long for that.";
    assert_eq!(why(1.0, 0.9, 8, true, Some(4.0)), full);
    assert_eq!(
        why(3.0, 0.89, 8, true, Some(4.0)),
        "Why: after 4 s (7 MB) the drive begins to clean, and requests wait for it."
    );
    let mut seldom = advice(1.0, 8);
    seldom.present[0].own.cache_full_at_s = Some(4.0);
    let text = "Why: the drive cleans now and then, but few requests wait for that (the longest takes 8 s).";
    assert_eq!(said(seldom, "Why").2, text);
    assert_eq!(why(3.0, 0.0, 0, true, Some(0.0)), "Why: requests wait for cleaning from the first on.");
    assert_eq!(why(3.0, 0.0, 0, false, Some(0.0)), "Why: requests wait for rewriting from the first on.");
    assert_eq!(
        why(1.0, 0.5, 8, true, None),
        "Why: no request waits for cleaning; the drive's cache is 25 % full at the end."
    );
    let filled = |cache_fill: Vec<f64>| {
        let mut one = advice(1.0, 1);
        one.system.cache_sectors = 8;
        let timeline = Timeline { window_ns: S, cache_fill, ..Timeline::default() };
        words::answer(&mut one, &Outcome { timeline, ..Outcome::default() });
        one.text.lines().nth(2).unwrap().to_string()
    };
    assert_eq!(
        filled(vec![0.2, 0.9, 1.0, 1.0]),
        "Why: the drive's cache fills, but between requests the drive cleans it as fast as they come, so that none waits."
    );
    assert_eq!(
        filled(vec![0.2, 0.5, 0.8, 0.95]),
        "Why: no request waits for cleaning; the drive's cache is 95 % full at the end."
    );
    assert_eq!(why(1.0, 0.0, 0, false, None), "Why: no request waits for rewriting.");
}

#[test]
fn a_budget_is_told_beside_what_is_asked() {
    let budget = Budget {
        at_once_bytes: Some(150_000_000_000),
        at_once_bytes_per_s: 70e6,
        request_bytes: 1_048_576.0,
        written_share: 1.0,
        after_bytes_per_s: Some(8e6),
        rest_s: Some(18_000.0),
        for_ever_bytes_per_s: Some(7e6),
    };
    let told = |bytes: f64| words::budget(&Advice { budget: Some(budget), ..amount(1.0, bytes) }).unwrap();
    let all = "How much: 150 GB at once, at 70 MB/s (in writes of 4.1 kB; smaller ones fill the cache sooner), then 7 MB/s \
               for as long as you like. After a rest of 5 h it takes as much again.";
    assert_eq!(
        told(60e9),
        format!("{all} These 60 GB are 40 % of what it takes at once, and 2 h of rest make up for them.")
    );
    assert_eq!(told(300e9), format!("{all} These 300 GB are 2 times as much as it takes at once."));
    let evenly = Budget { for_ever_bytes_per_s: Some(12e6), ..budget };
    let evenly = words::budget(&Advice { budget: Some(evenly), ..amount(1.0, 60e9) }).unwrap();
    assert!(evenly.contains("then 8 MB/s, and 12 MB/s for as long as you like if they come evenly."), "{evenly}");
    // Half of it is read, which takes no room.
    let half = Advice { budget: Some(Budget { written_share: 0.5, ..budget }), ..amount(1.0, 60e9) };
    let half = words::budget(&half).unwrap();
    let told = ["How much: 75 GB written at once, at 35 MB/s", "then 3.5 MB/s for", "These 30 GB written are 40 %"];
    assert!(told.iter().all(|told| half.contains(told)), "{half}");
    let never =
        Budget { at_once_bytes: None, after_bytes_per_s: None, rest_s: None, for_ever_bytes_per_s: None, ..budget };
    assert_eq!(
        words::budget(&Advice { budget: Some(never), ..amount(1.0, 60e9) }).unwrap(),
        "How much: it takes requests of 1.05 MB at 70 MB/s, and did not fall behind within what was simulated."
    );
    let mut log = Advice { budget: Some(Budget { rest_s: None, ..budget }), ..amount(1.0, 60e9) };
    log.system.is_dynamic = true;
    assert!(words::budget(&log).unwrap().contains("Rest does not bring that back, but a trim of free room does."));
    let unknown = Budget { at_once_bytes_per_s: 0.0, ..never };
    assert_eq!(words::budget(&Advice { budget: Some(unknown), ..amount(1.0, 60e9) }), None);
}

/// A load at its own times, 1 MB/s, on a drive whose 99th percentile is this many times the conventional one's.
fn open(p99: f64) -> Advice {
    let mut one = advice(1.0, 1);
    (one.is_endless, one.whole_bytes, one.engine.arrival) = (true, None, Arrival::Trace);
    one.present[0].own.arrivals_ns = 100 * S;
    one.present[0].against.whole = Multiples { elapsed: None, mean: 1.0, p99, longest: p99 };
    one.problems = Judged::new(&one.present[0].own, &one.present[0].against).problems;
    one
}

#[test]
fn a_budget_does_not_contradict_the_answer() {
    let told = |p99: f64, lasting: f64| {
        let budget = Budget { for_ever_bytes_per_s: Some(lasting), ..Budget::default() };
        let one = answered(Advice { budget: Some(budget), ..open(p99) });
        (one.text.lines().next().unwrap().to_string(), words::budget(&one).unwrap())
    };
    let (headline, budget) = told(2.4, 3e6);
    assert_eq!(headline, "No: tiny keeps up, but one request in a hundred takes 2.4 times as long as on a CMR disk.");
    assert_eq!(
        budget,
        "How much: in the long run it does 3 MB/s of this load, but requests wait while it cleans; the load asks for 1 MB/s."
    );
    let (headline, budget) = told(1.0, 3e6);
    assert_eq!(headline, "Yes: tiny does as well as a CMR disk for this load.");
    assert_eq!(
        budget,
        "How much: it keeps up with 3 MB/s of this load for as long as you like; the load asks for 1 MB/s."
    );
    // It keeps up with 1 MB/s, and a run that says otherwise is no ground for a figure.
    let less = Budget { for_ever_bytes_per_s: Some(5e5), ..Budget::default() };
    let less = answered(Advice { budget: Some(less), ..open(1.0) });
    assert!(words::budget(&less).is_none() && less.actions.is_empty(), "{}", less.text);
}

#[test]
fn a_recording_that_comes_again_is_judged_no_milder() {
    let after = Recovery::After(18_000.0);
    let asked = |p99: f64, every_h: Option<u64>, recovery| {
        let mut one = Advice { recovery, ..open(p99) };
        one.need.every = every_h.map(|hours| Nanos(hours * 3600 * S));
        said(one, "")
    };
    let slow = "No: tiny keeps up, but one request in a hundred takes 2.4 times as long as on a CMR disk.";
    assert_eq!(asked(2.4, None, Recovery::Unknown), (Answer::No, Verdict::Slow, slow.into()));
    let recovers = " After 5 h of rest the drive has recovered, before it comes again after 24 h.";
    assert_eq!(asked(2.4, Some(24), after), (Answer::No, Verdict::Slow, slow.to_string() + recovers));
    let still = " Nor has the drive recovered when it comes again after 4 h.";
    assert_eq!(asked(2.4, Some(4), after).2, slow.to_string() + still);
    let fine = "Yes: tiny does as well as a CMR disk for this load.";
    assert_eq!(asked(1.0, Some(24), after), (Answer::Yes, Verdict::Fine, fine.to_string() + recovers));
    let missed = "No: tiny keeps up with this load, but is still cleaning when it comes again after 4 h.";
    assert_eq!(asked(1.0, Some(4), after), (Answer::No, Verdict::Misses, missed.into()));
    assert_eq!(asked(1.0, Some(4), Recovery::NotSoon).1, Verdict::Misses);
    let unknown = asked(1.0, Some(24), Recovery::Unknown);
    assert!(unknown.1 == Verdict::Fine && unknown.2.ends_with("is not known."), "{}", unknown.2);
}

#[test]
fn an_amount_beside_a_load_is_said_to_be_done_in_time_or_not() {
    let asked = |falls_behind: bool| {
        let mut one = open(1.0);
        one.asked_use = AskedUse::together(&["plex", "restic"].map(use_named), Some(Nanos(8 * 3600 * S))).unwrap();
        (one.present[0].own.falls_behind, one.present[0].own.elapsed_ns) = (falls_behind, 150 * S);
        said(one, "").2
    };
    assert!(asked(false).ends_with(" A backup by restic is done in the 8 h that you have."), "{}", asked(false));
    let late = " A backup by restic is not done in the 8 h that you have: it takes about 12 h.";
    assert!(asked(true).ends_with(late), "{}", asked(true));
}

#[test]
fn a_disk_that_is_hardly_busy_is_not_called_full() {
    let told = |mean_ms: u64, busy: f64| {
        let mut one = open(9.0);
        one.present[0].own.falls_behind = true;
        one.reported = Some(ReportedWaits { tool: "iostat", mean_ns: mean_ms * 1_000_000, busy });
        answered(one).text.contains("as on a drive whose cache is full")
    };
    assert_eq!(
        [told(6, 0.06), told(6, 0.9), told(300, 0.06), told(300, 0.99), told(300, 0.0)],
        [false, false, false, true, true]
    );
}

#[test]
fn a_disk_that_has_failed_has_commands_of_its_own() {
    let told = |name: &str, disks: u64| {
        let mut one = advice(1.0, 1);
        let word = if name.starts_with("raidz") { "resilver" } else { "rebuild" };
        one.rebuild = Some(RebuildSpec::parse(word).unwrap());
        one.array = Some(ArrayFacts::new(name, Level::named(name).unwrap(), one.rebuild));
        one.present[0].own.disks = disks;
        let (when, commands) = words::replaces(&one).pop().unwrap();
        (when, commands.join("; "))
    };
    let (zfs, command) = told("raidz1", 4);
    assert!(zfs.contains("has failed") && zfs.contains("there is no redundancy until the resilver is done"), "{zfs}");
    assert_eq!(command, "zpool replace POOL OLD-DISK NEW-DISK");
    assert_eq!(told("raid5", 4).1, "mdadm --manage /dev/mdX --add /dev/NEW-DISK");
    for (name, disks, more) in [("raidz2", 6, "1 disk more"), ("raid6", 6, "1 disk more"), ("raid1", 4, "2 disks more")]
    {
        assert!(told(name, disks).0.contains(more), "{}", told(name, disks).0);
    }
    assert!(told("raid1", 2).0.contains("no redundancy"));
}

#[test]
fn a_range_and_its_figure_have_one_unit() {
    let mut one = amount(1.0, 178e6);
    one.ends = vec![end(true, run(178e6 / 612.0, 1)), end(false, run(1.01e6, 1))];
    let line = said(one, "How long").2;
    assert!(line.starts_with("How long: 178 s (176 to 612 s) for 178 MB"), "{line}");
}

#[test]
fn a_backlog_that_may_grow_is_no_end_of_a_range() {
    let latency = |mean_ms: u64| Trajectory { mean_ns: mean_ms * 1_000_000, ..run(1e6, 1) };
    let mut one = open(1.0);
    one.present[0].own = Trajectory { arrivals_ns: 100 * S, ..latency(5) };
    let behind = Trajectory { falls_behind: true, arrivals_ns: 100 * S, ..latency(5280) };
    one.ends = vec![end(true, behind), end(false, latency(4))];
    let one = answered(one);
    let lines: Vec<&str> = one.text.lines().collect();
    assert_eq!(lines[0], "Perhaps: some figures of tiny are estimates, and at the worst of them it can't keep up.");
    let range = "(4 to 5 ms, and at the drive's worst the backlog grows)";
    assert!(lines[1].contains(range), "{}", one.text);
}

#[test]
fn what_makes_an_end_slow_is_told_by_the_requests_that_are() {
    let latency = |mean_ms: u64, p99_ms: u64| Trajectory {
        mean_ns: mean_ms * 1_000_000,
        p99_ns: p99_ms * 1_000_000,
        ..run(1e6, 1)
    };
    let headline = |mean_ms: u64, p99_ms: u64| {
        let mut one = open(1.0);
        one.present[0].conventional = latency(20, 100);
        one.present[0].own = Trajectory { arrivals_ns: 100 * S, ..latency(20, 100) };
        one.ends = vec![end(true, latency(mean_ms, p99_ms))];
        answered(one).text.lines().next().unwrap().to_string()
    };
    let told = |what: &str| format!("Perhaps: some figures of tiny are estimates, and at the worst of them {what}.");
    // The mean is 1.5 times as long, and nobody would understand what is more than twice as slow.
    assert_eq!(headline(30, 400), told("one request in a hundred takes at least 400 ms, on a CMR disk 100 ms"));
    assert_eq!(headline(90, 120), told("a request takes on average 90 ms, on a CMR disk 20 ms"));
}

#[test]
fn no_timeout_is_told_where_ever_more_requests_wait() {
    let timeouts = |falls_behind: bool| {
        let mut one = advice(9.0, 40);
        one.present[0].own.falls_behind = falls_behind;
        one.need.keep = Some(Nanos(S));
        one.present[0].own.p99_ns = 155 * S;
        let one = answered(one);
        one.actions.iter().filter(|action| action.what.contains("kernel wait")).count()
    };
    assert_eq!((timeouts(true), timeouts(false)), (0, 1));
}

#[test]
fn the_best_row_is_the_fastest_of_those_that_leave_the_fewest_problems() {
    let mut all = advice(4.0, 1);
    for (kind, effect, multiple) in [
        (ChangeKind::Conventional, Effect::Fixes, 1.0),
        (ChangeKind::WriteSize, Effect::Fixes, 0.7),
        (ChangeKind::RebuildPieces, Effect::Helps, 0.1),
    ] {
        all.remedies.push(remedy(kind, "any", effect, run(1e6 / multiple, 1), times(multiple)));
    }
    assert_eq!(all.best(), Some(1));
    // A cure that is slower than what there is, as for long waits among fast requests, is none to be marked.
    all.present[0].against = times(0.6);
    assert_eq!(all.best(), Some(2));
    all.present[0].against = times(0.05);
    assert_eq!(all.best(), None);
}

/// One of `all`.
fn pick<T: Clone>(random: &mut u64, all: &[T]) -> T {
    // Knuth's generator of 64 bits, whose upper half is random enough.
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    all[(*random >> 33) as usize % all.len()].clone()
}

const ARRAYS: [&str; 12] =
    ["", "span", "raid0", "raid1", "raid10", "raid5", "raid6", "mirror", "raidz1", "raidz2", "raidz3", "raidz"];

/// What was asked for, in words.
struct Asked {
    array: &'static str,
    rebuild: Option<&'static str>,
    use_name: Option<&'static str>,
    load: LoadKind,
    write_bytes: f64,
    sequential: f64,
    disk_bytes: u64,
}

/// An answer on made-up runs: whatever its software lets change is tried, with any effect.
fn made_up(random: &mut u64) -> (Asked, Advice) {
    let array = pick(random, &ARRAYS);
    let level = if array.is_empty() { Level::Span } else { Level::named(array).unwrap() };
    let redundant = !matches!(level, Level::Span | Level::Raid0);
    let rebuild =
        if redundant { pick(random, &[None, Some("rebuild"), Some("resilver"), Some("scrub")]) } else { None };
    let load = match rebuild {
        Some(_) => pick(random, &[LoadKind::Light, LoadKind::Asked]),
        None => LoadKind::Asked,
    };
    let asked = Asked {
        array,
        rebuild,
        load,
        use_name: match (rebuild, array) {
            (Some(_), _) => None,
            // Only md reshapes an array.
            (None, "raid5" | "raid6") => pick(random, &[None, Some("format"), Some("reshape"), Some("restic")]),
            (None, "") => pick(random, &[None, None, Some("restic"), Some("copy"), Some("format")]),
            (None, "mirror" | "raidz" | "raidz1" | "raidz2" | "raidz3") => {
                pick(random, &[None, Some("restic"), Some("zfs-pool"), Some("zfs-receive"), Some("format")])
            }
            (None, _) => pick(random, &[None, Some("restic"), Some("format")]),
        },
        write_bytes: if load == LoadKind::Light { 4096.0 } else { pick(random, &[4096.0, 8192.0, 65536.0, 1e6]) },
        sequential: if load == LoadKind::Light { 0.0 } else { pick(random, &[0.0, 0.3, 0.9, 1.0]) },
        disk_bytes: pick(random, &[1_000_000_000_000, 4_000_000_000_000, 20_000_000_000_000]),
    };
    let mut advice = advice(pick(random, &[0.8, 1.4, 2.5, 40.0, 1e6]), pick(random, &[0, 5, 8, 25, 44, 140, 3000]));
    let spec = asked.rebuild.map(|text| RebuildSpec::parse(text).unwrap());
    (advice.rebuild, advice.whole_disk_bytes) = (spec, spec.map(|_| asked.disk_bytes));
    advice.array = (!array.is_empty()).then(|| ArrayFacts::new(array, level, spec));
    advice.demand.mean_write_bytes = Some(asked.write_bytes);
    advice.demand.sequential_share = Some(asked.sequential);
    advice.engine.arrival = pick(random, &[Arrival::FlatOut, Arrival::Trace]);
    // From a rebuild that crawls at 3 kB/s to one as fast as the disk.
    let bytes_per_s = pick(random, &[3e3, 3e5, 5.8e6, 4e7, 1.8e8]);
    let rebuilt = |bytes_per_s: f64| {
        let bytes = 20_000_000_000;
        let elapsed_ns = (bytes as f64 / bytes_per_s * 1e9) as u64;
        spec.map(|_| RebuildFigures { elapsed_ns, bytes, disk_bytes: bytes })
    };
    advice.present[0].load = load;
    advice.present[0].own.rebuild = rebuilt(bytes_per_s);
    advice.present[0].conventional.rebuild = rebuilt(1.8e8);
    advice.problems = Judged::new(&advice.present[0].own, &advice.present[0].against).problems;
    // Conventional, of Seagate's kind, of Western Digital's, host-managed.
    let sold = pick(random, &["cmr", "static", "static", "dynamic", "dynamic", "zoned"]);
    (advice.system.is_conventional, advice.system.is_dynamic) = (sold == "cmr", sold == "dynamic");
    advice.present[0].own.cleans = sold != "cmr";
    if sold == "cmr" {
        // It is its own twin.
        let own = &mut advice.present[0];
        (own.conventional, own.against) = (own.own.clone(), times(1.0));
    }
    if sold == "zoned" {
        advice.present[0].own.refused = 9;
        advice.present[0].own.refused_by_full_zones = pick(random, &[0, 9]);
    }
    advice.asked_use = asked.use_name.map(use_named);
    let mut kinds = Vec::new();
    if sold == "zoned" {
        kinds.push((ChangeKind::HostLayer, "dm-zoned".into()));
    }
    if !["cmr", "zoned"].contains(&sold) {
        kinds.push((ChangeKind::Conventional, "CMR disks".to_string()));
    }
    if sold == "dynamic" && rebuild != Some("scrub") {
        kinds.push((ChangeKind::Trim, "trimmed".into()));
    }
    if load == LoadKind::Asked && rebuild.is_none() && sold != "zoned" {
        kinds.extend(
            match asked.use_name {
                None => vec![(ChangeKind::WriteSize, "writes of 64 KiB"), (ChangeKind::WriteSize, "writes of 4 MiB")],
                Some("restic") => vec![(ChangeKind::Program, "packs of 128 MiB")],
                Some("zfs-pool") => vec![(ChangeKind::Program, "writes every 300 s")],
                Some(_) => Vec::new(),
            }
            .into_iter()
            .map(|(kind, name)| (kind, name.to_string())),
        );
    }
    if sold != "zoned" {
        let others = advice.array.map(|array| array.rebuilds()).unwrap_or_default();
        kinds.extend(others.into_iter().map(|(_, kind, name)| (kind, name)));
    }
    // A budget is worked out after the first answer.
    if rebuild.is_none() && pick(random, &[true, false]) {
        advice.budget = Some(Budget {
            at_once_bytes: pick(random, &[None, Some(1_000_000), Some(1_000_000_000_000)]),
            at_once_bytes_per_s: 1e6,
            after_bytes_per_s: Some(1e3),
            rest_s: pick(random, &[None, Some(1e4)]),
            for_ever_bytes_per_s: pick(random, &[None, Some(1e3)]),
            ..Budget::default()
        });
    }
    advice.need.within = pick(random, &[None, None, Some(Nanos(3_600 * S))]);
    if pick(random, &[true, false, false]) {
        advice.ends = vec![end(true, run(1e3, pick(random, &[1, 9, 60]))), end(false, run(1e8, 1))];
        advice.ends.iter_mut().for_each(|end| end.trajectory.rebuild = rebuilt(bytes_per_s));
    }
    let effects = [Effect::Fixes, Effect::FixesSoFar, Effect::Helps, Effect::Mixed, Effect::None, Effect::Worsens];
    for (kind, name) in kinds {
        let mut run = run(pick(random, &[1e4, 1e6, 1e8]), pick(random, &[1, 9, 60]));
        run.rebuild = rebuilt(bytes_per_s * pick(random, &[0.01, 0.5, 1.0, 10.0]));
        advice.remedies.push(remedy(kind, &name, pick(random, &effects), run, times(1.5)));
    }
    (asked, answered(advice))
}

/// The rules of md, ZFS and the kernel for each command that may be printed, from their manual pages; an unknown command breaks them.
fn broken_rule(asked: &Asked, advice: &Advice, command: &str) -> Option<&'static str> {
    let number = || command.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let is_zfs =
        ["mirror", "raidz", "raidz1", "raidz2", "raidz3"].contains(&asked.array) || asked.rebuild == Some("resilver");
    let of = |is_kept: bool, rule| if is_kept { None } else { Some(rule) };
    if command.starts_with("zpool replace -s ") {
        let is_mirror = ["mirror", "raid1", "raid10"].contains(&asked.array);
        return of(is_zfs && is_mirror, "sequential reconstruction is for mirrors and dRAID")
            .or(of(asked.rebuild.is_some_and(|task| task != "scrub"), "nothing is resilvered"));
    }
    if let Some(size) = command.strip_prefix("zfs set recordsize=") {
        let is_large = command.contains("LARGE-FILES");
        return of(is_zfs, "not ZFS").or(of(size.starts_with("1M "), "at most 1M by default")).or(of(
            is_large && asked.load == LoadKind::Light || asked.write_bytes >= 131_072.0 || asked.sequential >= 0.5,
            "each small random write rewrites a record",
        ));
    }
    if let Some(name) = command.strip_prefix("echo 1 > /sys/module/zfs/parameters/zfs_vdev_") {
        let queue = if asked.rebuild == Some("rebuild") { "rebuild_max_active" } else { "scrub_max_active" };
        return of(is_zfs && asked.rebuild.is_some(), "ZFS does nothing of its own")
            .or(of(name == queue, "another queue's commands"));
    }
    if command.ends_with("/sys/block/sdX/device/timeout") {
        let (seconds, longest_ns) = (number()?, advice.present[0].own.longest_command_ns);
        return of(seconds * S >= longest_ns, "shorter than the wait that drops the disk")
            .or(of((30..=300).contains(&seconds), "a dead disk would hang the host for minutes"));
    }
    if command.starts_with("blkdiscard ") {
        let is_meant = match asked.rebuild {
            Some("rebuild" | "resilver") => command == "blkdiscard /dev/NEW-DISK",
            _ => command == "blkdiscard /dev/DISK-TO-ERASE" && asked.use_name == Some("format"),
        };
        return of(is_meant, "data is erased").or(of(advice.system.is_dynamic, "the disk does not care"));
    }
    let is_replaced = matches!(asked.rebuild, Some("rebuild" | "resilver"));
    if command.starts_with("zpool replace POOL ") {
        return of(is_zfs && is_replaced, "ZFS replaces no disk")
            .or(of(command.ends_with(" OLD-DISK NEW-DISK"), "the good disk is erased"));
    }
    if let Some(verb) = command.strip_prefix("mdadm --manage /dev/mdX --") {
        return of(!is_zfs && is_replaced, "md replaces no disk")
            .or(of(["raid1", "raid10", "raid5", "raid6"].contains(&asked.array), "there is nothing to rebuild it from"))
            .or(of(
                ["add /dev/NEW-DISK", "replace /dev/OLD-DISK --with /dev/NEW-DISK"].contains(&verb),
                "a disk is taken out before there is another, or the wrong one",
            ));
    }
    match command {
        "fstrim -v /MOUNT-POINT" => of(
            !is_zfs && asked.rebuild.is_none() && !["raid5", "raid6"].contains(&asked.array),
            "md does not pass it on, or ZFS has a command of its own",
        )
        .or(of(advice.system.is_dynamic, "the disk does not care")),
        "restic backup --pack-size 128 FOLDER" => of(asked.use_name == Some("restic"), "nobody runs restic"),
        "echo 300 > /sys/module/zfs/parameters/zfs_txg_timeout" => {
            of(asked.use_name == Some("zfs-pool"), "nobody runs ZFS")
        }
        // Prints a job for fio, and runs nothing.
        "smrkit drives measure /dev/sdX" => of(advice.verdict == Verdict::Depends, "nothing is doubted"),
        _ => Some("no known command"),
    }
}

#[test]
fn no_advice_harms() {
    let (mut random, mut commands) = (47, BTreeMap::<String, u32>::new());
    for case in 0..500 {
        let (asked, advice) = made_up(&mut random);
        let what = format!("case {case}, {} {:?} {:?}: {:#?}", asked.array, asked.rebuild, asked.load, advice.actions);
        let is_open = advice.problems.any() || advice.verdict == Verdict::Depends;
        assert!(is_open || advice.actions.is_empty(), "a cure for nothing: {what}");
        for action in &advice.actions {
            assert!(!action.cost.is_empty(), "at no price: {what}");
            assert!(!action.what.contains("Buy the drive"), "{what}");
            assert!(asked.array.is_empty() || !action.what.contains("blkzone"), "a member's zones are erased: {what}");
            // What the owner has already is no cure.
            assert!(!advice.system.is_conventional || !action.what.contains("CMR"), "{what}");
            let is_replaced = matches!(asked.rebuild, Some("rebuild" | "resilver"));
            assert!(is_replaced || !action.what.contains("new disk") && !action.what.contains("new one"), "{what}");
            if let Some(command) = &action.command {
                assert!(!advice.problems.refused, "tuning for what is refused: {what}");
                assert_eq!(broken_rule(&asked, &advice, command), None, "{command}: {what}");
                let kind: String = command.chars().filter(|c| !c.is_ascii_digit()).collect();
                *commands.entry(kind).or_default() += 1;
            }
        }
        let tells_how = advice
            .actions
            .iter()
            .filter_map(|action| action.command.as_ref())
            .any(|one| one.starts_with("zpool replace"));
        assert!(!tells_how || words::replaces(&advice).is_empty(), "two commands that replace: {what}");
        for command in words::replaces(&advice).into_iter().flat_map(|(_, commands)| commands) {
            assert_eq!(broken_rule(&asked, &advice, command), None, "{command}: {what}");
            commands.insert((*command).into(), 1);
        }
        let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
        let said = advice.text.clone() + &advice.actions.iter().map(|action| action.what.clone()).collect::<String>();
        assert!(advice.array.is_none() || is_zfs || !said.contains("ZFS"), "{what}");
        // Nothing is called good that drops a disk, or is slower than what is needed.
        let Problems { refused, dropped_30s, slow, .. } = advice.problems;
        let is_bad = refused || dropped_30s || slow;
        assert!(advice.answer != Answer::Yes || !is_bad, "{}", advice.text);
    }
    // The rules are worth something only if each kind of command was met.
    assert_eq!(commands.len(), 15, "{commands:#?}");
}

#[test]
fn the_checker_knows_advice_that_harms() {
    let asked = |array, rebuild| Asked {
        array,
        rebuild: Some(rebuild),
        use_name: None,
        load: LoadKind::Asked,
        write_bytes: 8192.0,
        sequential: 0.0,
        disk_bytes: 4_000_000_000_000,
    };
    let advice = advice(3.0, 44);
    for (array, rebuild, command) in [
        ("raidz1", "resilver", "echo 2903 > /sys/block/mdX/md/sync_speed_max"),
        ("raid5", "rebuild", "echo 2903 > /sys/block/mdX/md/sync_speed_max"),
        ("raidz1", "resilver", "zpool replace -s POOL sdX sdY"),
        ("mirror", "resilver", "zfs set recordsize=1M POOL/DATASET"),
        ("raid5", "rebuild", "zfs set recordsize=1M POOL/DATASET-OF-LARGE-FILES"),
        ("raid5", "rebuild", "echo 1 > /sys/module/zfs/parameters/zfs_vdev_scrub_max_active"),
        ("raid5", "rebuild", "echo 30 > /sys/block/sdX/device/timeout"),
        // With a copy missing already, a sector that the disk gives up early is lost.
        ("raid5", "rebuild", "smartctl -l scterc,70,70 /dev/sdX"),
        ("raid5", "rebuild", "mdadm --zero-superblock /dev/sdX"),
        ("raidz1", "resilver", "mdadm --manage /dev/mdX --add /dev/NEW-DISK"),
        ("raid5", "rebuild", "mdadm --manage /dev/mdX --fail /dev/OLD-DISK"),
        ("raid5", "rebuild", "mdadm --manage /dev/mdX --replace /dev/NEW-DISK --with /dev/OLD-DISK"),
        ("raid5", "rebuild", "zpool replace POOL OLD-DISK NEW-DISK"),
        ("raidz1", "scrub", "zpool replace POOL OLD-DISK NEW-DISK"),
        ("raidz1", "resilver", "zpool replace POOL NEW-DISK OLD-DISK"),
        ("raid5", "scrub", "blkdiscard /dev/NEW-DISK"),
        ("raid5", "rebuild", "blkdiscard /dev/sdX"),
        ("mirror", "resilver", "fstrim -v /MOUNT-POINT"),
    ] {
        assert!(broken_rule(&asked(array, rebuild), &advice, command).is_some(), "{array}: {command}");
    }
}

#[test]
fn disks_of_several_kinds_are_named_by_kind() {
    let mut one = advice(1.0, 1);
    one.system.drive = "wd40efax and 3 × wd40efrx".into();
    for array in [
        "raidz1:disks=4",
        "raidz1:disks=4,chunk=64Ki,member=(drive=a)",
        "raidz1:disks=4,member=(drive=a),member=(drive=b)",
    ] {
        one.system.array = Some(array.into());
        assert_eq!(words::system(&one), "raidz1:disks=4 of wd40efax and 3 × wd40efrx");
    }
    let mut slow = advice(5.0, 1);
    slow.system.slowest = Some("wd40efax".into());
    assert!(said(slow, "Why").2.ends_with(" The disk that keeps the others waiting is wd40efax."));
}

#[test]
fn a_rebuild_is_told_unused_and_used() {
    let mut one = advice(3.0, 4);
    let rebuilt = |days: f64| {
        Some(RebuildFigures {
            elapsed_ns: (days * 86_400.0 * 1e9 / 200.0) as u64,
            bytes: 20_000_000_000,
            disk_bytes: 20_000_000_000,
        })
    };
    (one.rebuild, one.whole_disk_bytes) = (Some(RebuildSpec::parse("resilver").unwrap()), Some(4_000_000_000_000));
    one.array = Some(ArrayFacts::new("raidz1", Level::Raid5, one.rebuild));
    one.present[0].load = LoadKind::Unused;
    (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (rebuilt(7.8), rebuilt(0.6));
    let mut used = Present { load: LoadKind::Light, own: run(1.0, 44), ..advice(3.0, 44).present.remove(0) };
    (used.own.rebuild, used.conventional.rebuild) = (rebuilt(10.3), rebuilt(0.7));
    one.problems = Judged::new(&used.own, &used.against).problems;
    one.present.push(used);
    one.hardest = 1;
    one.ends = vec![
        end(true, Trajectory { rebuild: rebuilt(8.3), ..run(1.0, 4) }),
        end(false, Trajectory { rebuild: rebuilt(6.6), ..run(1.0, 4) }),
    ];
    (one.system.drive, one.system.array) = ("wd".into(), Some("raidz1:disks=4".into()));
    one.present.iter_mut().for_each(|present| present.against.rebuild = Some(13.0));
    one.system.known = KnownFigures { assumed: 16, ranged: 3, all: 20 };
    one.remedies.push(cmr(Effect::Fixes, one.present[0].conventional.clone()));
    let one = answered(one);
    let lines: Vec<&str> = one.text.lines().collect();
    assert_eq!(
        lines,
        [
            "No: the system would drop a disk, which does not answer for 44 s, and kernels wait 30 s.",
            "How long: 7.8 days (6.6 to 8.3 days) while nobody uses it, 10.3 days in light use (20 small requests a second); CMR disks \
             14.4 h and 16.8 h. The longest command of a disk takes 44 s, in light use; kernels wait 30 s, hardware RAID controllers 7 s.",
            "Why: a resilver writes records here and there, and the drive has to rewrite whole bands for them.",
            "What to do: take a CMR disk as the new one: 14.4 h. One is enough, because only the new disk is written to.",
            "How sure: 16 of the drive's 20 figures are assumed, and the range covers the 3 least sure of them; simulated on 20 GB of each disk, and \
             extrapolated to all of it; all of the disk had \
             been written before; errors of firmware are not modelled.",
        ]
    );
    let card = "Yes: the longest command takes 44 s, and kernels wait 30 s, hardware RAID controllers 7 s.";
    assert_eq!(words::dropped(&one), card);
    assert!(one.asked_work().known().is_none());
    let known = Advice { system: AdvisedSystem { drive: "wd40efax".into(), ..one.system.clone() }, ..advice(1.0, 1) };
    let mut known = Advice { rebuild: Some(resilver(true)), array: one.array, ..known };
    known.present[0].own.disks = 4;
    assert!(words::certainty(&known).contains("229 h for 4 TB was measured by others (ServeTheHome"));
    assert!(
        one.actions.iter().any(|action| action.command.as_deref() == Some("echo 90 > /sys/block/sdX/device/timeout"))
    );
}

#[test]
fn a_timeout_that_linux_has_anyway_is_not_set() {
    for (longest_s, set) in [(29, None), (31, Some("echo 90 > /sys/block/sdX/device/timeout"))] {
        let mut one = advice(1.0, longest_s);
        one.array = Some(ArrayFacts::new("raid5:disks=4", Level::Raid5, None));
        let one = answered(one);
        let mut commands = one.actions.iter().filter_map(|action| action.command.as_deref());
        assert_eq!(commands.find(|command| command.contains("timeout")), set);
    }
}

#[test]
fn what_depends_on_a_trim_is_told_for_both() {
    let load = |multiple: f64, trimmed: f64| {
        let mut one = advice(multiple, 1);
        let own = run(1e6 * multiple / trimmed, 1);
        one.trimmed =
            vec![Present { own: own.clone(), against: times(trimmed), ..advice(multiple, 1).present.remove(0) }];
        one.remedies.push(remedy(ChangeKind::Trim, "trimmed", Effect::Fixes, own, times(trimmed)));
        one
    };
    let one = answered(load(9.0, 1.0));
    let lines: Vec<&str> = one.text.lines().collect();
    assert_eq!((one.answer, one.verdict), (Answer::Perhaps, Verdict::Depends));
    assert_eq!(
        lines,
        [
            "Perhaps: it does 9 MB/s while tiny is new or trimmed, but it does 1 MB/s once it was filled and not trimmed.",
            "How fast: 1 MB/s; trimmed 9 MB/s; a CMR disk 9 MB/s.",
            "Why: once it was written full, such a drive has next to no free room, and moves old data to make some for each write.",
            "What to do: trim the file system, and again every week (in Windows: Optimize-Volume -ReTrim): 9 MB/s.",
            "How sure: the drive's figures are published or measured; all of the disk had been written before."
        ]
    );
    assert_eq!(one.range.map(|range| (range.low, range.high)), Some((1e6, 9e6)));
    let still_slow = answered(load(9.0, 3.0));
    assert_eq!(still_slow.verdict, Verdict::Slow, "{}", still_slow.text);
    assert!(still_slow.text.contains("; trimmed 3 MB/s;"), "{}", still_slow.text);
    let said = answered(Advice { assumes_written: false, ..load(9.0, 1.0) });
    assert_eq!((said.answer, said.verdict), (Answer::No, Verdict::Slow));
    assert!(said.text.contains("What to do: trim the file system"), "{}", said.text);
    let mut new = load(9.0, 1.0);
    let rebuilt = |hours: u64| Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
    new.rebuild = Some(RebuildSpec::parse("resilver").unwrap());
    (new.present[0].own.rebuild, new.present[0].conventional.rebuild) = (rebuilt(180), rebuilt(14));
    (new.trimmed[0].own.rebuild, new.present[0].load) = (rebuilt(15), LoadKind::Unused);
    let headline = "Perhaps: the resilver takes 15 h if the new disk was never written or is trimmed first, and 7.5 days if all of it \
                    was written before (used, or tested).";
    new.array = Some(ArrayFacts::new("raidz1", Level::Raid5, new.rebuild));
    let new = answered(new);
    assert_eq!(new.text.lines().next().unwrap(), headline);
    assert!(new.text.contains("; new disk trimmed 15 h; CMR disks 14 h."), "{}", new.text);
    assert_eq!(new.actions[0].command.as_deref(), Some("blkdiscard /dev/NEW-DISK"));
}

/// A resilver onto a disk that was written before, or was not.
fn resilver(used: bool) -> RebuildSpec {
    RebuildSpec { task: Task::Rebuild { disk: 0, before: true, used }, ..RebuildSpec::parse("resilver").unwrap() }
}

/// A disk of this model is replaced in this array in so many hours, as fast as a conventional one.
fn replaced(drive: &str, array: &str, disks: u64, spec: RebuildSpec, hours: u64) -> Advice {
    let mut one = advice(1.0, 1);
    let level = Level::named(array).unwrap();
    (one.rebuild, one.array) = (Some(spec), Some(ArrayFacts::new(array, level, Some(spec))));
    (one.system.drive, one.present[0].own.disks) = (drive.into(), disks);
    let disk_bytes = if drive.starts_with("st8") { 8_000_000_000_000 } else { 4_000_000_000_000 };
    let rebuilt = RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: disk_bytes, disk_bytes };
    (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (Some(rebuilt), Some(rebuilt));
    one
}

#[test]
fn what_was_measured_is_not_contradicted() {
    let said = |hours: u64, within_days: Option<u64>| {
        let mut one = replaced("st8000as0002", "raid1", 2, RebuildSpec::parse("rebuild").unwrap(), hours);
        one.need.within = within_days.map(|days| Nanos(days * 24 * 3600 * S));
        answered(one)
    };
    let far = said(15, None);
    assert_eq!((far.answer, far.verdict), (Answer::Perhaps, Verdict::Depends));
    let headline = "Perhaps: simulated st8000as0002 does as well as CMR disks, but 57 h for 8 TB was measured by others (StorageReview, 2015, by a \
                    NAS in use).";
    assert_eq!(far.text.lines().next().unwrap(), headline);
    assert!(!far.text.contains("; 57 h for 8 TB was measured"), "{}", far.text);
    let near = said(40, None);
    assert!(near.answer == Answer::Yes && near.text.contains("; 57 h for 8 TB was measured"), "{}", near.text);
    // A need that the simulated time meets, and the measured one does not.
    let in_time = " As simulated, the rebuild takes 15 h of the 2 days that you have.";
    assert_eq!(said(15, Some(2)).text.lines().next().unwrap(), headline.to_string() + in_time);
    let enough = said(15, Some(3));
    assert!(enough.answer == Answer::Yes && enough.text.contains("; 57 h for 8 TB was measured"), "{}", enough.text);
    // Use makes it slow, and even without use it was measured to be slower.
    let mut used = replaced("st8000as0002", "raid1", 2, RebuildSpec::parse("rebuild").unwrap(), 15);
    let mut light = replaced("st8000as0002", "raid1", 2, used.rebuild.unwrap(), 90).present.remove(0);
    (used.present[0].load, light.load, light.against.rebuild) = (LoadKind::Unused, LoadKind::Light, Some(6.0));
    light.conventional.rebuild = used.present[0].conventional.rebuild;
    used.present.push(light);
    let used = answered(Advice { hardest: 1, ..used });
    let headline = "No: in light use the rebuild takes 6 times as long as on CMR disks. While nobody uses st8000as0002, it takes 15 h \
                    (but 57 h for 8 TB was measured by others).";
    assert!(used.text.lines().next().unwrap().contains(headline), "{}", used.text);
    // The disk that was measured had been used.
    let measured = |used| replaced("wd40efax", "raidz1", 4, resilver(used), 15).asked_work().known().is_some();
    assert!(measured(true) && !measured(false));
}

#[test]
fn a_drive_that_is_known_to_fail_is_not_advised_however_fast_it_is() {
    let mut one = replaced("wd40efax", "raidz1", 4, resilver(false), 15);
    one.need.within = Some(Nanos(10 * 3600 * S));
    one.ends = vec![end(false, one.present[0].own.clone())];
    let one = answered(one);
    assert_eq!((one.answer, one.verdict), (Answer::No, Verdict::Fails));
    let lines: Vec<&str> = one.text.lines().collect();
    assert_eq!(
        lines[0],
        "No: owners report that WD40EFAX disks may answer writes with errors during a resilver, even new ones, so that ZFS drops them \
         (openzfs/zfs issues 10214, 12799 and 15033; iXsystems, 2020). As simulated, the resilver takes 15 h, which is longer than the \
         10 h that you have."
    );
    assert!(
        lines[2].starts_with("Why: the errors are a fault of the firmware, which is not simulated; apart from them, "),
        "{}",
        lines[2]
    );
    assert!(one.actions[0].what.starts_with("Take a CMR disk as the new one: 15 h."), "{:?}", one.actions);
    let mut slow = replaced("wd40efax", "raidz1", 4, resilver(true), 15);
    (slow.problems.slow, slow.problems.dropped_7s) = (true, true);
    assert_eq!(answered(slow).actions.len(), 1, "nothing else cures it");
    // No other work, and no other drive, has been seen to fail so.
    let md = replaced("wd40efax", "raid5", 4, RebuildSpec::parse("rebuild").unwrap(), 15);
    for other in [md, replaced("st8000dm004", "raidz1", 4, resilver(false), 15)] {
        assert_eq!(answered(other).verdict, Verdict::Fine);
    }
}

#[test]
fn all_of_a_load_and_what_comes_after_the_first_wait_have_a_multiple_each() {
    let headline = |whole: f64, later: f64| {
        let mut one = advice(whole, 1);
        one.present[0].own.cache_full_at_s = Some(60.0);
        one.present[0].against.from_first_wait = times(later).whole.into();
        said(one, "")
    };
    let both =
        "No: this load takes 3 times as long on tiny as on a CMR disk, and 12 times as long once it has to clean.";
    assert_eq!(headline(3.0, 12.0), (Answer::No, Verdict::Slow, both.into()));
    let later = "No: once it has to clean, after 60 s, this load takes 12 times as long on tiny as on a CMR disk.";
    assert_eq!(headline(1.2, 12.0), (Answer::No, Verdict::Slow, later.into()));
    assert_eq!(headline(3.0, 3.5).2, "No: this load takes 3 times as long on tiny as on a CMR disk.");
}

#[test]
fn a_first_look_says_until_when_it_holds() {
    let mut one = Advice { is_preview: true, is_endless: true, whole_bytes: None, ..advice(1.0, 1) };
    one.present[0].own.full_in_s = Some(500.0);
    (one.present[0].own.requests, one.demand.requests) = (crate::AT_FIRST_SIGHT, crate::AT_FIRST_SIGHT);
    let one = answered(one);
    assert_eq!(
        screen::preview(&one, Screen { width: 200, ..Screen::default() }),
        "At first sight, by the first 10,000 requests alone:\n\
         Until the drive's cache is full, after about 10 min of this, it does as well as a CMR disk. What comes then is simulated now.\n\
         How fast: 1 MB/s; a CMR disk 1 MB/s.\n\n"
    );
    let told = |whole_bytes: f64| {
        let mut one = Advice { is_preview: true, whole_bytes: Some(whole_bytes), ..advice(1.0, 1) };
        one.present[0].own.requests = crate::AT_FIRST_SIGHT;
        screen::preview(&answered(one), Screen::default())
    };
    assert!(told(1e9).contains("Yes so far: tiny does as well as a CMR disk for this load."), "{}", told(1e9));
    let all = told(1e8);
    assert!(all.starts_with("At first sight, by the drive's most likely figures alone:\nYes: tiny does"), "{all}");
}

#[test]
fn a_log_writes_all_of_a_disk_no_faster_than_its_tracks_allow() {
    let took_s = |is_dynamic| {
        let mut one = amount(0.5, 1e10);
        one.asked_use = Some(use_named("format"));
        one.system.is_dynamic = is_dynamic;
        one.seconds(&one.base().own).unwrap()
    };
    assert_eq!([took_s(false), took_s(true)], [1e4, 2e4], "a CMR disk takes 20,000 s");
}

#[test]
fn a_format_stands_beside_what_was_measured_of_the_drive_and_its_kind() {
    let said = |drive: &str| {
        let mut one = amount(1.0, 4e12);
        one.asked_use = Some(use_named("format"));
        (one.system.drive, one.whole_bytes) = (drive.into(), Some(1e10));
        (one.present[0].own, one.present[0].conventional) = (run(1e8, 1), run(1e8, 1));
        answered(one)
    };
    let blue = said("wd20spzx");
    assert_eq!((blue.answer, blue.verdict), (Answer::Perhaps, Verdict::Depends), "{}", blue.text);
    let red = said("wd40efax");
    assert_eq!(red.answer, Answer::Yes);
    for told in [
        "; 137 MB/s was measured by others (openzfs",
        "; of a WD20SPZX, which is of the same kind, 10 MB/s and less was measured (veracrypt",
    ] {
        assert!(red.text.contains(told), "{}", red.text);
    }
    assert!(!said("st8000dm004").text.contains("measured by others"));
}

#[test]
fn what_rests_on_an_empty_cache_or_disk_says_so_where_that_matters() {
    let full = |after: f64| {
        let budget = Budget { after_bytes_per_s: Some(after), ..Budget::default() };
        answered(Advice { budget: Some(budget), ..amount(1.0, 36e8) }).text
    };
    assert!(full(1e5).contains("begun with a full cache, all of this takes 10 h"), "{}", full(1e5));
    assert!(!full(0.9e6).contains("full cache"), "{}", full(0.9e6));
    let replaced = |text: &str, is_dynamic| {
        let mut one = advice(1.0, 1);
        one.system.is_dynamic = is_dynamic;
        one.rebuild = Some(RebuildSpec::parse(text).unwrap());
        words::certainty(&one)
    };
    assert!(replaced("resilver:new=empty", true).contains("the new disk was never written"));
    assert!(replaced("resilver:new=full", true).contains("had been written before"));
    // Where each LBA has its place it makes no difference.
    assert!(!replaced("resilver:new=empty", false).contains("never written"));
    let end = Advice { lacks_room_at_an_end: true, ..advice(1.0, 1) };
    let told = "; at one end of what is known of the drive this load has no room, so that nothing is known of it there";
    assert!(words::certainty(&end).contains(told), "{}", words::certainty(&end));
    let zones = Advice { refused_where_written: Some(0.996), ..advice(1.0, 1) };
    let told = "the disk's zones were empty: unless you reset those that were written before (blkzone reset, which erases the whole disk without -o and -c), it refuses 100 %";
    assert!(words::certainty(&zones).contains(told), "{}", words::certainty(&zones));
}

#[test]
fn of_several_drives_it_is_told_which_to_take() {
    let choice = |answers: &[Answer]| {
        let named = |(nth, answer): (usize, &Answer)| {
            let mut one = Advice { answer: *answer, ..advice(1.0, 1) };
            one.system.drive = ["one", "two", "three"][nth].into();
            one
        };
        words::choice(&answers.iter().enumerate().map(named).collect::<Vec<_>>()).unwrap_or_default()
    };
    use Answer::{No, Perhaps, Unknown, Yes};
    assert_eq!(choice(&[Yes, Yes]), "Any of them will do.");
    assert_eq!(choice(&[Yes, Perhaps, Yes]), "Of these take one or three.");
    assert_eq!(choice(&[No, Perhaps]), "None of them will surely do; of these two may.");
    assert_eq!(choice(&[No, No]), "None of them will do.");
    assert_eq!(choice(&[No, Unknown]), "");
}

#[test]
fn of_several_drives_each_is_told_by_how_well_it_is_known() {
    let drive = |name: &str, assumed: usize| {
        let mut one = advice(1.0, 1);
        one.system.drive = name.into();
        one.system.known = KnownFigures { assumed, ranged: 0, all: 20 };
        answered(one)
    };
    let lines = words::certainties(&[drive("one", 16), drive("two", 16), drive("three", 0)]);
    assert_eq!(
        lines,
        [
            "How sure: all of the disk had been written before.",
            "- one, two: 16 of the drive's 20 figures are assumed.",
            "- three: the drive's figures are published or measured."
        ]
    );
    assert_eq!(words::certainties(&[drive("one", 0), drive("two", 0)]).len(), 1);
}

#[test]
fn what_a_command_does_comes_before_what_has_to_be_bought() {
    let mut one = amount(9.0, 1e9);
    let enough = |kind, change: &str| remedy(kind, change, Effect::Fixes, run(9e6, 0), times(1.0));
    one.remedies.extend([enough(ChangeKind::Conventional, "CMR disks"), enough(ChangeKind::Trim, "trimmed")]);
    let kinds: Vec<String> = answered(one).actions.into_iter().map(|action| action.what).collect();
    assert!(kinds[0].starts_with("Trim the file system") && kinds[1].starts_with("Use CMR disks"), "{kinds:?}");
}

#[test]
fn a_wait_that_no_buffer_bridges_is_a_miss() {
    let recorder = Buffer {
        bridges: Nanos(2 * S),
        is_read: false,
        name: "the recorder's buffer",
        harm: "pictures are lost",
        is_assumed: false,
    };
    let waits = |read_s: u64, write_s: u64| {
        let mut one = advice(1.0, 1);
        one.need.buffers[1] = Some(recorder);
        let own = &mut one.present[0].own;
        (own.longest_read_ns, own.longest_write_ns) = (read_s * S, write_s * S);
        said(one, "")
    };
    let text = "No: the recorder's buffer bridges 2 s, and the longest write takes 5 s, so that pictures are lost.";
    assert_eq!(waits(1, 5), (Answer::No, Verdict::Misses, text.into()));
    let text = "Yes: the longest write takes 1 s, and the recorder's buffer bridges 2 s.";
    assert_eq!(waits(5, 1), (Answer::Yes, Verdict::Meets, text.into()), "nobody sees how long a read takes");
    let text = "Perhaps: the longest write in 100 s takes 2 s, and the recorder's buffer bridges 2 s. When one takes longer than yours bridges, \
                pictures are lost.";
    assert_eq!(waits(1, 2), (Answer::Perhaps, Verdict::Depends, text.into()));
    // A player beside it, whose reads have less time.
    let player = Buffer {
        bridges: Nanos(S),
        is_read: true,
        name: "a player's buffer",
        harm: "the picture stops",
        is_assumed: false,
    };
    let mut both = advice(1.0, 1);
    both.need.buffers = [Some(player), Some(recorder)];
    (both.present[0].own.longest_read_ns, both.present[0].own.longest_write_ns) = (2 * S, 3 * S);
    let text = "No: a player's buffer bridges 1 s, and the longest read takes 2 s, so that the picture stops.";
    assert_eq!(said(both, "").2, text);
}

#[test]
fn a_limit_that_was_only_assumed_is_no_reason_for_a_no() {
    let waits = |longest_ms: u64, is_assumed| {
        let buffer = Buffer {
            bridges: Nanos(S),
            is_read: true,
            name: "a player's buffer",
            harm: "the picture stops",
            is_assumed,
        };
        let mut one = advice(1.0, 1);
        one.need.buffers[0] = Some(buffer);
        one.present[0].own.longest_read_ns = longest_ms * 1_000_000;
        one.remedies.push(cmr(Effect::Fixes, run(1e6, 0)));
        answered(one)
    };
    let near = waits(1010, true);
    assert_eq!((near.answer, near.verdict), (Answer::Perhaps, Verdict::Depends));
    let text = "Perhaps: the longest read in 100 s takes 1.01 s, and a player's buffer bridges 1 s (which is assumed). When one takes longer than \
                yours bridges, the picture stops.";
    assert_eq!(near.text.lines().next().unwrap(), text);
    assert!(near.actions[0].what.starts_with("Look up how long a player's buffer lasts"), "{:?}", near.actions);
    assert_eq!([waits(1010, false), waits(2100, true)].map(|one| one.verdict), [Verdict::Misses; 2]);
}

#[test]
fn no_is_said_only_if_the_better_end_fails_as_well() {
    let at_best = |best: f64, multiple: f64| {
        let mut one = amount(multiple, 18e9);
        one.ends = vec![end(true, run(0.5e6, 1)), end(false, run(best, 1))];
        said(one, "")
    };
    // A CMR disk does 5 MB/s, the drive 1 MB/s, or at best 3.
    let text = "Perhaps: some figures of tiny are estimates, and it is fast enough only at the best of them: it takes 100 min, on a CMR disk 60 min.";
    assert_eq!(at_best(3e6, 5.0), (Answer::Perhaps, Verdict::Depends, text.into()));
    assert_eq!(at_best(2.4e6, 5.0).1, Verdict::Slow);
    // Requests at times of their own, of which more come than the drive takes.
    let behind = |is_filling: bool| {
        let mut one = open(9.0);
        one.present[0].own.falls_behind = true;
        let full_in_s = is_filling.then_some(500.0);
        one.ends = vec![end(false, Trajectory { arrivals_ns: 100 * S, full_in_s, ..run(1e6, 1) })];
        said(one, "")
    };
    let text = "Perhaps: some figures of tiny are estimates, and it keeps up only at the best of them.";
    assert_eq!(behind(false), (Answer::Perhaps, Verdict::Depends, text.into()));
    assert_eq!(behind(true).1, Verdict::FallsBehind, "what comes once its cache is full is not known");
    let mut dropping = advice(1.0, 31);
    dropping.ends = vec![end(true, run(0.9e6, 44)), end(false, run(1.1e6, 12))];
    assert!(said(dropping, "Perhaps").2.ends_with("only with the best of them would the system drop no disk."));
}

#[test]
fn what_was_measured_and_is_not_explained_is_held_up_elsewhere() {
    let measured = |seen_ms: u64, is_conventional, busy| {
        let mut one = open(1.0);
        one.system.is_conventional = is_conventional;
        one.present[0].own.mean_ns = 4_000_000;
        one.reported = Some(ReportedWaits { tool: "iostat", mean_ns: seen_ms * 1_000_000, busy });
        answered(one)
    };
    let one = measured(380, true, 0.998);
    assert_eq!((one.answer, one.verdict), (Answer::No, Verdict::Elsewhere));
    let lines: Vec<&str> = one.text.lines().collect();
    let text = "No, it is not the shingling: your iostat shows requests that wait 380 ms on average on a disk that was 100 % busy, which this load \
                alone does not explain: 4 ms on average on tiny.";
    assert_eq!(lines[0], text);
    assert!(lines[3].starts_with("What to do: look for sectors") && lines[3].contains("dmesg"), "{}", one.text);
    let full = measured(380, false, 0.0);
    assert!(full.text.starts_with("No: your iostat shows") && full.text.contains("let it rest"), "{}", full.text);
    let usual = measured(45, true, 0.5);
    assert_eq!(usual.verdict, Verdict::Conventional);
    assert!(usual.text.contains("Your iostat shows requests that wait 45 ms on average on a disk that was 50 % busy."));
    let mut behind = open(9.0);
    (behind.present[0].own.falls_behind, behind.reported) = (true, full.reported);
    assert!(said(behind, "How fast").2.ends_with("380 ms on average, as on a drive whose cache is full."));
}

#[test]
fn what_comes_again_before_the_drive_has_cleaned_up_takes_longer() {
    let again = |within_h: u64, every_h: u64| {
        let hours = |hours: u64| Some(Nanos(hours * 3_600 * S));
        let need = Need { within: hours(within_h), every: hours(every_h), ..Need::default() };
        // It takes 9 GB at once, and 18 GB are written in 5 h, or in 10 h with a full cache.
        let budget = Budget {
            at_once_bytes: Some(9_000_000_000),
            after_bytes_per_s: Some(5e5),
            for_ever_bytes_per_s: Some(5e5),
            ..Budget::default()
        };
        said(Advice { need, budget: Some(budget), ..amount(9.0, 18e9) }, "")
    };
    let text = "Yes: a backup by restic takes 5 h of the 12 h that you have, and each later one 10 h, since the drive has not cleaned up when it begins.";
    assert_eq!(again(12, 24).2, text);
    assert_eq!(again(8, 24).1, Verdict::Misses);
}

#[test]
fn use_beside_a_rebuild_is_judged_by_how_long_that_takes() {
    let used = |multiple: f64, hours: u64, within_h: Option<u64>| {
        let mut one = advice(1.0, 1);
        let rebuilt = |hours: u64| Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
        one.rebuild = Some(RebuildSpec::parse("rebuild").unwrap());
        one.array = Some(ArrayFacts::new("raid5", Level::Raid5, one.rebuild));
        one.system.array = Some("raid5:disks=3".into());
        one.need.within = within_h.map(|hours| Nanos(hours * 3600 * S));
        one.present[0].load = LoadKind::Unused;
        (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (rebuilt(8), rebuilt(8));
        let mut used = Present { load: LoadKind::Light, ..advice(multiple, 8).present.remove(0) };
        (used.own.rebuild, used.conventional.rebuild) = (rebuilt(hours), rebuilt(8));
        used.against.rebuild = Some(hours as f64 / 8.0);
        one.present.push(used);
        one.hardest = 1;
        one.ends = vec![end(true, Trajectory { rebuild: rebuilt(32), ..run(1e6, 1) })];
        said(one, "")
    };
    // Requests beside it wait nine times as long.
    let text = "Perhaps: a disk (tiny) does not answer for 8 s. Kernels wait 30 s; a hardware RAID controller waits 7 s and would drop it.";
    assert_eq!(used(9.0, 10, None), (Answer::Perhaps, Verdict::DroppedByRaid, text.into()));
    let text = "No: in light use the rebuild takes 5 times as long as on CMR disks. While nobody uses raid5:disks=3 of tiny, it takes 8 h \
                (8 to 32 h).";
    assert_eq!(used(9.0, 40, None).2.replace("a CMR disk", "CMR disks"), text);
    let text = "No: in light use the rebuild takes 40 h, and you have 24 h. While nobody uses raid5:disks=3 of tiny, it takes 8 h (8 to \
                32 h).";
    assert_eq!(used(9.0, 40, Some(24)).2, text);
}

#[test]
fn a_range_stands_beside_the_load_under_which_it_was_run() {
    let mut one = advice(1.0, 1);
    let rebuilt = |hours: u64| Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
    one.rebuild = Some(RebuildSpec::parse("rebuild").unwrap());
    one.present[0].load = LoadKind::Unused;
    (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (rebuilt(9), rebuilt(9));
    let mut used = advice(1.0, 1).present.remove(0);
    (used.own.rebuild, used.conventional.rebuild) = (rebuilt(60), rebuilt(40));
    one.present.push(used);
    one.hardest = 1;
    one.ends = vec![end(true, Trajectory { rebuild: rebuilt(70), ..run(1e6, 1) })];
    assert!(
        said(one, "How long")
            .2
            .starts_with("How long: 9 h while nobody uses it, 2.5 days (2.5 to 2.92 days) under your load")
    );
}

#[test]
fn a_rate_that_was_not_found_is_told_as_more() {
    let budget = Budget { for_ever_bytes_per_s: Some(256e6), ..Budget::default() };
    let one = answered(Advice { budget: Some(budget), ..open(1.0) });
    assert_eq!(
        words::budget(&one).unwrap(),
        "How much: it keeps up with more than 200 times as much for as long as you like; the load asks for 1 MB/s."
    );
}

#[test]
fn software_that_cannot_write_zones_is_not_told_to() {
    let whats = |asked_use: Option<&str>, array: Option<&str>| {
        let mut one = advice(1.0, 1);
        one.present[0].own.refused = 993;
        one.asked_use = asked_use.map(use_named);
        one.array = array.map(|name| ArrayFacts::new(name, Level::named(name).unwrap(), None));
        one.remedies.push(remedy(ChangeKind::HostLayer, "dm-zoned", Effect::Fixes, run(1e6, 1), times(1.0)));
        let one = answered(one);
        let table = screen::text(&one, Screen::default());
        assert!(table.contains("CMR disks") && !table.contains("as it is"), "{table}");
        assert_eq!(screen::comparison(std::slice::from_ref(&one)).rows[0][2], "refused");
        one.actions
            .iter()
            .map(|action| action.what.split([' ', ':']).take(3).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(whats(None, None), ["Put on it", "Put dm-zoned on", "Use CMR disks"]);
    for (asked_use, array) in [(Some("zfs-receive"), None), (None, Some("raidz1")), (None, Some("raid5"))] {
        assert_eq!(whats(asked_use, array), ["Put dm-zoned on", "Use CMR disks"]);
    }
}

#[test]
fn a_need_that_no_hard_disk_meets_is_called_that() {
    let mut one = amount(1.0, 2e12);
    one.need.within = Some(Nanos(3_600 * S));
    one.system.is_conventional = true;
    let text = "Why: 2 TB in 60 min are 556 MB/s, which no hard disk does.";
    assert_eq!(said(one, "Why").2, text);
    let mut hopeless = advice(9.0, 1);
    hopeless.need.keep = Some(Nanos(10_000_000));
    (hopeless.present[0].own.p99_ns, hopeless.present[0].conventional.p99_ns) = (90_000_000, 20_000_000);
    hopeless.remedies = vec![
        remedy(ChangeKind::Trim, "trimmed", Effect::Helps, run(1e6, 1), times(1.0)),
        cmr(Effect::Helps, run(9e6, 1)),
    ];
    assert_eq!(answered(hopeless).actions[0].what, "Use an SSD");
}

#[test]
fn an_end_is_the_worse_one_by_what_it_does() {
    let ends = |at_worse: f64, at_better: f64| {
        let mut one = advice(1.0, 1);
        one.take_ends(vec![end(true, run(at_worse, 1)), end(false, run(at_better, 1))]);
        let rates = one.ends.iter().map(|end| (end.worse, end.trajectory.lasting_bytes_per_s()));
        rates.collect::<Vec<_>>()
    };
    // The drive as it is does 1 MB/s.
    assert_eq!(ends(0.5e6, 2e6), [(true, 0.5e6), (false, 2e6)]);
    assert_eq!(ends(2e6, 0.5e6), [(true, 0.5e6), (false, 2e6)]);
    assert_eq!(ends(0.5e6, 0.7e6), [(true, 0.5e6)], "the drive as it is is the best then");
    let mut one = advice(1.0, 1);
    let mut drops = end(false, run(0.7e6, 1));
    drops.trajectory.dropped_30s = 1;
    one.take_ends(vec![end(true, run(0.5e6, 1)), drops]);
    let ends: Vec<_> = one.ends.iter().map(|end| (end.worse, end.trajectory.dropped_30s)).collect();
    assert_eq!(ends, [(true, 0), (true, 1)], "an end on which a disk is dropped stays, and is not the better one");
}

#[test]
fn light_use_has_its_rows_where_it_is_the_problem() {
    let mut one = advice(1.0, 1);
    let rebuilt = |hours: u64| Some(RebuildFigures { elapsed_ns: hours * 3600 * S, bytes: 1, disk_bytes: 1 });
    (one.rebuild, one.array) =
        (Some(RebuildSpec::parse("rebuild").unwrap()), Some(ArrayFacts::new("raid5", Level::Raid5, None)));
    one.present[0].load = LoadKind::Unused;
    (one.present[0].own.rebuild, one.present[0].conventional.rebuild) = (rebuilt(14), rebuilt(14));
    let mut used = Present { load: LoadKind::Light, ..advice(9.0, 1).present.remove(0) };
    (used.own.rebuild, used.conventional.rebuild) = (rebuilt(100), rebuilt(15));
    one.present.push(used);
    one.hardest = 1;
    one.remedies.push(cmr(Effect::None, one.present[0].conventional.clone()));
    let one = answered(one);
    let table = screen::text(&one, Screen { details: true, ..Screen::default() });
    for row in ["as it is, in light use         4.17 days", "CMR disks, in light use             15 h"] {
        let words: Vec<&str> = row.split_whitespace().collect();
        let is_shown = |line: &str| line.split_whitespace().collect::<Vec<_>>().starts_with(&words);
        assert!(table.lines().any(is_shown), "{row}:\n{table}");
    }
    let grid = screen::tried(&one);
    assert_eq!(grid.rows.len(), 4);
    // A disk that was trimmed has its figures in light use, too.
    let trimmed = |hours: u64, load| Present {
        load,
        own: Trajectory { rebuild: rebuilt(hours), ..run(1e6, 1) },
        ..advice(1.0, 1).present.remove(0)
    };
    let one = Advice { trimmed: vec![trimmed(14, LoadKind::Unused), trimmed(17, LoadKind::Light)], ..one };
    let used = &screen::tried(&one).rows[2];
    assert_eq!((used[0].as_str(), used[1].as_str()), ("new disk trimmed, light use", "17 h"));
}

#[test]
fn drives_side_by_side_are_told_in_units_that_suit_each() {
    let drive = |ms: u64| {
        let mut one = Advice { whole_bytes: None, ..advice(1.0, 1) };
        one.engine.arrival = Arrival::Trace;
        (one.present[0].own.mean_ns, one.present[0].own.longest_stall_ns) = (ms * 1_000_000, ms * 10_000_000);
        answered(one)
    };
    let grid = screen::comparison(&[drive(4), drive(1200)]);
    assert_eq!([&grid.rows[0][2], &grid.rows[1][2], &grid.rows[1][4]], ["4 ms", "1.2 s", "12 s"]);
}

#[test]
fn what_was_said_already_is_not_said_again() {
    let mut one = answered(advice(1.0, 1));
    one.text = "Yes: it does.\nHow fast: 2 MB/s.\nWhy: it is new.\nHow sure: figures are measured.".into();
    let first = |preview: &str| screen::first(&one, preview, Screen::default());
    let all = "Yes: it does.\nHow fast: 2 MB/s.\nWhy: it is new.\n";
    assert_eq!(first(""), all);
    assert_eq!(first("Perhaps: it does.\nWhy: it is new."), format!("More runs change the answer:\n{all}"));
    assert_eq!(first("Yes so far: it does."), format!("More runs confirm the answer:\n{all}"));
    assert_eq!(first("Yes, as far as it goes: it does."), format!("More runs confirm the answer:\n{all}"));
    assert_eq!(first("Until the cache is full, it does."), format!("More runs give the answer:\n{all}"));
    assert_eq!(
        first("Yes: it does.\nHow fast: 1 MB/s."),
        "More runs confirm the answer:\nHow fast: 2 MB/s.\nWhy: it is new.\n"
    );
    let rest = screen::rest(&one, &one.text, Screen::default());
    assert_eq!(rest, "\nHow sure: figures are measured.\n", "said once, at the end");
}

#[test]
fn a_trim_is_told_with_what_does_not_pass_it_on_and_what_it_costs() {
    let trimmed = |array: Option<ArrayFacts>| {
        let mut one = advice(9.0, 1);
        one.array = array;
        one.trimmed = vec![Present { own: run(9e6, 1), against: times(1.0), ..advice(9.0, 1).present.remove(0) }];
        one.remedies.push(remedy(ChangeKind::Trim, "trimmed", Effect::Fixes, run(9e6, 1), times(1.0)));
        answered(one).actions.remove(0).cost
    };
    let of = |name: &str, level| trimmed(Some(ArrayFacts::new(name, level, None)));
    for (cost, words) in [
        (trimmed(None), ["USB", "LUKS", "answers slowly"]),
        (of("raidz1", Level::Raid5), ["autotrim", "32 KiB", "iXsystems"]),
        (of("raid5", Level::Raid5), ["raid456.devices_handle_discard_safely", "USB", "answer slowly"]),
    ] {
        assert!(words.iter().all(|word| cost.contains(word)), "{cost}");
    }
}

#[test]
fn a_timeout_is_told_by_who_waits_how_long() {
    let in_array =
        |longest_s| Advice { array: Some(ArrayFacts::new("raid5", Level::Raid5, None)), ..advice(1.0, longest_s) };
    assert_eq!(words::dropped(&advice(1.0, 8)), "No: the longest command takes 8 s, and kernels wait 30 s.");
    assert_eq!(
        words::dropped(&in_array(8)),
        "Only by a hardware RAID controller: the longest command takes 8 s, and kernels wait 30 s, hardware RAID controllers 7 s."
    );
    assert_eq!(
        words::dropped(&in_array(5)),
        "No: the longest command takes 5 s, and kernels wait 30 s, hardware RAID controllers 7 s."
    );
}

#[test]
fn an_array_belongs_to_the_software_whose_words_were_used() {
    let facts = |name: &str, rebuild: Option<&str>| {
        let rebuild = rebuild.map(|text| RebuildSpec::parse(text).unwrap());
        ArrayFacts::new(name, Level::named(name).unwrap(), rebuild)
    };
    for (name, rebuild, software) in [
        ("raidz1", None, Software::Zfs),
        ("mirror", Some("rebuild"), Software::Zfs),
        ("raid5", None, Software::Md),
        ("raid5", Some("rebuild"), Software::Md),
        ("raid1", Some("resilver"), Software::Zfs),
        ("raidz3", Some("scrub"), Software::Zfs),
    ] {
        assert_eq!(facts(name, rebuild).software, software, "{name} {rebuild:?}");
    }
    let tried = |name: &str, rebuild: &str| -> Vec<ChangeKind> {
        facts(name, Some(rebuild)).rebuilds().into_iter().map(|(_, kind, _)| kind).collect()
    };
    use ChangeKind::{RebuildOrder, RebuildPieces, RebuildRecords};
    assert_eq!(tried("raidz1", "resilver"), [RebuildPieces, RebuildRecords]);
    assert_eq!(tried("mirror", "resilver"), [RebuildPieces, RebuildRecords, RebuildOrder]);
    assert_eq!(tried("raid5", "rebuild"), []);
    assert_eq!(tried("raidz1", "scrub"), [RebuildPieces]);
    let scrub = RebuildSpec::parse("scrub").unwrap();
    assert!(matches!(scrub.task, Task::Scrub));
}

#[test]
fn each_effect_has_its_word() {
    use Effect::{Fixes, FixesSoFar, Helps, Mixed, Worsens};
    let words = |is_problem| {
        [Fixes, FixesSoFar, Helps, Mixed, Effect::None, Worsens].map(|effect| {
            words::effect(is_problem, &remedy(ChangeKind::WriteSize, "any", effect, run(1.0, 1), times(1.0)))
        })
    };
    assert_eq!(words(true), ["enough", "enough at first", "helps", "mixed", "does not help", "worse"]);
    assert_eq!(words(false), ["enough", "enough at first", "better", "mixed", "no difference", "worse"]);
}

/// A run of a load that is the same throughout.
fn of_even_load(run: PlannedRun, text: &str) -> Trial {
    let demand: Arc<dyn Demand> = Arc::new(GeneratedDemand::from(Workload::parse(text).unwrap()));
    let load = Load { kind: LoadKind::Asked, demand, settings: *run.settings(), is_even: true };
    let sectors = run.host_sectors().unwrap();
    Trial::new(run, &load, sectors)
}

#[test]
fn a_cache_that_is_cleaned_in_turns_is_seen_through_a_whole_one() {
    let system = System::drive("st8000dm004").layer("drive-managed").capacity(AskedCapacity::Sectors(3_900_000_000));
    let run = system.run(Settings { depth: 16, ..Settings::default() }).unwrap();
    let trial = of_even_load(run, "mix:size=4Ki,write_share=0.5,span=2%,count=480k");
    let served =
        pool::make_one(&Unwatched, "", |watch| Ok([trial.serve_enough(160_000, false, watch)?, trial.serve(watch)?]));
    let [part, whole] = served.unwrap().map(|served| served.trajectory);
    let times = part.seconds_for(whole.bytes as f64) / (whole.elapsed_ns as f64 / 1e9);
    assert!(part.bytes < whole.bytes && (0.67..1.5).contains(&times), "{times}");
}

#[test]
fn free_room_that_small_writes_fill_late_is_filled_by_larger_ones() {
    let settings = Settings { depth: 4, ..Settings::default() };
    let run = System::drive("wd40efax").layer("log").run(settings).unwrap();
    let trial = of_even_load(run, "random-write:size=4Ki,count=10M");
    let part = pool::make_one(&Unwatched, "", |watch| trial.serve_until_known(watch)).unwrap().trajectory;
    // Of 10 million requests, all of them run, the first waits after 1,805 s, and 305 kB/s remain.
    assert!(part.requests < 200_000 && part.is_full_later(), "{part:?}");
    assert!((part.cache_full_at_s.unwrap() / 1805.0 - 1.0).abs() < 0.05, "{part:?}");
    assert!((0.5..2.0).contains(&(part.lasting_bytes_per_s() / 305e3)), "{part:?}");
}

#[test]
fn lines_fit_the_terminal_and_details_are_told_on_demand() {
    let mut one = advice(3.0, 1);
    one.remedies.push(cmr(Effect::Fixes, run(3e6, 1)));
    one.ends = vec![end(true, run(0.9e6, 1)), end(false, run(1e6, 1))];
    let one = answered(one);
    for width in [80, 120] {
        for details in [false, true] {
            let text = screen::text(&one, Screen { width, details, is_coloured: false });
            let fits = |line: &str| line.chars().count() <= width || line.starts_with("  $ ");
            assert!(text.lines().all(fits), "{width}:\n{text}");
            assert_eq!(text.contains("at its worst"), details, "{text}");
        }
    }
    // What was said is not said again, and what has changed is.
    let rest = screen::rest(&one, "Yes: something else.", Screen::default());
    assert!(rest.contains("No: this load"), "{rest}");
    assert!(!screen::rest(&one, &one.text, Screen::default()).contains("No: this load"));
}
