//! The exact numbers of Cassuto et al. 2010, section IV: Table I's accounting, its times, its read-modify-writes.

use crate::common::planned::{self, serve, with};
use smrkit::disk::Disk;
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::system::System;
use smrkit::layer::Scalar;
use smrkit::medium::{Buf, Medium};
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::tally::{Cause, adjusted};
use smrkit::units::{Nanos, Pba};

/// Table I: commands, sectors, adjusted commands.
const LBA_READS: [u64; 3] = [435_285, 8_394_244, 435_565];
const LBA_WRITES: [u64; 3] = [75_615, 2_889_969, 75_615];
const PBA_READS: [u64; 3] = [438_758, 112_343_297, 542_968];
const PBA_WRITES: [u64; 3] = [77_713, 105_787_800, 180_613];

/// Table I decoded: regions rewritten, collections, host commands split.
const REWRITES: u64 = 2058;
const COLLECTIONS: u64 = 21;
const READ_SPLITS: u64 = 1394;
const WRITE_SPLITS: u64 = 40;

struct Replay {
    disk: Disk,
}

impl Replay {
    fn new() -> Replay {
        Replay { disk: Disk::new(&Drive::load("cassuto-table1").unwrap(), Medium::NoData) }
    }

    /// `commands` accesses of together `sectors`, as equal as can be.
    fn access(&mut self, write: bool, cause: Cause, commands: u64, sectors: u64) {
        for i in 0..commands {
            let n = sectors / commands + u64::from(i < sectors % commands);
            match write {
                true => self.disk.write(Pba(0), n, cause, &Buf::NoData, 0),
                false => self.disk.read(Pba(0), n, cause, &mut Buf::NoData, 0),
            }
            .unwrap();
        }
    }

    /// Commands, sectors and adjusted commands of all causes.
    fn counts(&self, write: bool) -> [u64; 3] {
        let counters = Cause::ALL.map(|cause| match write {
            true => *self.disk.tally().writes(cause),
            false => *self.disk.tally().reads(cause),
        });
        [
            counters.iter().map(|c| c.commands).sum(),
            counters.iter().map(|c| c.sectors).sum(),
            counters.iter().map(|c| c.adjusted).sum(),
        ]
    }

    fn seconds(&self) -> f64 {
        self.disk.tally().busy().as_secs()
    }
}

/// The non-shingled column: 280 reads of 1,000 sectors or more make its adjusted count.
fn non_shingled() -> Replay {
    let mut replay = Replay::new();
    replay.access(false, Cause::Host, 280, 280 * 1024);
    replay.access(false, Cause::Host, LBA_READS[0] - 280, LBA_READS[1] - 280 * 1024);
    replay.access(true, Cause::Host, LBA_WRITES[0], LBA_WRITES[1]);
    replay
}

/// The other column, from its decoding: 20 of the 21 cache regions were collected when the next write did not fit.
fn set_associative() -> Replay {
    let mut replay = Replay::new();
    let region = 50_000;
    let host_read = PBA_READS[1] - (REWRITES + 1) * region - 20 * 49_952;
    replay.access(false, Cause::Clean, REWRITES, REWRITES * region);
    replay.access(false, Cause::Destage, 1, region);
    replay.access(false, Cause::Destage, COLLECTIONS - 1, (COLLECTIONS - 1) * 49_952);
    replay.access(false, Cause::Host, 280, 280 * 1024);
    replay.access(false, Cause::Host, LBA_READS[0] + READ_SPLITS - 280, host_read - 280 * 1024);
    replay.access(true, Cause::Clean, REWRITES, REWRITES * region);
    replay.access(true, Cause::Host, LBA_WRITES[0] + WRITE_SPLITS, PBA_WRITES[1] - REWRITES * region);
    replay
}

#[test]
fn a_command_counts_as_one_more_than_its_whole_thousands() {
    assert_eq!([1, 999, 1000, 1001, 49_999, 50_000].map(adjusted), [1, 1, 2, 2, 50, 51]);
}

#[test]
fn table_1_decodes_into_rewrites_read_backs_and_splits() {
    let (plain, shingled) = (non_shingled(), set_associative());
    assert_eq!((plain.counts(false), plain.counts(true)), (LBA_READS, LBA_WRITES));
    assert_eq!((shingled.counts(false), shingled.counts(true)), (PBA_READS, PBA_WRITES));
    assert_eq!(REWRITES * adjusted(50_000) + WRITE_SPLITS, 104_998);
    assert_eq!(PBA_WRITES[2] - LBA_WRITES[2], 104_998);
    assert_eq!(PBA_READS[2] - LBA_READS[2], 107_403);
    assert_eq!(PBA_READS[0] - LBA_READS[0], REWRITES + COLLECTIONS + READ_SPLITS);
    assert_eq!(PBA_READS[0] - LBA_READS[0], 3473);
}

#[test]
fn table_1_gives_its_write_overloading_and_slowdown() {
    let (plain, shingled) = (non_shingled(), set_associative());
    let excess = shingled.counts(true)[2] + shingled.counts(false)[2] - plain.counts(false)[2];
    assert_eq!(format!("{:.3}", excess as f64 / plain.counts(true)[2] as f64), "3.809");
    assert_eq!(format!("{:.3}", shingled.seconds() / plain.seconds()), "3.486");
}

#[test]
fn table_1_replayed_as_counts_takes_its_own_times() {
    assert_eq!(format!("{:.2}", non_shingled().seconds()), "623.24");
    assert_eq!(format!("{:.2}", set_associative().seconds()), "2172.81");
}

/// `cassuto-table1` under `workload`, with the layer's defaults but for `set`.
fn simulate(name: &str, set: &[(&str, &str)], workload: &str, settings: Settings) -> Outcome {
    let system = System { window: Some(Nanos(10_000_000_000)), ..System::drive("cassuto-table1") };
    let run = with(system, name, set).run(settings).unwrap();
    serve(&run, &planned::workload(workload), &mut NoObserver).unwrap()
}

/// A simulation's write overloading is definition 4 over its own counts, and its time the clock's over its own counts.
#[test]
fn a_simulated_table_1_obeys_the_same_accounting() {
    let outcome = simulate("set-assoc", &[], "cassuto-pc", Settings::default());
    let (regions, collections) = (stat(&outcome, "bands_cleaned"), stat(&outcome, "collections"));
    assert!(regions > 1500 && collections > 15, "{regions} regions, {collections} collections");
    let adjusted = outcome.adjusted;
    assert_eq!([adjusted.host_read, adjusted.host_write], [LBA_READS[2], LBA_WRITES[2]]);
    let excess = adjusted.physical_write + adjusted.physical_read - adjusted.host_read;
    assert_eq!(outcome.write_overloading, Some(excess as f64 / adjusted.host_write as f64));
    let commands = outcome.commands;
    let splits = commands.physical_write - commands.host_write - regions;
    assert_eq!(adjusted.physical_write - adjusted.host_write, regions * 51 + splits);
    assert_eq!(outcome.physical_read_sectors.clean, regions * 50_000);
    assert_eq!(outcome.physical_read_sectors.destage, collections * 50_000);
    let sectors = outcome.physical_read_sectors.total + outcome.physical_written_sectors.total;
    let all = (commands.physical_read + commands.physical_write) as f64;
    let seconds = all * 1.055052349e-3 + sectors as f64 * 7.462971e-6;
    assert!((outcome.busy_ns as f64 / 1e9 - seconds).abs() < 0.001, "{} against {seconds}", outcome.busy_ns);
}

fn stat(outcome: &Outcome, key: &str) -> u64 {
    match outcome.layer_stats.get(key) {
        Some(Scalar::Int(value)) => *value,
        other => panic!("{key} is {other:?}"),
    }
}

#[test]
fn a_rewrite_for_4_kb_costs_12_500_times_sectors_and_671_times_time() {
    let settings = Settings { prefill: Prefill::Sequential, ..Settings::default() };
    let plain = simulate("in-place", &[], "random-write:count=200", settings);
    let rmw = simulate("rmw", &[("portion", "region")], "random-write:count=200", settings);
    let moved = rmw.physical_read_sectors.total + rmw.physical_written_sectors.total;
    assert_eq!(moved, 12_500 * rmw.host_written_sectors);
    let (s, b) = (1.055052349, 7.462971e-3);
    let closed = (2.0 * s + 100_000.0 * b) / (s + 8.0 * b);
    let ours = rmw.elapsed_ns as f64 / plain.elapsed_ns as f64;
    assert!((ours / closed - 1.0).abs() < 1e-6 && ours.round() == 671.0, "{ours} against {closed}");
}

/// 120 caches of 6,250 writes, 600 of 1,250: the fullest is full before the average.
#[test]
fn the_first_collection_comes_when_the_fullest_cache_is_full() {
    for (region, low, high) in [("50000", 0.95, 1.0), ("10000", 0.88, 0.95)] {
        for seed in 1..=5 {
            let settings = Settings { seed, ..Settings::default() };
            let outcome = simulate("set-assoc", &[("region_sectors", region)], "random-write:count=750k", settings);
            let share = stat(&outcome, "first_cleaning_request") as f64 / 750_000.0;
            assert!((low..=high).contains(&share), "regions of {region}, seed {seed}: {share:.3}");
        }
    }
}

/// The windows of a run that was given a time lie within it, save for the request under way at its end.
#[test]
fn a_run_given_a_time_takes_no_request_after_it() {
    let until = Nanos(100_000_000_000);
    for depth in [1, 4] {
        let settings = Settings { until: Some(until), depth, ..Settings::default() };
        let outcome = simulate("in-place", &[], "random-write:count=1G", settings);
        assert!(!outcome.interrupted);
        let (end, command) = (outcome.elapsed_ns, 1_114_757);
        assert!((until.0..until.0 + u64::from(depth) * command + 1).contains(&end), "depth {depth}: {end}");
    }
}
