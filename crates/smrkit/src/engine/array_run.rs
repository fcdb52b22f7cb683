//! One run of an array: its drives, layers, settings and requests; out comes an outcome with one for each drive in it.

use std::collections::BTreeMap;
use std::ops::Add;

use super::Observer;
use super::fleet::{Chore, Fleet};
use super::run::{checkable, physical, with_host};
use super::settings::Settings;
use crate::array::address::Layout;
use crate::array::level::{Level, WritePolicy};
use crate::array::{Array, Member, Queueing, Station, Target};
use crate::device::{Device, Single};
use crate::disk::Disk;
use crate::drive::Drive;
use crate::error::Error;
use crate::layer::{Capacity, LayerSpec, Parameters, Scalar};
use crate::medium::{Medium, Stamps};
use crate::request::Source;
use crate::stats::counts::HostCounts;
use crate::stats::outcome::{ByCause, Cleaning, Commands, Movement, Outcome};
use crate::stats::timeline::TimelineBuilder;

/// What stands where a sum has no one name.
const MIXED: &str = "mixed";

/// A drive of an array.
#[derive(Clone)]
pub struct DriveRun {
    /// The drive.
    pub drive: Drive,
    /// Its layer.
    pub layer: &'static LayerSpec,
    /// The layer's parameters.
    pub parameters: Parameters,
}

/// A member of an array that is to be run.
#[derive(Clone)]
pub enum MemberRun {
    /// A drive.
    Drive(Box<DriveRun>),
    /// An array.
    Array(Box<ArrayRun>),
}

/// An array that is to be run.
#[derive(Clone)]
pub struct ArrayRun {
    /// Its kind.
    pub level: Level,
    /// Sectors of a chunk.
    pub chunk_sectors: u64,
    /// How partly written stripes get their parity.
    pub write: WritePolicy,
    /// Its members, in order.
    pub members: Vec<MemberRun>,
}

impl DriveRun {
    /// The drive, empty, under its layer; with movement counted.
    pub fn station(&self, settings: &Settings) -> Result<Station, Error> {
        let (spec, drive, parameters) = (self.layer, self.drive.clone(), self.parameters.clone());
        if settings.check {
            checkable(&self.drive)?;
        }
        let medium = if settings.check { Medium::Stamps(Stamps::new()) } else { Medium::NoData };
        let mut disk = Disk::new(&self.drive, medium);
        disk.count_movement();
        let device = Single::new(disk, Box::new(move || (spec.build)(&drive, &parameters)))?;
        let queueing = Queueing { queue: settings.queue, depth: settings.depth };
        Ok(Station::new(device, queueing, settings.check))
    }

    /// What was counted of it.
    fn outcome(&self, station: &mut Station, settings: &Settings) -> Outcome {
        let counts = station.take_counts();
        let device = station.device();
        let own = Outcome {
            layer: self.layer.name.into(),
            drive: self.drive.name.clone(),
            parameters: self.parameters.values().clone(),
            engine: settings.describe(),
            seed: settings.seed,
            ..physical(device)
        };
        with_host(own, counts, &device.gauges())
    }
}

impl MemberRun {
    /// The member, empty.
    pub fn build(&self, settings: &Settings) -> Result<Member, Error> {
        Ok(match self {
            MemberRun::Drive(drive) => Member::Drive(Box::new(drive.station(settings)?)),
            MemberRun::Array(array) => Member::Array(Box::new(array.build(settings)?)),
        })
    }

    /// Sectors that it offers.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        match self {
            MemberRun::Drive(run) => Ok((run.layer.build)(&run.drive, &run.parameters)?.capacity().host_sectors),
            MemberRun::Array(array) => array.host_sectors(),
        }
    }
}

impl ArrayRun {
    /// Where its sectors lie.
    pub fn layout(&self) -> Result<Layout, Error> {
        let sizes = self.members.iter().map(MemberRun::host_sectors).collect::<Result<Vec<_>, _>>()?;
        Layout::new(self.level, self.chunk_sectors, &sizes)
    }

    /// Sectors that it offers.
    pub fn host_sectors(&self) -> Result<u64, Error> {
        Ok(self.layout()?.host_sectors())
    }

    /// The array, empty.
    pub fn build(&self, settings: &Settings) -> Result<Array, Error> {
        self.build_within(self.layout()?, settings)
    }

    fn build_within(&self, layout: Layout, settings: &Settings) -> Result<Array, Error> {
        let members = self.members.iter().map(|member| member.build(settings)).collect::<Result<Vec<_>, _>>()?;
        Ok(Array::new(layout, members, self.write, settings.check))
    }

    /// The drives, those of nested arrays included, in order.
    pub fn drives(&self) -> Vec<&DriveRun> {
        let mut drives = Vec::new();
        for member in &self.members {
            match member {
                MemberRun::Drive(drive) => drives.push(&**drive),
                MemberRun::Array(array) => drives.extend(array.drives()),
            }
        }
        drives
    }

    /// How many drives the members before number `member` have.
    pub(super) fn drives_before(&self, member: usize) -> usize {
        let of = |member: &MemberRun| match member {
            MemberRun::Drive(_) => 1,
            MemberRun::Array(array) => array.drives().len(),
        };
        self.members[..member].iter().map(of).sum()
    }

    /// The same array of drives under `layer`.
    pub fn with_layer(&self, layer: &'static LayerSpec, parameters: &Parameters) -> ArrayRun {
        let under = |run: &DriveRun| DriveRun { drive: run.drive.clone(), layer, parameters: parameters.clone() };
        self.with_drives(&under)
    }

    /// The same array with each of its drives changed by `of`.
    pub fn with_drives(&self, of: &impl Fn(&DriveRun) -> DriveRun) -> ArrayRun {
        let member = |member: &MemberRun| match member {
            MemberRun::Drive(run) => MemberRun::Drive(Box::new(of(run))),
            MemberRun::Array(array) => MemberRun::Array(Box::new(array.with_drives(of))),
        };
        ArrayRun { members: self.members.iter().map(member).collect(), ..*self }
    }

    /// Where its sectors lie if each member gives so many at most, from its first on; what it has beyond stays empty. There
    /// is a number for each member.
    pub fn layout_within(&self, member_sectors: &[u64]) -> Result<Layout, Error> {
        if member_sectors.len() != self.members.len() {
            let (given, disks) = (member_sectors.len(), self.members.len());
            return Err(Error::Usage(format!("{given} sizes for {disks} members: give one for each")));
        }
        let all = self.members.iter().map(MemberRun::host_sectors).collect::<Result<Vec<_>, _>>()?;
        let sizes: Vec<u64> = all.iter().zip(member_sectors).map(|(all, most)| *all.min(most)).collect();
        Layout::new(self.level, self.chunk_sectors, &sizes)
    }

    /// Runs the requests of `source` beside `chore`. The names of trace or workload, and what a comparison tells, are left to
    /// the caller.
    pub fn execute(
        &self,
        settings: Settings,
        source: &mut dyn Source,
        chore: &mut dyn Chore,
        observer: &mut dyn Observer,
        timeline: TimelineBuilder,
    ) -> Result<Outcome, Error> {
        self.execute_within(self.layout()?, settings, source, chore, observer, timeline)
    }

    /// The same with its sectors laid out so, which need not be all that the members offer.
    pub fn execute_within(
        &self,
        layout: Layout,
        settings: Settings,
        source: &mut dyn Source,
        chore: &mut dyn Chore,
        observer: &mut dyn Observer,
        timeline: TimelineBuilder,
    ) -> Result<Outcome, Error> {
        if settings.power_cut.is_some() {
            let message = "--power-cut knows single drives only: leave out --array, or cut the power of one drive";
            return Err(Error::Usage(message.into()));
        }
        let array = self.build_within(layout, &settings)?;
        let mut fleet =
            Fleet::new(array, settings, HostCounts::new(timeline).of_sources(source.sources()), chore, observer);
        let finished = fleet.run(source)?;
        // What verification reads at the end is no part of the outcome.
        fleet.array.stations().into_iter().for_each(|drive| drive.record(None));
        let members = self.outcomes(&mut fleet.array, &settings);
        let gauges = fleet.array.gauges();
        let mut physical = sum(&members);
        physical.capacity.host_sectors = fleet.array.host_sectors();
        let rebuild = fleet.report()?;
        fleet.finish()?;
        let outcome = with_host(physical, fleet.counts, &gauges);
        Ok(Outcome {
            interrupted: !finished,
            engine: settings.describe(),
            seed: settings.seed,
            members,
            rebuild,
            ..outcome
        })
    }

    fn outcomes(&self, array: &mut Array, settings: &Settings) -> Vec<Outcome> {
        let pairs = self.members.iter().zip(array.members_mut());
        let of = |(run, member): (&MemberRun, &mut Member)| match (run, member) {
            (MemberRun::Drive(run), Member::Drive(station)) => vec![run.outcome(station, settings)],
            (MemberRun::Array(run), Member::Array(array)) => run.outcomes(array, settings),
            _ => unreachable!("built from it"),
        };
        pairs.flat_map(of).collect()
    }
}

/// What all drives of an array show together. Times are sums over the drives.
fn sum(members: &[Outcome]) -> Outcome {
    let common = |of: fn(&Outcome) -> &String| match members.first() {
        Some(first) if members.iter().all(|member| of(member) == of(first)) => of(first).clone(),
        _ => MIXED.into(),
    };
    let alike = members.windows(2).all(|pair| pair[0].parameters == pair[1].parameters);
    let causes = |of: fn(&Outcome) -> ByCause| members.iter().map(of).fold(ByCause::default(), Add::add);
    let commands = |of: fn(&Outcome) -> Commands| Commands {
        physical_read: members.iter().map(|member| of(member).physical_read).sum(),
        physical_write: members.iter().map(|member| of(member).physical_write).sum(),
        ..Commands::default()
    };
    Outcome {
        layer: common(|member| &member.layer),
        drive: common(|member| &member.drive),
        parameters: members.first().filter(|_| alike).map_or(BTreeMap::new(), |first| first.parameters.clone()),
        physical_read_sectors: causes(|member| member.physical_read_sectors),
        physical_written_sectors: causes(|member| member.physical_written_sectors),
        busy_by_cause_ns: causes(|member| member.busy_by_cause_ns),
        commands: commands(|member| member.commands),
        adjusted: commands(|member| member.adjusted),
        busy_ns: members.iter().map(|member| member.busy_ns).sum(),
        map_bytes: members.iter().map(|member| member.map_bytes).sum(),
        cleaning: members.iter().map(|member| member.cleaning).fold(Cleaning::default(), add_cleaning),
        capacity: members.iter().map(|member| member.capacity).fold(Capacity::default(), add_capacity),
        layer_stats: sums(members.iter().map(|member| &member.layer_stats)),
        movement: members.iter().filter_map(|member| member.movement).reduce(add_movement),
        ..Outcome::default()
    }
}

/// Sums, shares of each drive's own stroke included.
fn add_movement(a: Movement, b: Movement) -> Movement {
    Movement {
        track_distance: a.track_distance + b.track_distance,
        track_count: a.track_count + b.track_count,
        stroke_share: a.stroke_share + b.stroke_share,
        bands_moved: a.bands_moved + b.bands_moved,
    }
}

fn add_cleaning(a: Cleaning, b: Cleaning) -> Cleaning {
    Cleaning {
        count: a.count + b.count,
        sectors: a.sectors + b.sectors,
        ns: a.ns + b.ns,
        max_ns: a.max_ns.max(b.max_ns),
    }
}

fn add_capacity(a: Capacity, b: Capacity) -> Capacity {
    Capacity {
        raw_sectors: a.raw_sectors + b.raw_sectors,
        host_sectors: a.host_sectors + b.host_sectors,
        cache_sectors: a.cache_sectors + b.cache_sectors,
        guard_sectors: a.guard_sectors + b.guard_sectors,
        spare_sectors: a.spare_sectors + b.spare_sectors,
    }
}

/// Sums of the counters that are whole numbers; the others are the members' own.
fn sums<'a>(all: impl Iterator<Item = &'a BTreeMap<String, Scalar>>) -> BTreeMap<String, Scalar> {
    let mut sums: BTreeMap<String, Scalar> = BTreeMap::new();
    for (key, value) in all.flatten() {
        if let Scalar::Int(value) = value {
            match sums.get_mut(key) {
                Some(Scalar::Int(sum)) => *sum += value,
                _ => {
                    sums.insert(key.clone(), Scalar::Int(*value));
                }
            }
        }
    }
    sums
}
