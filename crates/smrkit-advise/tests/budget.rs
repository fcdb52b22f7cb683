//! What the advice says that a drive takes, against runs that try it.

use std::path::Path;
use std::sync::Arc;

use smrkit::drive::Drive;
use smrkit::engine::RequestRows;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Opening, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::Unwatched;
use smrkit::experiment::system::{AskedCapacity, System};
use smrkit::request::{Op, Request};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::{Lba, Nanos};
use smrkit::workload::Workload;
use smrkit_advise::advice::{Advice, Verdict};
use smrkit_advise::budget::Budget;
use smrkit_advise::comparison::Effect;
use smrkit_advise::{Listener, Load, LoadKind, Need, Question, ScaledLoad, Silent, advise};

const TINY: &str = include_str!("../../smrkit/drives/tiny.toml");

fn settings(arrival: Arrival) -> Settings {
    Settings { arrival, depth: 32, ..Settings::default() }
}

/// A small drive with this much RAM for writes.
fn tiny(layer: &str, ram_bytes: u64, settings: Settings) -> PlannedRun {
    let ram = format!("write_cache_bytes = {{ value = {ram_bytes}, source = \"assumption\" }}\n");
    let text = if ram_bytes > 0 { TINY.to_string() + &ram } else { TINY.to_string() };
    System::of(Drive::parse(Path::new("tiny.toml"), &text).unwrap()).layer(layer).run(settings).unwrap()
}

fn workload(text: &str) -> GeneratedDemand {
    GeneratedDemand::from(Workload::parse(text).unwrap())
}

fn budget(run: PlannedRun, text: &str) -> Budget {
    let demand: Arc<dyn Demand> = Arc::new(workload(text));
    let load = Load { kind: LoadKind::Asked, demand, settings: *run.settings(), is_even: true };
    let advice = advise(&Question::of(run, vec![load]), &Unwatched, &mut Silent).unwrap().unwrap();
    advice.budget.expect("it writes")
}

fn served(run: &PlannedRun, demand: &dyn Demand) -> Outcome {
    let sectors = run.host_sectors().unwrap().min(run.conventional().unwrap().host_sectors().unwrap());
    run.execute(demand, &Opening::new(sectors, 1), &mut RequestRows::default()).unwrap()
}

#[test]
fn a_drive_keeps_up_its_rate_and_no_more() {
    // Loads that come as fast as they can, and loads at times of their own: from one that is far too slow to fill anything to one that
    // no cache stands.
    for (layer, ram_bytes, text, asked) in [
        ("drive-managed", 0, "random-write:size=4Ki", None),
        ("drive-managed", 65536, "random-write:size=4Ki", None),
        ("drive-managed", 0, "mix:size=8Ki,write_share=0.5", None),
        ("drive-managed", 65536, "zipf:size=4Ki,write_share=0.7", None),
        ("drive-managed", 0, "random-write:size=4Ki", Some(0.3)),
        ("drive-managed", 65536, "random-write:size=4Ki", Some(40.0)),
        ("drive-managed", 0, "mix:size=8Ki,write_share=0.5", Some(6.0)),
        ("drive-managed", 0, "mix:size=4Ki,write_share=0.5", None),
        ("log", 0, "random-write:size=4Ki", None),
        ("log", 65536, "random-write:size=4Ki", Some(4.0)),
    ] {
        let arrival = if asked.is_some() { Arrival::Trace } else { Arrival::FlatOut };
        let rate = asked.map_or(String::new(), |rate: f64| format!(",rate={rate}"));
        // A short load is told as well as a long one: it is served again and again.
        let count = if text.contains("mix:size=4Ki") { "1k" } else { "20k" };
        let found = budget(tiny(layer, ram_bytes, settings(arrival)), &format!("{text},count={count}{rate}"));
        let lasting = found.for_ever_bytes_per_s.unwrap() / found.request_bytes;
        // As long as what is tried, and ten times as long, from an empty cache on.
        let keeps_up = |rate: f64| {
            let run = tiny(layer, ram_bytes, settings(Arrival::Trace));
            let outcome = served(&run, &workload(&format!("{text},count=100k,rate={rate}")));
            outcome.elapsed_ns - outcome.arrivals_ns < outcome.arrivals_ns / 100
        };
        let what = format!("{layer}, {ram_bytes} B of RAM, {text} at {asked:?}: {lasting} a second");
        assert!(keeps_up(lasting * 0.95), "less than that is too much: {what}");
        assert!(!keeps_up(lasting * 1.05), "more than that is kept up: {what}");
    }
}

#[test]
fn a_load_with_phases_has_no_rate_for_ever() {
    // What one round leaves in the cache meets the next.
    let text = "random-write:size=4Ki,count=50k,rate=0.05;random-write:size=4Ki,count=35k,rate=20";
    let run = tiny("drive-managed", 65536, settings(Arrival::Trace));
    let demand: Arc<dyn Demand> = Arc::new(workload(text));
    let load = Load { kind: LoadKind::Asked, demand, settings: *run.settings(), is_even: false };
    let advice = advise(&Question::of(run, vec![load]), &Unwatched, &mut Silent).unwrap().unwrap();
    assert_eq!(advice.budget.unwrap().for_ever_bytes_per_s, None);
}

#[test]
fn the_rate_that_is_kept_up_is_not_that_which_was_asked_for() {
    // Commits come every 2 s, however much there is to commit.
    let text = |rate: f64| format!("random-write:size=4Ki,count=100k,rate={rate}+flush:interval=2s,count=100k");
    let found = [0.4, 2.0, 12.0].map(|asked| {
        let run = tiny("drive-managed", 65536, settings(Arrival::Trace));
        let load = Load {
            kind: LoadKind::Asked,
            demand: Arc::new(workload(&text(asked))),
            settings: *run.settings(),
            is_even: true,
        };
        let scaled_load: ScaledLoad = Arc::new(move |load_factor| Ok(Arc::new(workload(&text(asked * load_factor)))));
        let question = Question { scaled_load: Some(scaled_load), ..Question::of(run, vec![load]) };
        let budget = advise(&question, &Unwatched, &mut Silent).unwrap().unwrap().budget.unwrap();
        budget.for_ever_bytes_per_s.unwrap()
    });
    let (least, most) = (found.iter().copied().fold(f64::MAX, f64::min), found.iter().copied().fold(0.0, f64::max));
    assert!(most < least * 1.15, "{found:?}");
}

#[test]
fn room_that_was_left_is_no_rate_that_lasts() {
    // The smaller one is filled by a few requests, the larger one by as many as are served at most.
    for (sectors, size, count) in [(100_000_000, "64Ki", "100k"), (3_800_000_000, "32Ki", "1M")] {
        let system = System::drive("wd20spzx").layer("log").capacity(AskedCapacity::Sectors(sectors));
        let run = system.run(Settings { prefill: Prefill::Full, ..settings(Arrival::FlatOut) }).unwrap();
        let found = budget(run, &format!("random-write:size={size},count={count}"));
        let (after, lasting) = (found.after_bytes_per_s.unwrap(), found.for_ever_bytes_per_s.unwrap());
        assert!((0.5..1.5).contains(&(lasting / after)), "{lasting} for {after} on {sectors}");
    }
}

/// Headlines in the order in which they come.
#[derive(Default)]
struct Headlines(Vec<String>);

impl Listener for Headlines {
    fn preview(&mut self, advice: &Advice) {
        self.answered(advice);
    }

    fn answered(&mut self, advice: &Advice) {
        self.0.extend(advice.text.lines().next().map(str::to_string));
    }
}

#[test]
fn what_comes_again_is_judged_once_its_cleaning_is_known() {
    // They are written in 8 s, and cleaned in more than one.
    let run = tiny("drive-managed", 0, settings(Arrival::FlatOut));
    let demand: Arc<dyn Demand> = Arc::new(workload("random-write:size=4Ki,count=400"));
    let load = Load { kind: LoadKind::Asked, demand, settings: *run.settings(), is_even: true };
    let need = Need { every: Some(Nanos::from_secs(9.0)), ..Need::default() };
    let mut told = Headlines::default();
    let advice = advise(&Question { need, ..Question::of(run, vec![load]) }, &Unwatched, &mut told).unwrap().unwrap();
    let [preview, answer] = told.0.as_slice() else { panic!("{:?}", told.0) };
    assert!(
        preview.starts_with("Yes") && preview.contains("if the drive has cleaned up when the next one begins"),
        "{preview}"
    );
    assert!(answer.starts_with("No") && advice.text.starts_with(answer), "{answer}");
    assert_eq!(advice.verdict, Verdict::Misses, "{}", advice.text);
    let cmr = &advice.remedies[0];
    assert_eq!((cmr.change.as_str(), cmr.effect), ("CMR disks", Some(Effect::Fixes)));
    assert!(advice.remedies.len() > 1, "changes are tried for what is found only then");
}

/// Requests behind each answer, in the order in which they come.
#[derive(Default)]
struct Requests(Vec<u64>);

impl Listener for Requests {
    fn preview(&mut self, advice: &Advice) {
        self.answered(advice);
    }

    fn answered(&mut self, advice: &Advice) {
        self.0.push(advice.demand.requests);
    }
}

#[test]
fn a_long_load_has_a_first_answer_after_few_requests() {
    let told = |count: u64| {
        let run = tiny("drive-managed", 0, settings(Arrival::FlatOut));
        let demand: Arc<dyn Demand> = Arc::new(workload(&format!("random-write:size=4Ki,count={count}")));
        let load = Load { kind: LoadKind::Asked, demand, settings: *run.settings(), is_even: true };
        let mut told = Requests::default();
        advise(&Question::of(run, vec![load]), &Unwatched, &mut told).unwrap().unwrap();
        told.0
    };
    let long = told(50_000);
    assert!(long.len() == 2 && long[0] == 10_000 && long[1] >= 10_000, "{long:?}");
    assert_eq!(told(2000), [2000], "what is served at once needs no preview");
}

#[test]
fn reads_take_no_room() {
    let at_once = |text: &str| {
        let run = System::drive("st8000dm004").layer("drive-managed").run(settings(Arrival::FlatOut)).unwrap();
        let found = budget(run, text);
        (found.at_once_bytes.unwrap() as f64 * found.written_share, found.written_share)
    };
    // Neither fills the cache by itself.
    let (writes, _) = at_once("random-write:size=4Mi,bytes=8G");
    let (mix, share) = at_once("mix:size=4Mi,write_share=0.3,bytes=8G");
    assert!((share - 0.3).abs() < 0.03 && (mix / writes - 1.0).abs() < 0.05, "{mix} for {writes}, {share}");
}

#[test]
fn after_the_rest_it_takes_as_much_again() {
    let run = |arrival| tiny("drive-managed", 0, settings(arrival));
    let found = budget(run(Arrival::FlatOut), "random-write:size=4Ki,count=20k");
    let (at_once, rest_s) = (found.at_once_bytes.unwrap() / 4096, found.rest_s.unwrap());
    let waits = |requests: u64, times: f64| {
        let place = |nth: u64| Lba(nth * 7919 % 500 * 8);
        let second = Nanos::from_secs(rest_s * times + found.at_once_bytes.unwrap() as f64 / found.at_once_bytes_per_s);
        let write = |time, nth| Request { time, ..Request::new(Op::Write, place(nth), 8) };
        let first = (0..requests).map(|nth| write(Nanos::ZERO, nth));
        let all: Vec<Request> = first.chain((0..requests).map(|nth| write(second, nth + requests))).collect();
        served(&run(Arrival::Trace), &Table(all.into())).verdict.cache_full_at_s.is_some()
    };
    let most = at_once * 9 / 10;
    // These go to as many places as the load's, but not to the same.
    assert!(!waits(most, 1.2), "{at_once} at once, {rest_s} s");
    assert!(waits(most, 0.5), "{at_once} at once, {rest_s} s");
}
