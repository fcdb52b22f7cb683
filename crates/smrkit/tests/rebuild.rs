//! Rebuilds, resilvers and scrubs beside a workload: no byte is wrong, all time is accounted for, and what decides shows.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use smrkit::array::level::{Level, WritePolicy};
use smrkit::array::{Command, Target};
use smrkit::disk::Recorder;
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::array_run::{ArrayRun, DriveRun, MemberRun};
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::engine::settings::{Arrival, Settings};
use smrkit::engine::{NoObserver, Observer};
use smrkit::error::Error;
use smrkit::layer;
use smrkit::request::{InMemory, Op, Source};
use smrkit::stats::outcome::Outcome;
use smrkit::stats::rebuild::{BusyTimes, Rebuild};
use smrkit::stats::timeline::{TimelineBuilder, WINDOW_FIRST};
use smrkit::tally::Access;
use smrkit::units::{Lba, Nanos};
use smrkit::workload::Workload;

/// A part of the 5 TB drive of the Vguard paper; with a write cache and read-ahead of its own, or without.
fn drive(part: u64, buffers: &str) -> Drive {
    let text = DRIVES.iter().find(|(name, _)| *name == "st5000as0011").unwrap().1;
    let text = text.replace("[mechanical]", &format!("[mechanical]\n{buffers}"));
    let drive = Drive::parse("drives/st5000as0011.toml".as_ref(), &text).unwrap();
    let sectors = drive.geometry.sectors() / part;
    drive.with_capacity(sectors).unwrap()
}

const READ_AHEAD: &str = "read_ahead_bytes = { value = 33554432, source = \"assumption: made for tests\" }\n";
const WRITE_CACHE: &str = "write_cache_bytes = { value = 67108864, source = \"assumption: made for tests\" }\n";
/// A write cache of the layer.
const CACHED: (&str, &str) = ("write_cache_bytes", "64M");

/// Parameters of a layer.
type Set<'a> = &'a [(&'a str, &'a str)];

fn member(drive: Drive, layer: &str, set: Set) -> MemberRun {
    let layer = layer::find(layer).unwrap();
    let set: Vec<(String, String)> = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let parameters = layer.resolve(&set).unwrap();
    MemberRun::Drive(Box::new(DriveRun { drive, layer, parameters }))
}

fn array(level: Level, members: Vec<MemberRun>) -> ArrayRun {
    ArrayRun { level, chunk_sectors: 1024, write: WritePolicy::Auto, members }
}

/// A mirror of a conventional drive that reads ahead and one that is to be rebuilt.
fn mirror(part: u64, new: MemberRun) -> ArrayRun {
    array(Level::Raid1, vec![member(drive(part, READ_AHEAD), "in-place", &[]), new])
}

fn run(array: &ArrayRun, settings: Settings, rebuild: &str, workload: Option<&str>) -> Result<Outcome, Error> {
    run_before(array, settings, rebuild, workload, &mut NoObserver)
}

fn run_before(
    array: &ArrayRun,
    settings: Settings,
    rebuild: &str,
    workload: Option<&str>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let span = array.host_sectors()?;
    let mut source: Box<dyn Source> = match workload {
        Some(text) => Workload::parse(text)?.source(span, settings.seed)?,
        None => Box::new(InMemory::new([])),
    };
    let mut chore = RebuildSpec::parse(rebuild)?.chore(array, &settings)?;
    let timeline = TimelineBuilder::growing(WINDOW_FIRST);
    array.execute(settings, source.as_mut(), &mut chore, observer, timeline)
}

fn rebuilt(array: &ArrayRun, rebuild: &str, workload: Option<&str>) -> Rebuild {
    run(array, Settings::default(), rebuild, workload).unwrap().rebuild.expect("it came to its end")
}

/// A conventional drive offers more than one with a persistent cache and guards: time is compared by the byte.
fn ns_per_byte(rebuild: &Rebuild) -> f64 {
    rebuild.elapsed_ns as f64 / rebuild.bytes as f64
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a / b - 1.0).abs() <= share
}

const LEVELS: [Level; 5] = [Level::Raid1, Level::Raid10 { copies: 2 }, Level::Raid4, Level::Raid5, Level::Raid6];
const LAYERS: [&str; 6] = ["in-place", "set-assoc", "s-block", "drive-managed", "vguard", "log"];

fn small(layer: &str) -> MemberRun {
    let sets: &[(&str, &str)] = match layer {
        "drive-managed" => {
            &[("write_cache_bytes", "64Ki"), ("bypass", "run"), ("bypass_bytes", "32Ki"), ("skip_unwritten", "on")]
        }
        "set-assoc" => &[("region_sectors", "200"), ("cache_percent", "10")],
        "s-block" => &[("sblock_sectors", "40"), ("spare_percent", "10"), ("cache_percent", "20")],
        _ => &[],
    };
    let tiny = Drive::load("tiny").unwrap().with_capacity(60_000).unwrap();
    let tiny = if layer == "in-place" { conventional(tiny) } else { tiny };
    member(tiny, layer, sets)
}

fn conventional(drive: Drive) -> Drive {
    drive.with_interference(smrkit::medium::interference::Interference::None).unwrap()
}

fn texts() -> impl Strategy<Value = String> {
    let order = prop_oneof![
        (1u64..200).prop_map(|sectors| format!("order=ascending,write={}", sectors * 512)),
        (1u64..64, 1u64..9, prop_oneof![Just(0u64), 1u64..99]).prop_map(|(record, run, sorted)| {
            format!("order=scattered,record={},run={},sorted={sorted}", record * 512, record * run * 512)
        })
    ];
    (order, 0u32..3, 1u32..9, 0u64..400, any::<bool>()).prop_map(|(order, disk, window, after, before)| {
        let failed = if before { "before" } else { "then" };
        format!("disk={disk},failed={failed},{order},window={window},after={after}")
    })
}

fn cases() -> u32 {
    std::env::var("SMRKIT_REBUILD_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(24)
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
        let members = (0..4).map(|number| small(if number % 2 == 0 { layer } else { other })).collect();
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
fn a_member_that_is_an_array_is_rebuilt_with_all_its_drives() {
    let striped = array(Level::Raid0, vec![small("log"), small("set-assoc")]);
    let mut both = array(Level::Raid1, vec![small("vguard"), MemberRun::Array(Box::new(striped))]);
    both.chunk_sectors = 64;
    let settings = Settings { check: true, depth: 4, ..Settings::default() };
    let workload = "mix:size=8Ki,count=2k,align=512,span=8M";
    let rebuild = run(&both, settings, "disk=1,write=40Ki,after=500", Some(workload)).unwrap().rebuild.unwrap();
    assert_eq!(rebuild.members.iter().map(|member| member.new).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(rebuild.bytes, both.host_sectors().unwrap() * 512);
}

#[test]
fn a_scrub_reads_all_of_every_member_and_finds_nothing_wrong() {
    for level in LEVELS {
        let array = array(level, (0..4).map(|_| small("set-assoc")).collect());
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

fn total(busy: &BusyTimes) -> u64 {
    busy.parts().iter().sum()
}

#[test]
fn busy_time_is_that_of_the_causes_to_the_nanosecond_and_so_is_its_difference_from_conventional() {
    let foreground = Some("mix:size=4Ki,count=20k");
    let of = |layer, set: &[(&str, &str)]| {
        rebuilt(
            &mirror(1000, member(drive(1000, ""), layer, set)),
            "disk=1,window=8,order=scattered,run=3MB",
            foreground,
        )
    };
    let (conventional, managed) = (of("in-place", &[]), of("drive-managed", &[CACHED]));
    for rebuild in [&conventional, &managed] {
        for member in &rebuild.members {
            assert_eq!(member.busy_ns.total, total(&member.busy_ns));
        }
    }
    let [from, to] = [&conventional, &managed].map(|rebuild| rebuild.members[1].busy_ns);
    let causes: i128 = from.parts().iter().zip(to.parts()).map(|(from, to)| i128::from(to) - i128::from(*from)).sum();
    assert_eq!(causes, i128::from(to.total) - i128::from(from.total));
    assert!(to.map_write > 0 && to.destage_read > 0 && to.clean_read > 0 && to.clean_write > 0);
    assert_eq!((to.map_read, to.destage_write), (0, 0));
    assert!(conventional.foreground_ns.all.count > 0 && managed.foreground_ns.all.count > 0);
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
fn with_a_bypass_a_sequential_rebuild_takes_as_long_as_a_conventional_one() {
    let set = [CACHED, ("bypass", "run"), ("skip_unwritten", "on")];
    for (level, disks) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let of = |layer, set: &[(&str, &str)]| {
            let array = array(level, (0..disks).map(|_| member(drive(100, ""), layer, set)).collect());
            ns_per_byte(&rebuilt(&array, "disk=1", None))
        };
        let (conventional, managed) = (of("in-place", &[]), of("drive-managed", &set));
        assert!(near(managed, conventional, 0.03), "{level}: {managed} against {conventional}");
    }
    // Both behind buffers of their own, so that reads and rotations don't decide.
    let buffers = format!("{READ_AHEAD}{WRITE_CACHE}");
    for (write, bypass, bytes) in [("512Ki", "command", "512Ki"), ("64Ki", "run", "1M")] {
        let of = |layer, set: &[(&str, &str)]| {
            let array = mirror(100, member(drive(100, &buffers), layer, set));
            ns_per_byte(&rebuilt(&array, &format!("disk=1,write={write}"), None))
        };
        let set = [("bypass", bypass), ("bypass_bytes", bytes), ("skip_unwritten", "on")];
        let (conventional, managed) = (of("in-place", &[]), of("drive-managed", &set));
        assert!(near(managed, conventional, 0.03), "{write}: {managed} against {conventional}");
    }
}

/// One access for what lies in a row. A band's guard costs a rotation, which counts for more the fewer pieces share it: for long
/// ones up to a rotation for the twenty of a band.
#[test]
fn without_a_write_cache_a_bypass_costs_guards_alone() {
    let of = |layer, set: &[(&str, &str)], order: &str| {
        ns_per_byte(&rebuilt(&mirror(200, member(drive(200, ""), layer, set)), &format!("disk=1,{order}"), None))
    };
    for window in [1, 32] {
        for (write, most) in [("32Ki", 0.002), ("512Ki", 0.02), ("1Mi", 0.03), ("4Mi", 0.04), ("32Mi", 0.05)] {
            let order = format!("write={write},window={window}");
            let conventional = of("in-place", &[], &order);
            for bypass in ["run", "command"].into_iter().filter(|bypass| write != "32Ki" || *bypass == "run") {
                let managed = of("drive-managed", &[("bypass", bypass), ("skip_unwritten", "on")], &order);
                assert!(near(managed, conventional, most), "{order} {bypass}: {managed} against {conventional}");
            }
        }
    }
}

/// What the platters do behind the write cache, the host does not wait for: the pieces under way don't decide.
#[test]
fn with_a_write_cache_neither_the_size_of_pieces_nor_their_number_decides() {
    let bypass = [CACHED, ("bypass", "run"), ("skip_unwritten", "on")];
    let of = |layer, buffers: &str, set: &[(&str, &str)], order: &str| {
        ns_per_byte(&rebuilt(&mirror(100, member(drive(100, buffers), layer, set)), &format!("disk=1,{order}"), None))
    };
    let large = of("drive-managed", "", &[CACHED], "write=512Ki,window=32");
    for order in ["write=512Ki,window=1", "write=64Ki,window=32"] {
        let logged = of("drive-managed", "", &[CACHED], order);
        assert!(near(logged, large, 0.02), "{order}: {logged} against {large}");
        let conventional = of("in-place", WRITE_CACHE, &[], order);
        let direct = of("drive-managed", "", &bypass, order);
        assert!(near(direct, conventional, 0.03), "{order}: {direct} against {conventional}");
    }
}

/// Cleaning that is due goes before runs of the write cache, and commands wait for room alone.
#[test]
fn behind_a_write_cache_no_command_waits_for_several_episodes() {
    let set = [CACHED, ("bypass", "run"), ("skip_unwritten", "on")];
    let array = mirror(200, member(drive(200, ""), "drive-managed", &set));
    let rebuild = rebuilt(&array, "disk=1,order=scattered,record=44Ki,run=3MB,window=32", None);
    assert!(rebuild.members[1].busy_ns.clean_write > 0 && !rebuild.dropped, "{:?}", rebuild.longest_new_ns);
}

#[test]
fn with_long_runs_and_a_write_cache_map_and_cleaning_explain_what_is_more() {
    let spec = "disk=1,order=scattered,record=128Ki,run=64M";
    let conventional = rebuilt(&mirror(100, member(drive(100, WRITE_CACHE), "in-place", &[])), spec, None);
    let managed = rebuilt(&mirror(100, member(drive(100, ""), "drive-managed", &[CACHED])), spec, None);
    let busy = managed.members[1].busy_ns;
    let explained = busy.total - busy.host_read - busy.host_write;
    let more = (ns_per_byte(&managed) - ns_per_byte(&conventional)) * managed.bytes as f64;
    assert!(near(explained as f64, more, 0.1), "{explained} of {more}");
}

#[test]
fn a_drive_of_a_tenth_takes_a_tenth_of_the_time() {
    let bypass = [CACHED, ("bypass", "run"), ("skip_unwritten", "on")];
    // Behind a write cache the pieces' size does not decide.
    let large = "disk=1,write=4Mi";
    for (part, set, spec) in [(10, &[][..], "disk=1"), (4, &[CACHED][..], large), (10, &bypass[..], large)] {
        let of = |part| rebuilt(&mirror(part, member(drive(part, ""), "drive-managed", set)), spec, None);
        let (whole, tenth) = (of(part), of(10 * part));
        let ratio = whole.elapsed_ns as f64 / tenth.elapsed_ns as f64;
        assert!(near(ratio, 10.0, 0.01), "{set:?}: {ratio}");
    }
}

#[test]
fn the_longest_command_grows_with_the_commands_outstanding_and_a_timeout_with_it() {
    let of = |window: u32| {
        let array = mirror(400, member(drive(400, ""), "drive-managed", &[]));
        rebuilt(&array, &format!("disk=1,order=scattered,record=128Ki,window={window}"), None)
    };
    let [one, ten, many] = [1, 10, 32].map(of);
    let longest = |rebuild: &Rebuild| rebuild.longest_new_ns.unwrap();
    assert!(longest(&one) < longest(&ten) && longest(&ten) < longest(&many));
    assert!(!one.dropped && many.dropped, "{} {}", longest(&one), longest(&many));
    let new = many.members[1];
    assert_eq!((many.dropped_7s, many.dropped_30s), (new.commands_over_7s > 0, new.commands_over_30s > 0));
}

#[test]
fn commands_are_answered_from_a_write_cache_and_no_flush_is_sent() {
    let of = |set: &[(&str, &str)]| {
        let array = mirror(2000, member(drive(2000, ""), "drive-managed", set));
        run(&array, Settings::default(), "disk=1,window=1", None).unwrap()
    };
    let (through, cached) = (of(&[]), of(&[CACHED]));
    // Some wait for room; most take hardly any time.
    let most = |outcome: &Outcome| outcome.members[1].latency_ns.write.p50;
    assert!(most(&through) > 20_000_000 && most(&cached) < 1_000_000, "{} {}", most(&through), most(&cached));
    // What the buffer still holds at the end is not on the platters.
    let written = |outcome: &Outcome| outcome.members[1].physical_written_sectors.host;
    assert!(written(&cached) < written(&through));
    assert!(cached.members[1].timeline.gauges["write_cache_sectors"].last().unwrap() > &0.0);
    let commands = &cached.members[1].commands;
    assert_eq!(commands.host_write, cached.members[1].requests);
}

#[test]
fn a_drive_that_cleans_when_idle_is_clean_in_the_end() {
    let of = |set: &[(&str, &str)]| {
        rebuilt(&mirror(2000, member(drive(2000, ""), "drive-managed", set)), "disk=1,window=4", None)
    };
    let cleans = of(&[("idle_clean", "on")]);
    assert!(cleans.clean_ns.unwrap() > cleans.elapsed_ns);
    assert_eq!(of(&[("idle_clean", "off")]).clean_ns, None);
    let conventional = rebuilt(&mirror(2000, member(drive(2000, ""), "in-place", &[])), "disk=1", None);
    assert_eq!(conventional.clean_ns, Some(conventional.elapsed_ns));
}

#[test]
fn bands_never_written_are_not_read_by_cleaning() {
    let of = |skip: &str| {
        let set = [CACHED, ("skip_unwritten", skip)];
        rebuilt(&mirror(400, member(drive(400, ""), "drive-managed", &set)), "disk=1", None).members[1].busy_ns
    };
    let (off, on) = (of("off"), of("on"));
    assert!(on.clean_read < off.clean_read / 10, "{} of {}", on.clean_read, off.clean_read);
}

#[test]
fn the_rate_is_kept_to_and_a_throttled_rebuild_leaves_the_host_its_latency() {
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
    let settings = Settings { warmup: 100, depth: 2, ..Settings::default() };
    let of = |text: &str| run(&array, settings, text, Some("mix:size=4Ki,count=1k")).unwrap();
    let now = of("disk=1").rebuild.unwrap();
    assert_eq!((now.begin_ns, now.elapsed_ns), (0, now.work_ns));
    let later = of("disk=1,at=2s").rebuild.unwrap();
    assert_eq!((later.begin_ns, later.elapsed_ns), (2_000_000_000, later.work_ns));
    let degraded = of("disk=1,failed=before,at=2s").rebuild.unwrap();
    assert_eq!((degraded.begin_ns, degraded.elapsed_ns - degraded.work_ns), (0, 2_000_000_000));
    assert!(degraded.foreground_ns.all.count > now.foreground_ns.all.count);
    for rebuild in [&now, &later, &degraded] {
        let course = &rebuild.course;
        assert_eq!(course.bytes.iter().sum::<u64>(), rebuild.bytes);
        assert_eq!(course.bytes.len() as u64, rebuild.elapsed_ns / course.window_ns + 1, "from the failure to the end");
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
    let unwarmed = Settings { warmup: 5000, ..settings };
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
    for settings in [Settings::default(), Settings { warmup: 100, depth: 4, ..Settings::default() }] {
        for text in ["disk=1", "disk=1,failed=before", "scrub:read=1Mi"] {
            let last = of(settings, &format!("{text},after=1M"));
            assert_eq!(last.0, 500 - settings.warmup);
            for at in ["1h", "213503d", "213503.98d"] {
                assert_eq!(of(settings, &format!("{text},at={at}")), last, "{text} {at}");
            }
        }
    }
    // Nobody waits for it where there is nothing to wait for, not even for counting to begin.
    assert_eq!(run(&array, Settings::default(), "disk=1,at=1h", None).unwrap().rebuild.unwrap().begin_ns, 0);
    assert_eq!(of(Settings { warmup: 1000, ..Settings::default() }, "disk=1,at=1h").1, 0);
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

/// Accesses of all drives, with the drive's number.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<(usize, Access)>>>);

struct OfDrive(usize, Witness);

impl Recorder for OfDrive {
    fn access(&mut self, access: &Access) {
        self.1.0.lock().unwrap().push((self.0, *access));
    }
}

impl Observer for Witness {
    fn recorder(&mut self, drive: usize) -> Option<Box<dyn Recorder>> {
        Some(Box::new(OfDrive(drive, self.clone())))
    }
}

#[test]
fn a_member_that_failed_before_is_missing_until_the_work_begins() {
    for level in LEVELS {
        for disk in 0..4 {
            let array = array(level, (0..4).map(|_| small("in-place")).collect());
            let settings = Settings { check: true, depth: 4, ..Settings::default() };
            let mut witness = Witness::default();
            let spec = format!("disk={disk},failed=before,after=300");
            let workload = Some("mix:size=8Ki,count=600,write_share=0.7,span=8M");
            let rebuild = run_before(&array, settings, &spec, workload, &mut witness).unwrap().rebuild.unwrap();
            let begun = rebuild.elapsed_ns - rebuild.work_ns;
            assert!(begun > 0 && rebuild.begin_ns == 0);
            let accesses = witness.0.lock().unwrap();
            let degraded = |number| accesses.iter().filter(|a| a.0 == number && a.1.start.0 < begun).count();
            for number in 0..4 {
                assert_eq!(degraded(number) == 0, number == disk, "{level}: drive {number} without {disk}");
            }
        }
    }
}

#[test]
fn for_a_missing_parity_nothing_is_read() {
    let array = array(Level::Raid4, (0..4).map(|_| small("in-place")).collect());
    let mut witness = Witness::default();
    let (spec, workload) = ("disk=3,failed=before,after=200", Some("random-write:size=4Ki,count=300,span=8M"));
    let rebuild = run_before(&array, Settings::default(), spec, workload, &mut witness).unwrap().rebuild.unwrap();
    let begun = rebuild.elapsed_ns - rebuild.work_ns;
    let accesses = witness.0.lock().unwrap();
    assert!(accesses.iter().all(|(_, access)| access.write || access.start.0 >= begun));
}

/// A write that has read what it needs leaves out a member that failed meanwhile.
#[test]
fn a_write_under_way_leaves_out_what_failed() {
    for failed in 0..2 {
        let array = array(Level::Raid4, (0..3).map(|_| small("in-place")).collect());
        let mut array = array.build(&Settings { check: true, ..Settings::default() }).unwrap();
        let words = vec![7; 8];
        let command = Command {
            tag: 3,
            op: Op::Write,
            lba: Lba(0),
            sectors: 8,
            source: 0,
            arrival: Nanos::ZERO,
            host: true,
            words,
        };
        array.submit(command).unwrap();
        // Of the first unit and the parity, which the second unit is read for.
        let failed = [0, 2][failed];
        array.fail(failed);
        let mut more = Vec::new();
        let answer = (0..10).find_map(|_| {
            array.resume().unwrap();
            array.advance(&mut more).unwrap()
        });
        assert_eq!(answer.map(|answer| answer.tag), Some(3));
        let commands: Vec<u64> = array.stations().iter().map(|station| station.watched().commands).collect();
        assert_eq!(commands[failed as usize], 0, "{commands:?}");
        assert_eq!(commands.iter().sum::<u64>(), 2, "a read and a write: {commands:?}");
    }
}

#[test]
fn what_can_not_be_rebuilt_is_refused_with_the_remedy() {
    let part = || small("log");
    let of = |level, text: &str, check| {
        let settings = Settings { check, ..Settings::default() };
        let error =
            RebuildSpec::parse(text).unwrap().chore(&array(level, vec![part(), part(), part(), part()]), &settings);
        error.err().expect("refused").to_string()
    };
    assert!(of(Level::Raid0, "disk=1", false).contains("use raid1"));
    assert!(of(Level::Raid5, "disk=4", false).contains("from 0 to 3"));
    assert!(of(Level::Raid5, "order=scattered,live=0.5", true).contains("leave out live"));
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_order_another() {
    let of = |seed| {
        let array = mirror(4000, member(drive(4000, ""), "drive-managed", &[CACHED]));
        let settings = Settings { seed, depth: 3, ..Settings::default() };
        let spec = "disk=1,order=scattered,run=1M,live=0.8,sorted=100";
        run(&array, settings, spec, Some("mix:size=4Ki,count=5k")).unwrap()
    };
    let (first, other) = (of(1), of(2));
    assert_eq!(first, of(1));
    assert_ne!(first.rebuild, other.rebuild);
    let array = mirror(4000, member(drive(4000, ""), "drive-managed", &[]));
    let share = first.rebuild.unwrap().bytes as f64 / (array.layout().unwrap().member_sectors(1) * 512) as f64;
    assert!((0.7..0.9).contains(&share), "{share}");
}

/// The figures of `docs/arrays.md`: `SMRKIT_REBUILD_FIGURES=10` rebuilds a tenth of 5 TB in each way (in release, minutes),
/// 1 all of it; `SMRKIT_REBUILD_ONLY` chooses lines by a part of their names, `SMRKIT_REBUILD_BESIDE` is a workload that comes by
/// its own times.
#[test]
fn figures() {
    let Some(part) = std::env::var("SMRKIT_REBUILD_FIGURES").ok().and_then(|text| text.parse::<u64>().ok()) else {
        println!("skipped: SMRKIT_REBUILD_FIGURES is not set");
        return;
    };
    let only = std::env::var("SMRKIT_REBUILD_ONLY").unwrap_or_default();
    let beside = std::env::var("SMRKIT_REBUILD_BESIDE").ok();
    let settings = Settings { arrival: Arrival::Trace, ..Settings::default() };
    let bypass = [CACHED, ("bypass", "run"), ("skip_unwritten", "on")];
    let kinds: [(&str, &str, &str, Set); 5] = [
        ("conventional", "in-place", "", &[]),
        ("conventional, write cache", "in-place", WRITE_CACHE, &[]),
        ("drive-managed", "drive-managed", "", &[]),
        ("drive-managed, write cache", "drive-managed", "", &[CACHED]),
        ("drive-managed, write cache, bypass", "drive-managed", "", &bypass),
    ];
    let orders = [
        "write=512Ki,window=1",
        "write=512Ki,window=32",
        "write=32Ki,window=1",
        "write=32Ki,window=32",
        "write=32Ki,window=256",
        "order=scattered,record=128Ki,window=1",
        "order=scattered,record=128Ki,window=10",
        "order=scattered,record=128Ki,window=32",
        "order=scattered,record=44Ki,run=3MB,window=32",
    ];
    for order in orders {
        for (name, layer, buffers, set) in kinds {
            if !format!("{order} {name}").contains(&only) {
                continue;
            }
            let start = std::time::Instant::now();
            let array = mirror(part, member(drive(part, buffers), layer, set));
            let outcome = run(&array, settings, &format!("disk=1,{order}"), beside.as_deref());
            let rebuild = outcome.unwrap().rebuild.expect("it came to its end");
            let busy = rebuild.members[1].busy_ns;
            // For 5 TB.
            let hours = |ns: u64| Nanos(ns).as_secs() / 3600.0 * 5e12 / rebuild.bytes as f64;
            println!(
                "{order} | {name}: {:.1} h; host {:.1} map {:.1} log read {:.1} band read {:.1} written {:.1}; longest {:.2} s; over 7 s {}; host's 99 % {:.2} s; {:.1} s",
                hours(rebuild.elapsed_ns),
                hours(busy.host_write),
                hours(busy.map_write),
                hours(busy.destage_read),
                hours(busy.clean_read),
                hours(busy.clean_write),
                rebuild.longest_new_ns.unwrap_or(0) as f64 / 1e9,
                rebuild.members[1].commands_over_7s,
                rebuild.foreground_ns.all.p99 as f64 / 1e9,
                start.elapsed().as_secs_f64(),
            );
        }
    }
}
