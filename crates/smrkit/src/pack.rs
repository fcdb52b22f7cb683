//! Writes packed into larger ones: the same bytes by fewer commands, as from a program that gathers them in memory first.
//!
//! An assumption about the program, not about a disk. A packed write goes where its first sector would have gone, rounded
//! down to a multiple of its size; where its other parts were to go is forgotten. Each of several merged sources gathers its
//! own writes.

use crate::error::Error;
use crate::request::{Op, Request, Source};
use crate::units::{Lba, Nanos};

/// A source whose writes are gathered until they make up one of a given size. A flush sends what its source has gathered so
/// far, and so does the end; all else passes at once.
pub struct Packed<S> {
    /// The source that is packed.
    pub source: S,
    /// Sectors of a packed write.
    sectors: u64,
    /// Sectors that writes may lie in.
    limit: u64,
    gathered: Vec<Gathered>,
    batch: Vec<Request>,
    last: Nanos,
}

/// Requests that have been gathered of one source.
#[derive(Clone, Copy, Default)]
struct Gathered {
    first: Lba,
    sectors: u64,
}

impl<S: Source> Packed<S> {
    /// Packs the writes of `source` into writes of `sectors` (at least one) on a device of `limit` sectors.
    pub fn new(source: S, sectors: u32, limit: u64) -> Packed<S> {
        let sectors = u64::from(sectors).min(limit).max(1);
        Packed { source, sectors, limit, gathered: Vec::new(), batch: Vec::new(), last: Nanos::ZERO }
    }

    fn gathered_from(&mut self, source: u8) -> &mut Gathered {
        let at = usize::from(source);
        if self.gathered.len() <= at {
            self.gathered.resize(at + 1, Gathered::default());
        }
        &mut self.gathered[at]
    }

    /// A write of `gathered`, never past the limit unless its first sector was.
    fn write(&self, like: Request, gathered: Gathered) -> Request {
        let Lba(first) = gathered.first;
        let aligned = first - first % self.sectors;
        let last = self.limit.saturating_sub(gathered.sectors);
        let lba = Lba(if first < self.limit { aligned.min(last) } else { aligned });
        // Not more than a packed write, which fits.
        Request { op: Op::Write, lba, sectors: gathered.sectors as u32, ..like }
    }

    fn gather(&mut self, request: &Request, out: &mut Vec<Request>) {
        let whole = self.sectors;
        let mut own = std::mem::take(self.gathered_from(request.source));
        let (mut from, mut left) = (request.lba, u64::from(request.sectors));
        while left > 0 {
            if own.sectors == 0 {
                own.first = from;
            }
            let part = left.min(whole - own.sectors);
            (own.sectors, from, left) = (own.sectors + part, from + part, left - part);
            if own.sectors == whole {
                out.push(self.write(*request, own));
                own.sectors = 0;
            }
        }
        *self.gathered_from(request.source) = own;
    }

    /// Sends what a source has gathered.
    fn send(&mut self, like: Request, out: &mut Vec<Request>) {
        let own = std::mem::take(self.gathered_from(like.source));
        if own.sectors > 0 {
            out.push(self.write(like, own));
        }
    }
}

impl<S: Source> Source for Packed<S> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), Error> {
        out.clear();
        let mut batch = std::mem::take(&mut self.batch);
        while out.is_empty() {
            self.source.fill(&mut batch)?;
            for request in &batch {
                self.last = request.time;
                match request.op {
                    Op::Write => self.gather(request, out),
                    Op::Flush => {
                        self.send(*request, out);
                        out.push(*request);
                    }
                    Op::Read | Op::Discard => out.push(*request),
                }
            }
            if batch.is_empty() {
                for source in 0..self.gathered.len() {
                    let end = Request { time: self.last, ..Request::new(Op::Write, Lba(0), 1) };
                    self.send(Request { source: source as u8, ..end }, out);
                }
                break;
            }
        }
        self.batch = batch;
        Ok(())
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::request::InMemory;

    const LIMIT: u64 = 1000;

    /// Requests of a few sources, the times ascending.
    fn random(seed: u64) -> Vec<Request> {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut time = 0;
        let mut one = |_| {
            time += rng.random_range(0..5);
            let sectors = rng.random_range(1..=60);
            let op = match rng.random_range(0..40) {
                0 => Op::Flush,
                1 => Op::Discard,
                2..12 => Op::Read,
                _ => Op::Write,
            };
            let lba = Lba(rng.random_range(0..=LIMIT - u64::from(sectors)));
            Request { time: Nanos(time), source: rng.random_range(0..3), ..Request::new(op, lba, sectors) }
        };
        (0..3000).map(&mut one).collect()
    }

    fn packed(requests: &[Request], sectors: u32) -> Vec<Request> {
        let source = InMemory::new(requests.to_vec());
        let mut packed = Packed::new(source, sectors, LIMIT);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        let most = requests.iter().map(|request| 1 + request.sectors as usize).sum();
        loop {
            packed.fill(&mut batch).unwrap();
            if batch.is_empty() {
                return all;
            }
            all.extend_from_slice(&batch);
            assert!(all.len() <= most, "more requests than there were sectors");
        }
    }

    fn written(requests: &[Request], source: u8) -> u64 {
        let own = requests.iter().filter(|request| request.op == Op::Write && request.source == source);
        own.map(|request| u64::from(request.sectors)).sum()
    }

    #[test]
    fn packing_loses_no_byte_moves_no_read_and_stays_on_the_disk() {
        for (seed, sectors) in [(1, 1), (2, 16), (3, 64), (4, 999), (5, 5000)] {
            let before = random(seed);
            let after = packed(&before, sectors);
            (0..3).for_each(|source| assert_eq!(written(&before, source), written(&after, source)));
            let others = |all: &[Request]| -> Vec<Request> {
                all.iter().copied().filter(|request| request.op != Op::Write).collect()
            };
            assert_eq!(others(&before), others(&after));
            assert!(after.is_sorted_by_key(|request| request.time));
            assert!(after.iter().all(|request| request.sectors > 0 && request.end().0 <= LIMIT));
        }
    }

    #[test]
    fn only_a_flush_and_the_end_send_less_than_a_whole_write() {
        let after = packed(&random(6), 64);
        for (at, request) in after.iter().enumerate().filter(|(_, request)| request.op == Op::Write) {
            let is_last = after[at + 1..].iter().all(|later| later.op != Op::Write || later.source != request.source);
            let is_flushed =
                after.get(at + 1).is_some_and(|next| next.op == Op::Flush && next.source == request.source);
            assert!(request.sectors == 64 || (request.sectors < 64 && (is_last || is_flushed)), "{request:?}");
        }
    }

    #[test]
    fn writes_in_order_stay_in_order_and_touch() {
        let writes: Vec<Request> = (0..32).map(|at| Request::new(Op::Write, Lba(at * 8), 8)).collect();
        let places: Vec<(u64, u32)> = packed(&writes, 64).iter().map(|r| (r.lba.0, r.sectors)).collect();
        assert_eq!(places, [(0, 64), (64, 64), (128, 64), (192, 64)]);
        let long = packed(&[Request::new(Op::Write, Lba(128), 160)], 64);
        assert_eq!(long.iter().map(|r| (r.lba.0, r.sectors)).collect::<Vec<_>>(), [(128, 64), (192, 64), (256, 32)]);
    }

    #[test]
    fn a_packed_write_lies_where_its_first_part_would_have_been() {
        let scattered = [900, 70, 300, 5].map(|lba| Request::new(Op::Write, Lba(lba), 32));
        let places: Vec<u64> = packed(&scattered, 64).iter().map(|request| request.lba.0).collect();
        assert_eq!(places, [896, 256]);
    }
}
