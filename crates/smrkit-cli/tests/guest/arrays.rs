//! Arrays (md of the Linux kernel) of served drives: one fails, and is rebuilt on to a conventional and a drive-managed spare.
//!
//! The guest is much slower than the drives, so that its time tells nothing: the drives' own time is in their logs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Guest;

/// A drive that is served in the background until it is stopped.
struct Served {
    server: Child,
    uri: String,
    log: PathBuf,
}

impl Served {
    fn new(folder: &Path, name: &str, layer: &str) -> Served {
        let at = |end: &str| folder.join(format!("{name}.{end}"));
        let smrkit = || Command::new(env!("CARGO_BIN_EXE_smrkit"));
        let made =
            smrkit().arg("create").arg(at("img")).args(["--layer", layer, "--capacity", "4GB"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
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
    busy_ns: u64,
    latency_ns: u64,
}

impl Write {
    /// From LBA, SECTORS, ARRIVAL, START, END.
    fn parse(line: &str) -> Option<Write> {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [_, sectors, arrival, start, end] = numbers[..] else { return None };
        Some(Write { sectors, busy_ns: end - start, latency_ns: end - arrival })
    }
}

/// Time that a spare was busy with being written, in seconds, and how it is told.
fn rebuilt(what: &str, writes: &[Write]) -> f64 {
    let busy = writes.iter().map(|write| write.busy_ns).sum::<u64>() as f64 / 1e9;
    let mb = writes.iter().map(|write| write.sectors).sum::<u64>() as f64 * 512.0 / 1e6;
    let longest = writes.iter().map(|write| write.latency_ns).max().unwrap_or(0) as f64 / 1e6;
    let rate = mb / busy;
    println!(
        "{what}: {} writes of {mb:.1} MB took {busy:.2} s ({rate:.1} MB/s), at most {longest:.0} ms",
        writes.len()
    );
    busy
}

/// True where scripts/guest finds mdadm.
fn has_mdadm() -> bool {
    let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../out/guest/root/sbin/mdadm");
    ["/usr/sbin/mdadm", "/sbin/mdadm", unpacked].iter().any(|path| Path::new(path).exists())
}

/// The array is whole after each rebuild, and the drive-managed spare took longer for the same.
fn rebuilds(level: u32) {
    if !has_mdadm() {
        return println!("skipped: no mdadm for a QEMU guest: run scripts/need guest");
    }
    let folder = tempfile::tempdir().unwrap();
    let layers = ["in-place", "in-place", "in-place", "in-place", "drive-managed"];
    let names = ["a", "b", "c", "conventional", "drive-managed"];
    let mut drives: Vec<Served> =
        names.iter().zip(layers).map(|(name, layer)| Served::new(folder.path(), name, layer)).collect();
    let uris: Vec<String> = drives.iter().map(|drive| drive.uri.clone()).collect();
    let Some(guest) = Guest::boot(folder.path(), &format!("raid={level}"), &uris) else { return };
    let (_, passed) = guest.live();
    assert_eq!(passed.len(), 1, "{passed:?}");
    let drive_managed = drives.pop().unwrap().writes();
    let conventional = drives.pop().unwrap().writes();
    let [conventional, drive_managed] = [("conventional", conventional), ("drive-managed", drive_managed)]
        .map(|(name, writes)| rebuilt(&format!("raid{level} on to a {name} spare"), &writes));
    assert!(drive_managed > 2.0 * conventional, "{drive_managed} s beside {conventional} s");
}

#[test]
fn a_mirror_is_rebuilt_on_to_a_drive_managed_spare() {
    rebuilds(1);
}

#[test]
fn raid5_is_rebuilt_on_to_a_drive_managed_spare() {
    rebuilds(5);
}
