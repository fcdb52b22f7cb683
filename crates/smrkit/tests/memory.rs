//! Memory: no value that the pages allow a layer's parameter ends a run for want of it. Tables that would be too large are
//! refused with the remedy.
//!
//! The heap is capped, so that a run that wants more aborts; `--nocapture` shows the run.

#[path = "common/planned.rs"]
mod planned;

use std::alloc::System;

use cap::Cap;
use planned::{plan, serve};
use smrkit::drive::Drive;
use smrkit::engine::NoObserver;
use smrkit::engine::system::DriveRun;
use smrkit::error::Error;
use smrkit::experiment::demand::Table;
use smrkit::layer::{LAYERS, LayerSpec};
use smrkit::request::{Op, Request};
use smrkit::schema::Domain;
use smrkit::settings::Settings;
use smrkit::units::Lba;

/// Layers may have tables of 4 GiB; all else has to fit into as much again.
const HEAP_BYTES_MAX: usize = 8 << 30;

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, HEAP_BYTES_MAX);

/// Whole numbers from `low` to `high`: both ends, and some between whose bits grow.
fn numbers(low: u64, high: u64) -> Vec<String> {
    let between = (0..16).map(|step| low.max(1).saturating_mul(1 << (4 * step))).filter(|n| (low..high).contains(n));
    [low, high].into_iter().chain(between.skip(1)).map(|n| n.to_string()).collect()
}

/// Values at the edges of what a parameter may be.
fn values(domain: &Domain) -> Vec<String> {
    match domain {
        Domain::Whole(low, high) => numbers(*low, *high),
        Domain::Bytes(low, high) => numbers(low.div_ceil(512), high / 512)
            .into_iter()
            .map(|sectors| (512 * sectors.parse::<u64>().unwrap()).to_string())
            .collect(),
        Domain::Fraction(_, low, high) => {
            [*low, low + (high - low) / 1000.0, (low + high) / 2.0, *high].map(|n| n.to_string()).into()
        }
        Domain::Time(_) => vec!["1h".into()],
        Domain::Words(words) => words.iter().map(|word| word.to_string()).collect(),
        Domain::Or(word, inner) => values(inner).into_iter().chain([word.to_string()]).collect(),
        Domain::Text(_) => Vec::new(),
    }
}

/// Writes all over a full drive under a parameter's value; tells what was refused.
fn write(drive: &Drive, layer: &'static LayerSpec, set: &[(String, String)]) -> Result<(), Error> {
    let run = plan(DriveRun { drive: drive.clone(), layer, parameters: layer.resolve(set)? }, Settings::default())?;
    let sectors = run.host_sectors()?;
    let writes = (0..32).map(|n| Request::new(Op::Write, Lba(sectors / 32 * n), sectors.min(8) as u32));
    serve(&run, &Table(writes.collect()), &mut NoObserver).map(drop)
}

#[test]
fn no_value_of_a_parameter_takes_more_memory_than_there_is() {
    let drive = Drive::load("st5000as0011").unwrap();
    let (mut served, mut refused) = (0, 0);
    for layer in LAYERS {
        for key in (layer.keys)() {
            for value in values(&key.domain()) {
                println!("{} {}={value}", layer.name, key.name);
                match write(&drive, layer, &[(key.name.into(), value.clone())]) {
                    Ok(()) => served += 1,
                    Err(Error::Impossible(_) | Error::Usage(_)) => refused += 1,
                    Err(error) => panic!("{} {}={value}: {error}", layer.name, key.name),
                }
            }
        }
    }
    assert!(served > 100 && refused > 10, "{served} served, {refused} refused");
}
