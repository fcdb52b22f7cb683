//! The sentences of the verdict, word for word.

use super::*;
use crate::layer::{Capacity, GarbageCollection, LayerStats};
use crate::stats::latency::Latency;
use crate::stats::outcome::{Rebuild, Scaled};

/// A run whose cache is full after a minute, and that is half as fast from then on.
fn base() -> Outcome {
    let verdict = Verdict {
        cache_full_at_s: Some(60.0),
        rate_before_bytes_per_s: Some(1e6),
        rate_after_bytes_per_s: Some(0.5e6),
        ..Verdict::default()
    };
    let all = Latency { mean: 7_000_000, ..Latency::default() };
    Outcome {
        layer: "x".into(),
        drive: "d".into(),
        requests: 10,
        slowdown: Some(2.0),
        capacity: Capacity { cache_sectors: 1, ..Capacity::default() },
        latency_ns: Latencies { all, ..Latencies::default() },
        verdict,
        ..Outcome::default()
    }
}

type Change = fn(&mut Outcome);

const OPEN: Change = |one| one.engine.arrival = Arrival::Trace;
const FROM_THE_START: Change = |one| one.verdict.cache_full_at_s = Some(0.0);
const NEVER: Change = |one| (one.verdict.cache_full_at_s, one.verdict.rate_after_bytes_per_s) = (None, None);
const NO_CACHE: Change = |one| one.capacity.cache_sectors = 0;
const CONVENTIONAL: Change = |one| one.layer = BASELINE.into();
const ARRAY: Change = |one| one.members = vec![Outcome::default()];

fn changed(changes: &[Change]) -> Outcome {
    let mut outcome = base();
    changes.iter().for_each(|change| change(&mut outcome));
    outcome
}

#[test]
fn the_course_is_told_by_what_waits_and_since_when() {
    let cases: [(&[Change], &str); 17] = [
        (&[], "Fast until 60.0 s, then requests wait for cleaning: 1.0 MB/s before, 500.0 kB/s from then on."),
        (
            &[|one| one.verdict.rate_after_bytes_per_s = Some(0.9e6)],
            "From 60.0 s on requests wait for cleaning, but the rate hardly falls: 1.0 MB/s before, 900.0 kB/s from then on.",
        ),
        (
            &[|one| one.verdict.rate_after_bytes_per_s = Some(1e6)],
            "From 60.0 s on requests wait for cleaning, but the rate does not fall: 1.0 MB/s before, 1.0 MB/s from then on.",
        ),
        (&[FROM_THE_START], "Requests wait for cleaning from the start: 500.0 kB/s."),
        (
            &[|one| (one.verdict.cache_full_at_s, one.elapsed_ns) = (Some(0.9), 91_000_000_000)],
            "Requests wait for cleaning almost from the start: 500.0 kB/s.",
        ),
        (&[FROM_THE_START, OPEN], "Requests wait for cleaning from the start; a request takes 7.0 ms on average."),
        (&[OPEN], "From 60.0 s on requests wait for cleaning; a request takes 7.0 ms on average."),
        (&[NO_CACHE], "From 60.0 s on writes wait for rewriting: 1.0 MB/s before, 500.0 kB/s from then on."),
        (&[NO_CACHE, FROM_THE_START], "Writes wait for rewriting from the start: 500.0 kB/s."),
        (&[NO_CACHE, OPEN], "From 60.0 s on writes wait for rewriting; a request takes 7.0 ms on average."),
        (&[NEVER], "No request waits for cleaning: 1.0 MB/s throughout."),
        (&[NEVER, OPEN], "No request waits for cleaning: a request takes 7.0 ms on average."),
        (&[NEVER, NO_CACHE], "Nothing had to be rewritten: 1.0 MB/s throughout."),
        (&[NEVER, CONVENTIONAL], "Nothing had to be rewritten: 1.0 MB/s throughout."),
        (&[NEVER, CONVENTIONAL, NO_CACHE, OPEN], "Nothing had to be rewritten: a request takes 7.0 ms on average."),
        (&[NEVER, CONVENTIONAL, ARRAY], "Nothing had to be rewritten: 1.0 MB/s throughout."),
        (&[NEVER, ARRAY], "No request waits for cleaning: 1.0 MB/s throughout."),
    ];
    for (changes, text) in cases {
        assert_eq!(course(&changed(changes)), text);
    }
}

#[test]
fn rates_that_change_for_long_are_told_one_by_one() {
    let phase = |seconds: f64, bytes_per_s: f64| Phase { time: Nanos::from_secs(seconds), bytes_per_s };
    let (slow, fast) = (phase(7200.0, 8e4), phase(480.0, 27e6));
    let told =
        |phases: &[Phase]| by_phase(phases, rate, |seconds| Nanos::from_secs(seconds).to_string()).unwrap_or_default();
    assert_eq!(told(&[]), "");
    assert_eq!(told(&[slow]), "");
    assert_eq!(told(&[slow, fast]), "80.0 kB/s for 2.0 h, then 27.0 MB/s for 480.0 s");
    let short = phase(600.0, 8e4);
    let three = "80.0 kB/s for 2.0 h, then 27.0 MB/s for 480.0 s, then 80.0 kB/s for 10.0 min";
    assert_eq!(told(&[slow, fast, short]), three);
    let turns = "by turns 80.0 kB/s for 2.0 h and 27.0 MB/s for 480.0 s, on average";
    assert_eq!(told(&[slow, fast, slow, fast]), turns);
    // As in the first minute, then a minute at 10 kB/s, and two as fast as before.
    let written = |at: u64| if (600..1181).contains(&at) { 1000 } else { 100_000 };
    let mut outcome = base();
    outcome.timeline.window_ns = 100_000_000;
    outcome.timeline.requests = vec![10; 2400];
    outcome.timeline.read_bytes = vec![0; 2400];
    outcome.timeline.written_bytes = (0..2400).map(written).collect();
    outcome.verdict.rate_after_bytes_per_s = Some(1e6);
    assert_eq!(
        course(&outcome),
        "Fast until 60.0 s, then requests wait for cleaning: 1.0 MB/s before, then 10.0 kB/s for 58.0 s, then 1.0 MB/s for 121.8 s."
    );
}

#[test]
fn the_whole_is_compared_where_the_disk_decides_the_time() {
    let cases: [(&[Change], &str); 10] = [
        (&[], " In all it takes 2 times as long as a conventional disk."),
        (&[|one| one.slowdown = Some(1.04)], " In all it takes as long as a conventional disk."),
        (&[ARRAY], " In all it takes 2 times as long as the same array of conventional disks."),
        (
            &[|one| one.engine.warmup = Warmup::UntilSteady],
            " For a request it takes 2 times as long as a conventional disk.",
        ),
        (&[|one| one.engine.until = Some(Nanos(1))], " For a request it takes 2 times as long as a conventional disk."),
        (&[|one| one.interrupted = true], " For a request it takes 2 times as long as a conventional disk."),
        (&[|one| one.engine.arrival = Arrival::Closed], " In all it takes 2 times as long as a conventional disk."),
        (&[CONVENTIONAL], ""),
        (&[OPEN], ""),
        (&[|one| one.slowdown = None], ""),
    ];
    for (changes, text) in cases {
        assert_eq!(in_all(&changed(changes)), text);
    }
}

#[test]
fn stalls_are_counted_beside_those_of_a_conventional_disk() {
    // An overloaded disk's drops are not told.
    const OVERLOADED: Change = |one| one.verdict.baseline_overloaded = true;
    const STALLS: Change = |one| (one.verdict.stalls_over_7s, one.verdict.stalls_over_30s) = (5, 2);
    const NONE_BESIDE: Change = |one| {
        (one.verdict.baseline_stalls_over_7s, one.verdict.baseline_stalls_over_30s) = (Some(0), Some(0));
    };
    const SOME_BESIDE: Change = |one| {
        (one.verdict.baseline_stalls_over_7s, one.verdict.baseline_stalls_over_30s) = (Some(4), Some(1));
    };
    let cases: [(&[Change], &str); 8] = [
        (&[], "."),
        (&[STALLS], "; requests over 7 s: 5, over 30 s: 2."),
        (&[STALLS, |one| one.verdict.stalls_over_30s = 0], "; requests over 7 s: 5, over 30 s: none."),
        (
            &[STALLS, NONE_BESIDE],
            "; requests over 7 s: 5 (none on a conventional disk), over 30 s: 2 (none on a conventional disk).",
        ),
        (
            &[STALLS, SOME_BESIDE],
            "; requests over 7 s: 5 (4 on a conventional disk), over 30 s: 2 (1 on a conventional disk).",
        ),
        (
            &[STALLS, SOME_BESIDE, ARRAY],
            "; requests over 7 s: 5 (4 on conventional disks), over 30 s: 2 (1 on conventional disks).",
        ),
        (&[STALLS, SOME_BESIDE, CONVENTIONAL], "; requests over 7 s: 5, over 30 s: 2."),
        (
            &[STALLS, SOME_BESIDE, |one| one.verdict.stalls_over_30s = 0],
            "; requests over 7 s: 5 (4 on a conventional disk), over 30 s: none.",
        ),
    ];
    for (changes, text) in cases {
        assert_eq!(stalls(&changed(&[changes, &[OVERLOADED]].concat())), text);
    }
    assert!(stalls(&changed(&[STALLS])).ends_with(
        "over 30 s: 2. They wait in the host's queue: a timeout of 7 s, \
        which runs from the dispatch to the drive, would not drop it."
    ));
}

#[test]
fn writes_without_space_are_told_with_the_garbage_that_was_left() {
    let told = |enospc, sectors| {
        let mut one = base();
        one.garbage_collection =
            Some(GarbageCollection { enospc, enospc_garbage_sectors: sectors, ..Default::default() });
        Told::of(&one).more
    };
    assert_eq!(told(0, 0), Told::of(&base()).more);
    let words = "\"No space left\" is said 4 times, while on average 2.0 MB of garbage lies in zones that the host does not clean.";
    assert!(told(4, 16_004).contains(words), "{}", told(4, 16_004));
}

#[test]
fn requests_that_break_a_rule_of_zones_are_counted_and_told() {
    let text = |all: u64, full: u64, first: Option<&str>, prefill| {
        let mut one = base();
        one.state.prefill = prefill;
        let first = first.iter().map(|first| first.to_string()).collect();
        one.layer_stats = one.layer_stats.with_violations(&ZoneViolations { all, to_full_zones: full, first });
        violations(&one)
    };
    let refused = |count: &str| {
        format!("A host-managed disk would refuse {count} requests, so that the times below mean nothing.")
    };
    let reset = "All zones were full at first: reset them by a discard of the whole zone, or begin with an empty disk (prefill none).";
    assert_eq!(violations(&base()), "");
    assert_eq!(text(0, 0, None, Prefill::Full), "");
    assert_eq!(text(3, 0, None, Prefill::Full), refused("3 of these 10"));
    assert_eq!(text(3, 1, Some("one; two"), Prefill::None), refused("3 of these 10") + " The first: one; two.");
    let mut one = base();
    let broken = ZoneViolations { all: 3, ..ZoneViolations::default() };
    one.layer_stats = one.layer_stats.with_violations(&broken);
    assert_eq!(sentence(&one), refused("3 of these 10"), "and no time of it is told");
    assert_eq!(
        text(12, 1, Some("one"), Prefill::Full),
        refused("12 of these 12") + &format!(" The first: one. {reset}")
    );
}

#[test]
fn a_rebuild_says_what_the_new_disk_held_where_that_decides() {
    let told = |layer: &str, spec: &str| {
        let rebuild = Rebuild { spec: spec.parse().unwrap(), ..Rebuild::default() };
        Told::of(&Outcome { layer: layer.into(), rebuild: Some(rebuild), ..base() }).state
    };
    assert!(told("log", "resilver").contains("had never been written, or was trimmed: one that was filled before"));
    assert!(told("log", "resilver,new=full").contains("had been filled before"));
    for (layer, spec) in [("log", "scrub"), ("drive-managed", "resilver"), (BASELINE, "resilver,new=full")] {
        assert!(!told(layer, spec).contains("new disk"), "{layer}, {spec}");
    }
}

#[test]
fn a_scaled_size_is_a_sentence_of_its_own() {
    let scaled = |array: bool, cache_sectors| {
        let mut one = if array { changed(&[ARRAY]) } else { base() };
        one.scaled = Some(Scaled { platters: 18, needed_bytes: 92 << 40, own_bytes: 5 << 40 });
        one.capacity = Capacity { raw_sectors: 90 << 31, cache_sectors, ..Capacity::default() };
        scaling(&one).unwrap()
    };
    assert_eq!(
        scaled(true, 0),
        "The trace needs 92 TiB: each drive (d) has 18 × its platters, in all 90 TiB in place of 5 TiB."
    );
    assert_eq!(
        scaled(false, 2),
        "The trace needs 92 TiB: this is d with 18 × its platters, 90 TiB in place of 5 TiB, cache 1 KiB."
    );
    assert_eq!(scaling(&base()), None);
}

#[test]
fn a_disk_is_overloaded_if_it_is_late_and_busy_by_the_traces_times() {
    let overloaded = |arrival, arrivals_ns, busy_ns| {
        let mut one = Outcome { elapsed_ns: 1000, arrivals_ns, busy_ns, ..base() };
        one.engine.arrival = arrival;
        is_overloaded(&one)
    };
    assert!(overloaded(Arrival::Trace, 949, 951));
    assert!(!overloaded(Arrival::Trace, 950, 951), "a twentieth late");
    assert!(!overloaded(Arrival::Trace, 949, 950), "a twentieth idle");
    assert!(!overloaded(Arrival::FlatOut, 949, 951) && !overloaded(Arrival::Closed, 949, 951));
    let member = |busy_ns| Outcome { busy_ns, ..base() };
    let mut array = Outcome { elapsed_ns: 1000, members: vec![member(10), member(951)], ..base() };
    array.engine.arrival = Arrival::Trace;
    assert!(is_overloaded(&array));
    array.members.pop();
    assert!(!is_overloaded(&array));
    let none = Outcome { elapsed_ns: 0, ..array };
    assert!(!is_overloaded(&none));
}

#[test]
fn a_judged_run_takes_over_what_its_baseline_shows() {
    let mut beside = Outcome { elapsed_ns: 500, requests: 10, ..base() };
    (beside.latency_ns.all.mean, beside.latency_ns.all.p99) = (11, 12);
    (beside.verdict.stalls_over_7s, beside.verdict.stalls_over_30s) = (3, 1);
    let judged = |own: Outcome, beside: &Outcome| {
        let mut own = Outcome { elapsed_ns: 1500, slowdown: None, ..own };
        judge(&mut own, beside);
        own
    };
    let own = judged(base(), &beside);
    assert_eq!(own.slowdown, Some(3.0));
    let verdict = &own.verdict;
    assert_eq!((verdict.baseline_mean_ns, verdict.baseline_p99_ns), (Some(11), Some(12)));
    assert_eq!((verdict.baseline_stalls_over_7s, verdict.baseline_stalls_over_30s), (Some(3), Some(1)));
    assert!(!verdict.baseline_overloaded && verdict.text == sentence(&own));
    assert_eq!(judged(Outcome { rebuild: Some(Rebuild::default()), ..base() }, &beside).slowdown, None);
    assert_eq!(judged(base(), &Outcome { elapsed_ns: 0, ..beside.clone() }).slowdown, None);
    let mut overloaded = Outcome { busy_ns: 500, ..beside };
    overloaded.engine.arrival = Arrival::Trace;
    let own = judged(base(), &overloaded);
    assert!(
        own.verdict
            .text
            .ends_with(" The conventional disk itself can't keep up with these arrival times: stretch them.")
    );
    let own = judged(changed(&[ARRAY, |one| one.interrupted = true]), &overloaded);
    assert!(own.verdict.text.ends_with(
        " An array of conventional disks itself can't keep up with these arrival times: stretch them. The run was \
         interrupted; this is what it had so far."
    ));
}

#[test]
fn rates_are_those_before_and_after_the_cache_is_full() {
    const S: u64 = 1_000_000_000;
    let verdict = |cache_full_at_s, before_bytes, before_ns| {
        let mut verdict = Verdict { cache_full_at_s, before_bytes, before_ns, ..Verdict::default() };
        let all = Latency { max: 77, ..Latency::default() };
        verdict.conclude(&Latencies { all, ..Latencies::default() }, 4000, 10 * S);
        assert_eq!(verdict.longest_stall_ns, 77);
        (verdict.rate_before_bytes_per_s, verdict.rate_after_bytes_per_s)
    };
    assert_eq!(verdict(Some(2.0), 512_000, 2 * S), (Some(256_000.0), Some(192_000.0)));
    assert_eq!(verdict(Some(0.0), 0, 0), (None, Some(204_800.0)), "no time was before");
    assert_eq!(verdict(Some(10.0), 512_000, 10 * S).1, Some(0.0), "at the end");
    assert_eq!(verdict(None, 2_048_000, 10 * S), (Some(204_800.0), None), "never");
}

fn outcome(after: f64) -> Outcome {
    let verdict = Verdict {
        cache_full_at_s: Some(60.0),
        rate_before_bytes_per_s: Some(1e6),
        rate_after_bytes_per_s: Some(after),
        ..Verdict::default()
    };
    let capacity = Capacity { cache_sectors: 1, ..Capacity::default() };
    Outcome { layer: "x".into(), requests: 1, slowdown: Some(2.0), capacity, verdict, ..Outcome::default() }
}

#[test]
fn a_disk_is_fast_until_a_moment_only_if_it_is_slower_after() {
    assert!(sentence(&outcome(0.5e6)).starts_with("Fast until 60.0 s, then requests wait for cleaning"));
    assert!(sentence(&outcome(2e6)).contains("the rate does not fall: 1.0 MB/s before, 2.0 MB/s from then on."));
    assert!(sentence(&outcome(0.95e6)).contains("the rate hardly falls: 1.0 MB/s before"));
}

#[test]
fn runs_of_different_requests_are_compared_by_the_request() {
    assert_eq!(time_ratio((30.0, 10.0), (5, 5)), Some(3.0));
    assert_eq!(time_ratio((30.0, 10.0), (5, 10)), Some(6.0));
    assert_eq!((time_ratio((30.0, 10.0), (0, 10)), time_ratio((30.0, 10.0), (5, 0))), (None, None));
    let mut own = outcome(0.5e6);
    own.engine.warmup = Warmup::UntilSteady;
    (own.requests, own.elapsed_ns) = (100, 600);
    let usual = Outcome { requests: 200, elapsed_ns: 400, ..own.clone() };
    judge(&mut own, &usual);
    assert_eq!(own.slowdown, Some(3.0));
    assert!(own.verdict.text.contains("For a request it takes 3 times as long"), "{}", own.verdict.text);
}

#[test]
fn a_drive_made_larger_is_named_with_both_sizes_and_its_cache() {
    let mut larger = outcome(2e6);
    larger.drive = "d".into();
    larger.scaled = Some(Scaled { platters: 18, needed_bytes: 92 << 40, own_bytes: 5 << 40 });
    larger.capacity = Capacity { raw_sectors: 90 << 31, cache_sectors: 1 << 30, ..Capacity::default() };
    let text = "The trace needs 92 TiB: this is d with 18 × its platters, 90 TiB in place of 5 TiB, cache 512 GiB.";
    assert!(sentence(&larger).contains(text), "{}", sentence(&larger));
}

#[test]
fn what_a_layer_does_has_its_own_word() {
    let mut never = outcome(0.0);
    (never.verdict.cache_full_at_s, never.verdict.rate_after_bytes_per_s) = (None, None);
    assert!(sentence(&never).starts_with("No request waits for cleaning: 1.0 MB/s throughout."));
    let layers = ["log", "dm-zoned", "zone-log"];
    let each = [outcome(0.5e6), never].into_iter().flat_map(|one| layers.map(|layer| (one.clone(), layer)));
    for (mut one, layer) in each {
        one.capacity.cache_sectors = 0;
        // A layer of another crate may call its counters as it likes.
        (one.layer, one.layer_stats) = ("mine".into(), LayerStats::new([("collections", 1)], None));
        assert!(sentence(&one).contains("rewrit"), "{}", sentence(&one));
        one.layer = layer.into();
        assert!(sentence(&one).contains("wait"), "{}", sentence(&one));
        assert!(!sentence(&one).contains("rewrit"), "{}", sentence(&one));
    }
}

#[test]
fn an_array_drops_members_that_are_late_to_complete() {
    let commands = |commands_over_7s| CommandTimes { commands_over_7s, ..CommandTimes::default() };
    let member = |over_7s| Outcome {
        requests: 1,
        verdict: Verdict { commands: commands(over_7s), ..Verdict::default() },
        ..Outcome::default()
    };
    let text = |of_host, members: &[u64]| {
        let mut array = outcome(0.5e6);
        array.verdict.stalls_over_7s = of_host;
        array.members = members.iter().map(|&stalls| member(stalls)).collect();
        sentence(&array)
    };
    let mut drive = outcome(0.5e6);
    (drive.verdict.stalls_over_7s, drive.verdict.commands) = (3, commands(1));
    assert!(sentence(&drive).ends_with("A timeout of 7 s would drop this drive."));
    assert!(text(1, &[]).ends_with(
        "They wait in the host's queue: a timeout of 7 s, which runs from the dispatch to the drive, would not drop it."
    ));
    assert!(text(1, &[0, 0]).ends_with("No member takes over 7 s for its part: none would be dropped."));
    assert!(text(0, &[0, 0]).ends_with("The longest request takes 0 s."));
    assert!(text(0, &[0, 3, 0]).ends_with("takes 0 s. A timeout of 7 s would drop a member (of 3)."));
    assert!(text(5, &[1, 3, 0]).ends_with("A timeout of 7 s would drop 2 of its 3 members."));
    assert!(text(5, &[1, 3]).ends_with("A timeout of 7 s would drop every one of its 2 members."));
    assert!(text(0, &[0]).contains("as long as the same array of conventional disks."));
}

#[test]
fn every_sentence_names_the_state_of_the_disk() {
    let text = |prefill: &str, cache_sectors, layer: &str| {
        let mut one = outcome(0.5e6);
        (one.state.prefill, one.capacity.cache_sectors, one.layer) =
            (prefill.parse().unwrap(), cache_sectors, layer.into());
        sentence(&one)
    };
    assert!(text("none", 0, "x").contains("was empty") && text("none", 9, "x").contains("was empty"));
    assert!(text("none", 9, "x").contains("may be slower") && !text("none", 0, BASELINE).contains("may be slower"));
    assert!(text("full", 0, "x").contains("The disk is full: what a write would destroy"));
    for (prefill, words) in [("none", "was empty"), ("full", "was full"), ("sequential", "was written in order")] {
        assert!(["x", BASELINE].iter().all(|layer| text(prefill, 9, layer).contains(words)), "{prefill}");
    }
}

#[test]
fn by_the_traces_times_no_rate_is_claimed() {
    let mut open = outcome(0.5e6);
    open.engine.arrival = Arrival::Trace;
    let text = sentence(&open);
    assert!(!text.contains("MB/s") && !text.contains("as long as"), "{text}");
}
