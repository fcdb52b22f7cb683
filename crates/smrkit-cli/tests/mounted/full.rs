//! An image on a host whose disk is full: what is accepted is kept, what can't be is refused, and deleting helps.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

use super::{Bench, MODELS, Ran, blocks, is_root, signal};
use crate::count::count_from;

/// The host's file system, and an image on it that can't fit.
const HOST: &str = "48M";
const IMAGE: &str = "256MiB";
const MIB: usize = 1 << 20;

/// A small ext4 in a file, mounted, with image and metadata on it.
struct Small {
    bench: Bench,
}

impl Small {
    /// None, with a word for the skip list, where no ext4 can be mounted.
    fn new(model: &str) -> Option<Small> {
        Small::with(model, &[])
    }

    /// The host's file system is made with these options as well.
    fn with(model: &str, options: &[&str]) -> Option<Small> {
        let skip = |why: &str| {
            println!("skipped: no small host disk here: {why}");
            None
        };
        if let Err(error) = smrkit_live::mount::check_system() {
            return skip(&error.to_string());
        }
        if !is_root() {
            return skip("only root mounts it");
        }
        let bench = Bench { folder: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder") };
        let run = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output();
        let (file, host) = (bench.path("host.ext4"), bench.path("host"));
        fs::create_dir(&host).unwrap();
        let made = run("mkfs.ext4", &[&["-q", "-F", "-b", "4096", "-m", "0"], options, &[&file, HOST]].concat());
        if !made.is_ok_and(|made| made.status.success()) {
            return skip("mkfs.ext4 fails, or is missing");
        }
        if !run("mount", &["-o", "loop", &file, &host]).is_ok_and(|mounted| mounted.status.success()) {
            return skip("loop devices can't be mounted");
        }
        fs::create_dir(bench.point()).unwrap();
        let small = Small { bench };
        let (image, meta) = (small.image(), small.bench.path("host/meta"));
        let made = small.bench.smrkit(&["mkfs", "--model", model, "--size", IMAGE, &image, "--meta", &meta]);
        assert!(String::from_utf8_lossy(&made.0.stderr).contains("choose a smaller --size"), "no warning");
        made.done();
        small.mount().done();
        Some(small)
    }

    fn image(&self) -> String {
        self.bench.path("host/disk.img")
    }

    fn mount(&self) -> Ran {
        self.mount_with(&[])
    }

    fn mount_with(&self, options: &[&str]) -> Ran {
        let (log, image, point) = (self.bench.path("log"), self.image(), self.bench.path("mnt"));
        let common: &[&str] = &["mount", "--commit-interval", "1h", "--log", &log];
        self.bench.smrkit(&[common, options, &[&image, &point]].concat())
    }

    fn sync(&self) -> Ran {
        self.bench.smrkit(&["sync", &self.bench.path("mnt")])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.file(name)
    }

    /// Free bytes by statfs on the mount, and on the host.
    fn free(&self) -> (u64, u64) {
        let free = |path: PathBuf| {
            let told = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(path).output().expect("stat starts");
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            told.split_whitespace().map(|word| word.parse::<u64>().expect("a number")).product()
        };
        (free(self.bench.point()), free(self.bench.folder.path().join("host")))
    }

    /// Another program takes all that is left of the host.
    fn fill_host(&self) {
        let file = File::create(self.bench.path("host/other")).unwrap();
        for size in [MIB, 4096] {
            let full = (0..).find_map(|_| (&file).write_all(&vec![1; size]).err()).unwrap();
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        if super::is_mounted(&self.bench.point()) {
            let _ = Command::new("umount").arg("--lazy").arg(self.bench.point()).status();
        }
        let _ = Command::new("umount").arg("--lazy").arg(self.bench.path("host")).status();
    }
}

/// Content that tells files, places and versions apart.
fn content(seed: usize, bytes: usize) -> Vec<u8> {
    blocks(bytes, 4096, |nth| (nth * 7 + seed * 13) as u8)
}

/// Writes files of all sizes until one is refused; tells what was accepted.
fn fill(small: &Small) -> BTreeMap<String, Vec<u8>> {
    fill_with(small, "file", |number| [3000, 50_000, 200_000, 2_000_000][number % 4])
}

/// Writes files of such sizes until one is refused.
fn fill_with(small: &Small, prefix: &str, mut size: impl FnMut(usize) -> usize) -> BTreeMap<String, Vec<u8>> {
    let mut accepted = BTreeMap::new();
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        let file = match File::create(small.path(&name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::StorageFull => break,
            Err(error) => panic!("{error}"),
        };
        let bytes = content(number, size(number));
        let mut written = 0;
        let refused = bytes.chunks(128 << 10).find_map(|part| {
            let result = file.write_all_at(part, written);
            written += if result.is_ok() { part.len() as u64 } else { 0 };
            result.err()
        });
        accepted.insert(name, bytes[..written as usize].to_vec());
        if let Some(error) = refused {
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            break;
        }
    }
    accepted
}

/// Overwrites granules of what is there, until that is refused too or has gone on for long.
fn overwrite(small: &Small, accepted: &mut BTreeMap<String, Vec<u8>>) {
    for (turn, (name, bytes)) in accepted.iter_mut().enumerate() {
        let file = OpenOptions::new().write(true).open(small.path(name)).unwrap();
        for at in (0..bytes.len() / 4096).step_by(3) {
            let new = content(turn + 100, 4096);
            match file.write_all_at(&new, at as u64 * 4096) {
                Ok(()) => bytes[at * 4096..(at + 1) * 4096].copy_from_slice(&new),
                Err(error) => return assert_eq!(error.kind(), ErrorKind::StorageFull),
            }
        }
    }
}

#[track_caller]
fn verify(small: &Small, accepted: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in accepted {
        assert!(fs::read(small.path(name)).unwrap() == *bytes, "{name} is not as it was accepted");
    }
}

#[test]
fn what_a_full_host_disk_accepted_is_there_and_deleting_helps() {
    for model in MODELS {
        let Some(small) = Small::new(model) else { return };
        let (free, on_host) = small.free();
        assert!(free <= on_host && free > on_host / 2, "{model}: {free} free, {on_host} on the host");
        let mut accepted = fill(&small);
        assert!(accepted.values().map(Vec::len).sum::<usize>() > 20 * MIB, "{model}");
        assert!(small.free().0 < 4 * MIB as u64);
        overwrite(&small, &mut accepted);
        verify(&small, &accepted);
        small.sync().done();
        overwrite(&small, &mut accepted);
        small.bench.umount().done();
        small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
        small.mount().done();
        verify(&small, &accepted);
        for name in accepted.keys() {
            fs::remove_file(small.path(name)).unwrap();
        }
        small.sync().done();
        let taken = fs::metadata(small.image()).unwrap().blocks() * 512;
        assert!(taken < 4 * MIB as u64, "{model}: the empty image takes {taken} bytes");
        let accepted = fill(&small);
        assert!(accepted.values().map(Vec::len).sum::<usize>() > 20 * MIB, "{model}");
        small.bench.umount().done();
        small.mount().done();
        verify(&small, &accepted);
        small.bench.umount().done();
        small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
    }
}

/// Pieces too small to become holes lie between those that do: on the host they still take up room.
#[test]
fn room_that_was_deleted_in_pieces_is_free_again() {
    for model in MODELS {
        let Some(small) = Small::new(model) else { return };
        // What is kept for metadata is kept from the first write on.
        fs::write(small.path("file-0"), "x").unwrap();
        let (free, _) = small.free();
        let accepted = fill(&small);
        // A mount that has refused nothing yet makes holes of larger pieces only.
        small.bench.umount().done();
        small.mount().done();
        for deleted in [1, 0] {
            for number in (0..accepted.len()).filter(|number| number % 2 == deleted) {
                fs::remove_file(small.path(&format!("file-{number}"))).unwrap();
            }
            small.sync().done();
        }
        let (again, on_host) = small.free();
        assert!(again >= free - free / 50, "{model}: {again} of {free} bytes are free, {on_host} on the host");
        // And it can be filled.
        let bytes = accepted.values().map(Vec::len).sum::<usize>();
        fs::write(small.path("whole"), vec![1; bytes - bytes / 50]).unwrap();
        small.bench.umount().done();
        small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
    }
}

#[test]
fn deleting_helps_a_host_without_nodes() {
    let Some(small) = Small::with("caveat", &["-N", "64"]) else { return };
    let mut file = File::create(small.path("scattered")).unwrap();
    file.write_all(b"begun").unwrap();
    let made = (0..100).take_while(|number| fs::write(small.path(&number.to_string()), "small").is_ok()).count();
    assert!((20..64).contains(&made), "{made} files");
    // More pieces than the file's own map holds: parts of it take nodes.
    for piece in 0..2500 {
        file.write_all_at(&[7; 4096], piece * 8192).unwrap();
    }
    assert_ne!(small.sync().0.status.code(), Some(0), "no node is left for a part of the map");
    for _ in 0..3 {
        small.sync();
    }
    let is_saved = |number: usize| {
        fs::remove_file(small.path(&number.to_string())).unwrap();
        small.sync().0.status.success()
    };
    assert!((0..made.min(8)).any(is_saved), "deleting 8 files does not help");
    drop(file);
    small.bench.umount().done();
}

/// Rounds a model, unless SMRKIT_FULL_ROUNDS says otherwise.
const ROUNDS: u64 = 3;

#[test]
fn room_comes_back_after_each_of_many_random_fills() {
    let rounds = count_from("SMRKIT_FULL_ROUNDS", ROUNDS);
    for model in MODELS {
        let Some(small) = Small::new(model) else { return };
        let mut random = Pcg64Mcg::seed_from_u64(17);
        // What is kept for metadata is kept from the first write on.
        fs::write(small.path("first"), "x").unwrap();
        let (free, _) = small.free();
        for round in 0..rounds {
            let longest = [10_000, 300_000, 3_000_000][random.random_range(0..3)];
            let mut accepted = fill_with(&small, "one", |_| random.random_range(1..longest));
            overwrite(&small, &mut accepted);
            let (deleted, mut kept) = accepted.into_iter().partition::<BTreeMap<_, _>, _>(|_| random.random_bool(0.5));
            deleted.keys().for_each(|name| fs::remove_file(small.path(name)).unwrap());
            small.sync().done();
            kept.append(&mut fill_with(&small, "two", |_| random.random_range(1..longest)));
            small.sync().done();
            if random.random_bool(0.3) {
                small.bench.umount().done();
                small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
                small.mount().done();
            }
            verify(&small, &kept);
            kept.keys().for_each(|name| fs::remove_file(small.path(name)).unwrap());
            small.sync().done();
            let (again, on_host) = small.free();
            assert!(
                again >= free - free / 50,
                "{model}, round {round}: {again} of {free} bytes, {on_host} on the host"
            );
        }
        small.bench.umount().done();
        small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
    }
}

#[test]
fn accepted_writes_have_room_when_another_program_takes_the_rest() {
    for model in MODELS {
        let Some(small) = Small::new(model) else { return };
        let accepted: BTreeMap<String, Vec<u8>> =
            (0..60).map(|number| (format!("f{number}"), content(number, 60_000))).collect();
        for (name, bytes) in &accepted {
            fs::write(small.path(name), bytes).unwrap();
        }
        small.fill_host();
        let refused = fs::write(small.path("f0"), content(9, 8 * MIB)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::StorageFull);
        fs::write(small.path("f1"), "").unwrap();
        small.sync().done();
        small.bench.umount().done();
        small.mount().done();
        let rest = accepted.into_iter().filter(|(name, _)| name != "f0" && name != "f1").collect();
        verify(&small, &rest);
        fs::remove_file(small.bench.path("host/other")).unwrap();
        fs::write(small.path("f0"), content(9, 8 * MIB)).unwrap();
        small.bench.umount().done();
    }
}

/// Each mark of a strict-append volume takes new room on the host.
#[test]
fn a_crash_on_a_full_host_leaves_a_volume_that_can_be_read() {
    let Some(small) = Small::new("strict-append") else { return };
    fs::write(small.path("file"), content(1, MIB)).unwrap();
    small.sync().done();
    signal(small.bench.process(), "KILL");
    small.bench.umount().done();
    small.fill_host();
    small.mount().says(1, &["is full", "free some space there", "mount it read-only"]);
    small.mount_with(&["--read-only"]).done();
    assert!(fs::read(small.path("file")).unwrap() == content(1, MIB));
    small.bench.umount().done();
    small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
    fs::remove_file(small.bench.path("host/other")).unwrap();
    small.mount().done();
    assert!(fs::read(small.path("file")).unwrap() == content(1, MIB));
    small.bench.umount().done();
}

#[test]
fn a_full_host_fails_a_drives_writes_until_there_is_room() {
    serve_on_a_full_host(&["--layer", "in-place", "--capacity", "200MB"]);
}

#[test]
fn a_full_host_fails_an_arrays_writes_until_there_is_room() {
    serve_on_a_full_host(&["--array", "raid5:disks=3,chunk=16KiB,layer=in-place", "--capacity", "100MB"]);
}

/// A served drive or array, made with these options, outgrows the host: writes fail until there is room again.
fn serve_on_a_full_host(made: &[&str]) {
    let Some(small) = Small::new("caveat") else { return };
    small.bench.umount().done();
    let (drive, other) = (small.bench.path("host/drive.img"), small.bench.path("host/other"));
    fs::write(&other, vec![1; 24 * MIB]).unwrap();
    small.bench.smrkit(&[&["create", &drive], made].concat()).done();
    let device = small.bench.smrkit(&["attach", &drive, "--pace", "none"]).done();
    let file = OpenOptions::new().write(true).open(device.trim()).unwrap();
    let write = |byte: u8| (&file).write_all(&vec![byte; MIB]).and_then(|()| file.sync_data());
    let failed = (0..).find_map(|_| write(2).err()).unwrap();
    // The drive says that there is no room; the loop device makes an input/output error of it.
    assert_eq!(failed.raw_os_error(), Some(5));
    fs::remove_file(other).unwrap();
    write(3).unwrap();
    drop(file);
    small.bench.smrkit(&["detach", &drive]).done();
    let image = fs::read(&drive).unwrap();
    assert!(image[..MIB].iter().all(|&byte| byte == 2), "what was flushed before is there");
    assert!(image.chunks(MIB).any(|part| part.iter().all(|&byte| byte == 3)), "so is what came after");
}

/// Takes away what a mount has kept of the host's room, as a host does that promises more than it has.
fn take_what_is_kept(small: &Small) {
    let mut taken = 0;
    for entry in fs::read_dir(format!("/proc/{}/fd", small.bench.process())).unwrap() {
        let path = entry.unwrap().path();
        let target = fs::read_link(&path).unwrap_or_default();
        // It has no name.
        if target.starts_with(small.bench.path("host")) && target.to_string_lossy().ends_with("(deleted)") {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
            taken += 1;
        }
    }
    assert!(taken > 0, "the mount keeps nothing");
}

#[test]
fn an_unmount_that_would_lose_data_is_refused_and_names_the_file() {
    for model in MODELS {
        let Some(small) = Small::new(model) else { return };
        fs::create_dir(small.path("folder")).unwrap();
        let bytes = content(1, MIB);
        let file = File::create(small.path("folder/unlucky")).unwrap();
        bytes.chunks(8192).for_each(|part| (&file).write_all(part).unwrap());
        drop(file);
        take_what_is_kept(&small);
        small.fill_host();
        let named = small.bench.path("mnt/folder/unlucky");
        for _ in 0..2 {
            small.bench.umount().says(1, &["not saved", &named, "in memory", "free some room", "smrkit umount again"]);
            assert!(super::is_mounted(&small.bench.point()), "{model}");
            assert!(fs::read(small.path("folder/unlucky")).unwrap() == bytes, "{model}");
        }
        fs::remove_file(small.bench.path("host/other")).unwrap();
        small.bench.umount().done();
        small.bench.smrkit(&["fsck", "-n", &small.image()]).done();
        small.mount().done();
        assert!(fs::read(small.path("folder/unlucky")).unwrap() == bytes, "{model}");
        small.bench.umount().done();
    }
}
