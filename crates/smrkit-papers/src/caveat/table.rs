//! When Caveat-Scriptor runs out of room for a block: by interleaving, distances, sizes and placement.

use smrfs::age::ager::AgerOptions;
use smrfs::age::course::{AgeingResult, CourseOptions, PAPER_DISK_BYTES};
use smrfs::age::world::World;
use smrfs::device::Model;
use smrfs::space::caveat::{CaveatOptions, Placement};
use smrfs::workload::driver::{End, Interleave};
use smrkit::drive::Drive;

use super::common::{GB, world};
use super::figure4::ran_out;
use super::plan::CoursePlan;
use crate::{Agreement, Item, Row, Scale, Shown, Value};

const HEADING: &str = "When Caveat-Scriptor runs out of space";
const MIB: u64 = 1 << 20;
const INTERLEAVES: [Interleave; 4] =
    [Interleave::Blocks(1), Interleave::Blocks(8), Interleave::Blocks(64), Interleave::WholeFile];
/// DID and DPID, in MiB.
const DISTANCES: [(u64, u64); 2] = [(1, 1), (3, 1)];
/// Factors that sizes are multiplied by.
const SIZES: [f64; 3] = [1.0, 0.15, 0.06];
/// Of them, those with which placements are compared.
const SIZES_PLACED: [f64; 2] = [1.0, 0.15];
/// With these distances and turns.
const PLACED_DISTANCES: (u64, u64) = (3, 1);
const PLACED_INTERLEAVE: Interleave = Interleave::Blocks(8);
/// Bytes that are written to compare placements.
const PLACED_BYTES: u64 = 3_000_000_000_000;

/// A line of the table.
#[derive(Clone, Copy)]
struct Case {
    placement: Placement,
    distances: (u64, u64),
    sizes: f64,
    interleave: Interleave,
}

impl Case {
    fn all() -> Vec<Case> {
        let next_fit = Placement::NextFit;
        let mut cases = Vec::new();
        for sizes in SIZES {
            for distances in DISTANCES {
                let of = |interleave| Case { placement: next_fit, distances, sizes, interleave };
                cases.extend(INTERLEAVES.map(of));
            }
        }
        for sizes in SIZES_PLACED {
            let others = Placement::ALL.iter().filter(|&&placement| placement != next_fit);
            let (distances, interleave) = (PLACED_DISTANCES, PLACED_INTERLEAVE);
            cases.extend(others.map(|&placement| Case { placement, distances, sizes, interleave }));
        }
        cases
    }

    fn plan(&self, scale: &Scale, drive: &Drive) -> CoursePlan {
        let world = world(drive, Model::Caveat);
        let caveat = CaveatOptions { placement: self.placement, ..world.caveat.clone() };
        let (did_bytes, dpid_bytes) = (self.distances.0 * MIB, self.distances.1 * MIB);
        let paper = CourseOptions::paper(PAPER_DISK_BYTES, scale.seed);
        let ager = AgerOptions { size_factor: self.sizes, ..paper.ager.clone() };
        CoursePlan {
            world: World { did_bytes, dpid_bytes, caveat, ..world },
            course: CourseOptions { ager, interleave: self.interleave, until_bytes: self.until_bytes(&paper), ..paper },
        }
    }

    fn until_bytes(&self, paper: &CourseOptions) -> u64 {
        if self.placement == Placement::NextFit { paper.until_bytes } else { PLACED_BYTES }
    }

    fn name(&self) -> String {
        let (did, dpid) = self.distances;
        format!("{}, {did}/{dpid} MiB, sizes × {}, {}", self.placement, self.sizes, self.interleave.name())
    }

    fn row(&self, course: &AgeingResult) -> Row {
        let (out, reason) = ran_out(course);
        let nw = course
            .b
            .map_or("B was not reached".into(), |b| format!("NW {:.1} GB at B", b.not_writable_bytes as f64 / GB));
        let row = Row::holds(self.name(), Value::None, out, "", false).because(format!("{reason}; {nw}"));
        Row { verdict: Agreement::NotComparable, ..row }
    }
}

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let cases = if scale.quick { Vec::new() } else { Case::all() };
    let plans = cases.iter().map(|case| case.plan(scale, drive)).collect();
    Item::of_courses(HEADING, plans, move |courses| {
        if cases.is_empty() {
            let text = vec![format!("{} more courses, which a quick run leaves out.", Case::all().len())];
            return vec![(HEADING, Shown { text, ..Shown::default() })];
        }
        let text = texts![
            "The same course without a defragmenter until no run is left that a block fits into: by placement, DID/DPID, \
             factor of the ager's sizes (1 has a mean of 168 MB), and how finely benchmark and ager interleave. The paper's \
             one run ends at 5.5 h; which of these it was, it does not say.",
        ];
        let mut rows: Vec<Row> = cases.iter().zip(courses).map(|(case, course)| case.row(course)).collect();
        rows.extend(orders(&cases, courses));
        vec![(HEADING, Shown { text, rows, ..Shown::default() })]
    })
}

/// Bytes written until there was no room; more than any where there always was.
fn lasted(course: &AgeingResult) -> u64 {
    if course.end == End::Full { course.last.written_bytes } else { u64::MAX }
}

/// Conclusions from the lines: large files keep the disk whole, as the paper says; and which placements last.
fn orders(cases: &[Case], courses: &[AgeingResult]) -> Vec<Row> {
    let find = |wanted: &dyn Fn(&Case) -> bool| {
        let found = cases.iter().zip(courses).filter(|(case, _)| wanted(case));
        found.map(|(_, course)| lasted(course)).min()
    };
    let mut rows = Vec::new();
    let whole = find(&|case| case.placement == Placement::NextFit && case.interleave == Interleave::WholeFile);
    let single = find(&|case| case.placement == Placement::NextFit && case.interleave == Interleave::Blocks(1));
    if let (Some(whole), Some(single)) = (whole, single) {
        rows.push(
            Row::holds(
                "whole files last at least as long as single blocks interleaved",
                "large files are freed whole",
                tb(whole),
                "TB",
                whole >= single,
            )
            .because(format!("the worst case of each; {} TB with single blocks", tb(single).text())),
        );
    }
    rows.extend(SIZES_PLACED.map(|sizes| lasting(sizes, cases, courses)));
    rows
}

/// Row on the placements that last, and how long the others do. The paper has next-fit alone.
fn lasting(sizes: f64, cases: &[Case], courses: &[AgeingResult]) -> Row {
    let alike =
        |case: &Case| case.sizes == sizes && case.distances == PLACED_DISTANCES && case.interleave == PLACED_INTERLEAVE;
    let (mut last, mut out) = (Vec::new(), Vec::new());
    for (case, course) in cases.iter().zip(courses).filter(|(case, _)| alike(case)) {
        match lasted(course) {
            u64::MAX => last.push(case.placement.to_string()),
            bytes => out.push(format!("{} ends at {} TB", case.placement, tb(bytes).text())),
        }
    }
    let names = if last.is_empty() { "none".to_string() } else { last.join(", ") };
    let ((did, dpid), turn) = (PLACED_DISTANCES, PLACED_INTERLEAVE.name());
    let item = format!("placements that last, {did}/{dpid} MiB, sizes × {sizes}, {turn}");
    Row::not_comparable(&item, names, "").because(out.join(", "))
}

fn tb(bytes: u64) -> Value {
    if bytes == u64::MAX { "no end".into() } else { (bytes as f64 / 1e12).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_lasts_has_no_end_in_terabytes() {
        assert_eq!([u64::MAX, 2_500_000_000_000].map(|bytes| tb(bytes).text()), ["no end", "2.5"]);
    }
}
