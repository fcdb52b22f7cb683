//! Planned runs: their text, and the runs that lists of values make.

use std::collections::BTreeSet;
use std::path::Path;

use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec};
use smrkit::drive::{DRIVES, Drive};
use smrkit::engine::NoObserver;
use smrkit::error::{Error, Fault};
use smrkit::experiment::Experiment;
use smrkit::experiment::demand::MergedDemand;
use smrkit::experiment::demand::{Demand, Described, GeneratedDemand, Opened, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::record;
use smrkit::experiment::system::AskedCapacity;
use smrkit::experiment::system::System;
use smrkit::interleave::SourcePlacement;
use smrkit::request::{InMemory, Op, Request, Source};
use smrkit::settings::{Arrival, Prefill, Queue, Settings};
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

fn no_trace(path: &str, _: &TraceReading) -> Result<Box<dyn Demand>, Error> {
    panic!("{path} is opened")
}

fn executed(run: &PlannedRun, demand: &dyn Demand) -> Outcome {
    run.execute(demand, &run.opening().unwrap(), &mut NoObserver).unwrap()
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
        let again = executed(&read, read.demand(&no_trace).unwrap().as_ref());
        let first = executed(&run, experiment.demand.as_ref());
        assert_eq!(again, first);
        assert_eq!(experiment.compare().unwrap()[0].run, first.run, "a comparison records the same");
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
    let texts: BTreeSet<String> = runs.iter().map(|run| serde_json::to_string(run).unwrap()).collect();
    assert_eq!((runs.len(), texts.len()), (2 * 16 * 2, 64));
    let outcomes = lists.compare().unwrap();
    for (at, (run, outcome)) in runs.iter().zip(&outcomes).enumerate() {
        assert_eq!(run.record(), outcome.run, "run {at}");
        let alone = executed(run, lists.demand.as_ref());
        assert_eq!((alone.elapsed_ns, alone.requests), (outcome.elapsed_ns, 300), "run {at}");
        // The conventional disk stands before the log, on each drive and under each of the settings.
        let baseline = &outcomes[at - at % 2];
        assert_eq!((baseline.layer.as_str(), &baseline.drive), ("in-place", &outcome.drive));
        assert_eq!(outcome.verdict.baseline_mean_ns, Some(baseline.latency_ns.all.mean), "run {at}");
    }
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
    assert_eq!(outcome.replayed, Replayed::default());
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
