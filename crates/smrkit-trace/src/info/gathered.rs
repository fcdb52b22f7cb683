//! Gathering of one pass over a trace, and the statistics made of it at the end.

use super::heat::Heat;
use super::rate::Rate;
use super::sectors::SectorSet;
use super::sizes::SizeCounter;
use super::{Footprint, Sequential, TraceInfo, VolumeInfo};
use smrkit::request::{Op, Request};
use smrkit::units::SECTOR_BYTES;

/// Sectors in a 4 KiB block.
const BLOCK: u64 = 8;

pub(super) struct Gathered {
    info: TraceInfo,
    volumes: Vec<VolumeState>,
    read: SectorSet,
    written: SectorSet,
    read_sizes: SizeCounter,
    write_sizes: SizeCounter,
    heat: Heat,
    rate: Rate,
    followers: u64,
    longest_run_requests: u64,
    longest_run_bytes: u64,
}

#[derive(Default)]
struct VolumeState {
    info: VolumeInfo,
    /// The end of the request before, and the stretch that it ends.
    previous_end: Option<u64>,
    run_requests: u64,
    run_bytes: u64,
}

impl Gathered {
    pub(super) fn new() -> Gathered {
        Gathered {
            info: TraceInfo::default(),
            volumes: Vec::new(),
            read: SectorSet::default(),
            written: SectorSet::default(),
            read_sizes: SizeCounter::new(),
            write_sizes: SizeCounter::new(),
            heat: Heat::default(),
            rate: Rate::new(),
            followers: 0,
            longest_run_requests: 0,
            longest_run_bytes: 0,
        }
    }

    pub(super) fn count(&mut self, request: &Request) {
        let index = usize::from(request.volume);
        if index >= self.volumes.len() {
            self.volumes.resize_with(index + 1, VolumeState::default);
        }
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let volume = &mut self.volumes[index].info;
        volume.requests += 1;
        let mut new_sectors = 0;
        match request.op {
            Op::Read => {
                volume.reads += 1;
                volume.read_bytes += bytes;
                self.read_sizes.count(request.sectors);
                volume.read_footprint_sectors += self.read.insert(request.volume, request.lba.0, request.sectors);
            }
            Op::Write => {
                volume.writes += 1;
                volume.written_bytes += bytes;
                self.write_sizes.count(request.sectors);
                new_sectors = self.written.insert(request.volume, request.lba.0, request.sectors);
                volume.written_footprint_sectors += new_sectors;
            }
            Op::Flush => self.info.flushes += 1,
            Op::Discard => {
                self.info.discards += 1;
                self.info.discarded_bytes += bytes;
            }
        }
        self.rate.count(request, new_sectors);
        if matches!(request.op, Op::Read | Op::Write) {
            self.heat.count(request.volume, request.lba.0, request.op == Op::Write);
            self.follow(request, bytes);
        }
    }

    /// Takes note of a request; true if it continues the one before on its volume.
    fn follow(&mut self, request: &Request, bytes: u64) {
        let volume = &mut self.volumes[usize::from(request.volume)];
        let end = request.lba.0.saturating_add(u64::from(request.sectors));
        volume.info.highest_end_sectors = volume.info.highest_end_sectors.max(end);
        if volume.previous_end == Some(request.lba.0) {
            self.followers += 1;
        } else {
            (volume.run_requests, volume.run_bytes) = (0, 0);
        }
        volume.previous_end = Some(end);
        volume.run_requests += 1;
        volume.run_bytes += bytes;
        self.longest_run_requests = self.longest_run_requests.max(volume.run_requests);
        self.longest_run_bytes = self.longest_run_bytes.max(volume.run_bytes);
    }

    pub(super) fn finish(self, track_sectors: u64) -> TraceInfo {
        let sum = |of: fn(&VolumeInfo) -> u64| self.volumes.iter().map(|volume| of(&volume.info)).sum::<u64>();
        let ends: Vec<u64> = self.volumes.iter().map(|volume| volume.info.highest_end_sectors).collect();
        let (reads, writes) = (sum(|volume| volume.reads), sum(|volume| volume.writes));
        let (requests, written_bytes) = (sum(|volume| volume.requests), sum(|volume| volume.written_bytes));
        let read_bytes = sum(|volume| volume.read_bytes);
        let written_sectors = written_bytes / SECTOR_BYTES;
        // Sectors past 2^63 are in no set.
        let rewritten = written_sectors.saturating_sub(self.written.len());
        let (rate, arrivals) = self.rate.finish();
        TraceInfo {
            requests,
            reads,
            writes,
            write_share: share(writes, requests),
            read_bytes,
            written_bytes,
            highest_end_sectors: ends.iter().copied().max().unwrap_or(0),
            footprint: footprint(&self.read, &self.written),
            rewrite_share: share(rewritten, written_sectors),
            track_bytes: track_sectors * SECTOR_BYTES,
            written_tracks: self.written.pieces(track_sectors),
            read_sizes: self.read_sizes.finish(),
            write_sizes: self.write_sizes.finish(),
            sequential: Sequential {
                share: share(self.followers, reads + writes),
                runs: reads + writes - self.followers,
                mean_run_requests: share(reads + writes, reads + writes - self.followers),
                mean_run_bytes: share(read_bytes + written_bytes, reads + writes - self.followers),
                longest_run_requests: self.longest_run_requests,
                longest_run_bytes: self.longest_run_bytes,
            },
            arrivals,
            rate,
            hot_spots: self.heat.hot_spots(),
            surface: self.heat.surface(&ends),
            volumes: volumes(self.volumes),
            ..self.info
        }
    }
}

fn footprint(read: &SectorSet, written: &SectorSet) -> Footprint {
    Footprint {
        read_sectors: read.len(),
        written_sectors: written.len(),
        touched_sectors: read.len() + written.len() - read.overlap(written),
        read_4kib_blocks: read.pieces(BLOCK),
        written_4kib_blocks: written.pieces(BLOCK),
    }
}

fn volumes(states: Vec<VolumeState>) -> Vec<VolumeInfo> {
    let numbered = states.into_iter().zip(0_u16..=u16::MAX).map(|(state, index)| VolumeInfo {
        index,
        number: u64::from(index),
        ..state.info
    });
    numbered.filter(|volume| volume.requests > 0).collect()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
