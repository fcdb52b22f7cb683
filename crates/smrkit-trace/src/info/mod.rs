//! Statistics of a trace, in one pass: mix, footprint, sizes, sequentiality, arrivals, hot spots, tracks written.
//!
//! Everything is exact save the percentiles of gaps (0.01 %). Memory does not grow with the number of requests on the
//! same sectors: at most 156 MB for each of the sets of sectors read and written on 5 TB in aligned 4 KiB blocks, 40 MB
//! for hot spots. Unaligned requests take up to 8 bytes each and set, at most 1.25 GB for all of 5 TB.

mod heat;
mod rate;
mod sectors;

use std::collections::BTreeMap;

use serde::Serialize;
use smrkit::error::Error;
use smrkit::request::{Op, Request, Source};
use smrkit::units::SECTOR_BYTES;

pub use self::heat::{HotSpots, Surface};
pub use self::rate::{Arrivals, RateSeries};

use self::heat::Heat;
use self::rate::Rate;
use self::sectors::SectorSet;
use crate::row::Volume;

/// Statistics of a trace. Shares are 0 to 1, and null without a denominator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceInfo {
    /// Rows.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Writes / requests.
    pub write_share: Option<f64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// The largest end of a request, over all volumes.
    pub highest_end_sectors: u64,
    /// Distinct sectors.
    pub footprint: Footprint,
    /// Sectors written that the trace had written before / sectors written.
    pub rewrite_share: Option<f64>,
    /// The size of a track, as given.
    pub track_bytes: u64,
    /// Distinct tracks of this size that are written.
    pub written_tracks: u64,
    /// Sizes of reads.
    pub read_sizes: Sizes,
    /// Sizes of writes.
    pub write_sizes: Sizes,
    /// Requests that follow one another.
    pub sequential: Sequential,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// The course of time.
    pub rate: RateSeries,
    /// Skew of the accesses.
    pub hot_spots: HotSpots,
    /// Beginnings of requests.
    pub surface: Surface,
    /// The volumes that have requests, in the order of their indexes.
    pub volumes: Vec<VolumeInfo>,
}

/// Distinct sectors and blocks that a trace touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Sectors read at least once.
    pub read_sectors: u64,
    /// Sectors written at least once.
    pub written_sectors: u64,
    /// Sectors read or written.
    pub touched_sectors: u64,
    /// Aligned 4 KiB blocks that are read, in part or whole.
    pub read_4kib_blocks: u64,
    /// Aligned 4 KiB blocks that are written, in part or whole.
    pub written_4kib_blocks: u64,
}

/// Requests that follow one another: each begins where the one before on its volume ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sequential {
    /// Share of reads and writes that continue the one before.
    pub share: Option<f64>,
    /// Stretches of requests that continue one another; single requests are stretches of 1.
    pub runs: u64,
    /// Requests in a stretch, on average.
    pub mean_run_requests: Option<f64>,
    /// Bytes in a stretch, on average.
    pub mean_run_bytes: Option<f64>,
    /// The longest stretch, in requests.
    pub longest_run_requests: u64,
    /// The longest stretch, in bytes.
    pub longest_run_bytes: u64,
}

/// One volume of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeInfo {
    /// Its index in the trace's table.
    pub index: u16,
    /// The number that the trace gives it.
    pub number: u64,
    /// The name that the trace gives it; may be empty.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Distinct sectors read.
    pub read_footprint_sectors: u64,
    /// Distinct sectors written.
    pub written_footprint_sectors: u64,
    /// The largest end of a request.
    pub highest_end_sectors: u64,
}

/// The parameters of `TraceInfo::from_source`.
#[derive(Clone, Debug)]
pub struct InfoSettings {
    /// The size of a track, for `written_tracks`: 1 MiB, as in Vguard's figure 5 (which says 1 MB).
    pub track_bytes: u64,
}

impl Default for InfoSettings {
    fn default() -> InfoSettings {
        InfoSettings { track_bytes: 1 << 20 }
    }
}

impl TraceInfo {
    /// Reads `source` to its end. A reader knows its table of volumes only then: until `name_volumes`, each volume's number is its index.
    pub fn from_source(source: &mut dyn Source, settings: &InfoSettings) -> Result<TraceInfo, Error> {
        let track_sectors = settings.track_bytes / SECTOR_BYTES;
        if track_sectors == 0 {
            return Err(Error::Usage(format!("a track of {} bytes: give at least 512", settings.track_bytes)));
        }
        let mut gathered = Gathered::default();
        let mut batch = Vec::new();
        while source.fill_next(&mut batch)? {
            batch.iter().for_each(|request| gathered.count(request));
        }
        Ok(gathered.finish(track_sectors))
    }

    /// Gives the volumes the numbers and names of the trace's table.
    pub fn name_volumes(&mut self, table: &[Volume]) {
        for volume in &mut self.volumes {
            if let Some(entry) = table.get(usize::from(volume.index)) {
                (volume.number, volume.name) = (entry.number, entry.name.clone());
            }
        }
    }
}

/// Sectors in a 4 KiB block.
const BLOCK: u64 = 8;

/// The counts of a pass.
#[derive(Default)]
struct Gathered {
    info: TraceInfo,
    volumes: Vec<VolumeState>,
    read: SectorSet,
    written: SectorSet,
    /// Requests by their sectors.
    read_sizes: BTreeMap<u32, u64>,
    write_sizes: BTreeMap<u32, u64>,
    heat: Heat,
    rate: Rate,
    /// Reads and writes that begin where the one before on their volume ended.
    followers: u64,
}

#[derive(Default)]
struct VolumeState {
    info: VolumeInfo,
    /// The end of the previous request, and the stretch that it belongs to.
    previous_end: Option<u64>,
    run_requests: u64,
    run_bytes: u64,
}

impl Gathered {
    fn count(&mut self, request: &Request) {
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
                *self.read_sizes.entry(request.sectors).or_default() += 1;
                volume.read_footprint_sectors += self.read.insert(request.volume, request.lba.0, request.sectors);
            }
            Op::Write => {
                volume.writes += 1;
                volume.written_bytes += bytes;
                *self.write_sizes.entry(request.sectors).or_default() += 1;
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

    /// Counts the request among the sequential runs of its volume.
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
        let longest = &mut self.info.sequential;
        longest.longest_run_requests = longest.longest_run_requests.max(volume.run_requests);
        longest.longest_run_bytes = longest.longest_run_bytes.max(volume.run_bytes);
    }

    fn finish(self, track_sectors: u64) -> TraceInfo {
        let Gathered { read, written, followers, .. } = self;
        let sum = |of: fn(&VolumeInfo) -> u64| self.volumes.iter().map(|volume| of(&volume.info)).sum::<u64>();
        let ends: Vec<u64> = self.volumes.iter().map(|volume| volume.info.highest_end_sectors).collect();
        let (requests, reads, writes) = (sum(|volume| volume.requests), sum(|volume| volume.reads), sum(|v| v.writes));
        let (read_bytes, written_bytes) = (sum(|volume| volume.read_bytes), sum(|volume| volume.written_bytes));
        let written_sectors = written_bytes / SECTOR_BYTES;
        // Saturating, because sectors from 2^63 on are counted, but in no set.
        let rewritten = written_sectors.saturating_sub(written.len());
        let runs = reads + writes - followers;
        let (rate, arrivals) = self.rate.finish();
        let volumes = self.volumes.into_iter().zip(0..).map(|(state, index)| VolumeInfo {
            index,
            number: u64::from(index),
            ..state.info
        });
        TraceInfo {
            requests,
            reads,
            writes,
            write_share: share(writes, requests),
            read_bytes,
            written_bytes,
            highest_end_sectors: ends.iter().copied().max().unwrap_or(0),
            footprint: Footprint {
                read_sectors: read.len(),
                written_sectors: written.len(),
                touched_sectors: read.len() + written.len() - read.overlap(&written),
                read_4kib_blocks: read.pieces(BLOCK),
                written_4kib_blocks: written.pieces(BLOCK),
            },
            rewrite_share: share(rewritten, written_sectors),
            track_bytes: track_sectors * SECTOR_BYTES,
            written_tracks: written.pieces(track_sectors),
            read_sizes: Sizes::of(&self.read_sizes),
            write_sizes: Sizes::of(&self.write_sizes),
            sequential: Sequential {
                share: share(followers, reads + writes),
                runs,
                mean_run_requests: share(reads + writes, runs),
                mean_run_bytes: share(read_bytes + written_bytes, runs),
                ..self.info.sequential
            },
            arrivals,
            rate,
            hot_spots: self.heat.hot_spots(),
            surface: self.heat.surface(&ends),
            volumes: volumes.filter(|volume| volume.requests > 0).collect(),
            ..self.info
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The sizes of requests, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// The mean; null without requests.
    pub mean_bytes: Option<f64>,
    /// The smallest.
    pub min_bytes: u64,
    /// Half are no larger.
    pub p50_bytes: u64,
    /// 90 % are no larger.
    pub p90_bytes: u64,
    /// 99 % are no larger.
    pub p99_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
    /// (bytes at most, requests), by powers of two, empty ones left out.
    pub histogram: Vec<(u64, u64)>,
    /// The most common sizes, (bytes, requests), most common first.
    pub common: Vec<(u64, u64)>,
}

impl Sizes {
    /// The sizes of requests that were counted by their sectors.
    fn of(counts: &BTreeMap<u32, u64>) -> Sizes {
        let counts: Vec<(u64, u64)> =
            counts.iter().map(|(&sectors, &count)| (u64::from(sectors) * SECTOR_BYTES, count)).collect();
        let total: u64 = counts.iter().map(|&(_, count)| count).sum();
        let bytes: f64 = counts.iter().map(|&(size, count)| size as f64 * count as f64).sum();
        let rank = |percent: u64| {
            let mut left = (u128::from(total) * u128::from(percent)).div_ceil(100) as u64;
            let reached = |&&(_, count): &&(u64, u64)| {
                left = left.saturating_sub(count);
                left == 0
            };
            counts.iter().find(reached).map_or(0, |&(size, _)| size)
        };
        let mut histogram = BTreeMap::new();
        counts.iter().for_each(|&(size, count)| *histogram.entry(size.next_power_of_two()).or_default() += count);
        let mut common = counts.clone();
        common.sort_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
        common.truncate(8);
        Sizes {
            mean_bytes: (total > 0).then(|| bytes / total as f64),
            min_bytes: counts.first().map_or(0, |&(size, _)| size),
            p50_bytes: rank(50),
            p90_bytes: rank(90),
            p99_bytes: rank(99),
            max_bytes: counts.last().map_or(0, |&(size, _)| size),
            histogram: histogram.into_iter().collect(),
            common,
        }
    }
}

#[cfg(test)]
mod tests;
