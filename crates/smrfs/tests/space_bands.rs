//! Whole lives of strict-append disks: a small file system over a disk that checks every order, without the core.
//!
//! Filling, deleting, overwriting; commits late and of single files; writes that fail; power cuts with a mount after them.

mod space_bands_host;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::device::{Bands, Model, Shape};
use smrfs::space::bands::options::{BandsOptions, Blocks, Pace, Reset};
use space_bands_host::Host;

/// Bands of `band` granules, with gaps of a granule.
fn shape(count: u64, band: u64, max_open: u64) -> Shape {
    let bands = Bands { count, granules: band, gap_granules: 1, max_open };
    Shape { model: Model::StrictAppend, granule_bytes: 4096, granules: count * (band + 1) + 3, did: 1, dpid: 1, bands }
}

/// Lets `work` go on for `seeds` seeds, or for as many as the environment asks for.
fn seeds(seeds: u64, work: impl Fn(u64, Pcg64Mcg)) {
    let seeds = std::env::var("SMRFS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(seeds);
    for seed in 0..seeds {
        work(seed, Pcg64Mcg::seed_from_u64(seed));
    }
}

fn options(random: &mut Pcg64Mcg) -> BandsOptions {
    BandsOptions {
        reset: if random.random() { Reset::Eager } else { Reset::Lazy },
        pace: if random.random() { Pace::Steady } else { Pace::Event },
        blocks: if random.random() { Blocks::Split } else { Blocks::Whole },
        writers: random.random_range(1..5),
        block_granules: random.random_range(1..7),
        event_granules: random.random_range(1..80),
        reserve_bands: random.random_range(1..4),
        ..BandsOptions::default()
    }
}

#[test]
fn any_life_of_a_small_disk_keeps_its_data_and_its_room() {
    seeds(60, |seed, mut random| {
        let shape = shape(random.random_range(8..40), random.random_range(4..24), random.random_range(1..9));
        let options = options(&mut random);
        let mut host = Host::new(&shape, options, seed).checked();
        let usable = host.usable();
        for _ in 0..1500 {
            let file = random.random_range(1..9);
            let at = random.random_range(0..usable / 4 + 1);
            let count = random.random_range(1..9).min(usable);
            match random.random_range(0..100) {
                0..60 => host.write_if_room(file, at, count),
                60..75 => host.punch(file, at, random.random_range(1..2 * count + 1)),
                75..78 => host.punch(file, 0, usable),
                78..88 => host.commit(file),
                88..90 => host.commit_all(),
                90..95 => host.close(file),
                95..99 => host.idle(random.random_range(1..40)),
                _ => host.cut_power(),
            }
        }
        host.read_all();
    });
}

#[test]
fn failed_writes_and_repeated_power_cuts_lose_neither_data_nor_room() {
    seeds(60, |seed, mut random| {
        let shape = shape(random.random_range(12..40), random.random_range(4..24), random.random_range(6..12));
        let options = BandsOptions { reserve_bands: 3, ..options(&mut random) };
        let mut host = Host::new(&shape, options, seed).checked().failing(300);
        let usable = host.usable();
        for at in 0..usable {
            host.write(1, at, 1);
        }
        for _ in 0..800 {
            let (at, count) = (random.random_range(0..usable), random.random_range(1..6));
            host.write(1, at, count.min(usable - at));
            match random.random_range(0..60) {
                0 => host.cut_power(),
                1..4 => host.commit(1),
                4 => host.cut_power_in_cleaning(),
                _ => {}
            }
        }
        host.read_all();
    });
}

#[test]
fn a_full_disk_is_deleted_refilled_and_overwritten_without_a_false_no_space() {
    seeds(2, |seed, mut random| {
        for pace in [Pace::Steady, Pace::Event] {
            let shape = shape(48, 32, 4);
            let mut host = Host::new(&shape, BandsOptions { pace, block_granules: 8, ..BandsOptions::default() }, seed);
            let usable = host.usable();
            for round in 0..3 {
                for at in 0..usable {
                    host.write(1 + at % 3, at, 1);
                }
                host.idle(1000);
                for at in 0..usable {
                    host.write(1 + at % 3, at, 1);
                }
                for file in (1..4).filter(|_| round < 2) {
                    host.punch(file, 0, usable);
                }
            }
            for _ in 0..5 * usable {
                let at = random.random_range(0..usable);
                host.write(1 + at % 3, at, 1);
            }
            host.read_all();
        }
    });
}
