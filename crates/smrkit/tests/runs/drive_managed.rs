//! Table 2 of the Vguard paper, on a shipped drive-managed disk, and single behaviours of its layer.

use crate::common::planned::{self, Set, serve, with};
use crate::common::{count, on_st5000as0011, rebuilds};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::{GeneratedDemand, Table};
use smrkit::experiment::system::System;
use smrkit::layer::{self, Parameters};
use smrkit::request::{Op, Request};
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::Lba;

fn parameters(set: &[(&str, &str)]) -> Parameters {
    crate::common::parameters("drive-managed", set)
}

fn replay(requests: Vec<Request>, set: Set) -> Outcome {
    on_st5000as0011("drive-managed", set, 0, &Table(requests.into()))
}

/// A workload on a part of the drive that is the same under every layer.
fn demand(text: &str) -> GeneratedDemand {
    GeneratedDemand { span: Some(9_000_000_000), ..planned::workload(text) }
}

fn workload(text: &str, set: Set) -> Outcome {
    on_st5000as0011("drive-managed", set, 0, &demand(text))
}

fn requests(op: Op, extents: impl IntoIterator<Item = (u64, u32)>) -> Vec<Request> {
    extents.into_iter().map(|(lba, sectors)| Request::new(op, Lba(lba), sectors)).collect()
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[test]
fn small_writes_take_24_78_ms_and_every_240th_300_more() {
    let outcome = workload("random-write:size=4KiB,count=480", &[]);
    let write = outcome.latency_ns.write;
    assert!((milliseconds(write.p99) - 24.78).abs() < 0.01, "{}", write.p99);
    assert_eq!(write.max, 324_780_000);
    assert_eq!(write.mean, (480 * 24_780_000 + 2 * 300_000_000) / 480);
    assert_eq!(count(&outcome, "map_writes"), 2);
}

#[test]
fn what_exceeds_64_kib_adds_its_transfer() {
    let outcome = workload("sequential-write:size=512KiB,count=1", &[]);
    let rotation_ms = 60_000.0 / 5980.0;
    let expected = 24.78 + (1024.0 - 128.0) / 3576.0 * rotation_ms;
    assert!((milliseconds(outcome.latency_ns.write.max) - expected).abs() < 1e-3);
}

#[test]
fn a_real_trace_gives_its_row_of_table_2() {
    let Some(trace) = crate::common::real_trace("msr_wdev_1.csv.zst") else { return };
    let all = on_st5000as0011("drive-managed", &[], 0, &trace).latency_ns.all;
    let row = [all.p95, all.p99, all.p99_5, all.p99_9, all.max].map(milliseconds);
    for (ours, paper) in row.into_iter().zip([24.78, 24.78, 24.78, 324.78, 324.78]) {
        assert!((ours - paper).abs() < 0.01, "{row:?}");
    }
}

#[test]
fn cleaning_begins_when_more_than_22_986_entries_are_in_use() {
    let outcome = workload("random-write:size=4KiB,span=4T,count=23100", &[]);
    assert_eq!(count(&outcome, "first_cleaning_request"), 22_987);
    assert!((1.27e6..1.33e6).contains(&(outcome.map_bytes as f64)), "{} bytes of maps", outcome.map_bytes);
}

#[test]
fn entries_without_valid_data_leave_the_log_at_no_cost() {
    let again = requests(Op::Write, (0..30_000).map(|i| (i % 100 * 8, 8)));
    let outcome = replay(again, &[]);
    assert_eq!(count(&outcome, "bands_cleaned"), 0);
    assert_eq!(outcome.physical_read_sectors.total, 0);
}

#[test]
fn a_band_with_one_cached_write_costs_about_0_42_s() {
    let outcome = workload("random-write:size=4KiB,span=4T,count=26000", &[]);
    let bands = count(&outcome, "bands_cleaned");
    let busy = outcome.busy_by_cause_ns;
    let seconds = (busy.clean + busy.destage) as f64 / 1e9 / bands as f64;
    assert!((0.38..0.46).contains(&seconds), "{seconds} s for each of {bands} bands");
}

#[test]
fn no_request_waits_for_more_than_an_episode() {
    let outcome = workload("random-write:size=4KiB,span=1T,count=27000", &[]);
    let bands = count(&outcome, "bands_cleaned");
    let writes = 27_000 - 22_986;
    assert!((0.8..1.0).contains(&(bands as f64 / writes as f64)), "{bands} bands for {writes} writes");
    assert!(milliseconds(outcome.latency_ns.all.max) < 2.0 * 900.0 + 324.78);
}

#[test]
fn a_partly_cached_extent_is_read_in_pieces() {
    let mut both = requests(Op::Write, [(1000, 8), (2000, 8), (2008, 8), (2016, 8)]);
    both.extend(requests(Op::Read, [(992, 24)]));
    let outcome = replay(both.clone(), &[]);
    assert_eq!(outcome.commands.physical_read, 3);
    both.extend(requests(Op::Read, [(2000, 24)]));
    let outcome = replay(both, &[]);
    assert_eq!(outcome.commands.physical_read, 4);
    // Two headers lie between the three entries.
    assert_eq!(outcome.physical_read_sectors.host, 24 + 24 + 2);
}

#[test]
fn a_discarded_copy_is_not_cleaned() {
    let mut all = requests(Op::Write, (0..22_980).map(|i| (i * 10_000, 8)));
    all.extend(requests(Op::Discard, [(0, 22_980 * 10_000 / 2)]));
    all.extend(requests(Op::Write, (0..10_000).map(|i| (4_000_000_000 + i * 8, 8))));
    let outcome = replay(all, &[]);
    assert_eq!(count(&outcome, "bands_cleaned"), 0);
}

#[test]
fn a_bypass_by_run_or_command_length_leaves_the_cache_empty() {
    let on = |bypass| [("bypass", bypass), ("skip_unwritten", "on")];
    let large = workload("sequential-write:size=512KiB,count=500", &on("command"));
    assert_eq!((count(&large, "log_length"), count(&large, "bypassed_sectors")), (0, 500 * 1024));
    let small = workload("sequential-write:size=32KiB,count=500", &on("command"));
    assert_eq!(count(&small, "bypassed_sectors"), 0);
    let run = workload("sequential-write:size=32KiB,count=500", &on("run"));
    assert_eq!(count(&run, "log_length"), 15);
}

/// A command over two tracks does not wait for a rotation between them, nor is anything copied that was never written.
#[test]
fn what_bypasses_the_log_is_one_access_as_far_as_it_lies_in_a_row() {
    let on = [("bypass", "command"), ("skip_unwritten", "on")];
    let rotation_ms = 60_000.0 / 5980.0;
    let outcome = workload("sequential-write:size=4MiB,count=4", &on);
    let transfer = 8192.0 / 3576.0 * rotation_ms;
    let longest = milliseconds(outcome.latency_ns.write.max);
    assert!(longest < transfer + 1.1 * rotation_ms, "{longest}");
    assert_eq!((outcome.physical_read_sectors.host, outcome.physical_written_sectors.host), (0, 4 * 8192));
}

#[test]
fn what_a_bypassing_write_saves_is_not_taken_for_cleaning() {
    let outcome = workload("sequential-write:size=512KiB,count=500", &[("bypass", "command")]);
    assert!(outcome.physical_read_sectors.host > 0, "something was saved");
    assert_eq!((outcome.cleaning.count, outcome.verdict.cache_full_at_s), (0, None));
}

/// Were it cleaned only when it is full, each two bands would need a copy.
#[test]
fn a_log_is_cleaned_before_it_is_full_so_that_bands_share_copies() {
    for bypass in ["off", "command"] {
        let set = [("cache_tracks", "100"), ("alpha", "1000000"), ("bypass", bypass)];
        let outcome = workload("random-write:size=1MiB,span=1T,count=1000", &set);
        let (bands, copies) = (count(&outcome, "bands_cleaned"), count(&outcome, "map_writes"));
        assert!(bands > 500 && copies * 8 < bands, "bypass={bypass}: {copies} copies for {bands} bands");
    }
}

#[test]
fn reading_the_cache_back_is_destaging() {
    let outcome = workload("random-write:size=4KiB,span=4T,count=24000", &[]);
    let (bands, read) = (count(&outcome, "bands_cleaned"), outcome.physical_read_sectors.destage);
    assert!((8 * bands..16 * bands).contains(&read), "{read} sectors for {bands} bands, most of one write of 8");
}

#[test]
fn bands_never_written_need_no_rewriting_beyond_their_cached_tracks() {
    let text = "random-write:size=4KiB,span=4T,count=24000";
    let whole = workload(text, &[]);
    let skipped = workload(text, &[("skip_unwritten", "on")]);
    let per_band = |outcome: &Outcome| outcome.physical_written_sectors.clean / count(outcome, "bands_cleaned");
    assert!(per_band(&skipped) * 4 < per_band(&whole), "{} of {}", per_band(&skipped), per_band(&whole));
}

/// Reports of disks that were sold have eight times as many at depth 31.
#[test]
fn writes_that_wait_together_share_entries_of_the_log() {
    let before = |depth, variant| {
        let system = with(System::drive("st5000as0011"), "drive-managed", &[("variant", variant)]);
        let run = system.run(Settings { depth, ..Settings::default() }).unwrap();
        let writes = demand("random-write:size=4KiB,span=4T,count=190k");
        count(&serve(&run, &writes, &mut NoObserver).unwrap(), "first_cleaning_request")
    };
    assert_eq!((before(1, "sold"), before(31, "vguard-2017")), (22_987, 22_987));
    let queued = before(31, "sold");
    assert!((5 * 22_987..8 * 22_987).contains(&queued), "{queued} writes");
}

/// Without a write cache each write lasts once it completes, which the log promises sooner.
#[test]
fn a_stream_goes_to_its_bands_if_a_write_cache_holds_its_ends() {
    let bypassed = |buffers: &str| {
        let system = with(System::of(rebuilds::drive(1, buffers)), "drive-managed", &[]);
        let writes = demand("sequential-write:size=512KiB,count=500");
        let run = system.run(Settings { prefill: Prefill::Full, ..Settings::default() }).unwrap();
        count(&serve(&run, &writes, &mut NoObserver).unwrap(), "bypassed_sectors")
    };
    assert_eq!(bypassed(""), 0);
    // The last part is still in the cache.
    assert!(bypassed(rebuilds::WRITE_CACHE) > 300 * 1024);
}

#[test]
fn maps_need_no_more_room_than_the_log_has_sectors() {
    let spec = layer::find("drive-managed").unwrap();
    let tiny = Drive::load("tiny").unwrap();
    assert!((spec.build)(&tiny, &parameters(&[("alpha", "16777216")])).is_ok());
    let drive = Drive::load("st5000as0011").unwrap();
    assert!((spec.build)(&drive, &parameters(&[("map_every_writes", "1125899906842624")])).is_ok());
}

/// A long write lies in the log as one piece, of which a stage of cleaning brings only a part home. The next tracks are damaged by that
/// at home, and were not saved because all of them is in the log.
#[test]
fn cleaning_leaves_in_the_log_what_it_has_not_brought_home() {
    let run = with(System::drive("tiny"), "drive-managed", &[("buffer_bytes", "4Ki"), ("skip_cached", "on")]);
    let settings = Settings { check: true, prefill: Prefill::Full, ..Settings::default() };
    // All of the disk is read between any two phases of cleaning.
    let write = |i: u64| Request::new(Op::Write, Lba(i * 7919 % 6000), 300);
    let both = (0..600).flat_map(|i| [write(i), Request::new(Op::Read, Lba(0), 6300)]);
    let outcome = serve(&run.run(settings).unwrap(), &Table(both.collect()), &mut NoObserver).unwrap();
    assert!(count(&outcome, "bands_cleaned") > 50, "{}", count(&outcome, "bands_cleaned"));
}
