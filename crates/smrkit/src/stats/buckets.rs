//! A histogram of the crate `hdrhistogram` whose counters grow with what they count.
//!
//! They have 32 bits until 64 are needed: an array keeps a pair of histograms for each drive, together more than the
//! processor's caches hold, and takes 7 % longer with counters of twice the size.

use hdrhistogram::{Counter, Histogram};

/// Counters of 32 bits may hold as many values as this, in one bucket at worst.
const NARROW_MAX: u64 = u32::MAX as u64;

/// Counters of values.
#[derive(Clone)]
pub(super) enum Buckets {
    Narrow(Histogram<u32>),
    Wide(Histogram<u64>),
}

impl Buckets {
    /// Room for values to `largest` at first, told apart to this many digits; larger values make it grow.
    pub fn new(largest: u64, digits: u8) -> Buckets {
        Buckets::Narrow(histogram(largest, digits))
    }

    #[inline]
    pub fn record(&mut self, value: u64) {
        match self {
            Buckets::Narrow(narrow) if narrow.len() < NARROW_MAX => narrow.record(value),
            Buckets::Narrow(_) => self.widened().record(value),
            Buckets::Wide(wide) => wide.record(value),
        }
        .expect("a histogram that grows");
    }

    /// Records a value `count` times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        match self {
            Buckets::Narrow(narrow) if narrow.len().saturating_add(count) <= NARROW_MAX => {
                narrow.record_n(value, count as u32)
            }
            _ => self.widened().record_n(value, count),
        }
        .expect("a histogram that grows");
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Buckets) {
        match (&mut *self, other) {
            (Buckets::Narrow(narrow), Buckets::Narrow(other)) if narrow.len() + other.len() <= NARROW_MAX => {
                narrow.add(other).expect("a histogram that grows");
            }
            (_, Buckets::Narrow(other)) => pour(other, self.widened()),
            (_, Buckets::Wide(other)) => self.widened().add(other).expect("a histogram that grows"),
        }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        match self {
            Buckets::Narrow(narrow) => narrow.len(),
            Buckets::Wide(wide) => wide.len(),
        }
    }

    /// The value that a share of all do not exceed.
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        match self {
            Buckets::Narrow(narrow) => narrow.value_at_quantile(quantile),
            Buckets::Wide(wide) => wide.value_at_quantile(quantile),
        }
    }

    /// Calls `each` with the values that occur, ascending, and how often they do.
    pub fn for_each(&self, mut each: impl FnMut(u64, u64)) {
        match self {
            Buckets::Narrow(narrow) => recorded(narrow).for_each(|(value, count)| each(value, count)),
            Buckets::Wide(wide) => recorded(wide).for_each(|(value, count)| each(value, count)),
        }
    }

    #[cold]
    fn widened(&mut self) -> &mut Histogram<u64> {
        if let Buckets::Narrow(narrow) = self {
            let mut wide = histogram(narrow.high(), narrow.sigfig());
            pour(narrow, &mut wide);
            *self = Buckets::Wide(wide);
        }
        match self {
            Buckets::Wide(wide) => wide,
            Buckets::Narrow(_) => unreachable!("it was made wide"),
        }
    }
}

fn histogram<T: Counter>(largest: u64, digits: u8) -> Histogram<T> {
    let mut histogram = Histogram::new_with_bounds(1, largest, digits).expect("bounds that the crate takes");
    histogram.auto(true);
    histogram
}

fn recorded<T: Counter>(histogram: &Histogram<T>) -> impl Iterator<Item = (u64, u64)> {
    histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value().as_u64()))
}

fn pour(from: &Histogram<u32>, to: &mut Histogram<u64>) {
    for (value, count) in recorded(from) {
        to.record_n(value, count).expect("a histogram that grows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many values as narrow counters may hold, all of them 7.
    fn full() -> Buckets {
        let mut narrow = histogram(1000, 4);
        narrow.record_n(7, u32::MAX).unwrap();
        Buckets::Narrow(narrow)
    }

    fn values(buckets: &Buckets) -> Vec<(u64, u64)> {
        let mut values = Vec::new();
        buckets.for_each(|value, count| values.push((value, count)));
        values
    }

    #[test]
    fn counters_of_32_bits_never_overflow() {
        let mut more = full();
        assert!(matches!(more, Buckets::Narrow(_)));
        more.record(7);
        more.record(8);
        assert_eq!(values(&more), [(7, NARROW_MAX + 1), (8, 1)]);
        let one = || {
            let mut one = Buckets::new(10, 4);
            one.record(7);
            one
        };
        for (mut to, from) in [(full(), one()), (one(), full()), (full(), full()), (more, one()), (one(), full())] {
            let count = to.len() + from.len();
            to.add(&from);
            assert_eq!(to.len(), count);
            assert_eq!(values(&to).iter().map(|(_, count)| count).sum::<u64>(), count);
            assert_eq!(to.value_at_quantile(0.5), 7);
        }
    }
}
