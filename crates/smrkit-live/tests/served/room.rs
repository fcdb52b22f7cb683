//! A host whose disk is full: what needs no room of it goes on, the rest fails, and works again once there is some.

use std::fs;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use smrkit_live::block::drive::{Command, CommandError, CommandKind, ServedDrive};
use tempfile::TempDir;

use super::client::{Client, WRITE};
use super::protocol::NO_SPACE;
use super::{ServeOptions, Served, image, open_drive, open_image};

const PIECE: usize = 65_536;
/// Time after which a server looks for room again.
const LATER: Duration = Duration::from_millis(1100);

/// A small file system in memory; none, with a word for the skip list, where it can't be mounted.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let folder = TempDir::new().unwrap();
        let mount = Program::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path()).output();
        if !mount.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: only root can mount");
            return None;
        }
        Some(SmallDisk(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Uses up the room that is left.
    fn fill(&self) {
        let ballast = fs::File::options().append(true).create(true).open(self.ballast()).unwrap();
        for bytes in [PIECE, 1] {
            while std::io::Write::write(&mut &ballast, &vec![1; bytes]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a test that fails may still have files open.
        let _ = Program::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

#[test]
fn on_a_full_disk_a_drive_is_read_and_rewritten_and_new_data_waits_for_room() {
    for layer in ["drive-managed", "log", "in-place on st8000as0002"] {
        let Some(disk) = SmallDisk::new() else { return };
        let path = image(disk.path(), layer);
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        client.write(0, &[1; PIECE]);
        client.flush();
        disk.fill();
        assert_eq!(client.ask(0, WRITE, 1 << 20, PIECE as u32, &[2; PIECE]), NO_SPACE, "{layer}");
        // More than the events that gather before they are written.
        (0..3000).for_each(|at| assert_eq!(client.read(at * 4096 % PIECE as u64, 512), [1; 512]));
        client.write(4096, &[3; 4096]);
        client.flush();
        assert_eq!(client.read(1 << 20, 512), [0; 512]);
        assert!(served.report()["has_failed"] == false, "{layer}");
        disk.make_room();
        client.write(1 << 20, &[4; PIECE]);
        client.flush();
        std::thread::sleep(LATER);
        client.read(0, 512);
        drop(client);
        served.stop();
        assert!(open_image(&path).was_clean);
        let served = Served::open(&path, ServeOptions::default(), None);
        let mut client = Client::new(&served.socket);
        assert_eq!([0, 4096, 1 << 20].map(|at| client.read(at, 512)[0]), [1, 3, 4]);
    }
}

/// Up to where a zone is written, the events alone tell: what they can't say is not durable.
#[test]
fn on_a_full_disk_no_flush_vouches_for_a_write_pointer() {
    use CommandKind::{Flush, Read, ZoneAppend};
    let Some(disk) = SmallDisk::new() else { return };
    let path = image(disk.path(), "zoned on hc620");
    let mut drive = open_drive(&path);
    let limits = drive.zones().unwrap().limits();
    let zone = limits.conventional * limits.zone_sectors * 512;
    let serve = |drive: &mut ServedDrive, kind, offset, bytes: u64| {
        let data = vec![1; if kind == ZoneAppend { bytes as usize } else { 0 }];
        drive.serve(Command::new(kind, offset, bytes, data)).unwrap().ended.unwrap().1
    };
    serve(&mut drive, ZoneAppend, zone, 65_536).unwrap();
    serve(&mut drive, Flush, 0, 0).unwrap();
    disk.fill();
    (0..500).for_each(|_| serve(&mut drive, Read, zone, 4096).unwrap());
    assert_eq!(serve(&mut drive, Flush, 0, 0), Err(CommandError::NoSpace));
    assert_eq!(serve(&mut drive, ZoneAppend, zone, 1 << 20), Err(CommandError::NoSpace));
    assert_eq!(serve(&mut drive, Read, zone, 4096), Ok(()));
    disk.make_room();
    std::thread::sleep(LATER);
    serve(&mut drive, ZoneAppend, zone, 4096).unwrap();
    serve(&mut drive, Flush, 0, 0).unwrap();
    let pointer = |drive: &ServedDrive| drive.zones().unwrap().report(limits.conventional).pointer;
    let flushed = pointer(&drive);
    // As after a crash.
    drop(drive);
    let drive = open_drive(&path);
    assert_eq!(pointer(&drive), flushed);
    drive.close().unwrap();
}
