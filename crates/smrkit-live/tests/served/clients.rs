//! Programs that others wrote: nbdinfo, nbdcopy, nbdfuse, qemu-img, fio.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use super::client::Client;
use super::{ARRAYS, Served};

/// Runs a program; none, with a word for the skip list, where there is none.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Err(_) => {
            println!("skipped: no {program} here; on Debian: apt-get install libnbd-bin qemu-utils fio");
            None
        }
        Ok(output) => Some(output),
    }
}

/// Runs a program that must succeed, and gives what it said.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = run(program, arguments)?;
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{errors}");
    Some(out.into_owned())
}

fn sample(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("sample");
    let bytes: Vec<u8> = (0..6_000_000u32).flat_map(|i| (i / 700).wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn nbdinfo_finds_what_the_drive_can_do() {
    let served = Served::new("drive-managed");
    let Some(text) = said("nbdinfo", &[&served.uri]) else { return };
    for word in [
        "structured packets",
        "base:allocation",
        "is_rotational: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 512",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn nbdcopy_and_qemu_read_back_what_they_wrote_and_see_the_holes() {
    for layer in ["drive-managed", "s-block", ARRAYS[0]] {
        let served = Served::new(layer);
        let folder = tempfile::TempDir::new().unwrap();
        let (sample, uri) = (sample(folder.path()), served.uri.clone());
        let sample = sample.to_str().unwrap();
        if said("nbdcopy", &[sample, &uri]).is_none() {
            return;
        }
        let map = said("nbdinfo", &["--map", &uri]).unwrap();
        assert!(map.contains("24002560    0  data") || map.lines().count() == 2, "{map}");
        let copy = folder.path().join("copy.qcow2");
        let copy = copy.to_str().unwrap();
        if said("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, copy]).is_none() {
            return;
        }
        said("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &uri, copy]).unwrap();
        assert!(std::fs::metadata(copy).unwrap().len() < 40 << 20, "holes stay holes");
    }
}

#[test]
fn fio_finds_its_checksums() {
    let served = Served::new("log");
    let uri = format!("--uri={}", served.uri);
    let job = ["--name=v", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=32m"];
    let checks = ["--io_size=8m", "--verify=crc32c", "--verify_state_save=0", "--fsync=64"];
    if run("fio", &["--version"]).is_some() {
        said("fio", &[&job[..], &checks].concat());
    }
}

#[test]
fn nbdfuse_shows_the_drive_as_a_file() {
    if run("nbdfuse", &["--version"]).is_none() {
        return;
    }
    if let Err(error) = smrkit_live::mount::check_system() {
        return println!("skipped: can't mount here: {error}");
    }
    let served = Served::new("log");
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("disk");
    let mut fuse = Command::new("nbdfuse").arg(&file).arg(&served.uri).spawn().unwrap();
    for _ in 0..200 {
        if file.exists() || fuse.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let bytes: Vec<u8> = (0..1u32 << 20).flat_map(u32::to_le_bytes).collect();
    let written = std::fs::File::options().read(true).write(true).open(&file).and_then(|disk| {
        disk.write_all_at(&bytes, 4096)?;
        disk.sync_all()?;
        let mut found = vec![0; bytes.len() + 4096];
        disk.read_exact_at(&mut found, 0).map(|()| found)
    });
    // Another test's program has the file open too, from its fork until it is executed.
    let unmounted = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        run("fusermount3", &["-u", &folder.path().display().to_string()]).is_some_and(|said| said.status.success())
    });
    if !unmounted {
        fuse.kill().unwrap();
    }
    assert!(fuse.wait().unwrap().success(), "not unmounted in five seconds");
    let found = written.unwrap();
    assert!(found[..4096] == [0; 4096] && found[4096..] == bytes[..]);
    let copy = Client::new(&served.socket).read(4096, bytes.len());
    assert!(copy == bytes);
}
