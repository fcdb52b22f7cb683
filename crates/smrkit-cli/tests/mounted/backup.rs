//! `smrkit backup` and `smrkit restore`: one moment of a busy mount, and all that belongs to a file.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::copies::{FILES, PIECE, filled};
use super::{Bench, MODELS};

/// Writes a number to one file and then to another, again and again; in between something large.
fn count(bench: &Bench, written: &AtomicU64, is_over: &AtomicBool) {
    let open = |name: &str| File::create(bench.file(name)).unwrap();
    let (first, second, large) = (open("first"), open("second"), open("large"));
    for number in 1u64.. {
        first.write_all_at(&number.to_le_bytes(), 0).unwrap();
        second.write_all_at(&number.to_le_bytes(), 0).unwrap();
        large.write_all_at(&vec![number as u8; 100_000], 0).unwrap();
        written.store(number, Relaxed);
        if is_over.load(Relaxed) {
            return;
        }
    }
}

fn counted(path: &Path) -> u64 {
    u64::from_le_bytes(fs::read(path).unwrap().try_into().expect("eight bytes"))
}

/// Mounts what was restored in place of the original.
fn mount_restored(bench: &Bench) {
    bench.smrkit(&["mount", "--log", &bench.path("log"), &bench.path("new.img"), &bench.path("mnt")]).done();
}

fn restore(bench: &Bench, from: &str) {
    bench.smrkit(&["restore", &bench.path(from), &bench.path("new.img"), "--meta", &bench.path("new.meta")]).done();
}

/// Writes every file anew, `times` times.
fn overwrite(bench: &Bench, pieces: u64, times: u8) {
    for round in 0..times {
        for number in 0..FILES {
            let file = OpenOptions::new().write(true).open(bench.file(&number.to_string())).unwrap();
            file.write_all_at(&vec![round + number as u8; pieces as usize * PIECE], 0).unwrap();
        }
        bench.smrkit(&["sync", &bench.path("mnt")]).done();
    }
}

#[test]
fn a_backup_is_one_moment_of_a_busy_mount_and_can_be_worked_with() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        let pieces = filled(&bench);
        bench.mount().done();
        let (written, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| count(&bench, &written, &is_over));
            while written.load(Relaxed) < 20 {
                thread::yield_now();
            }
            let before = written.load(Relaxed);
            let saved = bench.smrkit(&["backup", &bench.path("mnt"), &bench.path("saved")]);
            let after = written.load(Relaxed);
            is_over.store(true, Relaxed);
            saved.done();
            assert!(after > before, "{model}: nothing was written meanwhile");
        });
        bench.umount().done();
        bench.is_in_order();
        bench.smrkit(&["fsck", "-n", &bench.path("saved/disk.img")]).done();
        restore(&bench, "saved");
        mount_restored(&bench);
        let (first, second) = (counted(&bench.file("first")), counted(&bench.file("second")));
        assert!((20..=written.load(Relaxed)).contains(&second), "{model}: {second}");
        assert!(first == second || first == second + 1, "{model}: {first} and {second} are of different moments");
        for number in 0..FILES {
            assert!(fs::read(bench.file(&number.to_string())).unwrap() == vec![1; pieces as usize * PIECE]);
        }
        overwrite(&bench, pieces, 5);
        bench.umount().done();
        bench.smrkit(&["fsck", "-n", &bench.path("new.img")]).done();
        mount_restored(&bench);
        for number in 0..FILES {
            let expected = vec![4 + number as u8; pieces as usize * PIECE];
            assert!(fs::read(bench.file(&number.to_string())).unwrap() == expected, "{model}: {number}");
        }
        bench.umount().done();
    }
}

/// A connection to the process behind the only mount of a bench.
struct Client(BufReader<UnixStream>);

impl Client {
    fn of(bench: &Bench) -> Client {
        let mut sockets = fs::read_dir(bench.path("run")).unwrap().map(|entry| entry.unwrap().path());
        let socket = sockets.find(|path| path.extension().is_some_and(|end| end == "sock")).expect("a socket");
        Client(BufReader::new(UnixStream::connect(socket).unwrap()))
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.0.get_mut(), "{{\"command\":\"{command}\"}}").unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn programs_go_on_while_a_mount_is_copied() {
    for model in MODELS {
        let Some(bench) = Bench::new(model, "64MiB") else { return };
        bench.mount().done();
        let file = File::options().read(true).write(true).create_new(true).open(bench.file("file")).unwrap();
        file.write_all_at(&[1; 300_000], 0).unwrap();
        file.sync_all().unwrap();
        let mut client = Client::of(&bench);
        assert_eq!(client.ask("keep")["ok"], true);
        let (event, events) = mpsc::channel();
        thread::scope(|scope| {
            let (file, program) = (&file, event.clone());
            scope.spawn(move || {
                file.write_all_at(&[2; 300_000], 0).unwrap();
                let mut back = [0; 300_000];
                file.read_exact_at(&mut back, 0).unwrap();
                assert!(back == [2; 300_000]);
                program.send("written and read").unwrap();
                file.sync_all().unwrap();
                program.send("synced").unwrap();
            });
            let next = || events.recv_timeout(Duration::from_secs(60));
            assert_eq!(next(), Ok("written and read"), "{model}");
            event.send("directory copied").unwrap();
            assert_eq!(client.ask("kept")["ok"], true);
            assert_eq!([next(), next()], [Ok("directory copied"), Ok("synced")], "{model}");
        });
        // While the data is copied nothing waits.
        fs::write(bench.file("new"), "text").unwrap();
        File::open(bench.file("new")).unwrap().sync_all().unwrap();
        bench.smrkit(&["backup", &bench.path("mnt"), &bench.path("saved")]).says(1, &["another backup"]);
        // Programs come first: room that is kept is no reason for ENOSPC.
        let mut rounds = 0;
        while client.ask("kept")["ok"] == true {
            file.write_all_at(&vec![rounds as u8; 8 << 20], 0).unwrap();
            file.sync_all().unwrap();
            rounds += 1;
            assert!(rounds < 100, "{model}: nothing was kept");
        }
        assert!(client.ask("kept")["error"].as_str().unwrap().contains("needed the room"));
        drop((client, file));
        bench.umount().done();
        bench.is_in_order();
    }
}

/// Everything that a listing tells of a tree.
fn listing(bench: &Bench) -> String {
    let list = "find . -printf '%p %y %m %U %G %n %s %T@ %l\\n' | sort; getfattr -R -h -d -m - . | sort; cat file";
    let listed = Command::new("sh").args(["-c", list]).current_dir(bench.point()).output().unwrap();
    assert!(listed.stderr.is_empty(), "{}", String::from_utf8_lossy(&listed.stderr));
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

#[test]
fn a_restored_volume_has_all_that_belongs_to_its_files() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let make = "echo text > file; ln file link; mkdir -p a/b/c; ln file a/b/link; chmod 4711 file; ln -s nowhere symlink; \
                mkfifo pipe; truncate -s 1G holes; echo end >> holes; mkdir closed; touch closed/in; chmod 0 closed; \
                setfattr -n user.word -v one file; setfattr -n user.word -v two a; touch -d 1999-01-02 file a/b; \
                i=0; while [ $i -lt 300 ]; do dir=deep/$dir; i=$((i+1)); done; mkdir -p $dir; \
                dd if=/dev/zero of=scattered bs=4k count=4000 2> /dev/null; i=0; \
                while [ $i -lt 1500 ]; do printf x | dd of=scattered bs=1 seek=$((i*9000)) conv=notrunc 2> /dev/null; i=$((i+1)); done";
    assert!(Command::new("sh").args(["-ec", make]).current_dir(bench.point()).status().unwrap().success());
    // Times of directories are finer as long as they are in memory.
    bench.umount().done();
    bench.mount().done();
    let original = listing(&bench);
    bench.smrkit(&["backup", &bench.path("mnt"), &bench.path("of-mount")]).done();
    bench.umount().done();
    bench.smrkit(&["backup", &bench.path("disk.img"), &bench.path("of-image")]).done();
    for saved in ["of-mount", "of-image"] {
        restore(&bench, saved);
        mount_restored(&bench);
        let restored = listing(&bench);
        let differ = restored.lines().zip(original.lines()).find(|(restored, original)| restored != original);
        assert!(differ.is_none() && restored.len() == original.len(), "{saved}: {differ:?}");
        bench.umount().done();
        fs::remove_file(bench.path("new.img")).unwrap();
        fs::remove_dir_all(bench.path("new.meta")).unwrap();
    }
}

/// Gives a file of the volume further names, up to what its host allows or ext4 does not; tells how many it has then.
fn name_as_often_as_allowed(bench: &Bench) -> u64 {
    bench.mount().done();
    fs::write(bench.file("name-1"), "text").unwrap();
    bench.umount().done();
    let name = |number: u64| bench.path(&format!("meta/tree/name-{number}"));
    1 + (2..=65_001).take_while(|&number| fs::hard_link(name(1), name(number)).is_ok()).count() as u64
}

#[test]
fn a_file_with_all_the_names_that_the_host_allows_is_copied() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let names = name_as_often_as_allowed(&bench);
    bench.smrkit(&["backup", &bench.path("disk.img"), &bench.path("saved")]).done();
    restore(&bench, "saved");
    mount_restored(&bench);
    let last = bench.file(&format!("name-{names}"));
    assert_eq!((fs::metadata(&last).unwrap().nlink(), fs::read(&last).unwrap()), (names, b"text".to_vec()));
    bench.umount().done();
    bench.smrkit(&["fsck", "-n", &bench.path("new.img")]).done();
}

#[test]
fn a_file_with_more_names_than_the_backup_may_have_is_named() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    // Memory has room for more names than most disks; old kernels have no attributes there.
    let Ok(folder) = TempDir::new_in("/dev/shm") else { return println!("skipped: no /dev/shm") };
    if name_as_often_as_allowed(&bench) > 65_000 || !has_attributes(folder.path()) {
        return println!("skipped: no file system here allows fewer names than another");
    }
    let many = Bench::made_in(folder, "caveat", "64MiB");
    assert_eq!(name_as_often_as_allowed(&many), 65_001);
    let saved = bench.path("saved");
    many.smrkit(&["backup", &many.path("disk.img"), &saved]).says(3, &["saved/disk.meta/tree/name-", "fewer names"]);
    assert!(!Path::new(&saved).exists());
}

fn has_attributes(folder: &Path) -> bool {
    let set = Command::new("setfattr").args(["-n", "user.word", "-v", "one"]).arg(folder).status();
    set.is_ok_and(|set| set.success())
}

#[test]
fn a_backup_that_is_refused_leaves_nothing() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    bench.mount().done();
    let (point, image) = (bench.path("mnt"), bench.path("disk.img"));
    bench.smrkit(&["backup", &image, &bench.path("saved")]).says(3, &["disk.img", "in use"]);
    bench.smrkit(&["backup", &point, &bench.path("mnt/saved")]).says(4, &["mnt/saved", "elsewhere"]);
    bench.smrkit(&["backup", &point, &bench.path("no/saved")]).says(3, &["no/saved", "check the path"]);
    assert_eq!(fs::read_dir(bench.point()).unwrap().count(), 0);
    bench.smrkit(&["backup", &point, &bench.path("saved")]).done();
    bench.smrkit(&["backup", &point, &bench.path("saved")]).says(4, &["saved", "exists"]);
    bench.smrkit(&["fsck", "-n", &bench.path("saved/disk.img")]).done();
    let (new, meta) = (bench.path("new.img"), bench.path("meta"));
    bench.smrkit(&["restore", &bench.path("saved"), &new, "--meta", &meta]).says(4, &["meta", "exists"]);
    assert!(!Path::new(&new).exists());
    bench.smrkit(&["restore", &bench.path("mnt"), &new, "--meta", &bench.path("x")]).says(3, &["disk.img"]);
    bench.umount().done();
    bench.is_in_order();
}
