//! Files that are already there where a server wants to put its own.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos};
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::{DriveImage, journal_path, system_of};
use smrkit_live::block::server::Listener;
use tempfile::TempDir;

use super::image;

/// What is at a path: its kind, inode, and the bytes of a file.
fn seen(path: &Path) -> (fs::FileType, u64, Vec<u8>) {
    let found = fs::symlink_metadata(path).unwrap();
    let bytes = if found.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    (found.file_type(), found.ino(), bytes)
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

/// Serves a write and a flush, and is killed.
fn use_and_kill(path: &Path) {
    let mut device = BlockDevice::open(DriveImage::open(path, true).unwrap(), None).unwrap().0;
    for (op, sectors) in [(Op::Write, 1), (Op::Flush, 0)] {
        device.serve(&Request::new(op, Lba(0), sectors), Nanos::ZERO, &mut Buf::Bytes(vec![1; 512])).unwrap();
    }
}

#[test]
fn a_journal_that_is_not_the_images_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "log");
    let journal = journal_path(&path);
    let refused = |what: &str| {
        let before = seen(&journal);
        assert!(DriveImage::open(&path, true).is_err(), "{what}");
        assert_eq!(seen(&journal), before, "{what}");
    };
    let [backup, other] = ["backup", "other"].map(|name| folder.path().join(name));
    fs::copy(&path, &backup).unwrap();
    fs::write(&journal, "my own notes").unwrap();
    refused("notes");
    fs::remove_file(&journal).unwrap();
    fs::write(&other, "").unwrap();
    symlink(&other, &journal).unwrap();
    refused("a link");
    fs::remove_file(&journal).unwrap();
    use_and_kill(&path);
    let own = fs::read(&journal).unwrap();
    fs::write(&journal, "my own notes").unwrap();
    refused("notes in the place of its journal");
    fs::remove_file(&journal).unwrap();
    assert!(DriveImage::open(&path, true).is_err_and(|error| error.to_string().contains("copy both")));
    assert!(!journal.exists());
    fs::write(&journal, &own).unwrap();
    drop(DriveImage::open(&path, true).unwrap());
    // The image is restored, and what it had been is forgotten.
    fs::write(&journal, &own).unwrap();
    fs::copy(&backup, &path).unwrap();
    refused("the journal of a later state");
    fs::remove_file(&journal).unwrap();
    use_and_kill(&path);
    fs::write(&journal, &own).unwrap();
    refused("the journal of another use");
}

#[test]
fn a_drive_file_that_a_head_names_by_its_path_is_not_opened() {
    let folder = TempDir::new().unwrap();
    let path = image(folder.path(), "log");
    let mut run = DriveImage::open(&path, true).unwrap().head().run.clone();
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
