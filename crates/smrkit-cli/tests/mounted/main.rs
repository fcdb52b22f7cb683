//! The mount as its users meet it: images, metadata directories, the process in the background, signals, kills.
//!
//! What programs see inside is tested in `crates/smrkit-live/tests/mounted`.

mod attached;
mod backup;
mod copies;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;
mod databases;
mod durable;
mod edges;
mod full;
mod handles;
mod helper;
mod kill;
mod life;
mod lists;
mod others;
mod refusals;
mod scrub;
mod second;
mod stat;
mod tutorials;
mod unprivileged;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Both models, as `mkfs` calls them.
const MODELS: [&str; 2] = ["caveat", "strict-append"];

/// A folder with an image, its metadata, a mount point, and a run directory of its own.
struct Bench {
    folder: TempDir,
}

impl Bench {
    /// With a fresh file system; none, with a word for the skip list, where there is no FUSE.
    fn new(model: &str, size: &str) -> Option<Bench> {
        if let Err(error) = smrkit_live::mount::check_system() {
            println!("skipped: can't mount here: {error}");
            return None;
        }
        Some(Bench::made_in(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"), model, size))
    }

    fn made_in(folder: TempDir, model: &str, size: &str) -> Bench {
        let bench = Bench { folder };
        fs::create_dir(bench.point()).expect("a mount point");
        let (image, meta) = (bench.path("disk.img"), bench.path("meta"));
        bench.smrkit(&["mkfs", "--model", model, "--size", size, &image, "--meta", &meta]).done();
        bench
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path of text").to_string()
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.point().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smrkit"));
        command.args(arguments).env("SMRKIT_RUN_DIR", self.path("run"));
        command
    }

    fn smrkit(&self, arguments: &[&str]) -> Ran {
        Ran(self.command(arguments).output().expect("smrkit starts"))
    }

    fn mount(&self) -> Ran {
        self.mount_with(&[])
    }

    fn mount_with(&self, options: &[&str]) -> Ran {
        let (log, image, point) = (self.path("log"), self.path("disk.img"), self.path("mnt"));
        self.smrkit(&[&["mount", "--log", &log], options, &[&image, &point]].concat())
    }

    /// The process behind the mount is killed, and what it left is mounted again.
    fn kill_and_mount(&self) {
        signal(self.process(), "KILL");
        self.umount().done();
        self.mount().done();
    }

    fn umount(&self) -> Ran {
        self.smrkit(&["umount", &self.path("mnt")])
    }

    /// Report of the process in the background.
    fn report(&self) -> Value {
        serde_json::from_str(&self.smrkit(&["top", "--json", &self.path("mnt")]).done()).expect("JSON")
    }

    fn process(&self) -> u32 {
        self.report()["process"].as_u64().expect("a number") as u32
    }

    /// The check finds nothing to repair.
    #[track_caller]
    fn is_in_order(&self) {
        self.smrkit(&["fsck", "-n", &self.path("disk.img")]).done();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Whatever went wrong, nothing stays mounted.
        if is_mounted(&self.point()) {
            self.umount();
        }
        if is_mounted(&self.point()) {
            let _ = Command::new("umount").arg("--lazy").arg(self.point()).status();
        }
    }
}

/// Content in which each block of that size repeats its byte.
fn blocks(bytes: usize, block: usize, byte: impl Fn(usize) -> u8) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes);
    (0..bytes.div_ceil(block)).for_each(|nth| content.resize(bytes.min((nth + 1) * block), byte(nth)));
    content
}

fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    point.to_str().is_some_and(|point| mounts.lines().any(|line| line.split(' ').nth(1) == Some(point)))
}

/// Puts a copy of the program into a folder. `cp` writes it: a child that another test starts would inherit our open file, and the
/// kernel starts no program that is open for writing.
fn copy_program(folder: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_smrkit")).arg(folder.join("smrkit")).status();
    assert!(copied.expect("cp starts").success());
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Output of a command.
struct Ran(Output);

impl Ran {
    /// The output of a command that ended well.
    #[track_caller]
    fn done(self) -> String {
        let (out, err) = (String::from_utf8_lossy(&self.0.stdout), String::from_utf8_lossy(&self.0.stderr));
        assert_eq!(self.0.status.code(), Some(0), "{out}{err}");
        out.into_owned()
    }

    /// A command that ended with `code` and words among which these are.
    #[track_caller]
    fn says(self, code: i32, words: &[&str]) {
        let err = String::from_utf8_lossy(&self.0.stderr);
        assert_eq!(self.0.status.code(), Some(code), "{err}");
        for word in words {
            assert!(err.contains(word), "{word:?} is missing in: {err}");
        }
    }
}

/// Waits for something, but not for ever.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} takes too long");
        sleep(Duration::from_millis(20));
    }
}

/// True if nothing of a process is left that holds a file, a lock or a socket.
fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    // Its parent has not asked for its status yet.
    let is_zombie = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'));
    threads == 0 || (threads == 1 && is_zombie)
}

/// Kills a process, and waits until it has ended.
#[track_caller]
fn kill(process: u32) {
    signal(process, "KILL");
    wait_until("the end of what was killed", || has_ended(process));
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.expect("kill").success());
}
