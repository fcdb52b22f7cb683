//! Access lists: the kernel obeys them, new nodes inherit them, and copies of a volume have them.

use std::fs;
use std::process::Command;

use super::{Bench, is_root};

/// Runs a script in the mount point; `as_nobody cmd` runs a command as a user who owns nothing.
fn shell(bench: &Bench, script: &str) -> String {
    let script =
        format!("as_nobody() {{ setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\" 2> /dev/null; }}\n{script}");
    let ran = Command::new("sh").args(["-ec", &script]).current_dir(bench.point()).output().expect("a shell");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A mount that everyone may enter; none, with a word for the skip list, where access lists can't be tried.
fn mounted() -> Option<Bench> {
    if !is_root() || Command::new("setfacl").arg("--version").output().is_err() {
        println!("skipped: only root can become another user, and setfacl is needed (on Debian: apt-get install acl)");
        return None;
    }
    let bench = Bench::new("caveat", "64MiB")?;
    bench.mount().done();
    Some(bench)
}

#[test]
fn an_access_list_lets_in_whom_it_names_and_no_one_else() {
    let Some(bench) = mounted() else { return };
    // The folder around the mount is closed to others: they get in by a descriptor.
    let read = "as_nobody cat <&- /dev/fd/3/f 3< . || echo refused";
    shell(&bench, "echo text > f; chmod 600 f");
    assert_eq!(shell(&bench, read), "refused\n");
    shell(&bench, "setfacl -m u:65534:r f");
    assert_eq!(shell(&bench, read), "text\n");
    assert_eq!(shell(&bench, "stat -c %a f"), "640\n", "the mask is shown as the group's bits");
    // chmod changes the mask.
    shell(&bench, "chmod 600 f");
    assert_eq!(shell(&bench, read), "refused\n");
    shell(&bench, "chmod 640 f");
    assert_eq!(shell(&bench, read), "text\n");
    let list = shell(&bench, "getfacl -cn f");
    assert!(list.contains("user:65534:r--") && list.contains("mask::r--"), "{list}");
    bench.umount().done();
    bench.mount().done();
    assert_eq!(shell(&bench, read), "text\n");
    assert_eq!(shell(&bench, "getfacl -cn f"), list);
    shell(&bench, "setfacl -b f");
    assert_eq!(shell(&bench, read), "refused\n");
    bench.umount().done();
    bench.is_in_order();
}

#[test]
fn new_nodes_inherit_the_default_list_in_place_of_the_mask() {
    let Some(bench) = mounted() else { return };
    shell(
        &bench,
        "mkdir d; setfacl -d -m u::rwx,g::r-x,o::-,u:65534:rwx d; umask 077; mkdir d/e; echo x > d/e/f; mkfifo d/p",
    );
    assert_eq!(shell(&bench, "stat -c %a d/e d/e/f d/p"), "770\n660\n660\n");
    let list = shell(&bench, "getfacl -cn d/e/f");
    assert!(list.contains("user:65534:rwx") && list.contains("mask::rw-"), "{list}");
    assert!(shell(&bench, "getfacl -cdn d/e").contains("user:65534:rwx"));
    // Elsewhere the mask counts.
    shell(&bench, "umask 027; mkdir g; echo x > g/f; umask 0; echo x > g/h; mkdir g/d");
    assert_eq!(shell(&bench, "stat -c %a g g/f g/h g/d"), "750\n640\n666\n777\n");
    // A copy of the volume has the lists, too.
    bench.smrkit(&["backup", &bench.path("mnt"), &bench.path("saved")]).done();
    let lists = shell(&bench, "getfacl -Rn .");
    bench.umount().done();
    let (log, image) = (bench.path("log"), bench.path("saved/disk.img"));
    bench.smrkit(&["mount", "--log", &log, &image, &bench.path("mnt")]).done();
    assert_eq!(shell(&bench, "getfacl -Rn ."), lists);
    bench.umount().done();
}

#[test]
fn a_list_set_from_outside_the_group_costs_the_set_group_id_bit() {
    let Some(bench) = mounted() else { return };
    shell(&bench, "echo x > f; chown 65534:0 f; chmod 2755 f; echo x > g; chmod 2755 g; setfacl -m u:1:r g");
    assert_eq!(shell(&bench, "stat -c %a f g"), "2755\n2755\n");
    shell(&bench, "setpriv --reuid 65534 --regid 65534 --clear-groups setfacl -m u:1:r /dev/fd/3 3< f");
    assert_eq!(shell(&bench, "stat -c %a f"), "755\n");
    fs::remove_file(bench.file("f")).unwrap();
    bench.umount().done();
}
