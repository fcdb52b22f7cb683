//! Presets of shingled disks compared with what others measured and published.
//!
//! A number that a preset was chosen to meet is no test of it, and its row says so. Figures that could not be verified are context:
//! they stand next to ours without a verdict.

use std::sync::Arc;

use smrkit::device::NCQ_COMMANDS;
use smrkit::device::level::Level;
use smrkit::device::spec::{ArraySpec, DriveSpec, MemberSpec};
use smrkit::drive::Drive;
use smrkit::engine::rebuild::RebuildSpec;
use smrkit::error::Error;
use smrkit::experiment::demand::{Demand, Table};
use smrkit::experiment::planned::PlannedRun;
use smrkit::experiment::system::System;
use smrkit::layer::BASELINE;
use smrkit::settings::{Arrival, Prefill, Settings};
use smrkit::stats::outcome::Outcome;
use smrkit::units::SECTOR_BYTES;

use crate::{Item, Plan, Planned, Row, Scale, Shown, Value, number};

/// Tolerance for rates of the host-managed disk, in percent (assumption).
const RATES: f64 = 15.0;
/// Tolerance for its latencies, in percent (assumption).
const LATENCIES: f64 = 35.0;
/// Tolerance for reports by users, in percent (assumption: their file systems and drives are not known).
const REPORTS: f64 = 35.0;
const MANAGED: &str = "drive-managed";

pub(super) fn items(scale: &Scale) -> Result<Vec<Item>, Error> {
    Ok(vec![host_managed(scale)?, burst(scale)?, backups(scale)?, random_writes(scale)?, rebuilds(scale)?])
}

fn full(drive: &str, layer: &'static str, workload: impl Into<String>, depth: u32, seed: u64) -> Result<Plan, Error> {
    let plan = Plan::workload(&Drive::load(drive)?, layer, workload, seed);
    Ok(plan.prefill(Prefill::Full).depth(depth))
}

fn iops(outcome: &Outcome) -> f64 {
    outcome.requests as f64 / outcome.elapsed_ns as f64 * 1e9
}

fn mib_per_s(outcome: &Outcome) -> f64 {
    let sectors = outcome.host_read_sectors + outcome.host_written_sectors;
    (sectors * SECTOR_BYTES) as f64 / f64::from(1 << 20) / outcome.elapsed_ns as f64 * 1e9
}

/// A figure that could not be verified, next to ours.
fn context(item: &str, theirs: f64, ours: f64, unit: &'static str, reason: &str) -> Row {
    Row { paper: theirs.into(), ..Row::not_comparable(item, ours, unit).because(reason) }
}

fn host_managed(scale: &Scale) -> Result<Item, Error> {
    let reads = scale.pick(20_000, 4000);
    let plans = [
        (format!("random-read:size=256Ki,count={reads}"), 16),
        ("sequential-read:size=256Ki,bytes=1Gi".into(), 8),
        ("sequential-write:size=256Ki,bytes=1Gi".into(), 8),
    ];
    let plans = plans.map(|(workload, depth)| full("hc620", "in-place", workload, depth, scale.seed));
    let text = "fio 3.13 with 256 KiB on a 15 TB host-managed disk (zonedstorage.io, docs/benchmarking/fio, 24 May 2019), and \
                hc620, whose seek curve was chosen to meet the 118 reads a second, and its track lengths to meet the 238 MiB/s, \
                which decide the rate of writes too. Assumed: random reads lie over the whole disk.";
    let heading = "The 15 TB host-managed disk";
    Ok(Item::new(heading, plans.into_iter().collect::<Result<_, _>>()?, move |outcomes| {
        let [random, read, write] = outcomes else { return Shown::default() };
        let all = random.latency_ns.all;
        let near = |item, theirs: f64, ours, unit, percent| Row::near(item, theirs, ours, unit, percent);
        let rows = vec![
            near("random read, 16 outstanding", 118.0, iops(random), "a second", RATES).by_construction(),
            near("random read, 50 %", 96.0, all.p50 as f64 / 1e6, "ms", LATENCIES),
            near("random read, 99 %", 558.0, all.p99 as f64 / 1e6, "ms", LATENCIES),
            near("sequential read, 8 outstanding", 238.0, mib_per_s(read), "MiB/s", RATES).by_construction(),
            near("sequential write, 8 outstanding", 235.0, mib_per_s(write), "MiB/s", RATES).by_construction(),
        ];
        Shown { text: vec![text.into()], rows, ..Shown::default() }
    }))
}

/// Writes that come together share an entry of the log, so that more of them fit before cleaning begins.
fn burst(scale: &Scale) -> Result<Item, Error> {
    let plan =
        |count, depth| full("st5000as0011", MANAGED, format!("random-write:size=4Ki,count={count}"), depth, scale.seed);
    let plans = vec![plan(24_000, 1)?, plan(185_000, 31)?];
    let text = "Random writes of 4 KiB before cleaning begins, 31 outstanding and one by one, on st5000as0011. Skylight is said \
                to have seen about 182,000 and 22,800; that could not be verified.";
    Ok(Item::new("The queued burst", plans, move |outcomes| {
        let [one, many] = outcomes else { return Shown::default() };
        // Without any cleaning there is no number, and no row agrees.
        let [one, many] = [one, many].map(|run| number(run.layer_stats.first_cleaning()));
        let ratio = many / one;
        let reason = "at least five times as many: assumption, for eight writes that share an entry";
        let rows = vec![
            Row::holds("31 outstanding, compared with one", "5 or more", ratio, "times", ratio >= 5.0)
                .because(reason)
                .derived(),
            context("writes, one outstanding", 22_800.0, one, "writes", "not verified; α was derived from such counts"),
            context("writes, 31 outstanding", 182_000.0, many, "writes", "not verified"),
        ];
        Shown { text: vec![text.into()], rows, ..Shown::default() }
    }))
}

fn backups(scale: &Scale) -> Result<Item, Error> {
    let run = |workload: &str| full("st8000as0002", MANAGED, workload, 1, scale.seed);
    let plans = vec![run("sequential-write:size=512Ki,bytes=100Gi")?, run("random-write:size=4999680,bytes=60Gi")?];
    let text = "Backups to a full st8000as0002: a stream (AnandTech 10335, the 8 TB Archive disk behind USB), and Borg's segments \
                of 5 MB (borgbackup/borg #2252, the drive is assumed), taken for single writes at random places. Nothing was \
                chosen to meet these.";
    Ok(Item::new("Backup streams", plans, move |outcomes| {
        let [stream, borg] = outcomes else { return Shown::default() };
        let mut rows = rates("stream", stream, [100.0, 50.0]);
        let before = borg.verdict.rate_before_bytes_per_s / 1e6;
        let after = borg.verdict.rate_after_bytes_per_s.unwrap_or(f64::NAN) / 1e6;
        let until = borg.verdict.cache_full_at_s.unwrap_or(f64::NAN) * before / 1e3;
        rows.push(
            Row::near("Borg, at first", 40.0, before, "MB/s", REPORTS).because("a host's file system is left out"),
        );
        rows.push(Row::near("Borg, until it slows down", 14.0, until, "GB", REPORTS));
        rows.push(Row::holds("Borg, then", "under 10", after, "MB/s", after < 10.0).because("as reported"));
        Shown { text: vec![text.into()], rows, ..Shown::default() }
    }))
}

/// The rate of a stream before and after it slows down; the same where it never does.
fn rates(what: &str, outcome: &Outcome, theirs: [f64; 2]) -> Vec<Row> {
    let before = outcome.verdict.rate_before_bytes_per_s;
    let after = outcome.verdict.rate_after_bytes_per_s;
    let reason = if after.is_some() { "" } else { "it never slows down: streams bypass the cache (assumption)" };
    let row = |when, theirs: f64, ours: f64, reason| {
        Row::near(format!("{what}, {when}"), Value::from(theirs), ours / 1e6, "MB/s", REPORTS).because(reason)
    };
    vec![row("at first", theirs[0], before, ""), row("then", theirs[1], after.unwrap_or(before), reason)]
}

fn random_writes(scale: &Scale) -> Result<Item, Error> {
    let count = scale.pick(100_000, 50_000);
    let plan = full("st8000as0002", MANAGED, format!("random-write:size=4Ki,count={count}"), 1, scale.seed)?;
    let text = "Random writes of 4 KiB to a full disk from when they wait for cleaning (storj/storj #3854; the drive is not \
                named: st8000as0002 is assumed).";
    Ok(Item::new("Random writes once cleaning", vec![plan], move |outcomes| {
        let after = outcomes.first().and_then(|outcome| outcome.verdict.rate_after_bytes_per_s);
        let ours = after.unwrap_or(f64::NAN) / 4096.0;
        let rows = vec![Row::near("writes", 3.0, ours, "a second", REPORTS).because("3 a second were reported")];
        Shown { text: vec![text.into()], rows, ..Shown::default() }
    }))
}

/// A mirror whose second disk is new, scaled from a part of the drive.
struct MirrorPlan {
    drive: &'static str,
    layer: &'static str,
    spec: &'static str,
    part: u64,
    seed: u64,
}

impl Planned for MirrorPlan {
    fn planned(&self) -> Result<(PlannedRun, Arc<dyn Demand>), Error> {
        let own = Drive::load(self.drive)?;
        let part = own.geometry.sectors() / self.part;
        let drive = own.with_capacity(part)?;
        let members = [BASELINE, self.layer].map(|layer| MemberSpec::Drive(DriveSpec::of("disk", layer, Vec::new())));
        let settings =
            Settings { arrival: Arrival::Trace, depth: NCQ_COMMANDS, seed: self.seed, ..Settings::default() };
        let rebuild = Some(RebuildSpec::parse(self.spec)?);
        let system = System { rebuild, ..System::array(ArraySpec::new(Level::Raid1, members.into())) };
        Ok((system.given("disk", drive).run(settings)?, Arc::new(Table([].into()))))
    }
}

fn rebuilds(scale: &Scale) -> Result<Item, Error> {
    const MIRROR: &str = "disk=1,write=512KiB,window=32";
    const RESILVER: &str = "disk=1,order=scattered,record=44KiB,run=3MB,window=10";
    let part = scale.pick(100, 400);
    let plan = |drive, layer, spec| MirrorPlan { drive, layer, spec, part, seed: scale.seed };
    let (archive, red) = ("st8000as0002", "like-wd40efax");
    let plans = vec![
        plan(archive, MANAGED, MIRROR),
        plan(archive, "in-place", MIRROR),
        plan(red, MANAGED, RESILVER),
        plan(red, "in-place", RESILVER),
    ];
    let text = "RAID 1, 8 TB in order (StorageReview), and a resilver of a WD40EFAX in RAID-Z (ServeTheHome), whose records are \
                taken to lie in runs of 3 MB; next to each the same drive without shingling. Parts are rebuilt, and hours \
                scaled. The figures could not be verified.";
    Ok(Item::new("Rebuilds", plans, move |outcomes| {
        let theirs = [
            ("RAID 1, 8 TB, drive-managed", 57.2, 8e12),
            ("RAID 1, 8 TB, conventional", 19.8, 8e12),
            ("RAID-Z, 4 TB, drive-managed", 229.0, 4e12),
            ("RAID-Z, 4 TB, conventional", 16.0, 4e12),
        ];
        let row = |((item, hours, bytes), outcome): ((&str, f64, f64), &Outcome)| {
            let rebuild = outcome.rebuild.as_ref()?;
            let ours = rebuild.elapsed_ns as f64 / 3.6e12 * bytes / rebuild.bytes.max(1) as f64;
            Some(context(item, hours, (ours * 10.0).round() / 10.0, "h", "not verified"))
        };
        let rows = theirs.into_iter().zip(outcomes).filter_map(row).collect();
        Shown { text: vec![text.into()], rows, ..Shown::default() }
    }))
}
