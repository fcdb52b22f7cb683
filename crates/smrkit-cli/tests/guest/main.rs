//! SMRfs on zoned block devices of a Linux kernel, in a QEMU guest: null_blk, scsi_debug and ZNS, killed and reset.
//!
//! `init` holds what the guest does. Emulated instruction by instruction, it needs no rights and no help of the host. Its
//! power is cut by a reset, which QEMU's ZNS survives; a new process of QEMU would find all of its zones empty.
//! `SMRKIT_GUEST_RESETS` sets how many.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

/// Within this much the guest says something, or it hangs.
const SILENCE: Duration = Duration::from_secs(240);
/// Files that are acknowledged in each boot before the reset.
const ACKNOWLEDGED: usize = 12;
const MIB: u64 = 1 << 20;

/// A running guest: its lines, and the way to reset it. It goes with the value.
struct Guest {
    process: Child,
    lines: Receiver<String>,
    monitor: UnixStream,
}

impl Guest {
    /// Boots a guest with disks in `folder`.
    fn boot(folder: &Path, kernel: &str, resets: usize) -> Guest {
        let at = |name: &str| folder.join(name).display().to_string();
        for (disk, bytes) in [("meta", 256 * MIB), ("notes", MIB), ("zns", 28 * MIB)] {
            File::create(at(disk)).and_then(|file| file.set_len(bytes)).unwrap();
        }
        let made = Command::new("mkfs.ext4").args(["-q", "-b", "4096", &at("meta")]).env("PATH", path()).status();
        assert!(made.unwrap().success());
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "768", "-nodefaults", "-display", "none"]);
        qemu.args(["-kernel", kernel, "-initrd", &at("initramfs"), "-serial", "stdio"]);
        qemu.args(["-append", &format!("console=ttyS0 quiet panic=0 resets={resets}")]);
        qemu.args(["-monitor", &format!("unix:{},server,nowait", at("monitor"))]);
        for disk in ["meta", "notes"] {
            qemu.args(["-drive", &format!("file={},if=virtio,format=raw", at(disk))]);
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
        Guest { process, lines, monitor }
    }

    /// The next line that a step says.
    fn says(&self) -> String {
        loop {
            let line = self.lines.recv_timeout(SILENCE).expect("the guest says nothing any more");
            println!("{line}");
            if let Some((_, said)) = line.split_once("guest: ") {
                return said.trim().to_string();
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

#[test]
fn volumes_on_zoned_devices_keep_what_they_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let init = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/init");
    let made = Command::new(root.join("scripts/guest"))
        .args([Path::new(env!("CARGO_BIN_EXE_smrkit")), &init, &folder.path().join("initramfs")])
        .output()
        .unwrap();
    if !made.status.success() {
        println!("skipped: no QEMU guest: {}", String::from_utf8_lossy(&made.stderr).trim());
        return;
    }
    let kernel = String::from_utf8(made.stdout).unwrap();
    let resets = std::env::var("SMRKIT_GUEST_RESETS").map_or(2, |count| count.parse().expect("a number"));
    let mut guest = Guest::boot(folder.path(), kernel.trim(), resets);
    let (mut boots, mut acknowledged, mut passed) = (0, 0, Vec::new());
    loop {
        let said = guest.says();
        match said.split(' ').next() {
            Some("boot") => (boots, acknowledged) = (boots + 1, 0),
            Some("ok") => passed.push(said),
            Some("acknowledged") => {
                acknowledged += 1;
                if acknowledged == ACKNOWLEDGED {
                    guest.reset();
                }
            }
            Some("FAILED") => {
                let rest: Vec<String> = guest.lines.iter().take_while(|line| !line.contains("guest: ")).collect();
                panic!("{said}\n{}", rest.join("\n"));
            }
            Some("end") => break,
            _ => panic!("the guest says {said}"),
        }
    }
    assert_eq!(boots, resets + 1);
    assert_eq!(passed.len(), 4 + usize::from(passed.iter().any(|step| step.contains("pointers"))) + resets);
}
