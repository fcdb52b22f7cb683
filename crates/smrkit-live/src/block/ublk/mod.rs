//! A Linux block device that is served by this process (ublk, from Linux 6.5 on; zones from 6.6 on). Unlike NBD it can have zones, and
//! presents a rotational disk with sectors of 4,096 bytes.
//!
//! The kernel sends requests through a queue of the same depth as a SATA disk's. This process copies their data by reads and writes of the
//! device's file. Starting and stopping the device are asynchronous: requests arrive meanwhile, because the kernel looks for partitions
//! before the device has started, and writes back its page cache before it has stopped.

mod kernel;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use smrkit::device::{MemberDrive, NCQ_COMMANDS};
use smrkit::layer::{HostZones, ZoneAction, ZoneCondition, ZoneLimits};
use smrkit::quantity::Bytes;
use smrkit::units::SECTOR_BYTES;

use super::drive::{self, Command, CommandError, CommandKind, ServedDrive};
use super::pace::timespec;
use crate::error::LiveError;
use kernel::{Control, ControlDevice, Descriptor, OpenError, RequestQueue};

/// Requests at a time.
const DEPTH: u16 = NCQ_COMMANDS as u16;
/// Bytes of the longest request (assumption).
const LONGEST_BYTES: u32 = 1 << 20;
/// Sectors of the longest discard: 1 GiB (assumption).
const DISCARD_SECTORS: u32 = 1 << 21;
/// How long to wait for the device's file to appear, and for a deleted device to go away.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of checks for that, if nothing else wakes the server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Marks a device as smrkit's, in the part of its flags that the kernel leaves to the server.
const OWNER_MAGIC: &[u8; 4] = b"smrk";
/// Bytes of a `struct blk_zone`.
const ZONE_BYTES: usize = 64;

type Ready = Box<dyn FnOnce(&Path) + Send>;

/// A ublk device.
pub struct UblkDevice {
    control: ControlDevice,
    number: u32,
    /// `None` before the start, and after the end.
    queue: Option<RequestQueue>,
    /// Tags whose requests are not handled yet.
    pending_tags: VecDeque<u16>,
    /// For each tag, whether its request is an append.
    appends: [bool; DEPTH as usize],
    limits: Option<ZoneLimits>,
    bytes: u64,
    state: DeviceState,
    /// Called with the device's path when it can be opened.
    ready: Option<Ready>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceState {
    Added,
    Starting,
    Started,
    Stopping,
    Stopped,
}

impl UblkDevice {
    /// Adds a device for `drive`, with its zones if it has any. `ready` is called with the device's path when it can be opened.
    pub fn new(drive: &ServedDrive, ready: impl FnOnce(&Path) + Send + 'static) -> Result<UblkDevice, LiveError> {
        let failed = |problem: String| LiveError::image(&drive.image.path, problem);
        let limits = checked_limits(drive).map_err(failed)?;
        let mut control = open_control(limits.is_some()).map_err(failed)?;
        remove_dead(&mut control);
        let mut added = device_info(needed_features(limits.is_some()));
        control
            .execute(Control::Add, u32::MAX, &mut added)
            .map_err(|error| failed(format!("no block device: {error}")))?;
        let number = u32::from_ne_bytes([added[12], added[13], added[14], added[15]]);
        let (bytes, state) = (drive.image.sectors() * SECTOR_BYTES, DeviceState::Added);
        let (queue, pending_tags, appends) = (None, VecDeque::new(), [false; DEPTH as usize]);
        let ready = Some(Box::new(ready) as Ready);
        let mut device = UblkDevice { control, number, queue, pending_tags, appends, limits, bytes, state, ready };
        let mut parameters = parameters(bytes / SECTOR_BYTES, drive.image.is_read_only, limits);
        let made = device.control.execute(Control::SetParameters, number, &mut parameters);
        made.map_err(|error| failed(format!("the kernel takes no such block device: {error}")))?;
        Ok(device)
    }

    /// The block device.
    fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.number).into()
    }

    /// Begins to serve, on this thread.
    pub(super) fn start(&mut self) -> io::Result<()> {
        let mut queue = RequestQueue::new(self.open()?, DEPTH)?;
        queue.fetch()?;
        self.queue = Some(queue);
        self.state = DeviceState::Starting;
        self.control.begin(Control::Start, self.number, std::process::id().into())
    }

    /// Opens the file of the queue, which appears once udev or the kernel has made it.
    fn open(&self) -> io::Result<File> {
        let (path, until) = (format!("/dev/ublkc{}", self.number), Instant::now() + DEVICE_TIMEOUT);
        loop {
            match File::options().read(true).write(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(io::Error::new(error.kind(), format!("{path}: {error}"))),
                opened => return opened,
            }
        }
    }

    /// Asks the kernel to remove the device. It first writes back its page cache.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        match self.state {
            DeviceState::Starting | DeviceState::Started => {
                self.state = DeviceState::Stopping;
                self.control.begin(Control::Stop, self.number, 0)
            }
            _ => Ok(()),
        }
    }

    /// True if the kernel sends no more requests.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, DeviceState::Added | DeviceState::Stopped)
    }

    /// Adds the descriptors to wait for.
    pub(super) fn wait_for<'a>(&'a self, files: &mut Vec<PollFd<'a>>) {
        let queue = self.queue.as_ref().map(AsFd::as_fd);
        let all = [Some(self.control.as_fd()), queue];
        files.extend(
            all.into_iter().flatten().map(|file: BorrowedFd<'a>| PollFd::from_borrowed_fd(file, PollFlags::IN)),
        );
    }

    /// Receives messages of the kernel. Errors: the device could not be started or stopped.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        for (tag, is_request) in self.queue.iter_mut().flat_map(RequestQueue::receive) {
            match is_request {
                true => self.pending_tags.push_back(tag),
                // The device would never start.
                false if self.state == DeviceState::Starting => {
                    return Err(io::Error::other("the kernel refuses to hand out requests"));
                }
                false => {}
            }
        }
        if self.state == DeviceState::Starting
            && let Some(started) = self.control.ended(Control::Start)
        {
            self.state = if started.is_ok() { DeviceState::Started } else { DeviceState::Stopped };
            started.map_err(|error| {
                io::Error::new(error.kind(), format!("{} could not begin: {error}", self.path().display()))
            })?;
            if let Some(ready) = self.ready.take() {
                ready(&self.path());
            }
        }
        if self.state == DeviceState::Stopping
            && let Some(stopped) = self.control.ended(Control::Stop)
        {
            self.state = DeviceState::Stopped;
            return stopped;
        }
        Ok(())
    }

    /// The next request as a command. Reports of zones are answered here.
    pub(super) fn next(&mut self, zones: Option<&dyn HostZones>) -> Option<Command> {
        while let Some(tag) = self.pending_tags.pop_front() {
            let descriptor = self.queue.as_ref()?.descriptor(tag);
            self.appends[usize::from(tag)] = false;
            if descriptor.op == op::REPORT_ZONES {
                let result = self.report(tag, &descriptor, zones);
                self.commit(tag, result.map_err(|_| Errno::IO), 0);
                continue;
            }
            match self.command(tag, &descriptor, zones) {
                Ok(command) => return Some(command),
                Err(error) => self.commit(tag, Err(error), 0),
            }
        }
        None
    }

    fn command(&mut self, tag: u16, descriptor: &Descriptor, zones: Option<&dyn HostZones>) -> Result<Command, Errno> {
        let zone_bytes = self.limits.map_or(0, |limits| limits.zone_sectors * SECTOR_BYTES);
        // The sector of a flush is u64::MAX.
        let (offset, bytes) =
            (descriptor.sector.saturating_mul(SECTOR_BYTES), u64::from(descriptor.count) * SECTOR_BYTES);
        let (kind, offset, bytes) = match descriptor.op {
            op::READ => (CommandKind::Read, offset, bytes),
            op::WRITE => (CommandKind::Write, offset, bytes),
            op::FLUSH => (CommandKind::Flush, 0, 0),
            op::DISCARD => (CommandKind::Trim, offset, bytes),
            op::WRITE_ZEROES => (CommandKind::WriteZeroes, offset, bytes),
            op::ZONE_APPEND => (CommandKind::ZoneAppend, offset, bytes),
            op::ZONE_OPEN => (CommandKind::Zone(ZoneAction::Open), offset, zone_bytes),
            op::ZONE_CLOSE => (CommandKind::Zone(ZoneAction::Close), offset, zone_bytes),
            op::ZONE_FINISH => (CommandKind::Zone(ZoneAction::Finish), offset, zone_bytes),
            op::ZONE_RESET => (CommandKind::Trim, offset, zone_bytes),
            op::ZONE_RESET_ALL => {
                let Range { start, end } = zones.map_or(0..0, sequential_zones);
                (CommandKind::Trim, start * zone_bytes, (end - start) * zone_bytes)
            }
            _ => return Err(Errno::OPNOTSUPP),
        };
        let mut command = Command::new(kind, offset, bytes, Vec::new());
        command.check(self.bytes, false).map_err(errno)?;
        if matches!(kind, CommandKind::Write | CommandKind::ZoneAppend) {
            command.data = vec![0; bytes as usize];
            let Some(queue) = &self.queue else { return Err(Errno::IO) };
            queue.read(tag, &mut command.data).map_err(|_| Errno::IO)?;
        }
        self.appends[usize::from(tag)] = kind == CommandKind::ZoneAppend;
        command.cookie = tag.into();
        command.fua = descriptor.flags & op::FUA != 0 && kind != CommandKind::Flush;
        command.no_hole = descriptor.flags & op::NO_UNMAP != 0;
        Ok(command)
    }

    /// Completes the request of a command.
    pub(super) fn reply(&mut self, command: &Command, result: Result<(), CommandError>) {
        let tag = command.cookie as u16;
        let result = match (result, &self.queue) {
            (Ok(()), Some(queue)) if command.kind == CommandKind::Read => {
                queue.write(tag, &command.data).map_err(|_| Errno::IO)
            }
            (result, _) => result.map_err(errno),
        };
        let is_append = std::mem::take(&mut self.appends[usize::from(tag)]);
        let sector = if is_append && result.is_ok() { command.offset / SECTOR_BYTES } else { 0 };
        let carries_data = matches!(command.kind, CommandKind::Read | CommandKind::Write);
        let bytes = if carries_data { command.bytes as i32 } else { 0 };
        self.commit(tag, result.map(|()| bytes), sector);
    }

    /// Answers a report zones.
    fn report(&self, tag: u16, descriptor: &Descriptor, zones: Option<&dyn HostZones>) -> io::Result<i32> {
        let (Some(zones), Some(queue)) = (zones, &self.queue) else { return Err(Errno::OPNOTSUPP.into()) };
        let limits = zones.limits();
        let first = descriptor.sector / limits.zone_sectors;
        let last = limits.zones.min(first + u64::from(descriptor.count));
        let report: Vec<u8> = (first..last).flat_map(|zone| zone_words(zones, zone)).collect();
        queue.write(tag, &report)?;
        // The kernel clamps the count to its buffer. With a smaller one it would ask again.
        Ok(i32::MAX)
    }

    fn commit(&mut self, tag: u16, result: Result<i32, Errno>, sector: u64) {
        let result = result.unwrap_or_else(|error| -error.raw_os_error());
        // Fails if the device is gone, and the request with it.
        let _ = self.queue.as_mut().map(|queue| queue.commit(tag, result, sector));
    }

    /// Sends replies.
    pub(super) fn send(&mut self) {
        let _ = self.queue.as_mut().map(RequestQueue::send);
    }

    /// Fails every request until the device has stopped.
    pub(super) fn end(&mut self) {
        let _ = self.stop();
        let until = Instant::now() + DEVICE_TIMEOUT;
        while !self.is_stopped() && Instant::now() < until {
            while let Some(tag) = self.pending_tags.pop_front() {
                self.commit(tag, Err(Errno::IO), 0);
            }
            self.send();
            let mut files = Vec::new();
            self.wait_for(&mut files);
            let _ = rustix::event::poll(&mut files, Some(&timespec(POLL_INTERVAL)));
            let _ = self.receive();
        }
        // Even after a timeout, so that dropping the device does not wait again.
        self.state = DeviceState::Stopped;
    }
}

impl Drop for UblkDevice {
    fn drop(&mut self) {
        self.end();
        // The kernel keeps the device as long as the queue is open.
        self.queue = None;
        delete(&mut self.control, self.number);
    }
}

/// Why no block device can be made here, with zones or without, and what to do.
pub fn lack_of_ublk(has_zones: bool) -> Option<String> {
    open_control(has_zones).err()
}

fn needed_features(has_zones: bool) -> u64 {
    kernel::USER_COPY | kernel::ENCODED | if has_zones { kernel::ZONED } else { 0 }
}

/// Opens the control device. Errors: what the kernel lacks for a block device, with zones or without.
fn open_control(has_zones: bool) -> Result<ControlDevice, String> {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let [release, disabled] = ["osrelease", "io_uring_disabled"].map(|name| setting(name).trim().to_string());
    let mut control = ControlDevice::open().map_err(|error| unavailable(&error, &release, &disabled))?;
    let mut features = [0; 8];
    // A kernel without this command has none of the needed features.
    let asked = control.execute(Control::Features, u32::MAX, &mut features);
    let features = if asked.is_ok() { u64::from_ne_bytes(features) } else { 0 };
    let needed = needed_features(has_zones);
    if features & needed != needed {
        let since = if has_zones { "6.6 on, built with CONFIG_BLK_DEV_ZONED" } else { "6.5 on" };
        let problem = format!("the ublk of Linux {release} lacks what a device of smrkit needs");
        return Err(format!("{problem}: take Linux from {since}"));
    }
    Ok(control)
}

fn errno(error: CommandError) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// Has the kernel delete a device. The kernel waits while the device is mounted, but this returns after `DEVICE_TIMEOUT`, because the kernel
/// then deletes the device at the unmount.
fn delete(control: &mut ControlDevice, number: u32) {
    let until = Instant::now() + DEVICE_TIMEOUT;
    let mut ended = control.begin(Control::Delete, number, 0).is_err();
    while !ended && Instant::now() < until {
        let mut files = [PollFd::new(control, PollFlags::IN)];
        let _ = rustix::event::poll(&mut files, Some(&timespec(POLL_INTERVAL)));
        ended = control.ended(Control::Delete).is_some();
    }
}

/// Deletes devices of killed servers of smrkit, which the kernel keeps.
fn remove_dead(control: &mut ControlDevice) {
    const DEAD: [u8; 2] = [0; 2];
    let names = fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("ublkc")?.parse().ok());
    let until = Instant::now() + DEVICE_TIMEOUT;
    for number in numbers.collect::<Vec<u32>>() {
        let mut info = [0; 64];
        while control.execute(Control::Info, number, &mut info).is_ok() && info[36..40] == *OWNER_MAGIC {
            let server = u32::from_ne_bytes([info[32], info[33], info[34], info[35]]);
            // A device that was added and never started counts as dead, too.
            if Path::new("/proc").join(server.to_string()).exists() {
                break;
            }
            if info[4..6] == DEAD {
                delete(control, number);
                break;
            }
            // The kernel takes a moment to notice that a server has died. A server in another container is alive, but not visible here.
            if Instant::now() >= until {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Operations and flags of a descriptor.
mod op {
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
    pub const ZONE_OPEN: u8 = 10;
    pub const ZONE_CLOSE: u8 = 11;
    pub const ZONE_FINISH: u8 = 12;
    pub const ZONE_APPEND: u8 = 13;
    pub const ZONE_RESET_ALL: u8 = 14;
    pub const ZONE_RESET: u8 = 15;
    pub const REPORT_ZONES: u8 = 18;
    pub const FUA: u32 = 1 << 13;
    pub const NO_UNMAP: u32 = 1 << 15;
}

/// The zone limits of a drive, if it has zones. Errors: why Linux can't have a block device with them.
fn checked_limits(drive: &ServedDrive) -> Result<Option<ZoneLimits>, String> {
    let Some(limits) = drive.zones().map(HostZones::limits) else { return Ok(None) };
    let sectors = drive.image.sectors();
    match () {
        // At most the longest discard, because that is a whole number of zones.
        () if !limits.zone_sectors.is_power_of_two() || limits.zone_sectors < 8 || limits.zone_sectors > drive::DISCARD_SECTORS => {
            let size = Bytes::of_sectors(limits.zone_sectors);
            Err(format!("its zones have {size}, and Linux takes powers of two from 4 KiB on, and smrkit up to 512 GiB: create it with another zoned.zone_bytes"))
        }
        () if sectors != limits.zones * limits.zone_sectors => {
            let (zones, size) = (limits.zones, Bytes::of_sectors(limits.zone_sectors));
            Err(format!("the image does not hold the drive's {zones} zones of {size}: make it with smrkit create"))
        }
        // The cache may write to the platters in another order.
        () if drive.model.device.drives().iter().any(MemberDrive::has_write_cache) => {
            Err("a host-managed drive that writes back its cache out of order would break its own rules: take one that keeps the order, as hc620".into())
        }
        () => Ok(Some(limits)),
    }
}

/// Says why ublk can't be used, given the release of Linux and the value of `kernel.io_uring_disabled`, and what to do.
fn unavailable(error: &OpenError, release: &str, disabled: &str) -> String {
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok()).unwrap_or_default();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let is_old = (number(parts.next()), number(parts.next())) < (6, 0);
    match error {
        OpenError::Device(error) if error.kind() == io::ErrorKind::NotFound && is_old => {
            format!("Linux {release} has no ublk: take one from 6.5 on, or from 6.6 on for zones")
        }
        OpenError::Device(error) => {
            let remedy = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load the module (modprobe ublk_drv); if there is none, take a kernel built with CONFIG_BLK_DEV_UBLK"
                }
                _ => "only root may make block devices: run it as root",
            };
            format!("{}: {error}: {remedy}", kernel::CONTROL)
        }
        OpenError::Ring(error) => {
            let remedy = match disabled {
                "1" | "2" => "it is switched off: sysctl kernel.io_uring_disabled=0",
                _ => {
                    "a container's filter may refuse it (docker's security option seccomp=unconfined lifts it), or the kernel lacks CONFIG_IO_URING"
                }
            };
            format!("io_uring, which ublk needs: {error}: {remedy}")
        }
    }
}

/// A `struct ublksrv_ctrl_dev_info`.
fn device_info(features: u64) -> [u8; 64] {
    let mut info = [0; 64];
    info[..2].copy_from_slice(&1u16.to_ne_bytes());
    info[2..4].copy_from_slice(&DEPTH.to_ne_bytes());
    info[8..12].copy_from_slice(&LONGEST_BYTES.to_ne_bytes());
    // The kernel chooses the number.
    info[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
    info[24..32].copy_from_slice(&features.to_ne_bytes());
    info[32..36].copy_from_slice(&std::process::id().to_ne_bytes());
    info[36..40].copy_from_slice(OWNER_MAGIC);
    info
}

/// A `struct ublk_params` of a rotational disk with a write cache and physical sectors of 4,096 bytes. With zones, logical sectors have that
/// size too, because a zone is written in whole physical sectors.
fn parameters(sectors: u64, is_read_only: bool, limits: Option<ZoneLimits>) -> [u8; 112] {
    const BASIC: u32 = 1;
    const DISCARD: u32 = 1 << 1;
    const ZONED: u32 = 1 << 3;
    const READ_ONLY: u32 = 1;
    const ROTATIONAL: u32 = 1 << 1;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    let mut words = [0; 112];
    let mut put = |at: usize, number: u32| words[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    let longest = LONGEST_BYTES / SECTOR_BYTES as u32;
    put(0, 112);
    put(4, BASIC | if limits.is_some() { ZONED } else { DISCARD });
    put(8, ROTATIONAL | VOLATILE_CACHE | FUA | if is_read_only { READ_ONLY } else { 0 });
    let logical = if limits.is_some() { 12 } else { 9 };
    // Binary logarithms of the logical and physical sector size, and of the optimal and minimum I/O size.
    put(12, u32::from_ne_bytes([logical, 12, 12, 12]));
    put(16, longest);
    match limits {
        Some(limits) => {
            put(20, limits.zone_sectors as u32);
            // The kernel refuses limits above the number of zones; 0 means unlimited.
            let known = |limit: u64| if limit > limits.zones { 0 } else { limit as u32 };
            put(76, known(limits.max_open));
            put(80, known(limits.max_active));
            put(84, longest.min(limits.zone_sectors as u32));
        }
        None => {
            put(44, 4096);
            put(48, DISCARD_SECTORS);
            put(52, DISCARD_SECTORS);
            // Extents per discard.
            put(56, 1);
        }
    }
    words[24..32].copy_from_slice(&sectors.to_ne_bytes());
    words
}

/// The zones that can be reset. The conventional zones of realms come after them.
fn sequential_zones(zones: &dyn HostZones) -> Range<u64> {
    let ZoneLimits { zones: count, conventional: first, .. } = zones.limits();
    let is_sequential = |zone: &u64| zones.report(*zone).condition != ZoneCondition::Conventional;
    first..(first..count).rfind(is_sequential).map_or(first, |last| last + 1)
}

/// A `struct blk_zone`.
fn zone_words(zones: &dyn HostZones, zone: u64) -> [u8; ZONE_BYTES] {
    let (limits, report) = (zones.limits(), zones.report(zone));
    let start = zone * limits.zone_sectors;
    let condition = match report.condition {
        ZoneCondition::Conventional => 0,
        ZoneCondition::Empty => 1,
        ZoneCondition::OpenedByWrite => 2,
        ZoneCondition::OpenedByCommand => 3,
        ZoneCondition::Closed => 4,
        ZoneCondition::Full => 14,
    };
    let kind = if report.condition == ZoneCondition::Conventional { 1 } else { 2 };
    let mut words = [0; ZONE_BYTES];
    for (at, number) in [(0, start), (8, limits.zone_sectors), (16, start + report.pointer), (32, limits.zone_sectors)]
    {
        words[at..at + 8].copy_from_slice(&number.to_ne_bytes());
    }
    (words[24], words[25]) = (kind, condition);
    words
}

#[cfg(test)]
mod tests {
    use smrkit::device::Device;
    use smrkit::experiment::system::{AskedCapacity, System, Systems};
    use smrkit::request::{Op, Request};
    use smrkit::settings::Settings;
    use smrkit::units::Lba;

    use super::*;
    use crate::block::model::Model;

    #[test]
    fn a_reset_of_all_zones_leaves_out_conventional_ones_on_both_sides() {
        for realm_zones in [0, 4] {
            let system = System::drive("hc620").layer("zoned").capacity(AskedCapacity::Sectors(20_000_000));
            let system = system.set("zoned.realm_zones", realm_zones).set("zoned.conventional_percent", 10);
            let planned = Systems::new(&system).unwrap().runs(&[Settings::default()], None).unwrap().pop().unwrap();
            let Device::Drive(drive) = Model::new(planned.system()).unwrap().device else { panic!("no array") };
            let zones = drive.device().layer.zones().unwrap();
            let (ZoneLimits { zones: all, zone_sectors: size, .. }, resettable) =
                (zones.limits(), sequential_zones(zones));
            assert_eq!(
                (resettable.start > 0, resettable.end < all),
                (true, realm_zones > 0),
                "{resettable:?} of {all}"
            );
            let reset = |numbers: Range<u64>| {
                let sectors = (numbers.end - numbers.start) * size;
                zones.check_request(&Request::new(Op::Discard, Lba(numbers.start * size), sectors as u32))
            };
            assert!(reset(resettable.clone()).is_ok());
            assert!(reset(resettable.start - 1..resettable.end).is_err());
            assert!(resettable.end == all || reset(resettable.start..resettable.end + 1).is_err());
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
        let device = |kind: io::ErrorKind| OpenError::Device(kind.into());
        let ring = |kind: io::ErrorKind| OpenError::Ring(kind.into());
        for (error, release, disabled, remedy) in [
            (device(NotFound), "5.15.0-91-generic", "", "Linux 5.15.0-91-generic has no ublk: take one from 6.5 on"),
            (device(NotFound), "6.1.0-18-amd64", "0", "modprobe ublk_drv"),
            (device(NotFound), "10.0", "", "CONFIG_BLK_DEV_UBLK"),
            (device(PermissionDenied), "6.8.0", "", "run it as root"),
            (ring(PermissionDenied), "6.8.0", "2", "sysctl kernel.io_uring_disabled=0"),
            (ring(PermissionDenied), "6.8.0", "1", "sysctl kernel.io_uring_disabled=0"),
            (ring(PermissionDenied), "6.8.0", "0", "a container's filter"),
            (ring(Unsupported), "6.5.0", "", "CONFIG_IO_URING"),
        ] {
            let said = unavailable(&error, release, disabled);
            assert!(said.contains(remedy), "{said}");
        }
    }
}
