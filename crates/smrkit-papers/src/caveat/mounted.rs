//! Next to the simulation a small real mount: the same course scaled down, on an image, through the kernel; and simulated at
//! that scale. Both take the paper's setting, and one sequence of events.

use smrfs::age::course::{AgeingResult, CourseOptions, Sample};
use smrfs::age::world::World;
use smrfs::device::Model;
use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit_live::volume::Layout;

use super::common::{GB, MODELS};
use super::plan::{CoursePlan, MountPlan};
use crate::{Item, JobResult, Row, Scale, Shown, Work};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

const HEADING: &str = "A small real mount next to the simulation";
const MIB: u64 = 1 << 20;
/// The image. Its bands and distances are a part of the paper's, or too few bands would lie on it. (Assumptions.)
const IMAGE_BYTES: u64 = 1 << 30;
const BAND_BYTES: u64 = 8 * MIB;
const DISTANCE_BYTES: u64 = MIB / 4;
/// Times the image that is written before A: enough for the shape, and a few seconds.
const BEFORE: u64 = 2;
const NAMES: [&str; 2] = ["strict-append", "Caveat-Scriptor"];
/// Agreement of mount and simulation in percent of the image (assumption: what waits for a commit lies elsewhere in time).
const WITHIN_PERCENT: f64 = 5.0;

pub fn item(scale: &Scale, drive: &Drive) -> Result<Item, Error> {
    let mut jobs: Vec<Box<dyn Work>> = Vec::new();
    if !scale.quick {
        for model in MODELS {
            let (mount, simulated) =
                plans(scale.seed, drive, model).map_err(|error| Error::Impossible(error.to_string()))?;
            jobs.push(Box::new(mount));
            jobs.push(Box::new(simulated));
        }
    }
    let show = |made: Vec<Option<JobResult>>| {
        let mut pairs = Vec::new();
        let mut made = made.into_iter().flatten();
        while let (Some(JobResult::Mount(mounted)), Some(JobResult::FileSystem(simulated))) = (made.next(), made.next())
        {
            pairs.push((*mounted, *simulated));
        }
        vec![(HEADING, shown(&pairs))]
    };
    Ok(Item::of_jobs(HEADING, jobs, show))
}

/// One course on a mount and in simulation.
fn plans(seed: u64, drive: &Drive, model: Model) -> Result<(MountPlan, CoursePlan), smrkit_live::error::LiveError> {
    let distance = Some(DISTANCE_BYTES);
    let layout = Layout {
        model,
        size_bytes: IMAGE_BYTES,
        did_bytes: distance,
        dpid_bytes: distance,
        band_bytes: Some(BAND_BYTES),
    };
    let shape = layout.data_shape()?;
    let world = World {
        disk_bytes: shape.granules * shape.granule_bytes,
        did_bytes: DISTANCE_BYTES,
        dpid_bytes: DISTANCE_BYTES,
        band_bytes: BAND_BYTES,
        ..World::paper(model, drive.clone())
    };
    let course = CourseOptions {
        before_bytes: IMAGE_BYTES * BEFORE,
        stop_at_b: true,
        sample_bytes: IMAGE_BYTES / 50,
        ..CourseOptions::paper(IMAGE_BYTES, seed)
    };
    Ok((MountPlan { layout, world: world.clone(), course: course.clone() }, CoursePlan { world, course }))
}

type Both = (Result<AgeingResult, String>, AgeingResult);

fn shown(pairs: &[Both]) -> Shown {
    if pairs.is_empty() {
        return Shown { text: vec!["Left out of a quick run.".into()], ..Shown::default() };
    }
    let text = vec![
        format!(
            "An image of 1 GiB in a temporary directory, DID and DPID 256 KiB, bands of 8 MiB, aged by {BEFORE} GiB, with the \
             benchmarks' part for its size: mounted by FUSE, and simulated. The mount commits every 5 s of real time, which \
             is another moment of the course than in simulation."
        ),
        "The left number is the simulation's: the paper has none at this scale.".into(),
    ];
    let rows =
        pairs.iter().zip(MODELS.into_iter().zip(NAMES)).flat_map(
            |((mounted, simulated), (model, name))| match mounted {
                Ok(mounted) => rows((model, name), mounted, simulated),
                Err(reason) => vec![Row::not_comparable(format!("{name}: mounted"), "not run", "").because(reason)],
            },
        );
    Shown { text, rows: rows.collect(), figure: figure(pairs), ..Shown::default() }
}

fn gb(bytes: u64) -> f64 {
    bytes as f64 / GB
}

fn rows((model, name): (Model, &str), mounted: &AgeingResult, simulated: &AgeingResult) -> Vec<Row> {
    // Caveat-Scriptor has no cleaner here.
    let mut rows = match model {
        Model::StrictAppend => vec![cleaning(name, mounted, simulated)],
        Model::Caveat => Vec::new(),
    };
    for (at, mounted, simulated) in [("A", &mounted.a, &simulated.a), ("B", &mounted.b, &simulated.b)] {
        let (Some(mounted), Some(simulated)) = (mounted, simulated) else { continue };
        let data = near(format!("{name}: user data at {at}"), simulated.live_bytes, mounted.live_bytes);
        rows.push(data.by_construction());
        let reason = "what was deleted and waits for a commit is in it: on a mount for other events than in simulation";
        rows.push(Row::not_comparable(format!("{name}: R at {at}"), gb(mounted.readable_bytes), "GB").because(reason));
        // A commit makes NW of R where no write is allowed in between.
        let (what, of): (_, fn(&Sample) -> u64) = match model {
            Model::StrictAppend => ("R + NW", |sample| sample.readable_bytes + sample.not_writable_bytes),
            Model::Caveat => ("NW", |sample| sample.not_writable_bytes),
        };
        rows.push(near(format!("{name}: {what} at {at}"), of(simulated), of(mounted)));
    }
    if let (Model::Caveat, Some(a), Some(b)) = (model, &mounted.a, &mounted.b) {
        let [at_a, at_b] = [a, b].map(|sample| gb(sample.not_writable_bytes));
        let item = format!("{name}: NW at B, mounted");
        rows.push(Row::holds(item, "more than at A", at_b, "GB", at_b > at_a).because(format!("{at_a:.3} GB at A")));
    }
    rows
}

fn near(item: String, simulated: u64, mounted: u64) -> Row {
    let off = 100.0 * (mounted as f64 - simulated as f64) / IMAGE_BYTES as f64;
    let reason = format!("{off:+.1} % of the image, within {WITHIN_PERCENT}");
    Row::holds(item, gb(simulated), gb(mounted), "GB", off.abs() <= WITHIN_PERCENT).because(reason).derived()
}

/// When cleaning began, by bytes written.
fn cleaning(name: &str, mounted: &AgeingResult, simulated: &AgeingResult) -> Row {
    let moment = |course: &AgeingResult| course.first_cleaning.map(|first| first.written_bytes);
    let text = |at: Option<u64>| at.map_or("never".into(), |at| format!("after {:.2} GB", gb(at)));
    let (before, now) = (moment(simulated), moment(mounted));
    let near = |before: u64, now: u64| before.abs_diff(now) as f64 <= WITHIN_PERCENT / 100.0 * IMAGE_BYTES as f64;
    let holds = before.zip(now).is_some_and(|(before, now)| near(before, now));
    let reason = format!("within {WITHIN_PERCENT} % of the image");
    Row::holds(format!("{name}: first cleaning"), text(before), text(now), "", holds).because(reason).derived()
}

fn figure(pairs: &[Both]) -> Option<Figure> {
    let line = |n, name: &str, style, course: &AgeingResult, of: &dyn Fn(&Sample) -> u64| {
        let points = course.samples.iter().chain([&course.last]);
        Series::nth(n, name, style, points.map(|sample| (gb(sample.written_bytes), gb(of(sample)))).collect())
    };
    let panel = |((mounted, simulated), name): (&Both, &str)| {
        let mounted = mounted.as_ref().ok()?;
        let taken = |sample: &Sample| sample.readable_bytes + sample.not_writable_bytes;
        let readable = |sample: &Sample| sample.readable_bytes;
        let y = Axis { fixed: Some((0.0, gb(IMAGE_BYTES))), ..Axis::linear("space (GB)") };
        let lines = [
            line(1, "R, mounted", Style::Line, mounted, &readable),
            line(2, "R, simulated", Style::Dashed, simulated, &readable),
            line(4, "R + NW, mounted", Style::Line, mounted, &taken),
            line(6, "R + NW, simulated", Style::Dashed, simulated, &taken),
        ];
        Some(Panel::lines(Some(name), Axis::linear("written (GB)"), y, lines))
    };
    let panels: Vec<Panel> = pairs.iter().zip(NAMES).filter_map(panel).collect();
    (!panels.is_empty()).then(|| {
        let title = "Space on a real mount and in simulation";
        let mut figure = Figure::new("caveat-mounted", title, "The same course on an image of 1 GiB.", panels);
        figure.share_x();
        figure
    })
}

#[cfg(test)]
mod tests {
    use smrfs::device::Shape;

    use super::*;

    #[test]
    fn the_mount_and_the_simulation_have_disks_of_one_shape() {
        let drive = Drive::load("st5000as0011").unwrap();
        for model in MODELS {
            let (mount, simulated) = plans(1, &drive, model).unwrap();
            // But for the limit of open bands, which neither comes near.
            let of = |shape: Shape| (shape.granules, shape.did, shape.dpid, shape.bands.count, shape.bands.granules);
            let shape = of(mount.layout.data_shape().unwrap());
            assert_eq!((of(mount.world.shape()), of(simulated.world.shape())), (shape, shape), "{model:?}");
        }
    }
}
