//! mount(8) and the program as its helper for the type `fuse.smrfs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::{Bench, Ran, is_mounted, is_root};

fn mounted(bench: &Bench) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let point = bench.path("mnt");
    mounts.lines().find(|line| line.split(' ').nth(1) == Some(&point)).unwrap_or_default().to_string()
}

/// Calls the helper as mount(8) does.
fn helper(bench: &Bench, arguments: &[&str]) -> Ran {
    let name = bench.path("mount.fuse.smrfs");
    if fs::symlink_metadata(&name).is_err() {
        symlink(env!("CARGO_BIN_EXE_smrkit"), &name).unwrap();
    }
    let mut command = Command::new(name);
    command.args([bench.path("disk.img"), bench.path("mnt")]).args(arguments).env("SMRKIT_RUN_DIR", bench.path("run"));
    Ran(command.output().unwrap())
}

#[test]
fn the_helper_mounts_and_remounts() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    let log = format!("rw,nosuid,nodev,noauto,log={}", bench.path("log"));
    helper(&bench, &["-o", "noexec"]).says(1, &["noexec", "not supported"]);
    helper(&bench, &["-o", "remount,ro"]).says(32, &["no SMRfs mounted"]);
    let nowhere = format!("meta={}", bench.path("nowhere"));
    helper(&bench, &["-o", &nowhere]).says(32, &["no metadata directory", "name it with -o meta=DIR,"]);
    assert!(!is_mounted(&bench.point()));
    helper(&bench, &["-o", &log, "-n", "-t", "fuse.smrfs"]).done();
    assert!(mounted(&bench).contains(" fuse.smrfs rw,nosuid,nodev,"), "{}", mounted(&bench));
    fs::write(bench.file("f"), "before").unwrap();
    if is_root() {
        helper(&bench, &["-o", "rw,nosuid,nodev,user_id=0,group_id=0,default_permissions,allow_other,remount,ro"])
            .done();
        assert!(mounted(&bench).contains(" fuse.smrfs ro,nosuid,nodev,"), "{}", mounted(&bench));
        assert_eq!(fs::write(bench.file("f"), "after").unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        // What was written before was made durable: a kill loses nothing.
        super::kill(bench.process());
        bench.umount().done();
        helper(&bench, &["-o", &format!("ro,log={}", bench.path("log"))]).done();
        assert_eq!(fs::read_to_string(bench.file("f")).unwrap(), "before");
        helper(&bench, &["-o", "ro,remount,rw"]).says(32, &["read-only", "without ro"]);
        assert!(mounted(&bench).contains(" fuse.smrfs ro,"), "{}", mounted(&bench));
    }
    bench.umount().done();
    bench.is_in_order();
}

/// In a mount namespace of its own, whose /sbin has the helper.
#[test]
fn a_line_of_fstab_mounts_and_remount_runs_no_program() {
    let Some(bench) = Bench::new("strict-append", "64MiB") else { return };
    let script = format!(
        "set -e; cd {folder}; trap 'umount -l {folder}/mnt 2>/dev/null || true' EXIT; mkdir sbin
        ln -s {smrkit} sbin/mount.fuse.smrfs; ln -s {smrkit} sbin/umount.fuse.smrfs
        echo '{folder}/disk.img {folder}/mnt fuse.smrfs noauto,log={folder}/log 0 0' > fstab
        mount -t overlay -o lowerdir={folder}/sbin:$(readlink -f /sbin) overlay /sbin || exit 77
        mount -T fstab {folder}/mnt; echo text > mnt/f; grep -q 'mnt fuse.smrfs rw' /proc/mounts
        mount -o remount,ro mnt; grep -q 'mnt fuse.smrfs ro' /proc/mounts
        if echo more > mnt/f; then exit 1; fi
        mount -o remount,rw mnt; echo more > mnt/f; head -c 30000000 /dev/zero > mnt/zeros
        umount mnt; {smrkit} fsck -n disk.img > order; ! grep 'not unmounted' order
        mount -t fuse.smrfs -o ro,log={folder}/log disk.img mnt; cat mnt/f; {smrkit} umount mnt",
        folder = bench.folder.path().display(),
        smrkit = env!("CARGO_BIN_EXE_smrkit"),
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", &script]).env("SMRKIT_RUN_DIR", bench.path("run"));
    let ran = match command.output() {
        Ok(ran) if is_root() && ran.status.code() != Some(77) => Ran(ran),
        _ => return println!("skipped: no mount namespace with an overlay over /sbin can be made here"),
    };
    // umount(8) returned when the volume was in order already: the next command found it so.
    assert_eq!(ran.done(), "more\n");
    bench.is_in_order();
}

/// The unit that docs/reference/mounting.md shows, as systemd reads it.
#[test]
fn systemd_understands_the_unit_of_the_docs() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/mounting.md")).unwrap();
    let unit = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a unit");
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("mnt-smr.mount");
    fs::write(&path, unit).unwrap();
    let Ok(ran) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        return println!("skipped: systemd-analyze is missing");
    };
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success() && !said.contains("mnt-smr"), "{said}");
    // What it says of the mount is what the helper takes.
    let options = unit.lines().find_map(|line| line.strip_prefix("Options=")).expect("options");
    assert!(unit.contains("Type=fuse.smrfs\n"));
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    helper(&bench, &["-o", &format!("rw,{options},log={}", bench.path("log"))]).done();
    bench.umount().done();
}
