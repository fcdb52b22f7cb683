//! Attempts of another user of the machine against a volume and its mount: each is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{Bench, MODELS, Ran, copy_program, is_root};

/// User who owns nothing on this system (Debian's nobody and nogroup).
const NOBODY: u32 = 65534;

/// A volume of root's in a folder that everyone may enter, with a copy of the program, and the other user's own folder.
struct Attacked {
    bench: Bench,
}

impl Attacked {
    /// None, with a word for the skip list, where it can't be tried.
    fn new(model: &str) -> Option<Attacked> {
        if let Err(error) = smrkit_live::mount::check_system() {
            println!("skipped: can't mount here: {error}");
            return None;
        }
        if !is_root() {
            println!("skipped: only root can become another user");
            return None;
        }
        let folder = TempDir::new().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
        copy_program(folder.path());
        fs::create_dir(folder.path().join("own")).expect("a folder");
        chown(folder.path().join("own"), Some(NOBODY), Some(NOBODY)).expect("an owner");
        fs::write(folder.path().join("own/evil"), "evil").expect("a file");
        Some(Attacked { bench: Bench::made_in(folder, model, "64MiB") })
    }

    /// Runs a script as the other user, in the folder of all; its `run` is that of root's mount.
    fn other(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.bench.folder.path())
            .env("SMRKIT_RUN_DIR", self.bench.path("run"));
        command.uid(NOBODY).gid(NOBODY).output().expect("a shell")
    }

    /// Each attempt fails, and not because the means were missing.
    #[track_caller]
    fn refuses(&self, attempts: &[&str]) {
        for attempt in attempts {
            let Output { status, stdout, stderr } = self.other(attempt);
            let said = String::from_utf8_lossy(&stderr);
            assert!(!status.success(), "{attempt} was not refused: {}", String::from_utf8_lossy(&stdout));
            assert!(!matches!(status.code(), None | Some(126 | 127)), "{attempt} was not tried: {said}");
            assert!(!String::from_utf8_lossy(&stdout).contains("SECRET"), "{attempt} shows the secret");
        }
    }

    fn set(&self, path: &str, mode: u32) {
        fs::set_permissions(self.bench.path(path), Permissions::from_mode(mode)).expect("permissions");
    }
}

/// Against the image and the metadata directory, mounted or not.
const AT_THE_VOLUME: [&str; 27] = [
    "cat disk.img",
    "grep -a SECRET disk.img",
    "dd if=/dev/zero of=disk.img conv=notrunc count=1",
    "truncate -s 0 disk.img",
    "flock -n -s disk.img true",
    "flock -n -x disk.img true",
    "chmod 666 disk.img",
    "rm -f disk.img",
    "mv disk.img own/",
    "cp disk.img own/",
    "./smrkit mount --log own/log disk.img own",
    "./smrkit fsck -n disk.img",
    "./smrkit df disk.img",
    "./smrkit mkfs --model caveat --size 64MiB --force disk.img --meta own/meta",
    "./smrkit mkfs --model caveat --size 64MiB own/disk.img --force --meta meta",
    "ls meta",
    "ls meta/tree",
    "stat meta/tree/secret",
    "cat meta/state/free-map",
    "touch meta/tree/nobody/evil",
    "cp own/evil meta/tree/nobody/evil",
    "mkfifo meta/state/free-map",
    "ln -s /etc meta/maps/00",
    "flock -n -s meta true",
    "chmod 777 meta",
    "rm -rf meta",
    "mv meta own/",
];

/// Against what is mounted, the control socket and its directory.
const AT_THE_MOUNT: [&str; 19] = [
    "cat mnt/secret",
    "echo other > mnt/secret",
    "rm -f mnt/secret",
    "mv mnt/secret mnt/nobody/",
    "chmod 666 mnt/secret",
    "chown 65534 mnt/secret",
    "touch mnt/new",
    "ls mnt/closed",
    "cat mnt/closed/secret",
    "truncate -s 0 mnt/closed/secret",
    "umount mnt",
    "umount -l mnt",
    "mount -i -o remount,ro mnt",
    "./smrkit umount mnt",
    "./smrkit top --once mnt",
    "ls run",
    "touch run/new",
    "rm -rf run",
    "cat run/*.log run/*.sock",
];

#[test]
fn what_other_users_try_is_refused() {
    for model in MODELS {
        let Some(attacked) = Attacked::new(model) else { return };
        let bench = &attacked.bench;
        attacked.refuses(&AT_THE_VOLUME);
        bench.smrkit(&["mount", &bench.path("disk.img"), &bench.path("mnt")]).done();
        fs::create_dir(bench.file("closed")).unwrap();
        fs::create_dir(bench.file("nobody")).unwrap();
        chown(bench.file("nobody"), Some(NOBODY), Some(NOBODY)).unwrap();
        for name in ["secret", "closed/secret"] {
            fs::write(bench.file(name), "SECRET").unwrap();
            fs::File::open(bench.file(name)).unwrap().sync_all().unwrap();
        }
        attacked.set("mnt/secret", 0o600);
        attacked.set("mnt/closed", 0o700);
        // They can do what they may: the refusals are not for want of a way.
        let own = attacked.other("echo own > mnt/nobody/own && sync mnt/nobody/own && cat mnt/nobody/own && ls mnt");
        assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
        attacked.refuses(&AT_THE_VOLUME);
        attacked.refuses(&AT_THE_MOUNT);
        assert_eq!(fs::read_to_string(bench.file("secret")).unwrap(), "SECRET");
        bench.umount().done();
        attacked.refuses(&AT_THE_VOLUME);
        bench.is_in_order();
        bench.mount().done();
        assert_eq!(fs::read_to_string(bench.file("closed/secret")).unwrap(), "SECRET");
        bench.umount().done();
    }
}

#[test]
fn mkfs_closes_a_volume_whatever_the_mask_is() {
    let Some(attacked) = Attacked::new("caveat") else { return };
    let bench = &attacked.bench;
    fs::create_dir(bench.path("made")).unwrap();
    attacked.set("made", 0o777);
    fs::write(bench.path("open.img"), "").unwrap();
    attacked.set("open.img", 0o666);
    for (mask, image, meta) in [("000", "a.img", "a"), ("777", "b.img", "b"), ("022", "open.img", "made")] {
        let script = format!("umask {mask}; ./smrkit mkfs --model caveat --size 64MiB {image} --meta {meta}");
        Ran(Command::new("sh").args(["-c", &script]).current_dir(bench.folder.path()).output().unwrap()).done();
        let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().mode() & 0o7777;
        assert_eq!((mode(image), mode(meta)), (0o600, 0o700), "mask {mask}");
    }
}

#[test]
fn a_volume_open_to_others_is_used_only_on_demand() {
    let Some(attacked) = Attacked::new("strict-append") else { return };
    let bench = &attacked.bench;
    for (path, copy, open, closed, remedy) in [
        ("meta", "saved/disk.meta", 0o711, 0o700, "chmod 700"),
        ("disk.img", "saved/disk.img", 0o640, 0o600, "chmod 600"),
        ("disk.img", "saved/disk.img", 0o602, 0o600, "chmod 600"),
    ] {
        attacked.set(path, open);
        bench.mount().says(3, &[path, remedy, "--trust-open-metadata"]);
        let (image, saved) = (bench.path("disk.img"), bench.path("saved"));
        for command in [&["df", &image][..], &["fsck", "-n", &image], &["fsck", &image], &["backup", &image, &saved]] {
            bench.smrkit(command).says(3, &[path, remedy, "--trust-open-metadata"]);
            bench.smrkit(&[command, &["--trust-open-metadata"]].concat()).done();
        }
        attacked.set(path, closed);
        let (new, new_meta) = (bench.path("new"), bench.path("new-meta"));
        attacked.set(copy, open);
        let restore = ["restore", &saved, &new, "--meta", &new_meta];
        bench.smrkit(&restore).says(3, &[copy, remedy, "--trust-open-metadata"]);
        bench.smrkit(&[&restore[..], &["--trust-open-metadata"]].concat()).done();
        let mode = |path: &str| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([mode(&new), mode(&new_meta)], [0o600, 0o700], "what is restored is closed");
        fs::remove_file(&new).unwrap();
        fs::remove_dir_all(&new_meta).unwrap();
        fs::remove_dir_all(&saved).unwrap();
    }
    for path in ["meta", "disk.img"] {
        chown(bench.path(path), Some(NOBODY), None).unwrap();
        bench.mount().says(3, &[path, "user 65534", "chown 0"]);
        chown(bench.path(path), Some(0), None).unwrap();
    }
    attacked.set("meta", 0o755);
    let (image, point, log) = (bench.path("disk.img"), bench.path("mnt"), bench.path("log"));
    bench.smrkit(&["mount", "--trust-open-metadata", "--log", &log, &image, &point]).done();
    assert!(fs::read_to_string(&log).unwrap().contains("chmod 700"));
    bench.umount().done();
    attacked.set("meta", 0o700);
    bench.mount().done();
    bench.umount().done();
}

#[test]
fn a_run_directory_that_another_made_first_is_not_used() {
    let Some(attacked) = Attacked::new("caveat") else { return };
    let bench = &attacked.bench;
    let run = bench.path("own/run");
    let mount = || {
        let mut command = bench.command(&["mount", &bench.path("disk.img"), &bench.path("mnt")]);
        Ran(command.env("SMRKIT_RUN_DIR", &run).output().unwrap())
    };
    assert!(attacked.other("mkdir -m 700 own/run").status.success());
    mount().says(1, &["own/run", "not a directory of this user"]);
    assert!(attacked.other("rmdir own/run; ln -s ../meta own/run").status.success());
    mount().says(1, &["own/run", "not a directory of this user"]);
    fs::remove_file(&run).unwrap();
    symlink("/nonexistent", &run).unwrap();
    mount().says(1, &["own/run"]);
    fs::remove_file(&run).unwrap();
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, Permissions::from_mode(0o755)).unwrap();
    mount().says(1, &["own/run", "chmod 700"]);
}
