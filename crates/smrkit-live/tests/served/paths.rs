//! Files that are already there where a server wants to put its own.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use smrkit::settings::Queue;
use smrkit_live::block::drive::{Command, CommandKind, ServedDrive};
use smrkit_live::block::image::{self, DriveImage, state_path, system_of};
use smrkit_live::block::log::LogWriter;
use smrkit_live::block::server::Listener;
use smrkit_live::mount::control::value_path;
use tempfile::TempDir;

use super::{ServeOptions, Served, image as made, open_drive, open_image};

/// What is at a path: its kind, inode, length, and the first bytes of a file.
fn seen(path: &Path) -> (fs::FileType, u64, u64, Vec<u8>) {
    let found = fs::symlink_metadata(path).unwrap();
    let mut bytes = Vec::new();
    if found.is_file() {
        fs::File::open(path).unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
    }
    (found.file_type(), found.ino(), found.len(), bytes)
}

#[test]
fn a_socket_takes_the_place_of_no_file() {
    let folder = TempDir::new().unwrap();
    let [file, link, dangling, directory, live] =
        ["file", "link", "dangling", "directory", "live"].map(|name| folder.path().join(name));
    fs::write(&file, "thesis").unwrap();
    symlink(&file, &link).unwrap();
    symlink(folder.path().join("nowhere"), &dangling).unwrap();
    fs::create_dir(&directory).unwrap();
    let _listener = UnixListener::bind(&live).unwrap();
    for path in [&file, &link, &dangling, &directory, &live] {
        let before = seen(path);
        assert!(Listener::unix(path).is_err(), "{}", path.display());
        assert_eq!(seen(path), before, "{}", path.display());
    }
    assert!(fs::symlink_metadata(&live).unwrap().file_type().is_socket());
    assert_eq!(fs::read(&file).unwrap(), b"thesis");
}

#[test]
fn a_drive_file_that_a_head_names_by_its_path_is_not_opened() {
    let folder = TempDir::new().unwrap();
    let path = made(folder.path(), "log");
    let mut run = open_image(&path).run;
    let file = folder.path().join("drive.toml");
    fs::write(&file, include_str!("../../../smrkit/drives/tiny.toml")).unwrap();
    run.system = run.system.replace("drive=st5000as0011", &format!("drive={}", file.display()));
    assert!(run.system.contains("drive.toml"), "{}", run.system);
    let refused = system_of(&run).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("its text is missing here"), "{refused}");
    run.drive_files.insert(file.display().to_string(), fs::read_to_string(&file).unwrap());
    fs::remove_file(&file).unwrap();
    run.system = run.system.split(",capacity").next().unwrap().to_string();
    system_of(&run).unwrap();
}

/// New images are all zeros: only the numbers that they were made with tell them apart.
#[test]
fn the_state_of_another_image_of_this_size_is_refused() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [own, other] = [0, 1].map(|at| made(folders[at].path(), "log"));
    let mut number = [0; 64];
    if rustix::fs::getxattr(&own, "user.smrkit.image", &mut number).is_err() {
        println!("skipped: no attributes of users here");
        return;
    }
    fs::copy(state_path(&other), state_path(&own)).unwrap();
    let refused = DriveImage::open(&own, |_| Ok(None)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("belongs to another image"), "{refused}");
}

#[test]
fn an_image_may_have_any_name() {
    let folder = TempDir::new().unwrap();
    let made = made(folder.path(), "log");
    let path = folder.path().join(OsStr::from_bytes(b"e\xff.img"));
    fs::rename(state_path(&made), state_path(&path)).unwrap();
    fs::rename(made, &path).unwrap();
    let report = Served::open(&path, ServeOptions::default(), None).stop();
    assert_eq!(value_path(&report["image"]), Some(path));
}

/// `cp` keeps neither inode nor times: the copy is known by what is in it.
#[test]
fn a_copy_of_image_and_state_goes_on_where_the_drive_was() {
    let folder = TempDir::new().unwrap();
    let [path, copy] = [made(folder.path(), "log"), folder.path().join("copy.img")];
    let mut drive = open_drive(&path);
    (0..16)
        .for_each(|at| drop(drive.serve(Command::new(CommandKind::Write, at << 20, 4096, vec![at as u8 + 1; 4096]))));
    let now = drive.now();
    drive.close().unwrap();
    for [from, to] in [[path.clone(), copy.clone()], [state_path(&path), state_path(&copy)]] {
        assert!(std::process::Command::new("cp").args([from, to]).status().unwrap().success());
    }
    let image = open_image(&copy);
    assert!(image.was_clean && image.note.is_none());
    assert!(ServedDrive::open(image, None, Queue::Fcfs).unwrap().0.now() >= now);
    // Other data in the place of the copy is no such copy.
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[7; 4096], 0).unwrap();
    fs::copy(&path, &copy).unwrap();
    fs::rename(state_path(&path), folder.path().join("other.img.smr")).unwrap();
    fs::rename(&copy, folder.path().join("other.img")).unwrap();
    let other = DriveImage::open(&folder.path().join("other.img"), |_| Ok(None)).err().unwrap().to_string();
    assert!(other.contains("belongs to another image"), "{other}");
}

/// The name of the new state, which takes the place of the old one, is longer than a name may be: a directory in which nothing may be
/// written is refused to others than root alone.
#[test]
fn data_is_served_where_no_state_can_be_written() {
    let folder = TempDir::new().unwrap();
    let [made, path] = [made(folder.path(), "log"), folder.path().join("d".repeat(245))];
    for [from, to] in [[made.clone(), path.clone()], [state_path(&made), state_path(&path)]] {
        fs::rename(from, to).unwrap();
    }
    let before = seen(&state_path(&path));
    let mut drive = open_drive(&path);
    let write = drive.serve(Command::new(CommandKind::Write, 512, 512, vec![7; 512])).unwrap();
    assert!(matches!(write.ended, Some((_, Ok(())))));
    drive.close().unwrap();
    assert_eq!(seen(&state_path(&path)), before);
    assert_eq!(fs::read(&path).unwrap()[512..1024], [7; 512]);
}

/// Files of many kinds, made at a path; what one was that is to be left alone.
const KINDS: [&str; 9] =
    ["text", "empty", "link", "dangling", "directory", "fifo", "socket", "state of another image", "torn state"];

fn place(kind: &str, path: &Path, other: &Path) {
    match kind {
        "text" => fs::write(path, "thesis\n").unwrap(),
        "empty" => fs::write(path, "").unwrap(),
        "link" => symlink(other, path).unwrap(),
        "dangling" => symlink(other.with_extension("nowhere"), path).unwrap(),
        "directory" => fs::create_dir(path).unwrap(),
        "fifo" => assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
        "socket" => drop(UnixListener::bind(path).unwrap()),
        "state of another image" => drop(fs::copy(state_path(other), path).unwrap()),
        _ => fs::write(path, &fs::read(state_path(other)).unwrap()[..100]).unwrap(),
    }
}

/// Whatever lies in the place of an image, its state, its socket or its log: none of it is changed, but what is the drive's own. Data is
/// served all the same where only the state is not to be had.
#[test]
fn no_file_that_was_there_is_changed() {
    let folder = TempDir::new().unwrap();
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(8);
    for round in 0..200 {
        let folder = folder.path().join(round.to_string());
        fs::create_dir(&folder).unwrap();
        let other = folder.join("other.img");
        fs::rename(made(&folder, "in-place"), &other).unwrap();
        fs::rename(state_path(&folder.join("drive.img")), state_path(&other)).unwrap();
        let run = open_image(&other).run;
        fs::OpenOptions::new().write(true).open(&other).unwrap().write_all_at(&[round as u8 + 1; 4096], 0).unwrap();
        let [path, socket, log] = ["drive.img", "s", "log"].map(|name| folder.join(name));
        let state = state_path(&path);
        let has_image = random.random_range(0..4) > 0;
        if has_image {
            made(&folder, "log");
            // It was used before; only its state gets lost.
            let mut drive = open_drive(&path);
            drive.serve(Command::new(CommandKind::Write, 0, 512, vec![7; 512])).unwrap();
            drive.close().unwrap();
        }
        let mut there: Vec<(&str, PathBuf)> = Vec::new();
        for path in [&path, &state, &socket, &log] {
            if random.random() && (*path != state || !has_image || random.random()) {
                if path == &path.with_extension("img") && has_image {
                    continue;
                }
                let _ = fs::remove_file(path);
                let kind = KINDS[random.random_range(0..KINDS.len())];
                place(kind, path, &other);
                there.push((kind, path.clone()));
            }
        }
        // A dead socket is what a server may take over.
        there.retain(|(kind, path)| (*kind, path) != ("socket", &socket));
        let before: Vec<_> = there.iter().map(|(_, path)| seen(path)).collect();
        let others = [seen(&other), seen(&state_path(&other))];
        let what = format!("round {round}: {there:?}");
        // What is empty or a link to an image may be an image or a log: then it may be used as one.
        let is_own = |path: &Path| there.iter().any(|(kind, at)| at == path && ["empty", "link"].contains(kind));
        let image = DriveImage::open(&path, |_| Ok(Some(run.clone())));
        if has_image {
            let image = image.unwrap();
            let is_foreign = there.iter().any(|(_, path)| *path == state);
            assert_eq!(image.note.is_some(), is_foreign || !state.exists(), "{what}");
            let log = LogWriter::open(&log, &image.run).ok();
            let mut drive = ServedDrive::open(image, log, Queue::Fcfs).unwrap().0;
            let read = drive.serve(Command::new(CommandKind::Read, 0, 512, Vec::new())).unwrap();
            assert!(matches!(read.ended, Some((_, Ok(())))) && read.data == [7; 512], "{what}");
            drive.close().unwrap();
        } else if !is_own(&path)
            && let Ok(image) = image
        {
            panic!("{what}: {} is served as an image", image.path.display());
        }
        drop(Listener::unix(&socket));
        let _ = image::create(&path, run, false);
        for ((kind, path), before) in there.iter().zip(before) {
            if *path != log || !["empty"].contains(kind) {
                assert_eq!(seen(path), before, "{what}");
            }
        }
        assert!([seen(&other), seen(&state_path(&other))] == others, "{what}");
    }
}
