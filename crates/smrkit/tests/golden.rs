//! The exact counters of a fixed set of requests on each layer and clock. A change that moves one is written down in
//! CHANGELOG under "Results that change"; `INSTA_UPDATE=always cargo test --workspace --test golden` accepts it.

#[path = "common/planned.rs"]
mod planned;

use planned::{serve, with, workload};
use serde_json::json;
use smrkit::engine::NoObserver;
use smrkit::experiment::demand::GeneratedDemand;
use smrkit::experiment::system::System;
use smrkit::layer::{self, LayerSpec};
use smrkit::settings::{Arrival, Prefill, Queue, Settings, Warmup};
use smrkit::stats::outcome::Outcome;

/// A hot tenth, a backup next to it, then reads: 3,600 requests.
const REQUESTS: &str = "hot-cold:count=2000;zipf:count=1000;sequential-write:size=64Ki,count=100;random-read:count=500";

/// Sectors that every layer has on every drive below.
const HOST_SECTORS: u64 = 3000;

/// Parameters of a layer worth a snapshot of their own, besides its smallest ones: (name of the case, settings).
fn cases(spec: &LayerSpec) -> Vec<(String, Vec<(&'static str, &'static str)>)> {
    let has = |key: &str| (spec.keys)().iter().any(|parameter| parameter.name == key);
    let mut small = Vec::new();
    let sizes = [
        ("region_sectors", "256"),
        ("cache_percent", "10"),
        ("band_tracks", "8"),
        ("cache_tracks", "16"),
        ("segment_tracks", "8"),
        ("sblock_sectors", "64"),
        ("zone_bytes", "64Ki"),
    ];
    small.extend(sizes.into_iter().filter(|(key, _)| has(key)));
    let more: &[(&str, &[(&str, &str)])] = match spec.name {
        "rmw" => &[("tail", &[("portion", "tail")]), ("hold", &[("hold", "2")])],
        "s-block" => &[
            ("largest", &[("policy", "largest")]),
            ("cache-tail", &[("policy", "cache-tail"), ("sections", "2"), ("cache_percent", "15")]),
            ("weighted", &[("policy", "weighted"), ("bypass", "off")]),
            ("literal", &[("rule", "literal"), ("copy", "entries")]),
            ("ahead", &[("destage_at_once", "3"), ("destage_ahead_percent", "10")]),
        ],
        "log" => &[
            ("cost-benefit", &[("policy", "cost-benefit"), ("separate", "hot")]),
            ("fifo", &[("policy", "fifo"), ("separate", "source"), ("segment_tracks", "4")]),
        ],
        "vguard" => &[("whole", &[("partial", "off")])],
        "zone-log" => &[("xfs", &[("host", "xfs"), ("low_space_percent", "50")]), ("btrfs", &[("host", "btrfs")])],
        "set-assoc" => &[("half", &[("cache_percent", "50")])],
        "drive-managed" => &[
            ("idle", &[("idle_clean", "on"), ("partial", "on"), ("alpha", "60")]),
            ("bypass", &[("bypass", "command"), ("bypass_bytes", "32Ki"), ("skip_unwritten", "on")]),
        ],
        "track-map" => &[("sequential", &[("scheme", "1234")]), ("wide", &[("scheme", "14R(23)")])],
        _ => &[],
    };
    let mut cases = vec![(spec.name.to_string(), small.clone())];
    for (name, settings) in more {
        let mut all = small.clone();
        all.retain(|(key, _)| settings.iter().all(|(other, _)| key != other));
        all.extend(settings.iter().copied());
        cases.push((format!("{}-{name}", spec.name), all));
    }
    cases
}

/// Figures that a reader can check by eye: sums, not distributions.
fn readable(outcome: &Outcome) -> serde_json::Value {
    let mut figures = json!({
        "requests": outcome.requests,
        "host_read_sectors": outcome.host_read_sectors,
        "host_written_sectors": outcome.host_written_sectors,
        "physical_read_sectors": outcome.physical_read_sectors,
        "physical_written_sectors": outcome.physical_written_sectors,
        "busy_by_cause_ns": outcome.busy_by_cause_ns,
        "commands": outcome.commands,
        "adjusted": outcome.adjusted,
        "write_overloading": outcome.write_overloading,
        "write_amplification": outcome.write_amplification,
        "latency_ns": outcome.latency_ns,
        "wait_ns": outcome.wait_ns,
        "service_ns": outcome.service_ns,
        "elapsed_ns": outcome.elapsed_ns,
        "cleaning": outcome.cleaning,
        "capacity": outcome.capacity,
        "layer_stats": outcome.layer_stats,
        "cache_full_at_s": outcome.verdict.cache_full_at_s,
        "rate_before_bytes_per_s": outcome.verdict.rate_before_bytes_per_s,
        "rate_after_bytes_per_s": outcome.verdict.rate_after_bytes_per_s,
        "windows": outcome.timeline.requests.len(),
    });
    if let Some(counted) = outcome.garbage_collection {
        figures["garbage_collection"] = json!(counted);
    }
    figures
}

fn snapshot(name: &str, drive: &str, spec: &LayerSpec, set: &[(&str, &str)], settings: Settings) {
    let run = with(System::drive(drive), spec.name, set).run(settings).unwrap();
    let demand = GeneratedDemand { span: Some(HOST_SECTORS), ..workload(REQUESTS) };
    let outcome = serve(&run, &demand, &mut NoObserver).unwrap();
    insta::assert_json_snapshot!(name, readable(&outcome));
}

#[test]
fn every_layer_on_every_small_drive() {
    for (drive, spec) in
        ["tiny", "tiny-constant"].into_iter().flat_map(|d| layer::named().into_iter().map(move |s| (d, s)))
    {
        for (case, set) in cases(spec) {
            snapshot(
                &format!("{drive}-{case}"),
                drive,
                spec,
                &set,
                Settings { prefill: Prefill::None, ..Settings::default() },
            );
        }
    }
}

#[test]
fn every_layer_with_a_queue_and_a_filled_disk() {
    let queued = Settings { depth: 8, queue: Queue::Sptf, prefill: Prefill::Random(0.5), ..Settings::default() };
    let open = Settings {
        arrival: Arrival::Trace,
        prefill: Prefill::Sequential,
        warmup: Warmup::Requests(200),
        ..Settings::default()
    };
    for spec in layer::named() {
        let (case, set) = cases(spec).remove(0);
        snapshot(&format!("queued-{case}"), "tiny", spec, &set, queued);
        snapshot(&format!("open-{case}"), "tiny", spec, &set, open);
    }
}
