//! Costs of many files, of large directories and of a file in a million pieces: `cargo bench -p smrfs --bench scale [-- GROUP …]`.
//!
//! Groups: files, directory, sparse, long. The disk holds no data, the metadata store lies in memory; so what is measured is
//! the core. MB is what a mount has taken from the heap, the store left out. In brackets: the ratio to the line before, of a
//! tenth of the size.

#[path = "../tests/common/mod.rs"]
mod common;

use std::alloc::System;
use std::time::Instant;

use cap::Cap;
use common::{DIRECTORY, FILE, GIB, MIB, Parts, Rig, shape};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Model;
use smrfs::units::{GRANULE_BYTES, NodeId};

/// Counts the bytes in use.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let groups: [(&str, fn()); 4] = [("files", files), ("directory", directory), ("sparse", sparse), ("long", long)];
    for (_, group) in groups.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        group();
        println!();
    }
}

/// A table whose lines are compared with the ones before.
struct Table {
    before: Vec<f64>,
}

impl Table {
    fn new(title: &str, columns: &[&str]) -> Table {
        println!("{title:>24} | {}", columns.iter().map(|column| format!("{column:>22}")).collect::<String>());
        Table { before: Vec::new() }
    }

    fn line(&mut self, name: &str, values: Vec<f64>) {
        let cell = |(at, value): (usize, &f64)| {
            let ratio = self.before.get(at).map_or(String::new(), |before| format!(" ({:.1} x)", value / before));
            format!("{:>22}", format!("{value:.2}{ratio}"))
        };
        println!("{name:>24} | {}", values.iter().enumerate().map(cell).collect::<String>());
        self.before = values;
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// A mount, how many seconds it took, and the bytes that were in use before.
fn mount(parts: Parts) -> (Rig, f64, usize) {
    let before = HEAP.allocated();
    let mut rig = None;
    let taken = seconds(|| rig = Some(parts.mounted()));
    (rig.expect("mounted"), taken, before)
}

/// Memory that has come into use since `before`, in MB.
fn more_mb(before: usize) -> f64 {
    HEAP.allocated().saturating_sub(before) as f64 / 1e6
}

fn make(rig: &Rig, parent: NodeId, name: &str, new: &smrfs::meta::NewNode) -> NodeId {
    let id = rig.fs.make(parent, name.as_bytes(), new).expect("made").id;
    rig.fs.forget(id, 1);
    id
}

/// Milliseconds that the slowest of `count` times `work` took, and the microseconds for each.
fn slowest_ms(count: u64, mut work: impl FnMut(u64)) -> (f64, f64) {
    let mut slowest = 0f64;
    let each = each_us(count, |number| slowest = slowest.max(seconds(|| work(number))));
    (slowest * 1e3, each)
}

/// Microseconds for each of `count` times `work`.
fn each_us(count: u64, mut work: impl FnMut(u64)) -> f64 {
    seconds(|| (0..count).for_each(&mut work)) * 1e6 / count as f64
}

/// Files of 4 KiB, a thousand in a directory.
fn files() {
    for model in [Model::Caveat, Model::StrictAppend] {
        let columns = [
            "create us",
            "commit s",
            "unmount s",
            "clean mount s",
            "mount by scan s",
            "MB",
            "bytes a file",
            "lookup us",
        ];
        let mut table = Table::new(&format!("files, {model:?}"), &columns);
        for count in [10_000, 100_000, 1_000_000] {
            let rig = Rig::plain(shape(model, 64 * GIB, MIB, MIB, 32 * MIB), false);
            let mut directory = rig.fs.root();
            let create = each_us(count, |number| {
                if number % 1000 == 0 {
                    directory = make(&rig, rig.fs.root(), &number.to_string(), &DIRECTORY);
                }
                let id = make(&rig, directory, &number.to_string(), &FILE);
                rig.fs.write(id, 0, Data::Blank(GRANULE_BYTES)).expect("written");
            });
            let commit = seconds(|| rig.fs.sync_all().expect("durable"));
            let (rig, scan, _) = mount(rig.without_fs());
            let unmount = seconds(|| rig.fs.unmount().expect("unmounted"));
            let (rig, clean, before) = mount(rig.without_fs());
            let memory = more_mb(before);
            let each = memory * 1e6 / count as f64;
            let mut random = Pcg64Mcg::seed_from_u64(1);
            let lookup = each_us(20_000, |_| {
                let number = random.random_range(0..count);
                let parent =
                    rig.fs.lookup(rig.fs.root(), (number / 1000 * 1000).to_string().as_bytes()).expect("found");
                rig.fs.lookup(parent.id, number.to_string().as_bytes()).expect("found");
            });
            table.line(&count.to_string(), vec![create, commit, unmount, clean, scan, memory, each, lookup]);
        }
    }
}

/// One directory of many names.
fn directory() {
    let mut table = Table::new("names in a directory", &["create us", "lookup us", "list us a name", "unlink us"]);
    for count in [1000, 10_000, 100_000, 1_000_000] {
        let rig = Rig::plain(shape(Model::Caveat, 8 * GIB, MIB, MIB, 0), false);
        let root = rig.fs.root();
        let create = each_us(count, |number| {
            make(&rig, root, &number.to_string(), &FILE);
        });
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut pick = || random.random_range(0..count).to_string();
        let lookup = each_us(50_000, |_| {
            rig.fs.lookup(root, pick().as_bytes()).expect("found");
        });
        let mut listed = 0;
        let list = seconds(|| {
            let mut from = 0;
            while let Some(last) = {
                let entries = rig.fs.list(root, from).expect("listed");
                listed += entries.len() as u64;
                entries.last().map(|entry| entry.next)
            } {
                from = last;
            }
        });
        assert_eq!(listed, count);
        let unlink = each_us(count, |number| rig.fs.unlink(root, number.to_string().as_bytes()).expect("unlinked"));
        table.line(&count.to_string(), vec![create, lookup, list * 1e6 / count as f64, unlink]);
    }
}

/// A file in pieces of 4 KiB with holes between them, 50 GB long at the largest.
fn sparse() {
    let columns = [
        "write us",
        "commit s",
        "overwrite+fsync us",
        "read us",
        "mount by scan s",
        "clean mount s",
        "first read s",
        "MB",
        "bytes a piece",
    ];
    let mut table = Table::new("pieces of a file", &columns);
    for count in [10_000u64, 100_000, 1_000_000] {
        let rig = Rig::plain(shape(Model::Caveat, 64 * GIB, MIB, MIB, 0), false);
        let id = make(&rig, rig.fs.root(), "sparse", &FILE);
        let at = |number: u64| number * 13 * GRANULE_BYTES;
        let put = |rig: &Rig, number| rig.fs.write(id, at(number), Data::Blank(GRANULE_BYTES)).expect("written");
        // In no order: each piece lies alone.
        let write = each_us(count, |number| put(&rig, number * 7_919 % count));
        let commit = seconds(|| rig.fs.sync_all().expect("durable"));
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let overwrite = each_us(2000, |_| {
            put(&rig, random.random_range(0..count));
            rig.fs.sync(id).expect("durable");
        });
        let read = |rig: &Rig, number| rig.fs.read(id, at(number), ReadBuffer::Blank(GRANULE_BYTES)).expect("read");
        let reading = each_us(20_000, |_| {
            read(&rig, random.random_range(0..count));
        });
        let (rig, scan, _) = mount(rig.without_fs());
        rig.fs.unmount().expect("unmounted");
        let (rig, clean, before) = mount(rig.without_fs());
        let first = seconds(|| {
            read(&rig, 0);
        });
        let memory = more_mb(before);
        let each = memory * 1e6 / count as f64;
        table.line(&count.to_string(), vec![write, commit, overwrite, reading, scan, clean, first, memory, each]);
    }
}

/// A file in one piece, as large as the disk allows; then overwritten at random.
fn long() {
    let columns = [
        "write us a MiB",
        "commit s",
        "overwrite us a MiB",
        "4 KiB us",
        "slowest ms",
        "+fsync us",
        "mount by scan s",
        "MB",
    ];
    for model in [Model::Caveat, Model::StrictAppend] {
        let mut table = Table::new(&format!("GB of a file, {model:?}"), &columns);
        for size in [GIB / 2, 5 * GIB, 50 * GIB] {
            let rig = Rig::plain(shape(model, size / 8 * 10, MIB, MIB, 32 * MIB), false);
            let id = make(&rig, rig.fs.root(), "long", &FILE);
            let put = |rig: &Rig, at, bytes| rig.fs.write(id, at, Data::Blank(bytes)).expect("written");
            let size = size.min(rig.usable_bytes() / 100 * 95 / MIB * MIB);
            let write = each_us(size / MIB, |at| put(&rig, at * MIB, MIB));
            let commit = seconds(|| rig.fs.sync_all().expect("durable"));
            let mut random = Pcg64Mcg::seed_from_u64(1);
            let overwrite = each_us(2 * size / MIB, |_| put(&rig, random.random_range(0..size / MIB) * MIB, MIB));
            let small = |rig: &Rig, at| put(rig, at * GRANULE_BYTES, GRANULE_BYTES);
            let (slowest, piece) = slowest_ms(100_000, |_| small(&rig, random.random_range(0..size / GRANULE_BYTES)));
            let synced = each_us(2000, |_| {
                small(&rig, random.random_range(0..size / GRANULE_BYTES));
                rig.fs.sync(id).expect("durable");
            });
            let (rig, scan, before) = mount(rig.without_fs());
            rig.fs.read(id, 0, ReadBuffer::Blank(GRANULE_BYTES)).expect("read");
            let memory = more_mb(before);
            table.line(
                &format!("{:.1}", size as f64 / 1e9),
                vec![write, commit, overwrite, piece, slowest, synced, scan, memory],
            );
        }
    }
}
