//! Attributes by `stat` of files on a mount over a directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::SystemTime;

use super::{Bench, Ran, is_root};

/// User who owns nothing on this system (Debian's nobody and nogroup).
const NOBODY: u32 = 65534;

#[test]
fn what_is_made_after_a_write_is_not_older_than_it() {
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let modified = |name: &str| fs::metadata(bench.file(name)).unwrap().modified().unwrap();
    let mut times: Vec<(String, SystemTime)> = Vec::new();
    for number in 0..500 {
        fs::write(bench.file("written"), "x").unwrap();
        let name = format!("made-{number}");
        match number % 2 {
            0 => fs::write(bench.file(&name), "").unwrap(),
            _ => fs::create_dir(bench.file(&name)).unwrap(),
        }
        let made = modified(&name);
        assert!(made >= modified("written"), "{name}: {made:?} is before the write");
        times.push((name, made));
    }
    bench.umount().done();
    bench.mount().done();
    for (name, made) in times {
        assert_eq!(modified(&name), made, "{name} after a mount");
    }
    bench.umount().done();
}

/// Changes a file of user 1000 and group 2000 as several users, in many ways, and prints the modes that it had and has then.
const SET_ID: &str = "
import os, sys
def written(f):
    os.close(os.open(f, os.O_WRONLY | os.O_TRUNC))
def allocated(f):
    os.posix_fallocate(os.open(f, os.O_WRONLY), 0, 5000)
def copied(f):
    file = os.open(f, os.O_RDWR)
    os.copy_file_range(file, file, 10, 0, 50)
ways = [lambda f: open(f, 'r+').write('x'), written, allocated, copied, lambda f: os.truncate(f, 10),
    lambda f: os.chown(f, -1, -1), lambda f: os.chown(f, 1000, 2000), lambda f: os.chown(f, -1, 2001), lambda f: os.utime(f),
    lambda f: os.chmod(f, 0o2767), lambda f: os.chmod(f, 0o6777)]
users = [(0, 0, []), (1000, 2000, []), (1000, 1000, []), (1000, 1000, [2000, 2001]), (3000, 3000, []), (3000, 2000, [])]
os.chdir(sys.argv[1])
os.chmod('.', 0o777)
for mode in [0o2767, 0o2777, 0o6767, 0o6777, 0o2666, 0o4666]:
    for user in users:
        for number, way in enumerate(ways):
            if number == 5 and user[0] == 3000:
                continue # The kernel lets everyone do nothing.
            open('f', 'w').write('y' * 100)
            os.chown('f', 1000, 2000)
            os.chmod('f', mode)
            if os.fork() == 0:
                os.setgroups(user[2]), os.setgid(user[1]), os.setuid(user[0])
                try:
                    way('f')
                except OSError as error:
                    os._exit(error.errno)
                os._exit(0)
            error = os.waitstatus_to_exitcode(os.wait()[1])
            print(oct(mode), user, number, error, oct(os.stat('f').st_mode))
            os.remove('f')
";

#[test]
fn set_id_bits_go_and_stay_as_on_the_host() {
    if !is_root() || Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: only root can become another user, here by python3");
        return;
    }
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let plain = bench.path("plain");
    fs::create_dir(&plain).unwrap();
    let told = |folder: &str| Ran(Command::new("python3").args(["-c", SET_ID, folder]).output().unwrap()).done();
    let (here, on_host) = (told(&bench.path("mnt")), told(&plain));
    let differ = here.lines().zip(on_host.lines()).find(|(here, on_host)| here != on_host);
    assert!(differ.is_none() && here.len() == on_host.len(), "the mount and its host differ: {differ:?}");
    bench.umount().done();
}

#[test]
fn set_id_bits_that_a_write_cleared_are_gone_at_once() {
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let Some(bench) = Bench::new("caveat", "64MiB") else { return };
    bench.mount().done();
    let file = bench.file("f");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o6777)).unwrap();
    let mode = || {
        let told = Command::new("stat").args(["-c", "%a"]).arg(&file).output().expect("stat starts");
        String::from_utf8_lossy(&told.stdout).trim().to_string()
    };
    assert_eq!(mode(), "6777");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<> f && echo more >&3"]).current_dir(bench.point());
    assert!(shell.uid(NOBODY).gid(NOBODY).status().expect("sh starts").success());
    assert_eq!(mode(), "777");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o777);
    bench.umount().done();
}
