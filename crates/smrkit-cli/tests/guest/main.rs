//! A Linux kernel in a QEMU guest: SMRfs on zoned block devices (null_blk, scsi_debug and ZNS), killed, reset, and under an
//! NFS server; served drives as block devices (ublk) and as members of arrays (md).
//!
//! `init` holds what the guest does. Emulated instruction by instruction, it needs no rights and no help of the host. Its
//! power is cut by a reset, which QEMU's ZNS survives; a new process of QEMU would find all of its zones empty.
//! `SMRKIT_GUEST_RESETS` sets how many. With `SMRKIT_GUEST_FSX`, the suites of `scripts/conformance` run there, with so many
//! operations of fsx.

mod arrays;
#[path = "../../../smrkit/tests/common/count.rs"]
mod count;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use count::count_from;

/// Within this much the guest says something, or it hangs.
const SILENCE: Duration = Duration::from_secs(240);
/// Files that are acknowledged in each boot before the reset.
const ACKNOWLEDGED: usize = 12;
const MIB: u64 = 1 << 20;
const INITRAMFS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/initramfs");
/// Files that the suites need: paths from the root of the project, or absolute ones.
const SUITES: [&str; 4] = ["scripts/conformance", "target/tools/bin/pjdfstest", "target/tools/bin/fsx", "/bin/bash"];

/// A running guest: its lines, and the way to reset it. It goes with the value.
struct Guest {
    process: Child,
    lines: Receiver<String>,
    monitor: UnixStream,
}

impl Guest {
    /// Boots a guest with disks in `folder` and further ones, told by `words` what to do; none, with a word, where that is
    /// not possible.
    fn boot(folder: &Path, words: &str, drives: &[String]) -> Option<Guest> {
        let kernel = kernel()?;
        let at = |name: &str| folder.join(name).display().to_string();
        for (disk, bytes) in [("meta", 256 * MIB), ("notes", MIB), ("zns", 28 * MIB)] {
            File::create(at(disk)).and_then(|file| file.set_len(bytes)).unwrap();
        }
        let made = Command::new("mkfs.ext4").args(["-q", "-b", "4096", &at("meta")]).env("PATH", path()).status();
        assert!(made.unwrap().success());
        let mut qemu = Command::new("qemu-system-x86_64");
        // The processors take turns in one thread: with a thread each, one may run code that the kernel is just patching for the
        // other, and the kernel panics (`Oops: int3`).
        qemu.args(["-accel", "tcg,thread=single", "-smp", "2", "-m", "640", "-nodefaults", "-display", "none"]);
        qemu.args(["-kernel", kernel, "-initrd", INITRAMFS, "-serial", "stdio"]);
        // At random addresses QEMU would translate every program anew with each start.
        // Emulated on a busy machine, the timer may look broken to a kernel that tries it.
        qemu.args(["-append", &format!("console=ttyS0 quiet panic=0 norandmaps no_timer_check {words}")]);
        qemu.args(["-monitor", &format!("unix:{},server,nowait", at("monitor"))]);
        for disk in ["meta", "notes"].map(at).iter().chain(drives) {
            qemu.args(["-drive", &format!("file={disk},if=virtio,format=raw")]);
        }
        qemu.args(["-drive", &format!("file={},if=none,id=zns,format=raw", at("zns"))]);
        qemu.args(["-device", "nvme,id=nvme,serial=zns", "-device", ZNS]);
        let mut process = qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
        let started = Instant::now();
        let monitor = loop {
            match UnixStream::connect(at("monitor")) {
                Err(_) if started.elapsed() < SILENCE => std::thread::sleep(Duration::from_millis(20)),
                monitor => break monitor.unwrap(),
            }
        };
        Some(Guest { process, lines, monitor })
    }

    /// The next line that a step says.
    fn says(&mut self) -> String {
        loop {
            let line = self.lines.recv_timeout(SILENCE).expect("the guest says nothing any more");
            println!("{line}");
            if let Some((_, said)) = line.split_once("guest: ") {
                if said.starts_with("FAILED") {
                    let rest: Vec<String> = self.lines.iter().take_while(|line| !line.contains("guest: ")).collect();
                    panic!("{said}\n{}", rest.join("\n"));
                }
                return said.trim().to_string();
            }
        }
    }

    /// Lets it live, and resets it in each boot when it has acknowledged enough. Tells the boots and the steps passed.
    fn live(mut self) -> (usize, Vec<String>) {
        let (mut boots, mut acknowledged, mut passed) = (0, 0, Vec::new());
        loop {
            let said = self.says();
            match said.split(' ').next() {
                Some("boot") => (boots, acknowledged) = (boots + 1, 0),
                Some("ok") => passed.push(said),
                Some("waits" | "ran") => {}
                Some("acknowledged") => {
                    acknowledged += 1;
                    if acknowledged == ACKNOWLEDGED {
                        self.reset();
                    }
                }
                Some("end") => return (boots, passed),
                _ => panic!("the guest says {said}"),
            }
        }
    }

    /// Resets it amid whatever it does.
    fn reset(&mut self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(now.subsec_nanos()) % 400_000));
        self.monitor.write_all(b"system_reset\n").unwrap();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ZNS: &str = "nvme-ns,drive=zns,bus=nvme,zoned=true,zoned.zone_size=1M,zoned.zone_capacity=768K,zoned.max_open=6,\
                   zoned.max_active=8";

/// Programs that belong to root are elsewhere.
fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// The kernel; the initramfs has been made. None, with a word for the skip list, without QEMU or a kernel.
fn kernel() -> Option<&'static str> {
    static KERNEL: OnceLock<Result<String, String>> = OnceLock::new();
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let make = || {
        let mut script = Command::new(crate_folder.join("../../scripts/guest"));
        script.arg(env!("CARGO_BIN_EXE_smrkit")).arg(crate_folder.join("tests/guest/init")).arg(INITRAMFS);
        if std::env::var_os("SMRKIT_GUEST_FSX").is_some() {
            let suites = SUITES.map(|path| crate_folder.join("../..").join(path));
            let missing = suites.iter().find(|path| !path.exists());
            assert!(missing.is_none(), "{missing:?} is missing: run scripts/conformance, which installs it");
            script.args(suites);
        }
        let made = script.output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if made.status.success() { Ok(text(&made.stdout)) } else { Err(text(&made.stderr)) }
    };
    match KERNEL.get_or_init(make) {
        Ok(kernel) => Some(kernel),
        Err(why) => {
            println!("skipped: no QEMU guest: {why}");
            None
        }
    }
}

#[test]
fn volumes_live_on_null_blk_and_scsi_debug() {
    let folder = tempfile::tempdir().unwrap();
    let Some(guest) = Guest::boot(folder.path(), "", &[]) else { return };
    let (_, passed) = guest.live();
    assert_eq!(passed.len(), 5, "{passed:?}");
}

#[test]
fn volumes_on_zns_keep_over_resets_what_they_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let resets = count_from("SMRKIT_GUEST_RESETS", 1);
    let Some(guest) = Guest::boot(folder.path(), &format!("resets={resets}"), &[]) else { return };
    let (boots, passed) = guest.live();
    assert_eq!(boots, resets + 1);
    assert_eq!(passed.len(), 3 + resets, "{passed:?}");
}

#[test]
fn served_drives_are_block_devices_of_linux_with_their_zones() {
    let folder = tempfile::tempdir().unwrap();
    let Some(guest) = Guest::boot(folder.path(), "served", &[]) else { return };
    let (_, passed) = guest.live();
    assert_eq!(passed.len(), 7, "{passed:?}");
}

/// Takes minutes, or hours: every instruction is emulated.
#[test]
fn the_conformance_suites_pass_on_null_blk_and_zns() {
    let Ok(operations) = std::env::var("SMRKIT_GUEST_FSX") else {
        return println!(
            "skipped: SMRKIT_GUEST_FSX=20000 runs pjdfstest and fsx in a guest, once scripts/conformance has installed them"
        );
    };
    let folder = tempfile::tempdir().unwrap();
    let Some(guest) = Guest::boot(folder.path(), &format!("fsx={operations}"), &[]) else { return };
    let (_, passed) = guest.live();
    assert_eq!(passed.len(), 2, "{passed:?}");
}
