//! Table 1: the traces. The paper's are not at hand, and its table is not in the text: what stands for them is described.

use smrkit::request::Op;
use smrkit::units::{Nanos, SECTOR_BYTES};

use super::traces::ReplayedTrace;
use crate::{Item, Row, Shown};
use smrkit_report::format;

pub fn item(traces: &[ReplayedTrace]) -> Item {
    let rows = traces.iter().map(row).collect();
    let stands = |trace: &ReplayedTrace| match trace.generated {
        true => format!("{} (not at hand): generated, for its substitute is not at hand either", trace.of.paper),
        false => format!("{} (not at hand): {}", trace.of.paper, trace.name),
    };
    let named: Vec<String> = traces.iter().map(stands).collect();
    Item::told(
        "Table 1: traces",
        Shown {
            text: vec![
                format!("{}. Substitutes come from the folder of real traces, if it has them.", named.join("; ")),
                "Inter-arrival times are stretched by the paper's own factors.".into(),
            ],
            rows,
            ..Shown::default()
        },
    )
}

fn row(trace: &ReplayedTrace) -> Row {
    let requests = &trace.requests;
    let writes = requests.iter().filter(|request| request.op == Op::Write);
    let (written, sectors) = writes.fold((0u64, 0), |(n, sum), request| (n + 1, sum + u64::from(request.sectors)));
    let span_ns = requests.last().map_or(0, |last| last.time.0) as f64;
    let gap = Nanos((span_ns / requests.len().saturating_sub(1).max(1) as f64) as u64);
    Row::not_comparable(
        format!("{} for {}", trace.name, trace.of.paper),
        format!(
            "{} requests {} apart, × {}; {:.1} % writes of {:.1} kB",
            format::count(requests.len() as u64),
            format::seconds(gap.as_secs()),
            trace.of.stretched,
            100.0 * written as f64 / requests.len() as f64,
            (sectors * SECTOR_BYTES) as f64 / 1e3 / written.max(1) as f64
        ),
        "",
    )
    .because(format!("another trace ({} in the paper), and the paper's values are not in its text", trace.of.role))
}
