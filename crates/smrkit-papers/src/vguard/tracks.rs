//! Table 3 and figure 5: how much CloudPhysics traces write, and on how many tracks of 1 MB. Nothing is simulated.

use smrkit::error::Error;
use smrkit::units::SECTOR_BYTES;
use smrkit_trace::info::{InfoSettings, TraceInfo};

use super::super::bars::{self, Bar};
use super::paper::{TABLE3, VGUARD_THRESHOLD};
use super::traces::{AtHand, TraceKind};
use crate::{Item, Row, Shown, Value};
use smrkit_report::figure::{Colour, Figure};
use smrkit_report::format::count;

pub fn table3(traces: &[AtHand]) -> Result<Item, Error> {
    let mut rows: Vec<Row> = TABLE3
        .iter()
        .enumerate()
        .map(|(i, (writes, terabytes))| {
            Row::beside(
                format!("trace {} of 4: writes, drive", i + 1),
                format!("{} writes, {terabytes} TB", count(*writes)),
                Value::None,
                "",
            )
            .because("not at hand, and its name is not in the text")
        })
        .collect();
    for trace in traces.iter().filter(|trace| trace.kind == TraceKind::CloudPhysics) {
        let info = info(trace)?;
        let reached = (info.highest_end_sectors * SECTOR_BYTES) as f64 / 1e9;
        rows.push(
            Row::beside(
                format!("{}: writes, reach", trace.name),
                Value::None,
                format!("{} writes, {reached:.1} GB", count(info.writes)),
                "",
            )
            .because("a sample of two hours; the drive's size is not told"),
        );
    }
    Ok(Item::told(
        "Table 3: the CloudPhysics traces",
        Shown { text: vec!["The four traces of figure 4 are not public.".into()], rows, ..Shown::default() },
    ))
}

fn info(trace: &AtHand) -> Result<TraceInfo, Error> {
    TraceInfo::from_source(&mut trace.input.with_volumes()?, &InfoSettings::default())
}

pub fn figure5(traces: &[AtHand]) -> Result<Item, Error> {
    let mut bars: Vec<(String, u64, TraceKind)> = Vec::new();
    for trace in traces {
        bars.push((trace.name.clone(), info(trace)?.written_tracks, trace.kind));
    }
    Ok(Item::told(
        "Figure 5: tracks that traces write",
        Shown {
            text: vec![match bars.is_empty() {
                true => "No trace is at hand: name a folder of traces.".into(),
                false => format!(
                    "Distinct tracks of 1 MiB that the traces at hand write, against the {} that begin cleaning. The paper has \
                 over a hundred CloudPhysics traces.",
                    count(VGUARD_THRESHOLD)
                ),
            }],
            rows: bars.iter().map(row).collect(),
            figure: (!bars.is_empty()).then(|| figure(&bars)),
            ..Shown::default()
        },
    ))
}

fn row((name, tracks, kind): &(String, u64, TraceKind)) -> Row {
    let item = format!("{name}: distinct tracks written");
    let paper = format!("under {}", count(VGUARD_THRESHOLD));
    match kind {
        TraceKind::CloudPhysics => {
            Row::holds(item, paper, *tracks, "tracks", *tracks < VGUARD_THRESHOLD).because("α = β")
        }
        _ => Row::beside(item, Value::None, *tracks, "tracks").because("not of CloudPhysics"),
    }
}

fn figure(found: &[(String, u64, TraceKind)]) -> Figure {
    let bar = |kind, name: &str, tracks: u64| Bar::new(kind, name, tracks as f64, count(tracks));
    let ours = found.iter().map(|(name, tracks, _)| bar(0, name, *tracks));
    let all = ours.chain([bar(1, "cleaning begins", VGUARD_THRESHOLD)]).collect();
    let kinds = [("ours, traces at hand", Colour::nth(0)), ("paper: the threshold", Colour::GREY)];
    Figure::new(
        "vguard-figure-5",
        "Figure 5: tracks that traces write",
        "Each track written needs at most one guard at a time: a trace below the threshold is not cleaned for its \
         footprint.",
        [bars::panel(None, "Distinct tracks written (1 MiB each)", kinds, all)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Agreement;

    #[test]
    fn a_trace_of_as_many_tracks_as_begin_cleaning_is_not_under_them() {
        let verdict = |tracks, kind| row(&("trace".into(), tracks, kind)).verdict;
        assert_eq!(verdict(VGUARD_THRESHOLD - 1, TraceKind::CloudPhysics), Agreement::Agree);
        assert_eq!(verdict(VGUARD_THRESHOLD, TraceKind::CloudPhysics), Agreement::Differs);
    }
}
