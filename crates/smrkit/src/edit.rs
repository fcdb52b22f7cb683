//! Edits of requests before they are served: the first of them, those of a stretch of time, writes packed into larger ones or split.
//!
//! Packed writes are the same bytes by fewer commands, as from a program that gathers them in memory first: an assumption about the
//! program, not about a disk. A packed write goes where its first sector would have gone, rounded down to a multiple of its size within
//! its volume; where its other parts were to go is forgotten. Each volume, and each of several merged sources, gathers its own writes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::keys;
use crate::request::{Op, Request, Source};
use crate::schema::{Count, Key, Keyed, Maybe, Sectors, TextPiece, Time, Values};
use crate::units::{Lba, Nanos};

/// Length of a write: a request holds no more sectors.
const WRITE: Sectors = Sectors(1, u32::MAX as u64);

keys! {
    /// What is taken of the requests, and how their writes are cut.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct EditKeys {
        /// Drops requests before this time; the remaining times are counted from it.
        from: Nanos = Time(0), "0s";
        /// Drops requests from this time on. A trace in the order of its times is not read further.
        until: Option<Nanos> = Maybe(Time(1)), "";
        /// Keeps only this many of the remaining requests.
        first: Option<u64> = Maybe(Count(1, u64::MAX)), "";
        /// Combines writes into writes of this size, each at the address of the first write in it.
        pack: Option<u64> = Maybe(WRITE), "";
        /// Splits longer writes into writes of this size.
        split: Option<u64> = Maybe(WRITE), "";
    }
}

/// Edits of requests, in the order of their keys; `Display` gives the canonical text.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    keys: EditKeys,
    text: String,
}

impl FromStr for Edit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Edit, Error> {
        let mut values = Values::new(EditKeys::keys());
        TextPiece::whole("edit", text).fill(&mut values)?;
        let keys = EditKeys::read(&values)?;
        match keys.until {
            Some(until) if until <= keys.from => {
                Err(Error::Usage(format!("edit: until={until} leaves nothing from={}: raise until", keys.from)))
            }
            _ if keys == EditKeys::default() => {
                Err(Error::Usage("edit: it changes nothing: give from, until, first, pack or split".into()))
            }
            _ => {
                let given: Vec<String> = values.given().map(|(key, value)| format!("{key}={value}")).collect();
                Ok(Edit { keys, text: given.join(",") })
            }
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Edit {
    /// The keys, for help and docs.
    pub fn keys() -> Vec<Key> {
        EditKeys::keys()
    }

    /// The requests of `source`, edited, on a device of `limit` sectors.
    pub fn apply<S: Source>(&self, source: S, limit: u64) -> Edited<S> {
        let EditKeys { from, until, first, pack, split } = self.keys;
        let until = until.unwrap_or(Nanos(u64::MAX));
        let taken = Taken { from, until, ..Taken::first(source, first.unwrap_or(u64::MAX)) };
        // Both are at most the size of a request, which has 32 bits.
        let size = |sectors: u64| sectors as u32;
        Edited {
            source: Packed::new(taken, pack.map(size), limit),
            split: split.map_or(u32::MAX, size),
            batch: Vec::new(),
        }
    }
}

/// A source whose requests are edited.
pub struct Edited<S> {
    /// Its requests before their writes are split.
    pub source: Packed<Taken<S>>,
    split: u32,
    batch: Vec<Request>,
}

impl<S: Source> Source for Edited<S> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), Error> {
        out.clear();
        self.source.fill(&mut self.batch)?;
        for request in &self.batch {
            let mut rest = *request;
            while rest.op == Op::Write && rest.sectors > self.split {
                out.push(Request { sectors: self.split, ..rest });
                rest.lba += u64::from(self.split);
                rest.sectors -= self.split;
            }
            out.push(rest);
        }
        Ok(())
    }

    /// How many requests were outstanding is unknown once requests are edited.
    fn outstanding(&self) -> &[u16] {
        &[]
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }
}

/// A part of a source's requests.
pub struct Taken<S> {
    /// The source that they are taken from.
    pub source: S,
    from: Nanos,
    until: Nanos,
    left: u64,
    /// The latest time so far; `None` once a request was out of order.
    in_order_to: Option<Nanos>,
}

impl<S: Source> Taken<S> {
    /// The first `requests`.
    pub fn first(source: S, requests: u64) -> Taken<S> {
        Taken { source, from: Nanos::ZERO, until: Nanos(u64::MAX), left: requests, in_order_to: Some(Nanos::ZERO) }
    }
}

impl<S: Source> Source for Taken<S> {
    fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
        batch.clear();
        while self.left > 0 && batch.is_empty() && self.source.fill_next(batch)? {
            let is_in_order = batch.is_sorted_by_key(|request| request.time)
                && self.in_order_to.is_some_and(|last| last <= batch[0].time);
            self.in_order_to = batch.last().map(|request| request.time).filter(|_| is_in_order);
            // If all rows so far were in order, none is expected to be earlier.
            if self.in_order_to.is_some() && batch[0].time >= self.until {
                self.left = 0;
            }
            batch.retain(|request| (self.from..self.until).contains(&request.time));
            batch.iter_mut().for_each(|request| request.time -= self.from);
            batch.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= batch.len() as u64;
        }
        Ok(())
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.source)
    }
}

/// A source whose writes are gathered into writes of a given size. A flush sends what its source has gathered so far, and so does the end;
/// all other requests pass at once.
pub struct Packed<S> {
    /// The source that is packed.
    pub source: S,
    /// Sectors of a packed write; `None` if nothing is packed.
    sectors: Option<u64>,
    /// Sectors of the device.
    limit: u64,
    /// Gathered writes by volume and source.
    gathered: BTreeMap<(u16, u8), Gathered>,
    batch: Vec<Request>,
    last: Nanos,
}

/// Requests that have been gathered.
#[derive(Clone, Copy, Default)]
struct Gathered {
    first: Lba,
    sectors: u64,
}

impl<S: Source> Packed<S> {
    /// Packs the writes of `source` into writes of `sectors` (at least one) on a device of `limit` sectors.
    pub fn new(source: S, sectors: impl Into<Option<u32>>, limit: u64) -> Packed<S> {
        let sectors = sectors.into().map(|sectors| u64::from(sectors).min(limit).max(1));
        Packed { source, sectors, limit, gathered: BTreeMap::new(), batch: Vec::new(), last: Nanos::ZERO }
    }

    /// A write of what was `gathered`, at its first address rounded down to a multiple of `whole` in the volume. It ends within the device,
    /// unless its first sector was past the end: that is for the replay to refuse or to fold, as without packing.
    fn write(&self, like: Request, gathered: Gathered, whole: u64) -> Request {
        let Lba(first) = gathered.first;
        let start = self.source.volume_start(like.volume).0.min(first);
        let aligned = first - (first - start) % whole;
        let last = self.limit.saturating_sub(gathered.sectors);
        let lba = Lba(if first < self.limit { aligned.min(last) } else { aligned });
        // At most the size of a packed write, so it fits in 32 bits.
        Request { op: Op::Write, lba, sectors: gathered.sectors as u32, ..like }
    }

    /// Adds a write to the one being packed for its volume and source, and emits that each time it has `whole` sectors.
    fn gather(&mut self, request: &Request, out: &mut Vec<Request>, whole: u64) {
        let place = (request.volume, request.source);
        let mut own = self.gathered.get(&place).copied().unwrap_or_default();
        let (mut from, mut left) = (request.lba, u64::from(request.sectors));
        while left > 0 {
            if own.sectors == 0 {
                own.first = from;
            }
            let part = left.min(whole - own.sectors);
            (own.sectors, from, left) = (own.sectors + part, from + part, left - part);
            if own.sectors == whole {
                out.push(self.write(*request, own, whole));
                own.sectors = 0;
            }
        }
        self.gathered.insert(place, own);
    }

    /// Sends what was gathered for the volume and the source of `like`.
    fn send(&mut self, like: Request, out: &mut Vec<Request>, whole: u64) {
        if let Some(own) = self.gathered.remove(&(like.volume, like.source)).filter(|own| own.sectors > 0) {
            out.push(self.write(like, own, whole));
        }
    }
}

impl<S: Source> Source for Packed<S> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), Error> {
        let Some(whole) = self.sectors else { return self.source.fill(out) };
        out.clear();
        let mut batch = std::mem::take(&mut self.batch);
        while out.is_empty() {
            self.source.fill(&mut batch)?;
            for request in &batch {
                self.last = request.time;
                match request.op {
                    Op::Write => self.gather(request, out, whole),
                    Op::Flush => {
                        self.send(*request, out, whole);
                        out.push(*request);
                    }
                    Op::Read | Op::Discard => out.push(*request),
                }
            }
            if batch.is_empty() {
                // The source has ended: what is still packed is sent with the time of the last request.
                let places: Vec<(u16, u8)> = self.gathered.keys().copied().collect();
                for (volume, source) in places {
                    let end = Request { time: self.last, ..Request::new(Op::Write, Lba(0), 1) };
                    self.send(Request { volume, source, ..end }, out, whole);
                }
                break;
            }
        }
        self.batch = batch;
        Ok(())
    }

    /// How many requests were outstanding is unknown once writes are packed.
    fn outstanding(&self) -> &[u16] {
        if self.sectors.is_some() { &[] } else { self.source.outstanding() }
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

    fn edited(text: &str, requests: &[Request]) -> Vec<Request> {
        let edit: Edit = text.parse().unwrap();
        assert_eq!(edit.to_string().parse::<Edit>().unwrap().to_string(), edit.to_string());
        edit.apply(InMemory::new(requests.to_vec()), LIMIT).rest().unwrap()
    }

    #[test]
    fn a_stretch_of_time_begins_at_0_and_the_first_are_counted_within() {
        let all = random(7);
        let within: Vec<Request> = all.iter().filter(|one| (100..2000).contains(&one.time.0)).copied().collect();
        let shifted: Vec<Request> =
            within.iter().map(|one| Request { time: Nanos(one.time.0 - 100), ..*one }).collect();
        assert_eq!(edited("from=100ns,until=2us", &all), shifted);
        assert_eq!(edited("first=50,from=100ns,until=2us", &all), shifted[..50]);
        assert_eq!(edited("until=1s", &all), all);
        assert!("from=0s".parse::<Edit>().unwrap_err().to_string().contains("changes nothing"));
    }

    #[test]
    fn the_first_requests_end_in_the_middle_of_a_later_batch() {
        let requests: Vec<Request> = (0..3000).map(|at| Request::new(Op::Read, Lba(at), 1)).collect();
        const { assert!(InMemory::BATCH < 1500) };
        assert_eq!(Taken::first(InMemory::new(requests.clone()), 1500).rest().unwrap(), requests[..1500]);
    }

    #[test]
    fn split_writes_are_the_same_sectors_by_more_commands() {
        let all = random(8);
        let split = edited("split=4Ki", &all);
        assert!(split.iter().all(|one| one.op != Op::Write || one.sectors <= 8));
        let sectors = |all: &[Request]| -> Vec<(Op, u64, u64)> {
            let each = |one: &Request| {
                let (op, time, first) = (one.op, one.time.0, one.lba.0);
                (first..one.end().0).map(move |lba| (op, time, lba)).collect::<Vec<_>>()
            };
            all.iter().flat_map(each).collect()
        };
        assert_eq!(sectors(&split), sectors(&all));
        let parts = |one: &Request| if one.op == Op::Write { one.sectors.div_ceil(8) as usize } else { 1 };
        let parts: usize = packed(&all, 64).iter().map(parts).sum();
        assert_eq!(edited("pack=32Ki,split=4Ki", &all).len(), parts);
    }

    #[test]
    fn volumes_gather_for_themselves() {
        let on = |volume, lba| Request { volume, ..Request::new(Op::Write, Lba(lba), 8) };
        let packed = packed(&[on(0, 0), on(1, 80), on(0, 8), on(1, 88)], 16);
        assert_eq!(packed.iter().map(|one| (one.volume, one.lba.0)).collect::<Vec<_>>(), [(0, 0), (1, 80)]);
    }

    #[test]
    fn a_packed_write_stays_in_its_volume() {
        let volumes = Volumes(vec![Request { volume: 1, ..Request::new(Op::Write, Lba(130), 64) }]);
        let packed = Packed::new(Box::new(volumes), 64, LIMIT).rest().unwrap();
        assert_eq!(packed[0].lba, Lba(100), "the volume begins there, and 130 is in its first 64 sectors");
    }

    #[test]
    fn what_a_source_tells_passes_through_a_box() {
        let source: Box<dyn Source> = Box::new(Volumes(Vec::new()));
        assert_eq!((source.outstanding(), source.volume_start(1)), (&[7_u16][..], Lba(100)));
    }

    /// Two volumes, of which the second begins at sector 100.
    struct Volumes(Vec<Request>);

    impl Source for Volumes {
        fn fill(&mut self, batch: &mut Vec<Request>) -> Result<(), Error> {
            *batch = std::mem::take(&mut self.0);
            Ok(())
        }

        fn outstanding(&self) -> &[u16] {
            &[7]
        }

        fn volume_start(&self, volume: u16) -> Lba {
            Lba(100 * u64::from(volume))
        }
    }

    #[test]
    fn a_stretch_in_order_is_not_read_past_its_end() {
        let at = |time| Request { time: Nanos(time), ..Request::new(Op::Read, Lba(0), 1) };
        let left = |times: &[u64]| {
            let requests: Vec<Request> = times.iter().copied().cycle().take(InMemory::BATCH).map(at).collect();
            let after: Vec<Request> = (0..3000).map(|nth| at(5000 + nth)).collect();
            let mut edited =
                "until=2us".parse::<Edit>().unwrap().apply(InMemory::new([requests, after].concat()), LIMIT);
            edited.rest().unwrap();
            let progress = edited.progress();
            progress.total.unwrap() - progress.done
        };
        assert_eq!(left(&[1000]), 3000 - InMemory::BATCH as u64, "one batch after the end");
        assert_eq!(left(&[1000, 999]), 0, "out of order");
    }

    #[test]
    fn what_leaves_nothing_is_refused() {
        let error = |text: &str| text.parse::<Edit>().unwrap_err().to_string();
        assert!(error("from=2s,until=1s").contains("leaves nothing"));
        assert!(error("last=3").contains("no key of this name"));
        assert!(error("pack=100").contains("512"));
    }
}
