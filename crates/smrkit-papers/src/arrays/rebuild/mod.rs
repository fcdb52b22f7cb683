//! Time that a member takes to rebuild, by what it is and how it is filled; what decides; and what a timeout would have done.
//!
//! The papers have no such experiment: nothing here is compared with them.

mod figures;
mod rows;
pub mod setup;

use self::rows::Rebuilds;
use self::setup::{
    BY_RUN, CONVENTIONAL_CACHED, IDLE_CLEAN, MANAGED_CACHED, MANY, NewMember, Order, RebuildPlan, VGUARD_CACHED, Way,
    ways,
};
use crate::{Item, Scale, Shown};

/// Part of 5 TB that is run, and for `--quick`.
fn part(order: Order, scale: &Scale) -> u64 {
    match order {
        Order::Ascending | Order::Singly => scale.pick(40, 800),
        Order::Runs => scale.pick(60, 800),
    }
}

const HEADING: &str = "Rebuilding a member of 5 TB: hours";
const LONGEST: &str = "Rebuilding a member: the longest command, and timeouts";
const CLEANINGS: &str = "Rebuilding a member: bands cleaned for each write";
const BESIDE: &str = "Rebuilding a member during a light foreground";
const CLEAN: &str = "Rebuilding a member: until the caches are clean";
const PUBLIC: &str = "Rebuilding a member: public tests of another maker's drive";

pub fn item(scale: &Scale) -> Item {
    let plans = plans(scale);
    Item::of_runs_made(HEADING, plans.clone(), move |outcomes| shown(&Rebuilds::new(&plans, outcomes)))
}

fn plans(scale: &Scale) -> Vec<RebuildPlan> {
    let plan = |kind: NewMember, way: Way, beside| RebuildPlan {
        kind,
        way,
        beside,
        part: part(way.order, scale),
        seed: scale.seed,
    };
    let alone = ways().into_iter().flat_map(|way| NewMember::ALL.map(|kind| plan(kind, way, false)));
    let main = |order: Order| Way::new(order, order.main_kib(), MANY);
    let light = [Order::Ascending, Order::Runs].into_iter().flat_map(|order| {
        [CONVENTIONAL_CACHED, MANAGED_CACHED, BY_RUN, VGUARD_CACHED].map(|kind| plan(kind, main(order), true))
    });
    let idle = Order::ALL.into_iter().map(|order| plan(IDLE_CLEAN, main(order), false));
    alone.chain(light).chain(idle).collect()
}

fn shown(all: &Rebuilds) -> Vec<(&'static str, Shown)> {
    let of = |heading, text: Vec<String>, table| (heading, Shown { text, table: Some(table), ..Shown::default() });
    let mut hours = of(HEADING, about(all), all.hours());
    hours.1.figure = Some(figures::hours(all));
    let mut longest = of(LONGEST, vec![LONGEST_TEXT.into()], all.longest());
    longest.1.figure = Some(figures::longest(all));
    let public = Shown { text: vec![PUBLIC_TEXT.into()], rows: all.public(), ..Shown::default() };
    vec![
        hours,
        longest,
        of(CLEANINGS, vec![CLEANINGS_TEXT.into()], all.cleanings()),
        of(BESIDE, vec![BESIDE_TEXT.into()], all.beside()),
        of(CLEAN, vec![CLEAN_TEXT.into()], all.until_clean()),
        (PUBLIC, public),
    ]
}

fn about(all: &Rebuilds) -> Vec<String> {
    texts![
        format!(
            "No paper has this experiment. A mirror of st5000as0011: the survivor is conventional and reads ahead (32 MiB), the \
             other disk is new and is filled with nothing else to do. Run on a part of the disk ({}), hours scaled to 5 TB.",
            all.parts()
        ),
        "Assumptions: write caches of 64 MiB, the drive file's on conventional disks and under vguard, the layer's own on \
         drive-managed ones; bypass of runs, or of commands, from 512 KiB on, on a disk that knows what was never written; records \
         in an order that nothing sorts; no flush. What a conventional disk's write cache does behind its commands is not among \
         the hours that it is busy.",
    ]
}

const LONGEST_TEXT: &str = "The longest command of the new member, from its arrival there to its completion. A timeout of 7 s (RAID \
    controllers) or 30 s (Linux) drops the drive if one command takes longer, whatever the host asked for.";
const CLEANINGS_TEXT: &str = "In order, the cost and size of an append decide: whole bands are cleaned once. Scattered, the bands \
    that are cleaned for each write do.";
const BESIDE_TEXT: &str =
    "A random write and a random read of 4 KiB a second, by their own times, with 32 pieces under way.";
const CLEAN_TEXT: &str = "From the failure until no cache holds anything, if nothing more comes. A drive-managed disk that does \
    not clean when idle never is, and vguard does not clean when idle.";
const PUBLIC_TEXT: &str = "Press tests and threads tell of a drive of 4 TB whose layer is unknown. What follows names the \
    assumptions under which our model does the same: it is an explanation that would do, not evidence.";
