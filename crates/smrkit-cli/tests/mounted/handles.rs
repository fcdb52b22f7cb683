//! Handles of files (name_to_handle_at(2)), as a server of NFS keeps them: they outlive a mount, and never lead elsewhere.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use super::attached::has;
use super::{Bench, MODELS, Ran, is_root};

/// `take PATH` prints the handle of a node, `open MOUNT HANDLE` where that leads to and what is there.
const PROGRAM: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    return result
if sys.argv[1] == "take":
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    checked(libc.name_to_handle_at(-100, sys.argv[2].encode(), handle, ctypes.byref(ctypes.c_int()), 0))
    print(handle.raw[:8 + struct.unpack_from("I", handle)[0]].hex())
else:
    mount = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECTORY)
    raw = bytes.fromhex(sys.argv[3])
    opened = checked(libc.open_by_handle_at(mount, ctypes.create_string_buffer(raw, len(raw)), os.O_RDONLY))
    path = f"/proc/self/fd/{opened}"
    found = sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read()
    print(os.path.relpath(os.readlink(path), sys.argv[2]), found)
"#;

fn run(arguments: &[&str]) -> Ran {
    Ran(Command::new("python3").args(["-c", PROGRAM]).args(arguments).output().expect("python3 starts"))
}

fn take(bench: &Bench, name: &str) -> String {
    run(&["take", bench.file(name).to_str().unwrap()]).done().trim().to_string()
}

/// None, with a word for the skip list, where it can't be tried.
fn bench(model: &str) -> Option<Bench> {
    if !is_root() || !has("python3") {
        println!("skipped: handles are opened by root, and here by python3");
        return None;
    }
    Bench::new(model, "64MiB")
}

#[test]
fn handles_lead_to_their_nodes_in_the_next_mount() {
    for model in MODELS {
        let Some(bench) = bench(model) else { return };
        bench.mount().done();
        fs::create_dir_all(bench.file("a/b/c")).unwrap();
        for name in ["a/file", "a/b/c/file"] {
            fs::write(bench.file(name), name).unwrap();
        }
        let point = bench.path("mnt");
        let handles = ["a/file", "a/b/c/file", "a/b/c"].map(|name| take(&bench, name));
        bench.umount().done();
        bench.mount().done();
        // Its directory has moved since, and nobody has looked the file up.
        fs::rename(bench.file("a/b"), bench.file("moved")).unwrap();
        let opened = handles.map(|handle| run(&["open", &point, &handle]).done());
        assert!(opened[0].trim().ends_with(" a/file"), "{opened:?}");
        assert!(opened[1].trim().ends_with(" a/b/c/file"), "{opened:?}");
        assert_eq!(opened[2].trim(), "moved/c ['file']");
        bench.umount().done();
        bench.is_in_order();
    }
}

#[test]
fn a_handle_of_a_removed_file_leads_nowhere() {
    for model in MODELS {
        let Some(bench) = bench(model) else { return };
        bench.mount().done();
        let point = bench.path("mnt");
        fs::write(bench.file("old"), "old").unwrap();
        let number = fs::metadata(bench.file("old")).unwrap().ino();
        let handle = take(&bench, "old");
        fs::remove_file(bench.file("old")).unwrap();
        run(&["open", &point, &handle]).says(1, &["Stale file handle"]);
        bench.umount().done();
        bench.mount().done();
        run(&["open", &point, &handle]).says(1, &["Stale file handle"]);
        let has_its_number = |new: &u32| {
            fs::write(bench.file(&format!("new-{new}")), "new").unwrap();
            fs::metadata(bench.file(&format!("new-{new}"))).unwrap().ino() == number
        };
        match (0..3000).find(has_its_number) {
            None => println!("skipped: no new file has the number of a removed one here"),
            Some(_) => run(&["open", &point, &handle]).says(1, &["Stale file handle"]),
        }
        bench.umount().done();
    }
}
