//! The interface of ublk (`linux/ublk_cmd.h`, Linux 6.6): commands to the control device, and one queue of requests. All of ublk's `unsafe`
//! code is here.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The control device.
pub const CONTROL: &str = "/dev/ublk-control";

/// Feature: the server copies data by reading and writing the device, which zones need.
pub const USER_COPY: u64 = 1 << 7;
/// Feature: the device has zones.
pub const ZONED: u64 = 1 << 8;
/// Feature: commands are encoded like an `ioctl`. A kernel may be built without the other encoding.
pub const ENCODED: u64 = 1 << 6;

/// A command to the control device: the number of an `ioctl` with a structure of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Control {
    Features = control(READ, 0x13),
    Info = control(READ, 0x02),
    Add = control(READ | WRITE, 0x04),
    SetParameters = control(READ | WRITE, 0x08),
    Start = control(READ | WRITE, 0x06),
    Stop = control(READ | WRITE, 0x07),
    Delete = control(READ | WRITE, 0x05),
}

const WRITE: u32 = 1;
const READ: u32 = 2;

const fn encoded(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

const fn control(direction: u32, number: u32) -> u32 {
    encoded(direction, number, 32)
}

/// Fetches the first request of a tag; completes a request and fetches the next one.
const FETCH: u32 = encoded(READ | WRITE, 0x20, 16);
const COMMIT_AND_FETCH: u32 = encoded(READ | WRITE, 0x21, 16);

/// The control device. Long commands run on a thread of the kernel.
pub struct ControlDevice {
    file: File,
    ring: IoUring<squeue::Entry128>,
    /// Results of commands that have ended.
    ended: Vec<(u64, i32)>,
}

/// Failure to open the control device, or to create an io_uring for its commands.
pub enum OpenError {
    Device(io::Error),
    Ring(io::Error),
}

impl ControlDevice {
    pub fn open() -> Result<ControlDevice, OpenError> {
        let file = File::options().read(true).write(true).open(CONTROL).map_err(OpenError::Device)?;
        let ring = IoUring::builder().build(8).map_err(OpenError::Ring)?;
        Ok(ControlDevice { file, ring, ended: Vec::new() })
    }

    /// Begins a command without a buffer. [`ControlDevice::ended`] returns its result.
    pub fn begin(&mut self, command: Control, device: u32, argument: u64) -> io::Result<()> {
        self.push(command, device, argument, (0, 0))?;
        self.ring.submit().map(drop)
    }

    /// Executes a command that reads and writes `buffer`.
    pub fn execute(&mut self, command: Control, device: u32, buffer: &mut [u8]) -> io::Result<()> {
        self.push(command, device, 0, (buffer.as_mut_ptr() as u64, buffer.len() as u16))?;
        loop {
            if let Some(result) = self.ended(command) {
                return result;
            }
            // After an error, such as a signal, the kernel may still use the buffer, so this must not return.
            let _ = self.ring.submit_and_wait(1);
        }
    }

    /// The result of a command, if it has ended.
    pub fn ended(&mut self, command: Control) -> Option<io::Result<()>> {
        self.ended.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        let at = self.ended.iter().position(|(own, _)| *own == command as u64)?;
        let (_, result) = self.ended.swap_remove(at);
        Some(if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) })
    }

    /// Queues a `struct ublksrv_ctrl_cmd`.
    #[allow(unsafe_code)]
    fn push(&mut self, command: Control, device: u32, argument: u64, buffer: (u64, u16)) -> io::Result<()> {
        let mut words = [0; 80];
        words[..4].copy_from_slice(&device.to_ne_bytes());
        // The command is not for a particular queue.
        words[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        words[6..8].copy_from_slice(&buffer.1.to_ne_bytes());
        words[8..16].copy_from_slice(&buffer.0.to_ne_bytes());
        words[16..24].copy_from_slice(&argument.to_ne_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), command as u32).cmd(words).build();
        // SAFETY: only `execute` passes a buffer, which it borrows until the command has ended.
        unsafe { self.ring.submission().push(&entry.user_data(command as u64)) }.map_err(io::Error::other)
    }
}

impl AsFd for ControlDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Each tag's data has a buffer of 2^`BUFFER_BITS` bytes in the device file's address space, from `BUFFERS` on.
const BUFFER_BITS: u64 = 25;
const BUFFERS: u64 = 0x8000_0000;
/// Bytes of a `struct ublksrv_io_desc`.
const DESCRIPTOR_BYTES: usize = 24;

/// A request, from its descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub op: u8,
    /// The bits above the operation.
    pub flags: u32,
    /// Number of sectors; of zones in a report.
    pub count: u32,
    pub sector: u64,
}

/// The only queue of a device. Each tag has a request in progress, or waits for one.
pub struct RequestQueue {
    file: File,
    ring: IoUring,
    descriptors: NonNull<u8>,
    depth: u16,
}

// SAFETY: the mapping belongs to the queue alone, whichever thread has it.
#[allow(unsafe_code)]
unsafe impl Send for RequestQueue {}

impl RequestQueue {
    /// The queue of a device, from its file.
    #[allow(unsafe_code)]
    pub fn new(file: File, depth: u16) -> io::Result<RequestQueue> {
        let ring = IoUring::new(depth.into())?;
        let bytes = mapped_bytes(depth);
        // SAFETY: a new mapping, of memory that only the kernel writes.
        let mapped = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &file, 0) }?;
        let descriptors = NonNull::new(mapped.cast()).ok_or(Errno::NOMEM)?;
        Ok(RequestQueue { file, ring, descriptors, depth })
    }

    /// Fetches the first request of every tag. The kernel takes this thread as the server from now on.
    pub fn fetch(&mut self) -> io::Result<()> {
        for tag in 0..self.depth {
            self.push(FETCH, tag, 0, 0)?;
        }
        self.send()
    }

    /// Completes a request with a number of bytes, or a negative error number. A zone append also returns its sector.
    pub fn commit(&mut self, tag: u16, result: i32, sector: u64) -> io::Result<()> {
        self.push(COMMIT_AND_FETCH, tag, result, sector)
    }

    /// Submits the queued entries to the kernel.
    pub fn send(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    /// Tags for which the kernel has sent something: a request (true), or the end of requests (false).
    pub fn receive(&mut self) -> Vec<(u16, bool)> {
        self.ring.completion().map(|entry| (entry.user_data() as u16, entry.result() == 0)).collect()
    }

    /// The request of a tag.
    #[allow(unsafe_code)]
    pub fn descriptor(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        let at = usize::from(tag) * DESCRIPTOR_BYTES;
        // SAFETY: one of `depth` descriptors, within the mapping and aligned to 8 bytes. The kernel has written it before it told of the
        // request, and leaves it alone until that is committed.
        let [operation, sector, _] = unsafe { self.descriptors.add(at).cast::<[u64; 3]>().read_volatile() };
        let [a, b, c, d, e, f, g, h] = operation.to_ne_bytes();
        let flags = u32::from_ne_bytes([a, b, c, d]);
        Descriptor { op: flags as u8, flags: flags & !0xff, count: u32::from_ne_bytes([e, f, g, h]), sector }
    }

    /// Fills `bytes` from the data of a request.
    pub fn read(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, buffer(tag))
    }

    /// Writes `bytes` as the data of a request.
    pub fn write(&self, tag: u16, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, buffer(tag))
    }

    /// Queues a `struct ublksrv_io_cmd`.
    #[allow(unsafe_code)]
    fn push(&mut self, command: u32, tag: u16, result: i32, sector: u64) -> io::Result<()> {
        let mut words = [0; 16];
        words[2..4].copy_from_slice(&tag.to_ne_bytes());
        words[4..8].copy_from_slice(&result.to_ne_bytes());
        words[8..].copy_from_slice(&sector.to_ne_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.file.as_raw_fd()), command).cmd(words).build();
        // SAFETY: the command refers to no memory: with USER_COPY the address is unused, or the sector of an append.
        unsafe { self.ring.submission().push(&entry.user_data(tag.into())) }.map_err(io::Error::other)
    }
}

impl AsFd for RequestQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl Drop for RequestQueue {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, which ends with its only owner.
        let _ = unsafe { munmap(self.descriptors.as_ptr().cast(), mapped_bytes(self.depth)) };
    }
}

fn buffer(tag: u16) -> u64 {
    BUFFERS + (u64::from(tag) << BUFFER_BITS)
}

fn mapped_bytes(depth: u16) -> usize {
    (usize::from(depth) * DESCRIPTOR_BYTES).next_multiple_of(rustix::param::page_size())
}
