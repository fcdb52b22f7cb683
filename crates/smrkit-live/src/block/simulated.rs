//! A served drive or array as the simulator has it.

use smrkit::device::{Contents, DriveContents, LayeredDisk, Served, bytes_of, words_of};
use smrkit::engine::system::{DriveRun, MemberRun};
use smrkit::error::{DiskResult, Error, Fault as DiskFault};
use smrkit::layer::Gauges;
use smrkit::medium::Buf;
use smrkit::power::Power;
use smrkit::request::{Op, Request};
use smrkit::units::Nanos;

use super::array::ServedArray;
use super::written::Written;

/// A drive or an array.
pub(super) enum Simulated {
    /// A drive, which serves one request after another.
    Drive(Box<LayeredDisk>),
    /// An array, whose drives work at the same time.
    Array(Box<ServedArray>),
}

impl Simulated {
    /// The drive or the array of `system`, with the drives that `build` makes, in order; of an array, commands carry `contents`, and
    /// what is begun in which part is kept in `bits`.
    pub(super) fn new(
        system: &MemberRun,
        contents: Contents,
        mut build: impl FnMut(&DriveRun) -> Result<(LayeredDisk, DriveContents), Error>,
        bits: Option<Written>,
    ) -> Result<Simulated, Error> {
        Ok(match system {
            MemberRun::Drive(run) => Simulated::Drive(Box::new(build(run)?.0)),
            MemberRun::Array(run) => Simulated::Array(Box::new(ServedArray::new(run, contents, build, bits)?)),
        })
    }

    /// Its drives, in order.
    pub(super) fn drives(&self) -> Vec<&LayeredDisk> {
        match self {
            Simulated::Drive(drive) => vec![drive],
            Simulated::Array(array) => array.drives(),
        }
    }

    pub(super) fn now(&self) -> Nanos {
        match self {
            Simulated::Drive(drive) => drive.now(),
            Simulated::Array(array) => array.now(),
        }
    }

    pub(super) fn gauges(&self) -> Gauges {
        match self {
            Simulated::Drive(drive) => drive.layer.gauges(),
            Simulated::Array(array) => array.array().gauges(),
        }
    }

    /// Lets time pass: what is due comes first, then what merely helps; tells whether an array's drives did anything.
    pub(super) fn idle_until(&mut self, time: Nanos) -> DiskResult<bool> {
        match self {
            Simulated::Drive(drive) => drive.idle_until(time).map(|()| false),
            Simulated::Array(array) => array.idle_until(time),
        }
    }

    /// Serves a request that came at `arrival`, alone, once the drive has been busy for `slow`.
    pub(super) fn serve_at(
        &mut self,
        request: &Request,
        (arrival, slow): (Nanos, Nanos),
        buf: &mut Buf,
    ) -> DiskResult<Served> {
        match self {
            Simulated::Drive(drive) => {
                delayed(drive, arrival, slow)?;
                drive.serve_at(request, arrival, buf)
            }
            Simulated::Array(array) => {
                let written = match (request.op, &*buf) {
                    (Op::Write, Buf::Bytes(bytes)) => words_of(bytes_of_request(request, bytes)),
                    _ => Vec::new(),
                };
                let (served, read) = array.serve_at(request, (arrival, slow), written)?;
                if let (Op::Read, Buf::Bytes(bytes)) = (request.op, buf) {
                    bytes[..read.len() * 8].copy_from_slice(&bytes_of(&read));
                }
                Ok(served)
            }
        }
    }

    /// Cuts the power with the next write to platters.
    pub(super) fn cut_power(&mut self, seed: u64) {
        match self {
            Simulated::Drive(drive) => drive.disk.cut_power(Power::new(vec![1], seed)),
            Simulated::Array(array) => array.cut_power(seed),
        }
    }

    /// The power comes back, and the layers rebuild their maps.
    pub(super) fn recover(&mut self) -> DiskResult {
        match self {
            Simulated::Drive(drive) => drive.recover(),
            Simulated::Array(array) => array.recover(),
        }
    }

    /// The image was used before, and not closed in good order; `host` knows what it holds.
    pub(super) fn recover_found(&mut self, host: &mut Written) -> DiskResult {
        match self {
            Simulated::Drive(drive) => drive.recover(),
            Simulated::Array(array) => array.recover_found(host),
        }
    }

    /// Switches the drive off in good order and on again.
    pub(super) fn restart(&mut self, system: &MemberRun) {
        let runs = system.drives();
        match self {
            Simulated::Drive(drive) => {
                drive.restart(&runs[0].drive);
                drive.disk.cut_power(Power::default());
            }
            Simulated::Array(array) => array.restart(&runs),
        }
    }

    /// Books of the layers, if they keep any.
    pub(super) fn books(&self) -> Option<Vec<u64>> {
        match self {
            Simulated::Drive(drive) => drive.layer.books(),
            Simulated::Array(array) => array.books(),
        }
    }

    /// Gives the layers what they had in their books.
    pub(super) fn take_books(&mut self, books: &[u64]) -> DiskResult {
        match self {
            Simulated::Drive(drive) => drive.layer.take_books(books),
            Simulated::Array(array) => array.take_books(books),
        }
    }
}

/// The bytes of `buf` that a request is for: it may be longer.
fn bytes_of_request<'a>(request: &Request, buf: &'a [u8]) -> &'a [u8] {
    &buf[..request.sectors as usize * smrkit::units::SECTOR_BYTES as usize]
}

/// Lets a drive be busy for `span` before it serves a request that came at `arrival`.
fn delayed(device: &mut LayeredDisk, arrival: Nanos, span: Nanos) -> DiskResult {
    if span > Nanos::ZERO {
        device.idle_until(arrival)?;
        let until = device.now() + span;
        device.disk.wait_until(until);
    }
    Ok(())
}

/// True if a planned cut of the power ended what was done.
pub(super) fn is_power_cut(fault: &DiskFault) -> bool {
    matches!(fault, DiskFault::PowerCut { .. })
}
