//! `smrkit attach`: a served drive as a loop device, and file systems on it through kills of the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

use tempfile::TempDir;

use super::{Bench, Ran, is_mounted, is_root, kill, wait_until};
use crate::count::count_from;

/// A file system: how it is made, and the commands that check it after a crash.
pub(super) struct Kind {
    pub(super) name: &'static str,
    make: &'static [&'static str],
    checks: &'static [&'static [&'static str]],
}

/// Its first check replays the journal and mends the counts; the second finds nothing.
pub(super) const EXT4: Kind =
    Kind { name: "ext4", make: &["mkfs.ext4", "-q"], checks: &[&["e2fsck", "-fy"], &["e2fsck", "-fn"]] };
const XFS: Kind = Kind { name: "xfs", make: &["mkfs.xfs", "-q", "-f"], checks: &[&["xfs_repair", "-n"]] };
const BTRFS: Kind =
    Kind { name: "btrfs", make: &["mkfs.btrfs", "-q", "-f"], checks: &[&["btrfs", "check", "--readonly"]] };

impl Kind {
    /// False, with a word for the skip list, where its programs are not.
    pub(super) fn is_here(&self) -> bool {
        let missing = self.checks.iter().chain([&self.make]).map(|words| words[0]).find(|program| !has(program));
        if let Some(program) = missing {
            println!("skipped: no {program} here");
        }
        missing.is_none()
    }
}

/// A drive that is attached as a loop device.
pub(super) struct Attached {
    pub(super) bench: Bench,
    device: PathBuf,
    /// Options of `attach`.
    options: &'static [&'static str],
}

/// Finds a program, also where only root looks for it.
pub(super) fn has(program: &str) -> bool {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(program).exists())
}

impl Attached {
    /// A new drive under `layer` without a pace; none, with a word for the skip list, where there are no loop devices.
    fn new(layer: &str) -> Option<Attached> {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let option = if layer.contains(':') { "--array" } else { "--layer" };
        Attached::made_in(folder, &[option, layer], &["--pace", "none"])
    }

    /// A new drive of 1500 MB in `folder`, with options of `create` and `attach`.
    pub(super) fn made_in(folder: TempDir, made: &[&str], options: &'static [&'static str]) -> Option<Attached> {
        let error = smrkit_live::mount::check_system().err().map(|error| error.to_string());
        let error = error.or_else(|| (!is_root()).then(|| "a loop device takes root".to_string()));
        let error = error.or_else(|| (!Path::new("/dev/loop-control").exists()).then(|| "no loop devices".to_string()));
        if let Some(error) = error {
            println!("skipped: can't mount a loop device here: {error}");
            return None;
        }
        let bench = Bench { folder };
        fs::create_dir(bench.point()).expect("a mount point");
        bench.smrkit(&[&["create", &bench.path("drive.img"), "--capacity", "1500MB"], made].concat()).done();
        let mut attached = Attached { bench, device: PathBuf::new(), options };
        attached.attach();
        Some(attached)
    }

    pub(super) fn attach(&mut self) {
        let said = self.bench.smrkit(&[&["attach", &self.bench.path("drive.img")], self.options].concat()).done();
        self.device = PathBuf::from(said.trim());
        assert!(self.device.starts_with("/dev"), "{said}");
    }

    pub(super) fn detach(&self) -> Ran {
        self.bench.smrkit(&["detach", &self.bench.path("drive.img")])
    }

    pub(super) fn kill_server(&self) {
        kill(self.process());
    }

    fn process(&self) -> u32 {
        let report = self.bench.smrkit(&["top", "--json", &self.bench.path("drive.img")]).done();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        report["process"].as_u64().unwrap() as u32
    }

    /// Loop devices on this drive; its own counts where the file is gone, too, of which the kernel then knows the name alone.
    fn loops(&self) -> usize {
        let run = self.bench.path("run");
        let is_ours = |block: &Path| {
            let file = fs::read_to_string(block.join("loop/backing_file")).unwrap_or_default();
            file.starts_with(&run) || (block.file_name() == self.device.file_name() && file.starts_with("/disk"))
        };
        fs::read_dir("/sys/block").unwrap().filter(|block| is_ours(&block.as_ref().unwrap().path())).count()
    }

    /// Makes a file system on the device.
    pub(super) fn make(&self, kind: &Kind) {
        self.run(kind.make, &self.device).done();
    }

    /// Checks the file system: nothing is left to mend after what a journal leaves to the check.
    pub(super) fn check(&self, kind: &Kind) {
        if kind.name != "ext4" {
            // Mounting replays the journal; the check does not.
            self.mount(kind.name);
            self.umount();
        }
        let (last, first) = kind.checks.split_last().unwrap();
        first.iter().for_each(|check| drop(self.run(check, &self.device)));
        self.run(last, &self.device).done();
    }

    fn run(&self, words: &[&str], target: &Path) -> Ran {
        Ran(Command::new(words[0]).args(&words[1..]).arg(target).output().expect(words[0]))
    }

    pub(super) fn mount(&self, kind: &str) {
        let point = self.bench.point();
        let mounted = Command::new("mount").args(["-t", kind]).arg(&self.device).arg(&point).output().unwrap();
        Ran(mounted).done();
    }

    /// Unmounts; what is dead too.
    pub(super) fn umount(&self) {
        wait_until("umount", || Command::new("umount").arg(self.bench.point()).output().unwrap().status.success());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if is_mounted(&self.bench.point()) {
            let _ = Command::new("umount").arg("--lazy").arg(self.bench.point()).status();
        }
        let _ = self.detach();
        let _ = self.detach();
    }
}

#[test]
fn a_loop_device_comes_with_attach_and_goes_with_detach() {
    let Some(attached) = Attached::new("in-place") else { return };
    let block = Path::new("/sys/block").join(attached.device.file_name().unwrap());
    let number = |name: &str| fs::read_to_string(block.join(name)).unwrap().trim().parse::<u64>().unwrap();
    assert!(number("size") > 2_500_000);
    // A disk, and not an SSD: file systems look.
    assert_eq!(["rotational", "physical_block_size"].map(|name| number(&format!("queue/{name}"))), [1, 4096]);
    assert_eq!(attached.loops(), 1);
    let glance = fs::File::open(&attached.device).unwrap();
    let glancing = spawn(move || {
        sleep(Duration::from_millis(500));
        drop(glance);
    });
    attached.detach().done();
    assert_eq!(attached.loops(), 0, "detach waits for who looks at the device");
    glancing.join().unwrap();
    attached.detach().says(3, &["not attached"]);
}

/// The server leaves the directory in which it was started, and looks whether its log is still there. Options of every command may
/// stand before this one.
#[test]
fn a_log_named_from_here_is_written_to_the_end() {
    let Some(mut attached) = Attached::new("in-place") else { return };
    attached.detach().done();
    let words = ["--quiet", "attach", "drive.img", "--pace", "none", "--log", "near.log"];
    let mut attach = attached.bench.command(&words);
    let said = Ran(attach.current_dir(attached.bench.folder.path()).output().unwrap()).done();
    attached.device = PathBuf::from(said.trim());
    for _ in 0..2 {
        fs::write(&attached.device, [1; 4096]).unwrap();
        fs::File::open(&attached.device).unwrap().sync_all().unwrap();
        sleep(Duration::from_millis(1500));
    }
    attached.detach().done();
    let log = fs::read_to_string(attached.bench.path("near.log")).unwrap();
    assert!(log.ends_with("closed\n") && log.matches("\nwrite ").count() > 1, "{log}");
}

#[test]
fn what_a_killed_attach_has_left_is_taken_away() {
    let Some(mut attached) = Attached::new("log") else { return };
    attached.kill_server();
    assert_eq!(attached.loops(), 1, "the kernel keeps it");
    attached.detach().done();
    assert_eq!(attached.loops(), 0);
    attached.attach();
    attached.kill_server();
    attached.attach();
    assert_eq!(attached.loops(), 1);
    attached.detach().done();
    assert_eq!(attached.loops(), 0);
}

/// What is mounted is kept at the first signal; at the second it loses its device, and the image is closed.
#[test]
fn a_second_signal_ends_a_drive_that_is_mounted() {
    let Some(attached) = Attached::new("in-place") else { return };
    if !EXT4.is_here() {
        return;
    }
    attached.make(&EXT4);
    attached.mount("ext4");
    let process = attached.process();
    let signal = |name: &str| Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    let image = attached.bench.path("drive.img");
    signal("-TERM");
    let served = attached.bench.smrkit(&["df", &image]).done();
    assert!(served.contains("serves it"), "{served}");
    // At once, it is taken for the same event.
    sleep(Duration::from_millis(1500));
    signal("-INT");
    wait_until("the server's end", || !Path::new(&format!("/proc/{process}")).exists());
    attached.umount();
    let closed = attached.bench.smrkit(&["df", &image]).done();
    assert!(!closed.contains("not closed cleanly"), "{closed}");
}

#[test]
fn a_request_that_hangs_leaves_no_dead_mount_behind() {
    let Some(attached) = Attached::new("in-place") else { return };
    let image = attached.bench.path("drive.img");
    attached.bench.smrkit(&["inject", &image, "timeout"]).done();
    let device = format!("if={}", attached.device.display());
    let words = [&device, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"];
    let mut hanging = Command::new("dd").args(words).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(500));
    attached.detach().done();
    let _ = hanging.wait();
    let (own, mounts) = (attached.bench.path("run"), fs::read_to_string("/proc/self/mounts").unwrap());
    assert!(!mounts.contains(&own), "{mounts}");
}

#[test]
fn a_long_range_fails_if_any_part_of_it_does() {
    let Some(attached) = Attached::new("in-place") else { return };
    let (image, name) = (attached.bench.path("drive.img"), attached.device.file_name().unwrap());
    let file = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file")).unwrap();
    let punch = || Command::new("fallocate").args(["-p", "-l", "1200MiB", file.trim()]).stderr(Stdio::null()).status();
    attached.bench.smrkit(&["inject", &image, "fail", "discard", "lba=0..8", "count=1"]).done();
    assert_eq!([punch(), punch()].map(|status| status.unwrap().success()), [false, true]);
    attached.detach().done();
}

/// Content of a file by its number.
fn content(number: u32) -> Vec<u8> {
    (0..50_000u32).flat_map(|i| (i ^ number.wrapping_mul(2_654_435_761)).to_le_bytes()).collect()
}

/// Something that writes until it fails.
fn load(point: &Path) -> Child {
    let line = format!(
        "i=0; while dd if=/dev/urandom of={}/busy$((i % 40)) bs=64k count=10 2>/dev/null; do i=$((i+1)); done",
        point.display()
    );
    Command::new("sh").args(["-c", &line]).spawn().unwrap()
}

/// Kills of each file system's server: 2, or as many as `SMRKIT_ATTACHED_KILLS` says.
fn kills() -> u32 {
    count_from("SMRKIT_ATTACHED_KILLS", 2)
}

/// Files are made and synced; the server is killed under load; the file system is in order again, and those files are whole.
fn survives_kills(kind: &Kind, layer: &str) {
    if !kind.is_here() {
        return;
    }
    let Some(mut attached) = Attached::new(layer) else { return };
    attached.make(kind);
    let name = kind.name;
    let mut synced = Vec::new();
    for round in 0..kills() {
        attached.mount(name);
        for number in round * 10..round * 10 + 10 {
            let path = attached.bench.file(&format!("kept{number}"));
            fs::write(&path, content(number)).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
            synced.push(number);
        }
        fs::File::open(attached.bench.point()).unwrap().sync_all().unwrap();
        let mut load = load(&attached.bench.point());
        sleep(Duration::from_millis(800));
        attached.kill_server();
        load.kill().unwrap();
        load.wait().unwrap();
        attached.umount();
        attached.attach();
        attached.check(kind);
        attached.mount(name);
        for &number in &synced {
            let found = fs::read(attached.bench.file(&format!("kept{number}"))).unwrap();
            assert!(found == content(number), "{name}, round {round}: file {number}");
        }
        attached.umount();
    }
    verified(&attached, name);
    attached.detach().done();
    assert_eq!(attached.loops(), 0);
    attached.bench.smrkit(&["fsck", &attached.bench.path("drive.img")]).done();
}

/// fio finds its checksums, and a trim takes what is free.
fn verified(attached: &Attached, kind: &str) {
    attached.mount(kind);
    if has("fio") {
        let words = "fio --name=v --rw=randwrite --bs=4k --size=8m --verify=crc32c --verify_state_save=0 --fsync=256";
        let mut words: Vec<&str> = words.split(' ').collect();
        let folder = format!("--directory={}", attached.bench.path("mnt"));
        words.push(&folder);
        Ran(Command::new(words[0]).args(&words[1..]).output().unwrap()).done();
    } else {
        println!("skipped: no fio here");
    }
    attached.run(&["fstrim"], &attached.bench.point()).done();
    attached.umount();
}

#[test]
fn ext4_survives_kills_of_the_server() {
    survives_kills(&EXT4, "s-block");
}

#[test]
fn ext4_survives_kills_of_an_arrays_server() {
    survives_kills(&EXT4, "raid5:disks=3,chunk=64KiB,layer=drive-managed");
}

#[test]
fn xfs_survives_kills_of_the_server() {
    survives_kills(&XFS, "log");
}

#[test]
fn btrfs_survives_kills_of_the_server() {
    survives_kills(&BTRFS, "drive-managed");
}
