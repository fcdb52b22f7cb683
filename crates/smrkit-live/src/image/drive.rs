//! Creates and opens images as host-managed disks.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smrfs::device::caveat::CaveatScriptor;
use smrfs::device::strict::StrictAppend;
use smrfs::device::zoned::is_table;
use smrfs::device::{HostManaged, Model, Shape};
use smrfs::superblock::{Superblock, SuperblockError};
use smrfs::units::GRANULE_BYTES;

use super::head::{self, NoHead};
use super::{Image, ImageTarget, bytes_for, head_bytes, open_alone, parent};
use crate::contents::is_zero;
use crate::error::LiveError;

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

fn disk(image: Image, cursors: &[smrfs::units::Granule]) -> Result<Arc<dyn HostManaged>, LiveError> {
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
    use super::*;

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
