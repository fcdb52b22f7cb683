//! Random operations on the mount and on a plain directory: every answer and all that is left must be the same.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FallocateFlags, RenameFlags};
use tempfile::TempDir;

use super::{MODELS, Mounted};

/// Operations a seed.
const OPERATIONS: u64 = 3000;
const SEEDS: u64 = 4;
/// Largest place in a file that is written to.
const SPREAD: u64 = 3 << 20;

/// Result of an operation: text that must be the same on both sides.
type OpResult = Result<String, Option<i32>>;

fn told<T: Debug>(result: io::Result<T>) -> OpResult {
    result.map(|value| format!("{value:?}")).map_err(|error| error.raw_os_error())
}

/// One of the two trees, with the files that are open on it.
struct Side {
    root: PathBuf,
    open: Vec<Option<File>>,
}

impl Side {
    fn new(root: &Path) -> Side {
        Side { root: root.to_path_buf(), open: (0..4).map(|_| None).collect() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// An operation with all that was drawn for it.
#[derive(Clone, Debug)]
enum Op {
    Open { slot: usize, path: String, truncate: bool, exclusive: bool },
    Close(usize),
    Write { slot: usize, at: u64, bytes: usize, seed: u64 },
    Read { slot: usize, at: u64, bytes: usize },
    SetLength { slot: usize, bytes: u64 },
    Allocate { slot: usize, mode: u32, at: u64, bytes: u64 },
    Sync(usize),
    ReadWhole(String),
    MakeDirectory(String),
    RemoveDirectory(String),
    Unlink(String),
    Rename { from: String, to: String, flags: u32 },
    Link { from: String, to: String },
    Symlink { target: String, path: String },
    Mode { path: String, mode: u32 },
    Stat(String),
    List(String),
}

/// A path of at most three names out of few, so that operations meet.
fn path(random: &mut Pcg64Mcg) -> String {
    let name = |random: &mut Pcg64Mcg| ["a", "b", "c", "d"][random.random_range(0..4)];
    let depth = random.random_range(1..=3);
    (0..depth).map(|_| name(random)).collect::<Vec<_>>().join("/")
}

fn draw(random: &mut Pcg64Mcg) -> Op {
    let slot = random.random_range(0..4);
    let at = random.random_range(0..SPREAD);
    let bytes = match random.random_range(0..3) {
        0 => random.random_range(0..200),
        1 => random.random_range(0..20_000),
        _ => random.random_range(0..400_000),
    };
    match random.random_range(0..24) {
        0 | 1 => Op::Open { slot, path: path(random), truncate: random.random(), exclusive: random.random_ratio(1, 6) },
        2 => Op::Close(slot),
        3..=6 => Op::Write { slot, at, bytes, seed: random.next_u64() },
        7 | 8 => Op::Read { slot, at, bytes },
        9 => Op::SetLength { slot, bytes: at },
        10 => {
            let modes = [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE, punch(), FallocateFlags::ZERO_RANGE];
            Op::Allocate { slot, mode: modes[random.random_range(0..4)].bits(), at, bytes: bytes as u64 }
        }
        11 => Op::Sync(slot),
        12 => Op::ReadWhole(path(random)),
        13 | 14 => Op::MakeDirectory(path(random)),
        15 => Op::RemoveDirectory(path(random)),
        16 => Op::Unlink(path(random)),
        17 => Op::Rename { from: path(random), to: path(random), flags: 0 },
        18 => {
            let flags = [RenameFlags::NOREPLACE, RenameFlags::EXCHANGE][random.random_range(0..2)];
            Op::Rename { from: path(random), to: path(random), flags: flags.bits() }
        }
        19 => Op::Link { from: path(random), to: path(random) },
        20 => Op::Symlink { target: path(random), path: path(random) },
        21 => Op::Mode { path: path(random), mode: random.random_range(0..0o10000) | 0o700 },
        22 => Op::Stat(path(random)),
        _ => Op::List(path(random)),
    }
}

fn punch() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE
}

fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut content);
    content
}

fn apply(side: &mut Side, op: &Op) -> OpResult {
    let no_file = || Ok("no file".to_string());
    match op {
        Op::Open { slot, path, truncate, exclusive } => {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(*truncate).create_new(*exclusive);
            let opened = options.open(side.at(path));
            let answer = told(opened.as_ref().map(|_| ()).map_err(copy));
            side.open[*slot] = opened.ok();
            answer
        }
        Op::Close(slot) => {
            side.open[*slot] = None;
            no_file()
        }
        Op::Write { slot, at, bytes, seed } => match &side.open[*slot] {
            Some(file) => told(file.write_all_at(&content(*seed, *bytes), *at)),
            None => no_file(),
        },
        Op::Read { slot, at, bytes } => match &side.open[*slot] {
            Some(file) => {
                let mut room = vec![0; *bytes];
                told(file.read_at(&mut room, *at).map(|count| summary(&room[..count])))
            }
            None => no_file(),
        },
        Op::SetLength { slot, bytes } => {
            side.open[*slot].as_ref().map_or_else(no_file, |file| told(file.set_len(*bytes)))
        }
        Op::Allocate { slot, mode, at, bytes } => match &side.open[*slot] {
            Some(file) => {
                let mode = FallocateFlags::from_bits_retain(*mode);
                told(rustix::fs::fallocate(file, mode, *at, *bytes).map_err(io::Error::from))
            }
            None => no_file(),
        },
        Op::Sync(slot) => side.open[*slot].as_ref().map_or_else(no_file, |file| told(file.sync_all())),
        Op::ReadWhole(path) => told(fs::read(side.at(path)).map(|content| summary(&content))),
        Op::MakeDirectory(path) => told(fs::create_dir(side.at(path))),
        Op::RemoveDirectory(path) => told(fs::remove_dir(side.at(path))),
        Op::Unlink(path) => told(rustix::fs::unlink(side.at(path)).map_err(io::Error::from)),
        Op::Rename { from, to, flags } => {
            let (from, to) = (side.at(from), side.at(to));
            let flags = RenameFlags::from_bits_retain(*flags);
            told(rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags).map_err(io::Error::from))
        }
        Op::Link { from, to } => told(fs::hard_link(side.at(from), side.at(to))),
        Op::Symlink { target, path } => told(symlink(target, side.at(path))),
        Op::Mode { path, mode } => told(fs::set_permissions(side.at(path), fs::Permissions::from_mode(*mode))),
        Op::Stat(path) => told(fs::symlink_metadata(side.at(path)).map(|metadata| stat(&metadata))),
        Op::List(path) => told(names(&side.at(path))),
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

/// Content as something short to compare: its length, and FNV-1a.
fn summary(content: &[u8]) -> (usize, u64) {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    (content.len(), content.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Attributes that must be the same: of directories, size and links are the file system's own affair.
fn stat(metadata: &fs::Metadata) -> (u32, u64, u64, u32, u32) {
    let size = if metadata.is_dir() { (0, 0) } else { (metadata.nlink(), metadata.size()) };
    (metadata.mode(), size.0, size.1, metadata.uid(), metadata.gid())
}

fn names(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.sort();
    Ok(names)
}

/// The whole tree: names, attributes, contents.
fn snapshot(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for name in names(&root.join(&folder)).expect("a directory") {
            let (relative, path) = (folder.join(&name), root.join(&folder).join(&name));
            let metadata = fs::symlink_metadata(&path).expect("an entry");
            let inside = match metadata.file_type() {
                kind if kind.is_file() => format!("{:?}", summary(&fs::read(&path).expect("a file"))),
                kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path).expect("a link")),
                _ => String::new(),
            };
            found.push(format!("{relative:?} {:?} {inside}", stat(&metadata)));
            if metadata.is_dir() {
                folders.push(relative);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn random_operations_leave_what_a_plain_directory_has() {
    for model in MODELS {
        for seed in 0..SEEDS {
            let Some(mount) = Mounted::new(model) else { return };
            let plain = TempDir::new().expect("a folder");
            let (mut ours, mut theirs) = (Side::new(mount.path()), Side::new(plain.path()));
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            for number in 0..OPERATIONS {
                let op = draw(&mut random);
                let (own, other) = (apply(&mut ours, &op), apply(&mut theirs, &op));
                assert_eq!(own, other, "{model:?}, seed {seed}, operation {number}: {op:?}");
            }
            assert_eq!(snapshot(mount.path()), snapshot(plain.path()), "{model:?}, seed {seed}");
        }
    }
}
