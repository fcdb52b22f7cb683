//! Contents that a drive's commands carry: nothing, stamps that are verified, or bytes.

use std::io;
use std::ops::Range;

use super::LayeredDisk;
use super::command::Command;
use super::shadow::Shadow;
use crate::error::{DiskResult, Fault};
use crate::medium::{Buf, Stamp};
use crate::pages::Pages;
use crate::request::{Op, Request};
use crate::stats::outcome::PowerCut;
use crate::units::Nanos;

/// Contents of a drive's commands.
pub enum DriveContents {
    /// None: time is all that is asked for.
    None,
    /// In check mode: stamps that are verified, on platters that hold them.
    Checked(Box<DriveCheck>),
    /// Bytes of the host, on platters that hold them; and who knows of which sectors, unless whoever sends the commands does.
    Bytes(Option<Box<dyn HostSectors>>),
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

    /// Serves a request that carries `data`; what it reads goes there.
    #[inline(always)]
    pub(super) fn serve(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        match self {
            DriveContents::None => device.serve(request, &mut Buf::NoData),
            DriveContents::Checked(check) => check.serve(device, request, data),
            DriveContents::Bytes(_) | DriveContents::Stamps(_) => self.serve_carried(device, request, data),
        }
    }

    fn serve_carried(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        self.prepare(device, request, data);
        device.serve(request, data)?;
        self.note(request, data)
    }

    /// Serves writes together.
    pub(super) fn serve_together(&mut self, device: &mut LayeredDisk, commands: &mut [(Command, Nanos)]) -> DiskResult {
        if let DriveContents::Checked(check) = self {
            return check.serve_together(device, commands);
        }
        commands.iter_mut().for_each(|(command, _)| self.prepare(device, &command.request, &mut command.data));
        let requests: Vec<_> = commands.iter().map(|(command, _)| (&command.request, &command.data)).collect();
        device.serve_together(&requests)?;
        commands.iter_mut().try_for_each(|(command, _)| self.note(&command.request, &mut command.data))
    }

    /// Makes room for what a request reads, if it has none, and stamps for what it writes.
    fn prepare(&mut self, device: &LayeredDisk, request: &Request, data: &mut Buf) {
        let sectors = u64::from(request.sectors);
        match (self, request.op) {
            (DriveContents::Stamps(writes), Op::Write) => {
                *writes += 1;
                *data = Buf::Stamps((0..sectors).map(|i| Stamp::new(request.lba + i, *writes).0).collect());
            }
            (DriveContents::Stamps(_), Op::Read) => *data = device.disk.buf(sectors),
            (DriveContents::Bytes(_), Op::Read) => {
                if matches!(data, Buf::NoData) {
                    *data = Buf::Bytes(Vec::new());
                }
                data.room(sectors);
            }
            _ => {}
        }
    }

    /// Takes note of a request that was served with `data`.
    fn note(&mut self, request: &Request, data: &mut Buf) -> DiskResult {
        match self {
            DriveContents::Bytes(Some(sectors)) => sectors.note(request, data),
            _ => Ok(()),
        }
    }
}

impl DriveCheck {
    /// Serves writes together, and looks after them.
    fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        let requests: Vec<&Request> = commands.iter().map(|(command, _)| &command.request).collect();
        self.shadow.serve_together(&requests, |writes| device.serve_together(writes))?;
        self.shadow.after(device)?;
        commands.iter().for_each(|(command, _)| self.put(&command.request, &command.data));
        Ok(())
    }

    /// Serves a request, and looks after it.
    fn serve(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        self.shadow.serve(request, |buf| device.serve(request, buf))?;
        self.shadow.after(device)?;
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => *data = Buf::Stamps(self.contents.words(request.lba.0, sectors)),
            Op::Write => self.put(request, data),
            Op::Discard => self.contents.clear(request.lba.0..request.lba.0 + sectors),
            Op::Flush => {}
        }
        Ok(())
    }

    fn put(&mut self, request: &Request, data: &Buf) {
        if let Buf::Stamps(stamps) = data {
            self.contents.put(request.lba.0, stamps);
        }
    }
}
