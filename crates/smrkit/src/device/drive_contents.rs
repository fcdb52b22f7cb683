//! Contents that a drive's commands carry: nothing, stamps that are verified, or bytes.

use std::io;
use std::ops::Range;

use super::LayeredDisk;
use super::command::{Command, SectorWords, Stamped};
use super::shadow::Shadow;
use crate::error::{DiskResult, Fault};
use crate::medium::{Buf, Stamp};
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::stats::outcome::PowerCut;
use crate::units::{Nanos, SECTOR_BYTES};

/// Contents of a drive's commands.
pub enum DriveContents {
    /// None: time is all that is asked for.
    None,
    /// In check mode: stamps that are verified, on platters that hold them.
    Checked(Box<DriveCheck>),
    /// Bytes of the host, on platters that hold them.
    Bytes(Box<dyn HostSectors>),
    /// Stamps of the drive's own, this many writes so far: its layer may have to find its maps on platters that hold them.
    Stamps(u64),
}

/// Contents that a drive is verified against in check mode.
#[derive(Default)]
pub struct DriveCheck {
    pub(super) shadow: Shadow,
    /// Contents of an array; nothing on a drive of its own, whose shadow knows all.
    pub(super) contents: Pages,
    /// The power cuts so far.
    pub(super) power_cuts: Vec<PowerCut>,
}

/// Knows which sectors of a drive hold anything of the host's. The others read as zeros, whatever the layer finds there.
pub trait HostSectors: Send {
    /// Takes note that the sectors in `range` were written.
    fn insert(&mut self, range: Range<u64>) -> io::Result<()>;

    /// Takes note that the sectors in `range` are of no use any more.
    fn remove(&mut self, range: Range<u64>) -> io::Result<()>;

    /// Makes zeros of what `bytes`, read from the sectors of `range`, hold of sectors that the host has not written.
    fn blank(&mut self, range: Range<u64>, bytes: &mut [u8]) -> io::Result<()>;

    /// Takes note of a request that was served with `buf`, and makes zeros in what it read.
    fn note(&mut self, request: &Request, buf: &mut Buf) -> DiskResult {
        let range = request.lba.0..request.end().0;
        let kept = match (request.op, buf) {
            (Op::Read, Buf::Bytes(bytes)) => self.blank(range, bytes),
            (Op::Write, _) => self.insert(range),
            (Op::Discard, _) => self.remove(range),
            _ => Ok(()),
        };
        kept.map_err(|error| Box::new(Fault::Io(error)))
    }
}

impl DriveContents {
    /// Contents of check mode, or none.
    pub fn new(check: bool) -> DriveContents {
        if check { DriveContents::Checked(Box::default()) } else { DriveContents::None }
    }

    pub(super) fn check(&mut self) -> Option<&mut DriveCheck> {
        match self {
            DriveContents::Checked(check) => Some(check),
            _ => None,
        }
    }

    /// True if whoever sends the commands is told of a power cut, and does what has to be done.
    pub(super) fn tells_of_power_cuts(&self) -> bool {
        matches!(self, DriveContents::Bytes(_) | DriveContents::Stamps(_))
    }

    /// Serves a request that carries `stamps`; what it reads goes there.
    #[inline(always)]
    pub(super) fn serve(&mut self, device: &mut LayeredDisk, request: &Request, stamps: &mut Stamped) -> DiskResult {
        match self {
            DriveContents::None => device.serve(request, &mut Buf::NoData),
            DriveContents::Checked(check) => check.serve(device, request, stamps),
            DriveContents::Bytes(_) | DriveContents::Stamps(_) => self.serve_carried(device, request, stamps),
        }
    }

    fn serve_carried(&mut self, device: &mut LayeredDisk, request: &Request, stamps: &mut Stamped) -> DiskResult {
        let mut buf = self.buf(device, request, &stamps.expected);
        device.serve(request, &mut buf)?;
        self.carried(request, &mut buf)?;
        if let (Op::Read, Buf::Bytes(bytes)) = (request.op, &buf) {
            stamps.found = words_of(bytes);
        }
        Ok(())
    }

    /// Serves writes together.
    pub(super) fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        if let DriveContents::Checked(check) = self {
            return check.serve_together(device, commands);
        }
        let mut bufs: Vec<Buf> =
            commands.iter().map(|(command, _)| self.buf(device, &command.request, &command.stamps)).collect();
        let requests: Vec<_> = commands.iter().map(|(command, _)| &command.request).zip(&bufs).collect();
        device.serve_together(&requests)?;
        commands.iter().zip(&mut bufs).try_for_each(|((command, _), buf)| self.carried(&command.request, buf))
    }

    /// The buffer of a request that carries `words`.
    fn buf(&mut self, device: &LayeredDisk, request: &Request, words: &[u64]) -> Buf {
        let sectors = u64::from(request.sectors);
        match (self, request.op) {
            (DriveContents::Stamps(writes), Op::Write) => {
                *writes += 1;
                Buf::Stamps((0..sectors).map(|i| Stamp::new(request.lba + i, *writes).0).collect())
            }
            (DriveContents::Bytes(_), Op::Write) => Buf::Bytes(bytes_of(words)),
            (DriveContents::Bytes(_), Op::Read) => Buf::Bytes(vec![0; (sectors * SECTOR_BYTES) as usize]),
            _ => device.disk.buf(sectors),
        }
    }

    /// A request was served with `buf`.
    fn carried(&mut self, request: &Request, buf: &mut Buf) -> DiskResult {
        match self {
            DriveContents::Bytes(sectors) => sectors.note(request, buf),
            _ => Ok(()),
        }
    }
}

/// Words of sectors' bytes.
pub fn words_of(bytes: &[u8]) -> SectorWords {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
}

/// Bytes of sectors' words.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl DriveCheck {
    /// Serves writes together, and looks after them.
    fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        let requests: Vec<&Request> = commands.iter().map(|(command, _)| &command.request).collect();
        self.shadow.serve_together(&requests, |writes| device.serve_together(writes))?;
        self.shadow.after(device)?;
        for (command, _) in commands {
            self.contents.put(command.request.lba.0, &command.stamps);
        }
        Ok(())
    }

    /// Serves a request, and looks after it.
    fn serve(&mut self, device: &mut LayeredDisk, request: &Request, stamps: &mut Stamped) -> DiskResult {
        self.shadow.serve(request, |buf| device.serve(request, buf))?;
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => stamps.found = self.contents.words(request.lba.0, sectors),
            Op::Write => self.contents.put(request.lba.0, &stamps.expected),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(())
    }
}
