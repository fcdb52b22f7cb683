//! A simulated drive's image as a plugin of nbdkit, for its filters: `nbdkit ./nbdkit-smrkit-plugin.so image=disk.img pace=real log=disk.log`.
//!
//! `smrkit serve` does more and costs less; this is for what only nbdkit has: TLS, copy on write, errors, rates. nbdkit owns the
//! threads, so commands are served as they come, each begun by the thread that brought it; with a pace that thread then waits until
//! the drive's clock says that the command has ended. What the drive does while idle it catches up on with the next command, at the
//! same drive time.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nbdkit::{Error, ExtentHandle, ExtentType, Flags, Result, Server, ThreadModel, plugin};
use parking_lot::Mutex;
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};
use smrkit_live::block::device::BlockDevice;
use smrkit_live::block::image::DriveImage;
use smrkit_live::block::log::LogWriter;
use smrkit_live::block::pace::{Pace, PacedClock};

/// Parameters, as nbdkit's command line has them.
static ASKED: Mutex<Asked> = Mutex::new(Asked { image: None, pace: Pace::Times(1.0), log: None, journal: true });
/// The drive; none before it is opened and after it is closed.
static DRIVE: Mutex<Option<Drive>> = Mutex::new(None);
/// The drive's clock, if it keeps pace.
static CLOCK: OnceLock<Option<PacedClock>> = OnceLock::new();

struct Asked {
    image: Option<PathBuf>,
    pace: Pace,
    log: Option<PathBuf>,
    journal: bool,
}

struct Drive {
    device: BlockDevice,
    /// Bytes on their way to or from the layer, which takes no others than its own.
    bytes: Vec<u8>,
}

/// A connection; all of them have the same drive.
struct Smrkit;

fn invalid(what: impl ToString) -> Error {
    Error::new(libc::EINVAL, what.to_string())
}

fn failed() -> Error {
    Error::new(libc::EIO, "the drive failed")
}

fn gone() -> Error {
    Error::new(libc::ESHUTDOWN, "the drive is closed")
}

/// The sectors in `bytes` bytes from `offset` on. Errors: no whole sectors.
fn sectors(offset: u64, bytes: usize) -> Result<(Lba, u32)> {
    if !offset.is_multiple_of(SECTOR_BYTES) || !(bytes as u64).is_multiple_of(SECTOR_BYTES) {
        return Err(invalid("not whole sectors of 512 bytes: add --filter=blocksize, and minblock=512"));
    }
    Ok((Lba(offset / SECTOR_BYTES), (bytes as u64 / SECTOR_BYTES) as u32))
}

/// Serves a request with the bytes that `before` puts in and `after` takes out, then waits for the drive's clock.
fn serve(request: &Request, before: impl FnOnce(&mut Vec<u8>), after: impl FnOnce(&[u8])) -> Result<()> {
    let clock = CLOCK.get().and_then(Option::as_ref);
    let arrival = clock.map(PacedClock::now);
    let ended = {
        let mut drive = DRIVE.lock();
        let Drive { device, bytes } = drive.as_mut().ok_or_else(gone)?;
        before(bytes);
        let mut buf = Buf::Bytes(std::mem::take(bytes));
        let arrival = arrival.unwrap_or(device.now());
        let served = device.serve(request, arrival, &mut buf);
        if let Buf::Bytes(used) = buf {
            *bytes = used;
        }
        let served = served.map_err(|_| failed())?;
        after(bytes);
        served.end
    };
    if let Some(clock) = clock {
        clock.sleep(ended);
    }
    Ok(())
}

fn open(asked: &Asked) -> std::result::Result<Drive, Box<dyn std::error::Error>> {
    let path = asked.image.as_deref().unwrap_or(Path::new(""));
    let image = DriveImage::open(path, asked.journal)?;
    let log = asked.log.as_deref().map(|log| LogWriter::open(log, &image.head().run)).transpose()?;
    let (device, _) = BlockDevice::open(image, log)?;
    Ok(Drive { device, bytes: Vec::new() })
}

impl Server for Smrkit {
    fn name() -> &'static str {
        "smrkit"
    }

    fn longname() -> Option<&'static str> {
        Some("a simulated shingled drive in an image")
    }

    fn version() -> Option<&'static str> {
        Some(smrkit::VERSION)
    }

    fn config_help() -> Option<&'static str> {
        Some(
            "image=FILE (made by smrkit create)\npace=none|real|X (default: real)\nlog=FILE (for smrkit replay)\n\
             journal=no (faster, but a crash of the host may lose what was flushed)",
        )
    }

    fn magic_config_key() -> Option<&'static str> {
        Some("image")
    }

    fn config(key: &str, value: &str) -> Result<()> {
        let mut asked = ASKED.lock();
        match key {
            // nbdkit changes its directory.
            "image" => asked.image = Some(std::path::absolute(value)?),
            "log" => asked.log = Some(std::path::absolute(value)?),
            "pace" => asked.pace = value.parse().map_err(invalid)?,
            "journal" => asked.journal = nbdkit::parse_bool(value)?,
            _ => return Err(invalid(format!("{key}: expected image, pace, log or journal"))),
        }
        Ok(())
    }

    fn config_complete() -> Result<()> {
        ASKED.lock().image.as_ref().map(drop).ok_or_else(|| invalid("image=FILE is missing: smrkit create makes one"))
    }

    // Before it goes into the background, so that what is wrong with the image is seen. There are no threads yet.
    fn get_ready() -> Result<()> {
        let drive = open(&ASKED.lock()).map_err(invalid)?;
        *DRIVE.lock() = Some(drive);
        Ok(())
    }

    fn after_fork() -> Result<()> {
        let from = DRIVE.lock().as_ref().map_or(Nanos::ZERO, |drive| drive.device.now());
        CLOCK.get_or_init(|| PacedClock::new(ASKED.lock().pace, from));
        Ok(())
    }

    fn unload() {
        let Some(Drive { device, .. }) = DRIVE.lock().take() else { return };
        let now = CLOCK.get().and_then(Option::as_ref).map_or(device.now(), PacedClock::now);
        if let Err(error) = device.close(now) {
            eprintln!("smrkit: {error}");
        }
    }

    fn thread_model() -> Result<ThreadModel> {
        Ok(ThreadModel::Parallel)
    }

    fn open(_readonly: bool) -> Result<Box<dyn Server>> {
        Ok(Box::new(Smrkit))
    }

    fn get_size(&self) -> Result<i64> {
        let drive = DRIVE.lock();
        Ok((drive.as_ref().ok_or_else(gone)?.device.image().export_sectors() * SECTOR_BYTES) as i64)
    }

    fn is_rotational(&self) -> Result<bool> {
        Ok(true)
    }

    fn can_multi_conn(&self) -> Result<bool> {
        Ok(true)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let (lba, count) = sectors(offset, buf.len())?;
        let bytes_read = buf.len();
        let room = |bytes: &mut Vec<u8>| bytes.resize(bytes_read.max(bytes.len()), 0);
        serve(&Request::new(Op::Read, lba, count), room, |bytes| buf.copy_from_slice(&bytes[..bytes_read]))
    }

    fn write_at(&self, buf: &[u8], offset: u64, _flags: Flags) -> Result<()> {
        let (lba, count) = sectors(offset, buf.len())?;
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.extend_from_slice(buf);
        };
        serve(&Request::new(Op::Write, lba, count), fill, |_| ())
    }

    fn flush(&self) -> Result<()> {
        serve(&Request::new(Op::Flush, Lba(0), 0), |_| (), |_| ())
    }

    fn trim(&self, count: u32, offset: u64, _flags: Flags) -> Result<()> {
        let (first, end) = (offset.div_ceil(SECTOR_BYTES), (offset + u64::from(count)) / SECTOR_BYTES);
        if first >= end {
            return Ok(());
        }
        serve(&Request::new(Op::Discard, Lba(first), (end - first) as u32), |_| (), |_| ())
    }

    fn extents(&self, count: u32, offset: u64, _flags: Flags, extents: &mut ExtentHandle) -> Result<()> {
        let mut drive = DRIVE.lock();
        let device = &mut drive.as_mut().ok_or_else(gone)?.device;
        let mut lba = offset / SECTOR_BYTES;
        let end = (offset + u64::from(count)).div_ceil(SECTOR_BYTES).min(device.image().export_sectors());
        for (sectors, is_hole) in device.extents(lba..end).map_err(|_| failed())? {
            let kind = if is_hole { ExtentType::HoleZero } else { ExtentType::Allocated };
            extents.add(lba * SECTOR_BYTES, sectors * SECTOR_BYTES, kind)?;
            lba += sectors;
        }
        Ok(())
    }
}

plugin!(Smrkit {
    config,
    config_complete,
    get_ready,
    after_fork,
    unload,
    thread_model,
    is_rotational,
    can_multi_conn,
    write_at,
    flush,
    trim,
    extents
});
