//! The kernel keeps directories' listings and names: they show each change at once, in every process, and one that ended in an error.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags};

use super::{MODELS, Mounted, memory};

const SOON: Duration = Duration::from_secs(10);

/// The names in a directory, which this process and another one see alike.
fn listed(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut own: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    own.sort();
    let other = Command::new("ls").arg("-A").arg(directory).env("LC_ALL", "C").output().expect("ls");
    assert_eq!(String::from_utf8(other.stdout).unwrap().lines().collect::<Vec<_>>(), own);
    own
}

fn in_another_process(command: &str, folder: &Path) {
    let done = Command::new("sh").args(["-ec", command]).current_dir(folder).status().expect("sh");
    assert!(done.success(), "{command}");
}

#[test]
fn names_appear_and_vanish_in_all_processes_also_after_refusals() {
    for model in MODELS {
        let Some(mounted) = Mounted::new(model) else { return };
        let root = mounted.path();
        let check = |expected: &[&str], inside: &[&str]| {
            // The second time the kernel has the listing.
            (0..2).for_each(|_| {
                assert_eq!((listed(root), listed(&root.join("d"))), (strings(expected), strings(inside)))
            });
        };
        fs::create_dir(root.join("d")).unwrap();
        check(&["d"], &[]);
        in_another_process("touch a d/b", root);
        check(&["a", "d"], &["b"]);
        fs::rename(root.join("a"), root.join("d/a")).unwrap();
        check(&["d"], &["a", "b"]);
        in_another_process("ln d/a c; ln -s c s; mkfifo p", root);
        check(&["c", "d", "p", "s"], &["a", "b"]);
        // Refused: what is there already, what is not there, what is not empty.
        assert!(fs::hard_link(root.join("c"), root.join("d/b")).is_err() && fs::remove_file(root.join("x")).is_err());
        assert!(fs::remove_dir(root.join("d")).is_err() && fs::rename(root.join("x"), root.join("y")).is_err());
        in_another_process("! mkdir d 2>/dev/null; ! rmdir d 2>/dev/null; ! mv -T c d 2>/dev/null", root);
        check(&["c", "d", "p", "s"], &["a", "b"]);
        in_another_process("rm p s d/a; mv c d/b", root);
        check(&["d"], &["b"]);
        // What was looked up in vain is found once it is there.
        assert!(fs::metadata(root.join("late")).is_err());
        in_another_process("mkdir late; touch late/on", root);
        assert_eq!(listed(&root.join("late")), ["on"]);
        in_another_process("rm -r late d", root);
        assert_eq!(listed(root), [""; 0]);
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn a_change_that_was_made_before_an_error_is_listed() {
    type Change = fn(&Path) -> io::Result<()>;
    /// The place of the hard link among the changes.
    const LINK: usize = 3;
    let changes: [(Change, &[&str], &[&str]); 7] = [
        (|root| File::create(root.join("new")).map(drop), &["d", "f", "new"], &["x"]),
        (|root| fs::create_dir(root.join("new")), &["d", "f", "new"], &["x"]),
        (|root| symlink("f", root.join("d/new")), &["d", "f"], &["new", "x"]),
        (|root| fs::hard_link(root.join("f"), root.join("d/new")), &["d", "f"], &["new", "x"]),
        (|root| fs::remove_file(root.join("f")), &["d"], &["x"]),
        (|root| fs::rename(root.join("f"), root.join("d/f")), &["d"], &["f", "x"]),
        (|root| fs::remove_dir(root.join("d/x")), &["d", "f"], &[]),
    ];
    for (number, (change, names, inside)) in changes.into_iter().enumerate() {
        let (core, disk, store) = memory::file_system_and_store(MODELS[number % 2]);
        let Some(mounted) = Mounted::on(core, disk, Duration::from_secs(3600)) else { return };
        let (root, d) = (mounted.path(), mounted.path().join("d"));
        fs::create_dir_all(d.join("x")).unwrap();
        File::create(root.join("f")).unwrap();
        assert!((0..2).all(|_| listed(root) == ["d", "f"] && listed(&d) == ["x"]));
        assert!(fs::metadata(root.join("new")).is_err() && fs::metadata(d.join("new")).is_err());
        store.break_behind_next_change();
        assert_eq!(change(root).unwrap_err().raw_os_error(), Some(5), "{number}");
        if number == LINK {
            assert_eq!(fs::metadata(root.join("f")).unwrap().nlink(), 2);
        }
        assert_eq!((listed(root), listed(&d)), (strings(names), strings(inside)), "{number}");
        // The kernel is told of single names behind its reply.
        let begin = Instant::now();
        let is_right = |name: &str| {
            let (top, below) = (fs::symlink_metadata(root.join(name)), fs::symlink_metadata(d.join(name)));
            (top.is_ok(), below.is_ok()) == (names.contains(&name), inside.contains(&name))
        };
        while !["d", "f", "new", "x"].iter().all(|name| is_right(name)) {
            assert!(begin.elapsed() < SOON, "{number}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_refusal_leaves_what_is_mounted_below() {
    let Some(mounted) = Mounted::new(MODELS[0]) else { return };
    let (folder, below) = (mounted.path().join("d"), mounted.path().join("d/x"));
    fs::create_dir_all(&below).unwrap();
    if let Err(error) = rustix::mount::mount("none", &below, "tmpfs", MountFlags::empty(), None) {
        println!("skipped: can't mount a tmpfs here: {error}");
        return;
    }
    assert_eq!(fs::remove_dir(&folder).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
    // The kernel forgets names behind the reply.
    std::thread::sleep(Duration::from_millis(100));
    rustix::mount::unmount(&below, UnmountFlags::DETACH).expect("what was mounted is still there");
}
