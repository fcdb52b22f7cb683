//! Skylight (Aghayev & Desnoyers, FAST 2015): what its emulated drives do, request by request, and what its tests find out about a drive
//! from outside.
//!
//! The emulated drives are a set-associative cache that is cleaned when it is full (`set-assoc`), or a log that any band may use
//! (`drive-managed`); lazy ones are cleaned when they are full, aggressive ones while nothing waits (`idle_clean`).

use std::sync::{Arc, Mutex};

use crate::common::{Disks, parameters};
use rand::seq::SliceRandom;
use smrkit::device::{LayeredDisk, Shadow};
use smrkit::disk::{Disk, Recorder};
use smrkit::drive::Drive;
use smrkit::geometry::Geometry;
use smrkit::layer;
use smrkit::medium::interference::Interference;
use smrkit::medium::{Buf, Medium, Stamps};
use smrkit::request::{Op, Request};
use smrkit::tally::Access;
use smrkit::units::{Lba, Nanos};

/// Sectors of the emulator's block.
const BLOCK: u64 = 8;

/// What the authors' emulator (`sadc`) does with requests on 18 blocks: bands 0 to 3 of three blocks, then two cache bands, of which
/// the first takes the writes to bands 0 and 2. `w4+2` writes two blocks from block 4 on; behind `>` stand the accesses. From
/// github.com/agayev/skylight, `sadc.test`, in another notation.
const VECTORS: [&str; 43] = [
    "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 > r0+12",
    "r0+12 > r0+12",
    "w0 w1 w2 w3 w4 w5 r0 r1 r2 r3 r4 r5 > w12+6 r12+6",
    "w0+3 w3+3 r0+3 r3+3 > w12+6 r12+6",
    "w3 w4 w5 w6 w7 w8 r3 r4 r5 r6 r7 r8 > w15+3 w12+3 r15+3 r12+3",
    "w3+3 w6+3 r3+3 r6+3 > w15+3 w12+3 r15+3 r12+3",
    "w0 r0+3 > w12 r12 r1+2",
    "w0+2 r0+3 > w12+2 r12+2 r2",
    "w2 r0+3 > w12 r0+2 r12",
    "w1+2 r0+3 > w12+2 r0 r12+2",
    "w1 r0+3 > w12 r0 r12 r2",
    "w0 w3 w6 w9 r0+12 > w12 w15 w13 w16 r12 r1+2 r15 r4+2 r13 r7+2 r16 r10+2",
    "w1 w4 w7 w10 r0+12 > w12 w15 w13 w16 r0 r12 r2+2 r15 r5+2 r13 r8+2 r16 r11",
    "w2 w5 w8 w11 r0+12 > w12 w15 w13 w16 r0+2 r12 r3+2 r15 r6+2 r13 r9+2 r16",
    "w0 w4 w8 r0+12 > w12 w15 w13 r12 r1+3 r15 r5+3 r13 r9+3",
    "w3 w7 w11 r0+12 > w15 w12 w16 r0+3 r15 r4+3 r12 r8+3 r16",
    "w2 w4 w6 r0+12 > w12 w15 w13 r0+2 r12 r3 r15 r5 r13 r7+5",
    "w5 w7 w9 r0+12 > w15 w12 w16 r0+5 r15 r6 r12 r8 r16 r10+2",
    "w0+3 r0+12 > w12+3 r12+3 r3+9",
    "w3+3 r0+12 > w15+3 r0+3 r15+3 r6+6",
    "w6+3 r0+12 > w12+3 r0+6 r12+3 r9+3",
    "w9+3 r0+12 > w15+3 r0+9 r15+3",
    "w0+3 w3+3 r0+12 > w12+6 r12+6 r6+6",
    "w3+3 w0+3 r0+12 > w15+3 w12+3 r12+6 r6+6",
    "w0+3 w9+3 r0+12 > w12+6 r12+3 r3+6 r15+3",
    "w9+3 w0+3 r0+12 > w15+3 w12+3 r12+3 r3+6 r15+3",
    "w3+3 w6+3 r0+12 > w15+3 w12+3 r0+3 r15+3 r12+3 r9+3",
    "w6+3 w3+3 r0+12 > w12+6 r0+3 r15+3 r12+3 r9+3",
    "w6+3 w9+3 r0+12 > w12+6 r0+6 r12+6",
    "w9+3 w6+3 r0+12 > w15+3 w12+3 r0+6 r12+6",
    "w0 w1 w2 w0 r0+4 > w12+3 r0+3 r12+3 w0+3 w12 r12 r1+3",
    "w3 w4 w5 w3 r0+7 > w15+3 r3+3 r15+3 w3+3 w15 r0+3 r15 r4+3",
    "w6 w7 w8 w6 r0+10 > w12+3 r6+3 r12+3 w6+3 w12 r0+6 r12 r7+3",
    "w9 w10 w11 w9 r0+12 > w15+3 r9+3 r15+3 w9+3 w15 r0+9 r15 r10+2",
    "w0+3 w0 r0+4 > w12+3 r0+3 r12+3 w0+3 w12 r12 r1+3",
    "w3+3 w3 r0+7 > w15+3 r3+3 r15+3 w3+3 w15 r0+3 r15 r4+3",
    "w6+3 w6 r0+10 > w12+3 r6+3 r12+3 w6+3 w12 r0+6 r12 r7+3",
    "w9+3 w9 r0+12 > w15+3 r9+3 r15+3 w9+3 w15 r0+9 r15 r10+2",
    "w0+3 w6 r0+8 > w12+3 r0+3 r12+3 w0+3 w12 r0+6 r12 r7",
    "w3+3 w9 r0+12 > w15+3 r3+3 r15+3 w3+3 w15 r0+9 r15 r10+2",
    "w8 w1 w6 w0 r0+12 > w12+3 r0+3 r13 w0+3 r6+3 r14 r12 w6+3 w12 r12 r1+11",
    "w10 w3+2 w9 r0+12 > w15+3 r3+3 r16+2 w3+3 r9+3 r15 w9+3 w15 r0+9 r15 r10+2",
    "w4 w9+2 w5+2 r0+12 > w15+3 r3+3 r15 w3+3 r9+3 r16+2 w9+3 w15 w12 r0+5 r15 r12 r7+5",
];

/// Runs of blocks by operation, one entry a block, sorted: the authors compare sorted accesses, since a queue may reorder them, and
/// how a run is cut into commands is the block layer's affair.
fn blocks(text: &str) -> Vec<(bool, u64)> {
    let mut blocks: Vec<(bool, u64)> =
        requests(text).flat_map(|(w, at, n)| (at..at + n).map(move |b| (w, b))).collect();
    blocks.sort_unstable();
    blocks
}

fn requests(text: &str) -> impl Iterator<Item = (bool, u64, u64)> + '_ {
    text.split_whitespace().map(|word| {
        let (at, n) = word[1..].split_once('+').unwrap_or((&word[1..], "1"));
        (word.starts_with('w'), at.parse().unwrap(), n.parse().unwrap())
    })
}

/// Blocks accessed; the layer's cache lies before the bands, the emulator's behind them.
#[derive(Clone, Default)]
struct Blocks(Arc<Mutex<Vec<(bool, u64)>>>);

impl Recorder for Blocks {
    fn access(&mut self, access: &Access) {
        let (first, n) = (access.pba.0 / BLOCK, access.sectors / BLOCK);
        let emulated = (first..first + n).map(|block| (access.write, if block < 6 { block + 12 } else { block - 6 }));
        self.0.lock().unwrap().extend(emulated);
    }
}

/// A drive under a layer. Every command takes 1 ms, and 5 µs a sector.
struct Tested {
    device: LayeredDisk,
    shadow: Shadow,
}

impl Tested {
    fn new(tracks: u64, track_sectors: u64, law: Interference, layer: &str, set: &[(&str, &str)]) -> Tested {
        let mut drive = Drive::load("tiny-constant").unwrap();
        drive.geometry = Geometry::uniform(tracks, track_sectors).unwrap();
        let drive = drive.with_interference(law).unwrap();
        let layer = (layer::find(layer).unwrap().build)(&drive, &parameters(layer, set)).unwrap();
        let disk = Disk::new(&drive, Medium::Stamps(Stamps::new()));
        Tested { device: LayeredDisk::new(disk, layer), shadow: Shadow::default() }
    }

    /// Serves a request in check mode; how long it takes.
    fn serve(&mut self, op: Op, lba: u64, sectors: u64) -> Nanos {
        let Tested { device, shadow } = self;
        let begin = device.now();
        device.begin_service(begin).unwrap();
        let request = Request::new(op, Lba(lba), sectors as u32);
        shadow.serve(&request, |buf: &mut Buf| device.serve(&request, buf)).unwrap();
        shadow.after(device).unwrap();
        device.now().since(begin)
    }

    fn rest(&mut self, time: Nanos) {
        self.device.idle_until(self.device.now() + time).unwrap();
    }
}

#[test]
fn set_assoc_accesses_the_blocks_that_the_authors_emulator_does() {
    for vector in VECTORS {
        let (asked, expected) = vector.split_once(" > ").unwrap();
        // 76 KiB, bands of three blocks, 40 % of them cache: two of six bands.
        let set = [("region_sectors", "24"), ("cache_percent", "40")];
        let mut drive = Tested::new(18, BLOCK, Interference::None, "set-assoc", &set);
        assert_eq!(drive.device.host_sectors, 12 * BLOCK);
        let seen = Blocks::default();
        drive.device.disk.record(Some(Box::new(seen.clone())));
        for (writes, at, n) in requests(asked) {
            drive.serve(if writes { Op::Write } else { Op::Read }, at * BLOCK, n * BLOCK);
        }
        let mut seen = seen.0.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, blocks(expected), "{vector}");
    }
}

/// Sectors of a band of the drives below.
const BAND: u64 = 400;

/// An emulated drive of 250 bands: a cache that each band has its place in, or one for all.
fn emulated(is_shared: bool, idle_clean: &str) -> Tested {
    let law = Interference::Tracks { width: 2, band: None };
    let idle = [("idle_clean", idle_clean), ("idle_delay", "0ns")];
    let own: &[(&str, &str)] = match is_shared {
        true => {
            &[("band_tracks", "8"), ("cache_tracks", "90"), ("alpha", "300"), ("bypass", "off"), ("free_bytes", "0")]
        }
        false => &[("region_sectors", "400"), ("cache_percent", "4")],
    };
    Tested::new(2250, 50, law, if is_shared { "drive-managed" } else { "set-assoc" }, &[own, &idle].concat())
}

/// Writes every other block of the first `bands` bands, in random order: reading them in order takes many pieces then.
fn fragment(drive: &mut Tested, bands: u64) {
    let mut blocks: Vec<u64> = (0..bands * BAND / BLOCK).step_by(2).collect();
    blocks.shuffle(&mut Disks::new(1).random);
    for block in blocks {
        drive.serve(Op::Write, block * BLOCK, BLOCK);
    }
}

/// Skylight's test of the cleaning algorithm: after a pause, fragmented data is read fast again from an aggressive drive only.
#[test]
fn a_pause_tells_aggressive_cleaning_from_lazy() {
    for is_shared in [false, true] {
        let ratio = |idle_clean| {
            let mut drive = emulated(is_shared, idle_clean);
            fragment(&mut drive, 1);
            let fragmented = drive.serve(Op::Read, 0, BAND);
            drive.rest(Nanos(60_000_000_000));
            fragmented.0 as f64 / drive.serve(Op::Read, 0, BAND).0 as f64
        };
        assert_eq!(ratio("off"), 1.0, "shared: {is_shared}");
        assert!(ratio("on") > 10.0, "shared: {is_shared}");
    }
}

/// Writes before the first that takes five times as long as the first did, up to `limit`.
fn until_stall(mut drive: Tested, limit: u64, sectors: u64, lba: impl Fn(u64) -> u64) -> u64 {
    let first = drive.serve(Op::Write, lba(0), sectors);
    (1..limit).find(|&i| drive.serve(Op::Write, lba(i), sectors).0 > 5 * first.0).unwrap_or(limit)
}

/// Skylight's test of the cache's structure: writes to one band fill their place in a set-associative cache, and so what stalls is a band
/// of writes; where the cache is one log, what was overwritten in it makes room.
#[test]
fn writes_to_one_band_tell_a_set_associative_cache_from_a_log() {
    let one_band = |is_shared| until_stall(emulated(is_shared, "off"), 3000, BLOCK, |i| i * 7 % 50 * BLOCK);
    assert_eq!((one_band(false), one_band(true)), (BAND / BLOCK, 3000));
}

/// Skylight's test of the cache's size: as long as writes are short, as many are taken as the map has entries; long ones fill the room.
#[test]
fn short_writes_find_the_entries_of_the_map_and_long_ones_the_room() {
    // One write to each band, where bands are 400 sectors apart; each is another's by a factor prime to their number.
    let scattered =
        |sectors| until_stall(emulated(true, "off"), 3000, sectors, |i| i * 101 % 200 * BAND + i / 200 * 40);
    let counts = [1, 4, 8].map(scattered);
    assert!(counts.iter().all(|&count| count == 301), "{counts:?}");
    // 90 tracks of 50 sectors, and an entry has a header.
    let room = [20, 30, 39].map(|sectors| scattered(sectors) * (sectors + 1));
    assert!(room.iter().all(|sectors| (4200..=4500).contains(sectors)), "{room:?}");
}

/// Skylight's test of the band size: cleaning brings one band after another home, so that all of a band is read fast at once.
#[test]
fn data_that_comes_home_together_is_a_band() {
    const BANDS: u64 = 4;
    const CHUNK: u64 = 40;
    for is_shared in [false, true] {
        let mut drive = emulated(is_shared, "on");
        fragment(&mut drive, BANDS);
        let mut home_at = vec![0; (BANDS * BAND / CHUNK) as usize];
        let whole = Nanos(1_000_000 + CHUNK * 5000);
        for time in 1..=400 {
            drive.rest(Nanos(1_000_000));
            for (chunk, home_at) in home_at.iter_mut().enumerate().filter(|(_, home_at)| **home_at == 0) {
                if drive.serve(Op::Read, chunk as u64 * CHUNK, CHUNK) == whole {
                    *home_at = time;
                }
            }
        }
        let runs: Vec<usize> = home_at.chunk_by(|a, b| a == b).map(|run| run.len()).collect();
        assert_eq!(runs, [(BAND / CHUNK) as usize; BANDS as usize], "shared: {is_shared}, {home_at:?}");
    }
}
