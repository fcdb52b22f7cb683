//! Properties of merging, and of bursts.

use proptest::prelude::*;

use super::*;
use crate::request::Op;
use crate::units::Nanos;

const SIZE: u64 = 1000;

fn rules() -> impl Strategy<Value = Interleave> {
    prop_oneof![
        Just(Interleave::None),
        Just(Interleave::Time),
        prop_oneof![1..20_u64, 1..5000_u64].prop_map(|operations| Interleave::Burst { operations }),
    ]
}

/// Sources whose times ascend; the address tells which request it is.
fn streams() -> impl Strategy<Value = Vec<Vec<Request>>> {
    let source = prop::collection::vec((0..50_u64, 0..SIZE - 9), 0..3000).prop_map(|steps| {
        let mut time = 0;
        let request = |(i, (step, lba)): (usize, (u64, u64))| {
            time += step;
            let op = if i % 7 == 3 { Op::Flush } else { Op::Write };
            let (lba, sectors) = if op == Op::Flush { (0, 0) } else { (lba, 1 + (i % 9) as u32) };
            Request { time: Nanos(time), source: 9, ..Request::new(op, Lba(lba), sectors) }
        };
        steps.into_iter().enumerate().map(request).collect()
    });
    prop::collection::vec(source, 1..6)
}

fn parts(streams: &[Vec<Request>]) -> Vec<MergePart<InMemory>> {
    let part = |stream: &Vec<Request>| MergePart { source: InMemory::new(stream.clone()), sectors: SIZE };
    streams.iter().map(part).collect()
}

fn all(source: &mut impl Source) -> Vec<Request> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

fn merged(streams: &[Vec<Request>], rule: Interleave, placement: SourcePlacement, seed: u64) -> Vec<Request> {
    all(&mut Interleaved::new(parts(streams), rule, placement, seed).unwrap())
}

/// Lengths of the longest stretches of one source, in order.
fn stretches(requests: &[Request]) -> Vec<(u8, u64)> {
    requests.chunk_by(|a, b| a.source == b.source).map(|run| (run[0].source, run.len() as u64)).collect()
}

fn plain(sources: usize, count: usize) -> Vec<Vec<Request>> {
    vec![vec![Request::new(Op::Write, Lba(0), 8); count]; sources]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_merged_stream_holds_each_source_unchanged_at_its_place(
        streams in streams(), rule in rules(), zero in any::<bool>(), seed in any::<u64>()
    ) {
        let placement = if zero { SourcePlacement::Zero } else { SourcePlacement::EndToEnd };
        let requests = merged(&streams, rule, placement, seed);
        prop_assert_eq!(requests.len(), streams.iter().map(Vec::len).sum::<usize>());
        for (number, stream) in streams.iter().enumerate() {
            let base = if zero { 0 } else { number as u64 * SIZE };
            let placed = |r: &Request| Request {
                lba: if r.sectors == 0 { r.lba } else { r.lba + base }, source: number as u8, ..*r
            };
            let own: Vec<Request> = requests.iter().filter(|r| usize::from(r.source) == number).copied().collect();
            prop_assert_eq!(own, stream.iter().map(placed).collect::<Vec<_>>());
        }
        prop_assert_eq!(&requests, &merged(&streams, rule, placement, seed), "the same seed gives the same stream");
        if rule == Interleave::Time {
            let keys: Vec<_> = requests.iter().map(|request| (request.time, request.source)).collect();
            prop_assert!(keys.is_sorted());
        }
        if rule == Interleave::None {
            prop_assert!(requests.windows(2).all(|pair| pair[0].source <= pair[1].source));
        }
    }

    #[test]
    fn every_burst_is_whole_save_the_last_of_a_source(
        streams in streams(), operations in 1..400_u64, seed in any::<u64>()
    ) {
        let requests = merged(&streams, Interleave::Burst { operations }, SourcePlacement::Zero, seed);
        let mut given = vec![0; streams.len()];
        for (source, length) in stretches(&requests) {
            let given = &mut given[usize::from(source)];
            *given += length;
            let ended = *given == streams[usize::from(source)].len() as u64;
            prop_assert!(length.is_multiple_of(operations) || ended, "{length} of {operations} from {source}");
        }
    }
}

#[test]
fn a_burst_longer_than_any_source_gives_whole_sources_by_seed() {
    let rule = Interleave::Burst { operations: 1000 };
    let orders: std::collections::BTreeSet<Vec<u8>> = (0..60)
        .map(|seed| {
            let runs = stretches(&merged(&plain(3, 700), rule, SourcePlacement::EndToEnd, seed));
            assert!(runs.len() == 3 && runs.iter().all(|run| run.1 == 700), "{runs:?}");
            runs.iter().map(|run| run.0).collect()
        })
        .collect();
    assert_eq!(orders.len(), 6, "every order comes");
}

#[test]
fn sources_are_drawn_alike_whatever_they_have_left() {
    let streams = [plain(1, 1000).remove(0), plain(1, 9000).remove(0)];
    let requests = merged(&streams, Interleave::Burst { operations: 1 }, SourcePlacement::Zero, 7);
    let early = requests[..1000].iter().filter(|request| request.source == 0).count();
    // 1000 draws: five standard deviations are 79.
    assert!((421..=579).contains(&early), "{early}");
}

#[test]
fn a_burst_of_one_rarely_stays_with_a_source() {
    let runs = stretches(&merged(&plain(4, 5000), Interleave::Burst { operations: 1 }, SourcePlacement::Zero, 3));
    let mean = 20_000.0 / runs.len() as f64;
    assert!((1.25..1.45).contains(&mean), "the mean stretch of one in four is 4/3, not {mean}");
}

#[test]
fn a_request_beyond_its_source_is_refused_where_another_source_lies() {
    let streams = [vec![Request::new(Op::Read, Lba(SIZE - 7), 8)], Vec::new()];
    let merge = |placement| Interleaved::new(parts(&streams), Interleave::None, placement, 1).unwrap();
    let error = merge(SourcePlacement::EndToEnd).fill(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("request 1 ends at sector 1001, past the 1000"), "{error}");
    assert_eq!(all(&mut merge(SourcePlacement::Zero)).len(), 1);
}

#[test]
fn what_cannot_be_merged_says_what_to_do() {
    let part = || MergePart { source: InMemory::new(Vec::new()), sectors: 1 << 54 };
    let says = |parts, rule| Interleaved::new(parts, rule, SourcePlacement::EndToEnd, 1).err().unwrap().to_string();
    assert!(says(vec![part(), part()], Interleave::None).contains("use sources zero"));
    assert!(says(Vec::new(), Interleave::None).contains("1 to 256"));
}

#[test]
fn rules_read_as_they_print() {
    for text in ["none", "time", "burst:1", "burst:1000"] {
        assert_eq!(text.parse::<Interleave>().unwrap().to_string(), text);
    }
    for text in ["", "burst", "burst:0", "burst:-1", "burst:5,weighted", "burst:", "times"] {
        assert!(text.parse::<Interleave>().unwrap_err().to_string().contains("burst:N"), "{text}");
    }
}

#[test]
fn progress_is_the_mean_of_the_sources() {
    let mut source = Interleaved::new(parts(&plain(2, 4096)), Interleave::None, SourcePlacement::Zero, 1).unwrap();
    let mut batch = Vec::new();
    for _ in 0..4 {
        source.fill(&mut batch).unwrap();
    }
    let Progress { done, total } = source.progress();
    assert_eq!(total, Some(2 * WHOLE));
    // One is given, and the first batch of the other is read.
    assert_eq!(done, WHOLE + WHOLE / 4);
    assert_eq!((source.given(0), source.given(1)), (4096, 0));
}
