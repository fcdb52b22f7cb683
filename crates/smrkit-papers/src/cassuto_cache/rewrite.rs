//! The claim of section IV.C about pure read-modify-write: 3 to 4 orders of magnitude worse, for the same regions.

use smrkit::drive::Drive;
use smrkit::error::Error;
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;

use super::accounting::{PLAIN, REGION};
use super::common::{constant, seconds};
use crate::{Item, Plan, Row, Scale, Shown};

const PAPER: &str = "3 to 4 orders";
/// Multiple that the slowdown with the cache must be of the one without it (assumption: an order of magnitude).
const FAR: f64 = 10.0;

pub fn item(scale: &Scale, drive: &Drive) -> Result<Item, Error> {
    let random = format!("random-write:count={}", scale.pick(10_000, 1000));
    let plan = |layer, workload: &str| Plan::workload(drive, layer, workload, scale.seed).prefill(Prefill::Sequential);
    let rmw = |workload: &str| plan("rmw", workload).set("portion", "region").set("region_sectors", REGION);
    let plain = |workload: &str| Plan::workload(drive, "in-place", workload, scale.seed);
    let cached = Plan::workload(drive, "set-assoc", "cassuto-pc", scale.seed).set("region_sectors", REGION);
    let plans = vec![plain(&random), rmw(&random), plain("cassuto-pc"), rmw("cassuto-pc"), cached];
    let clock = constant(drive)?;
    // A region read and written for one write of 8 sectors.
    let closed_form = 2.0 * clock.cost(REGION).as_secs() / clock.cost(8).as_secs();
    Ok(Item::new("Pure read-modify-write", plans, move |outcomes| Shown {
        text: texts![
            "rmw with portion=region on a full cassuto-table1, regions of 50,000 sectors, against in-place: random 4 KB \
             writes, and cassuto-pc; and set-assoc with 1 % cache on cassuto-pc.",
        ],
        rows: rows(outcomes, closed_form),
        ..Shown::default()
    }))
}

fn rows(outcomes: &[Outcome], closed_form: f64) -> Vec<Row> {
    let [plain, rmw, plain_pc, rmw_pc, cached_pc] = outcomes else { return Vec::new() };
    let moved = rmw.physical_read_sectors.total + rmw.physical_written_sectors.total;
    let in_sectors = moved as f64 / rmw.host_written_sectors as f64;
    let moved_pc =
        rmw_pc.physical_read_sectors.total - rmw_pc.host_read_sectors + rmw_pc.physical_written_sectors.total;
    let pc_in_sectors = moved_pc as f64 / rmw_pc.host_written_sectors as f64;
    let in_time = seconds(rmw) / seconds(plain);
    let pc_in_time = seconds(rmw_pc) / seconds(plain_pc);
    let overloading = rmw_pc.write_overloading.unwrap_or(f64::NAN);
    let cached = seconds(cached_pc) / seconds(plain_pc);
    let write_sectors = PLAIN.writes[1] as f64 / PLAIN.writes[0] as f64;
    let read_percent = 100.0 * PLAIN.reads[0] as f64 / (PLAIN.reads[0] + PLAIN.writes[0]) as f64;
    vec![
        orders("4 KB writes, in sectors moved", in_sectors, "closed form 2 × 50,000 / 8 = 12,500"),
        orders(
            "4 KB writes, in time",
            in_time,
            &format!("closed form (2 s + 100,000 b) / (s + 8 b) = {closed_form:.1}"),
        ),
        orders(
            "cassuto-pc, in sectors moved",
            pc_in_sectors,
            &format!("writes of {write_sectors:.1} sectors on average, some over two regions"),
        ),
        orders(
            "cassuto-pc, in time",
            pc_in_time,
            &format!("reads, {read_percent:.0} % of the requests, cost nothing more"),
        ),
        orders("cassuto-pc, write overloading", overloading, "definition 4: a rewritten region counts 51 + 51"),
        Row::holds(
            "cassuto-pc, slowdown without the cache to slowdown with it",
            "far slower without",
            pc_in_time / cached,
            "×",
            pc_in_time > FAR * cached,
        )
        .because(format!(
            "a factor over {FAR} (assumption): {pc_in_time:.1} × by rmw, {cached:.2} × by set-assoc, both simulated"
        )),
    ]
}

/// Agrees from 1,000, which is 3 orders of magnitude, up to where the nearest whole order is still 4.
fn orders(item: &str, factor: f64, why: &str) -> Row {
    let orders = factor.log10();
    let measure = if orders < 3.0 { ", under 3" } else { "" };
    let reason = format!("{orders:.1} orders{measure}; {why}");
    Row::holds(item, PAPER, factor, "×", (3.0..4.5).contains(&orders)).because(reason)
}
