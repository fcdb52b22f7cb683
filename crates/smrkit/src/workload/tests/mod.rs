//! Promises of workloads: totals, shares, order, places, and the text forms.

mod text;

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::request::{Op, Request};
use crate::schema::{Domain, Key};

/// 307 GB, as in Cassuto 2010.
const CASSUTO_SECTORS: u64 = 600_000_000;
const FIVE_TB: u64 = 5_000_000_000_000 / 512;

fn source(text: &str, capacity: u64, seed: u64) -> Box<dyn Source> {
    Workload::parse(text).unwrap().source(capacity, seed).unwrap()
}

fn requests(text: &str, capacity: u64, seed: u64) -> Vec<Request> {
    let mut source = source(text, capacity, seed);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut batch).unwrap();
        if batch.is_empty() {
            let progress = source.progress();
            assert_eq!((progress.done, progress.total), (all.len() as u64, Some(all.len() as u64)), "{text}");
            return all;
        }
        assert!(batch.len() <= 1024);
        all.extend_from_slice(&batch);
    }
}

fn failure(text: &str) -> String {
    match Workload::parse(text).and_then(|w| w.source(1 << 20, 1)) {
        Ok(_) => panic!("{text} was taken"),
        Err(e) => e.to_string(),
    }
}

fn writes(requests: &[Request]) -> usize {
    requests.iter().filter(|r| r.op == Op::Write).count()
}

fn sectors(requests: &[Request], op: Op) -> u64 {
    requests.iter().filter(|r| r.op == op).map(|r| u64::from(r.sectors)).sum()
}

/// `got` of `n` lies within five deviations of a binomial's mean.
fn near(got: usize, share: f64, n: usize) -> bool {
    let deviation = (share * (1.0 - share) * n as f64).sqrt();
    (got as f64 - share * n as f64).abs() <= 5.0 * deviation + 1.0
}

#[test]
fn sequential_is_sequential_and_comes_around() {
    let all = requests("sequential-write:size=4Ki-64Ki,span=1Mi,start=1Mi,count=1000", 1 << 20, 1);
    assert_eq!(writes(&all), 1000);
    for pair in all.windows(2) {
        assert!(pair[1].lba == pair[0].end() || pair[1].lba.0 == 2048, "{pair:?}");
    }
    assert!(all.iter().filter(|r| r.lba.0 == 2048).count() > 20);
}

#[test]
fn shares_are_kept() {
    for (text, share) in [
        ("random-read", 0.0),
        ("random-write", 1.0),
        ("mix:write_share=25%", 0.25),
        ("zipf", 0.5),
        ("runs:sources=1,run_max=16", 0.5),
    ] {
        let all = requests(text, FIVE_TB, 3);
        let runs = if text.starts_with("runs") { 16 } else { 1 };
        assert!(near(writes(&all) / runs, share, all.len() / runs), "{text}: {}", writes(&all));
    }
}

#[test]
fn sizes_are_kept_within_their_list() {
    let all = requests("random-write:size=4Ki/70:64Ki/30", FIVE_TB, 3);
    let short = all.iter().filter(|r| r.sectors == 8).count();
    assert!(near(short, 0.7, all.len()) && all.iter().all(|r| r.sectors == 8 || r.sectors == 128));
}

#[test]
fn random_addresses_are_uniform() {
    let all = requests("random-write:count=160k", FIVE_TB, 3);
    let mut parts = [0usize; 16];
    all.iter().for_each(|r| parts[(r.lba.0 * 16 / FIVE_TB) as usize] += 1);
    assert!(parts.iter().all(|&n| near(n, 1.0 / 16.0, all.len())), "{parts:?}");
}

#[test]
fn zipf_is_skewed_and_scattered() {
    let most = |theta: &str| {
        let all = requests(&format!("zipf:theta={theta},span=4Mi"), 1 << 20, 1);
        let mut counts = vec![0usize; 1024];
        all.iter().for_each(|r| counts[(r.lba.0 / 8) as usize] += 1);
        counts.iter().copied().enumerate().max_by_key(|&(_, n)| n).unwrap()
    };
    let ((flat_at, flat), (skewed_at, skewed)) = (most("0"), most("0.99"));
    // 1 / the sum of k^-0.99 for k = 1 … 1024.
    assert!(near(skewed, 0.1281, 100_000) && flat < 200, "{flat} {skewed}");
    assert!(flat_at != 0 && skewed_at != 0);
}

#[test]
fn hot_is_hot() {
    let all = requests("hot-cold:hot_share=0.1,hot_access_share=0.9,span=8Mi", 1 << 20, 5);
    let mut places = vec![0usize; 2048];
    all.iter().for_each(|r| places[(r.lba.0 / 8) as usize] += 1);
    let hot: Vec<usize> = (0..2048).filter(|&i| places[i] > 200).collect();
    assert_eq!((hot.len(), hot[204] - hot[0]), (205, 204), "one stretch of a tenth");
    assert!(near(hot.iter().map(|&i| places[i]).sum(), 0.9, all.len()));
    let all = requests("local-in-space:range_share=1%", FIVE_TB, 5);
    let reach = all.iter().map(|r| r.lba.0).max().unwrap() - all.iter().map(|r| r.lba.0).min().unwrap();
    assert!(reach <= FIVE_TB / 100 && reach > FIVE_TB / 101);
}

#[test]
fn local_in_time_takes_turns() {
    let all = requests("local-in-time:random=100,sequential=300,count=4000", FIVE_TB, 5);
    let follows = |i: &usize| all[*i].lba == all[i - 1].end();
    assert_eq!((1..4000).filter(follows).count(), 2990);
    assert_eq!((1..100).filter(follows).count(), 0);
}

#[test]
fn overwrite_writes_each_place_once_a_pass() {
    for order in ["random", "sequential"] {
        let all = requests(&format!("overwrite:span=1Mi,count=768,order={order}"), FIVE_TB, 5);
        for pass in all.chunks(256) {
            assert_eq!(pass.iter().map(|r| r.lba).collect::<HashSet<_>>().len(), 256);
        }
        assert_eq!(order == "sequential", all.windows(2).take(255).all(|p| p[1].lba == p[0].end()));
    }
}

#[test]
fn backup_is_sequential_save_for_its_metadata() {
    let all = requests("backup:count=650", FIVE_TB, 5);
    let (metadata, data): (Vec<&Request>, Vec<&Request>) = all.iter().partition(|r| r.sectors == 8);
    assert_eq!((metadata.len(), data.len()), (10, 640));
    assert!(data.windows(2).all(|p| p[1].lba == p[0].end()));
    assert!(metadata.iter().all(|r| r.end() <= data[0].lba));
}

#[test]
fn bursts_pause() {
    let all = requests("burst:count=3000", FIVE_TB, 5);
    let second = |i: usize| all[i].time.0 / 1_000_000_000;
    assert_eq!((second(0), second(999), second(1000), second(2000)), (0, 9, 60, 120));
}

#[test]
fn runs_are_as_the_array_study_has_them() {
    let all = requests("runs:count=20k", FIVE_TB, 5);
    assert_eq!(all.len(), 80_000);
    for source in 0..4 {
        let own: Vec<_> = all.iter().filter(|r| r.source == source).collect();
        let first = own.iter().map(|r| r.lba.0).min().unwrap();
        let end = own.iter().map(|r| r.end().0).max().unwrap();
        let region = u64::from(source) * 65_536 * 8;
        assert!(first >= region && end <= region + 65_536 * 8 && end - first <= 16_384 * 8);
        let starts: Vec<_> = (1..own.len()).filter(|&i| own[i].lba != own[i - 1].end()).collect();
        let lengths: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((60.0..68.0).contains(&mean), "{mean}");
        assert!(starts.windows(2).all(|p| own[p[0]..p[1]].iter().all(|r| r.op == own[p[0]].op)));
    }
}

#[test]
fn sources_of_one_text_and_seed_are_independent() {
    let workload = Workload::parse("runs:sources=1,count=2000").unwrap();
    let starts: std::collections::BTreeSet<u64> = (0..4)
        .map(|nth| {
            let mut batch = Vec::new();
            workload.nth_source(65_536 * 8, 1, nth).unwrap().fill(&mut batch).unwrap();
            batch[0].lba.0
        })
        .collect();
    assert_eq!(starts.len(), 4, "each has a hot part of its own: {starts:?}");
}

#[test]
fn parts_are_merged_by_time_and_chained_in_time() {
    let all = requests(
        "random-read:count=100,interval=10ms+random-write:count=50,interval=15ms;random-read:count=5,interval=1s",
        FIVE_TB,
        1,
    );
    assert_eq!(all.len(), 155);
    assert!(all.windows(2).all(|p| p[0].time <= p[1].time));
    assert!(all[..150].iter().all(|r| (r.source == 1) == (r.op == Op::Write)));
    let seconds: Vec<_> = all[150..].iter().map(|r| r.time.as_secs()).collect();
    assert_eq!(seconds, [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn amounts_and_times_end_a_workload() {
    assert_eq!(requests("sequential-read:bytes=10Mi", FIVE_TB, 1).len(), 20);
    assert_eq!(requests("random-read:duration=1s,rate=250", FIVE_TB, 1).len(), 250);
    assert_eq!(requests("burst:duration=2min", FIVE_TB, 1).len(), 2000);
    let poisson = requests("random-read:duration=1h,interval=20ms,arrivals=poisson", FIVE_TB, 1).len();
    assert!(near(poisson, 0.5, 360_000), "{poisson}");
    assert_eq!(requests("desktop:count=500k", FIVE_TB, 1).len(), 500_000);
}

#[test]
fn a_seed_fixes_every_byte() {
    for info in WORKLOADS {
        let text = match info.name {
            name @ ("desktop" | "cassuto-pc") => name.to_string(),
            name => format!("{name}:count=3000"),
        };
        let (first, again, other) =
            (requests(&text, FIVE_TB, 1), requests(&text, FIVE_TB, 1), requests(&text, FIVE_TB, 2));
        assert!(first == again, "{text}");
        let is_in_order = text.starts_with("sequential") || ["discard", "flush"].contains(&info.name);
        assert_eq!(first == other, is_in_order, "{text}");
    }
    let twice = requests("random-read:count=10;random-read:count=10", FIVE_TB, 1);
    assert_ne!(twice[0].lba, twice[10].lba, "parts draw independently");
}

#[test]
fn cassuto_pc_has_the_totals_of_table_i() {
    for seed in 1..4 {
        let all = requests("cassuto-pc", CASSUTO_SECTORS, seed);
        let adjusted = |op| all.iter().filter(|r| r.op == op).map(|r| u64::from(r.sectors) / 1000 + 1).sum::<u64>();
        assert_eq!((all.len() - writes(&all), writes(&all)), (435_285, 75_615));
        assert_eq!((sectors(&all, Op::Read), sectors(&all, Op::Write)), (8_394_244, 2_889_969));
        assert_eq!((adjusted(Op::Read), adjusted(Op::Write)), (435_565, 75_615));
        assert!(all.windows(2).all(|p| p[0].time <= p[1].time));
        let hours = all[all.len() - 1].time.as_secs() / 3600.0;
        assert!(hours > 23.9 && hours < 24.0, "{hours}");
    }
}

/// A set-associative cache in its barest form: collections, and native regions rewritten by them.
fn collections(all: &[Request], cache_percent: u64) -> (u64, u64) {
    const REGION: u64 = 50_000;
    let caches = CASSUTO_SECTORS / REGION * cache_percent / 100;
    let mut used = vec![0u64; caches as usize];
    let mut present = vec![HashSet::new(); caches as usize];
    let (mut count, mut rewritten) = (0, 0);
    for r in all.iter().filter(|r| r.op == Op::Write) {
        let native = r.lba.0 / REGION;
        let cache = (native % caches) as usize;
        if used[cache] + u64::from(r.sectors) > REGION {
            count += 1;
            rewritten += present[cache].len() as u64;
            present[cache].clear();
            used[cache] = 0;
        }
        used[cache] += u64::from(r.sectors);
        present[cache].insert(native);
    }
    (count, rewritten)
}

#[test]
fn cassuto_pc_collects_as_table_i_says() {
    for seed in 1..6 {
        let (count, rewritten) = collections(&requests("cassuto-pc", CASSUTO_SECTORS, seed), 1);
        println!("seed {seed}: {count} collections rewrite {rewritten}");
        assert!((19..=23).contains(&count), "{count} collections, the paper has 21");
        assert!((97.0..99.0).contains(&(rewritten as f64 / count as f64)), "{rewritten} / {count}, the paper has 98");
    }
}

#[test]
fn more_cache_makes_fewer_collections_of_a_write_heavy_cassuto_pc() {
    let mut means = [0.0; 10];
    for seed in 1..6 {
        let all = requests("cassuto-pc:write_share=0.5,span=273408M", CASSUTO_SECTORS, seed);
        assert_eq!(writes(&all), 255_450);
        (1..=10).for_each(|p| means[p as usize - 1] += collections(&all, p).1 as f64 / 5.0);
    }
    println!("{means:?}");
    let range = means[0] - means[9];
    assert!(means.windows(2).all(|p| p[0] >= p[1]), "{means:?}");
    assert!(means.windows(3).all(|p| p[0] - 2.0 * p[1] + p[2] >= -0.05 * range), "{means:?}");
}

#[test]
fn a_desktop_day_is_a_day() {
    let all = requests("desktop", FIVE_TB, 1);
    println!("{} requests, {} writes, {} GB", all.len(), writes(&all), sectors(&all, Op::Write) * 512 / 1_000_000_000);
    assert!((200_000..400_000).contains(&all.len()));
    assert!(all.windows(2).all(|p| p[0].time <= p[1].time));
    assert!((23.0..24.0).contains(&(all[all.len() - 1].time.as_secs() / 3600.0)));
    let two = requests("desktop:duration=2d", FIVE_TB, 1);
    assert_eq!(two.len(), 2 * all.len());
    assert!(two[..all.len()] == all[..] && two.windows(2).all(|p| p[0].time <= p[1].time));
}

#[test]
fn a_desktop_day_says_beforehand_about_how_many_requests_it_has() {
    for text in ["desktop:duration=2d", "desktop:duration=36h", "desktop:bytes=50G"] {
        let expected = source(text, FIVE_TB, 1).progress().total.unwrap() as f64;
        let asked = requests(text, FIVE_TB, 1).len() as f64;
        assert!((0.8..1.25).contains(&(expected / asked)), "{text}: {expected} of {asked}");
    }
}

#[test]
fn desktop_keeps_to_its_areas_on_small_disks_too() {
    let capacity = 1u64 << 18;
    for r in requests("desktop", capacity, 1) {
        let inside =
            |(begin, end): (u64, u64)| r.lba.0 >= capacity * begin / 1000 / 8 * 8 && r.end().0 <= capacity * end / 1000;
        let areas = [(0, 120), (130, 150), (150, 250), (300, 550), (600, 700), (750, 950)];
        assert!(areas.into_iter().any(inside), "{r:?}");
    }
}

/// A value that a key may take on a small drive.
fn value(key: &Key) -> BoxedStrategy<String> {
    let size = (1u64..64).prop_map(|n| (n * 512).to_string());
    let pair = (1u64..32, 1u64..32).prop_map(|(a, b)| format!("{}-{}", a * 512, (a + b) * 512));
    let list = (1u64..64, 1u64..64, 1u32..9).prop_map(|(a, b, w)| format!("{}/{w}:{}/3", a * 512, b * 512));
    match key.domain() {
        Domain::Bytes(..) => (1u64..10_000).prop_map(|n| (n * 512).to_string()).boxed(),
        Domain::Whole(low, high) => (low..=high.min(300)).prop_map(|n| n.to_string()).boxed(),
        Domain::Fraction(_, low, high) => (low..=high.min(1000.0)).prop_map(|x| x.to_string()).boxed(),
        Domain::Time(least) => (least.0..10_000_000_000).prop_map(|n| format!("{n}ns")).boxed(),
        Domain::Words(words) => proptest::sample::select(words).prop_map(str::to_string).boxed(),
        Domain::Or(_, _) => panic!("no workload has such a key: {key:?}"),
        Domain::Text(_) => match key.name {
            "size" => prop_oneof![size, pair, list].boxed(),
            "span" | "start" => {
                let kib = (128u64..4096).prop_map(|n| format!("{n}Ki"));
                prop_oneof![kib, (1u32..60).prop_map(|n| format!("{n}%"))].boxed()
            }
            "arrivals" => prop_oneof![Just("even".into()), Just("poisson".into()), Just("normal:3ms".into())].boxed(),
            name => panic!("say here what {name} takes"),
        },
    }
}

fn any_part() -> BoxedStrategy<String> {
    let infos: Vec<&'static WorkloadInfo> = WORKLOADS.iter().collect();
    let part = proptest::sample::select(infos).prop_flat_map(|info| {
        let keys = info.keys().into_iter();
        let keys: Vec<_> = keys.map(|key| proptest::option::of(value(&key).prop_map(move |v| (key.name, v)))).collect();
        keys.prop_map(move |given| {
            let given: Vec<_> = given.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
            if given.is_empty() { info.name.to_string() } else { format!("{}:{}", info.name, given.join(",")) }
        })
    });
    part.boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn requests_stay_inside_and_in_order(part in any_part(), capacity in 1u64 << 18..1 << 21, seed in any::<u64>()) {
        // What excludes each other or does not fit is refused; what is accepted keeps the promises.
        if let Ok(workload) = Workload::parse(&part) {
            prop_assert_eq!(&Workload::parse(&workload.to_string()).unwrap(), &workload);
            if let Ok(mut source) = workload.source(capacity, seed) {
                let (first, end) = bounds(&workload.phases[0][0], capacity);
                let (mut batch, mut last) = (Vec::new(), 0);
                for _ in 0..3 {
                    source.fill(&mut batch).unwrap();
                    for r in &batch {
                        prop_assert!((r.sectors >= 1) != (r.op == Op::Flush) && r.time.0 >= last, "{:?}", r);
                        prop_assert!(r.lba.0 >= first && r.end().0 <= end, "{:?} outside {} … {}", r, first, end);
                        last = r.time.0;
                    }
                    let progress = source.progress();
                    prop_assert!(Some(progress.done) <= progress.total);
                }
            }
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*|(zipf|runs|mix|cassuto-pc|desktop)(:[a-z_]{1,8}=[0-9.KMG%,=:;+-]{0,12}){0,3}") {
        if let Ok(workload) = Workload::parse(&text) {
            prop_assert_eq!(Workload::parse(&workload.to_string()).unwrap(), workload);
        }
    }
}

/// First sector of the part's span and the one behind its last.
fn bounds(part: &WorkloadPart, capacity: u64) -> (u64, u64) {
    let text = part.to_string();
    let reach = |key: &str| {
        let found = text.split([':', ',']).find_map(|item| item.strip_prefix(key)?.strip_prefix('='));
        found.map(|text| text.parse::<recipes::Reach>().unwrap().sectors(capacity))
    };
    let default = |key| part.info.keys().into_iter().find(|known| known.name == key).map(|key| key.default);
    let spans = |text: &str| text.parse::<recipes::Reach>().unwrap().sectors(capacity);
    let first = reach("start").unwrap_or(0);
    let span = reach("span").or_else(|| default("span").map(spans)).unwrap_or(capacity);
    (first, first + span.min(capacity - first))
}

#[test]
fn a_workload_says_beforehand_how_many_requests_it_makes() {
    for (text, expected) in [
        ("random-write:count=250", 250),
        ("random-write:duration=10s,rate=50", 500),
        ("random-write:duration=10s,interval=5ms", 2000),
        ("random-write:bytes=1Mi,size=4Ki", 256),
        ("flush:duration=10s,interval=50ms", 200),
        ("random-write:bytes=1Mi,size=4Ki/50:12Ki/50", 128),
    ] {
        let progress = source(text, FIVE_TB, 1).progress();
        assert_eq!((progress.done, progress.total), (0, Some(expected)), "{text}");
    }
    // Later parts begin when the ones before are over.
    let parts = requests("random-write:duration=1s,rate=10;random-read:count=3,rate=10", FIVE_TB, 1);
    let reads: Vec<u64> = parts.iter().filter(|r| r.op == Op::Read).map(|r| r.time.0 / 1_000_000).collect();
    assert_eq!((writes(&parts), reads), (10, vec![1000, 1100, 1200]));
}
