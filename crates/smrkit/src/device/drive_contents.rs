//! Contents that a drive's commands carry: nothing, or stamps that are verified.

use super::LayeredDisk;
use super::command::Command;
use super::shadow::Shadow;
use crate::error::DiskResult;
use crate::medium::Buf;
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

    /// Serves a request that carries `data`; what it reads goes there.
    #[inline(always)]
    pub(super) fn serve(&mut self, device: &mut LayeredDisk, request: &Request, data: &mut Buf) -> DiskResult {
        match self {
            DriveContents::None => device.serve(request, &mut Buf::NoData),
            DriveContents::Checked(check) => check.serve(device, request, data),
        }
    }

    /// Serves writes together.
    pub(super) fn serve_together(&mut self, device: &mut LayeredDisk, commands: &[(Command, Nanos)]) -> DiskResult {
        if let DriveContents::Checked(check) = self {
            return check.serve_together(device, commands);
        }
        let requests: Vec<_> = commands.iter().map(|(command, _)| (&command.request, &command.data)).collect();
        device.serve_together(&requests)
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
