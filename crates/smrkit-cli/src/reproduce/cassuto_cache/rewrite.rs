//! The claim of section IV.C about pure read-modify-write: 3 to 4 orders of magnitude worse, for the same regions.

use smrkit::drive::Drive;
use smrkit::engine::settings::Prefill;
use smrkit::stats::outcome::Outcome;

use super::super::lab::Plan;
use super::super::row::Row;
use super::super::{Item, Scale, Shown};
use super::accounting::{CACHED, PLAIN, REGION};
use super::seconds;

const PAPER: &str = "3 to 4 orders";

pub fn item(scale: &Scale, drive: &Drive) -> Item {
    let random = format!("random-write:count={}", scale.pick(10_000, 1000));
    let plan = |layer, workload: &str| Plan::workload(drive, layer, workload, scale.seed).prefill(Prefill::Sequential);
    let rmw = |workload: &str| plan("rmw", workload).set("portion", "region").set("region_sectors", REGION);
    let plain = |workload: &str| Plan::workload(drive, "in-place", workload, scale.seed);
    let plans = vec![plain(&random), rmw(&random), plain("cassuto-pc"), rmw("cassuto-pc")];
    Item::new("Pure read-modify-write", plans, |outcomes| {
        Shown {
        text: vec![
            "rmw with portion=region on a full cassuto-table1, regions of 50,000 sectors, against in-place: random 4 KB \
             writes, and cassuto-pc."
                .into(),
        ],
        rows: rows(outcomes),
        figure: None,
    }
    })
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let [plain, rmw, plain_pc, rmw_pc] = outcomes else { return Vec::new() };
    let moved = rmw.physical_read_sectors.total + rmw.physical_written_sectors.total;
    let in_sectors = moved as f64 / rmw.host_written_sectors as f64;
    let moved_pc =
        rmw_pc.physical_read_sectors.total - rmw_pc.host_read_sectors + rmw_pc.physical_written_sectors.total;
    let pc_in_sectors = moved_pc as f64 / rmw_pc.host_written_sectors as f64;
    let in_time = seconds(rmw) / seconds(plain);
    let pc_in_time = seconds(rmw_pc) / seconds(plain_pc);
    let overloading = rmw_pc.write_overloading.unwrap_or(f64::NAN);
    let cached = CACHED.seconds / PLAIN.seconds;
    vec![
        orders("4 KB writes, in sectors moved", in_sectors, "closed form 2 × 50,000 / 8 = 12,500"),
        orders(
            "4 KB writes, in time",
            in_time,
            &format!("closed form (2 s + 100,000 b) / (s + 8 b) = {:.1}", closed_form()),
        ),
        orders(
            "cassuto-pc, in sectors moved",
            pc_in_sectors,
            "writes of 38.2 sectors on average, some over two regions",
        ),
        orders("cassuto-pc, in time", pc_in_time, "reads, 85 % of the requests, cost nothing more"),
        orders("cassuto-pc, write overloading", overloading, "definition 4: a rewritten region counts 51 + 51"),
        Row::holds(
            "the cache saves, in time, cassuto-pc",
            "much",
            pc_in_time / cached,
            "×",
            pc_in_time > 10.0 * cached,
            format!("a factor over 10: {pc_in_time:.1} × without the cache, {cached:.2} × with it (Table I)"),
        ),
    ]
}

/// Agrees from 1,000, which is 3 orders of magnitude, up to where the nearest whole order is still 4.
fn orders(item: &str, factor: f64, why: &str) -> Row {
    let orders = factor.log10();
    let measure = if orders < 3.0 { ", under 3" } else { "" };
    let reason = format!("{orders:.1} orders{measure}; {why}");
    Row::holds(item, PAPER, factor, "×", (3.0..4.5).contains(&orders), reason)
}

/// A region read and written for one write of 8 sectors, on cassuto-table1.
fn closed_form() -> f64 {
    let (s_ms, b_ms) = (1.055_052_349, 7.462_971e-3);
    (2.0 * s_ms + 2.0 * REGION as f64 * b_ms) / (s_ms + 8.0 * b_ms)
}
