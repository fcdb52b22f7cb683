//! Rebuilds, resilvers and scrubs alongside a workload: no byte is wrong, all time is accounted for, and they keep to what was asked.

use crate::common::count::count_from;
use crate::common::rebuilds::{LEVELS, MEMBERS, WRITE_CACHE, array, drive, member, mirror, rebuilt, run, small};
use proptest::prelude::*;
use smrkit::device::level::Level;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::error::Error;
use smrkit::settings::{Arrival, Settings, Warmup};
use smrkit::stats::rebuild::BusyTimes;

const LAYERS: [&str; 8] =
    ["in-place", "set-assoc", "s-block", "drive-managed", "vguard", "log", "dm-zoned", "zone-log"];

fn texts() -> impl Strategy<Value = String> {
    let order = prop_oneof![
        (1u64..200).prop_map(|sectors| format!("order=ascending,write={}", sectors * 512)),
        (1u64..64, 1u64..9).prop_map(|(record, run)| format!(
            "order=scattered,record={},run={}",
            record * 512,
            record * run * 512
        ))
    ];
    (order, 0u32..3, 1u32..9, 0u64..400, any::<bool>()).prop_map(|(order, disk, window, after, before)| {
        let failed = if before { "before" } else { "then" };
        format!("disk={disk},failed={failed},{order},window={window},after={after}")
    })
}

fn cases() -> u32 {
    count_from("SMRKIT_REBUILD_CASES", 8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Everything is read back at the end, and copies and parity are compared.
    #[test]
    fn no_byte_is_wrong_whoever_fails_and_whenever(
        level in prop::sample::select(LEVELS.to_vec()),
        layer in prop::sample::select(LAYERS.to_vec()),
        other in prop::sample::select(LAYERS.to_vec()),
        text in texts(),
        depth in 1u32..9,
        seed in any::<u64>(),
    ) {
        let members = (0..MEMBERS).map(|number| small(if number % 2 == 0 { layer } else { other })).collect();
        let mut array = array(level, members);
        array.chunk_sectors = 1 + seed % 64;
        let settings = Settings { check: true, depth, seed, ..Settings::default() };
        let workload = "mix:size=8Ki,count=1k,align=512,span=8M+random-write:size=20Ki,count=500,align=512,span=8M";
        let outcome = run(&array, settings, &text, Some(workload));
        let outcome = outcome.map_err(|error| TestCaseError::fail(format!("{level} {layer} {other} {text}: {error}")))?;
        let rebuild = outcome.rebuild.expect("it came to its end");
        prop_assert!(rebuild.bytes > 0 && rebuild.members.iter().filter(|member| member.new).count() == 1);
    }
}

#[test]
fn a_scrub_reads_all_of_every_member_and_finds_nothing_wrong() {
    for level in LEVELS {
        let array = array(level, (0..MEMBERS).map(|_| small("set-assoc")).collect());
        let settings = Settings { check: true, depth: 4, ..Settings::default() };
        let outcome =
            run(&array, settings, "scrub:read=64Ki,window=4,after=300", Some("mix:size=8Ki,count=900,span=8M"));
        let scrub = outcome.unwrap().rebuild.unwrap();
        let member = array.layout().unwrap().member_sectors(0) * 512;
        assert_eq!((scrub.bytes, scrub.pieces), (member, member.div_ceil(64 << 10)), "{level}");
        assert!(scrub.members.iter().all(|member| member.commands >= scrub.pieces && !member.new));
        assert!(scrub.longest_new_ns.is_none());
    }
}

/// All but the total.
fn parts(busy: &BusyTimes) -> [u64; 8] {
    let BusyTimes { host_read, host_write, map_read, map_write, destage_read, destage_write, .. } = *busy;
    [host_read, host_write, map_read, map_write, destage_read, destage_write, busy.clean_read, busy.clean_write]
}

#[test]
fn causes_sum_to_the_busy_time_and_to_its_excess() {
    let foreground = Some("mix:size=4Ki,count=20k");
    let of = |layer, buffers: &str| {
        rebuilt(
            &mirror(1000, member(drive(1000, buffers), layer, &[])),
            "disk=1,window=8,order=scattered,run=3MB",
            foreground,
        )
    };
    let (conventional, managed) = (of("in-place", ""), of("drive-managed", WRITE_CACHE));
    for rebuild in [&conventional, &managed] {
        for member in &rebuild.members {
            assert_eq!(member.busy_ns.total, parts(&member.busy_ns).iter().sum::<u64>());
        }
    }
    let [from, to] = [&conventional, &managed].map(|rebuild| rebuild.members[1].busy_ns);
    let causes: i128 = parts(&from).iter().zip(parts(&to)).map(|(from, to)| i128::from(to) - i128::from(*from)).sum();
    assert_eq!(causes, i128::from(to.total) - i128::from(from.total));
    assert!(to.map_write > 0 && to.destage_read > 0 && to.clean_read > 0 && to.clean_write > 0);
    assert_eq!((to.map_read, to.destage_write), (0, 0));
    assert!(conventional.foreground_ns.all.count > 0 && managed.foreground_ns.all.count > 0);
}

/// What the new disk held before is live to it until it is overwritten, so that it has to be cleaned out of the way.
#[test]
fn a_new_disk_that_was_filled_before_cleans() {
    let log = || mirror(5000, member(drive(5000, ""), "log", &[("spare_percent", "0.5")]));
    let moved = |new: &str| {
        let rebuild =
            rebuilt(&log(), &format!("disk=1,new={new},order=scattered,record=128KiB,run=1MB,window=4"), None);
        let busy = rebuild.members[1].busy_ns;
        busy.clean_read + busy.clean_write
    };
    assert_eq!(moved("empty"), 0);
    assert!(moved("full") > 0);
}

/// With nothing else to do the members' whole outcome is the rebuild's, and the host's time is none.
#[test]
fn without_a_workload_what_members_did_is_the_rebuild() {
    let array = mirror(1000, member(drive(1000, ""), "drive-managed", &[]));
    let outcome = run(&array, Settings::default(), "disk=1,window=2", None).unwrap();
    let rebuild = outcome.rebuild.unwrap();
    for (member, all) in rebuild.members.iter().zip(&outcome.members) {
        assert_eq!(member.busy_ns.total, all.busy_ns);
        assert_eq!(member.busy_ns.clean_read + member.busy_ns.clean_write, all.busy_by_cause_ns.clean);
        assert_eq!(member.commands, rebuild.pieces);
    }
    assert_eq!(outcome.members[1].host_written_sectors * 512, rebuild.bytes);
    assert_eq!(outcome.members[1].commands.host_write, rebuild.pieces);
    assert_eq!((outcome.requests, rebuild.foreground_ns.all.count), (0, 0));
    assert_eq!(rebuild.clean_ns, None, "the drive cleans nothing when idle");
}

#[test]
fn no_more_pieces_than_the_window_are_under_way() {
    let waited = |window: u32| {
        let array = mirror(20_000, member(drive(20_000, ""), "in-place", &[]));
        run(&array, Settings::default(), &format!("disk=1,window={window}"), None).unwrap().members[1].wait_ns
    };
    assert_eq!(waited(1), 0);
    assert!(waited(2) > 0);
}

#[test]
fn a_throttled_rebuild_keeps_its_rate_and_the_hosts_latency() {
    let of = |text: &str| {
        let array = mirror(4000, member(drive(4000, ""), "in-place", &[]));
        let settings = Settings { arrival: Arrival::Trace, ..Settings::default() };
        run(&array, settings, text, Some("random-read:size=4Ki,rate=5,count=100k")).unwrap().rebuild.unwrap()
    };
    let (free, slow) = (of("disk=1,write=128Ki,window=16"), of("disk=1,write=128Ki,window=16,rate=2M"));
    assert!(slow.bytes_per_s <= 2.01e6 && slow.bytes_per_s > 1.98e6, "{}", slow.bytes_per_s);
    assert!(free.bytes_per_s > 4e6);
    assert!(slow.foreground_ns.read.p99 < free.foreground_ns.read.p99);
    assert_eq!(slow.bytes, free.bytes);
}

#[test]
fn the_moments_of_failure_and_of_work_are_those_asked_for() {
    let array = mirror(20_000, member(drive(20_000, ""), "in-place", &[]));
    let settings = Settings { warmup: Warmup::Requests(100), depth: 2, ..Settings::default() };
    let of = |text: &str| run(&array, settings, text, Some("mix:size=4Ki,count=1k")).unwrap();
    let now = of("disk=1").rebuild.unwrap();
    assert_eq!((now.begin_ns, now.elapsed_ns), (0, now.work_ns));
    let later = of("disk=1,at=2s").rebuild.unwrap();
    assert_eq!((later.begin_ns, later.elapsed_ns), (2_000_000_000, later.work_ns));
    let degraded = of("disk=1,failed=before,at=2s").rebuild.unwrap();
    assert_eq!((degraded.begin_ns, degraded.elapsed_ns - degraded.work_ns), (0, 2_000_000_000));
    assert!(degraded.foreground_ns.all.count > now.foreground_ns.all.count);
    for rebuild in [&now, &later, &degraded] {
        let series = &rebuild.series;
        assert_eq!(series.bytes.iter().sum::<u64>(), rebuild.bytes);
        assert_eq!(series.bytes.len() as u64, rebuild.elapsed_ns / series.window_ns + 1, "from the failure to the end");
    }
    let counted = of("disk=1,after=300");
    let rebuild = counted.rebuild.as_ref().unwrap();
    let meanwhile = rebuild.foreground_ns.all.count;
    assert!(rebuild.members[0].commands < counted.members[0].requests - 100, "what came before is not counted");
    assert!(counted.requests.abs_diff(300 + meanwhile) <= 4, "{} and {meanwhile}", counted.requests);
    // The workload is over before that: then it begins.
    let alone = of("disk=1,after=1M");
    assert_eq!(alone.requests, 900);
    let alone = alone.rebuild.unwrap();
    assert_eq!(
        (alone.begin_ns, alone.foreground_ns.all.count),
        (of("disk=1,after=900").elapsed_ns.min(alone.begin_ns), 0)
    );
    let unwarmed = Settings { warmup: Warmup::Requests(5000), ..settings };
    assert!(run(&array, unwarmed, "disk=1", Some("mix:size=4Ki,count=1k")).unwrap().rebuild.is_some());
}

#[test]
fn the_work_begins_no_later_than_the_workload_ends() {
    let array = mirror(20_000, member(drive(20_000, ""), "in-place", &[]));
    let of = |settings, text: &str| {
        let outcome = run(&array, settings, text, Some("mix:size=4Ki,count=500")).unwrap();
        let rebuild = outcome.rebuild.expect("it came to its end");
        (outcome.requests, rebuild.begin_ns, rebuild.elapsed_ns, rebuild.work_ns)
    };
    for settings in [Settings::default(), Settings { warmup: Warmup::Requests(100), depth: 4, ..Settings::default() }] {
        for text in ["disk=1", "disk=1,failed=before", "scrub:read=1Mi"] {
            let last = of(settings, &format!("{text},after=1M"));
            let Warmup::Requests(warmup) = settings.warmup else { unreachable!("a number") };
            assert_eq!(last.0, 500 - warmup);
            for at in ["1h", "213503d", "213503.98d"] {
                assert_eq!(of(settings, &format!("{text},at={at}")), last, "{text} {at}");
            }
        }
    }
    // Nobody waits for it where there is nothing to wait for, not even for counting to begin.
    assert_eq!(run(&array, Settings::default(), "disk=1,at=1h", None).unwrap().rebuild.unwrap().begin_ns, 0);
    assert_eq!(of(Settings { warmup: Warmup::Requests(1000), ..Settings::default() }, "disk=1,at=1h").1, 0);
}

#[test]
fn what_would_go_on_for_centuries_is_refused_with_the_remedy() {
    let array = mirror(1, member(drive(1, ""), "in-place", &[]));
    for text in ["disk=1,write=64Mi,rate=100", "scrub:read=64Mi,rate=1"] {
        let error = run(&array, Settings::default(), text, Some("mix:size=4Ki,count=50")).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{text}: {error}");
        assert!(error.to_string().contains("raise its rate"), "{text}: {error}");
    }
}

#[test]
fn what_can_not_be_rebuilt_is_refused_with_the_remedy() {
    let part = || small("log");
    let of = |level, text: &str, check| {
        let settings = Settings { check, ..Settings::default() };
        let error =
            RebuildSpec::parse(text).unwrap().build(&array(level, vec![part(), part(), part(), part()]), &settings);
        error.err().expect("refused").to_string()
    };
    assert!(of(Level::Raid0, "disk=1", false).contains("use one of raid1"));
    assert!(of(Level::Raid5, "disk=4", false).contains("from 0 to 3"));
    assert!(of(Level::Raid5, "order=scattered,live=0.5", true).contains("leave out live"));
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_order_another() {
    let of = |seed| {
        let array = mirror(4000, member(drive(4000, WRITE_CACHE), "drive-managed", &[]));
        let settings = Settings { seed, depth: 3, ..Settings::default() };
        let spec = "disk=1,order=scattered,run=1M,live=0.8";
        run(&array, settings, spec, Some("mix:size=4Ki,count=5k")).unwrap()
    };
    let (first, other) = (of(1), of(2));
    assert_eq!(first, of(1));
    assert_ne!(first.rebuild, other.rebuild);
    let array = mirror(4000, member(drive(4000, ""), "drive-managed", &[]));
    let share = first.rebuild.unwrap().bytes as f64 / (array.layout().unwrap().member_sectors(1) * 512) as f64;
    assert!((0.7..0.9).contains(&share), "{share}");
}
