//! Data that were written are read, and all else reads as zeros: under every layer, with requests in any number and order.

use rand::{Rng, RngExt, SeedableRng};
use smrkit::settings::Queue;
use tempfile::TempDir;

use super::client::{Client, FUA, TRIM, WRITE, WRITE_ZEROES};
use super::{ARRAYS, LAYERS, ServeOptions, Served, check_image, image};

/// The part of the drive that is used.
const BYTES: usize = 4 << 20;
const SECTOR: usize = 512;

/// Some sectors, mostly few.
fn extent(random: &mut impl Rng) -> (usize, usize) {
    let most = if random.random_range(0..4) == 0 { 300 } else { 24 };
    let sectors = random.random_range(1..=most);
    let first = random.random_range(0..=BYTES / SECTOR - sectors);
    (first * SECTOR, sectors * SECTOR)
}

/// Random requests, each checked; `model` is what the drive holds.
fn churn(client: &mut Client, model: &mut [u8], random: &mut impl Rng, requests: usize) {
    for _ in 0..requests {
        let (at, bytes) = extent(random);
        match random.random_range(0..8) {
            0..4 => {
                let data: Vec<u8> = (0..bytes / 8).flat_map(|_| random.random::<u64>().to_le_bytes()).collect();
                let flags = if random.random_range(0..8) == 0 { FUA } else { 0 };
                assert_eq!(client.ask(flags, WRITE, at as u64, bytes as u32, &data), 0);
                model[at..at + bytes].copy_from_slice(&data);
            }
            4 => {
                let kind = if random.random() { TRIM } else { WRITE_ZEROES };
                assert_eq!(client.ask(0, kind, at as u64, bytes as u32, &[]), 0);
                model[at..at + bytes].fill(0);
            }
            5 => client.flush(),
            _ => assert!(client.read(at as u64, bytes) == model[at..at + bytes], "{bytes} bytes at {at}"),
        }
    }
}

#[test]
fn written_data_is_read_under_every_layer_and_after_reopening() {
    for layer in LAYERS.into_iter().chain(ARRAYS) {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), layer);
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(layer.len() as u64);
        let mut model = vec![0; BYTES];
        for _ in 0..3 {
            let served = Served::open(&path, ServeOptions::default(), None);
            let mut client = Client::new(&served.socket);
            assert!(client.read(0, BYTES) == model, "{layer}");
            churn(&mut client, &mut model, &mut random, 150);
            drop(client);
            served.stop();
            check_image(&path);
        }
    }
}

#[test]
fn no_command_overtakes_one_on_the_same_sectors() {
    for layer in ["drive-managed", ARRAYS[0], ARRAYS[1]] {
        overtaking(layer);
    }
}

fn overtaking(layer: &str) {
    let served = Served::ordered(layer, Queue::Sptf);
    let mut client = Client::new(&served.socket);
    for round in 0..20u8 {
        // All at once: three places, each written several times.
        for fill in 1..=30u8 {
            let at = u64::from(fill % 3) * (200 << 20);
            client.send(0, WRITE, at, 4096, &[fill.wrapping_add(round); 4096]);
        }
        (0..30).for_each(|_| assert_eq!(client.reply().0, 0));
        for place in 0..3u8 {
            let last = if place == 0 { 30 } else { 27 + place };
            let found = client.read(u64::from(place) * (200 << 20), 4096);
            assert!(found == [last.wrapping_add(round); 4096], "round {round}, place {place}: {}", found[0]);
        }
        // Trims of what is being written.
        for place in 0..10 {
            client.send(0, WRITE, place << 20, 8192, &[1; 8192]);
            client.send(0, TRIM, place << 20, 4096, &[]);
        }
        (0..20).for_each(|_| assert_eq!(client.reply().0, 0));
        assert!((0..10).all(|place| client.read(place << 20, 4096) == [0; 4096]), "{layer}, round {round}");
    }
}

#[test]
fn an_image_shrinks_when_its_sectors_are_trimmed() {
    let arrays = ["raid5:disks=3,chunk=16KiB,layer=in-place", ARRAYS[1], ARRAYS[2]];
    for layer in LAYERS.into_iter().chain(arrays) {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), layer);
        let room = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap()) * 512;
        let data = vec![7; 1 << 20];
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        // Some layers keep much for themselves.
        let filled = (client.bytes as usize / data.len() * data.len()).min(160 << 20);
        (0..filled).step_by(data.len()).for_each(|at| client.write(at as u64, &data));
        served.stop();
        let full = room();
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        let trimmed = filled - data.len();
        assert_eq!(client.ask(0, TRIM, 0, trimmed as u32, &[]), 0);
        served.stop();
        let left = room();
        assert!(left < full / 2, "{layer}: {full} bytes, and {left} after the trim");
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        assert!(client.read(trimmed as u64, data.len()) == data, "{layer}");
        assert!(client.read(trimmed as u64 - 4096, 4096) == [0; 4096], "{layer}");
    }
}
