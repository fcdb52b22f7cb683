//! Figure 9 of Cassuto et al. 2010, as a test of any layer with a cache: sequential reads against the cache's fill, by
//! random writes or by writes in order.

use smrkit::stats::outcome::Outcome;
use smrkit::units::SECTOR_BYTES;

use crate::{Row, Scale};
use smrkit_report::figure::{Axis, Figure, Panel, Series, Style};

/// Sectors of a sequential read or write: 512 KiB (assumption: the paper gives none).
pub const LONG_SECTORS: u64 = 1024;
/// Bytes read, from the first LBA on: nearly the whole drive, and a tenth of that for `--quick`.
const SPAN_BYTES: (u64, u64) = (300_000_000_000, 30_000_000_000);
/// Largest difference from the plain drive's rate for reads after writes in order, in percent (assumption).
pub const AS_PLAIN_PERCENT: f64 = 2.0;

/// Shares of the cache that are filled before, in percent.
pub fn percents(scale: &Scale) -> Vec<u64> {
    scale.pick((0..=100).step_by(20).collect(), vec![0, 20, 100])
}

/// Bytes read.
pub fn span_bytes(scale: &Scale) -> u64 {
    scale.pick(SPAN_BYTES.0, SPAN_BYTES.1)
}

/// The reads, as a workload.
pub fn reads(scale: &Scale) -> String {
    format!("sequential-read:size=512Ki,bytes={}", span_bytes(scale))
}

/// Rates in MB/s.
pub struct FilledReads {
    plain: f64,
    percents: Vec<f64>,
    at_random: Vec<f64>,
    in_order: Vec<f64>,
}

impl FilledReads {
    /// Of the conventional disk's run, and for each fill of two: filled at random, and in order.
    pub fn from_outcomes(percents: &[u64], outcomes: &[Outcome]) -> FilledReads {
        let rate = |run: &Outcome| (run.host_read_sectors * SECTOR_BYTES) as f64 * 1e3 / run.elapsed_ns as f64;
        FilledReads {
            plain: rate(&outcomes[0]),
            percents: percents.iter().map(|&percent| percent as f64).collect(),
            at_random: outcomes[1..].iter().step_by(2).map(rate).collect(),
            in_order: outcomes[1..].iter().skip(1).step_by(2).map(rate).collect(),
        }
    }

    /// Number of fills that were run.
    pub fn fills(&self) -> usize {
        self.percents.len()
    }

    /// Loss by the nth fill at random against the plain drive's rate, in percent, and that fill in percent.
    pub fn loss(&self, nth: usize) -> (f64, f64) {
        (self.below(self.at_random[nth]), self.percents[nth])
    }

    fn below(&self, rate: f64) -> f64 {
        100.0 * (1.0 - rate / self.plain)
    }

    fn item(&self, how: &str) -> String {
        let fills: Vec<String> = self.percents.iter().map(|percent| percent.to_string()).collect();
        format!("rate at fills of {} %, {how}", fills.join(", "))
    }

    /// The claim that reads get slower with each fill at random, in the paper's words; `also` must hold too.
    pub fn falls(&self, words: &str, also: bool) -> Row {
        let falls = self.at_random.windows(2).all(|pair| pair[1] < pair[0]);
        let reason = format!("every step must fall; the plain drive reads {:.1}", self.plain);
        Row::holds(self.item("at random"), words, listed(&self.at_random), "MB/s", falls && also).because(reason)
    }

    /// The claim that reads stay as fast as the plain drive's after writes in order.
    pub fn stays(&self) -> Row {
        let worst = self.in_order.iter().map(|&rate| self.below(rate)).fold(f64::MIN, f64::max);
        Row::holds(
            self.item("in order"),
            "as the plain drive",
            listed(&self.in_order),
            "MB/s",
            worst <= AS_PLAIN_PERCENT,
        )
        .because(format!(
            "within {AS_PLAIN_PERCENT} % (assumption) of the plain drive at every fill; at worst {worst:.2} % below"
        ))
    }

    /// Both curves; `cache` is what is filled.
    pub fn figure(&self, name: &str, title: &str, cache: &str, note: &str) -> Figure {
        let points = |values: &[f64]| self.percents.iter().copied().zip(values.iter().copied()).collect();
        let series = [
            Series::nth(0, "filled at random", Style::Marked, points(&self.at_random)),
            Series::nth(2, "filled in order", Style::Marked, points(&self.in_order)),
        ];
        let x = Axis::linear(format!("{cache} filled before (%)"));
        let panel = Panel::lines(None, x, Axis::linear("Sequential read (MB/s)"), series);
        Figure::new(name, title, note, [panel.guided([(self.plain, "plain drive")])])
    }
}

fn listed(rates: &[f64]) -> String {
    rates.iter().map(|rate| format!("{rate:.1}")).collect::<Vec<_>>().join(" ")
}
