//! A host-managed disk in an image file or on a block device: a head with the disk's own persistent state, then the disk's bytes.
//!
//! The head holds what the electronics of a real disk would keep: the disk's shape and, on strict-append, each band's cursor. The file system's
//! superblock is on the disk, after the head.

mod ahead;
mod head;

use std::fs::{File, Permissions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom};
use smrfs::data::{Data, ReadBuffer, write_zeros};
use smrfs::device::caveat::CaveatScriptor;
use smrfs::device::strict::StrictAppend;
use smrfs::device::zoned::is_table;
use smrfs::device::{HostManaged, Model, Platters, Shape};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::map::Ranges;
use smrfs::superblock::{Superblock, SuperblockError};
use smrfs::units::{GRANULE_BYTES, Granule, HostJournal, Span};
use smrkit::tally::Cause;
use smrkit::units::Nanos;

use ahead::AppendRun;
use head::NoHead;
pub use head::{bytes_for, head_bytes};

use crate::contents::is_zero;
use crate::error::LiveError;
use crate::exclusive;
use crate::journal;
use crate::reserve::{Full, Reserve, Use};

/// The shortest hole that is punched, unless the host is short of room (assumption).
const HOLE_BYTES: u64 = 1 << 20;
/// The longest range of one call of fadvise. Of a longer range Linux reads only a part ahead.
const EXPECTED_BYTES: u64 = 128 << 10;

/// An image file or a block device, locked against a second user.
pub struct Image {
    /// The path that it was opened by.
    pub path: PathBuf,
    file: File,
    /// False for a block device.
    is_file: bool,
    shape: Shape,
    /// Place of the disk's first granule in the file.
    first_byte: u64,
    opened: Instant,
    /// Cursors that have moved since the last flush, or since one started, in granules of their band.
    moved: Mutex<std::collections::BTreeMap<u64, u64>>,
    /// Granules that will not be read again and are not yet punched out of the file. Punching takes the host a moment, so it waits until
    /// [`HOLE_BYTES`] are together, or until the host is short of room. The lock is held while a hole is punched, so that nothing is written
    /// there meanwhile.
    holes_due: Mutex<Ranges>,
    /// The last small writes, for allocating ahead of them.
    append_run: Mutex<AppendRun>,
    /// The journal of the host's file system, if its commits flush the image's data.
    journal: Option<HostJournal>,
    /// The error of the start of a flush, for the flush itself to report: the kernel may report an error only once, and data that it could not write
    /// is lost.
    failed_start: Mutex<Option<io::Error>>,
    /// Room on the host that is reserved for accepted data.
    reserve: Reserve,
    /// True if the host was short of room when it was last asked.
    is_short: AtomicBool,
}

/// Kind of a path that is to become an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageTarget {
    /// Nothing is there.
    Missing,
    /// A file of that many bytes.
    File(u64),
    /// A block device of that many bytes.
    Device(u64),
}

impl ImageTarget {
    /// Kind of `path`.
    pub fn for_path(path: &Path) -> Result<ImageTarget, LiveError> {
        let kind = match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_among_devices(path) => {
                return Ok(ImageTarget::Missing);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LiveError::image(path, "there is no such device: check the path"));
            }
            meta => meta.map_err(|error| LiveError::io(path, error))?,
        };
        if kind.is_file() {
            return Ok(ImageTarget::File(kind.len()));
        }
        if !kind.file_type().is_block_device() {
            return Err(LiveError::image(path, "neither a file nor a block device: name one for the image"));
        }
        let mut device = File::open(path).map_err(|error| LiveError::io(path, error))?;
        let end = std::io::Seek::seek(&mut device, std::io::SeekFrom::End(0));
        end.map(ImageTarget::Device).map_err(|error| LiveError::io(path, error))
    }
}

/// True if the path is in /dev. A missing device must not be created as an image in memory.
fn is_among_devices(path: &Path) -> bool {
    let devices = Path::new("/dev");
    let node = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let folder = parent(path).canonicalize().unwrap_or_default();
    folder.starts_with(devices) && node(&folder) == node(devices)
}

/// Opens a file or a device, and locks it against a second user.
pub(crate) fn open_alone(path: &Path, writable: bool) -> Result<File, LiveError> {
    let is_device = matches!(ImageTarget::for_path(path)?, ImageTarget::Device(_));
    let mut options = File::options();
    options.read(true).write(writable);
    if is_device {
        // On a block device this asks whether it is mounted or otherwise in use.
        options.custom_flags(OFlags::EXCL.bits() as i32);
    }
    let file = match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => return Err(LiveError::InUse(path.into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(LiveError::image(
                path,
                "there is no such image: check the path, or make one with smrkit mkfs or create",
            ));
        }
        file => file.map_err(|error| LiveError::io(path, error))?,
    };
    exclusive::lock_path(path, &file)?;
    Ok(file)
}

impl Image {
    fn new(path: &Path, file: File, shape: &Shape) -> Image {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Image {
            holes_due: Mutex::default(),
            append_run: Mutex::default(),
            reserve: Reserve::new(if is_file { File::open(parent(path)).ok().map(OwnedFd::from) } else { None }),
            is_short: AtomicBool::new(false),
            journal: if is_file { journal::of(&file) } else { None },
            path: path.into(),
            file,
            is_file,
            shape: *shape,
            first_byte: head_bytes(shape),
            opened: Instant::now(),
            moved: Mutex::default(),
            failed_start: Mutex::default(),
        }
    }

    fn byte(&self, at: Granule) -> u64 {
        self.first_byte + at.0 * self.shape.granule_bytes
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        write_zeros(range, |at, zeros| self.file.write_all_at(zeros, at))
    }

    /// Punches the due holes in `range`.
    fn punch(&self, holes_due: &mut Ranges, range: Range<u64>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for (run, ()) in holes_due.uncover(range) {
            // Errors are ignored: on a host that can't punch holes the file stays as large as it is.
            let _ = rustix::fs::fallocate(
                &self.file,
                flags,
                self.byte(Granule(run.start)),
                (run.end - run.start) * self.shape.granule_bytes,
            );
        }
    }

    /// Fills the hole at the start of `wanted` with zeros, up to the next data. The device's writers wait meanwhile.
    fn fill(&self, wanted: Range<u64>) {
        let is_hole = rustix::fs::seek(&self.file, SeekFrom::Hole(wanted.start)) == Ok(wanted.start);
        if !is_hole || self.is_short.load(Relaxed) {
            return;
        }
        // An error means that no data follows.
        let data = rustix::fs::seek(&self.file, SeekFrom::Data(wanted.start)).unwrap_or(u64::MAX);
        let end = wanted.end.min(data).min(self.byte(Granule(self.shape.granules)));
        let first = (wanted.start - self.first_byte) / self.shape.granule_bytes;
        let granules = (end - self.first_byte) / self.shape.granule_bytes - first;
        // If it fails, the writes to come allocate their blocks themselves.
        let _ = self.write_zeros(wanted.start..wanted.start + granules * self.shape.granule_bytes);
        // If nothing is written there, the zeros are punched out again.
        self.holes_due.lock().cover(first..first + granules, ());
    }

    /// Bytes that the image takes up on the host.
    fn taken_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Bytes of the disk that take up no room on the host yet.
    fn hole_bytes(&self) -> io::Result<u64> {
        Ok(self.byte(Granule(self.shape.granules)).saturating_sub(self.taken_bytes()?))
    }

    fn keep(&self, bytes: u64) -> io::Result<()> {
        match self.reserve.keep(bytes) {
            // No more than the holes' room is ever needed.
            Err(error) if error.is_full() => self.reserve.keep(bytes.min(self.hole_bytes()?)),
            done => done,
        }
    }

    /// Writes the cursors that have moved.
    fn write_cursors(&self) -> io::Result<()> {
        // The lock is held until they are written, because a flush by another thread must not find an empty list before.
        let mut moved = self.moved.lock();
        moved.iter().try_for_each(|(&band, &filled)| head::write_cursor(&self.file, band, filled))?;
        moved.clear();
        Ok(())
    }
}

/// The directory that a file lies in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tells the kernel that these bytes of a file or a device will be read soon.
pub(crate) fn expect(file: &File, bytes: Range<u64>) {
    for at in bytes.clone().step_by(EXPECTED_BYTES as usize) {
        // Errors are ignored, because this is only a hint.
        let length = NonZeroU64::new(EXPECTED_BYTES.min(bytes.end - at));
        let _ = rustix::fs::fadvise(file, at, length, Advice::WillNeed);
    }
}

impl Platters for Image {
    fn read(&self, at: Granule, room: ReadBuffer<'_>, _cause: Cause) -> DeviceResult {
        match room {
            ReadBuffer::Bytes(bytes) => self.file.read_exact_at(bytes, self.byte(at)).map_err(DeviceError::Io),
            ReadBuffer::Blank(_) => Ok(()),
        }
    }

    fn expect(&self, span: Span) {
        expect(&self.file, self.byte(span.at)..self.byte(span.end()));
    }

    fn start_flush(&self) {
        // The lock is held meanwhile, so that a flush by another thread waits for an error that the kernel reports only to this call.
        let mut failed = self.failed_start.lock();
        if let Err(error) = self.write_cursors().and_then(|()| journal::start_write_back(&self.file)) {
            *failed = Some(error);
        }
    }

    fn write(&self, at: Granule, data: Data<'_>, cause: Cause) -> DeviceResult {
        // These granules must not be punched out any more. Waits if a hole is being punched.
        self.holes_due.lock().uncover(at.0..at.0 + data.bytes() / self.shape.granule_bytes);
        // The reserve is for data that programs were told is accepted; the cleaner's copies must not use it up.
        let room_use = if cause == Cause::Clean { Use::Other } else { Use::Accepted };
        let written = self.reserve.with(data.bytes(), room_use, || match data {
            Data::Bytes(bytes) => self.file.write_all_at(bytes, self.byte(at)),
            Data::Blank(bytes) => self.write_zeros(self.byte(at)..self.byte(at) + bytes),
        });
        written.map_err(DeviceError::Io)?;
        if self.is_file && cause != Cause::Clean {
            let range = self.append_run.lock().note_write(self.byte(at), data.bytes());
            range.into_iter().for_each(|range| self.fill(range));
        }
        Ok(())
    }

    fn discard(&self, span: Span) {
        if !self.is_file {
            return;
        }
        let mut holes_due = self.holes_due.lock();
        holes_due.cover(span.range(), ());
        let run = holes_due.overlapping(span.range()).next().map_or(0..0, |(run, ())| run);
        if (run.end - run.start) * self.shape.granule_bytes >= HOLE_BYTES {
            self.punch(&mut holes_due, run);
        } else if self.is_short.load(Relaxed) {
            self.punch(&mut holes_due, 0..u64::MAX);
        }
    }

    fn reserve(&self, bytes: u64) -> DeviceResult {
        let mut kept = self.keep(bytes);
        if kept.as_ref().is_err_and(Full::is_full) {
            self.punch(&mut self.holes_due.lock(), 0..u64::MAX);
            kept = self.keep(bytes);
        }
        self.is_short.store(kept.is_err(), Relaxed);
        kept.map_err(DeviceError::Io)
    }

    fn room_bytes(&self) -> DeviceResult<Option<u64>> {
        let Some(room) = self.reserve.room_bytes()? else { return Ok(None) };
        // What is dead becomes holes when room is needed.
        let taken = self.taken_bytes()?.saturating_sub(self.first_byte);
        Ok((room < self.hole_bytes()?).then_some(room + taken))
    }

    fn keep_cursor(&self, band: u64, cursor: Granule) -> DeviceResult {
        let filled = cursor - self.shape.bands.span(band).at;
        self.moved.lock().insert(band, filled);
        Ok(())
    }

    /// Cursors are written by a flush, or when one is started. So after a crash a cursor is where it was at the last flush, or further on.
    fn flush_with(&self, journal: Option<HostJournal>) -> DeviceResult {
        self.append_run.lock().note_flush();
        let done = self.write_cursors().and_then(|()| match journal::flushes(self.journal, journal) {
            true => journal::write_back(&self.file),
            false => self.file.sync_data(),
        });
        let failed_start = self.failed_start.lock().take();
        failed_start.map_or(done, Err).map_err(DeviceError::Io)
    }

    fn now(&self) -> Nanos {
        Nanos(self.opened.elapsed().as_nanos() as u64)
    }
}

/// The permissions of an image file. Only its owner may read it, because the data of all users' files is in it, and the key of their maps.
const PRIVATE: u32 = 0o600;

/// Remedy for a copy of a zoned device.
const COPY: &str =
    "a copy of a zoned device, which has no zones itself: use that device, or copy its files to a new volume";

/// An image that is about to be created: its file is locked, and nothing in it has been changed yet.
pub struct Blank {
    path: PathBuf,
    file: File,
    shape: Shape,
    bytes: u64,
    /// True if the file was created for this, and must be removed if `mkfs` fails.
    is_new: bool,
}

impl Blank {
    /// Checks that `path` can become the image of a blank disk: a new file, an empty one, a device that is blank, or anything with `force`. The
    /// image is `bytes` long; a rest that is shorter than a granule is not used.
    pub fn choose(path: &Path, shape: &Shape, bytes: u64, force: bool) -> Result<Blank, LiveError> {
        let bytes = bytes.max(bytes_for(shape).unwrap_or(u64::MAX));
        let target = ImageTarget::for_path(path)?;
        if let ImageTarget::Device(size) = target
            && size < bytes
        {
            let what = format!("{} has {size} bytes, fewer than {bytes}: lower {{size}}", path.display());
            return Err(LiveError::impossible(what));
        }
        let is_new = target == ImageTarget::Missing;
        if is_new {
            let made = File::options().write(true).create_new(true).mode(PRIVATE).open(path);
            made.map_err(|error| LiveError::io(path, error))?;
        }
        let file = open_alone(path, true).inspect_err(|_| {
            if is_new {
                let _ = std::fs::remove_file(path);
            }
        })?;
        let owner = file.metadata().map_err(|error| LiveError::io(path, error))?;
        if owner.is_file() && owner.uid() != rustix::process::geteuid().as_raw() {
            return Err(LiveError::NotYours(path.into()));
        }
        if !force && !is_blank(&file).map_err(|error| LiveError::io(path, error))? {
            return Err(LiveError::Exists(path.into()));
        }
        Ok(Blank { path: path.into(), file, shape: *shape, bytes, is_new })
    }

    /// Writes the blank disk.
    pub fn fill(self) -> Result<Arc<dyn HostManaged>, LiveError> {
        self.write().map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => LiveError::impossible(format!(
                "{}: its file system takes no file of that size: lower {{size}}, or use another file system",
                self.path.display()
            )),
            _ => LiveError::io(&self.path, error),
        })?;
        disk(Image::new(&self.path, self.file, &self.shape), &[])
    }

    fn write(&self) -> io::Result<()> {
        let is_file = self.file.metadata()?.is_file();
        if is_file {
            // The umask, or an older image at this path, may let other users read the file.
            self.file.set_permissions(Permissions::from_mode(PRIVATE))?;
            // Frees the blocks of an older image. Those of the new one are allocated when they are written.
            self.file.set_len(0)?;
            self.file.set_len(self.bytes)?;
        }
        let mut first = head::encode(&self.shape);
        first.resize(head_bytes(&self.shape) as usize, 0);
        self.file.write_all_at(&first, 0)?;
        self.file.sync_all()?;
        if is_file { sync_parent(&self.path) } else { Ok(()) }
    }

    /// The file, if it was created for this and must be removed if `mkfs` fails.
    pub fn created(&self) -> Option<PathBuf> {
        self.is_new.then(|| self.path.clone())
    }
}

/// True if the first bytes are zeros. All file systems and partition tables have something there.
fn is_blank(file: &File) -> io::Result<bool> {
    let mut bytes = vec![0; 1 << 20];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => return Ok(is_zero(&bytes[..filled])),
            read => filled += read,
        }
    }
}

/// True if it begins as the first zone of a volume on a zoned device does.
fn is_of_zones(file: &File) -> bool {
    let mut bytes = vec![0; GRANULE_BYTES as usize];
    let is_read = file.read_exact_at(&mut bytes, 0).is_ok();
    is_read && (is_table(&bytes) || !matches!(Superblock::decode(&bytes), Err(SuperblockError::Foreign)))
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Opens an image as a disk, read-only unless `writable`.
pub fn open(path: &Path, writable: bool) -> Result<Arc<dyn HostManaged>, LiveError> {
    let file = open_alone(path, writable)?;
    let failed = |error| LiveError::io(path, error);
    let shape = head::read(&file).map_err(failed)?.map_err(|no| {
        LiveError::image(
            path,
            match no {
                NoHead::Foreign if is_of_zones(&file) => COPY.into(),
                NoHead::Foreign => "this is no SMRfs image: check the path, or make one with smrkit mkfs".into(),
                NoHead::Version(version) => format!("an image of format {version}: use a newer smrkit"),
                NoHead::Damaged => "the image's head is damaged: restore the image from a copy".to_string(),
            },
        )
    })?;
    let (ImageTarget::File(bytes) | ImageTarget::Device(bytes)) = ImageTarget::for_path(path)? else {
        return Err(LiveError::image(path, "the image has just been removed: make it again"));
    };
    let expected = bytes_for(&shape).unwrap_or(u64::MAX);
    if bytes < expected {
        let what = format!("the image is cut short ({bytes} bytes of {expected}): restore it from a copy");
        return Err(LiveError::image(path, what));
    }
    let cursors = head::read_cursors(&file, &shape).map_err(failed)?;
    disk(Image::new(path, file, &shape), &cursors)
}

fn disk(image: Image, cursors: &[Granule]) -> Result<Arc<dyn HostManaged>, LiveError> {
    let shape = image.shape;
    let image = Arc::new(image);
    let impossible = |error: smrkit::error::Error| LiveError::impossible(error.message());
    Ok(match shape.model {
        Model::StrictAppend => Arc::new(StrictAppend::new(image, shape, cursors).map_err(impossible)?),
        Model::Caveat => Arc::new(CaveatScriptor::new(image, shape).map_err(impossible)?),
    })
}

#[cfg(test)]
mod tests {
    use smrfs::device::Bands;

    use super::*;

    #[test]
    fn a_flush_tells_that_its_start_failed() {
        let bands = Bands { count: 0, granules: 0, gap_granules: 0, max_open: 0 };
        let shape = Shape { model: Model::Caveat, granule_bytes: 4096, granules: 10, did: 1, dpid: 1, bands };
        // Pipes can't be written back (ESPIPE), nor synced (EINVAL).
        let (pipe, _other) = io::pipe().unwrap();
        let image = Image::new(Path::new("pipe"), File::from(OwnedFd::from(pipe)), &shape);
        image.start_flush();
        let failures = [(); 2].map(|()| match image.flush_with(None) {
            Err(DeviceError::Io(error)) => error.raw_os_error(),
            flushed => panic!("{flushed:?}"),
        });
        assert_eq!(failures, [Some(libc::ESPIPE), Some(libc::EINVAL)]);
    }

    #[test]
    fn a_copy_of_a_zoned_device_is_known_by_its_table_or_its_superblock() {
        let is_known = |bytes: &[u8], length: u64| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(length).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            is_of_zones(&file)
        };
        assert!(is_known(b"SMRzones", 4096) && is_known(b"SMRfs\r\n\0", 4096));
        assert!(!is_known(b"", 4096) && !is_known(b"SMRdisk\0", 4096));
        assert!(!is_known(b"SMRzones", 4095) && !is_known(b"", 0));
    }

    /// Devices come and go; what else lies below /dev is memory that somebody has mounted there.
    #[test]
    fn no_image_is_made_among_the_nodes_of_devices() {
        let said = ImageTarget::for_path(Path::new("/dev/no-such-disk")).unwrap_err().to_string();
        assert!(said.contains("/dev/no-such-disk: there is no such device"), "{said}");
        for path in ["/dev/shm/no-such-image", "/no-such-image", "no-such-image", "/no-such-folder/image"] {
            assert_eq!(ImageTarget::for_path(Path::new(path)).unwrap(), ImageTarget::Missing, "{path}");
        }
    }

    #[test]
    fn an_image_is_blank_if_its_first_mebibyte_is_zeros() {
        let is_blank = |at: Option<u64>, length: u64| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(length).unwrap();
            at.into_iter().for_each(|at| file.write_all_at(&[1], at).unwrap());
            super::is_blank(&file).unwrap()
        };
        assert!(
            is_blank(None, 0) && is_blank(None, 5000) && is_blank(None, 2 << 20) && is_blank(Some(1 << 20), 2 << 20)
        );
        assert!(!is_blank(Some(0), 2 << 20) && !is_blank(Some((1 << 20) - 1), 2 << 20) && !is_blank(Some(4999), 5000));
    }
}
