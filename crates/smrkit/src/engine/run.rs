//! One run: a drive, a layer, settings and requests; out comes an outcome.

use super::settings::Settings;
use super::{Engine, Observer};
use crate::device::{Device, Single};
use crate::disk::{Disk, Recorder};
use crate::drive::{Drive, DriveClock};
use crate::error::Error;
use crate::layer::{Gauges, LayerSpec, Parameters};
use crate::medium::{Medium, Stamp, Stamps};
use crate::request::Source;
use crate::stats::counts::HostCounts;
use crate::stats::outcome::{ByCause, Cleaning, Commands, Movement, Outcome, Surface, Verdict};
use crate::stats::timeline::TimelineBuilder;
use crate::tally::{Cause, Counter, Tally};
use crate::units::Nanos;

/// What is to be run.
#[derive(Clone)]
pub struct Run<'a> {
    /// The drive.
    pub drive: &'a Drive,
    /// The layer.
    pub layer: &'static LayerSpec,
    /// Its parameters.
    pub parameters: Parameters,
    /// Arrivals, queue, state before.
    pub settings: Settings,
}

impl Run<'_> {
    /// Sectors that the layer offers on this drive.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        Ok((self.layer.build)(self.drive, &self.parameters)?.capacity().host_sectors)
    }

    /// The drive, empty, under its layer.
    pub fn device(&self, medium: Medium) -> Result<Single, Error> {
        let (spec, drive, parameters) = (self.layer, self.drive.clone(), self.parameters.clone());
        Single::new(Disk::new(self.drive, medium), Box::new(move || (spec.build)(&drive, &parameters)))
    }

    /// Runs the requests of `source`. The names of trace or workload, and what a comparison tells, are left to the
    /// caller.
    pub fn execute(
        &self,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
        recorder: Option<Box<dyn Recorder>>,
        timeline: TimelineBuilder,
    ) -> Result<Outcome, Error> {
        if self.settings.check {
            checkable(self.drive)?;
        }
        let medium = match self.settings.check {
            true => Medium::Stamps(Stamps::new()),
            false => Medium::NoData,
        };
        if self.settings.power_cut.is_some() && matches!(self.drive.clock, DriveClock::Buffered(_)) {
            return Err(Error::Impossible(
                "--power-cut knows no drive with a write cache of its own: take a drive file without write_cache_bytes and \
                 read_ahead_bytes"
                    .into(),
            ));
        }
        let mut device = self.device(medium)?;
        device.record(recorder);
        if self.settings.movement {
            device.disk.count_movement();
        }
        let counts = HostCounts::new(timeline).of_sources(source.sources());
        let mut engine = Engine::new(device, self.settings, counts, observer);
        let finished = engine.run(source)?;
        let power_cut = engine.power_cuts.pop();
        let (mut device, counts, shadow) = engine.into_parts();
        let outcome = Outcome { interrupted: !finished, power_cut, ..self.outcome(&device, counts) };
        device.disk.record(None);
        if let Some(mut shadow) = shadow {
            shadow.finish(&mut device)?;
        }
        Ok(outcome)
    }

    fn outcome(&self, device: &Single, counts: HostCounts) -> Outcome {
        let own = Outcome {
            layer: self.layer.name.into(),
            drive: self.drive.name.clone(),
            parameters: self.parameters.values().clone(),
            engine: self.settings.describe(),
            seed: self.settings.seed,
            ..physical(device)
        };
        with_host(own, counts, &device.gauges())
    }
}

/// Refuses a drive with more sectors than stamps can name.
pub(super) fn checkable(drive: &Drive) -> Result<(), Error> {
    match drive.geometry.sectors() {
        sectors if sectors > Stamp::LBA_MAX => Err(Error::Impossible(format!(
            "--check holds stamps of up to {} sectors, and the drive has {sectors}: give a smaller --capacity",
            Stamp::LBA_MAX
        ))),
        _ => Ok(()),
    }
}

/// What a drive shows after a run: the accesses to its platters, and its layer's books.
pub(super) fn physical(device: &Single) -> Outcome {
    let (tally, layer) = (device.disk.tally(), device.layer.as_ref());
    let read = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.reads(cause))).total;
    let write = |of: fn(&Counter) -> u64| by_cause(|cause| of(tally.writes(cause))).total;
    Outcome {
        physical_read_sectors: by_cause(|cause| tally.reads(cause).sectors),
        physical_written_sectors: by_cause(|cause| tally.writes(cause).sectors),
        busy_by_cause_ns: by_cause(|cause| tally.reads(cause).ns + tally.writes(cause).ns),
        commands: Commands {
            physical_read: read(|c| c.commands),
            physical_write: write(|c| c.commands),
            ..Commands::default()
        },
        adjusted: Commands {
            physical_read: read(|c| c.adjusted),
            physical_write: write(|c| c.adjusted),
            ..Commands::default()
        },
        busy_ns: tally.busy().0,
        map_bytes: layer.map_bytes(),
        cleaning: cleaning(tally),
        capacity: layer.capacity(),
        surface: surface(tally),
        movement: movement(&device.disk, layer.bands_moved()),
        layer_stats: layer.stats(),
        ..Outcome::default()
    }
}

/// Completes what drives show by what the host saw; `gauges` are those of the end.
pub(super) fn with_host(physical: Outcome, counts: HostCounts, gauges: &Gauges) -> Outcome {
    let latency_ns = counts.latencies();
    let host = |host: Commands, drives: Commands| Commands {
        physical_read: drives.physical_read,
        physical_write: drives.physical_write,
        ..host
    };
    let (commands, adjusted) = (host(counts.commands, physical.commands), host(counts.adjusted, physical.adjusted));
    let excess = (adjusted.physical_write + adjusted.physical_read) as f64 - adjusted.host_read as f64;
    let written = physical.physical_written_sectors.total as f64;
    let mut outcome = Outcome {
        requests: counts.requests,
        host_read_sectors: counts.read_sectors,
        host_written_sectors: counts.written_sectors,
        commands,
        adjusted,
        write_overloading: ratio(excess, adjusted.host_write),
        write_amplification: ratio(written, counts.written_sectors),
        latency_ns,
        wait_ns: counts.wait_ns,
        service_ns: counts.service_ns,
        by_source: counts.by_source(),
        elapsed_ns: counts.elapsed().0,
        arrivals_ns: counts.last_arrival.since(counts.begin).0,
        verdict: verdict(&counts, latency_ns.all.max),
        ..physical
    };
    (outcome.latency_histogram, outcome.timeline) = counts.finish(gauges);
    outcome
}

fn ratio(over: f64, under: u64) -> Option<f64> {
    (under > 0).then(|| over / under as f64)
}

fn by_cause(of: impl Fn(Cause) -> u64) -> ByCause {
    let [host, destage, clean, map] = Cause::ALL.map(of);
    ByCause { total: host + destage + clean + map, host, destage, clean, map }
}

fn cleaning(tally: &Tally) -> Cleaning {
    let counters = [Cause::Destage, Cause::Clean].map(|cause| [tally.reads(cause), tally.writes(cause)]);
    let sum = |of: fn(&Counter) -> u64| counters.iter().flatten().map(|counter| of(counter)).sum();
    let (count, longest) = tally.stretches();
    Cleaning { count, sectors: sum(|c| c.sectors), ns: sum(|c| c.ns), max_ns: longest.0 }
}

/// The head's movements, where they were counted.
fn movement(disk: &Disk, bands_moved: u64) -> Option<Movement> {
    let counted = disk.tally().movement()?;
    let (distance, count) = (by_cause(|cause| counted.distance(cause)), by_cause(|cause| counted.count(cause)));
    Some(Movement::new(distance, count, disk.geometry().tracks(), bands_moved))
}

fn surface(tally: &Tally) -> Surface {
    let (parts, part_sectors) = tally.surface();
    let of = |cause: Cause| parts.iter().map(|part| part[cause as usize]).collect();
    Surface {
        part_sectors,
        host: of(Cause::Host),
        destage: of(Cause::Destage),
        clean: of(Cause::Clean),
        map: of(Cause::Map),
    }
}

/// The part of the plain answer that the run alone tells.
fn verdict(counts: &HostCounts, longest_stall_ns: u64) -> Verdict {
    let rate = |bytes: u64, time: Nanos| if time > Nanos::ZERO { bytes as f64 / time.as_secs() } else { 0.0 };
    let total = counts.host_bytes();
    let (full, before) = counts.cache_full.unwrap_or((counts.end, total));
    let until = full.since(counts.begin);
    // What was answered in no time at all has no rate.
    let before = if until > Nanos::ZERO { before } else { 0 };
    let after = rate(total - before, counts.end.since(full));
    Verdict {
        cache_full_at_s: counts.cache_full.map(|_| until.as_secs()),
        rate_before_bytes_per_s: rate(before, until),
        rate_after_bytes_per_s: counts.cache_full.map(|_| after),
        longest_stall_ns,
        stalls_over_7s: counts.stalls_over_7s,
        stalls_over_30s: counts.stalls_over_30s,
        ..Verdict::default()
    }
}
