//! Survival of flushed data, whatever ends the server, the drive's power or the host.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use smrkit::settings::Queue;
use smrkit::units::{Nanos, SECTOR_BYTES};
use smrkit_live::block::control::InjectedFault;
use smrkit_live::block::drive::ServedDrive;
use smrkit_live::block::image::{Storage, state_path};
use smrkit_live::block::pace::Pace;
use tempfile::TempDir;

use super::client::{Client, FLUSH, FUA, NO_HOLE, TRIM, WRITE, WRITE_ZEROES};
use super::protocol::NO_SPACE;
use super::{ARRAYS, CACHED, LAYERS, ServeOptions, Served, check_image, image, open_image};

/// Layers that promise it.
const SAFE: [&str; 9] =
    ["in-place", "s-block", "drive-managed", "vguard", "smart", "log", "dm-zoned", "zone-log", "host-aware"];
const PIECE: usize = 4096;
const PIECES: u64 = 256;

/// Contents that each piece has at least since the last flush, and at most.
#[derive(Default, Clone, Copy)]
struct Known {
    flushed: u8,
    latest: u8,
}

/// Writes random pieces, each filled with the number of its write; flushes now and then.
fn write_some(client: &mut Client, known: &mut [Known], random: &mut impl rand::Rng, writes: u8) {
    for _ in 0..writes {
        let at = random.random_range(0..PIECES);
        let fill = known[at as usize].latest + 1;
        client.write(place(at), &[fill; PIECE]);
        known[at as usize].latest = fill;
        if random.random_range(0..10) == 0 {
            client.flush();
            known.iter_mut().for_each(|known| known.flushed = known.latest);
        }
    }
}

/// Pieces lie apart.
fn place(piece: u64) -> u64 {
    piece * 3 * PIECE as u64
}

/// Reads all pieces: what was flushed is there, or what was written since; never anything else.
fn check(client: &mut Client, known: &mut [Known], what: &str) {
    for at in 0..PIECES {
        let found = client.read(place(at), PIECE);
        let Known { flushed, latest } = known[at as usize];
        // A write that was cut may have left some sectors old and some new.
        let (mut least, mut most) = (u8::MAX, 0);
        for sector in found.chunks(SECTOR_BYTES as usize) {
            let is_one_write = (flushed..=latest).contains(&sector[0]) && *sector == [sector[0]; SECTOR_BYTES as usize];
            assert!(is_one_write, "{what}: piece {at}: {}, not {flushed} to {latest}", sector[0]);
            (least, most) = (least.min(sector[0]), most.max(sector[0]));
        }
        known[at as usize] = Known { flushed: least, latest: most };
        if least < most {
            known[at as usize].latest += 1;
            client.write(place(at), &[most + 1; PIECE]);
        }
        assert!(client.read(place(at) + PIECE as u64, PIECE) == [0; PIECE], "{what}: behind piece {at}");
    }
}

fn copy(from: &Path, to: &Path) {
    for [from, to] in [[from.to_path_buf(), to.to_path_buf()], [from, to].map(state_path)] {
        let copied = std::process::Command::new("cp").arg("--sparse=always").args([&from, &to]).status().unwrap();
        assert!(copied.success());
    }
}

/// What was acknowledged is in the image: a kill loses none of it, whatever the layer.
#[test]
fn a_kill_of_the_server_loses_nothing() {
    for layer in LAYERS.into_iter().chain(ARRAYS) {
        let folder = TempDir::new().unwrap();
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let [path, left] = [image(folder.path(), layer), folder.path().join("left.img")];
        let mut known = vec![Known::default(); PIECES as usize];
        for round in 0..4 {
            let served = Served::open(&path, ServeOptions::default(), None);
            let mut client = Client::new(&served.socket);
            check(&mut client, &mut known, &format!("{layer}, kill {round}"));
            write_some(&mut client, &mut known, &mut random, 60);
            known.iter_mut().for_each(|known| known.flushed = known.latest);
            // The files are as a server leaves them that is killed now.
            copy(&path, &left);
            served.stop();
            copy(&left, &path);
            assert!(!open_image(&path).was_clean);
            check_image(&path);
        }
    }
}

#[test]
fn flushed_data_survive_power_cuts_of_the_drive() {
    for layer in SAFE.into_iter().chain(CACHED).chain(ARRAYS) {
        let folder = TempDir::new().unwrap();
        let path = image(folder.path(), layer);
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let mut known = vec![Known::default(); PIECES as usize];
        for round in 0..12u64 {
            write_some(&mut client, &mut known, &mut random, 30);
            served.inject(InjectedFault::PowerCut(round));
            let (mut failed, mut tries) = (false, 0);
            while !failed && tries < 200 {
                let at = random.random_range(0..PIECES) as usize;
                known[at].latest += 1;
                failed = client.ask(0, WRITE, place(at as u64), PIECE as u32, &[known[at].latest; PIECE]) != 0;
                tries += 1;
            }
            assert!(failed, "{layer}: the power was never cut");
            check(&mut client, &mut known, &format!("{layer}, cut {round}"));
            // What tells of the loss.
            client.ask(0, FLUSH, 0, 0, &[]);
        }
        drop(client);
        served.stop();
        check_image(&path);
    }
}

#[test]
fn every_client_hears_once_of_what_a_power_cut_lost() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), CACHED[1]);
    let served = Served::open(&path, ServeOptions::default(), None);
    let [mut writer, mut other, mut idle] = [(); 3].map(|()| Client::new(&served.socket));
    let flush = |client: &mut Client| client.ask(0, FLUSH, 0, 0, &[]);
    for (round, seed) in [1, 2].into_iter().enumerate() {
        (0..PIECES / 4).for_each(|at| writer.write(place(at), &[7 + round as u8; PIECE]));
        served.inject(InjectedFault::PowerCut(seed));
        assert_ne!(flush(&mut other), 0, "the request that is cut fails");
        assert_eq!(flush(&mut other), 0, "and that is the one error");
        let mut late = Client::new(&served.socket);
        assert_eq!(flush(&mut late), 0, "who came later has lost nothing");
        writer.write(place(0), &[1; PIECE]);
        let durable = writer.ask(FUA, WRITE, place(0), PIECE as u32, &[3; PIECE]);
        assert_eq!(durable, 0, "a durable write says nothing of what was written before");
        assert_eq!(writer.read(place(0), PIECE), [3; PIECE]);
        assert_ne!(flush(&mut writer), 0, "the next flush does");
        assert_eq!(flush(&mut writer), 0);
        assert_ne!(flush(&mut idle), 0, "it had the drive open");
        assert_eq!(flush(&mut idle), 0);
    }
}

/// An image on a disk that takes its time to make it durable, or fails to, or has no room.
struct SlowDisk {
    image: std::fs::File,
    /// Syncs that have begun and that have ended.
    syncs: [AtomicU64; 2],
    fails: AtomicBool,
    is_full: AtomicBool,
    /// Writes of zeros and holes: they take a moment, and leave the image as it is.
    zeros: AtomicU64,
}

const SYNC: Duration = Duration::from_millis(400);

impl Storage for SlowDisk {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.image.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes[0] == 0 {
            std::thread::sleep(Duration::from_millis(2));
            self.zeros.fetch_add(1, SeqCst);
            return Ok(());
        }
        self.image.write(offset, bytes)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        std::thread::sleep(Duration::from_micros((range.end - range.start) >> 5));
        self.zeros.fetch_add(1, SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs[0].fetch_add(1, SeqCst);
        std::thread::sleep(SYNC);
        self.syncs[1].fetch_add(1, SeqCst);
        match [&self.fails, &self.is_full].map(|one| one.load(SeqCst)) {
            [true, _] => Err(io::Error::other("the disk failed")),
            [_, true] => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    /// As a block device, which knows of no holes.
    fn data_from(&self, offset: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        Ok((offset < end).then_some(offset..end))
    }
}

/// A new drive over a slow disk, its server, and the folder of its files.
fn on_slow_disk(is_durable: bool, pace: Pace) -> (Arc<SlowDisk>, Served, TempDir) {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "in-place");
    let image = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let (syncs, fails, is_full, zeros) = Default::default();
    let disk = Arc::new(SlowDisk { image, syncs, fails, is_full, zeros });
    let mut drive = ServedDrive::open(open_image(&path).over(disk.clone()), None, Queue::Fcfs).unwrap().0;
    drive.is_durable = is_durable;
    let served = Served::start(drive, &folder.path().join("s"), pace);
    (disk, served, folder)
}

#[test]
fn a_flush_waits_until_the_image_is_durable_and_nobody_else_does() {
    for pace in [Pace::None, Pace::Times(1.0)] {
        let (disk, served, _folder) = on_slow_disk(true, pace);
        let [mut client, mut other] = [(); 2].map(|()| Client::new(&served.socket));
        client.write(0, &[1; PIECE]);
        for (flags, kind, bytes) in [(0, FLUSH, 0), (FUA, WRITE, PIECE)] {
            let before = disk.syncs[1].load(SeqCst);
            let begun = Instant::now();
            client.send(flags, kind, 0, bytes as u32, &vec![2; bytes]);
            other.write(place(9), &[3; PIECE]);
            assert!(begun.elapsed() < SYNC && disk.syncs[1].load(SeqCst) == before, "{:?}", begun.elapsed());
            assert_eq!(client.reply().0, 0);
            assert!(begun.elapsed() >= SYNC && disk.syncs[1].load(SeqCst) > before);
        }
        disk.fails.store(true, SeqCst);
        // The sync may fail before the drive has written it.
        client.ask(0, WRITE, 0, PIECE as u32, &[1; PIECE]);
        assert_ne!(client.ask(0, FLUSH, 0, 0, &[]), 0);
        assert_ne!(other.ask(0, WRITE, 0, PIECE as u32, &[1; PIECE]), 0, "nobody knows what is on the disk by now");
        assert!(served.stop()["has_failed"] == true);
    }
}

/// What the host's system could not write it forgets: who flushes next has to know, and only they.
#[test]
fn a_sync_without_room_fails_each_clients_next_flush_and_the_drive_goes_on() {
    for pace in [Pace::None, Pace::Times(1.0)] {
        let (disk, served, _folder) = on_slow_disk(true, pace);
        let [mut client, mut other] = [(); 2].map(|()| Client::new(&served.socket));
        client.write(0, &[1; PIECE]);
        disk.is_full.store(true, SeqCst);
        assert_eq!(client.ask(0, FLUSH, 0, 0, &[]), NO_SPACE);
        assert_eq!(client.ask(FUA, WRITE, place(1), PIECE as u32, &[2; PIECE]), NO_SPACE);
        assert_eq!(other.read(0, PIECE), [1; PIECE]);
        disk.is_full.store(false, SeqCst);
        assert_ne!(other.ask(0, FLUSH, 0, 0, &[]), 0);
        other.flush();
        let before = disk.syncs[1].load(SeqCst);
        client.write(place(1), &[3; PIECE]);
        // A debt of the second sync, whose failure the client has been told already.
        let _ = client.ask(0, FLUSH, 0, 0, &[]);
        client.flush();
        assert!(disk.syncs[1].load(SeqCst) > before);
        assert!(served.stop()["has_failed"] == false);
    }
}

#[test]
fn a_drive_without_a_pace_syncs_once_a_flush() {
    let (disk, served, _folder) = on_slow_disk(true, Pace::None);
    let mut client = Client::new(&served.socket);
    for round in 1..4 {
        (0..4).for_each(|at| client.write(place(at), &[1; PIECE]));
        client.flush();
        assert_eq!(disk.syncs[0].load(SeqCst), round);
    }
}

/// The host would write back what it holds within half a minute, and a server that ends would wait for all of that.
#[test]
fn data_is_synced_before_long_without_a_flush() {
    let (disk, served, _folder) = on_slow_disk(true, Pace::Times(1.0));
    let mut client = Client::new(&served.socket);
    // What an earlier server may have left, then what this client writes.
    for synced in 1..3 {
        let begun = Instant::now();
        while disk.syncs[1].load(SeqCst) < synced {
            assert!(begun.elapsed() < Duration::from_secs(60), "{synced}");
            std::thread::sleep(Duration::from_millis(10));
        }
        client.write(place(synced), &[1; PIECE]);
    }
    // Much data does not wait so long.
    let (disk, served, _folder) = on_slow_disk(true, Pace::None);
    let begun = Instant::now();
    Client::new(&served.socket).write(0, &vec![1; 16 << 20]);
    while disk.syncs[0].load(SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_millis(1500), "it waits for its time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Zeros or a trim for most of the drive are half a minute's work of this disk.
#[test]
fn others_are_served_while_a_long_command_is_under_way_and_a_stop_ends_it() {
    for (pace, kind) in
        [Pace::None, Pace::Times(1000.0)].into_iter().flat_map(|pace| [(pace, WRITE_ZEROES), (pace, TRIM)])
    {
        let (disk, served, _folder) = on_slow_disk(false, pace);
        let mut client = Client::new(&served.socket);
        let bytes = client.bytes / 512 * 512 - PIECE as u64;
        client.send(if kind == TRIM { 0 } else { NO_HOLE }, kind, 0, bytes as u32, &[]);
        while disk.zeros.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut other = Client::new(&served.socket);
        for round in 1..4 {
            other.write(bytes, &[round; PIECE]);
            assert_eq!(other.read(bytes, PIECE), [round; PIECE]);
        }
        assert_eq!(served.report()["completed"], 6);
        let stopped = Instant::now();
        served.stop();
        assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
        assert_eq!(client.reply().0, 108);
    }
}

#[test]
fn a_long_command_ends_with_its_client() {
    for kind in [WRITE_ZEROES, TRIM] {
        let (disk, served, _folder) = on_slow_disk(false, Pace::None);
        let mut client = Client::new(&served.socket);
        client.send(if kind == TRIM { 0 } else { NO_HOLE }, kind, 0, (client.bytes / 512 * 512) as u32, &[]);
        while disk.zeros.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(client);
        let ended = Instant::now();
        while served.report()["waiting"] != 0 {
            assert!(ended.elapsed() < Duration::from_secs(10), "{}", served.report());
        }
    }
}

/// The host's sync takes no time of its own where the drive takes longer to write.
#[test]
fn what_will_be_flushed_becomes_durable_while_the_drive_writes_it() {
    let (disk, served, _folder) = on_slow_disk(true, Pace::Times(1.0));
    let mut client = Client::new(&served.socket);
    // A host that flushes what it writes.
    client.write(0, &[1; PIECE]);
    client.flush();
    let slow = InjectedFault::Slow(Nanos(3 * SYNC.as_nanos() as u64));
    served.inject(slow);
    client.write(0, &[2; PIECE]);
    let (written, ended) = (Instant::now(), disk.syncs[1].load(SeqCst));
    client.flush();
    assert!(written.elapsed() < SYNC / 2 && ended == 2, "{:?}, {ended} syncs", written.elapsed());
    served.inject(slow);
    let begun = Instant::now();
    assert_eq!(client.ask(FUA, WRITE, 0, PIECE as u32, &[3; PIECE]), 0);
    assert!(begun.elapsed() < 3 * SYNC + SYNC / 2 && disk.syncs[1].load(SeqCst) == 3, "{:?}", begun.elapsed());
    // There is nothing to make durable any more.
    client.flush();
    assert_eq!(disk.syncs[0].load(SeqCst), 3);
}

#[test]
fn a_flush_waits_for_the_drive_alone_where_that_is_asked_for() {
    let (disk, served, _folder) = on_slow_disk(false, Pace::None);
    let mut client = Client::new(&served.socket);
    client.write(0, &[1; PIECE]);
    client.flush();
    assert_eq!(client.ask(FUA, WRITE, 0, PIECE as u32, &[2; PIECE]), 0);
    assert_eq!(disk.syncs[0].load(SeqCst), 0);
    drop(client);
    served.stop();
    assert_eq!(disk.syncs[1].load(SeqCst), 1, "it is durable once it is closed");
}

#[test]
fn a_drive_with_a_write_cache_loses_what_was_not_flushed() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), CACHED[1]);
    let served = Served::open(&path, ServeOptions::default(), None);
    let mut client = Client::new(&served.socket);
    client.write(place(0), &[1; PIECE]);
    client.flush();
    (0..PIECES / 4).for_each(|at| client.write(place(at), &[2; PIECE]));
    assert_eq!(client.read(place(0), PIECE), [2; PIECE]);
    served.inject(InjectedFault::PowerCut(1));
    assert_ne!(client.ask(0, FLUSH, 0, 0, &[]), 0);
    let found: Vec<Vec<u8>> = (0..PIECES / 4).map(|at| client.read(place(at), PIECE)).collect();
    assert!(found[0].iter().all(|byte| [1, 2].contains(byte)));
    let new = found.iter().flatten().filter(|&&byte| byte == 2).count();
    assert!((1..found.len() * PIECE).contains(&new), "{new} bytes of what was not flushed are there");
}
