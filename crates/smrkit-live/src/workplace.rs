//! A directory of a mounted file system as a target of workloads: the same events as in simulation, as system calls.
//!
//! Bytes written are random, so that nothing below can compress them. Nothing is synced, and reads may come from the kernel's cache. The
//! state of an SMRfs's disk is asked for at its control socket. No file system of the host is filled, neither that of the directory nor that
//! of an SMRfs's image: work ends as on a full disk when only a reserve is left.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use smrfs::device::Shape;
use smrfs::error::{DeviceError, FsError, FsResult};
use smrfs::space::Counts;
use smrfs::workload::{Act, Cleaned, FileKey, Target, TargetRoom};
use smrkit::dice::Dice;
use smrkit::error::Error;
use smrkit::quantity::Bytes;
use smrkit::units::Nanos;

use crate::mount;
use crate::mount::control::{ControlClient, ControlCommand, value_path};
use crate::survey::Survey;

/// The directory that is made for the work.
const FOLDER: &str = "smrkit-age";
/// Bytes of one system call.
const CALL_BYTES: usize = 1 << 20;

/// Room that stays free on a host: a twentieth of its file system, but not more than this. (Assumption.)
const HOST_RESERVE_BYTES: u64 = 1 << 30;

/// A directory in which a workload runs.
pub struct Workplace {
    root: PathBuf,
    /// Bytes that files may fill, if the directory is not an SMRfs.
    size_bytes: Option<u64>,
    /// A path on each file system of the host that the work fills.
    hosts: Vec<PathBuf>,
    open: HashMap<FileKey, File>,
    sizes: HashMap<FileKey, u64>,
    live_bytes: u64,
    buffer: Vec<u8>,
    began: Instant,
    daemon: Option<RefCell<ControlClient>>,
}

impl Workplace {
    /// Makes a folder for the work in `directory` of an SMRfs; in that of another file system only with a size. Errors: it is
    /// there already, or can't be made.
    pub fn new(directory: &Path, size_bytes: Option<u64>, seed: u64) -> Result<Workplace, Error> {
        let root = directory.join(FOLDER);
        if root.exists() {
            let message = "is there already: remove it, or name another directory";
            return Err(Error::Usage(format!("{} {message}", root.display())));
        }
        let mut daemon = daemon_of(directory);
        let hosts = match (&mut daemon, size_bytes) {
            (_, Some(_)) => vec![directory.to_path_buf()],
            (Some(daemon), None) => daemon.ask(ControlCommand::Report).map_or(Vec::new(), |report| {
                ["image", "meta"].iter().filter_map(|&key| value_path(&report[key])).collect()
            }),
            (None, None) => {
                return Err(Error::Usage(format!(
                    "{} is not on a mounted SMRfs of this user, and ageing fills most of a file system: name a directory of \
                     one, or give the bytes to use here ({{any_directory}} SIZE)",
                    directory.display()
                )));
            }
        };
        if let Some(size_bytes) = size_bytes {
            let spare = spare_bytes(directory).map_err(|error| Error::reading(directory, error))?;
            if size_bytes > spare {
                return Err(Error::Usage(format!(
                    "{{any_directory}} {}: the file system of {} has {} to spare: give less",
                    Bytes(size_bytes),
                    directory.display(),
                    Bytes(spare)
                )));
            }
        }
        fs::create_dir(&root).map_err(|error| Error::writing(&root, error))?;
        let mut dice = Dice::new(seed, u64::MAX);
        let buffer = (0..CALL_BYTES / 8).flat_map(|_| dice.next().to_le_bytes()).collect();
        let (open, sizes) = (HashMap::new(), HashMap::new());
        let (daemon, began) = (daemon.map(RefCell::new), Instant::now());
        Ok(Workplace { root, size_bytes, hosts, open, sizes, live_bytes: 0, buffer, began, daemon })
    }

    /// The disk, if it is an SMRfs of this user.
    pub fn shape(&self) -> Option<Shape> {
        let mut answer = self.ask(ControlCommand::Survey)?;
        serde_json::from_value::<Survey>(answer["survey"].take()).ok().map(|survey| survey.shape)
    }

    /// Reply of the process behind the mount, if there is one.
    fn ask(&self, command: ControlCommand) -> Option<Value> {
        self.daemon.as_ref()?.borrow_mut().ask(command).ok()
    }

    /// Bytes that files can fill in all on the file system of `directory`, and those still free.
    pub fn room_of(directory: &Path) -> Result<(u64, u64), Error> {
        room_of(directory).map_err(|error| Error::reading(directory, error))
    }

    fn path(&self, file: FileKey) -> PathBuf {
        self.root.join(file.folder.to_string()).join(file.number.to_string())
    }

    fn opened(&self, file: FileKey) -> io::Result<&File> {
        self.open.get(&file).ok_or_else(|| io::Error::other("a file that is not open"))
    }

    fn append(&mut self, file: FileKey, bytes: u64) -> io::Result<()> {
        let mut is_full = self.size_bytes.is_some_and(|size| self.live_bytes + bytes > size);
        for host in &self.hosts {
            is_full |= spare_bytes(host)? < bytes;
        }
        if is_full {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let mut to = self.opened(file)?;
        let mut left = bytes;
        while left > 0 {
            let count = left.min(self.buffer.len() as u64);
            to.write_all(&self.buffer[..count as usize])?;
            left -= count;
        }
        *self.sizes.entry(file).or_default() += bytes;
        self.live_bytes += bytes;
        Ok(())
    }

    fn read(&self, file: FileKey, offset: u64, bytes: u64) -> io::Result<()> {
        let mut scratch = vec![0; (bytes as usize).min(CALL_BYTES)];
        let from = self.opened(file)?;
        for done in (0..bytes).step_by(CALL_BYTES) {
            let count = (bytes - done).min(CALL_BYTES as u64) as usize;
            from.read_exact_at(&mut scratch[..count], offset + done)?;
        }
        Ok(())
    }

    fn act(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Create(file) => {
                fs::create_dir_all(self.root.join(file.folder.to_string()))?;
                self.open.insert(file, File::create_new(self.path(file))?);
                self.sizes.insert(file, 0);
            }
            Act::Open { file, writing } => {
                let opened = File::options().read(!writing).append(writing).open(self.path(file))?;
                self.open.insert(file, opened);
            }
            Act::Append { file, bytes } => self.append(file, bytes)?,
            Act::Read { file, offset, bytes } => self.read(file, offset, bytes)?,
            Act::Close { file, .. } => drop(self.open.remove(&file)),
            Act::Delete(file) => {
                fs::remove_file(self.path(file))?;
                self.live_bytes -= self.sizes.remove(&file).unwrap_or(0);
            }
            Act::Stat(file) => {
                fs::metadata(self.path(file))?;
            }
        }
        Ok(())
    }
}

impl Target for Workplace {
    fn perform(&mut self, act: Act) -> FsResult {
        self.act(act).map_err(|error| FsError::Device(DeviceError::Io(error)))
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos().min(u128::from(u64::MAX)) as u64)
    }

    fn rest(&mut self, until: Nanos) -> FsResult {
        thread::sleep(Duration::from_nanos(until.0.saturating_sub(self.now().0)));
        Ok(())
    }

    fn room(&self) -> FsResult<TargetRoom> {
        let free_bytes = match self.size_bytes {
            Some(size) => size.saturating_sub(self.live_bytes),
            None => room_of(&self.root).map_err(DeviceError::Io)?.1,
        };
        let counts = self.ask(ControlCommand::Report).and_then(|mut report| {
            let usage = &mut report["usage"];
            let granule_bytes = usage["granule_bytes"].as_u64()?;
            let counts: Counts = serde_json::from_value(usage["counts"].take()).ok()?;
            Some((counts, granule_bytes))
        });
        Ok(TargetRoom { live_bytes: self.live_bytes, free_bytes, counts })
    }

    fn cleaned(&self) -> Cleaned {
        let report = self.ask(ControlCommand::Report);
        let number = |key: &str| report.as_ref().and_then(|report| report["statistics"][key].as_u64()).unwrap_or(0);
        Cleaned { moved_bytes: number("moved_bytes"), resets: number("resets"), stalls: number("stalls") }
    }
}

/// Bytes that files can fill in all on the file system of `path`, and those still free.
fn room_of(path: &Path) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::statvfs(path)?;
    Ok((stat.f_blocks.saturating_mul(stat.f_frsize), stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Bytes that the file system of `path` has beyond its reserve.
fn spare_bytes(path: &Path) -> io::Result<u64> {
    let (all_bytes, free_bytes) = room_of(path)?;
    Ok(free_bytes.saturating_sub((all_bytes / 20).min(HOST_RESERVE_BYTES)))
}

/// A line to the process that serves the file system of `directory`, if it is an SMRfs of this user.
fn daemon_of(directory: &Path) -> Option<ControlClient> {
    let directory = mount::canonical(directory).ok()?;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let here = device(&directory)?;
    let point = directory.ancestors().take_while(|path| device(path) == Some(here)).last()?;
    ControlClient::connect(point).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrfs::age::{AgeingResult, Benchmark, CourseOptions};
    use smrfs::bench::FileserverOptions;
    use smrfs::bench::PostmarkOptions;
    use smrfs::error::Errno;
    use smrfs::workload::driver::End;

    #[test]
    fn a_course_in_a_directory_leaves_the_files_that_its_books_have() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Workplace::new(folder.path(), Some(8 << 20), 1).unwrap();
        let postmark = PostmarkOptions { files: 5, transactions: 20, size_bytes: (3000, 70_000), seed: 1 };
        let server = FileserverOptions { files: 5, rounds: 10, mean_bytes: 9e4, append_bytes: 16 << 10, seed: 1 };
        let benchmarks = vec![Benchmark::Postmark(postmark), Benchmark::Fileserver(server)];
        let options = CourseOptions { benchmarks, ..CourseOptions::paper(2_000_000, 1) };
        let course = AgeingResult::run(&options, &mut place, &mut |_| true).unwrap();
        assert_eq!(course.end, End::Done);
        let mut bytes = 0;
        for entry in fs::read_dir(folder.path().join(FOLDER)).unwrap() {
            for file in fs::read_dir(entry.unwrap().path()).unwrap() {
                bytes += file.unwrap().metadata().unwrap().len();
            }
        }
        assert_eq!((bytes, course.last.live_bytes), (place.live_bytes, place.live_bytes));
        let again =
            Workplace::new(folder.path(), Some(8 << 20), 1).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(again.contains("remove it"), "{again}");
    }

    #[test]
    fn a_directory_that_is_no_smrfs_takes_the_bytes_that_it_was_given_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let said = |size| Workplace::new(folder.path(), size, 1).err().unwrap().to_string();
        assert!(said(None).contains("any_directory"), "{}", said(None));
        assert!(said(Some(u64::MAX)).contains("to spare: give less"), "{}", said(Some(u64::MAX)));
        assert!(!folder.path().join(FOLDER).exists());
        let mut place = Workplace::new(folder.path(), Some(5000), 1).unwrap();
        let file = FileKey { folder: 1, number: 1 };
        place.perform(Act::Create(file)).unwrap();
        place.perform(Act::Append { file, bytes: 4000 }).unwrap();
        assert_eq!(place.perform(Act::Append { file, bytes: 1001 }).unwrap_err().errno(), Errno::ENOSPC);
        let room = place.room().unwrap();
        assert_eq!((room.free_bytes, room.live_bytes), (1000, 4000));
        // All but the reserve of the host is taken: so is the place full, whatever it was given.
        let host = place.hosts[0].clone();
        assert!(spare_bytes(&host).unwrap() < Workplace::room_of(&host).unwrap().1);
    }

    /// More than a call moves is written and read in several.
    #[test]
    fn long_files_are_written_and_read_call_by_call() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = Workplace::new(folder.path(), Some(8 << 20), 1).unwrap();
        let file = FileKey { folder: 2, number: 3 };
        let (call, long) = (CALL_BYTES as u64, 5 * CALL_BYTES as u64 / 2);
        place.perform(Act::Create(file)).unwrap();
        for bytes in [long, 700] {
            place.perform(Act::Append { file, bytes }).unwrap();
        }
        place.perform(Act::Close { file, writing: true }).unwrap();
        let found = fs::read(place.path(file)).unwrap();
        let expected =
            [&place.buffer[..], &place.buffer, &place.buffer[..CALL_BYTES / 2], &place.buffer[..700]].concat();
        assert!(found == expected);
        assert_eq!(place.room().unwrap().live_bytes, long + 700);
        place.perform(Act::Open { file, writing: false }).unwrap();
        place.perform(Act::Read { file, offset: 700, bytes: long }).unwrap();
        assert!(place.perform(Act::Read { file, offset: 701, bytes: long }).is_err(), "one byte behind the end");
        assert!(place.perform(Act::Read { file, offset: call, bytes: long - call + 701 }).is_err());
        place.perform(Act::Delete(file)).unwrap();
        assert_eq!(place.room().unwrap().live_bytes, 0);
    }
}
