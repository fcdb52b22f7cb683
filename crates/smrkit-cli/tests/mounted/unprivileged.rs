//! Mounting as an ordinary user, through fusermount3. Root makes itself that user; the mount is then out of root's sight.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{MODELS, Ran, copy_program, is_mounted, is_root, signal};

/// User who owns nothing on this system (Debian's nobody and nogroup).
const NOBODY: u32 = 65534;

/// A folder that belongs to the user, with a copy of the program: the place of the original may be closed to others.
struct User {
    folder: TempDir,
}

impl User {
    /// None, with a word for the skip list, where nobody can be mounted for.
    fn new() -> Option<User> {
        let skip = |why: &str| {
            println!("skipped: can't mount as an ordinary user here: {why}");
            None
        };
        if let Err(error) = smrkit_live::mount::check_system() {
            return skip(&error.to_string());
        }
        if !is_root() {
            return skip("only root can become another user");
        }
        if fs::metadata("/dev/fuse").is_ok_and(|device| device.mode() & 0o006 != 0o006) {
            return skip("/dev/fuse is closed to ordinary users");
        }
        if Command::new("fusermount3").arg("--version").output().is_err() {
            return skip("fusermount3 is missing");
        }
        let user = User { folder: TempDir::new().expect("a folder") };
        copy_program(user.folder.path());
        fs::set_permissions(user.folder.path(), Permissions::from_mode(0o755)).expect("permissions");
        fs::create_dir_all(user.home().join("mnt")).expect("a mount point");
        for path in [user.home(), user.home().join("mnt")] {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("an owner");
        }
        Some(user)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn runs(&self, program: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.home()).env("SMRKIT_RUN_DIR", self.home().join("run"));
        Ran(command.uid(NOBODY).gid(NOBODY).output().expect("it starts"))
    }

    fn smrkit(&self, arguments: &[&str]) -> Ran {
        self.runs(self.folder.path().join("smrkit").to_str().expect("a path of text"), arguments)
    }

    fn shell(&self, script: &str) -> Ran {
        self.runs("sh", &["-ec", script])
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if is_mounted(&self.home().join("mnt")) {
            let _ = Command::new("umount").arg("--lazy").arg(self.home().join("mnt")).status();
        }
    }
}

#[test]
fn a_new_file_system_takes_the_place_of_one_with_closed_directories() {
    let Some(user) = User::new() else { return };
    let mkfs = ["mkfs", "--model", "caveat", "--size", "64MiB", "disk.img", "--meta", "meta", "--force"];
    user.smrkit(&mkfs).done();
    user.smrkit(&["mount", "--log", "log", "disk.img", "mnt"]).done();
    user.shell("cd mnt; mkdir -p closed/below/more; echo a > closed/below/file; chmod 0 closed/below closed .").done();
    user.smrkit(&["umount", "mnt"]).done();
    user.smrkit(&mkfs).done();
    user.smrkit(&["mount", "--log", "log", "disk.img", "mnt"]).done();
    assert_eq!(user.shell("ls -A mnt").done(), "");
    user.smrkit(&["umount", "mnt"]).done();
    user.smrkit(&["fsck", "-n", "disk.img"]).done();
}

#[test]
fn an_ordinary_user_mounts_and_may_close_directories_to_himself() {
    for model in MODELS {
        let Some(user) = User::new() else { return };
        user.smrkit(&["mkfs", "--model", model, "--size", "64MiB", "disk.img", "--meta", "meta"]).done();
        user.smrkit(&["mount", "--log", "log", "disk.img", "mnt"]).done();
        let script = "cd mnt
            mkdir closed unlisted listed
            for folder in closed unlisted listed; do echo $folder > $folder/file; sync $folder/file; done
            chmod 000 closed/file closed; chmod 300 unlisted; chmod 400 listed
            exec 5> open; chmod 000 open; echo open | dd conv=fsync status=none >&5; exec 5>&-
            chmod 555 .";
        user.shell(script).done();
        let report = user.smrkit(&["top", "--json", "mnt"]).done();
        let report: Value = serde_json::from_str(&report).expect("JSON");
        signal(report["process"].as_u64().expect("a number") as u32, "KILL");
        // The kernel still knows the attributes of the dead mount's root.
        user.smrkit(&["umount", "mnt"]).done();
        user.smrkit(&["fsck", "-n", "disk.img"]).done();
        user.smrkit(&["mount", "--log", "log", "disk.img", "mnt"]).done();
        let modes = user.shell("cd mnt; stat -c %a closed unlisted listed open .").done();
        assert_eq!(modes, "0\n300\n400\n0\n555\n");
        let script = "cd mnt; chmod 755 . closed unlisted listed; chmod 644 open closed/file
            cat closed/file unlisted/file listed/file open";
        assert_eq!(user.shell(script).done(), "closed\nunlisted\nlisted\nopen\n");
        user.shell("cd mnt; rm -r closed unlisted listed; chmod 000 .").done();
        user.smrkit(&["umount", "mnt"]).done();
        user.smrkit(&["fsck", "-n", "disk.img"]).done();
        user.smrkit(&["mount", "--log", "log", "disk.img", "mnt"]).done();
        user.runs("fusermount3", &["-u", "mnt"]).done();
    }
}
