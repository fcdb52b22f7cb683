//! A run in stretches of equally many requests, so that two runs over the same requests can be compared from any stretch on.

use std::collections::BTreeMap;

use serde::Serialize;
use smrkit::stats::counts::RequestRow;

/// Stretches at most; from then on two become one, and each holds twice the requests.
const STRETCHES_MAX: usize = 1024;

/// Binary digits of a latency that are kept.
const DIGITS: u32 = 8;
/// Share of itself by which a p99, the middle of all latencies with its digits, is off at most.
pub const P99_ERROR: f64 = 1.0 / (1 << DIGITS) as f64;

/// Figures of some of a run's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests completed.
    pub requests: u64,
    /// Their time.
    pub elapsed_ns: u64,
    /// Mean latency.
    pub mean_ns: u64,
    /// The latency that 99 % of them don't exceed.
    pub p99_ns: u64,
    /// The longest latency.
    pub longest_ns: u64,
}

/// A run's requests in stretches, in the order of completion.
#[derive(Clone, Debug)]
pub struct Stretches {
    /// Requests in each stretch but the last.
    length: u64,
    all: Vec<Stretch>,
}

#[derive(Clone, Debug, Default)]
struct Stretch {
    requests: u64,
    sum_ns: u128,
    /// None before the first request.
    shortest_ns: Option<u64>,
    longest_ns: u64,
    end_ns: u64,
    latencies: Latencies,
}

/// How many latencies are rounded to each.
type Latencies = BTreeMap<u64, u64>;

fn add_all(latencies: &mut Latencies, more: &Latencies) {
    more.iter().for_each(|(ns, count)| *latencies.entry(*ns).or_default() += count);
}

impl Default for Stretches {
    fn default() -> Stretches {
        Stretches { length: 1, all: Vec::new() }
    }
}

impl Stretches {
    /// Takes note of the next request; the first of a run that begins anew forgets what there was.
    pub fn add(&mut self, row: &RequestRow) {
        if row.index == 0 {
            *self = Stretches::default();
        }
        if self.all.last().is_none_or(|last| last.requests == self.length) {
            if self.all.len() == STRETCHES_MAX {
                self.all = self.all.chunks(2).map(|pair| pair[0].with(&pair[1])).collect();
                self.length *= 2;
            }
            self.all.push(Stretch::default());
        }
        if let Some(last) = self.all.last_mut() {
            last.add(row);
        }
    }

    /// The first stretch that ends after `moment_ns`.
    pub fn at(&self, moment_ns: u64) -> usize {
        self.all.partition_point(|stretch| stretch.end_ns <= moment_ns)
    }

    /// By how much the mean latency of the last quarter of the requests is longer than that of the quarter before it, as a share of the
    /// time between them. Where more requests come than are served, that is the share that is not.
    pub fn growth(&self) -> f64 {
        let quarter = self.all.len() / 4;
        let (before, last) = (self.all.len() - 2 * quarter, self.all.len() - quarter);
        let mean_ns = |part: &[Stretch]| {
            let requests: u64 = part.iter().map(|stretch| stretch.requests).sum();
            part.iter().map(|stretch| stretch.sum_ns).sum::<u128>() as f64 / requests.max(1) as f64
        };
        let end_ns = |part: &[Stretch]| part.last().map_or(0, |stretch| stretch.end_ns);
        let (before, last) = (&self.all[before..last], &self.all[last..]);
        let between_ns = end_ns(last).saturating_sub(end_ns(before));
        if between_ns == 0 { 0.0 } else { (mean_ns(last) - mean_ns(before)) / between_ns as f64 }
    }

    /// The shortest latency from a moment on: where requests come at times of their own and wait in turn, no backlog is shorter.
    pub fn shortest_ns_from(&self, moment_ns: u64) -> Option<u64> {
        // The stretch in which the moment lies may have begun before it.
        self.all.get(self.at(moment_ns) + 1..)?.iter().filter_map(|stretch| stretch.shortest_ns).min()
    }

    /// Figures of the requests from a stretch on; `None` where there are none.
    pub fn from(&self, first: usize) -> Option<Figures> {
        let wanted = self.all.get(first..)?;
        let last = wanted.last()?;
        let mut latencies = Latencies::new();
        wanted.iter().for_each(|stretch| add_all(&mut latencies, &stretch.latencies));
        let requests = wanted.iter().map(|stretch| stretch.requests).sum();
        let sum_ns: u128 = wanted.iter().map(|stretch| stretch.sum_ns).sum();
        let longest_ns = wanted.iter().map(|stretch| stretch.longest_ns).max().unwrap_or(0);
        let begin_ns = first.checked_sub(1).map_or(0, |before| self.all[before].end_ns);
        Some(Figures {
            requests,
            elapsed_ns: last.end_ns - begin_ns,
            mean_ns: (sum_ns / u128::from(requests.max(1))) as u64,
            p99_ns: p99_ns(&latencies, requests).min(longest_ns),
            longest_ns,
        })
    }
}

impl Stretch {
    fn add(&mut self, row: &RequestRow) {
        self.requests += 1;
        self.sum_ns += u128::from(row.latency_ns);
        self.shortest_ns = Some(self.shortest_ns.map_or(row.latency_ns, |shortest| shortest.min(row.latency_ns)));
        self.longest_ns = self.longest_ns.max(row.latency_ns);
        self.end_ns = row.end_ns;
        *self.latencies.entry(rounded(row.latency_ns)).or_default() += 1;
    }

    /// The stretch and the next as one.
    fn with(&self, next: &Stretch) -> Stretch {
        let mut latencies = self.latencies.clone();
        add_all(&mut latencies, &next.latencies);
        Stretch {
            requests: self.requests + next.requests,
            sum_ns: self.sum_ns + next.sum_ns,
            shortest_ns: self.shortest_ns.into_iter().chain(next.shortest_ns).min(),
            longest_ns: self.longest_ns.max(next.longest_ns),
            end_ns: next.end_ns,
            latencies,
        }
    }
}

/// The latency that 99 % of `requests` don't exceed.
fn p99_ns(latencies: &Latencies, requests: u64) -> u64 {
    let rank = (requests * 99).div_ceil(100);
    let mut below = 0;
    let reaches = |(_, count): &(&u64, &u64)| {
        below += **count;
        below >= rank
    };
    latencies.iter().find(reaches).map_or(0, |(ns, _)| *ns)
}

/// The middle of all latencies with the same first digits.
fn rounded(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(DIGITS);
    (ns >> shift << shift) + (1 << shift >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smrkit::request::Op;

    fn row(index: u64, latency_ns: u64, end_ns: u64) -> RequestRow {
        let (start_ns, arrival_ns) = (end_ns, end_ns.saturating_sub(latency_ns));
        let (op, lba, sectors, source, wait_ns) = (Op::Read, 0, 8, 0, 0);
        RequestRow { index, source, row: index, op, lba, sectors, arrival_ns, start_ns, end_ns, wait_ns, latency_ns }
    }

    #[test]
    fn figures_from_a_stretch_on_are_those_of_its_requests() {
        for count in [1_u64, 7, 1024, 1025, 5000] {
            // The latency grows with the number, one request a millisecond.
            let rows: Vec<RequestRow> = (0..count).map(|at| row(at, 1000 * (at + 1), 1_000_000 * (at + 1))).collect();
            let mut stretches = Stretches::default();
            rows.iter().for_each(|row| stretches.add(row));
            let from = stretches.at(rows[(count / 2) as usize].end_ns - 1);
            let figures = stretches.from(from).unwrap();
            let own = &rows[(count - figures.requests) as usize..];
            assert!(own[0].index <= count / 2 && own.len() as u64 <= count - count / 2 + stretches.length);
            let mean_ns = own.iter().map(|row| row.latency_ns).sum::<u64>() / own.len() as u64;
            assert_eq!((figures.mean_ns, figures.longest_ns), (mean_ns, 1000 * count));
            assert_eq!(figures.elapsed_ns, 1_000_000 * own.len() as u64);
            let p99_ns = own[(own.len() * 99).div_ceil(100) - 1].latency_ns;
            assert!(figures.p99_ns.abs_diff(p99_ns) as f64 <= p99_ns as f64 * P99_ERROR, "{} {p99_ns}", figures.p99_ns);
            assert_eq!(stretches.from(0).unwrap().requests, count);
        }
    }

    #[test]
    fn latencies_grow_by_the_share_that_is_not_served() {
        // One request every 10 ms, of which each is served in 12.5: a fifth is left over.
        let growth = |arrival_ms: f64, service_ms: f64| {
            let mut stretches = Stretches::default();
            for at in 0..5000 {
                let end_ns = (service_ms * 1e6) as u64 * (at + 1);
                stretches.add(&row(at, end_ns - (arrival_ms * 1e6) as u64 * at, end_ns));
            }
            stretches.growth()
        };
        assert!((growth(10.0, 12.5) - 0.2).abs() < 0.005, "{}", growth(10.0, 12.5));
        assert!(growth(10.0, 10.0).abs() < 1e-6);
        assert_eq!(Stretches::default().growth(), 0.0);
    }

    #[test]
    fn a_backlog_that_was_worked_off_shows() {
        let mut stretches = Stretches::default();
        // Served at once for a second, then ever later.
        (0..2000).for_each(|at| stretches.add(&row(at, at.saturating_sub(1000) * 1000, at * 1_000_000)));
        assert_eq!(stretches.shortest_ns_from(0), Some(0));
        let late = stretches.shortest_ns_from(1_500_000_000).unwrap();
        assert!((490_000..520_000).contains(&late), "{late}");
        assert_eq!(stretches.shortest_ns_from(1_999_000_000), None);
    }

    #[test]
    fn a_rounded_latency_is_nearly_itself() {
        for power in 0..63 {
            for ns in [1 << power, (1 << power) + 1, (3 << power >> 1) - 1, 3 << power >> 1, (2 << power) - 1] {
                let off = rounded(ns).abs_diff(ns);
                assert!(off as f64 <= ns as f64 * P99_ERROR, "{ns} is taken for {}", rounded(ns));
            }
        }
        assert_eq!([0, 1, 200, 255].map(rounded), [0, 1, 200, 255]);
    }

    #[test]
    fn figures_end_with_the_last_request_and_a_new_run_starts_afresh() {
        let mut stretches = Stretches::default();
        stretches.add(&row(0, 5, 10));
        assert_eq!(stretches.at(10), 1);
        assert_eq!(stretches.from(1), None);
        stretches.add(&row(0, 7, 30));
        let figures = stretches.from(0).unwrap();
        assert_eq!((figures.requests, figures.longest_ns, figures.elapsed_ns), (1, 7, 30));
    }
}
