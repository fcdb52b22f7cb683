use super::*;
use crate::tests::example::{in_place, rmw};
use smrkit::experiment::system::System;
use smrkit::settings::{Arrival, Prefill, Warmup};
use smrkit::stats::outcome::{Scaled, TraceReading};

#[test]
fn runs_that_no_command_makes_together_have_none() {
    let alike = [in_place(), rmw()].map(|run| {
        let mut run = Outcome { drive: in_place().drive, engine: in_place().engine, seed: 1, ..run };
        run.replayed = in_place().replayed;
        run.run.system = format!("layer={},drive=tiny", run.layer);
        run
    });
    assert!(command(&alike).is_some_and(|text| text.contains("--layer in-place,rmw")), "{:?}", command(&alike));
    let with = |change: fn(&mut Outcome)| {
        let mut runs = alike.clone();
        change(&mut runs[1]);
        command(&runs)
    };
    assert_eq!(with(|run| run.seed = 2), None);
    assert_eq!(with(|run| run.replayed.trace = Some("other.csv".into())), None);
    assert_eq!(with(|run| run.engine.depth = 7), None);
    assert_eq!(with(|run| run.run.rebuild = Some("disk=1".parse().unwrap())), None);
    assert_eq!(command(&[]), None);
}

#[test]
fn a_span_is_named_where_it_is_not_the_whole_disk() {
    let spanning = |share: u64| {
        let mut run = Outcome { seed: 1, ..in_place() };
        run.replayed.trace = None;
        run.replayed.workload = Some("mix".into());
        run.state.capacity_bytes = 1 << 30;
        run.replayed.workload_sectors = Some((1 << 21) / share);
        run.run.system = "layer=in-place,drive=tiny".into();
        command(&[run]).unwrap()
    };
    assert!(!spanning(1).contains("--span"), "{}", spanning(1));
    assert!(spanning(2).contains("--workload mix --span"), "{}", spanning(2));
}

/// A run of a workload on a system.
fn run_of(system: &str) -> Outcome {
    let mut run = Outcome { seed: 1, engine: Settings { queue: Queue::Fcfs, ..Settings::default() }, ..in_place() };
    run.replayed = Replayed { workload: Some("mix".into()), ..Replayed::default() };
    run.run.system = system.into();
    run
}

/// Options of the command for runs, without its beginning.
fn options_of(runs: &[Outcome]) -> Option<String> {
    command(runs).map(|text| text.strip_prefix("smrkit run ").unwrap().to_string())
}

const TINY: &str = "layer=rmw,drive=tiny";

#[test]
fn conditions_are_named_where_they_are_not_the_usual() {
    let with = |change: &dyn Fn(&mut Outcome)| {
        let mut run = run_of(TINY);
        change(&mut run);
        options_of(&[run]).map(|text| text.replace("--drive tiny --layer rmw --workload mix", "").trim().to_string())
    };
    let said = |text: &str| Some(text.to_string());
    let usual = Settings::default();
    assert_eq!(with(&|_| {}), said(""));
    assert_eq!(with(&|run| run.engine.depth = 8), said("--depth 8 --queue fcfs"));
    assert_eq!(with(&|run| run.engine.queue = Queue::Sptf), said("--queue sptf"));
    assert_eq!(with(&|run| run.engine.arrival = Arrival::Trace), said("--arrival trace"));
    assert_eq!(with(&|run| run.engine.arrival = Arrival::Closed), said("--arrival closed"));
    assert_eq!(with(&|run| run.engine.time_scale = 2.5), said("--time-scale 2.5"));
    assert_eq!(with(&|run| run.engine.think = Nanos(2_000_000)), said("--think 2ms"));
    let other = if usual.prefill == Prefill::None { Prefill::Full } else { Prefill::None };
    assert_eq!(with(&|run| run.engine.prefill = other), said(&format!("--prefill {other}")));
    assert_eq!(with(&|run| run.engine.warmup = Warmup::Requests(7)), said("--warmup 7"));
    assert_eq!(with(&|run| run.engine.fold = true), said("--fold"));
    assert_eq!(with(&|run| run.engine.check = true), said("--check"));
    assert_eq!(with(&|run| (run.engine.check, run.engine.power_cut) = (true, Some(9))), said("--power-cut 9"));
    assert_eq!(with(&|run| run.engine.movement = true), said("--movement"));
    assert_eq!(with(&|run| run.seed = 5), said("--seed 5"));
    assert_eq!(with(&|run| run.engine.until = Some(Nanos(1))), None);
    assert_eq!(with(&|run| run.merged_runs = Some(2)), None);
    assert_eq!(with(&|run| run.run.system = "nonsense".into()), None);
}

#[test]
fn traces_and_workloads_are_named_as_they_were_read() {
    let with = |replayed: Replayed| {
        let run = Outcome { replayed, ..run_of(TINY) };
        options_of(&[run]).map(|text| text.replace("--drive tiny --layer rmw ", ""))
    };
    let said = |text: &str| Some(text.to_string());
    let of = |trace: &str| Replayed { trace: Some(trace.into()), ..Replayed::default() };
    assert_eq!(with(of("a.csv")), said("--trace a.csv"));
    assert_eq!(with(of("it's here.csv")), said("--trace 'it'\\''s here.csv'"));
    assert_eq!(with(of("-")), None, "standard input");
    assert_eq!(with(Replayed::default()), None, "requests from memory");
    let read = |reading: TraceReading| with(Replayed { trace_reading: Some(reading), ..of("a.csv") });
    let all = TraceReading { volume: "all".into(), format: None, skip_bad_rows: false };
    assert_eq!(read(all.clone()), said("--trace a.csv"));
    let one = TraceReading { volume: "3".into(), format: Some("msr".into()), skip_bad_rows: true };
    assert_eq!(read(one), said("--trace a.csv --volume 3 --format msr --skip-bad-rows"));
}

#[test]
fn merged_sources_are_named_one_by_one() {
    let source = |trace: Option<&str>, workload: Option<&str>, sectors, first_lba| MergedSource {
        trace: trace.map(String::from),
        workload: workload.map(String::from),
        sectors,
        first_lba,
        ..MergedSource::default()
    };
    let with = |system: &str, sources: &[MergedSource]| {
        let replayed =
            Replayed { sources: Some(sources.to_vec()), interleave: "burst:9".parse().ok(), ..Replayed::default() };
        let run = Outcome { replayed, ..run_of(system) };
        options_of(&[run]).map(|text| text.split("--layer rmw ").nth(1).unwrap_or(&text).to_string())
    };
    let said = |text: &str| Some(text.to_string());
    let (trace, mix) = (source(Some("a.csv"), None, 100, 0), source(None, Some("mix"), 4096, 200));
    assert_eq!(
        with(TINY, &[trace.clone(), mix.clone()]),
        said("--trace a.csv --workload mix --interleave burst:9 --span 2Mi")
    );
    let at_zero = MergedSource { first_lba: 0, ..mix.clone() };
    let both = [trace.clone(), at_zero.clone()];
    assert_eq!(with(TINY, &both), said("--trace a.csv --workload mix --interleave burst:9 --sources zero --span 2Mi"));
    assert_eq!(with(TINY, std::slice::from_ref(&trace)), said("--trace a.csv --interleave burst:9 --sources zero"));
    let larger = MergedSource { sectors: 8192, ..mix.clone() };
    assert_eq!(with(TINY, &[mix.clone(), larger]), None, "one option sets all spans");
    assert!(with(TINY, &[mix.clone(), mix.clone()]).is_some());
    assert_eq!(with(TINY, &[source(None, None, 1, 0)]), None);
}

#[test]
fn parameters_as_they_are_unless_set_are_not_listed() {
    for spec in layer::all() {
        let system = System::drive("wdc-2tb").layer(spec.name);
        let recorded = system.run(Settings::default()).unwrap().record().system;
        let command = options_of(&[run_of(&recorded)]).unwrap();
        assert_eq!(command, format!("--drive wdc-2tb --layer {} --workload mix", spec.name));
    }
    let size = |bytes: &str| run_of(&format!("layer=drive-managed,drive=tiny,set=(bypass_bytes={bytes})"));
    assert_eq!(options_of(&[size("1048576")]), options_of(&[size("1Mi")]));
    assert!(options_of(&[size("1Mi")]).unwrap().contains("--set drive-managed.bypass_bytes=1Mi"));
}

#[test]
fn parameters_are_listed_where_runs_are_all_combinations() {
    let of = |systems: &[&str]| {
        let runs: Vec<Outcome> = systems.iter().map(|system| run_of(system)).collect();
        options_of(&runs).map(|text| text.replace("--drive tiny ", "").replace(" --workload mix", ""))
    };
    let said = |text: &str| Some(text.to_string());
    assert_eq!(of(&[TINY, "layer=log,drive=tiny"]), said("--layer rmw,log"));
    let region = |sectors: u64| format!("layer=rmw,drive=tiny,set=(region_sectors={sectors})");
    let [small, large] = [region(300), region(600)];
    assert_eq!(of(&[&small]), said("--layer rmw --set rmw.region_sectors=300"));
    assert_eq!(of(&[&small, &large]), said("--layer rmw --set rmw.region_sectors=300,600"));
    assert_eq!(of(&[&small, "layer=log,drive=tiny", &large]), None, "one layer in two places");
    assert_eq!(of(&[&small, &small]), None, "one run twice");
    let cache = |percent: u64, sectors: u64| {
        format!("layer=set-assoc,drive=tiny,set=(cache_percent={percent},region_sectors={sectors})")
    };
    let all = [cache(3, 300), cache(3, 600), cache(6, 300), cache(6, 600)];
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let combined = "--layer set-assoc --set set-assoc.cache_percent=3,6 --set set-assoc.region_sectors=300,600";
    assert_eq!(of(&all), said(combined));
    assert_eq!(of(&all[..3]), None, "a combination is missing");
    assert_eq!(of(&[all[0], all[1], all[3], all[2]]), None, "they stand in another order");
    assert_eq!(of(&["layer=rmw", "layer=log,drive=tiny"]), None, "two drives");
}

#[test]
fn a_size_is_named_where_it_is_not_the_drives_own() {
    let own = Drive::load("tiny").unwrap().geometry.sectors;
    let of = |sectors: u64, change: fn(&mut Outcome)| {
        let mut run = run_of(&format!("layer=rmw,drive=tiny,capacity={}", exact_bytes(sectors * SECTOR_BYTES)));
        change(&mut run);
        command(&[run]).unwrap().contains("--capacity")
    };
    assert_eq!((of(own, |_| {}), of(2 * own, |_| {})), (false, true));
    let scaled = |run: &mut Outcome| run.scaled = Some(Scaled { platters: 2, needed_bytes: 1, own_bytes: 1 });
    assert!(!of(2 * own, scaled), "the trace made it so large");
    let from_file = |run: &mut Outcome| drop(run.run.drive_files.insert("tiny".into(), String::new()));
    assert!(of(own, from_file), "a file may say anything");
}

#[test]
fn words_are_quoted_where_a_shell_would_take_them_apart() {
    let plain = "aZ9-_.,:=/@%+";
    assert_eq!(quoted(plain), plain);
    assert_eq!([quoted(""), quoted("a b"), quoted("$x"), quoted("it's")], ["''", "'a b'", "'$x'", "'it'\\''s'"]);
}
