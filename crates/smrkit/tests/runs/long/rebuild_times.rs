//! Causes of a rebuild's time, and of its longest command: layer, order, pieces, caches and bypasses.

use crate::common::rebuilds::{READ_AHEAD, WRITE_CACHE, array, drive, member, mirror, rebuilt, run};
use smrkit::device::level::Level;
use smrkit::settings::Settings;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::rebuild::Rebuild;

/// A conventional drive offers more than one with a persistent cache and guards: time is compared by the byte.
fn ns_per_byte(rebuild: &Rebuild) -> f64 {
    rebuild.elapsed_ns as f64 / rebuild.bytes as f64
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a / b - 1.0).abs() <= share
}

#[test]
fn a_sequential_rebuild_with_bypass_takes_the_conventional_time() {
    let set = [("bypass", "run"), ("skip_unwritten", "on")];
    for (level, disks) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let of = |layer, buffers: &str, set: &[(&str, &str)]| {
            let array = array(level, (0..disks).map(|_| member(drive(100, buffers), layer, set)).collect());
            ns_per_byte(&rebuilt(&array, "disk=1", None))
        };
        let (conventional, managed) = (of("in-place", "", &[]), of("drive-managed", WRITE_CACHE, &set));
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
        // The guard of each band costs a rotation.
        assert!(near(managed, conventional, 0.06), "{write}: {managed} against {conventional}");
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

/// The host does not wait for the platters behind the write cache: the pieces under way don't decide.
#[test]
fn with_a_write_cache_neither_size_nor_number_of_pieces_decides() {
    let bypass = [("bypass", "run"), ("skip_unwritten", "on")];
    let of = |layer, buffers: &str, set: &[(&str, &str)], order: &str| {
        ns_per_byte(&rebuilt(&mirror(100, member(drive(100, buffers), layer, set)), &format!("disk=1,{order}"), None))
    };
    let large = of("drive-managed", WRITE_CACHE, &[], "write=512Ki,window=32");
    for order in ["write=512Ki,window=1", "write=64Ki,window=32"] {
        let logged = of("drive-managed", WRITE_CACHE, &[], order);
        assert!(near(logged, large, 0.02), "{order}: {logged} against {large}");
        let conventional = of("in-place", WRITE_CACHE, &[], order);
        let direct = of("drive-managed", WRITE_CACHE, &bypass, order);
        assert!(near(direct, conventional, 0.06), "{order}: {direct} against {conventional}");
    }
}

/// Cleaning that is due goes before runs of the write cache, and commands wait for room alone.
#[test]
fn behind_a_write_cache_no_command_waits_for_several_episodes() {
    let set = [("bypass", "run"), ("skip_unwritten", "on")];
    let array = mirror(200, member(drive(200, WRITE_CACHE), "drive-managed", &set));
    let rebuild = rebuilt(&array, "disk=1,order=scattered,record=44Ki,run=3MB,window=32", None);
    assert!(rebuild.members[1].busy_ns.clean_write > 0 && !rebuild.dropped, "{:?}", rebuild.longest_new_ns);
}

#[test]
fn with_long_runs_map_and_cleaning_explain_the_excess() {
    let spec = "disk=1,order=scattered,record=128Ki,run=64M";
    let conventional = rebuilt(&mirror(100, member(drive(100, WRITE_CACHE), "in-place", &[])), spec, None);
    let managed = rebuilt(&mirror(100, member(drive(100, WRITE_CACHE), "drive-managed", &[])), spec, None);
    let busy = managed.members[1].busy_ns;
    let explained = busy.total - busy.host_read - busy.host_write;
    let more = (ns_per_byte(&managed) - ns_per_byte(&conventional)) * managed.bytes as f64;
    assert!(near(explained as f64, more, 0.1), "{explained} of {more}");
}

#[test]
fn a_drive_of_a_tenth_takes_a_tenth_of_the_time() {
    let bypass = [("bypass", "run"), ("skip_unwritten", "on")];
    // Behind a write cache the pieces' size does not decide.
    let large = "disk=1,write=4Mi";
    let cases = [(10, "", &[][..], "disk=1"), (4, WRITE_CACHE, &[], large), (10, WRITE_CACHE, &bypass, large)];
    for (part, buffers, set, spec) in cases {
        let of = |part| rebuilt(&mirror(part, member(drive(part, buffers), "drive-managed", set)), spec, None);
        let (whole, tenth) = (of(part), of(10 * part));
        let ratio = whole.elapsed_ns as f64 / tenth.elapsed_ns as f64;
        assert!(near(ratio, 10.0, 0.01), "{set:?}: {ratio}");
    }
}

#[test]
fn the_longest_command_grows_with_the_commands_outstanding() {
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
    let of = |buffers| {
        let array = mirror(400, member(drive(400, buffers), "drive-managed", &[]));
        run(&array, Settings::default(), "disk=1,window=1", None).unwrap()
    };
    let (through, cached) = (of(""), of(WRITE_CACHE));
    // Each waits for as much room as it needs, which the platters make at the rate of long runs.
    let most = |outcome: &Outcome| outcome.members[1].latency_ns.write.p50;
    assert!(most(&through) > 20_000_000 && most(&cached) < most(&through), "{} {}", most(&through), most(&cached));
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
        let set = [("skip_unwritten", skip)];
        rebuilt(&mirror(400, member(drive(400, WRITE_CACHE), "drive-managed", &set)), "disk=1", None).members[1].busy_ns
    };
    let (off, on) = (of("off"), of("on"));
    assert!(on.clean_read < off.clean_read / 10, "{} of {}", on.clean_read, off.clean_read);
}
