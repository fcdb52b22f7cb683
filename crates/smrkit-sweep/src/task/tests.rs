use super::*;
use std::fs;
use std::sync::Mutex;

use proptest::prelude::*;
use smrkit::stats::latency::LatencyCounts;
use smrkit_trace::split::{SplitVolume, Splitter};
use smrkit_trace::{OpenOptions, Trace};

use crate::execute::execute;
use crate::plan::Sweep;
use smrkit::experiment::pool::Unwatched;

fn split(path: &Path, folder: &Path) {
    let options = OpenOptions::default();
    let mut trace = Trace::open(path, &options).unwrap();
    let mut splitter = Splitter::create(folder, 3).unwrap();
    assert!(splitter.split(&mut trace, |_| true).unwrap());
    splitter.finish(path, &options, &trace).unwrap();
}

/// Requests of several volumes as Alibaba's trace has them.
fn text(rows: &[(u64, bool, u64, u64)]) -> String {
    let mut us = 0;
    let row = |&(volume, write, sector, gap): &(u64, bool, u64, u64)| {
        us += gap;
        format!("{volume},{},{},4096,{us}\n", if write { 'W' } else { 'R' }, sector * 512)
    };
    rows.iter().map(row).collect()
}

#[test]
fn what_another_version_found_has_another_key() {
    assert!(program(&[]).unwrap().starts_with(smrkit::VERSION));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn merged_volumes_have_the_counts_of_all_their_requests(
        rows in prop::collection::vec((0u64..70, any::<bool>(), 0u64..8000, 0u64..2_000_000), 100..600),
        open in any::<bool>(),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
        fs::write(&path, text(&rows)).unwrap();
        split(&path, &folder);
        let arrival = if open { "trace" } else { "flat-out" };
        let options = format!("drive = 'tiny'\nlayer = 'drive-managed'\narrival = '{arrival}'\n");
        let sweep = Sweep::parse("test", &format!("{options}volumes = '{}'", folder.display())).unwrap();
        let store = Store::create(&scratch.path().join("store")).unwrap();
        let done = execute(&sweep, &store, &Unwatched).unwrap();
        let mut merged = store.of_sweep("test").unwrap();
        prop_assert_eq!(merged.len(), 1);
        let merged = merged.remove(0);

        // Each volume alone, from the trace itself; all latencies in one count.
        let trace = SplitTrace::open(&folder).unwrap();
        let capacity = merged.capacity.raw_sectors * 512;
        let counts: &'static Mutex<LatencyCounts> = Box::leak(Box::default());
        let mut alone = Vec::new();
        for volume in &trace.volumes {
            let text = format!("{options}trace = '{}'\nvolume = {}\ncapacity = '{capacity}'", path.display(), volume.number);
            let own = Sweep::parse("alone", &text).unwrap();
            let options: RunOptions = pairs::read(&own.comparisons[0], &|name| name.to_string()).unwrap();
            let asked = options.ask().unwrap();
            let demand = asked.demand().unwrap();
            let (experiment, systems) = asked.on(demand);
            let sink = Box::new(|row: &smrkit::stats::counts::RequestRow| {
                counts.lock().unwrap().record(row.op, row.latency_ns);
            });
            let records = RunRecorders { requests: Some(sink), ..RunRecorders::default() };
            let within = Within { monitor: &Unwatched, threads: 0 };
            alone.extend(experiment.compare_watched(&systems, &within, records).unwrap().outcomes.runs);
        }
        let counts = counts.lock().unwrap().list();
        prop_assert_eq!(done.computed, trace.volumes.len());
        prop_assert_eq!(merged.latency_ns, counts.summary());
        prop_assert_eq!(&merged.latency_buckets, &counts.buckets());
        prop_assert_eq!(&merged.latency_histogram, &counts.histograms());
        let sum = |of: fn(&Outcome) -> u64| alone.iter().map(of).sum::<u64>();
        prop_assert_eq!(merged.merged_runs, Some(alone.len() as u64));
        prop_assert_eq!(merged.elapsed_ns, sum(|one| one.elapsed_ns));
        prop_assert_eq!(merged.physical_written_sectors.total, sum(|one| one.physical_written_sectors.total));
        let verdicts = merged.merged_verdicts.unwrap();
        let having = |of: fn(&Outcome) -> bool| alone.iter().filter(|one| of(one)).count() as u64;
        prop_assert_eq!(verdicts.runs, alone.len() as u64);
        prop_assert_eq!(verdicts.waiting_for_cleaning, having(|one| one.verdict.cache_full_at_s.is_some()));
        prop_assert!(merged.verdict.text.contains("runs with requests"), "{}", merged.verdict.text);
    }
}

#[test]
fn groups_of_volumes_are_computed_once_and_resumed() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    let rows: Vec<_> = (0..1200).map(|at| (at % 600, true, at * 31 % 8000, 10)).collect();
    fs::write(&path, text(&rows)).unwrap();
    split(&path, &folder);
    let options = format!("drive = 'tiny'\nlayer = ['rmw', 'in-place']\nvolumes = '{}'\n", folder.display());
    let sweep = Sweep::parse("test", &(options + "set = {'rmw.region_sectors' = 300}")).unwrap();
    let store = Store::create(&scratch.path().join("store")).unwrap();
    let comparison = Comparison::plan(&sweep.comparisons[0], &mut FileHashes::default()).unwrap();
    let tasks = &comparison.tasks;
    assert_eq!(tasks.len(), 3, "600 volumes in groups of 256");
    let sent: Task = serde_json::from_str(&serde_json::to_string(&tasks[0]).unwrap()).unwrap();
    assert_eq!(sent, tasks[0]);
    let other = Task { program: "9.9".into(), ..sent };
    assert!(other.compute(&store, &Unwatched, 0).unwrap_err().to_string().contains("install one version"));
    assert_eq!(tasks[1].compute(&store, &Unwatched, 0).unwrap(), Some(512));
    comparison.merge_groups(&store).unwrap();
    assert!(!store.has(&comparison.key), "two groups are missing");
    let done = execute(&sweep, &store, &Unwatched).unwrap();
    assert_eq!((done.computed, done.found), (1200 - 512, 512));
    let outcomes = store.of_sweep("test").unwrap();
    let names: Vec<_> = outcomes.iter().map(|one| (one.layer.as_str(), one.merged_runs)).collect();
    assert_eq!(names, [("rmw", Some(600)), ("in-place", Some(600))]);
    assert!(outcomes[0].slowdown.is_some_and(|slowdown| slowdown > 1.0));
    assert_eq!(outcomes[1].slowdown, Some(1.0));
    let volumes = fs::read_dir(scratch.path().join("store/volumes")).unwrap().count();
    assert_eq!(volumes, 3);
    let done = execute(&sweep, &store, &Unwatched).unwrap();
    assert_eq!((done.computed, done.found), (0, 1200));
}

#[test]
fn the_drives_of_all_volumes_hold_the_one_that_reaches_furthest() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    fs::write(&path, text(&[(1, true, 0, 0), (2, true, 1_000_000, 5), (1, false, 8, 5)])).unwrap();
    split(&path, &folder);
    let options = format!("drive = 'tiny'\nlayer = 'vguard'\nvolumes = '{}'", folder.display());
    let store = Store::create(&scratch.path().join("store")).unwrap();
    execute(&Sweep::parse("test", &options).unwrap(), &store, &Unwatched).unwrap();
    let merged = store.of_sweep("test").unwrap().remove(0);
    assert!(merged.capacity.host_sectors >= 1_000_008, "{:?}", merged.capacity);
    assert!(merged.scaled.is_some_and(|scaled| scaled.needed_bytes == 1_000_008 * 512), "{:?}", merged.scaled);
    assert_eq!((merged.requests, merged.merged_runs), (3, Some(2)));
}

#[test]
fn a_folder_split_anew_has_the_key_of_its_trace() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    let key_of = |rows: &[(u64, bool, u64, u64)]| {
        fs::write(&path, text(rows)).unwrap();
        split(&path, &folder);
        let sweep = Sweep::parse("test", &format!("drive = 'tiny'\nvolumes = '{}'", folder.display())).unwrap();
        let comparison = Comparison::plan(&sweep.comparisons[0], &mut FileHashes::default()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        comparison.key
    };
    let one = key_of(&[(1, true, 0, 0), (2, true, 8, 5)]);
    assert_ne!(one, key_of(&[(1, true, 0, 0), (2, false, 8, 5)]));
    assert_eq!(one, key_of(&[(1, true, 0, 0), (2, true, 8, 5)]));
}

#[test]
fn volumes_and_traces_exclude_each_other() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, folder) = (scratch.path().join("trace.csv"), scratch.path().join("volumes"));
    fs::write(&path, text(&[(1, true, 0, 0)])).unwrap();
    split(&path, &folder);
    let error = |text: String| {
        let sweep = Sweep::parse("test", &text).unwrap();
        Comparison::plan(&sweep.comparisons[0], &mut FileHashes::default()).err().unwrap().to_string()
    };
    let volumes = format!("volumes = '{}'\n", folder.display());
    assert!(error(volumes.clone() + "workload = 'mix'").contains("leave out workload"));
    let sweep = Sweep::parse("test", &(volumes + "drive = 'tiny'\nlayer = 'vguard'\narrival = 'closed'")).unwrap();
    let store = Store::create(&scratch.path().join("store")).unwrap();
    let closed = execute(&sweep, &store, &Unwatched).unwrap().failures[0].to_string();
    assert!(closed.contains("think times"), "{closed}");
    assert!(error("volumes = 'nowhere'".into()).contains("trace split"));
}

/// A split trace of volumes with these numbers of requests, in this number of buckets.
fn listed(requests: &[u64], buckets: usize) -> SplitTrace {
    let volumes = requests.iter().enumerate().map(|(at, &requests)| SplitVolume {
        number: at as u64,
        requests,
        bucket: at % buckets,
        ..SplitVolume::default()
    });
    SplitTrace {
        version: 1,
        trace: "day".into(),
        trace_format: "msr".into(),
        trace_sha256: None,
        trace_reading: Default::default(),
        trace_notes: Default::default(),
        requests: requests.iter().sum(),
        buckets: Vec::new(),
        volumes: volumes.collect(),
    }
}

#[test]
fn groups_hold_so_many_volumes_and_requests_and_follow_the_buckets() {
    let of = |requests: &[u64], buckets| groups("folder".as_ref(), &listed(requests, buckets)).unwrap();
    assert_eq!(of(&[1, 0, 1, 1], 2), [[0, 2, 3]], "a volume without requests is left out");
    assert_eq!(of(&[1; 4], 2), [[0, 2, 1, 3]]);
    let half = REQUESTS_MAX / 2;
    assert_eq!(of(&[half, half], 1), [vec![0, 1]]);
    assert_eq!(of(&[half, half, 1, half, half], 1), [vec![0, 1], vec![2, 3], vec![4]]);
    assert_eq!(of(&[half, half + 1, 5], 1), [vec![0], vec![1, 2]]);
    assert_eq!(of(&[2 * REQUESTS_MAX, 1], 1), [vec![0], vec![1]]);
    let lengths = |volumes| of(&vec![1; volumes], 1).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!((lengths(256), lengths(257)), (vec![256], vec![256, 1]));
    let none = groups("folder".as_ref(), &listed(&[0, 0], 1)).unwrap_err().to_string();
    assert!(none.contains("no volume has a request"), "{none}");
}

#[test]
fn the_key_of_a_group_follows_its_comparison_and_its_volumes() {
    let split = listed(&[1, 1, 1], 1);
    let of = |comparison: &str, group: &[usize]| group_key(comparison, &split, group);
    let keys = [of("a", &[0, 1]), of("b", &[0, 1]), of("a", &[0]), of("a", &[0, 2]), of("a", &[1, 0])];
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    let mut renamed = split.clone();
    renamed.volumes[0].name = "x".into();
    assert_ne!(group_key("a", &renamed, &[0]), keys[2]);
}

#[test]
fn an_interrupt_before_a_task_computes_nothing() {
    struct Ended;
    impl Monitor for Ended {
        fn goes_on(&self) -> bool {
            false
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::create(scratch.path()).unwrap();
    let text = "drive = 'tiny'\nlayer = 'rmw'\nset = {'rmw.region_sectors' = 300}\nworkload = 'random-write:count=9'";
    let sweep = Sweep::parse("test", text).unwrap();
    let comparison = Comparison::plan(&sweep.comparisons[0], &mut FileHashes::default()).unwrap();
    let task = &comparison.tasks[0];
    assert_eq!((comparison.tasks.len(), comparison.runs(), &task.key), (1, 1, &comparison.key));
    assert_eq!(task.compute(&store, &Ended, 0).unwrap(), None);
    assert!(!task.is_done(&store));
    assert_eq!(task.compute(&store, &Unwatched, 0).unwrap(), Some(1));
    assert!(task.is_done(&store));
    let within = Within { monitor: &Ended, threads: 7 };
    assert_eq!((within.goes_on(), within.threads(), within.commit()), (false, 7, None));
}

#[test]
fn an_error_names_the_options_that_it_is_about() {
    let options = [("drive", "tiny"), ("layer", "none")].map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(words(&options), "drive tiny, layer none");
    let error = Comparison::plan(&options, &mut FileHashes::default()).err().unwrap().to_string();
    assert!(error.contains("drive tiny, layer none"), "{error}");
    let folders = [("volumes", "a"), ("volumes", "b")].map(|(name, value)| (name.to_string(), value.to_string()));
    let error = AskedTask::read(&folders).err().unwrap().to_string();
    assert!(error.contains("one folder a comparison"), "{error}");
}
