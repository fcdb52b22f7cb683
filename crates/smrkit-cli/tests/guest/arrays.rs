//! Arrays (md of the Linux kernel) of served drives: one fails, and is rebuilt on to a conventional and a drive-managed spare, of which
//! the latter is new, or has been in use until its persistent cache was full.
//!
//! The guest is much slower than the drives, so that its time tells nothing: the drives' own time is in their logs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rand::{RngExt, SeedableRng};
use smrkit::settings::Queue;
use smrkit_live::block::drive::{Command as DriveCommand, CommandKind, ServedDrive};
use smrkit_live::block::image::DriveImage;

use super::Guest;

/// Sectors of the writes that fill a cache.
const PIECE: u64 = 8;
/// The drive that has been in use.
const USED: &str = "used";

/// A drive that is served in the background until it is stopped.
struct Served {
    server: Child,
    uri: String,
    log: PathBuf,
}

/// Writes at random to a drive-managed drive, without a pause, until its persistent cache is full.
fn use_up(image: &Path) {
    let image = DriveImage::open(image, |_| Ok(None)).unwrap();
    let places = image.sectors() / PIECE;
    let (mut drive, _) = ServedDrive::open(image, None, Queue::Fcfs).unwrap();
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    while drive.gauges().cache_fill.unwrap() < 1.0 {
        let at = random.random_range(0..places) * PIECE * 512;
        drive.serve(DriveCommand::new(CommandKind::Write, at, PIECE * 512, vec![7; 4096])).unwrap();
    }
    drive.close().unwrap();
}

impl Served {
    fn new(folder: &Path, name: &str, layer: &str) -> Served {
        let at = |end: &str| folder.join(format!("{name}.{end}"));
        let smrkit = || Command::new(env!("CARGO_BIN_EXE_smrkit"));
        let mut create = smrkit();
        // A drive without a write cache of its own, which would hide what the layer does.
        create.arg("create").arg(at("img")).args(["--drive", "st5000as0011", "--layer", layer, "--capacity", "64GB"]);
        if name == USED {
            // The guest boots and waits for longer than drives would be idle.
            create.args(["--set", "drive-managed.idle_clean=off"]);
        }
        let made = create.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        if name == USED {
            use_up(&at("img"));
        }
        let mut serve = smrkit();
        serve.arg("serve").arg(at("img")).args(["--pace", "real", "--log"]).arg(at("log"));
        serve.env("SMRKIT_RUN_DIR", folder.join("run"));
        let mut server = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut uri = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut uri).unwrap();
        Served { server, uri: uri.trim().to_string(), log: at("log") }
    }

    /// Stops it; the writes it served.
    fn writes(mut self) -> Vec<Write> {
        let stopped = Command::new("kill").arg(self.server.id().to_string()).status().unwrap();
        assert!(stopped.success() && self.server.wait().unwrap().success());
        let log = fs::read_to_string(&self.log).unwrap();
        let writes = log.lines().filter_map(|line| line.strip_prefix("write "));
        writes.map(|line| Write::parse(line).expect("a line of the log")).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A write as the log of a drive has it.
struct Write {
    sectors: u64,
    arrival_ns: u64,
    end_ns: u64,
}

impl Write {
    /// From LBA, SECTORS, ARRIVAL, START, END.
    fn parse(line: &str) -> Option<Write> {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [_, sectors, arrival_ns, _, end_ns] = numbers[..] else { return None };
        Some(Write { sectors, arrival_ns, end_ns })
    }
}

/// Time in which a write was waiting or served by a spare, in seconds, and how it is told. What the drive does before it serves one
/// counts: it cleans.
fn rebuilt(what: &str, writes: &[Write]) -> f64 {
    let (mut at, mut waited) = (0, 0);
    for write in writes {
        waited += write.end_ns - at.max(write.arrival_ns);
        at = write.end_ns;
    }
    let waited = waited as f64 / 1e9;
    let mb = writes.iter().map(|write| write.sectors).sum::<u64>() as f64 * 512.0 / 1e6;
    let longest = writes.iter().map(|write| write.end_ns - write.arrival_ns).max().unwrap_or(0) as f64 / 1e6;
    let rate = mb / waited;
    println!(
        "{what}: {} writes of {mb:.1} MB took {waited:.2} s ({rate:.1} MB/s), at most {longest:.0} ms",
        writes.len()
    );
    waited
}

/// True where scripts/guest finds mdadm.
fn has_mdadm() -> bool {
    let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../out/guest/root/sbin/mdadm");
    ["/usr/sbin/mdadm", "/sbin/mdadm", unpacked].iter().any(|path| Path::new(path).exists())
}

/// The array is whole after each rebuild; a drive-managed spare took longer for the same, and one in use longer still.
fn rebuilds(level: u32) {
    if !has_mdadm() {
        return println!("skipped: no mdadm for a QEMU guest: run scripts/need guest");
    }
    let folder = tempfile::tempdir().unwrap();
    let layers = ["in-place", "in-place", "in-place", "in-place", "drive-managed", "drive-managed"];
    let names = ["a", "b", "c", "conventional", "new", USED];
    let mut drives: Vec<Served> =
        names.iter().zip(layers).map(|(name, layer)| Served::new(folder.path(), name, layer)).collect();
    let uris: Vec<String> = drives.iter().map(|drive| drive.uri.clone()).collect();
    let Some(guest) = Guest::boot(folder.path(), &format!("raid={level}"), &uris) else { return };
    let (_, passed) = guest.live();
    assert_eq!(passed.len(), 1, "{passed:?}");
    let spares = drives.split_off(3).into_iter().zip(&names[3..]);
    let took: Vec<f64> =
        spares.map(|(spare, name)| rebuilt(&format!("raid{level} on to a {name} spare"), &spare.writes())).collect();
    assert!(took[1] > 2.0 * took[0] && took[2] > 1.2 * took[1], "{took:?} s");
}

#[test]
fn a_mirror_is_rebuilt_on_to_a_drive_managed_spare() {
    rebuilds(1);
}

#[test]
fn raid5_is_rebuilt_on_to_a_drive_managed_spare() {
    rebuilds(5);
}
