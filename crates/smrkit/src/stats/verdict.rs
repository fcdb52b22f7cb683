//! The plain verdict: when the cache fills, what rate remains, how long the worst stall is, and whether a conventional
//! disk would have done better.

#[cfg(test)]
mod tests;

use super::latency::Latencies;
use super::outcome::Outcome;
use super::records::CommandTimes;
use super::timeline::Phase;
use crate::layer::{BASELINE, LAYERS, ZoneViolations};
use crate::quantity::Bytes;
use crate::record;
use crate::settings::rebuild::Task;
use crate::settings::{Arrival, Prefill, Warmup};
use crate::units::{Nanos, SECTOR_BYTES};

/// An open loop overloads a disk whose last completion is later than the last arrival by more than this share of the elapsed time.
const OVERLOAD_SHARE: f64 = 0.05;

/// The layer with a dynamic mapping.
const DYNAMIC: &str = "log";

/// A rate counts as lower if it is below this share of the rate before.
const SLOWER: f64 = 0.9;

record! {
    /// The verdict: a text, and the values behind it.
    pub struct Verdict: Add {
        /// Time at which a host request first waits for cleaning, in seconds; null if none did.
        pub cache_full_at_s: Option<f64> => earlier,
        /// Host bytes completed before `cache_full_at_s`, or in the whole run if that is null.
        pub before_bytes: u64,
        /// Time until `cache_full_at_s`, or of the whole run if that is null.
        pub before_ns: u64,
        /// Host bytes per second before `cache_full_at_s`, or over the whole run if that is null; null if there was no
        /// time before it.
        pub rate_before_bytes_per_s: Option<f64> => derived,
        /// Host bytes per second from `cache_full_at_s` on; null if that is null.
        pub rate_after_bytes_per_s: Option<f64> => derived,
        /// Longest latency of a request.
        pub longest_stall_ns: u64 => derived,
        /// Requests that took longer than 7 s.
        pub stalls_over_7s: u64,
        /// Requests that took longer than 30 s.
        pub stalls_over_30s: u64,
        /// Times of the drive's commands as a timeout sees them; of an array, of those of all its drives.
        #[serde(flatten)]
        pub commands: CommandTimes,
        /// Mean latency on the conventional disk; null if none was run.
        pub baseline_mean_ns: Option<u64> => derived,
        /// The latency that 99 % of requests don't exceed on the conventional disk; null if none was run.
        pub baseline_p99_ns: Option<u64> => derived,
        /// Requests over 7 s on the conventional disk; null if none was run.
        pub baseline_stalls_over_7s: Option<u64> => derived,
        /// Requests over 30 s on the conventional disk; null if none was run.
        pub baseline_stalls_over_30s: Option<u64> => derived,
        /// True if even the conventional disk can't keep up with the trace's times.
        pub baseline_overloaded: bool => derived,
        /// The verdict as text; for an array it says how many members a timeout of 7 s would drop.
        pub text: String => derived,
    }
}

fn earlier(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::min)
}

/// Unset when summed: computed later from other columns, or by a comparison.
fn derived<T: Default>(_: T, _: T) -> T {
    T::default()
}

impl Verdict {
    /// Computes the columns that follow from the latencies, the host's sectors and the time of the run.
    pub(super) fn conclude(&mut self, latency_ns: &Latencies, host_sectors: u64, elapsed_ns: u64) {
        let rate = |bytes: u64, ns: u64| (ns > 0).then(|| bytes as f64 / Nanos(ns).as_secs());
        let after = rate(host_sectors * SECTOR_BYTES - self.before_bytes, elapsed_ns - self.before_ns).unwrap_or(0.0);
        self.rate_before_bytes_per_s = rate(self.before_bytes, self.before_ns);
        self.rate_after_bytes_per_s = self.cache_full_at_s.map(|_| after);
        self.longest_stall_ns = latency_ns.all.max;
    }
}

/// Compares `outcome` with `baseline`, the run of [`BASELINE`] on the same requests: slowdown, stalls, the sentence.
pub fn judge(outcome: &mut Outcome, baseline: &Outcome) {
    // A run with a rebuild ends with the rebuild, so it did not serve the same requests.
    let is_comparable = outcome.rebuild.is_none() && baseline.elapsed_ns > 0;
    let times = (outcome.elapsed_ns as f64, baseline.elapsed_ns as f64);
    outcome.slowdown = is_comparable.then(|| time_ratio(times, (outcome.requests, baseline.requests))).flatten();
    outcome.verdict.baseline_mean_ns = Some(baseline.latency_ns.all.mean);
    outcome.verdict.baseline_p99_ns = Some(baseline.latency_ns.all.p99);
    outcome.verdict.baseline_stalls_over_7s = Some(baseline.verdict.stalls_over_7s);
    outcome.verdict.baseline_stalls_over_30s = Some(baseline.verdict.stalls_over_30s);
    outcome.verdict.baseline_overloaded = is_overloaded(baseline);
    outcome.verdict.text = sentence(outcome);
}

/// The time of one run as a multiple of another's. If the runs have different numbers of requests (as after a warm-up until steady), it is
/// the ratio of the times per request; `None` if one has no requests.
pub(crate) fn time_ratio((own, other): (f64, f64), (own_requests, other_requests): (u64, u64)) -> Option<f64> {
    if own_requests == other_requests {
        return Some(own / other);
    }
    let is_known = own_requests > 0 && other_requests > 0;
    is_known.then(|| (own / own_requests as f64) / (other / other_requests as f64))
}

/// True if an open loop overloads the disk: completions end long after arrivals, and the disk was busy nearly all the time.
pub fn is_overloaded(outcome: &Outcome) -> bool {
    let late_ns = outcome.elapsed_ns.saturating_sub(outcome.arrivals_ns);
    let share = |part: u64| part as f64 / outcome.elapsed_ns.max(1) as f64;
    // An array waits for its busiest drive.
    let busy_ns = outcome.drives().iter().map(Outcome::working_ns).max().unwrap_or(0);
    outcome.engine.arrival == Arrival::Trace && share(late_ns) > OVERLOAD_SHARE && share(busy_ns) > 0.95
}

fn is_array(outcome: &Outcome) -> bool {
    !outcome.members.is_empty()
}

/// True if a layer defers rewriting: it has a cache, a log, or zones that buffer writes.
pub fn cleans(outcome: &Outcome) -> bool {
    // By the layer's name, because the counters of layers of other crates have arbitrary names.
    let puts_off = |one: &Outcome| LAYERS.iter().any(|spec| spec.name == one.layer && spec.puts_rewriting_off);
    outcome.capacity.cache_sectors > 0 || puts_off(outcome) || outcome.members.iter().any(puts_off)
}

/// Sentence on the disk's state.
fn state(outcome: &Outcome) -> &'static str {
    let rewrites = !cleans(outcome) && outcome.verdict.cache_full_at_s.is_some();
    match outcome.state.prefill {
        Prefill::None if outcome.layer != BASELINE => "The disk was empty at first: one in use may be slower.",
        Prefill::None => "The disk was empty at first.",
        Prefill::Full if rewrites => "The disk is full: what a write would destroy is rewritten with it.",
        Prefill::Full => "The disk was full at first.",
        Prefill::Sequential => "The whole disk was written in order first.",
        Prefill::Random(_) => "The disk was written at random first.",
        Prefill::Saved => "The disk began as an earlier run left it.",
    }
}

/// Sentence on the state of the disk that a rebuild writes to. It matters to a dynamic mapping, which writes to free space: only space that
/// was never written, or was trimmed, is free.
fn new_member(outcome: &Outcome) -> &'static str {
    let is_dynamic = |one: &Outcome| one.layer == DYNAMIC;
    match outcome.rebuild.as_ref().map(|rebuild| rebuild.spec.task) {
        Some(Task::Rebuild { used, .. }) if is_dynamic(outcome) || outcome.members.iter().any(is_dynamic) => match used
        {
            true => " The new disk had been filled before and never trimmed.",
            false => {
                " The new disk had never been written, or was trimmed: one that was filled before can take many times as long (new=full)."
            }
        },
        _ => "",
    }
}

/// The requests that a host-managed disk would have refused.
fn violations(outcome: &Outcome) -> String {
    let ZoneViolations { all, to_full_zones, first } = outcome.layer_stats.violations();
    if all == 0 {
        return String::new();
    }
    let first = first.first().map(|first| format!(" The first: {first}.")).unwrap_or_default();
    let requests = outcome.requests.max(all);
    let mut text = format!(
        "A host-managed disk would refuse {all} of these {requests} requests, so that the times below mean nothing.{first}"
    );
    if to_full_zones > 0 && outcome.state.prefill == Prefill::Full {
        text += " All zones were full at first: reset them by a discard of the whole zone, or begin with an empty disk (prefill none).";
    }
    text
}

/// The plain verdict in words.
pub(super) fn sentence(outcome: &Outcome) -> String {
    let Told { course, compared, state, longest, more } = Told::of(outcome);
    let parts = [course, compared, state, longest, more];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The verdict in words, by topic. A topic without anything to say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// When requests begin to wait, and the rates.
    pub course: String,
    /// The comparison with a conventional disk.
    pub compared: String,
    /// The state of the disk.
    pub state: String,
    /// The longest request, and what a timeout would make of it.
    pub longest: String,
    /// Further remarks.
    pub more: String,
}

impl Told {
    /// The verdict on a run.
    pub fn of(outcome: &Outcome) -> Told {
        let verdict = &outcome.verdict;
        if outcome.requests == 0 {
            let state = new_member(outcome).trim().into();
            return Told { course: "No request was counted.".into(), state, ..Told::default() };
        }
        let mut more = scaling(outcome).unwrap_or_default();
        if verdict.baseline_overloaded {
            let who = if is_array(outcome) { "An array of conventional disks" } else { "The conventional disk" };
            more += &format!(" {who} itself can't keep up with these arrival times: stretch them.");
        }
        if let Some(collected) = outcome.garbage_collection.filter(|collected| collected.enospc > 0) {
            let garbage = Bytes(collected.enospc_garbage_sectors / collected.enospc * SECTOR_BYTES);
            let often = if collected.enospc == 1 { "once".into() } else { format!("{} times", collected.enospc) };
            more += &format!(
                " \"No space left\" is said {often}, while on average {garbage} of garbage lies in zones that the host does not clean."
            );
        }
        if outcome.interrupted {
            more += " The run was interrupted; this is what it had so far.";
        }
        let refused = violations(outcome);
        if !refused.is_empty() {
            // Rates and times are left out, because a disk that refuses requests would have others.
            return Told { course: refused, ..Told::default() };
        }
        Told {
            course: course(outcome),
            compared: in_all(outcome).trim().into(),
            state: state(outcome).to_string() + new_member(outcome),
            longest: format!("The longest request takes {}{}", Nanos(verdict.longest_stall_ns), stalls(outcome)),
            more: more.trim().into(),
        }
    }
}

/// A sentence on the drive's size, if it has more platters than its own.
pub fn scaling(outcome: &Outcome) -> Option<String> {
    let scaled = outcome.scaled?;
    let whose = match is_array(outcome) {
        true => format!("each drive ({}) has {} × its platters, in all", outcome.drive, scaled.platters),
        false => format!("this is {} with {} × its platters,", outcome.drive, scaled.platters),
    };
    let cache = match outcome.capacity.cache_sectors {
        0 => String::new(),
        sectors => format!(", cache {}", Bytes::of_sectors(sectors)),
    };
    let size = Bytes::of_sectors(outcome.capacity.raw_sectors);
    let (needed, own) = (Bytes(scaled.needed_bytes), Bytes(scaled.own_bytes));
    Some(format!("The trace needs {needed}: {whose} {size} in place of {own}{cache}."))
}

/// Says when cleaning first made a request wait, and the rates before and after.
///
/// If requests come at the trace's times, the rate is the trace's and not the disk's, so the mean latency is given instead. If the layer has a
/// cache or a log, any request may have to wait for cleaning; otherwise only writes wait, for the rewriting that is part of them.
fn course(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let is_open = outcome.engine.arrival == Arrival::Trace;
    let cleans = cleans(outcome);
    let mean = format!("a request takes {} on average", Nanos(outcome.latency_ns.all.mean));
    let before = verdict.rate_before_bytes_per_s.unwrap_or(0.0);
    let Some((at_s, after)) = verdict.cache_full_at_s.zip(verdict.rate_after_bytes_per_s) else {
        let finding = match cleans && outcome.layer != BASELINE {
            true => "No request waits for cleaning",
            false => "Nothing had to be rewritten",
        };
        let pace = if is_open { mean } else { format!("{} throughout", rate(before)) };
        return format!("{finding}: {pace}.");
    };
    let when = Nanos::from_secs(at_s);
    // The subject of a sentence that begins with it, the subject within a sentence, and what it waits for.
    let (capital_who, who, work) = match cleans {
        true => ("Requests", "requests", "cleaning"),
        false => ("Writes", "writes", "rewriting"),
    };
    // The rate over a very short time says little, so none is given for the time before.
    let at_start = at_s == 0.0 || at_s < 1.0 && Nanos::from_secs(100.0 * at_s).0 < outcome.elapsed_ns;
    let start = if at_s == 0.0 { "from the start" } else { "almost from the start" };
    let phases = outcome.timeline.phases_from(when);
    let by_phase = by_phase(&phases, rate, |seconds| Nanos::from_secs(seconds).to_string());
    let rates = match &by_phase {
        Some(phases) => format!("{} before, then {phases}", rate(before)),
        None => format!("{} before, {} from then on", rate(before), rate(after)),
    };
    // The mean over phases may be as high as the rate before, although some phases are hours of next to nothing.
    let slowest = phases.iter().map(|phase| phase.bytes_per_s).fold(after, f64::min);
    match (cleans, slowest < SLOWER * before) {
        _ if at_start && is_open => format!("{capital_who} wait for {work} {start}; {mean}."),
        _ if at_start => format!("{capital_who} wait for {work} {start}: {}.", by_phase.unwrap_or_else(|| rate(after))),
        _ if is_open => format!("From {when} on {who} wait for {work}; {mean}."),
        (true, true) => format!("Fast until {when}, then {who} wait for {work}: {rates}."),
        (true, false) => {
            let falls = if after < before { "hardly falls" } else { "does not fall" };
            format!("From {when} on {who} wait for {work}, but the rate {falls}: {rates}.")
        }
        (false, _) => format!("From {when} on {who} wait for {work}: {rates}."),
    }
}

/// Changing rates in words, with each phase if there are few; `None` if the rate is steady.
pub fn by_phase(phases: &[Phase], rate: impl Fn(f64) -> String, time: impl Fn(f64) -> String) -> Option<String> {
    let describe = |phase: &Phase| format!("{} for {}", rate(phase.bytes_per_s), time(phase.time.as_secs()));
    let (one, other) = Phase::of_turns(phases)?;
    Some(match phases.len() {
        2 | 3 => phases.iter().map(describe).collect::<Vec<_>>().join(", then "),
        _ => format!("by turns {} and {}, on average", describe(&one), describe(&other)),
    })
}

/// Sentence on the elapsed time, unless it is given by the trace's times.
fn in_all(outcome: &Outcome) -> String {
    match outcome.slowdown {
        Some(slowdown) if outcome.layer != BASELINE && outcome.engine.arrival != Arrival::Trace => {
            let whom = if is_array(outcome) { "the same array of conventional disks" } else { "a conventional disk" };
            let engine = &outcome.engine;
            let ends_by_itself = engine.warmup == Warmup::UntilSteady || engine.until.is_some() || outcome.interrupted;
            let what = if ends_by_itself { "For a request" } else { "In all" };
            match slowdown {
                s if s < 0.95 => format!(" {what} it takes {:.0} % of the time of {whom}.", 100.0 * s),
                s if s < 1.05 => format!(" {what} it takes as long as {whom}."),
                s => format!(" {what} it takes {} as long as {whom}.", times(s)),
            }
        }
        _ => String::new(),
    }
}

/// A multiple in words, with two digits.
pub fn times(multiple: f64) -> String {
    match multiple {
        m if m < 9.95 => format!("{} times", format!("{m:.1}").trim_end_matches(".0")),
        m if m < 99.5 => format!("{m:.0} times"),
        _ => "more than 99 times".into(),
    }
}

/// The end of the sentence on the longest request: how many are over the common timeouts, compared with the baseline; then a sentence on
/// the drives that would be dropped.
fn stalls(outcome: &Outcome) -> String {
    let (verdict, is_baseline) = (&outcome.verdict, outcome.layer == BASELINE);
    // If the load is too much for any disk, a dropped one says nothing about shingling.
    let dropped = if verdict.baseline_overloaded { String::new() } else { dropped(outcome) };
    if verdict.stalls_over_7s == 0 {
        return format!(".{dropped}");
    }
    let whom = if is_array(outcome) { "conventional disks" } else { "a conventional disk" };
    let compared = |total: u64, baseline: Option<u64>| match baseline.filter(|_| !is_baseline) {
        Some(0) => format!("{total} (none on {whom})"),
        Some(of_baseline) => format!("{total} ({of_baseline} on {whom})"),
        None => total.to_string(),
    };
    let over_7s = compared(verdict.stalls_over_7s, verdict.baseline_stalls_over_7s);
    let over_30s = match verdict.stalls_over_30s {
        0 => "none".into(),
        count => compared(count, verdict.baseline_stalls_over_30s),
    };
    format!("; requests over 7 s: {over_7s}, over 30 s: {over_30s}.{dropped}")
}

/// Sentence on the drives that a timeout of 7 s would drop. The timeout runs from the dispatch of a command to its drive. An array drops a
/// member for one of its own commands, which may be faster than the request that it is part of, or belong to no request.
fn dropped(outcome: &Outcome) -> String {
    let count = outcome.members.iter().filter(|member| member.verdict.commands.commands_over_7s > 0).count();
    match (count, outcome.members.len()) {
        (0, 0) if outcome.verdict.commands.commands_over_7s > 0 => " A timeout of 7 s would drop this drive.".into(),
        (0, 0) if outcome.verdict.stalls_over_7s > 0 => {
            " They wait in the host's queue: a timeout of 7 s, which runs from the dispatch to the drive, would not drop it.".into()
        }
        (0, _) if outcome.verdict.stalls_over_7s > 0 => {
            " No member takes over 7 s for its part: none would be dropped.".into()
        }
        (0, _) => String::new(),
        (count, of) if count == of => format!(" A timeout of 7 s would drop every one of its {of} members."),
        (1, of) => format!(" A timeout of 7 s would drop a member (of {of})."),
        (count, of) => format!(" A timeout of 7 s would drop {count} of its {of} members."),
    }
}

fn rate(bytes_per_s: f64) -> String {
    format!("{}/s", Bytes(bytes_per_s.round() as u64))
}
