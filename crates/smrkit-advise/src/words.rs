//! The answer in sentences. Nothing is said that no run showed.

use smrkit::settings::Prefill;
use smrkit::stats::comparison::{Multiples, Trajectory};
use smrkit::stats::timeline::Timeline;

use super::advice::{Advice, Present};
use super::{changes, rebuild};
use smrkit_report::format::{self, rate};

/// From this share of it in use on, a cache is called full (assumption).
const FULL: f64 = 0.9;

/// The sentences, the answer first. `timeline` is that of the system as it is, at the deepest depth.
pub fn text(advice: &Advice, timeline: &Timeline, is_conventional: bool) -> String {
    let Some(hardest) = advice.present.last() else { return String::new() };
    if advice.demand.requests == 0 {
        let rebuild = rebuild::sentence(advice).into_iter();
        return rebuild.chain(changes::sentences(advice)).collect::<Vec<_>>().join(" ");
    }
    let (course, stalls) = (course(advice, hardest, timeline, is_conventional), stalls(advice));
    let mut sentences = match advice.present.iter().any(|present| present.own.dropped_7s > 0) {
        _ if is_conventional => vec![course, stalls],
        true => vec![stalls, pace(advice), course],
        false => vec![pace(advice), course, stalls],
    };
    if let Some(rebuild) = rebuild::sentence(advice) {
        sentences.insert(0, rebuild);
    }
    if hardest.conventional.dropped_7s > 0 && !is_conventional {
        sentences.push("Conventional disks would be dropped as well.".into());
    }
    sentences.extend(changes::sentences(advice));
    if advice.state.prefill == Prefill::None {
        sentences.push("All of that is on empty disks: those in use may be slower.".into());
    }
    sentences.join(" ")
}

/// The layer compared with conventional disks, at the depth where it does worst.
fn pace(advice: &Advice) -> String {
    let worst = advice.present.iter().max_by(|one, other| one.against.worst().total_cmp(&other.against.worst()));
    let Some(Present { depth, against, .. }) = worst else { return String::new() };
    let at = at_depth(advice, *depth);
    let (when, worst) = match against.from_first_wait.filter(|later| later.worst() > against.whole.worst()) {
        Some(later) => (format!("from the first wait for {} on, ", awaited(advice).1), later),
        None => (String::new(), against.whole),
    };
    // In all no slower than conventional disks: the slowest requests wait longer.
    let is_tail = worst.elapsed.unwrap_or(worst.mean) <= 1.0;
    let how = match (against.is_slow(), against.is_alike()) {
        (true, _) if is_tail => "It is slow for some requests",
        (true, _) => "It is slow",
        (false, true) => "It does well",
        (false, false) if is_tail => "It is somewhat slower for some requests",
        (false, false) => "It is somewhat slower",
    };
    format!("{how}{at}: {when}{}.", multiples(&worst))
}

/// The depth, where there are several.
fn at_depth(advice: &Advice, depth: u32) -> String {
    if advice.present.len() > 1 { format!(" at depth {depth}") } else { String::new() }
}

/// Requests that wait, and for what: a layer that puts no work off rewrites as part of a write.
fn awaited(advice: &Advice) -> (&'static str, &'static str) {
    match advice.system.cleans || advice.system.cache_sectors > 0 {
        true => ("Requests", "cleaning"),
        false => ("Writes", "rewriting"),
    }
}

/// The time and p99 as multiples; by the trace's times the mean and p99.
fn multiples(against: &Multiples) -> String {
    let of = |multiple: f64| format::short(multiple);
    let what = match against.elapsed {
        Some(elapsed) => format!("the same requests take {} times as long", of(elapsed)),
        None => format!("a request takes {} times as long on average", of(against.mean)),
    };
    format!("{what} as on conventional disks, and {} times at the 99th percentile", of(against.p99))
}

/// When the cache fills, and what remains.
fn course(advice: &Advice, present: &Present, timeline: &Timeline, is_conventional: bool) -> String {
    let own = &present.own;
    let bytes = |bytes: u64| {
        let verb = match (advice.demand.read_bytes, advice.demand.written_bytes) {
            (0, _) => "written",
            (_, 0) => "read",
            _ => "read and written",
        };
        format!("{} {verb}", format::bytes(bytes as f64))
    };
    let has_cache = advice.system.cache_sectors > 0;
    let demand = bytes(advice.demand.read_bytes + advice.demand.written_bytes);
    let elapsed = format::nanos(own.elapsed_ns);
    let rates = rates(advice, present, is_conventional);
    match own.cache_full_at_s {
        _ if is_conventional => format!("A conventional disk needs no cleaning: {rates}."),
        Some(0.0) => {
            let (who, work) = awaited(advice);
            format!("{who} wait for {work} from the first on: {rates}.")
        }
        Some(at_s) => {
            let (who, work) = awaited(advice);
            // Cleaning that has begun in a pause makes requests wait as well.
            let window = (at_s * 1e9) as u64 / timeline.window_ns.max(1);
            let is_full = timeline.cache_fill.get(window as usize).is_some_and(|&fill| fill >= FULL);
            let what = if is_full { "The cache is full".into() } else { format!("{who} wait for {work}") };
            let when = format::seconds(at_s);
            // A part of a disk has a part of its cache.
            let part = advice.whole_disk_bytes.and(own.rebuild).map_or(String::new(), |rebuilt| {
                format!(", on a disk of the {} that were run", format::bytes(rebuilt.disk_bytes as f64))
            });
            format!("{what} after {when} ({}){part}; {rates}.", bytes(own.cache_full_after_bytes.unwrap_or(0)))
        }
        None if has_cache => {
            let used = timeline
                .cache_fill
                .last()
                .map_or(String::new(), |&share| format!(", the cache {} full", format::percent(share, 1.0)));
            // Reads fill no cache.
            let longer = if advice.demand.written_bytes > 0 { "; a longer one may fill it" } else { "" };
            format!("No request waits for cleaning: {rates}. The demand ends after {elapsed} ({demand}){used}{longer}.")
        }
        None => {
            let nothing =
                if advice.system.cleans { "No request waits for cleaning" } else { "Nothing has to be rewritten" };
            format!("{nothing} while the demand lasts ({elapsed}, {demand}): {rates}.")
        }
    }
}

/// The rate that remains, and what conventional disks do over the same requests; by the trace's times mean latencies.
fn rates(advice: &Advice, present: &Present, is_conventional: bool) -> String {
    let Present { depth, own, conventional, against } = present;
    let at = at_depth(advice, *depth);
    let usual = |verb: &str, what: String| match is_conventional {
        true => String::new(),
        false => format!(", conventional disks {verb}{what}"),
    };
    if advice.is_open() {
        let mean = format::nanos(own.mean_ns);
        return format!("a request takes {mean} on average{at}{}", usual("", format::nanos(conventional.mean_ns)));
    }
    let since = own.cache_full_at_s.filter(|&at_s| at_s > 0.0);
    let times = against.from_first_wait.unwrap_or(against.whole).elapsed;
    let conventional_rate =
        own.lasting_bytes_per_s() * times.unwrap_or(own.elapsed_ns as f64 / conventional.elapsed_ns.max(1) as f64);
    let then = if since.is_some() { "from then on it does" } else { "it does" };
    format!(
        "{then} {}{at}{}",
        rate(own.lasting_bytes_per_s()),
        usual("", format!("{} over the same requests", rate(conventional_rate)))
    )
}

/// The longest wait at each depth, and whom a timeout would drop.
fn stalls(advice: &Advice) -> String {
    let all = &advice.present;
    let at = |present: &Present| {
        let longest = format::nanos(present.own.longest_stall_ns);
        if advice.names_depths() { format!("{longest} at depth {}", present.depth) } else { longest }
    };
    let mut text = format!("The longest wait is {}", format::list(all.iter().map(at).collect()));
    let drops = |of: fn(&Trajectory) -> u64| -> Vec<String> {
        let some = all.iter().filter(|present| of(&present.own) > 0);
        let one = |present: &Present| {
            let (count, disks) = (of(&present.own), present.own.disks);
            let which = if disks > 1 { format!(" ({count} of {disks} disks)") } else { String::new() };
            match advice.names_depths() {
                true => format!("at depth {}{which}", present.depth),
                false => which.trim().to_string(),
            }
        };
        some.map(one).collect()
    };
    let (short, long) = (drops(|course| course.dropped_7s), drops(|course| course.dropped_30s));
    let is_array = all.iter().any(|present| present.own.disks > 1);
    let who = |some: Vec<String>| format!(" {}", format::list(some)).trim_end().to_string();
    match (short.is_empty(), long.is_empty()) {
        (true, _) => text + ": a timeout of 7 s would not drop " + if is_array { "any disk." } else { "the drive." },
        (false, is_kept) => {
            text += &format!(": a timeout of 7 s drops {}{}", if is_array { "disks" } else { "the drive" }, who(short));
            match (is_kept, !advice.names_depths()) {
                (true, _) => text + ", one of 30 s does not.",
                (false, true) => format!("{text}, one of 30 s{} too.", who(long)),
                (false, false) => format!("{text}, one of 30 s{}.", who(long)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use smrkit::settings::{Arrival, Settings};
    use smrkit::stats::comparison::{Comparison, Problems};
    use smrkit::stats::outcome::{Replayed, State};

    use super::super::advice::{AdvisedDemand, AdvisedSystem};
    use super::*;

    /// Demand of this many bytes read and written on a disk with a persistent cache, or without, that waits from a moment on.
    fn advice(demand: (u64, u64), cache_sectors: u64, cleans: bool, cache_full_at_s: Option<f64>) -> Advice {
        let own = Trajectory {
            elapsed_ns: 30_000_000_000,
            cache_full_at_s,
            cache_full_after_bytes: cache_full_at_s.map(|_| 7_000_000),
            ..Trajectory::default()
        };
        let whole = Multiples { elapsed: None, mean: 1.0, p99: 1.0, longest: 1.0 };
        let against = Comparison { whole, from_first_wait: None, rebuild: None };
        let engine = Settings { arrival: Arrival::Trace, ..Settings::default() };
        Advice {
            schema: 1,
            text: String::new(),
            actions: Vec::new(),
            problems: Problems::default(),
            present: vec![Present { depth: 1, conventional: own.clone(), own, against }],
            remedies: Vec::new(),
            complete: true,
            system: AdvisedSystem {
                drive: "tiny".into(),
                drive_file: None,
                layer: "any".into(),
                array: None,
                parameters: BTreeMap::new(),
                host_sectors: 8000,
                cache_sectors,
                cleans,
            },
            demand: AdvisedDemand {
                replayed: Replayed::default(),
                requests: 1,
                read_bytes: demand.0,
                written_bytes: demand.1,
                mean_write_bytes: None,
            },
            rebuild: None,
            whole_disk_bytes: None,
            engine,
            state: State::default(),
            scaled: None,
            seed: 1,
            version: "",
            commit: None,
        }
    }

    #[test]
    fn what_is_slow_in_its_tail_alone_is_not_called_slow_in_all() {
        let said = |elapsed: Option<f64>, mean, p99| {
            let mut advice = advice((0, 1), 8, true, None);
            advice.present[0].against.whole = Multiples { elapsed, mean, p99, longest: p99 };
            pace(&advice)
        };
        let begins = |text: String| text.split_once(':').unwrap().0.to_string();
        assert_eq!(begins(said(Some(0.5), 0.5, 1.8)), "It is somewhat slower for some requests");
        assert_eq!(begins(said(Some(0.5), 0.5, 3.0)), "It is slow for some requests");
        assert_eq!(begins(said(None, 0.9, 3.0)), "It is slow for some requests");
        assert_eq!(begins(said(Some(1.8), 0.5, 1.0)), "It is somewhat slower");
        assert_eq!(begins(said(Some(0.5), 0.5, 1.2)), "It does well");
    }

    #[test]
    fn the_course_says_when_the_cache_is_full() {
        // The cache is so full after 4 s, and less at the end.
        let filled = |fill: f64, demand, cache: u64, cleans, full_at_s, is_conventional| {
            let advice = advice(demand, cache, cleans, full_at_s);
            let cache_fill = if cache > 0 { vec![0.1, 0.1, 0.1, 0.1, fill, 0.25] } else { Vec::new() };
            let timeline = Timeline { window_ns: 1_000_000_000, cache_fill, ..Timeline::default() };
            course(&advice, &advice.present[0], &timeline, is_conventional)
        };
        let said = |demand, cache, cleans, full_at_s, is_conventional| {
            filled(0.9, demand, cache, cleans, full_at_s, is_conventional)
        };
        let (both, read, written) = ((3_000_000, 2_000_000), (5_000_000, 0), (0, 5_000_000));
        let rates = "a request takes 0 s on average";
        let usual = format!("{rates}, conventional disks 0 s");
        for full_at_s in [None, Some(0.0), Some(4.0)] {
            let text = format!("A conventional disk needs no cleaning: {rates}.");
            assert_eq!(said(both, 0, false, full_at_s, true), text);
        }
        for (cache, cleans, who) in [(8, false, "Requests wait for cleaning"), (0, false, "Writes wait for rewriting")]
        {
            assert_eq!(said(both, cache, cleans, Some(0.0), false), format!("{who} from the first on: {usual}."));
            let what = if cache > 0 { "The cache is full" } else { who };
            let text = format!("{what} after 4 s (7 MB read and written); {usual}.");
            assert_eq!(said(both, cache, cleans, Some(4.0), false), text);
            let text = format!("{who} after 4 s (7 MB read and written); {usual}.");
            assert_eq!(filled(0.89, both, cache, cleans, Some(4.0), false), text);
        }
        for (demand, text) in [
            (both, "5 MB read and written), the cache 25 % full; a longer one may fill it."),
            (written, "5 MB written), the cache 25 % full; a longer one may fill it."),
            (read, "5 MB read), the cache 25 % full."),
        ] {
            let text = format!("No request waits for cleaning: {usual}. The demand ends after 30 s ({text}");
            assert_eq!(said(demand, 8, true, None, false), text);
        }
        for (cleans, nothing) in [(true, "No request waits for cleaning"), (false, "Nothing has to be rewritten")] {
            let text = format!("{nothing} while the demand lasts (30 s, 5 MB written): {usual}.");
            assert_eq!(said(written, 0, cleans, None, false), text);
        }
    }
}
