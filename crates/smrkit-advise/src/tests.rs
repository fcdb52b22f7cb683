//! Sentences and actions on made-up figures, and the rules that no printed command may break.

use std::collections::BTreeMap;

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildSpec, Task};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::{Outcome, Replayed, State};
use smrkit::stats::timeline::Timeline;

use crate::LoadKind;
use crate::advice::{Advice, AdvisedDemand, AdvisedSystem, NotRun, Present, Remedy, Verdict};
use crate::changes::{ArrayFacts, ChangeKind, Software};
use crate::comparison::{Comparison, Effect, Judged, Multiples, Problems, RebuildFigures, Trajectory};
use crate::screen::{self, Screen};
use crate::words;

const S: u64 = 1_000_000_000;

fn times(multiple: f64) -> Comparison {
    let whole = Multiples { elapsed: Some(multiple), mean: multiple, p99: multiple, longest: multiple };
    Comparison { whole, from_first_wait: None, rebuild: None }
}

/// A run of 100 s at this many bytes a second, whose longest request takes so many seconds.
fn run(bytes_per_s: f64, longest_s: u64) -> Trajectory {
    Trajectory {
        requests: 1000,
        elapsed_ns: 100 * S,
        rate_before_bytes_per_s: bytes_per_s,
        longest_stall_ns: longest_s * S,
        longest_command_ns: longest_s * S,
        dropped_7s: u64::from(longest_s > 7),
        dropped_30s: u64::from(longest_s > 30),
        disks: 1,
        ..Trajectory::default()
    }
}

/// The answer on one drive that takes this many times as long as conventional disks, before its sentences.
fn advice(multiple: f64, longest_s: u64) -> Advice {
    let (own, conventional) = (run(1e6, longest_s), run(1e6 * multiple, 0));
    let against = times(multiple);
    Advice {
        schema: 1,
        verdict: Verdict::Fine,
        text: String::new(),
        actions: Vec::new(),
        problems: Judged::new(&own, &against).problems,
        problems_at_ends: Problems::default(),
        range: None,
        compared: (own.clone(), against),
        array: None,
        present: vec![Present { load: LoadKind::Asked, depth: 1, own, conventional, against }],
        hardest: 0,
        remedies: Vec::new(),
        first_requests: None,
        complete: true,
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
        engine: Settings::default(),
        state: State::default(),
        scaled: None,
        seed: 1,
        version: "",
        commit: None,
    }
}

fn remedy(kind: ChangeKind, change: &str, effect: Effect, run: Trajectory, against: Comparison) -> Remedy {
    let problems = Judged::new(&run, &against).problems;
    Remedy {
        kind,
        change: change.into(),
        effect: Some(effect),
        problems: Some(problems),
        not_run: None,
        think_ns: None,
        time_scale: None,
        trajectory: Some(run),
        against: Some(against),
    }
}

fn answered(mut advice: Advice) -> Advice {
    words::answer(&mut advice, &Outcome::default(), &Outcome::default());
    advice
}

#[test]
fn the_answer_begins_with_the_worst_that_was_seen() {
    let begins = |advice: Advice| {
        let advice = answered(advice);
        (advice.verdict, advice.text.lines().next().unwrap().to_string())
    };
    assert_eq!(begins(advice(1.2, 1)), (Verdict::Fine, "No problem: it does 1 MB/s, CMR disks 1.2 MB/s.".into()));
    let (verdict, text) = begins(advice(1.8, 1));
    assert!(
        verdict == Verdict::SomewhatSlower && text.starts_with("Somewhat slower than CMR disks: it does"),
        "{text}"
    );
    let (verdict, text) = begins(advice(3.0, 1));
    assert_eq!((verdict, text.as_str()), (Verdict::Slow, "Slow: it does 1 MB/s, CMR disks 3 MB/s."));
    let (verdict, text) = begins(advice(3.0, 8));
    assert!(verdict == Verdict::Dropped && text.starts_with("A timeout of 7 s drops a disk: it does"), "{text}");
    let (_, text) = begins(advice(1.0, 31));
    assert!(text.starts_with("Timeouts of 7 s and 30 s drop a disk"), "{text}");
    let mut refused = advice(1.0, 1);
    refused.present[0].own.refused = 993;
    refused.problems.refused = true;
    let (verdict, text) = begins(refused);
    assert_eq!(verdict, Verdict::Refused);
    assert_eq!(text, "A host-managed disk would refuse 993 of these 1,000 requests; ignore the times.");
    let mut short = advice(9.0, 1);
    short.present[0].own.elapsed_ns = S;
    short.present[0].conventional.elapsed_ns = S / 9;
    let (verdict, text) = begins(short);
    assert!(verdict == Verdict::TooShort && text.starts_with("Too short to say: the whole load takes 1 s"), "{text}");
}

#[test]
fn an_end_of_the_range_with_a_problem_is_in_the_headline() {
    let mut at_risk = advice(1.2, 1);
    let slow = run(0.2e6, 8);
    at_risk.remedies.push(remedy(ChangeKind::Range, "mechanical.seek=high", Effect::Worsens, slow, times(6.0)));
    at_risk.remedies.push(remedy(ChangeKind::Range, "mechanical.seek=low", Effect::None, run(1.1e6, 1), times(1.1)));
    let at_risk = answered(at_risk);
    assert_eq!(at_risk.verdict, Verdict::Depends);
    assert_eq!(
        at_risk.text.lines().next().unwrap(),
        "Perhaps. As simulated it does 1 MB/s (the real drive perhaps 200 kB/s to 1.1 MB/s), CMR disks 1.2 MB/s; but some figures of this \
         drive are estimates, and at one end of them a timeout of 7 s drops a disk."
    );
    let mut close = advice(1.2, 1);
    close.remedies.push(remedy(ChangeKind::Range, "mechanical.seek=high", Effect::None, run(0.98e6, 1), times(1.3)));
    let close = answered(close);
    assert!(close.verdict == Verdict::Fine && close.range.is_none(), "{}", close.text);
    assert!(close.text.contains("none of them changes the answer"), "{}", close.text);
    let mut unknown = advice(1.2, 1);
    let not_run = Remedy {
        effect: None,
        not_run: Some(NotRun::Interrupted),
        trajectory: None,
        against: None,
        problems: None,
        ..remedy(ChangeKind::Range, "a.b=low", Effect::None, run(1.0, 1), times(1.0))
    };
    unknown.remedies.push(not_run);
    assert!(!answered(unknown).text.contains("none of them"), "the end that was not run may change it");
}

#[test]
fn the_best_row_is_the_fastest_of_those_that_leave_the_fewest_problems() {
    let mut all = advice(4.0, 1);
    for (kind, effect, multiple) in [
        (ChangeKind::Conventional, Effect::Fixes, 1.0),
        (ChangeKind::WriteSize, Effect::Fixes, 0.7),
        (ChangeKind::Idle, Effect::Fixes, 0.05),
        (ChangeKind::Chunk, Effect::Helps, 0.1),
        (ChangeKind::Range, Effect::Fixes, 0.01),
    ] {
        all.remedies.push(remedy(kind, "any", effect, run(1e6 / multiple, 1), times(multiple)));
    }
    assert_eq!(all.best(), Some(1));
    // A cure that is slower than what there is, as for long waits among fast requests, is none to be marked.
    all.compared.1 = times(0.6);
    assert_eq!(all.best(), Some(3));
    all.compared.1 = times(0.05);
    assert_eq!(all.best(), None);
    let text = screen::text(&answered(all), Screen { details: true, ..Screen::default() });
    let idle = text.lines().find(|line| line.starts_with("any, 0 % idle")).unwrap();
    assert!(idle.split_whitespace().any(|cell| cell == "-"), "pauses are another load, without a multiple: {idle}");
}

#[test]
fn the_course_says_when_the_cache_is_full() {
    let said = |fill: f64, cache: u64, cleans, full_at_s: Option<f64>| {
        let mut one = advice(3.0, 1);
        (one.system.cache_sectors, one.system.cleans) = (cache, cleans);
        one.present[0].own.cache_full_at_s = full_at_s;
        one.present[0].own.cache_full_after_bytes = full_at_s.map(|_| 7_000_000);
        let cache_fill = if cache > 0 { vec![0.1, 0.1, 0.1, 0.1, fill, 0.25] } else { Vec::new() };
        let timeline = Timeline { window_ns: S, cache_fill, ..Timeline::default() };
        words::answer(&mut one, &Outcome { timeline, ..Outcome::default() }, &Outcome::default());
        one.text.lines().nth(1).unwrap().to_string()
    };
    assert_eq!(said(0.9, 8, true, Some(4.0)), "The drive's cache is full after 4 s (7 MB written).");
    assert_eq!(said(0.89, 8, true, Some(4.0)), "Requests wait for cleaning after 4 s (7 MB written).");
    assert_eq!(said(0.0, 0, false, Some(4.0)), "Writes wait for rewriting after 4 s (7 MB written).");
    assert_eq!(said(0.0, 0, true, Some(0.0)), "Requests wait for cleaning from the first on.");
    assert_eq!(
        said(0.5, 8, true, None),
        "No request waits for cleaning. The load is over after 100 s (5 MB written); the drive's cache is 25 % full by then, and a \
         longer load may fill it."
    );
    assert_eq!(said(0.0, 0, false, None), "Nothing has to be rewritten within 100 s (5 MB written).");
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
    advice.problems.refused = pick(random, &[true, false, false, false, false, false]);
    let mut kinds = vec![
        (ChangeKind::Conventional, "CMR disks".to_string()),
        (ChangeKind::WriteCache, "write cache on (64 MB)".into()),
        (ChangeKind::Range, "mechanical.seek=low".into()),
    ];
    if load == LoadKind::Asked {
        kinds.extend([
            (ChangeKind::WriteSize, "writes of 64 KiB".to_string()),
            (ChangeKind::WriteSize, "writes of 4 MiB".into()),
            (ChangeKind::Idle, "pauses of 5 s".into()),
            (ChangeKind::Dedicated, "a disk for each source".into()),
            (ChangeKind::Chunk, "chunks of 4 MiB".into()),
        ]);
    }
    let others = advice.array.map(|array| array.rebuilds(bytes_per_s, asked.disk_bytes)).unwrap_or_default();
    kinds.extend(others.into_iter().map(|(_, kind, name)| (kind, name)));
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
    let keeps_copies = !["", "span", "raid0"].contains(&asked.array);
    let of = |is_kept: bool, rule| if is_kept { None } else { Some(rule) };
    if command.ends_with("/md/sync_speed_max") {
        let kib_per_s = number()?.max(1);
        let days = asked.disk_bytes as f64 / (kib_per_s * 1024) as f64 / 86_400.0;
        return of(!is_zfs, "ZFS has no md device")
            .or(of(asked.rebuild.is_some(), "there is nothing to hold back"))
            .or(of(kib_per_s >= 1000, "md does not go below sync_speed_min"))
            .or(of(days <= 7.5, "weeks without redundancy"));
    }
    if command.starts_with("zpool replace -s ") {
        let is_mirror = ["mirror", "raid1", "raid10"].contains(&asked.array);
        return of(is_zfs && is_mirror, "sequential reconstruction is for mirrors and dRAID")
            .or(of(asked.rebuild == Some("resilver"), "nothing is resilvered"));
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
    match command {
        "smartctl -l scterc,70,70 /dev/sdX" => of(keeps_copies, "a sector without a copy is given up"),
        "hdparm -W1 /dev/sdX" => None,
        _ => Some("no known command"),
    }
}

#[test]
fn no_advice_harms() {
    let (mut random, mut commands) = (47, BTreeMap::<String, u32>::new());
    for case in 0..500 {
        let (asked, advice) = made_up(&mut random);
        let what = format!("case {case}, {} {:?} {:?}: {:#?}", asked.array, asked.rebuild, asked.load, advice.actions);
        assert!(advice.problems.any() || advice.actions.is_empty(), "a cure for nothing: {what}");
        for action in &advice.actions {
            assert!(!action.cost.is_empty(), "at no price: {what}");
            assert!(!action.what.contains("Buy the drive"), "{what}");
            if let Some(command) = &action.command {
                assert!(!advice.problems.refused, "tuning for what is refused: {what}");
                assert_eq!(broken_rule(&asked, &advice, command), None, "{command}: {what}");
                let kind: String = command.chars().filter(|c| !c.is_ascii_digit()).collect();
                *commands.entry(kind).or_default() += 1;
            }
        }
        let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
        let said = advice.text.clone() + &advice.actions.iter().map(|action| action.what.clone()).collect::<String>();
        assert!(advice.array.is_none() || is_zfs || !said.contains("ZFS"), "{what}");
        assert!(!advice.text.contains("No problem") || !advice.problems.any(), "{}", advice.text);
        if asked.rebuild.is_some() && !matches!(advice.verdict, Verdict::Refused | Verdict::Depends) {
            assert_eq!(
                advice.text.contains("drop a disk") || advice.text.contains("drops a disk"),
                advice.problems.dropped_7s,
                "{}",
                advice.text
            );
        }
    }
    // The rules are worth something only if each kind of command was met.
    assert_eq!(commands.len(), 9, "{commands:#?}");
}

#[test]
fn the_checker_knows_advice_that_harms() {
    let asked = |array, rebuild| Asked {
        array,
        rebuild: Some(rebuild),
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
        ("raid0", "rebuild", "smartctl -l scterc,70,70 /dev/sdX"),
        ("raid5", "rebuild", "mdadm --zero-superblock /dev/sdX"),
    ] {
        assert!(broken_rule(&asked(array, rebuild), &advice, command).is_some(), "{array}: {command}");
    }
    assert_eq!(broken_rule(&asked("raid1", "rebuild"), &advice, "echo 42000 > /sys/block/mdX/md/sync_speed_max"), None);
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
    one.remedies.push(remedy(
        ChangeKind::Range,
        "a.b=low",
        Effect::None,
        Trajectory { rebuild: rebuilt(8.3), ..run(1.0, 4) },
        times(3.0),
    ));
    one.remedies.push(remedy(
        ChangeKind::Range,
        "a.b=high",
        Effect::None,
        Trajectory { rebuild: rebuilt(6.6), ..run(1.0, 4) },
        times(3.0),
    ));
    let one = answered(one);
    let lines: Vec<&str> = one.text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "The resilver of a 4 TB disk takes 7.8 days (the real drive perhaps 6.6 days to 8.3 days) while nobody uses it, 10.3 days in light \
             use; CMR disks take 16.8 h. Timeouts of 7 s and 30 s drop a disk.",
            "Nobody using it: 7.8 days (CMR 14.4 h), longest command 4 s; timeouts of 7 s and 30 s drop no disk.",
            "Light use (up to 20 requests a second of 4 KiB, half of them reads): 10.3 days (CMR 16.8 h), longest command 44 s; timeouts of \
             7 s and 30 s drop a disk.",
            "Simulated on 20 GB of each disk, and scaled up to all of it.",
        ]
    );
    assert!(
        one.actions.iter().any(|action| action.command.as_deref() == Some("echo 90 > /sys/block/sdX/device/timeout"))
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
    let tried = |name: &str, rebuild: &str, bytes_per_s: f64| -> Vec<ChangeKind> {
        facts(name, Some(rebuild))
            .rebuilds(bytes_per_s, 4_000_000_000_000)
            .into_iter()
            .map(|(_, kind, _)| kind)
            .collect()
    };
    use ChangeKind::{RebuildOrder, RebuildPieces, RebuildRecords, RebuildSpeed};
    assert_eq!(tried("raidz1", "resilver", 5e6), [RebuildPieces, RebuildRecords]);
    assert_eq!(tried("mirror", "resilver", 5e6), [RebuildPieces, RebuildRecords, RebuildOrder]);
    assert_eq!(tried("raid5", "rebuild", 8e7), [RebuildSpeed]);
    assert_eq!(tried("raid5", "rebuild", 5e6), [], "half of it would take more than a week");
    assert_eq!(tried("raidz1", "scrub", 8e7), [RebuildPieces]);
    let scrub = RebuildSpec::parse("scrub").unwrap();
    assert!(matches!(scrub.task, Task::Scrub));
}

#[test]
fn each_effect_has_its_word_for_each_kind_of_change() {
    use Effect::{Fixes, FixesSoFar, Helps, Mixed, Worsens};
    let words = |kind, is_problem| {
        [Fixes, FixesSoFar, Helps, Mixed, Effect::None, Worsens]
            .map(|effect| words::effect(is_problem, &remedy(kind, "any", effect, run(1.0, 1), times(1.0))))
    };
    let at_an_end = ["better", "better", "better", "mixed", "the same", "worse"];
    assert_eq!([true, false].map(|is_problem| words(ChangeKind::Range, is_problem)), [at_an_end; 2]);
    assert_eq!(words(ChangeKind::Idle, true), ["keeps up", "keeps up", "helps", "mixed", "does not help", "worse"]);
    assert_eq!(
        words(ChangeKind::Layer, true),
        ["fixes it", "fixes it so far", "helps", "mixed", "does not help", "worse"]
    );
    assert_eq!(
        words(ChangeKind::Layer, false),
        ["fixes it", "fixes it so far", "better", "mixed", "no difference", "worse"]
    );
}

#[test]
fn lines_fit_the_terminal_and_details_are_told_on_demand() {
    let mut one = advice(3.0, 1);
    one.remedies.push(remedy(ChangeKind::Conventional, "CMR disks", Effect::Fixes, run(3e6, 1), times(1.0)));
    one.remedies.push(remedy(
        ChangeKind::Range,
        "mechanical.write_cache_bytes=low",
        Effect::None,
        run(1e6, 1),
        times(3.0),
    ));
    let one = answered(one);
    for width in [80, 120] {
        for details in [false, true] {
            let text = screen::text(&one, Screen { width, details, is_coloured: false });
            assert!(
                text.lines().all(|line| line.chars().count() <= width || line.starts_with("   $ ")),
                "{width}:\n{text}"
            );
            assert_eq!(text.contains("drive at mech"), details, "{text}");
        }
    }
}
