//! A zoned block device in memory that enforces its rules: whatever breaks one is refused and remembered.
//!
//! Its blocks lie in [`Memory`] behind a volatile write cache. A power cut leaves a first part of what was appended to each
//! zone, cut at any block, and in conventional zones any of the blocks.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use smrfs::data::{Data, ReadBuffer};
use smrfs::device::Platters;
use smrfs::device::zoned::{Zone, ZoneKind, ZonedDevice, ZonedGeometry};
use smrfs::device::{BandState, Bands, Model, Shape};
use smrfs::error::{DeviceError, DeviceResult};
use smrfs::testing::memory::Power;
use smrfs::testing::memory::{Memory, WriteLoss};
use smrfs::units::Granule;
use smrkit::tally::Cause;
use smrkit::units::Nanos;

/// Properties of an emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedZones {
    /// Number of zones, and bytes.
    pub geometry: ZonedGeometry,
    /// Number of conventional zones, the first ones.
    pub conventional: u64,
    /// Blocks of a sequential zone that can be written.
    pub capacity_blocks: u64,
}

/// A zoned block device in memory.
pub struct Emulated {
    zones: EmulatedZones,
    memory: Memory,
    state: Mutex<EmulatedState>,
}

struct EmulatedState {
    /// Blocks written in each sequential zone.
    written: Vec<u64>,
    /// Zones that are read-only or offline.
    lost: BTreeMap<u64, BandState>,
    /// Number of blocks after which the next write fails.
    failing: Option<u64>,
    /// Resets to come that fail.
    failing_resets: u64,
    refused: Vec<String>,
}

impl EmulatedZones {
    fn zone_blocks(&self) -> u64 {
        self.geometry.zone_bytes / self.geometry.block_bytes
    }

    /// The sequential zones, then the conventional ones: so a cut tears the former as bands, the latter anywhere.
    fn shape(&self) -> Shape {
        let ZonedGeometry { zones, block_bytes, .. } = self.geometry;
        let (granules, pitch) = (self.capacity_blocks, self.zone_blocks());
        let gap_granules = pitch - granules;
        let bands = Bands { count: zones - self.conventional, granules, gap_granules, max_open: zones };
        let granules = zones * pitch;
        Shape { model: Model::StrictAppend, granule_bytes: block_bytes, granules, did: 0, dpid: 0, bands }
    }
}

impl Emulated {
    /// A device with nothing on it, which keeps every operation for [`Emulated::survivor`].
    pub fn new(zones: EmulatedZones, power: Arc<Power>) -> Emulated {
        Emulated::holding(zones, Memory::recording(&zones.shape(), power))
    }

    fn holding(zones: EmulatedZones, memory: Memory) -> Emulated {
        let pitch = zones.zone_blocks();
        let written = (0..).zip(memory.cursors()).map(|(zone, cursor)| cursor.0 - zone * pitch).collect();
        let state =
            EmulatedState { written, lost: BTreeMap::new(), failing: None, failing_resets: 0, refused: Vec::new() };
        Emulated { zones, memory, state: Mutex::new(state) }
    }

    /// The device as it is after the power has failed at operation `cut`, as [`Memory::survivor`] has it.
    pub fn survivor(&self, cut: u64, loss: WriteLoss, seed: u64, power: Arc<Power>) -> Emulated {
        Emulated::holding(self.zones, self.memory.survivor(cut, loss, seed, power, true))
    }

    /// Requests that broke a rule so far, in words.
    pub fn refused(&self) -> Vec<String> {
        self.state.lock().refused.clone()
    }

    /// The next write fails after `blocks` of it.
    pub fn fail_next_write(&self, blocks: u64) {
        self.state.lock().failing = Some(blocks);
    }

    /// The next `count` resets fail.
    pub fn fail_resets(&self, count: u64) {
        self.state.lock().failing_resets = count;
    }

    /// Takes a zone out of service: `ReadOnly` or `Offline`.
    pub fn lose(&self, zone: u64, state: BandState) {
        self.state.lock().lost.insert(zone, state);
    }

    fn refuse<T>(&self, state: &mut EmulatedState, what: String) -> DeviceResult<T> {
        state.refused.push(what.clone());
        Err(DeviceError::Io(io::Error::other(what)))
    }

    /// The place of byte `at` in memory, its zone, and its block there.
    fn place(&self, at: u64) -> (Granule, u64, u64) {
        let (zones, conventional) = (self.zones.geometry.zones, self.zones.conventional);
        let (zone, within) = (at / self.zones.geometry.zone_bytes, at % self.zones.geometry.zone_bytes);
        let slot = if zone < conventional { zones - conventional + zone } else { zone - conventional };
        let block = within / self.zones.geometry.block_bytes;
        (Granule(slot * self.zones.zone_blocks() + block), zone, block)
    }

    /// Blocks of a request; an error unless it is whole blocks of one zone.
    fn blocks(&self, state: &mut EmulatedState, at: u64, bytes: u64) -> DeviceResult<u64> {
        let ZonedGeometry { zones, zone_bytes, block_bytes, .. } = self.zones.geometry;
        let is_whole = at.is_multiple_of(block_bytes) && bytes.is_multiple_of(block_bytes) && bytes > 0;
        if !is_whole || at % zone_bytes + bytes > zone_bytes || at / zone_bytes >= zones {
            return self.refuse(state, format!("{bytes} bytes at {at} are no whole blocks of one zone"));
        }
        Ok(bytes / block_bytes)
    }

    fn append(&self, state: &mut EmulatedState, at: u64, bytes: &[u8]) -> DeviceResult {
        let count = self.blocks(state, at, bytes.len() as u64)?;
        let (place, zone, block) = self.place(at);
        let number = (zone - self.zones.conventional) as usize;
        let (written, capacity) = (state.written[number], self.zones.capacity_blocks);
        let active = state.written.iter().filter(|&&written| (1..capacity).contains(&written)).count() as u64;
        let most = self.zones.geometry.max_active;
        if block != written || block + count > capacity {
            return self.refuse(state, format!("{count} blocks at {block} of zone {zone}, written to {written}"));
        }
        if most > 0 && written == 0 && count < capacity && active >= most {
            return self.refuse(state, format!("zone {zone} with {active} active ones"));
        }
        let failing = state.failing.take();
        let done = failing.map_or(count, |blocks| blocks.min(count));
        if done > 0 {
            let part = &bytes[..(done * self.zones.geometry.block_bytes) as usize];
            let result = self.memory.write(place, Data::Bytes(part), Cause::Host);
            state.written[number] += done;
            result.and(self.memory.keep_cursor(number as u64, place + done))?;
        }
        if failing.is_some() { Err(DeviceError::Io(io::Error::other("a write that was to fail"))) } else { Ok(()) }
    }
}

impl ZonedDevice for Emulated {
    fn geometry(&self) -> ZonedGeometry {
        self.zones.geometry
    }

    fn report(&self, first: u64, count: u64) -> DeviceResult<Vec<Zone>> {
        let state = self.state.lock();
        let ZonedGeometry { zones, zone_bytes, block_bytes, .. } = self.zones.geometry;
        let report = |zone: u64| {
            let start = zone * zone_bytes;
            let lost = state.lost.get(&zone).copied();
            let Some(number) = zone.checked_sub(self.zones.conventional) else {
                let state = lost.unwrap_or(BandState::Empty);
                return Zone { kind: ZoneKind::Conventional, state, start, capacity: zone_bytes, pointer: start };
            };
            let (written, capacity) = (state.written[number as usize], self.zones.capacity_blocks);
            let by_pointer = match written {
                0 => BandState::Empty,
                _ if written == capacity => BandState::Full,
                _ => BandState::Open,
            };
            let pointer = if lost.is_some() { u64::MAX } else { start + written * block_bytes };
            let state = lost.unwrap_or(by_pointer);
            Zone { kind: ZoneKind::SequentialRequired, state, start, capacity: capacity * block_bytes, pointer }
        };
        Ok((first..zones.min(first.saturating_add(count))).map(report).collect())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> DeviceResult {
        let mut state = self.state.lock();
        let count = self.blocks(&mut state, at, bytes.len() as u64)?;
        let (place, zone, block) = self.place(at);
        let is_lost = state.lost.get(&zone) == Some(&BandState::Offline);
        let written = zone.checked_sub(self.zones.conventional).map(|number| state.written[number as usize]);
        if is_lost || written.is_some_and(|written| block + count > written) {
            return self.refuse(&mut state, format!("a read of {count} blocks at {block} of zone {zone}"));
        }
        self.memory.read(place, ReadBuffer::Bytes(bytes), Cause::Host)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> DeviceResult {
        let mut state = self.state.lock();
        self.blocks(&mut state, at, bytes.len() as u64)?;
        let (place, zone, _) = self.place(at);
        if state.lost.contains_key(&zone) {
            return Err(DeviceError::Io(io::Error::other(format!("zone {zone} is out of service"))));
        }
        match zone < self.zones.conventional {
            true => self.memory.write(place, Data::Bytes(bytes), Cause::Host),
            false => self.append(&mut state, at, bytes),
        }
    }

    fn reset(&self, zone: u64) -> DeviceResult {
        let mut state = self.state.lock();
        let number = zone.checked_sub(self.zones.conventional).filter(|_| zone < self.zones.geometry.zones);
        let Some(number) = number else { return self.refuse(&mut state, format!("a reset of zone {zone}")) };
        if state.lost.contains_key(&zone) || state.failing_resets > 0 {
            state.failing_resets = state.failing_resets.saturating_sub(1);
            return Err(DeviceError::Io(io::Error::other("a reset that was to fail")));
        }
        state.written[number as usize] = 0;
        self.memory.keep_cursor(number, Granule(number * self.zones.zone_blocks()))
    }

    fn flush(&self) -> DeviceResult {
        self.memory.flush_with(None)
    }

    fn now(&self) -> Nanos {
        self.memory.now()
    }
}
