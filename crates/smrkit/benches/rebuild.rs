//! Time of rebuilding a member of 5 TB, in simulated hours and in seconds here, by what it is and how it is filled:
//! `cargo bench -p smrkit --bench rebuild -- PART [ONLY [BESIDE]]`.
//!
//! The drive is a `PART`-th of 5 TB, hours are scaled back. `ONLY` chooses lines by a part of `ORDER | MEMBER`; `BESIDE` is a
//! workload that comes by its own times. `docs/papers/arrays.md` has such figures. Printed last in a
//! line: seconds on the wall, and their ratio to those of the first line of its order: the conventional member, if it is chosen.

#[path = "../tests/common/planned.rs"]
mod planned;
#[path = "../tests/common/rebuilds.rs"]
mod rebuilds;

use std::time::Instant;

use planned::Set;
use rebuilds::{WRITE_CACHE, drive, member, mirror, run};
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Rebuild;
use smrkit::units::Nanos;

const ORDERS: [&str; 9] = [
    "write=512Ki,window=1",
    "write=512Ki,window=32",
    "write=32Ki,window=1",
    "write=32Ki,window=32",
    "write=32Ki,window=256",
    "order=scattered,record=128Ki,window=1",
    "order=scattered,record=128Ki,window=10",
    "order=scattered,record=128Ki,window=32",
    "order=scattered,record=44Ki,run=3MB,window=32",
];

/// Name, layer, additions to the drive file, parameters of the layer.
const MEMBERS: [(&str, &str, &str, Set<'static>); 5] = [
    ("conventional", "in-place", "", &[]),
    ("conventional, write cache", "in-place", WRITE_CACHE, &[]),
    ("drive-managed", "drive-managed", "", &[]),
    ("drive-managed, write cache", "drive-managed", WRITE_CACHE, &[]),
    (
        "drive-managed, write cache, bypass",
        "drive-managed",
        WRITE_CACHE,
        &[("bypass", "run"), ("skip_unwritten", "on")],
    ),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(part) = arguments.first().and_then(|text| text.parse().ok()).filter(|&part: &u64| part > 0) else {
        println!("how large a part of 5 TB? Give 1 for all of it (minutes), 10 for a tenth: -- PART [ONLY [BESIDE]]");
        return;
    };
    let (only, beside) = (arguments.get(1).map_or("", String::as_str), arguments.get(2).map(String::as_str));
    for order in ORDERS {
        let mut first = None;
        for (name, layer, buffers, set) in MEMBERS {
            if !format!("{order} | {name}").contains(only) {
                continue;
            }
            let array = mirror(part, member(drive(part, buffers), layer, set));
            let settings = Settings { arrival: Arrival::Trace, prefill: Prefill::None, ..Settings::default() };
            let start = Instant::now();
            let outcome = run(&array, settings, &format!("disk=1,{order}"), beside).expect("nothing fails");
            let seconds = start.elapsed().as_secs_f64();
            let baseline = *first.get_or_insert(seconds);
            let rebuild = outcome.rebuild.expect("it came to its end");
            println!("{order} | {name}: {}; {seconds:.1} s here, {:.2}", told(&rebuild), seconds / baseline);
        }
    }
}

/// Hours for 5 TB, what the new member was busy with, and what commands waited.
fn told(rebuild: &Rebuild) -> String {
    let hours = |ns: u64| Nanos(ns).as_secs() / 3600.0 * 5e12 / rebuild.bytes as f64;
    let (new, longest_ns) = (&rebuild.members[1], rebuild.longest_new_ns.unwrap_or(0));
    let busy = &new.busy_ns;
    format!(
        "{:.1} h; host {:.1} map {:.1} log read {:.1} band read {:.1} written {:.1}; longest {:.2} s; over 7 s {}; host's 99 % {:.2} s",
        hours(rebuild.elapsed_ns),
        hours(busy.host_write),
        hours(busy.map_write),
        hours(busy.destage_read),
        hours(busy.clean_read),
        hours(busy.clean_write),
        Nanos(longest_ns).as_secs(),
        new.commands_over_7s,
        Nanos(rebuild.foreground_ns.all.p99).as_secs(),
    )
}
