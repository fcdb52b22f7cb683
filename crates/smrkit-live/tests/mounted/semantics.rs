//! Behaviour that programs rely on, one a test.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;
use smrfs::error::{Errno as Number, FsError};
use smrfs::fs::FileSystem;
use smrkit_live::fuse::Gate;
use smrkit_live::mount::control::{self, ControlClient};

use super::memory::file_system;
use super::{MODELS, Mounted};

/// Runs `check` on a mount of each model.
fn on_each_model(check: impl Fn(&Path)) {
    for model in MODELS {
        let Some(mount) = Mounted::new(model) else { return };
        check(mount.path());
    }
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    on_each_model(|root| {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(root.join("f")).unwrap();
        file.write_all(b"first").unwrap();
        fs::remove_file(root.join("f")).unwrap();
        fs::write(root.join("f"), b"another").unwrap();
        file.write_all(b" second").unwrap();
        file.sync_all().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), file.metadata().unwrap().nlink()), ("first second", 0));
        assert_eq!(fs::read(root.join("f")).unwrap(), b"another");
    });
}

#[test]
fn a_running_program_is_not_truncated() {
    on_each_model(|root| {
        let program = root.join("sleep");
        // Copied by another process: a child that another test starts meanwhile would hold a file open for writing here.
        let copied = Command::new("install").args(["-m", "755", "/bin/sleep"]).arg(&program).status().unwrap();
        assert!(copied.success());
        let size = fs::metadata(&program).unwrap().len();
        let mut running = Command::new(&program).arg("30").spawn().unwrap();
        let refused = OpenOptions::new().write(true).truncate(true).open(&program);
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(Errno::TXTBSY.raw_os_error()));
        assert_eq!(fs::metadata(&program).unwrap().len(), size);
    });
}

#[test]
fn times_keep_their_nanoseconds_before_1970_as_well() {
    on_each_model(|root| {
        let file = File::create(root.join("f")).unwrap();
        for (seconds, nanoseconds) in [(0, 0), (1_700_000_000, 123_456_789), (-5, 999_999_999), (-1, 1)] {
            let whole = Duration::from_secs(i64::unsigned_abs(seconds));
            let base = if seconds < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
            file.set_modified(base + Duration::from_nanos(nanoseconds)).unwrap();
            let metadata = fs::metadata(root.join("f")).unwrap();
            assert_eq!((metadata.mtime(), metadata.mtime_nsec() as u64), (seconds, nanoseconds));
        }
    });
}

/// Stores bytes around the end of a file through a mapping, makes the file longer, and reads what lies there.
const GROWS: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.ftruncate(fd, 8192)
pages = mmap.mmap(fd, 8192)
os.ftruncate(fd, 5002)
pages[5000:5006] = b'INSIDE'
way, end = sys.argv[2], int(sys.argv[3])
if way == 'ftruncate':
    os.ftruncate(fd, end)
elif way == 'fallocate':
    os.posix_fallocate(fd, 0, end)
else:
    other = os.open(sys.argv[1] + '2', os.O_RDWR | os.O_CREAT)
    os.pwrite(other, b'tail', 0)
    assert os.copy_file_range(other, fd, 4, 0, end - 4) == 4
found = os.pread(fd, 4, 5000)
pages.close()
os.fsync(fd)
assert os.pread(fd, 4, 5000) == found
print(found, os.fstat(fd).st_size, end='')
";

#[test]
fn bytes_mapped_behind_the_end_stay_out_of_a_file_that_grows() {
    on_each_model(|root| {
        for way in ["ftruncate", "fallocate", "copy"] {
            for end in ["6000", "8192", "100000"] {
                let mut grow = Command::new("python3");
                let Ok(grown) = grow.args(["-c", GROWS]).arg(root.join(way)).args([way, end]).output() else {
                    return println!("skipped: no python3 here");
                };
                let (said, err) = (String::from_utf8_lossy(&grown.stdout), String::from_utf8_lossy(&grown.stderr));
                assert_eq!(said, format!("b'IN\\x00\\x00' {end}"), "{way}: {err}");
            }
        }
    });
}

#[test]
fn attributes_are_kept_and_access_lists_refused() {
    on_each_model(|root| {
        let path = root.join("f");
        File::create(&path).unwrap();
        let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
        let get = |name: &str| {
            let mut room = [0u8; 100];
            rustix::fs::getxattr(&path, name, &mut room[..]).map(|bytes| room[..bytes].to_vec())
        };
        assert_eq!(get("user.a"), Err(Errno::NODATA));
        set("user.a", b"one", XattrFlags::CREATE).unwrap();
        assert_eq!(set("user.a", b"two", XattrFlags::CREATE), Err(Errno::EXIST));
        set("user.a", b"two", XattrFlags::REPLACE).unwrap();
        assert_eq!(get("user.a"), Ok(b"two".to_vec()));
        let mut room = [0u8; 100];
        let bytes = rustix::fs::listxattr(&path, &mut room[..]).unwrap();
        assert_eq!(&room[..bytes], b"user.a\0");
        let mut small = [0u8; 2];
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut small[..]), Err(Errno::RANGE));
        rustix::fs::removexattr(&path, "user.a").unwrap();
        assert_eq!(get("user.a"), Err(Errno::NODATA));
        assert_eq!(set("system.posix_acl_access", b"\x02\0\0\0", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    });
}

/// Beyond what one request takes, from the middle, within a file, past its end, and with the room running out.
#[test]
fn ranges_are_copied_between_files_and_within_one() {
    on_each_model(|root| {
        let whole: Vec<u8> = (0..20_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(root.join("from"), &whole).unwrap();
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(false).open(root.join(name)).unwrap()
        };
        let copy = |from: (&File, u64), to: (&File, u64), bytes: usize| {
            let (mut from_at, mut to_at, mut done) = (from.1, to.1, 0);
            while done < bytes {
                let copied =
                    rustix::fs::copy_file_range(from.0, Some(&mut from_at), to.0, Some(&mut to_at), bytes - done);
                match copied {
                    Ok(0) => break,
                    Ok(copied) => done += copied,
                    Err(error) => return Err(error),
                }
            }
            Ok(done)
        };
        let (from, to) = (open("from"), open("to"));
        let used = || {
            let room = rustix::fs::statvfs(root).unwrap();
            (room.f_blocks - room.f_bfree) * room.f_frsize
        };
        let before = used();
        assert_eq!(copy((&from, 0), (&to, 0), 30_000_000), Ok(whole.len()));
        assert!(used() < before + 1_000_000, "the copy takes {} bytes more", used() - before);
        assert!(fs::read(root.join("to")).unwrap() == whole);
        // What the kernel has cached of the target is not shown any more.
        let mut expected = whole.clone();
        assert_eq!(copy((&from, 5_000_003), (&to, 77), 3_000_000), Ok(3_000_000));
        expected[77..3_000_077].copy_from_slice(&whole[5_000_003..8_000_003]);
        assert_eq!(copy((&to, 100), (&to, 15_000_001), 9_000), Ok(9_000));
        expected.copy_within(100..9_100, 15_000_001);
        assert!(fs::read(root.join("to")).unwrap() == expected);
        assert_eq!(copy((&to, 100), (&to, 200), 9_000), Err(Errno::INVAL));
        assert_eq!(copy((&from, 20_000_000), (&to, 20_000_001), 500), Ok(1));
        assert_eq!(to.metadata().unwrap().len(), 20_000_002);
        drop(from);
        drop(to);
        let durable =
            File::options().write(true).custom_flags(OFlags::SYNC.bits() as i32).open(root.join("to")).unwrap();
        assert_eq!(copy((&open("from"), 0), (&durable, 0), 4096), Ok(4096));
    });
}

#[test]
fn attributes_of_64_kib_are_kept_copied_and_removed() {
    on_each_model(|root| {
        let (path, copy) = (root.join("f"), root.join("copy"));
        fs::write(&path, "data").unwrap();
        let value: Vec<u8> = (0..65536u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let get = |path: &std::path::Path, name: &str| {
            let mut room = vec![0u8; 65536];
            rustix::fs::getxattr(path, name, &mut room[..]).map(|bytes| room[..bytes].to_vec())
        };
        for name in ["user.a", "user.b"] {
            rustix::fs::setxattr(&path, name, &value, XattrFlags::CREATE).unwrap();
        }
        File::open(&path).unwrap().sync_all().unwrap();
        let status = std::process::Command::new("cp").arg("-a").args([&path, &copy]).status().unwrap();
        assert!(status.success());
        for (path, name) in [(&path, "user.a"), (&path, "user.b"), (&copy, "user.a"), (&copy, "user.b")] {
            assert!(get(path, name).unwrap() == value, "{name} of {}", path.display());
        }
        let mut small = [0u8; 100];
        assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut small[..]), Err(Errno::RANGE));
        rustix::fs::removexattr(&path, "user.a").unwrap();
        assert_eq!(get(&path, "user.a"), Err(Errno::NODATA));
        assert!(get(&path, "user.b").unwrap() == value);
        assert_eq!((fs::read(&copy).unwrap(), fs::metadata(&path).unwrap().len()), (b"data".to_vec(), 4));
    });
}

/// Operations of docs/design/semantics.md that need neither a full nor a failing disk.
#[test]
fn what_is_not_supported_has_the_errno_of_the_table() {
    use rustix::fs::{FallocateFlags, Mode, RenameFlags};
    on_each_model(|root| {
        let path = root.join("f");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::write(root.join("g"), "g").unwrap();
        let nameless = rustix::fs::open(root, OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
        assert_eq!(nameless.map(drop), Err(Errno::OPNOTSUPP));
        let other = File::open(root.join("g")).unwrap();
        assert_eq!(rustix::fs::ioctl_ficlone(&file, &other), Err(Errno::OPNOTSUPP));
        let allocate = |flags| rustix::fs::fallocate(&file, flags, 0, 4096);
        assert_eq!(allocate(FallocateFlags::COLLAPSE_RANGE), Err(Errno::OPNOTSUPP));
        assert_eq!(allocate(FallocateFlags::INSERT_RANGE), Err(Errno::OPNOTSUPP));
        let set = rustix::fs::setxattr(&path, "system.other", b"x", XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP));
        let moved =
            rustix::fs::renameat_with(rustix::fs::CWD, &path, rustix::fs::CWD, root.join("h"), RenameFlags::WHITEOUT);
        // Without privileges the kernel has refused it before.
        assert!(matches!(moved, Err(Errno::INVAL | Errno::PERM)), "{moved:?}");
        assert_eq!(rustix::fs::ftruncate(&file, (1 << 62) + 1), Err(Errno::FBIG));
        rustix::fs::ftruncate(&file, 1 << 62).unwrap();
    });
}

#[test]
fn a_large_directory_is_listed_whole_while_it_is_emptied() {
    on_each_model(|root| {
        let names: BTreeSet<String> = (0..3000).map(|number| format!("file-with-a-longer-name-{number}")).collect();
        for name in &names {
            File::create(root.join(name)).unwrap();
        }
        let list = || fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(list().collect::<BTreeSet<_>>(), names);
        let mut seen = 0;
        for name in list() {
            fs::remove_file(root.join(name)).unwrap();
            seen += 1;
        }
        assert_eq!((seen, list().count()), (3000, 0));
    });
}

#[test]
fn holes_are_found_and_read_as_zeros() {
    on_each_model(|root| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(root.join("f")).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        file.set_len(2 << 20).unwrap();
        let seek = |from| rustix::fs::seek(&file, from);
        assert_eq!(seek(rustix::fs::SeekFrom::Data(0)), Ok(1 << 20));
        assert_eq!(seek(rustix::fs::SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
        assert_eq!(seek(rustix::fs::SeekFrom::Data((1 << 20) + 4096)), Err(Errno::NXIO));
        let mut room = vec![9; 8192];
        file.read_exact_at(&mut room, (1 << 20) - 4096).unwrap();
        assert!(room[..4096].iter().all(|&byte| byte == 0) && room[4096..].iter().all(|&byte| byte == 1));
    });
}

#[test]
fn a_write_with_o_sync_is_committed_when_it_returns() {
    on_each_model(|root| {
        let dirty = || {
            let mut client = ControlClient::connect(root).unwrap();
            client.ask(control::ControlCommand::Report).unwrap()["statistics"]["dirty_files"].as_u64().unwrap()
        };
        for flag in [OFlags::SYNC, OFlags::DSYNC] {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).custom_flags(flag.bits() as i32);
            let file = options.open(root.join("f")).unwrap();
            file.write_all_at(&[1; 5000], 100).unwrap();
            assert_eq!(dirty(), 0);
        }
    });
}

#[test]
fn statfs_counts_what_is_written() {
    on_each_model(|root| {
        let before = rustix::fs::statvfs(root).unwrap();
        fs::write(root.join("f"), vec![1; 8 << 20]).unwrap();
        let after = rustix::fs::statvfs(root).unwrap();
        assert_eq!(before.f_blocks, after.f_blocks);
        assert_eq!((before.f_bfree - after.f_bfree) * after.f_bsize, 8 << 20);
        fs::remove_file(root.join("f")).unwrap();
        // The kernel tells of a file's last close when it likes.
        let started = Instant::now();
        while rustix::fs::statvfs(root).unwrap().f_bfree != before.f_bfree {
            assert!(started.elapsed() < Duration::from_secs(30), "the room of a removed file stays away");
            thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    on_each_model(|root| {
        let file = File::create(root.join("f")).unwrap();
        let refused =
            ControlClient::connect(root).unwrap().ask(control::ControlCommand::Unmount { give_up: false }).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        drop(file);
    });
}

#[test]
fn a_panic_in_the_core_is_an_error_and_the_next_request_works() {
    let gate = Gate::new(file_system(MODELS[0]).0);
    let answer = gate.ask("test", |_: &FileSystem| -> Result<(), FsError> { panic!("planted") });
    assert!(matches!(answer, Err(FsError::Errno(Number::EIO))));
    assert!(gate.ask("test", |core| core.usage()).is_ok());
    gate.shut(|_, ended| ended).unwrap();
    assert!(matches!(gate.ask("test", |core| core.usage()), Err(FsError::Errno(Number::ENODEV))));
}
