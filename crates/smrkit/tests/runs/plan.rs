//! Planned runs: their hash, their text, and the runs that lists of values make.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec};
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::NoObserver;
use smrkit::error::{Error, Fault};
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::MergedDemand;
use smrkit::experiment::demand::{Demand, Described, GeneratedDemand, Opened, Opening, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::record;
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::System;
use smrkit::interleave::SourcePlacement;
use smrkit::request::{InMemory, Op, Request, Source};
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::stats::outcome::{Outcome, Replayed, Scaled, TraceReading};
use smrkit::units::{Lba, Nanos};
use smrkit::workload::Workload;
use smrkit_trace::{OpenOptions, TraceDemand, VolumeChoice};

fn small() -> System {
    System::drive("tiny").layer("rmw").set("rmw.region_sectors", 300)
}

fn workload(text: &str) -> GeneratedDemand {
    Workload::parse(text).unwrap().into()
}

/// An experiment on the small drive, in which every setting makes sense next to every other.
fn experiment() -> Experiment {
    let settings = Settings { depth: 2, check: true, ..Settings::default() };
    Experiment::new(small(), workload("mix:count=200")).settings(settings)
}

fn planned(experiment: &Experiment) -> PlannedRun {
    let mut runs = experiment.plan().unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn hash(experiment: &Experiment) -> String {
    planned(experiment).hash().unwrap()
}

fn no_trace(path: &str, _: &TraceReading) -> Result<Box<dyn Demand>, Error> {
    panic!("{path} is opened")
}

fn executed(run: &PlannedRun, demand: &dyn Demand) -> Outcome {
    run.execute(demand, &run.opening().unwrap(), &mut NoObserver).unwrap()
}

type Change = fn(&mut Experiment);

/// A change of every option of a run.
const CHANGES: [Change; 18] = [
    |one| one.settings[0].depth = 3,
    |one| one.settings[0].think = Nanos(5),
    |one| one.settings[0].time_scale = 2.0,
    |one| one.settings[0].queue = Queue::Sptf,
    |one| one.settings[0].prefill = Prefill::Random(0.5),
    |one| one.settings[0].warmup = Warmup::Requests(1),
    |one| one.settings[0].until = Some(Nanos(1)),
    |one| one.settings[0].fold = true,
    |one| one.settings[0].movement = true,
    |one| one.settings[0].power_cut = Some(1),
    |one| one.settings[0].seed = 2,
    |one| (one.system.layers, one.system.set) = (vec!["in-place".into()], Vec::new()),
    |one| one.system.set = vec!["rmw.region_sectors=301".into()],
    |one| one.system.drives = vec!["tiny-constant".into()],
    |one| one.system.capacity = Some(AskedCapacity::Sectors(4000)),
    |one| one.system.array = Some("raid1:disks=2".parse().unwrap()),
    |one| one.demand = Arc::new(workload("mix:count=201")),
    |one| one.demand = Arc::new(GeneratedDemand { span: Some(100), ..workload("mix:count=200") }),
];

/// Changes that can't stand next to others of the list.
const ALONE: [Change; 4] = [
    |one| one.settings[0].check = false,
    |one| one.settings[0].arrival = Arrival::Trace,
    |one| {
        one.system.array = Some("raid1:disks=2".parse().unwrap());
        one.system.rebuild = Some("disk=1".parse().unwrap());
    },
    |one| one.demand = Arc::new(Table([Request::new(Op::Read, Lba(0), 8)].into())),
];

#[test]
fn a_change_of_any_option_changes_the_hash() {
    let (own, mut seen) = (planned(&experiment()), BTreeSet::new());
    let text = |run: &PlannedRun| serde_json::to_value(run).unwrap();
    let mut settings: BTreeSet<String> = text(&own)["engine"].as_object().unwrap().keys().cloned().collect();
    assert!(seen.insert(own.hash()) && !seen.insert(hash(&experiment()).into()), "equal runs have one hash");
    for change in CHANGES.into_iter().chain(ALONE) {
        let mut changed = experiment();
        change(&mut changed);
        let run = planned(&changed);
        settings.retain(|key| text(&run)["engine"][key] == text(&own)["engine"][key]);
        assert!(seen.insert(run.hash()), "{}", text(&run));
    }
    assert!(settings.is_empty(), "no change of {settings:?} was tried");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn runs_have_one_hash_if_and_only_if_they_are_equal(
        one in prop::collection::vec(any::<bool>(), 11),
        other in prop::collection::vec(any::<bool>(), 11),
    ) {
        let of = |taken: &[bool]| {
            let mut changed = experiment();
            CHANGES.iter().zip(taken).filter(|(_, taken)| **taken).for_each(|(change, _)| change(&mut changed));
            hash(&changed)
        };
        prop_assert_eq!(of(&one) == of(&other), one == other);
        prop_assert_eq!(of(&one), of(&one));
    }
}

#[test]
fn a_planned_run_is_executed_alike_after_its_text_was_read() {
    fn sent<T: Send + Sync + 'static>(run: T) -> T {
        run
    }
    let array: ArraySpec = "raid5:disks=3,chunk=16KiB".parse().unwrap();
    let rebuilt = System { array: Some(array), rebuild: Some("disk=1".parse().unwrap()), ..small() };
    let merged = MergedDemand::new(
        vec![Box::new(workload("mix:count=100")), Box::new(workload("zipf:count=100"))],
        "burst:10".parse().unwrap(),
        SourcePlacement::EndToEnd,
    );
    let all = [
        experiment(),
        Experiment::new(small().capacity(AskedCapacity::Sectors(6000)), merged),
        Experiment::new(rebuilt, workload("mix:count=100"))
            .settings(Settings { prefill: Prefill::None, ..Settings::default() }),
    ];
    for experiment in all {
        let run = sent(planned(&experiment));
        let text = serde_json::to_string(&run).unwrap();
        let read: PlannedRun = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.hash(), run.hash());
        let again = executed(&read, read.demand(&no_trace).unwrap().as_ref());
        let first = executed(&run, experiment.demand.as_ref());
        assert_eq!(again, first);
        assert_eq!(first.run.hash, run.hash());
        assert_eq!(experiment.compare().unwrap()[0].run.hash, run.hash(), "a comparison records the same");
    }
}

#[test]
fn lists_of_drives_and_settings_multiply_into_runs() {
    let system = System::drive("tiny").and_drive("tiny-constant").layer("in-place").layer("log");
    let mut lists = Experiment::new(system, workload("random-write:count=300"));
    lists.settings = vec![];
    for (depth, seed) in [(2, 1), (2, 2), (4, 1), (4, 2)] {
        for (queue, prefill) in
            [Queue::Fcfs, Queue::Sptf].into_iter().flat_map(|q| [(q, Prefill::Full), (q, Prefill::None)])
        {
            lists.settings.push(Settings { depth, seed, queue, prefill, ..Settings::default() });
        }
    }
    let runs = lists.plan().unwrap();
    let hashes: BTreeSet<String> = runs.iter().map(|run| run.hash().unwrap()).collect();
    assert_eq!((runs.len(), hashes.len()), (2 * 16 * 2, 64));
    let outcomes = lists.compare().unwrap();
    for (at, (run, outcome)) in runs.iter().zip(&outcomes).enumerate() {
        assert_eq!(run.hash(), outcome.run.hash, "run {at}");
        let alone = executed(run, lists.demand.as_ref());
        assert_eq!((alone.elapsed_ns, alone.requests), (outcome.elapsed_ns, 300), "run {at}");
        // The conventional disk stands before the log, on each drive and under each of the settings.
        let baseline = &outcomes[at - at % 2];
        assert_eq!((baseline.layer.as_str(), &baseline.drive), ("in-place", &outcome.drive));
        assert_eq!(outcome.verdict.baseline_mean_ns, Some(baseline.latency_ns.all.mean), "run {at}");
    }
}

#[test]
fn a_trace_is_told_from_others_by_its_bytes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, rows: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, rows).unwrap();
        let demand = TraceDemand::new(&path, OpenOptions::default(), VolumeChoice::All).unwrap();
        let run = planned(&Experiment::new(small(), demand));
        let demand = TraceDemand::new(&path, OpenOptions::default(), VolumeChoice::All).unwrap();
        assert_eq!(executed(&run, &demand).run.hash, run.hash());
        assert_eq!(Experiment::new(small(), demand).compare().unwrap()[0].run.hash, run.hash());
        run.hash().unwrap()
    };
    let rows = "128166372003061629,hm,0,Read,4096,4096,100\n128166372013061629,hm,0,Write,8192,4096,100\n";
    let own = write("a.csv", rows);
    assert_eq!(own, write("b.csv", rows));
    assert_ne!(own, write("c.csv", &rows.replace("8192", "12288")));
}

/// A small trace of volumes 0 and 1, read so.
fn msr(folder: &Path, volumes: VolumeChoice, format: Option<&str>) -> TraceDemand {
    let path = folder.join("own.csv");
    let rows = "128166372003061629,hm,0,Read,4096,4096,100\n128166372013061629,hm,1,Write,8192,4096,100\n";
    std::fs::write(&path, rows).unwrap();
    let options = OpenOptions { format: format.map(String::from), ..OpenOptions::default() };
    TraceDemand::new(&path, options, volumes).unwrap()
}

#[test]
fn a_format_that_is_named_hashes_as_one_that_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let alone = |volumes, format| hash(&Experiment::new(small(), msr(folder.path(), volumes, format)));
    let merged = |volumes, format| {
        let demands: Vec<Box<dyn Demand>> =
            vec![Box::new(msr(folder.path(), volumes, format)), Box::new(workload("mix:count=9"))];
        let merged = MergedDemand::new(demands, "none".parse().unwrap(), SourcePlacement::Zero);
        hash(&Experiment::new(small(), merged))
    };
    for of in [&alone as &dyn Fn(_, _) -> _, &merged] {
        let own = of(VolumeChoice::Number(1), Some("msr"));
        assert_eq!(own, of(VolumeChoice::Number(1), None));
        assert_ne!(own, of(VolumeChoice::Number(0), Some("msr")));
        assert_ne!(own, of(VolumeChoice::Number(1), Some("csv:time=0:100ns,op=3,offset=4,size=5,volume=2")));
    }
}

#[test]
fn merged_traces_are_read_again_each_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let demands: Vec<Box<dyn Demand>> = vec![
        Box::new(msr(folder.path(), VolumeChoice::All, None)),
        Box::new(workload("mix:count=9")),
        Box::new(msr(folder.path(), VolumeChoice::Number(1), Some("msr"))),
    ];
    let merged = MergedDemand::new(demands, "none".parse().unwrap(), SourcePlacement::Zero);
    let experiment = Experiment::new(small(), merged);
    let run: PlannedRun = serde_json::from_str(&serde_json::to_string(&planned(&experiment)).unwrap()).unwrap();
    let open = |_: &str, reading: &TraceReading| -> Result<Box<dyn Demand>, Error> {
        Ok(Box::new(msr(folder.path(), reading.volume.parse()?, reading.format.as_deref())))
    };
    let first = executed(&run, experiment.demand.as_ref());
    let of_sources: Vec<u64> = first.replayed.sources.iter().flatten().map(|source| source.requests).collect();
    assert_eq!(of_sources, [2, 9, 1]);
    assert_eq!(executed(&run, run.demand(&open).unwrap().as_ref()), first);
}

#[test]
fn a_drive_file_is_told_from_others_by_its_text_alone() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let of = |drive: String, array: bool| {
        let array = array.then(|| "raid1:disks=2".parse().unwrap());
        hash(&Experiment::new(System { array, ..System::drive(drive).layer("in-place") }, workload("mix:count=9")))
    };
    let text = |name: &str| DRIVES.iter().find(|(known, _)| *known == name).unwrap().1;
    let tiny = text("tiny");
    for array in [false, true] {
        let own = of(written("a.toml", tiny), array);
        assert_eq!(own, of(written("sub folder/b.toml", tiny), array));
        assert_ne!(own, of(written("a.toml", &tiny.replace("7200", "5400")), array));
    }
    let ended = |name: &str, end: &str| of(written(name, text("st8000dm004")) + "@mechanical.seek=" + end, false);
    assert_eq!(ended("a.toml", "low"), ended("b.toml", "low"));
    assert_ne!(ended("a.toml", "low"), ended("a.toml", "high"));
}

#[test]
fn drives_as_values_and_parts_of_members_make_a_run() {
    let drive = |sectors| Drive::load("tiny").unwrap().with_capacity(sectors).unwrap();
    let members = ["a", "b"].map(|name| DriveSpec::of(name, "in-place", Vec::new()));
    let of = |used: &[u64]| {
        let array = System::array(ArraySpec::new(Level::Dedicated, members.clone().into()));
        let array = System { used_sectors: Some(used.to_vec()), window: Some(Nanos(9)), ..array };
        array.given("a", drive(4000)).given("b", drive(6000)).run(Settings::default())
    };
    let run = of(&[3000, 2000]).unwrap();
    let sizes: Vec<u64> = run.system().drives().iter().map(|own| own.drive.geometry.sectors).collect();
    assert_eq!(sizes, [drive(4000), drive(6000)].map(|own| own.geometry.sectors));
    assert_eq!((run.host_sectors().unwrap(), run.record().window_ns), (2000, Some(9)));
    let read: PlannedRun = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!((read.host_sectors().unwrap(), read.record()), (2000, run.record()));
    assert!(of(&[3000]).err().unwrap().to_string().contains("1 sizes for 2 members"));
    let one = System::of(drive(4000)).layer("in-place");
    assert_eq!(one.run(Settings::default()).unwrap().raw_sectors(), drive(4000).geometry.sectors);
    let refused = |system: &System, settings| system.run(settings).err().unwrap().to_string();
    assert!(refused(&one, Settings { depth: 0, ..Settings::default() }).contains("from 1 to 65536"));
    assert!(
        refused(&System::drive("tiny").layer("in-place").layer("log"), Settings::default()).contains("this makes 2")
    );
}

#[test]
fn drives_of_one_path_are_recorded_each_with_its_own_text() {
    let text = |rpm: &str| DRIVES.iter().find(|(known, _)| *known == "tiny").unwrap().1.replace("7200", rpm);
    let drive = |rpm| Drive::parse("same.toml".as_ref(), &text(rpm)).unwrap();
    let members = ["a", "b", "c"].map(|name| DriveSpec::of(name, "in-place", Vec::new()));
    let array = System::array(ArraySpec::new(Level::Raid1, members.into()));
    let system = array.given("a", drive("7200")).given("b", drive("5400")).given("c", drive("7200"));
    let experiment = Experiment::new(system, workload("mix:count=100"));
    let run = planned(&experiment);
    let files: Vec<(String, String)> = run.record().drive_files.into_iter().collect();
    assert_eq!(files, [("b/same.toml".into(), text("5400")), ("same.toml".into(), text("7200"))]);
    let first = executed(&run, experiment.demand.as_ref());
    assert_ne!(first.members[0].busy_ns, first.members[1].busy_ns);
    let recorded: Outcome = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
    let demand = record::demand(&recorded.replayed, &no_trace).unwrap();
    let again = executed(&record::run(&recorded).unwrap(), demand.as_ref());
    assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&first).unwrap());
}

#[test]
fn requests_without_a_name_have_no_hash() {
    struct Unnamed;
    impl Demand for Unnamed {
        fn open(&self, opening: &Opening) -> Result<Box<dyn smrkit::experiment::demand::Opened>, Error> {
            Table([Request::new(Op::Read, Lba(0), 8)].into()).open(&Opening { hash: false, ..*opening })
        }
    }
    let run = planned(&Experiment::new(small(), Unnamed));
    assert_eq!(run.hash(), None);
    let record: Value = serde_json::to_value(executed(&run, &Unnamed)).unwrap();
    assert!(record["run"].get("hash").is_none());
}

/// A trace whose rows are out of order.
struct Disorderly(Described);

impl Source for Disorderly {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        self.0.fill(batch)
    }
}

impl Opened for Disorderly {
    fn describe(&self) -> Replayed {
        self.0.describe()
    }
    fn refuse_disorder(&self) -> Result<(), Error> {
        Err(Error::Usage("rows are out of order".into()))
    }
}

#[test]
fn disorder_is_refused_where_the_traces_times_count() {
    let requests = vec![Request::new(Op::Read, Lba(0), 8)];
    let open = || {
        let source = Box::new(InMemory::new(requests.clone()));
        Ok::<Box<dyn Opened>, Error>(Box::new(Disorderly(Described::new(source, Replayed::default()))))
    };
    let served = |arrival| {
        let run = planned(&experiment()).with(Settings { arrival, ..Settings::default() });
        run.serve(&workload("mix:count=1"), open, &mut NoObserver).map(|outcome| outcome.requests)
    };
    assert_eq!(served(Arrival::FlatOut).unwrap(), 1);
    assert!(served(Arrival::Trace).unwrap_err().to_string().contains("rows are out of order"));
    assert!(served(Arrival::Closed).unwrap_err().to_string().contains("takes the think times of a trace"));
}

#[test]
fn an_outcome_tells_what_was_planned() {
    let table = Table([Request::new(Op::Read, Lba(0), 8)].into());
    let run = planned(&experiment());
    let (own, bare) = (run.opening().unwrap(), small().run(*run.settings()).unwrap());
    assert_eq!((own.hash, own.think_times, own.host_sectors), (false, false, run.host_sectors().unwrap()));
    let closed =
        bare.clone().with(Settings { arrival: Arrival::Closed, seed: 7, ..*bare.settings() }).opening().unwrap();
    assert_eq!((closed.hash, closed.think_times, closed.seed), (true, true, 7));
    let scaled = Some(Scaled { platters: 3, needed_bytes: 2, own_bytes: 1 });
    let mut larger = bare.clone();
    (larger.scaled, larger.array) = (scaled, Some("some".into()));
    let outcome = executed(&larger, &table);
    assert_eq!((outcome.scaled, outcome.array.as_deref()), (scaled, Some("some")));
    assert!(outcome.replayed.requests_sha256.is_some());
    let unhashed = table.open(&Opening { hash: false, ..closed }).unwrap().describe();
    assert_eq!(unhashed, Replayed::default());
}

#[test]
fn a_broken_law_is_told_by_the_layer_that_broke_it() {
    let fault = || Error::Fault(Box::new(Fault::Inconsistent("books".into())));
    let named = |layer: &str| {
        let system = if layer == "rmw" { small() } else { System::drive("tiny").layer(layer) };
        let run = planned(&Experiment::new(system, workload("mix:count=1")));
        let refused = run.named(Error::Impossible("no".into())).to_string();
        assert!(refused.starts_with(&format!("{layer}: no")), "{refused}");
        run.named(fault()).to_string()
    };
    assert!(named("rmw").starts_with("rmw: the layer's state contradicts itself"), "{}", named("rmw"));
    assert!(named("in-place").starts_with("in-place copes with no shingling, and "), "{}", named("in-place"));
}
