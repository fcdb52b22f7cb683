//! The merge of several outcomes is what one count over the requests of all their runs would have given.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::common::arrays::{array_run, level};
use crate::common::planned::{plan_windowed, serve};
use crate::common::{Disks, TinyClock, random_requests, random_settings, with_times};
use smrkit::device::level::Level;
use smrkit::engine::RequestRows;
use smrkit::engine::system::{DriveRun, SystemRun};
use smrkit::experiment::demand::Table;
use smrkit::experiment::record;
use smrkit::layer::{LAYERS, find};
use smrkit::medium::interference::Form;
use smrkit::schema::Scalar;
use smrkit::settings::{Prefill, Settings};
use smrkit::stats::latency::LatencyCounts;
use smrkit::stats::outcome::{LatencyBuckets, Outcome, PowerCut, SourceCounts, Surface, Timeline};
use smrkit::stats::verdict::judge;
use smrkit::units::Nanos;

const REQUESTS: u64 = 2000;

/// Windows of the timelines, with a common multiple of 12 ms.
const WINDOWS_NS: [u64; 3] = [4_000_000, 6_000_000, 4_000_000];

/// Runs, and the latencies of all their requests.
type Measured = (Vec<Outcome>, LatencyCounts);

/// Runs of a drive on other requests each.
fn runs(disks: &mut Disks, system: SystemRun, lengths: [u64; 3], windows_ns: [u64; 3]) -> Measured {
    let settings = Settings { prefill: Prefill::Random(0.3), ..random_settings(&mut disks.random) };
    let host_sectors = system.host_sectors().unwrap();
    let mut all = LatencyCounts::default();
    let outcomes = lengths.iter().enumerate().map(|(seed, &length)| {
        let requests = random_requests(&mut disks.random, host_sectors, length);
        let requests = with_times(&mut disks.random, requests);
        let settings = Settings { seed: seed as u64, ..settings };
        let run = plan_windowed(system.clone(), settings, Some(Nanos(windows_ns[seed]))).unwrap();
        let mut rows = RequestRows::default();
        let outcome = serve(&run, &Table(requests.into()), &mut rows).unwrap();
        rows.0.iter().for_each(|row| all.record(row.op, row.latency_ns));
        outcome
    });
    (outcomes.collect(), all)
}

fn drives(seed: u64, windows_ns: [u64; 3]) -> impl Iterator<Item = Measured> {
    let each = LAYERS.iter().flat_map(|spec| TinyClock::ALL.map(|clock| (spec, clock)));
    each.filter_map(move |(spec, clock)| {
        let mut disks = Disks::new(seed);
        let form = spec.copes_with.first().copied().unwrap_or(Form::Tracks);
        let drive = disks.drive_with(clock, form);
        let run = DriveRun { drive, layer: spec, parameters: disks.parameters(spec) };
        let system = SystemRun::from(run);
        system.host_sectors().is_ok().then(|| runs(&mut disks, system, [REQUESTS, 8 * REQUESTS, 300], windows_ns))
    })
}

/// Runs of every layer by the seed of their disks, which several tests merge.
static RUNS: [LazyLock<Vec<Measured>>; 2] =
    [LazyLock::new(|| drives(0, WINDOWS_NS).collect()), LazyLock::new(|| drives(1, WINDOWS_NS).collect())];

/// Holds a merge against its runs, and against the latencies of all requests in one count.
fn hold(runs: &[Outcome], all: &LatencyCounts) -> Outcome {
    let all = all.list();
    let merged = Outcome::merge(runs).unwrap();
    assert_eq!((merged.latency_ns, &merged.latency_histogram), (all.summary(), &all.histograms()), "{}", merged.layer);
    let read: LatencyBuckets = serde_json::from_str(&serde_json::to_string(&merged.latency_buckets).unwrap()).unwrap();
    assert_eq!(read, all.buckets());
    assert!(record::run(&merged).is_err_and(|error| error.to_string().contains("merge")));
    let sum = |of: fn(&Outcome) -> u64| runs.iter().map(of).sum::<u64>();
    let buckets = &merged.latency_buckets;
    let sums = [&buckets.read, &buckets.write, &buckets.flush, &buckets.discard].map(|op| op.sum_ns);
    assert_eq!(sums.iter().sum::<u128>(), merged.wait_ns + u128::from(merged.service_ns));
    assert_eq!((merged.requests, merged.merged_runs), (sum(|run| run.requests), Some(runs.len() as u64)));
    let sums: [fn(&Outcome) -> u64; 14] = [
        |run| run.host_read_sectors,
        |run| run.host_written_sectors,
        |run| run.service_ns,
        |run| run.elapsed_ns,
        |run| run.arrivals_ns,
        |run| run.busy_ns,
        |run| run.buffer_write_ns.unwrap_or(0),
        |run| run.commands.host_read + run.commands.physical_write,
        |run| run.adjusted.host_write + run.adjusted.physical_read,
        |run| run.physical_read_sectors.total,
        |run| run.busy_by_cause_ns.total,
        |run| run.verdict.stalls_over_7s + run.verdict.stalls_over_30s,
        |run| run.verdict.before_bytes,
        |run| run.verdict.before_ns,
    ];
    assert!(sums.into_iter().all(|of| of(&merged) == sum(of)));
    let most = |of: fn(&Outcome) -> u64| runs.iter().map(of).max();
    assert_eq!(Some(merged.map_bytes), most(|run| run.map_bytes));
    assert_eq!(Some(merged.verdict.longest_stall_ns), most(|run| run.latency_ns.all.max));
    assert_eq!((&merged.capacity, &merged.state, merged.seed), (&runs[0].capacity, &runs[0].state, runs[0].seed));
    assert_eq!((&merged.parameters, &merged.drive), (&runs[0].parameters, &runs[0].drive));
    assert_eq!(
        merged.verdict.cache_full_at_s,
        runs.iter().filter_map(|run| run.verdict.cache_full_at_s).reduce(f64::min)
    );
    let windows = runs.iter().all(|run| run.run.window_ns == runs[0].run.window_ns);
    assert_eq!(merged.run.window_ns, runs[0].run.window_ns.filter(|_| windows));
    let timeline = &merged.timeline;
    assert_eq!(timeline.window_ns, 12_000_000);
    assert_eq!(timeline.requests.iter().sum::<u64>(), merged.requests);
    assert_eq!(timeline.longest_ns.iter().max(), Some(&merged.latency_ns.all.max));
    assert_eq!(timeline.written_bytes.iter().sum::<u64>(), merged.host_written_sectors * 512);
    let physical = merged.physical_written_sectors.total;
    assert_eq!(merged.write_amplification, Some(physical as f64 / merged.host_written_sectors as f64));
    let verdict = &merged.verdict;
    let rate = (merged.host_read_sectors + merged.host_written_sectors) as f64 * 512e9 / merged.elapsed_ns as f64;
    let (before, after) =
        (verdict.rate_before_bytes_per_s.unwrap_or(rate), verdict.rate_after_bytes_per_s.unwrap_or(rate));
    assert!(before.min(after) <= rate * 1.0001 && rate <= before.max(after) * 1.0001, "{before} {rate} {after}");
    merged
}

#[test]
fn a_merge_counts_what_one_run_over_all_requests_would() {
    for (runs, all) in RUNS.iter().flat_map(|runs| runs.iter()) {
        let merged = hold(runs, all);
        let surface = &merged.surface;
        let written = [&surface.host, &surface.destage, &surface.clean, &surface.map].into_iter().flatten();
        assert_eq!(written.sum::<u64>(), merged.physical_written_sectors.total);
    }
}

#[test]
fn merges_of_sources_merge_each_of_them() {
    let counts = |run: &Outcome| SourceCounts {
        requests: run.requests,
        host_read_sectors: run.host_read_sectors,
        host_written_sectors: run.host_written_sectors,
        latency_ns: run.latency_ns,
        latency_buckets: run.latency_buckets.clone(),
    };
    for (runs, _) in drives(9, WINDOWS_NS).take(3) {
        let with_sources = |sources: usize| {
            let with = |run: &Outcome| Outcome { by_source: Some(vec![counts(run); sources]), ..run.clone() };
            runs.iter().map(with).collect::<Vec<_>>()
        };
        let merged = Outcome::merge(&with_sources(2)).unwrap();
        assert_eq!(merged.by_source, Some(vec![counts(&merged); 2]));
        let summary = merged.summary();
        let none = LatencyBuckets::default();
        let bare = SourceCounts { latency_buckets: none.clone(), ..counts(&merged) };
        assert_eq!((&summary.by_source, &summary.latency_buckets), (&Some(vec![bare; 2]), &none));
        let bare = Outcome {
            timeline: Timeline { window_ns: merged.timeline.window_ns, ..Timeline::default() },
            surface: Surface { part_sectors: merged.surface.part_sectors, ..Surface::default() },
            latency_histogram: Default::default(),
            latency_buckets: none,
            by_source: summary.by_source.clone(),
            ..merged.clone()
        };
        assert_eq!(summary, bare);
        let mut unlike = with_sources(2);
        unlike[1].by_source = Some(vec![counts(&runs[1])]);
        assert_eq!(Outcome::merge(&unlike).unwrap().by_source, None, "another number of sources");
        let asked = BTreeMap::from([("rmw.region_sectors".to_string(), Scalar::Text("auto".into()))]);
        unlike.iter_mut().for_each(|run| run.asked = asked.clone());
        assert_eq!(Outcome::merge(&unlike).unwrap().asked, asked);
        unlike[1].asked.clear();
        assert_eq!(Outcome::merge(&unlike).unwrap().asked, BTreeMap::new(), "asked for by one alone");
    }
}

#[test]
fn the_fill_of_merged_caches_is_the_mean_of_theirs() {
    let (runs, _) = drives(5, [12_000_000; 3]).next().unwrap();
    let with = |fill: &[f64]| {
        let mut run = runs[0].clone();
        run.timeline.cache_fill = fill.to_vec();
        run
    };
    let merged = Outcome::merge(&[with(&[0.5, 1.0]), with(&[0.25, 0.5, 0.75, 0.25])]).unwrap();
    assert_eq!(merged.timeline.cache_fill, [0.375, 0.75, 0.875, 0.625]);
    let three = Outcome::merge(&[merged, with(&[0.0])]).unwrap();
    assert_eq!(three.timeline.cache_fill, [0.25, 0.5, 1.75 / 3.0, 1.25 / 3.0], "two of one and one of the other");
    assert_eq!(Outcome::merge(&[with(&[]), with(&[0.5])]).unwrap().timeline.cache_fill, [0.5]);
}

#[test]
fn timelines_merge_as_if_their_windows_had_been_one_length() {
    for ((narrow, _), (wide, _)) in RUNS[0].iter().zip(drives(0, [12_000_000; 3])) {
        let [narrow, wide] = [narrow, &wide].map(|runs| Outcome::merge(runs).unwrap());
        // What a drive shows within one long request depends on the windows.
        assert_eq!(narrow.timeline.cache_fill.len(), wide.timeline.cache_fill.len());
        let written = |timeline: &Timeline| timeline.physical_written_bytes.iter().sum::<u64>();
        assert_eq!(written(&narrow.timeline), written(&wide.timeline));
        let Timeline { cache_fill, physical_written_bytes, .. } = wide.timeline.clone();
        assert_eq!(Timeline { cache_fill, physical_written_bytes, ..narrow.timeline }, wide.timeline);
    }
}

#[test]
fn merges_of_arrays_merge_their_members() {
    for seed in 0..4 {
        let mut disks = Disks::new(seed);
        let shape = level(&mut disks, Level::Raid5);
        let array = array_run(&mut disks, shape, find("set-assoc").unwrap());
        let (runs, all) = runs(&mut disks, SystemRun::Array(array), [REQUESTS, REQUESTS, 300], WINDOWS_NS);
        let merged = hold(&runs, &all);
        assert_eq!(merged.members.len(), runs[0].members.len());
        let written = merged.members.iter().map(|member| member.physical_written_sectors.total).sum::<u64>();
        assert_eq!(written, merged.physical_written_sectors.total);
    }
}

#[test]
fn merges_can_be_merged() {
    for (runs, _) in RUNS[1].iter() {
        let mut at_once = Outcome::merge(runs).unwrap();
        let mut in_two = Outcome::merge(&[Outcome::merge(&runs[..2]).unwrap(), runs[2].clone()]).unwrap();
        // Means and shares are rounded more often.
        let fills = [&mut in_two, &mut at_once].map(|one| std::mem::take(&mut one.timeline.cache_fill));
        assert_eq!(fills[0].len(), fills[1].len());
        assert!(fills[0].iter().zip(&fills[1]).all(|(a, b)| (a - b).abs() < 1e-9 && (0.0..=1.0).contains(a)));
        (in_two.movement, at_once.movement) = (None, None);
        assert_eq!(in_two, at_once);
    }
}

#[test]
fn a_merge_is_judged_beside_merged_baselines() {
    let of = |layer: &str| {
        let mut disks = Disks::new(3);
        let drive = disks.drive_with(TinyClock::Mechanical, Form::Tracks);
        let spec = find(layer).unwrap();
        let parameters = disks.parameters(spec);
        let run = DriveRun { drive, layer: spec, parameters };
        runs(&mut disks, run.into(), [REQUESTS, 300, 300], WINDOWS_NS).0
    };
    let (base, mut merged) = (Outcome::merge(&of("in-place")).unwrap(), Outcome::merge(&of("rmw")).unwrap());
    assert_eq!(merged.slowdown, None);
    judge(&mut merged, &base);
    assert_eq!(merged.slowdown, Some(merged.elapsed_ns as f64 / base.elapsed_ns as f64));
}

#[test]
fn what_differs_or_is_no_plain_run_is_not_merged() {
    let (runs, _) = drives(1, WINDOWS_NS).next().unwrap();
    let refused = |change: fn(&mut Outcome), word: &str| {
        let mut other = runs[1].clone();
        change(&mut other);
        let error = Outcome::merge(&[runs[0].clone(), other]).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    };
    refused(|other| other.layer = "log".into(), "`layer`");
    refused(|other| other.drive = "another".into(), "`drive`");
    refused(|other| other.drive_file = Some("another".into()), "`drive_file`");
    refused(|other| other.array = Some("raid1".into()), "`array`");
    refused(|other| other.members.push(other.clone()), "`members`");
    refused(|other| drop(other.parameters.insert("x".into(), Scalar::Int(1))), "`parameters`");
    refused(|other| other.state.capacity_bytes += 1, "`state`");
    refused(|other| other.version += "x", "`version`");
    refused(|other| other.rebuild = Some(Default::default()), "a rebuild");
    refused(|other| other.capacity.host_sectors += 1, "`capacity`");
    refused(|other| other.engine.depth += 1, "`engine`");
    refused(|other| other.run.system += "x", "`run`");
    refused(|other| other.commit = Some("another".into()), "`commit`");
    refused(|other| other.power_cut = Some(PowerCut::default()), "power cut");
    refused(|other| other.latency_buckets = Default::default(), "`latency_buckets`");
    let times: [fn(&mut Outcome); 4] = [
        |other| other.elapsed_ns = u64::MAX,
        |other| other.arrivals_ns = u64::MAX,
        |other| other.service_ns = u64::MAX,
        |other| other.busy_ns = u64::MAX,
    ];
    times.into_iter().for_each(|change| refused(change, "584 years"));
    refused(|other| other.latency_buckets.write.buckets = "?".into(), "damaged");
    assert!(Outcome::merge(&[]).is_err());
}
