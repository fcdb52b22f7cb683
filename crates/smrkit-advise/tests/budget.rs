//! What the advice says that a drive takes, against runs that try it.

use std::sync::Arc;

use smrkit::engine::RequestRows;
use smrkit::experiment::demand::{Demand, GeneratedDemand, Opening, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::pool::Unwatched;
use smrkit::experiment::system::System;
use smrkit::request::{Op, Request};
use smrkit::settings::{Arrival, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::{Lba, Nanos};
use smrkit::workload::Workload;
use smrkit_advise::budget::Budget;
use smrkit_advise::{Deaf, Load, LoadKind, Question, advise};

fn settings(arrival: Arrival) -> Settings {
    Settings { arrival, depth: 32, ..Settings::default() }
}

fn tiny(settings: Settings) -> PlannedRun {
    System::drive("tiny").layer("drive-managed").run(settings).unwrap()
}

fn workload(text: &str) -> GeneratedDemand {
    GeneratedDemand::from(Workload::parse(text).unwrap())
}

fn budget(text: &str) -> Budget {
    let demand: Arc<dyn Demand> = Arc::new(workload(text));
    let load = Load { kind: LoadKind::Asked, demand, settings: settings(Arrival::FlatOut), is_even: true };
    let advice =
        advise(&Question::of(tiny(settings(Arrival::FlatOut)), vec![load]), &Unwatched, &mut Deaf).unwrap().unwrap();
    advice.budget.expect("it writes")
}

fn served(demand: &dyn Demand) -> Outcome {
    let run = tiny(settings(Arrival::Trace));
    let sectors = run.host_sectors().unwrap().min(run.conventional().unwrap().host_sectors().unwrap());
    run.execute(demand, &Opening::new(sectors, 1), &mut RequestRows::default()).unwrap()
}

#[test]
fn a_drive_keeps_up_its_rate_and_no_more() {
    for text in ["random-write:size=4Ki", "mix:size=8Ki,write_share=0.5"] {
        let found = budget(&format!("{text},count=20k"));
        let lasting = found.for_ever_bytes_per_s.unwrap() / found.request_bytes;
        // Ten times as long as what is tried, from an empty cache on.
        let keeps_up = |rate: f64| {
            let outcome = served(&workload(&format!("{text},count=40k,rate={rate}")));
            outcome.elapsed_ns - outcome.arrivals_ns < outcome.arrivals_ns / 50
        };
        assert!(keeps_up(lasting * 0.95), "{text}: {lasting} a second");
        assert!(!keeps_up(lasting * 1.05), "{text}: {lasting} a second");
    }
}

#[test]
fn after_the_rest_it_takes_as_much_again() {
    let found = budget("random-write:size=4Ki,count=20k");
    let (at_once, rest_s) = (found.at_once_bytes.unwrap() / 4096, found.rest_s.unwrap());
    let waits = |requests: u64, times: f64| {
        let place = |nth: u64| Lba(nth * 7919 % 500 * 8);
        let second = Nanos::from_secs(rest_s * times + found.at_once_bytes.unwrap() as f64 / found.at_once_bytes_per_s);
        let write = |time, nth| Request { time, ..Request::new(Op::Write, place(nth), 8) };
        let first = (0..requests).map(|nth| write(Nanos::ZERO, nth));
        let all: Vec<Request> = first.chain((0..requests).map(|nth| write(second, nth + requests))).collect();
        served(&Table(all.into())).verdict.cache_full_at_s.is_some()
    };
    let most = at_once * 9 / 10;
    assert!(!waits(most, 1.05), "{at_once} at once, {rest_s} s");
    assert!(waits(most, 0.5), "{at_once} at once, {rest_s} s");
}
