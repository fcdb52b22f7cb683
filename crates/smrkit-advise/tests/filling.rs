//! A load without an end is not called harmless because it was looked at while the cache was filling.

use std::sync::Arc;

use smrkit::experiment::demand::{Demand, GeneratedDemand};
use smrkit::experiment::pool::Unwatched;
use smrkit::experiment::system::System;
use smrkit::settings::{Arrival, Settings};
use smrkit::workload::Workload;
use smrkit_advise::advice::{Advice, Answer};
use smrkit_advise::{Load, LoadKind, Question, Silent, advise};

fn advised(layer: &str, text: &str) -> Advice {
    advised_on("tiny", layer, text)
}

fn advised_on(drive: &str, layer: &str, text: &str) -> Advice {
    let settings = Settings { arrival: Arrival::Trace, depth: 32, ..Settings::default() };
    let run = System::drive(drive).layer(layer).run(settings).unwrap();
    let demand: Arc<dyn Demand> = Arc::new(GeneratedDemand::from(Workload::parse(text).unwrap()));
    let load = Load { kind: LoadKind::Asked, demand, settings, is_even: true };
    advise(&Question::of(run, vec![load]), &Unwatched, &mut Silent).unwrap().unwrap()
}

#[test]
fn what_is_fine_only_while_the_cache_fills_is_not_called_fine() {
    // Without pauses that are long enough to clean in, each write takes room until none is left.
    for (layer, requests, once) in
        [("drive-managed", 30, "once the drive's cache is full"), ("log", 200, "once the drive's free room is used up")]
    {
        let all = advised(layer, "random-write:size=4Ki,rate=5,count=2000");
        let part = advised(layer, &format!("random-write:size=4Ki,rate=5,count={requests}"));
        assert_eq!(all.answer, Answer::No, "{layer}: {}", all.text);
        assert_eq!(part.answer, Answer::No, "{layer}: {}", part.text);
        assert!(part.judged().own.full_after_s.is_some() && all.judged().own.full_after_s.is_none(), "{layer}");
        assert!(part.text.contains(once), "{}", part.text);
    }
}

#[test]
fn a_load_with_rests_is_fine_for_ever() {
    let rests = advised("drive-managed", "random-write:size=4Ki,rate=0.5,count=300");
    assert_eq!(rests.answer, Answer::Yes, "{}", rests.text);
}

#[test]
fn a_cache_is_filled_with_flushes_as_the_load_has_them() {
    // A recorder: streams go past the cache of this drive, unless a file system flushes them.
    let streams = "sequential-write:size=512Ki,span=50%,interval=131ms,duration=1d+random-write:size=4Ki,span=1Gi,interval=1s,duration=1d";
    let recorder = advised_on("st8000dm004", "drive-managed", &format!("{streams}+flush:interval=5s,duration=1d"));
    let own = &recorder.judged().own;
    assert!(own.full_after_s.is_some() && own.longest_stall_ns < 10_000_000_000, "{own:?}");
}
#[test]
fn a_cache_that_takes_hours_to_fill_is_looked_at_once_it_is_full() {
    // Films and a database that is written now and then: the bands that are cleaned make room for many writes.
    let films = advised_on(
        "st8000dm004",
        "drive-managed",
        "sequential-read:size=512Ki,interval=50ms,duration=2h+random-write:size=4Ki,span=5Gi,interval=2s,duration=2h+flush:interval=5s,duration=2h",
    );
    assert_ne!(films.answer, Answer::No, "{}", films.text);
    assert!(films.judged().own.full_after_s.is_some(), "{}", films.text);
}
