//! Every sentence of the answer, and what an owner can do, with its price and its command. Nothing is said that no run showed.

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::Timeline;
use smrkit::stats::verdict::{self, times};
use smrkit::units::Nanos;
use smrkit_report::format::{self, rate};

use crate::LoadKind;
use crate::advice::{Action, Advice, Answer, KnownFigures, Measure, NotRun, Present, Range, Remedy, Verdict};
use crate::budget::{Budget, Recovery};
use crate::changes::{ArrayFacts, ChangeKind, LONGEST_REBUILD_S, Software};
use crate::comparison::{ALIKE, Effect, FACTOR, FULL, Multiples, SHORT_NS, Trajectory};
use crate::measured::Known;
use crate::uses;

/// Writes of less than this that continue no other one are small and random: what a database or a virtual machine does (assumption).
const SMALL_BYTES: f64 = 131_072.0;
/// Bytes a second that no hard disk does (assumption).
const FASTEST: f64 = 350e6;
/// Up to as many times the load as is asked for it is told how much the drive keeps up with.
const MANY: f64 = 200.0;
/// Seconds that kernels wait for a command unless told otherwise.
const KERNEL_S: u64 = 30;
/// What a trim of free room costs, and what does not pass it on.
const TRIM_COST: &str = "room that files use stays as it is. Most USB adapters, hardware RAID and LUKS (unless it was opened with discards) don't \
                         pass it on: lsblk -D shows 0 there. The disk answers slowly while it trims";
/// The same of ZFS (zfsprops and zfs(4): zfs_trim_extent_bytes_min; openzfs/zfs issue 10591).
const ZFS_TRIM_COST: &str = "nothing trims by itself unless you set autotrim=on; free room in pieces of less than 32 KiB stays, of which a RAIDZ \
                             has many; USB adapters don't pass it on. iXsystems recommends no shingled WD Red in a pool, for such disks have \
                             stopped answering: have a backup before you trim";
const MD_TRIM_COST: &str = "md passes it on for RAID 5 and 6 only where raid456.devices_handle_discard_safely is set, and no USB adapter does; the \
                            disks answer slowly while they trim";
/// Nobody waits longer than this for a command: ZFS calls a pool hung then (zfs_deadman_ziotime_ms).
const LONGEST_TIMEOUT_S: u64 = 300;

/// Writes the answer: the word, the five lines, the actions. `outcome` is the system as it is under the load on which
/// the answer rests.
pub fn answer(advice: &mut Advice, outcome: &Outcome) {
    advice.conclude();
    advice.actions = actions(advice);
    let mut lines = vec![headline(advice) + &once_full(advice) + &recovered(advice) + &spread(advice)];
    match advice.verdict {
        Verdict::Refused => {}
        // What was seen of a load without an end.
        Verdict::TooShort if advice.is_endless && !advice.is_too_short() => lines.push(figures(advice)),
        Verdict::TooShort => {}
        Verdict::Conventional => lines.push(figures(advice)),
        _ => lines.extend([figures(advice), format!("Why: {}.{}", reason(advice, &outcome.timeline), slowest(advice))]),
    }
    lines.extend(what_to_do(advice));
    if advice.verdict != Verdict::TooShort {
        lines.push(format!("How sure: {}.", grounds(advice).join("; ")));
    }
    lines.extend(verdict::scaling(outcome));
    let missing = advice.remedies.iter().filter(|remedy| remedy.not_run == Some(NotRun::Interrupted)).count();
    if missing > 0 || !advice.complete {
        lines.push("Interrupted: not all of it was tried.".into());
    }
    advice.text = lines.join("\n");
}

/// A part of a whole, of which nobody reads more than two digits.
fn share(part: f64, whole: f64) -> String {
    match 100.0 * part / whole.max(1e-9) {
        percent if percent < 0.95 => "less than 1 %".into(),
        percent => format!("{} %", percent.round()),
    }
}

fn disks(advice: &Advice) -> &'static str {
    if advice.judged().own.disks > 1 { "CMR disks" } else { "a CMR disk" }
}

/// The drive or the array, in the words of the question.
pub fn system(advice: &Advice) -> String {
    let system = &advice.system;
    match &system.array {
        // The chunk is part of what is asked, but nothing that an answer is known by, and the members are named by their kinds.
        Some(array) => {
            let name = [",chunk=", ",member=", ",drive="]
                .iter()
                .fold(array.as_str(), |name, key| name.split(key).next().unwrap_or(name));
            format!("{name} of {}", system.drive)
        }
        None => system.drive.clone(),
    }
}

/// What is done.
fn what(advice: &Advice) -> String {
    match advice.rebuild {
        Some(_) => format!("the {}", work(advice)),
        None => advice.what.clone().unwrap_or_else(|| given_load(advice)),
    }
}

/// What is done, if that is no use: the workload's name if it is short, or where the load comes from.
fn given_load(advice: &Advice) -> String {
    let replayed = &advice.demand.replayed;
    match (&replayed.workload, &replayed.trace) {
        // The workload that was made of a report lists all of its intervals.
        _ if advice.note.is_some() => "what was recorded".into(),
        (Some(workload), _) if !workload.contains([':', ';', '+']) => format!("the workload {workload}"),
        (None, Some(_)) => "this trace".into(),
        _ => "this load".into(),
    }
}

/// Which of several kinds of disk keeps the others waiting.
fn slowest(advice: &Advice) -> String {
    let slowest = advice.system.slowest.as_ref().filter(|_| advice.answer != Answer::Yes);
    slowest.map_or(String::new(), |drive| format!(" The disk that keeps the others waiting is {drive}."))
}

/// Yes or no, and the reason.
fn headline(advice: &Advice) -> String {
    let present = advice.judged();
    let Present { own, conventional, .. } = present;
    let (who, disks) = (system(advice), disks(advice));
    match advice.verdict {
        Verdict::Refused => format!(
            "No: {who} is host-managed and takes writes only in order within each zone. It would refuse {} of these requests.",
            share(own.refused_share(), 1.0)
        ),
        Verdict::TooShort if advice.is_unsettled() => {
            let full_s = own.elapsed_ns as f64 / 1e9 + own.full_in_s.unwrap_or(0.0);
            let (until, full) = (format::nanos(own.elapsed_ns), format::seconds(full_s));
            match advice.whole_bytes {
                Some(whole) => format!(
                    "Too short to say for all {}: it does {} until the drive's cache is full, after about {full}. {until} were simulated.",
                    format::bytes(whole),
                    rate(own.lasting_bytes_per_s()),
                ),
                None => {
                    let so_far = match present.against.is_alike() {
                        true => format!("it does as well as {disks}"),
                        false => slower(advice),
                    };
                    format!(
                        "Too short to say for longer: until the drive's {} full, after about {full} of this, {so_far}. What comes then was not \
                         simulated.",
                        if advice.system.is_dynamic { "free room is" } else { "cache is" }
                    )
                }
            }
        }
        Verdict::TooShort => format!(
            "Too short to say: the whole load takes {} of simulated time, in which a drive's RAM or cache hides the rest. Give a longer \
             one: a longer trace, or a workload with more count, bytes or duration.",
            format::nanos(own.elapsed_ns.max(conventional.elapsed_ns))
        ),
        Verdict::Overloaded if advice.system.is_conventional => {
            format!(
                "No, but that has nothing to do with shingling: {who} is conventional (CMR), and can't keep up with {}.",
                what(advice)
            )
        }
        Verdict::Overloaded => format!("No, but not because of the shingling: {disks} can't keep up with this either."),
        Verdict::FallsBehind if conventional.falls_behind => {
            let times = times(own.elapsed_ns as f64 / conventional.elapsed_ns.max(1) as f64);
            format!(
                "No: {who} can't keep up with {}. {} can't either, but {who} takes {times} as long.",
                what(advice),
                format::capital(disks)
            )
        }
        Verdict::FallsBehind => {
            let but = match (advice.misses(conventional), advice.need.keep, advice.need.scarcest_buffer(conventional)) {
                (true, Some(keep), _) => {
                    format!(", though one request in a hundred takes longer there than {}", format::nanos(keep.0))
                }
                (true, None, Some(buffer)) => {
                    format!(
                        ", though its longest request takes {}, more than {} bridges",
                        format::nanos(buffer.longest_ns(conventional)),
                        buffer.name
                    )
                }
                _ => String::new(),
            };
            format!("No: {who} can't keep up with {}; {disks} can{but}.", what(advice))
        }
        Verdict::Misses | Verdict::Meets => need(advice),
        Verdict::Dropped => format!(
            "No: the system would drop a disk, which does not answer for {}, and kernels wait 30 s.",
            format::nanos(own.longest_command_ns)
        ),
        Verdict::DroppedByRaid => format!(
            "Perhaps: a disk ({}) does not answer for {}. Kernels wait 30 s; a hardware RAID controller waits 7 s and would drop it.",
            advice.system.slowest.as_ref().unwrap_or(&advice.system.drive),
            format::nanos(own.longest_command_ns)
        ),
        // The time has no limit but that of conventional disks.
        Verdict::Slow if advice.is_amount() => {
            format!("No, if it is to be about as fast as {disks}: {}.", slower(advice))
        }
        Verdict::Slow => match quiet_pace(advice) {
            Some(pace) => format!(
                "No, unless nobody uses {who} until the {} is over: then it takes {pace}{}, in light use {} as long as on {disks}.",
                work(advice),
                range(advice),
                times(multiple(advice, present))
            ),
            None => format!("No: {}.", slower(advice)),
        },
        Verdict::Elsewhere => {
            let not = if advice.system.is_conventional { ", it is not the shingling" } else { "" };
            format!(
                "No{not}: your {}, which this load alone does not explain: {} on {who}.",
                seen(advice).unwrap_or_default(),
                pace(advice, own)
            )
        }
        Verdict::Depends if let Some(trimmed) = advice.decided_by_trim() => trimmed_or_not(advice, trimmed),
        Verdict::Depends
            if advice.misses_an_assumption()
                && let Some(buffer) = advice.need.scarcest_buffer(own) =>
        {
            format!(
                "Perhaps: now and then a request takes up to {}. That {} bridges {} is assumed; if yours bridges less than that, {}.",
                format::nanos(buffer.longest_ns(own)),
                buffer.name,
                format::nanos(buffer.bridges.0),
                buffer.harm
            )
        }
        Verdict::Depends
            if advice.nears_a_buffer()
                && let Some(buffer) = advice.need.scarcest_buffer(own) =>
        {
            format!(
                "Perhaps: {} bridges {}. Of the {} that were simulated the longest {} takes {}, and a longer time may have a longer one; then \
                 {}.",
                buffer.name,
                format::nanos(buffer.bridges.0),
                format::nanos(own.elapsed_ns),
                if buffer.is_read { "read" } else { "write" },
                format::nanos(buffer.longest_ns(own)),
                buffer.harm
            )
        }
        Verdict::Depends => match contradicted(advice) {
            Some(known) => format!(
                "Perhaps: simulated {who} does as well as {disks}, but {} was measured by others ({}).",
                known.told, known.source
            ),
            None => format!("Perhaps: some figures of {who} are estimates, and {}.", doubt(advice)),
        },
        Verdict::Conventional if advice.is_open() => {
            format!("Yes: {who} keeps up with {}, and is conventional (CMR), so it has nothing to clean.", what(advice))
        }
        Verdict::Conventional => {
            format!(
                "Yes, as far as shingling goes: {who} is conventional (CMR), so it has nothing to clean after {}.",
                what(advice)
            )
        }
        Verdict::SomewhatSlower => format!("Yes, though {}.", slower(advice)),
        Verdict::Fine => format!("Yes: {who} does as well as {disks} for {}.", what(advice)),
    }
}

/// What others have measured, where that alone is in the way of a yes: it is the headline then.
fn contradicted(advice: &Advice) -> Option<&'static Known> {
    advice.disputed().filter(|_| advice.verdict == Verdict::Depends && !advice.problems.any())
}

/// The pace of a rebuild while nobody uses the array, if use alone is the problem.
fn quiet_pace(advice: &Advice) -> Option<String> {
    let base = advice.base();
    let is_good = !base.own.falls_behind && !advice.problems_of(&base.own, &base.against).any();
    (advice.tries_unused() && is_good).then(|| pace(advice, &base.own))
}

/// What it is where the disk that is written to was trimmed before, and where it was not.
fn trimmed_or_not(advice: &Advice, trimmed: &Present) -> String {
    let runs = [&trimmed.own, &advice.base().own];
    let is_alike = runs[1].mean_ns as f64 <= ALIKE * runs[0].mean_ns as f64 && !runs[1].falls_behind;
    let [trimmed, written] = runs.map(|run| match advice.measure() {
        // On average there may be no difference, where some requests wait for long.
        Measure::MeanNs if is_alike => format!("one request in a hundred takes {} or more", format::nanos(run.p99_ns)),
        _ => pace(advice, run),
    });
    match advice.rebuild {
        Some(_) => format!(
            "Perhaps: the {} takes {trimmed} if the new disk was never written or is trimmed first, {written} if all of it was written \
             before (used, or tested).",
            work(advice)
        ),
        None if runs[1].falls_behind => format!(
            "Perhaps: {} keeps up while it is new or trimmed ({trimmed}), but not once it was filled and not trimmed.",
            system(advice)
        ),
        None => format!(
            "Perhaps: {trimmed} on {} while it is new or trimmed, {written} once it was filled and not trimmed.",
            system(advice)
        ),
    }
}

/// Since when that is so, where the answer is about a cache that has become full.
fn once_full(advice: &Advice) -> String {
    match advice.judged().own.full_after_s {
        Some(after_s) if advice.answer == Answer::No => {
            format!(" That is once its cache is full, after about {} of this.", format::seconds(after_s))
        }
        _ => String::new(),
    }
}

/// Whether the drive has recovered when requests at times of their own come again.
fn recovered(advice: &Advice) -> String {
    let Some(every) = advice.need.every.filter(|_| advice.is_open() && advice.judged().own.cleans) else {
        return String::new();
    };
    let every = format::nanos(every.0);
    match (advice.returns_too_soon(), advice.recovery) {
        (Some(true), _) if advice.verdict == Verdict::Misses => String::new(),
        (Some(true), _) => format!(" Nor has the drive recovered when it comes again after {every}."),
        (_, Recovery::After(rest_s)) => format!(
            " After {} of rest the drive has recovered, before it comes again after {every}.",
            format::seconds(rest_s)
        ),
        _ if !advice.is_rest_known => format!(" Whether the drive has recovered after {every} is tried now."),
        _ => format!(" Whether the drive has recovered when it comes again after {every} is not known."),
    }
}

/// By how much it is slower than conventional disks.
fn slower(advice: &Advice) -> String {
    let (present, who, disks) = (advice.judged(), system(advice), disks(advice));
    let times_as_long = multiple(advice, present);
    // Some requests may be far slower though the mean is not.
    let is_by_p99 = advice.is_open() && times_as_long <= FACTOR && present.against.whole.p99 > FACTOR;
    if times_as_long > ALIKE && !is_by_p99 {
        let what = if advice.measure() == Measure::MeanNs { "a request".into() } else { what(advice) };
        return format!("{what} takes {} as long on {who} as on {disks}", times(times_as_long));
    }
    let p99 = present.against.from_first_wait.map_or(present.against.whole.p99, |later| later.p99);
    let (keeps_up, on) = match advice.is_open() {
        true => (format!("{who} keeps up, but "), String::new()),
        false => (String::new(), format!(" on {who}")),
    };
    format!(
        "{keeps_up}one request in a hundred takes {} as long{on} as on {disks}",
        times(p99.max(present.against.whole.p99))
    )
}

/// The time of all of it, or of a request, as a multiple of that on conventional disks.
fn multiple(advice: &Advice, present: &Present) -> f64 {
    let against = &present.against;
    let whole = || against.whole.elapsed.unwrap_or(against.whole.mean);
    match advice.measure() {
        Measure::Seconds => advice.metric(&present.own) / advice.metric(&present.conventional).max(1e-9),
        Measure::MeanNs => against.whole.mean,
        Measure::BytesPerS if advice.is_even => {
            present.conventional.lasting_bytes_per_s() / present.own.lasting_bytes_per_s().max(1e-9)
        }
        // What comes after the first wait may be something else than what came before.
        Measure::BytesPerS => {
            against.from_first_wait.and_then(|later| later.elapsed).map_or_else(whole, |later| later.max(whole()))
        }
    }
}

/// Whether it does what is needed.
fn need(advice: &Advice) -> String {
    let (present, is_missed) = (advice.judged(), advice.verdict == Verdict::Misses);
    let too = if is_missed && advice.misses(&present.conventional) && !advice.system.is_conventional {
        format!(" {} would not do it either.", format::capital(disks(advice)))
    } else {
        String::new()
    };
    let limit = |time: Nanos| format::nanos(time.0);
    let seconds = advice.seconds(&present.own).unwrap_or(0.0);
    let need = advice.need;
    if let Some(every) = need.every.filter(|_| advice.returns_too_soon() == Some(true) && !advice.problems.slow) {
        return format!(
            "No: {} keeps up with {}, but is still cleaning when it comes again after {}.{too}",
            system(advice),
            what(advice),
            limit(every)
        );
    }
    let keeps = need.keep.is_some_and(|limit| present.own.p99_ns > limit.0 || present.own.falls_behind);
    if let Some(buffer) = need.scarcest_buffer(&present.own) {
        let longest = format::nanos(buffer.longest_ns(&present.own));
        let (name, bridges) = (buffer.name, limit(buffer.bridges));
        let which = if buffer.is_read { "read" } else { "write" };
        return match is_missed {
            true => format!(
                "No: {name} bridges {bridges}, and the longest {which} takes {longest}, so that {}.{too}",
                buffer.harm
            ),
            false => format!("Yes: the longest {which} takes {longest}, and {name} bridges {bridges}."),
        };
    }
    match (is_missed, need.keep, need.within, need.every) {
        (true, Some(keep), ..) if keeps => {
            format!("No: one request in a hundred waits longer than the {} that you allow.{too}", limit(keep))
        }
        (true, _, Some(within), _) if let Some(pace) = quiet_pace(advice) => format!(
            "No, unless nobody uses {} until the {} is over: then it takes {pace}{} of the {} that you have, in light use {}.",
            system(advice),
            work(advice),
            range(advice),
            limit(within),
            format::seconds(seconds)
        ),
        (true, _, Some(within), _) if seconds > within.as_secs() => {
            format!("No: {} takes longer than the {} that you have.{too}", what(advice), limit(within))
        }
        (true, .., Some(every)) => {
            let done = if seconds > every.as_secs() { "is not done" } else { "is done, but its cleaning is not," };
            format!("No: {} {done} when the next one begins after {}.{too}", what(advice), limit(every))
        }
        (false, _, Some(within), _) => {
            let (what, time) = (what(advice), format::seconds(seconds));
            format!("Yes: {what} takes {time} of the {} that you have{}.", limit(within), later(advice, seconds))
        }
        (false, _, _, Some(every)) => {
            // Where work comes again before that, the drive keeps up without it.
            let rest = match advice.rest_s().filter(|rest_s| seconds + rest_s <= every.as_secs()) {
                Some(rest_s) => format!(", and the drive has cleaned up after {} more", format::seconds(rest_s)),
                None if advice.system.cleans && !advice.is_rest_known => {
                    ", if the drive has cleaned up by then, which is tried now".into()
                }
                None => later(advice, seconds),
            };
            let time = format::seconds(seconds);
            format!("Yes: {} takes {time} of the {} until the next{rest}.", what(advice), limit(every))
        }
        (_, Some(keep), ..) => {
            let longest_ns = present.own.longest_stall_ns;
            let though = match longest_ns > keep.0 {
                true => format!(", though the longest request takes {}", format::nanos(longest_ns)),
                false => String::new(),
            };
            format!("Yes: 99 of 100 requests are answered within {}{though}.", limit(keep))
        }
        _ => format!("Yes: {} does it.", system(advice)),
    }
}

/// What each later turn takes, where the drive has not cleaned up by then.
fn later(advice: &Advice, seconds: f64) -> String {
    advice.later_s(&advice.judged().own, seconds).map_or(String::new(), |later| {
        format!(", and each later one {}, since the drive has not cleaned up by then", format::seconds(later))
    })
}

/// Whether an amount that is spread over a time beside other requests is done in that time.
fn spread(advice: &Advice) -> String {
    let Some((amount, time)) = &advice.spread else { return String::new() };
    let own = &advice.judged().own;
    let time = format::nanos(time.0);
    match own.falls_behind {
        // What comes in an hour takes so many hours.
        true => {
            let s = advice.spread.as_ref().map_or(0.0, |(_, time)| time.as_secs());
            let takes = format::seconds(s * own.elapsed_ns as f64 / own.arrivals_ns.max(1) as f64);
            format!(" {} is not done in the {time} that you have: it takes about {takes}.", format::capital(amount))
        }
        false => format!(" {} is done in the {time} that you have.", format::capital(amount)),
    }
}

/// What was measured of the disk under this load.
fn seen(advice: &Advice) -> Option<String> {
    let seen = advice.seen?;
    let busy = match seen.busy > 0.0 {
        true => format!(" on a disk that was {} busy", share(seen.busy, 1.0)),
        false => String::new(),
    };
    Some(format!("{} shows requests that wait {} on average{busy}", seen.tool, format::nanos(seen.mean_ns)))
}

/// What may be at an end of the drive's range.
fn doubt(advice: &Advice) -> String {
    let end = |worse| advice.ends.iter().find(|end| end.worse == worse);
    let at = |worse| end(worse).map_or(String::new(), |end| beside_usual(advice, &end.trajectory));
    let drops = advice.ends.iter().any(|end| end.problems.dropped_30s) && !advice.problems.dropped_30s;
    match (advice.has_limit(), advice.problems.slow) {
        (true, true) => "only at their best it does what you need".into(),
        (true, false) if end(true).is_some_and(|end| end.problems.slow) => {
            "at their worst it does not do what you need".into()
        }
        _ if advice.judged().own.falls_behind => "only at their best it can keep up".into(),
        _ if advice.problems.dropped_30s => "only at their best the system would drop no disk".into(),
        (false, true) => format!("only at their best it is fast enough: {}", at(false)),
        _ if drops => "they may be such that the system would drop a disk".into(),
        _ if end(true).is_some_and(|end| end.trajectory.falls_behind) => "at their worst it can't keep up".into(),
        _ => format!("at their worst {}", at(true)),
    }
}

/// What decides of a run, beside conventional disks: of requests at times of their own the mean, or one in a hundred.
fn beside_usual(advice: &Advice, run: &Trajectory) -> String {
    let (usual, disks) = (&advice.base().conventional, disks(advice));
    let latency = |what: &str, of: fn(&Trajectory) -> u64| {
        format!("{what} {}, on {disks} {}", format::nanos(of(run)), format::nanos(of(usual)))
    };
    let multiples = Multiples::from_figures(&run.figures(), &usual.figures(), false);
    match advice.measure() {
        Measure::MeanNs if multiples.mean < multiples.p99 => {
            latency("one request in a hundred takes at least", |run| run.p99_ns)
        }
        Measure::MeanNs => latency("a request takes on average", |run| run.mean_ns),
        Measure::Seconds => format!("it takes {}, on {disks} {}", pace(advice, run), pace(advice, usual)),
        Measure::BytesPerS => format!("it does {}, {disks} {}", pace(advice, run), pace(advice, usual)),
    }
}

/// The range, in parentheses. Where ever more requests wait, how long they do says nothing but how long that went on.
fn range(advice: &Advice) -> String {
    let grows = advice.ends.iter().any(|end| end.trajectory.falls_behind) && advice.measure() == Measure::MeanNs;
    let likely = advice.metric(&advice.base().own);
    match (advice.drive_range.as_ref().map(|range| between(range, likely)), grows) {
        (None, false) => String::new(),
        (Some(range), false) => format!(" ({range})"),
        (None, true) => " (but at the drive's worst the backlog grows)".into(),
        (Some(range), true) => format!(" ({range}, and at the drive's worst the backlog grows)"),
    }
}

/// From the one end to the other, in the unit of the figure beside it.
pub fn between(range: &Range, figure: f64) -> String {
    let [(low, low_unit), (high, unit)] = [range.low, range.high].map(|value| range.of.beside(value, figure));
    if low_unit == unit { format!("{low} to {high} {unit}") } else { format!("{low} {low_unit} to {high} {unit}") }
}

/// The answer in a word.
pub fn answer_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Perhaps => "perhaps",
        Answer::Unknown => "too short",
    }
}

/// How long, or how fast, beside conventional disks.
fn figures(advice: &Advice) -> String {
    if advice.rebuild.is_some() {
        return format!("How long: {}", rebuild(advice));
    }
    let Present { own, conventional, .. } = advice.judged();
    let (range, disks) = (range(advice), disks(advice));
    let trimmed =
        advice.trimmed_base().map_or(String::new(), |trimmed| format!("; trimmed {}", pace(advice, &trimmed.own)));
    let beside =
        |text: String| if advice.system.is_conventional { String::new() } else { format!("{trimmed}; {text}") };
    let slowest = if own.longest_command_ns > SHORT_NS {
        format!(" The longest command takes {}.", format::nanos(own.longest_command_ns))
    } else {
        String::new()
    };
    // A cache that is full now was found empty by the simulated load.
    let is_as_if_full =
        !advice.system.is_conventional && advice.is_seen_full() && (own.falls_behind || advice.is_held_up_elsewhere());
    let as_if_full = if is_as_if_full { ", as on a drive whose cache is full" } else { "" };
    let told = seen(advice).filter(|_| advice.verdict != Verdict::Elsewhere);
    let measured = told.map_or(String::new(), |seen| format!(" Your {seen}{as_if_full}."));
    match advice.measure() {
        Measure::MeanNs if own.falls_behind => {
            let asked = rate(own.asked_bytes_per_s());
            let hours = own.elapsed_ns as f64 / own.arrivals_ns.max(1) as f64;
            let when = if advice.decided_by_trim().is_some() { "once it was filled, " } else { "" };
            format!(
                "How fast: {when}this load asks for {asked}, which is more than the drive does, so that the backlog grows: what comes in an \
                 hour takes it {}.{measured}",
                format::seconds(hours * 3600.0)
            )
        }
        Measure::MeanNs => {
            let usual = beside(format!(
                "on {disks} {}, {} and {}",
                format::nanos(conventional.mean_ns),
                format::nanos(conventional.p99_ns),
                format::nanos(conventional.longest_stall_ns)
            ));
            format!(
                "How fast: a request takes {} on average{range}, one in a hundred {} or more, the longest {}{}{usual}.{measured}",
                format::nanos(own.mean_ns),
                format::nanos(own.p99_ns),
                format::nanos(own.longest_stall_ns),
                // The longest read and the longest write are told elsewhere.
                if own.longest_stall_ns > own.longest_read_ns.max(own.longest_write_ns) { " (a flush)" } else { "" },
            )
        }
        Measure::Seconds => {
            let bytes = advice.whole_bytes.unwrap_or(0.0);
            let seconds = advice.metric(own);
            let usual = beside(format!("{disks} {}", format::seconds(advice.metric(conventional))));
            format!(
                "How long: {}{range} for {}, which is {}{usual}.{slowest}",
                format::seconds(seconds),
                format::bytes(bytes),
                rate(bytes / seconds.max(1e-9))
            )
        }
        Measure::BytesPerS => {
            let usual = own.lasting_bytes_per_s() * multiple(advice, advice.judged());
            let usual = beside(format!("{disks} {}", rate(usual)));
            let before = own.rate_before_bytes_per_s.unwrap_or(0.0);
            let later = own.cache_full_at_s.filter(|&at_s| at_s > 0.0 && own.lasting_bytes_per_s() < before);
            let mut course = later
                .filter(|_| !advice.system.is_conventional)
                .map_or(String::new(), |at_s| format!("{} for {}, then ", rate(before), format::seconds(at_s)));
            course += &match verdict::by_phase(&own.phases, rate, format::seconds) {
                Some(phases) => format!("{phases}; from then on {} in all", rate(own.lasting_bytes_per_s())),
                None => rate(own.lasting_bytes_per_s()),
            };
            format!("How fast: {course}{range}{usual}.{slowest}")
        }
    }
}

/// The work of an array of its own, as its software calls it.
fn work(advice: &Advice) -> &'static str {
    match (&advice.rebuild, advice.array.map(|array| array.software)) {
        (Some(RebuildSpec { task: Task::Scrub, .. }), _) => "scrub",
        (_, Some(Software::Zfs)) => "resilver",
        _ => "rebuild",
    }
}

/// How long a rebuild takes, while nobody uses the array and in use.
fn rebuild(advice: &Advice) -> String {
    let range = range(advice);
    let times = advice.present.iter().map(|present| {
        let when = match present.load {
            LoadKind::Unused => " while nobody uses it".to_string(),
            LoadKind::Light => " in light use (20 small requests a second)".into(),
            LoadKind::Asked if advice.is_open() => " under your load".into(),
            LoadKind::Asked => {
                let s = present.own.elapsed_ns as f64 / 1e9;
                format!(" under your load, which goes on at {}", rate(present.own.bytes as f64 / s.max(1e-9)))
            }
        };
        // The ends of the range were run under one of the loads.
        let has_range = std::ptr::eq(present, advice.base());
        let time = match advice.seconds(&present.own) {
            Some(seconds) => format::seconds(seconds),
            None => "it does not end".into(),
        };
        format!("{time}{}{when}", if has_range { range.as_str() } else { "" })
    });
    let times = times.collect::<Vec<_>>().join(", ");
    let beside = |who: &str, all: &[Present], of: fn(&Present) -> &Trajectory| {
        let times: Vec<String> =
            all.iter().filter_map(|present| advice.seconds(of(present))).map(format::seconds).collect();
        if times.is_empty() { String::new() } else { format!("; {who} {}", times.join(" and ")) }
    };
    let mut usual = beside("new disk trimmed", &advice.trimmed, |present| &present.own);
    if !advice.system.is_conventional {
        usual += &beside("CMR disks", &advice.present, |present| &present.conventional);
    }
    let longest = advice.present.iter().max_by_key(|present| present.own.longest_command_ns);
    let answers =
        longest.filter(|present| present.own.longest_command_ns > SHORT_NS).map_or(String::new(), |present| {
            let when = if present.load == LoadKind::Light { ", in light use" } else { "" };
            let limits =
                if present.own.dropped_7s > 0 { "; kernels wait 30 s, hardware RAID controllers 7 s" } else { "" };
            format!(
                " The longest command of a disk takes {}{when}{limits}.",
                format::nanos(present.own.longest_command_ns)
            )
        });
    format!("{times}{usual}.{answers}")
}

/// The reason, in a clause.
fn reason(advice: &Advice, timeline: &Timeline) -> String {
    let present = advice.judged();
    let own = &present.own;
    let is_slow = multiple(advice, present) > ALIKE || advice.answer == Answer::No;
    // Faster than the outer tracks of any disk that is sold (assumption).
    let asked = advice.need.within.zip(advice.whole_bytes).map(|(within, whole)| (whole, whole / within.as_secs()));
    if let Some((whole, asked)) = asked.filter(|(_, asked)| *asked > FASTEST * own.disks as f64) {
        let within = advice.need.within.map_or(String::new(), |within| format::nanos(within.0));
        return format!("{} in {within} are {}, which no hard disk does", format::bytes(whole), rate(asked));
    }
    if advice.verdict == Verdict::Elsewhere {
        let cache = if advice.system.is_conventional { "" } else { "the drive's cache was full before this, or " };
        return format!("{cache}something else than this load holds the disk up");
    }
    if advice.system.is_conventional {
        let busy =
            if own.idle_share < 0.05 { "the disk is busy with seeks and transfers all the time, and " } else { "" };
        return format!("{busy}nothing has to be rewritten");
    }
    if advice.verdict == Verdict::Overloaded {
        return "the requests themselves keep any disk busy all the time, with seeks and transfers".into();
    }
    if advice.decided_by_trim().is_some() {
        return "once it was written full, such a drive has next to no free room, and moves old data to make some for each write".into();
    }
    if let Some(spec) = advice.rebuild {
        return match (spec.order, spec.task) {
            (_, Task::Scrub) if own.longest_command_ns > SHORT_NS => {
                "a scrub reads, which needs no cleaning, but the other requests fill the disks' caches, and commands wait while these are emptied"
                    .into()
            }
            (_, Task::Scrub) => "a scrub reads, and reads need no cleaning".into(),
            (RebuildOrder::Scattered { .. }, _) if is_slow => {
                "a resilver writes records here and there, and the drive has to rewrite whole bands for them".into()
            }
            (RebuildOrder::Scattered { .. }, _) => "records that lie together are written in one go".into(),
            (RebuildOrder::Ascending { .. }, _) if is_slow => {
                "the other requests fill the disks' caches, and emptying these (cleaning) holds the rebuild up".into()
            }
            (RebuildOrder::Ascending { .. }, _) => "a rebuild writes in order, which shingled disks do well".into(),
        };
    }
    let who = if advice.system.cleans || advice.system.cache_sectors > 0 { "cleaning" } else { "rewriting" };
    let bytes = own.cache_full_after_bytes.map_or(0.0, |bytes| bytes as f64);
    let fill = timeline.cache_fill.last().copied();
    if let Some(after_s) = own.full_after_s {
        let when = format::seconds(after_s);
        return match is_slow {
            // Nothing but the map of its cache, which it writes now and then, makes a drive wait for itself.
            true if own.cache_full_at_s.is_none() && !own.falls_behind && multiple(advice, present) <= ALIKE => {
                format!(
                    "no request waits for {who}, but now and then one does while the drive writes the map of its cache"
                )
            }
            true => format!(
                "the cache on the drive's platters is full after about {when} of this, and from then on requests wait while the drive \
                 moves what is in it to its place"
            ),
            false => format!(
                "the drive's cache is full after about {when} of this, but no request waits long for {who} then"
            ),
        };
    }
    match own.cache_full_at_s {
        Some(0.0) => format!("requests wait for {who} from the first on"),
        Some(at_s) => {
            // Cleaning that has begun in a pause makes requests wait as well.
            let window = (at_s * 1e9) as u64 / timeline.window_ns.max(1);
            let is_full = timeline.cache_fill.get(window as usize).is_some_and(|&fill| fill >= FULL);
            let when = format!("after {} ({})", format::seconds(at_s), format::bytes(bytes));
            match (is_slow, is_full) {
                (true, true) => format!(
                    "the cache on the drive's platters is full {when}, and from then on requests wait while the drive moves what is in it \
                     to its place"
                ),
                (true, false) => format!("{when} the drive begins to clean, and requests wait for it"),
                (false, true) => format!("the drive's cache is full {when}, but no request waits long for {who}"),
                (false, false) => "the drive cleans now and then, but no request waits long for that".into(),
            }
        }
        None if advice.demand.written_bytes == 0 => "reads need no cleaning".into(),
        None if is_slow => {
            format!("no request waits for {who}, but each takes longer on its way through the drive's cache")
        }
        None => {
            // Full, and no request waits: what comes in takes the room of what was cleaned since.
            match fill.filter(|&fill| fill >= 0.01) {
                Some(fill) if fill >= FULL => {
                    "the drive's cache fills, but between requests the drive cleans it as fast as they come, so that none waits".into()
                }
                Some(fill) => {
                    format!("no request waits for {who}; the drive's cache is {} full at the end", share(fill, 1.0))
                }
                None => format!("no request waits for {who}"),
            }
        }
    }
}

/// The first thing to do.
fn what_to_do(advice: &Advice) -> Option<String> {
    if advice.answer == Answer::Yes {
        return None;
    }
    if advice.answer == Answer::Unknown {
        let is_recorded = advice.note.is_some() || advice.demand.replayed.trace.is_some();
        let lasts = || format::nanos(advice.judged().own.elapsed_ns);
        return (is_recorded && advice.is_unsettled()).then(|| {
            format!(
                "What to do: record for longer than these {}, best a whole day or week, so that times of rest are in it too.",
                lasts()
            )
        });
    }
    if advice.verdict == Verdict::Elsewhere {
        let rest = if advice.system.is_conventional {
            "look"
        } else {
            "let it rest for some hours; if that does not help, look"
        };
        return Some(format!(
            "What to do: {rest} for sectors that are pending or reallocated (smartctl -A /dev/sdX), link errors (dmesg), and other programs \
             that use the disk (iotop)."
        ));
    }
    if advice.verdict == Verdict::Overloaded {
        return Some(
            "What to do: use more disks or SSDs, or ask for less; another kind of disk alone is no help.".into(),
        );
    }
    let first = match advice.actions.first() {
        Some(action) => action.what.as_str(),
        None if advice.is_tried => "nothing that was tried would be enough",
        // Changes are tried after the first answer.
        None => return None,
    };
    let (letter, others) = first.split_at(first.chars().next().map_or(0, char::len_utf8));
    Some(format!("What to do: {}{others}.", letter.to_lowercase()))
}

/// Which of several drives to take.
pub fn choice(all: &[Advice]) -> Option<String> {
    let of = |answer: Answer| -> Vec<String> {
        all.iter().filter(|advice| advice.answer == answer).map(|advice| advice.system.drive.clone()).collect()
    };
    let (surely, perhaps) = (of(Answer::Yes), of(Answer::Perhaps));
    Some(match (surely.len(), perhaps.len()) {
        (good, _) if good == all.len() => "Any of them will do.".into(),
        (1.., _) => format!("Of these take {}.", surely.join(" or ")),
        (_, 1..) => format!("None of them will surely do; of these {} may.", format::list(perhaps)),
        _ if of(Answer::Unknown).is_empty() => "None of them will do.".into(),
        _ => return None,
    })
}

/// Whether a timeout would drop a disk.
pub fn dropped(advice: &Advice) -> String {
    let own = || advice.present.iter().map(|present| &present.own);
    let longest = format::nanos(own().map(|run| run.longest_command_ns).max().unwrap_or(0));
    let over = |of: fn(&Trajectory) -> u64| own().any(|run| of(run) > 0);
    match () {
        () if advice.problems.refused => "It refuses requests; there is no time to speak of.".into(),
        () if over(|run| run.dropped_30s) => {
            format!("Yes: a command takes {longest}. Kernels wait 30 s, a hardware RAID controller 7 s.")
        }
        () if advice.array.is_none() => format!("No: the longest command takes {longest}, and kernels wait 30 s."),
        () if over(|run| run.dropped_7s) => {
            format!(
                "Not by a kernel, which waits 30 s. By a hardware RAID controller, which waits 7 s: a command takes {longest}."
            )
        }
        () => format!("No: the longest command takes {longest}. A hardware RAID controller waits 7 s, kernels 30 s."),
    }
}

/// How sure it is, and what it rests on.
pub fn certainty(advice: &Advice) -> String {
    let grounds = grounds(advice).join("; ");
    format!("{}.", format::capital(&grounds))
}

/// How sure the answers on several drives are: what all of them rest on, then of each drive what else.
pub fn certainties(all: &[Advice]) -> Vec<String> {
    let each: Vec<Vec<String>> = all.iter().map(grounds).collect();
    let is_common = |ground: &&String| each.iter().all(|own| own.contains(ground));
    let own: Vec<(String, &str)> = each
        .iter()
        .zip(all)
        .map(|(own, advice)| {
            let own: Vec<&str> = own.iter().filter(|ground| !is_common(ground)).map(String::as_str).collect();
            (own.join("; "), advice.system.drive.as_str())
        })
        .collect();
    let common: Vec<&str> = each.iter().take(1).flatten().filter(is_common).map(String::as_str).collect();
    let mut lines = vec![format!("How sure: {}.", common.join("; "))];
    lines.extend(own.chunk_by(|one, next| one.0 == next.0).filter(|alike| !alike[0].0.is_empty()).map(|alike| {
        let names: Vec<&str> = alike.iter().map(|(_, name)| *name).collect();
        format!("- {}: {}.", names.join(", "), alike[0].0)
    }));
    lines.retain(|line| line != "How sure: .");
    lines
}

fn grounds(advice: &Advice) -> Vec<String> {
    let KnownFigures { assumed, ranged, all } = advice.system.known;
    let mut grounds = vec![match (assumed, ranged) {
        _ if advice.verdict == Verdict::Refused => {
            "that is the standard of such disks (ZBC, ZAC), whatever the model".to_string()
        }
        (0, 0) => "the drive's figures are published or measured".into(),
        (_, 1..) if advice.range.is_some() => {
            format!(
                "of the drive's {all} figures {assumed} are assumed, and the range covers the {ranged} least sure of them"
            )
        }
        _ => format!("of the drive's {all} figures {assumed} are assumed"),
    }];
    if advice.lacks_room_at_an_end {
        grounds.push(
            "at one end of what is known of the drive this load has no room, so that nothing is known of it there"
                .into(),
        );
    }
    let present = advice.judged();
    if let (Some(rebuilt), Some(_)) = (present.own.rebuild, advice.whole_disk_bytes) {
        let part = format::bytes(rebuilt.disk_bytes as f64);
        grounds.push(format!("simulated on {part} of each disk, and extrapolated to all of it"));
    } else if let Some(whole) = advice.whole_bytes.filter(|&whole| whole > present.own.bytes as f64 * 1.01) {
        let (part, whole) = (format::bytes(present.own.bytes as f64), format::bytes(whole));
        grounds.push(format!("simulated for {part} of {whole}"));
    }
    if let Some(asked) = advice.asked_use.as_ref().filter(|_| advice.rebuild.is_none()) {
        grounds.push(match asked.split_once(" + ") {
            Some(_) => "what these uses ask of a disk is assumed as told below".into(),
            None => {
                format!("what {} asks of a disk is assumed as told below", asked.split(':').next().unwrap_or(asked))
            }
        });
    }
    grounds.extend(advice.note.clone());
    let whose = if present.own.disks > 1 { "each disk" } else { "the disk" };
    grounds.extend(match (advice.verdict, advice.state.prefill) {
        (Verdict::Refused, _) => None,
        _ if let Some(refused) = advice.refused_where_written => Some(format!(
            "all of {whose}'s zones were empty: unless you reset those that were written before (blkzone reset, which erases them), it refuses \
             {} of these requests",
            share(refused, 1.0)
        )),
        (_, Prefill::None) => Some(format!("{whose} was new, and one in use may be slower")),
        _ if advice.system.is_dynamic && matches!(advice.rebuild.map(|spec| spec.task), Some(Task::Rebuild { used: false, .. })) => {
            Some("the new disk was never written, or all of it was trimmed: a used one may take far longer".into())
        }
        _ if advice.system.is_conventional || advice.demand.written_bytes == 0 && advice.rebuild.is_none() => None,
        _ if advice.rebuild.is_some_and(|spec| matches!(spec.task, Task::Scrub)) => None,
        _ => Some(format!("all of {whose} had been written before")),
    });
    if let Some(seconds) = advice.seconds_from_full() {
        let all = format::seconds(seconds);
        grounds.push(format!(
            "the disk had rested before, so that its cache was empty: begun with a full cache, all of this takes {all}"
        ));
    }
    if advice.rebuild.is_some_and(|spec| matches!(spec.task, Task::Rebuild { .. })) && !advice.system.is_conventional {
        grounds.push("errors of firmware are not modelled".into());
    }
    let asked = advice.asked_work();
    if let Some(known) = asked.known().filter(|_| contradicted(advice).is_none()) {
        grounds.push(format!("{} was measured by others ({})", known.told, known.source));
    }
    grounds.extend(asked.known_of_its_kind().map(|known| {
        let model = known.model();
        format!("of a {model}, which is of the same kind, {} was measured ({})", known.told, known.source)
    }));
    grounds
}

/// What the drive takes, and how that stands to what is asked.
pub fn budget(advice: &Advice) -> Option<String> {
    let budget = advice.budget?;
    let Budget { at_once_bytes, at_once_bytes_per_s, after_bytes_per_s, request_bytes, written_share, .. } = budget;
    let write = format::bytes(advice.demand.mean_write_bytes.unwrap_or(request_bytes));
    if let Some(lasting) = budget.for_ever_bytes_per_s.filter(|_| advice.is_open()) {
        let own = &advice.judged().own;
        let asked = own.asked_bytes_per_s();
        // Near its limit one run may find that the drive keeps up, and another that it does not.
        if own.falls_behind == (asked <= lasting) {
            return None;
        }
        // No more than that was tried.
        let much = match lasting > MANY * asked {
            true => format!("more than {MANY} times as much"),
            false => format!("{} of this load", rate(lasting)),
        };
        let asked_for = format!("the load asks for {}", rate(asked));
        // Nobody would say that a drive keeps up with requests which wait too long.
        return Some(match advice.answer {
            Answer::No if asked <= lasting => {
                format!(
                    "How much: up to {much} what waits is worked off again, but requests wait as told above; {asked_for}."
                )
            }
            _ => format!("How much: it keeps up with {much} for as long as you like; {asked_for}."),
        });
    }
    if advice.is_open() {
        return None;
    }
    let Some((at_once, after)) = at_once_bytes.zip(after_bytes_per_s) else {
        // Nothing was told apart from the drive's rate in all.
        if at_once_bytes_per_s == 0.0 {
            return None;
        }
        return Some(format!(
            "How much: it takes requests of {} at {}, and did not fall behind within what was simulated.",
            format::bytes(request_bytes),
            rate(at_once_bytes_per_s)
        ));
    };
    // Reads take no room, so that only what is written is told.
    let (written, reads) = (|bytes: f64| bytes * written_share, if written_share < 0.99 { " written" } else { "" });
    let again = match budget.rest_s {
        Some(rest_s) => format!("After a rest of {} it takes as much again.", format::seconds(rest_s)),
        None => "Two days of rest are not enough for as much again.".into(),
    };
    // What comes evenly may go faster than what comes as fast as the drive takes it. Where it was found to go slower, that is told alone.
    let lasting = match budget.for_ever_bytes_per_s {
        Some(lasting) if lasting > 1.05 * after => format!(
            "{}, and {} for as long as you like if they come evenly",
            rate(written(after)),
            rate(written(lasting))
        ),
        lasting => format!("{} for as long as you like", rate(written(after.min(lasting.unwrap_or(after))))),
    };
    let mut text = format!(
        "How much: {}{reads} at once, at {} (in writes of {write}; smaller ones fill the cache sooner), then {lasting}. {again}",
        format::bytes(written(at_once as f64)),
        rate(written(at_once_bytes_per_s)),
    );
    if let Some(bytes) = advice.whole_bytes.filter(|_| advice.is_amount()) {
        let (all, part) = (format::bytes(written(bytes)) + reads, bytes / at_once as f64);
        text += &match (part <= 1.0, advice.rest_s()) {
            (true, Some(rest)) => format!(
                " These {all} are {} of what it takes at once, and {} of rest make up for them.",
                share(part, 1.0),
                format::seconds(rest)
            ),
            (true, None) => format!(" These {all} are {} of what it takes at once.", share(part, 1.0)),
            (false, _) => format!(" These {all} are {} as much as it takes at once.", times(part)),
        };
    }
    Some(text)
}

/// What an owner can do, the surest first; nothing where there is no problem, and nothing that the array's software can't do.
pub fn actions(advice: &Advice) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut add =
        |what: String, cost: &str, command: Option<String>| actions.push(Action { what, cost: cost.into(), command });
    if advice.verdict == Verdict::Refused {
        let is_receive = advice.asked_use.as_deref().is_some_and(|asked| asked.starts_with("zfs"));
        let software = match advice.array.map(|array| array.software) {
            Some(Software::Md) => Some("md"),
            Some(Software::Zfs) => Some("ZFS"),
            None => is_receive.then_some("ZFS"),
        };
        if software.is_none() {
            add(
                "Put on it what writes zones in order: Btrfs or F2FS in zoned mode, or smrkit's SMRfs".into(),
                "the disk is set up anew",
                None,
            );
        }
        let does =
            |remedy: &&Remedy| remedy.kind == ChangeKind::HostLayer && remedy.problems.is_some_and(|left| !left.any());
        if let Some(run) = advice.remedies.iter().find(does).and_then(|remedy| remedy.trajectory.as_ref()) {
            let below = software.unwrap_or("any file system");
            let what = format!("Put dm-zoned on it, below {below}: {}", brought(advice, run));
            add(
                what,
                "the disk is set up anew; dm-zoned has a cache on the disk that it cleans in the background",
                None,
            );
        }
        let why = software.map_or(String::new(), |name| format!(": {name} can't write a host-managed disk itself"));
        add(format!("Use CMR disks{why}"), "other disks", None);
        return actions;
    }
    let trims = advice.decided_by_trim().is_some();
    if advice.verdict == Verdict::Depends && !trims {
        let usual = brought(advice, &advice.base().conventional);
        match advice.need.scarcest_buffer(&advice.judged().own) {
            Some(buffer) if advice.misses_an_assumption() => add(
                format!(
                    "Look up how long {} lasts, and ask again with buffer=TIME, or use CMR disks to be sure: {usual}",
                    buffer.name
                ),
                "time, or other disks",
                None,
            ),
            _ => add(
                format!(
                    "To be sure use CMR disks: {usual}. If you have the shingled disk already and it is empty, measure it"
                ),
                "other disks, or an hour and all that is on the measured disk",
                Some("smrkit drives measure /dev/sdX".into()),
            ),
        }
    }
    if !advice.problems.any() {
        return actions;
    }
    if let Some(pace) = quiet_pace(advice) {
        let what = format!("Let nobody use the array until the {} is over: {pace}{}", work(advice), range(advice));
        add(what, "the array is of no use until then", None);
    }
    for remedy in worth_doing(advice) {
        let Some(figures) = remedy.trajectory.as_ref().map(|run| brought(advice, run)) else { continue };
        let so_far = if remedy.effect == Some(Effect::FixesSoFar) { ", as far as was simulated" } else { "" };
        let help = if remedy.rank() == Some(2) { " (helps, but not enough)" } else { "" };
        let shown = format!("{figures}{so_far}{help}");
        match remedy.kind {
            ChangeKind::Trim => {
                let (what, cost, command) = trim(advice);
                add(format!("{what}: {shown}"), cost, command.map(str::to_string));
            }
            ChangeKind::Conventional if advice.verdict == Verdict::Depends && !trims => {}
            // They can't keep up either, or don't do what is needed, as the headline says.
            ChangeKind::Conventional
                if advice.judged().conventional.falls_behind || advice.misses(&advice.judged().conventional) =>
            {
                if advice.rebuild.is_none() {
                    add("Use an SSD".into(), "other disks", None)
                }
            }
            ChangeKind::Conventional if advice.judged().own.falls_behind => {
                add("Use CMR disks, which keep up with it".into(), "other disks", None)
            }
            // Light use alone is the problem, and all the others are told without.
            ChangeKind::Conventional if quiet_pace(advice).is_some() => {
                let used = pace(advice, &advice.judged().conventional);
                add(format!("Use CMR disks: {used} in light use"), "other disks", None)
            }
            ChangeKind::Conventional if advice.is_replacement() => add(
                format!(
                    "Take a CMR disk as the new one: {shown}. One is enough, because only the new disk is written to"
                ),
                "another disk",
                None,
            ),
            ChangeKind::Conventional => add(format!("Use CMR disks: {shown}"), "other disks", None),
            ChangeKind::Program => {
                let Some(instead) = uses::instead(&remedy.change) else { continue };
                add(format!("{}: {shown}", instead.what), instead.cost, instead.command.map(str::to_string));
            }
            ChangeKind::WriteSize if is_small_and_random(advice) => add(
                format!(
                    "Use a program that gathers small writes and writes {} in one place: {shown}. A larger recordsize or chunk does not do that",
                    remedy.change.trim_start_matches("writes of ")
                ),
                "what is gathered in memory is lost in a crash",
                None,
            ),
            ChangeKind::WriteSize => {
                let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
                add(
                    format!("Write {} at a time: {shown}", remedy.change.trim_start_matches("writes of ")),
                    if is_zfs {
                        "a small change within a large record rewrites all of it"
                    } else {
                        "the program needs an option for it, called block, chunk or buffer size"
                    },
                    is_zfs.then(|| "zfs set recordsize=1M POOL/DATASET".into()),
                );
            }
            ChangeKind::RebuildRecords if !is_small_and_random(advice) || advice.judged().load == LoadKind::Light => {
                add(
                    format!("Keep large files in records of 1 MiB, from the beginning: {shown}"),
                    "holds for data written from then on; databases and virtual machines on it become slower",
                    Some("zfs set recordsize=1M POOL/DATASET-OF-LARGE-FILES".into()),
                )
            }
            ChangeKind::RebuildOrder => add(
                format!("Rebuild in disk order: {shown}"),
                "checksums are verified only by the scrub that ZFS starts afterwards",
                Some("zpool replace -s POOL OLD-DISK NEW-DISK".into()),
            ),
            ChangeKind::RebuildPieces if is_bearable(advice, remedy) => {
                let is_resilver =
                    matches!(advice.rebuild, Some(RebuildSpec { order: RebuildOrder::Scattered { .. }, .. }));
                let is_scrub = matches!(advice.rebuild, Some(RebuildSpec { task: Task::Scrub, .. }));
                let queue = if is_resilver || is_scrub { "scrub" } else { "rebuild" };
                add(
                    format!("Let ZFS keep one command of the {} outstanding: {shown}", work(advice)),
                    "every scrub and resilver on this computer goes slower, until you set it back",
                    Some(format!("echo 1 > /sys/module/zfs/parameters/zfs_vdev_{queue}_max_active")),
                );
            }
            ChangeKind::RebuildSpeed if is_bearable(advice, remedy) => {
                let limit = remedy.change.trim_start_matches("at ").trim_end_matches(" at most");
                let kib_per_s = half_kib_per_s(advice);
                add(
                    format!("Hold the {} to half its speed, {limit}: {shown}", work(advice)),
                    "the array goes without redundancy for that much longer",
                    Some(format!("echo {kib_per_s} > /sys/block/mdX/md/sync_speed_max")),
                );
            }
            ChangeKind::RebuildRecords
            | ChangeKind::RebuildPieces
            | ChangeKind::RebuildSpeed
            | ChangeKind::HostLayer => {}
        }
    }
    if advice.answer != Answer::Yes && advice.is_open() {
        actions.extend(less(advice));
    }
    // Where ever more requests wait, no timeout is long enough.
    let falls_behind = advice.present.iter().any(|present| present.own.falls_behind);
    if (advice.problems.dropped_7s || advice.problems.dropped_30s) && !falls_behind {
        actions.extend(timeouts(advice));
    }
    actions
}

/// How to replace a disk that still works, and one that has failed: a sentence and its commands. Nothing if no disk is replaced.
pub fn replaces(advice: &Advice) -> Vec<(String, &'static [&'static str])> {
    let is_replaced =
        |action: &Action| action.command.as_deref().is_some_and(|command| command.starts_with("zpool replace"));
    let Some(array) = advice.array.filter(|_| advice.is_replacement() && !advice.problems.refused) else {
        return Vec::new();
    };
    if advice.actions.iter().any(is_replaced) {
        return Vec::new();
    }
    let (works, failed): (&[&str], &[&str]) = match array.software {
        Software::Zfs => (&["zpool replace POOL OLD-DISK NEW-DISK"], &["zpool replace POOL OLD-DISK NEW-DISK"]),
        Software::Md => (
            &[
                "mdadm --manage /dev/mdX --add /dev/NEW-DISK",
                "mdadm --manage /dev/mdX --replace /dev/OLD-DISK --with /dev/NEW-DISK",
            ],
            &["mdadm --manage /dev/mdX --add /dev/NEW-DISK"],
        ),
    };
    let how = match array.software {
        Software::Zfs => "OLD-DISK is its name or number in zpool status",
        Software::Md => "md begins to rebuild at once",
    };
    let copies = match array.level {
        Level::Raid1 => advice.judged().own.disks.saturating_sub(1),
        Level::Raid10 { copies } => u64::from(copies) - 1,
        level => level.parities() as u64,
    };
    let meanwhile = match copies {
        0 | 1 => "Until it is done there is no redundancy, so first copy what you can't lose".to_string(),
        more => format!("Until it is done, {} more may fail", format::counted(more - 1, "disk")),
    };
    vec![
        ("To replace a disk that still works, which stays in use until the new one is whole:".into(), works),
        (format!("{meanwhile}. To replace a disk that has failed ({how}):"), failed),
    ]
}

/// A step with its price, unless that goes without saying.
pub fn told(action: &Action) -> String {
    match has_price(action) {
        true => format!("{}. It costs: {}.", action.what, action.cost),
        false => format!("{}.", action.what),
    }
}

/// False of a step whose price goes without saying.
pub fn has_price(action: &Action) -> bool {
    !["other disks", "another disk"].contains(&action.cost.as_str()) && action.cost != FEWER
}

/// To trim what is written to: what is done, what it costs, and the command.
fn trim(advice: &Advice) -> (&'static str, &'static str, Option<&'static str>) {
    match (advice.rebuild, advice.array) {
        (Some(_), _) => (
            "Trim the new disk before you put it in, which erases it",
            "all that is on it is erased, so that you first look for its serial number (lsblk -o NAME,MODEL,SERIAL); many USB adapters and \
             RAID controllers don't pass a trim on",
            Some("blkdiscard /dev/NEW-DISK"),
        ),
        (None, Some(ArrayFacts { software: Software::Zfs, .. })) => {
            // Nothing to be done week by week: such pools have hung, and could then be imported read-only at best (openzfs/zfs issue 16056).
            (
                "Other (CMR) disks are safer in a pool. If these must do, trim the pool while nobody needs it",
                ZFS_TRIM_COST,
                None,
            )
        }
        (None, Some(array)) if array.level.parities() > 0 => {
            ("Trim the file system, and again every week", MD_TRIM_COST, None)
        }
        (None, _) => (
            "Trim the file system, and again every week (in Windows: Optimize-Volume -ReTrim)",
            TRIM_COST,
            Some("fstrim -v /MOUNT-POINT"),
        ),
    }
}

/// The price of asking for less.
const FEWER: &str = "fewer requests in the same time";

/// How much less would be bearable.
fn less(advice: &Advice) -> Option<Action> {
    let lasting = advice.budget?.for_ever_bytes_per_s?;
    let own = &advice.judged().own;
    let asked = own.asked_bytes_per_s();
    (own.falls_behind && lasting < asked).then(|| Action {
        what: format!(
            "Ask less of it: {} of this load, {}, for as long as you like",
            share(lasting, asked),
            rate(lasting)
        ),
        cost: FEWER.into(),
        command: None,
    })
}

/// Timeouts under which the drive is not dropped; none where no timeout that makes sense is long enough.
fn timeouts(advice: &Advice) -> Vec<Action> {
    let longest_ns = advice.present.iter().map(|present| present.own.longest_command_ns).max().unwrap_or(0);
    let seconds = timeout_s(longest_ns);
    if seconds > LONGEST_TIMEOUT_S {
        return Vec::new();
    }
    let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
    let mut actions = Vec::new();
    if advice.array.is_some() && !is_zfs {
        actions.push(Action {
            what: "Don't connect these disks to a hardware RAID controller, which drops a disk after 7 s".into(),
            cost: "nothing if the array is software RAID (Linux md), as in most NAS boxes".into(),
            command: None,
        });
    }
    let may_drop = advice.problems.dropped_30s || advice.ends.iter().any(|end| end.problems.dropped_30s);
    if may_drop {
        let stalls = if advice.array.is_some() { "the array" } else { "what uses it" };
        actions.push(Action {
            what: format!(
                "Let the kernel wait {seconds} s for each of these disks, instead of {KERNEL_S} s: the longest command took {}, and one of \
                 yours may take twice as long",
                format::nanos(longest_ns)
            ),
            cost: format!("a disk that is really dead stalls {stalls} for that long; has to be set after each start"),
            command: Some(format!("echo {seconds} > /sys/block/sdX/device/timeout")),
        });
    }
    actions
}

/// Seconds to wait for commands of which the longest takes so long: twice as long, in steps of the kernel's own timeout.
fn timeout_s(longest_ns: u64) -> u64 {
    (2 * longest_ns).div_ceil(KERNEL_S * 1_000_000_000).max(1) * KERNEL_S
}

/// Half the speed of the rebuild as it is, in KiB/s.
fn half_kib_per_s(advice: &Advice) -> u64 {
    let rebuilt = advice.judged().own.rebuild.unwrap_or_default();
    (rebuilt.bytes as f64 / (rebuilt.elapsed_ns as f64 / 1e9).max(1e-9) / 2.0 / 1024.0) as u64
}

/// True of a slower rebuild that is still over before long.
fn is_bearable(advice: &Advice, remedy: &Remedy) -> bool {
    remedy.trajectory.as_ref().and_then(|run| advice.seconds(run)).is_some_and(|seconds| seconds <= LONGEST_REBUILD_S)
}

/// True of small writes here and there, which larger records make worse: each then rewrites a whole record.
fn is_small_and_random(advice: &Advice) -> bool {
    advice.demand.mean_write_bytes.is_some_and(|bytes| bytes < SMALL_BYTES)
        && advice.demand.sequential_share.is_some_and(|share| share < 0.5)
}

/// The changes that are enough, then those that help, commands first, else in the order of the table; of several sizes of writes the
/// smallest that does as much.
fn worth_doing(advice: &Advice) -> impl Iterator<Item = &Remedy> {
    let sizes = advice.remedies.iter().filter(|remedy| remedy.kind == ChangeKind::WriteSize && remedy.rank().is_some());
    let best = sizes.min_by_key(|remedy| remedy.rank());
    let is_best = move |remedy: &&Remedy| {
        remedy.rank().is_some()
            && (remedy.kind != ChangeKind::WriteSize || best.is_some_and(|best| std::ptr::eq(best, *remedy)))
    };
    let (mut enough, mut rest): (Vec<&Remedy>, Vec<&Remedy>) =
        advice.remedies.iter().filter(is_best).partition(|remedy| remedy.rank() < Some(2));
    // A command costs nothing; of several the one that is done soonest.
    let order = |remedy: &Remedy| match remedy.kind {
        ChangeKind::Trim | ChangeKind::RebuildOrder | ChangeKind::RebuildPieces | ChangeKind::RebuildSpeed => {
            remedy.trajectory.as_ref().and_then(|run| advice.seconds(run)).unwrap_or(0.0)
        }
        _ => f64::INFINITY,
    };
    enough.sort_by(|one, other| order(one).total_cmp(&order(other)));
    // Where no hard disk does what is needed, what only helps comes after that.
    let is_hopeless = advice.misses(&advice.judged().conventional);
    rest.sort_by_key(|remedy| !(is_hopeless && remedy.kind == ChangeKind::Conventional));
    enough.into_iter().chain(rest)
}

/// The longest wait of a host's request; where requests don't come at times of their own, the longest command, to which timeouts apply.
pub fn longest_ns(advice: &Advice, run: &Trajectory) -> u64 {
    if longest_of(advice) == "request" { run.longest_stall_ns } else { run.longest_command_ns }
}

/// What that is the longest of. A command waits for the disk alone, a request in the host's queue as well.
pub fn longest_of(advice: &Advice) -> &'static str {
    if advice.is_open() && advice.rebuild.is_none() { "request" } else { "command" }
}

/// What a change brings.
fn brought(advice: &Advice, run: &Trajectory) -> String {
    let longest_ns = longest_ns(advice, run);
    match longest_ns > SHORT_NS {
        true => format!("{}, longest {} {}", pace(advice, run), longest_of(advice), format::nanos(longest_ns)),
        false => pace(advice, run),
    }
}

/// How long it takes, or how fast it is.
fn pace(advice: &Advice, run: &Trajectory) -> String {
    match advice.measure() {
        Measure::MeanNs if run.falls_behind => "a backlog that grows".into(),
        Measure::MeanNs => format!("{} on average", format::nanos(run.mean_ns)),
        Measure::Seconds => format::seconds(advice.metric(run)),
        Measure::BytesPerS => rate(run.lasting_bytes_per_s()),
    }
}

/// The effect of a change in a word or two.
pub fn effect(is_problem: bool, remedy: &Remedy) -> &'static str {
    match remedy.effect {
        None => "not run",
        Some(Effect::Fixes) => "enough",
        // The cache was not full before it ended.
        Some(Effect::FixesSoFar) => "enough at first",
        Some(Effect::Helps) if is_problem => "helps",
        Some(Effect::Helps) => "better",
        Some(Effect::Mixed) => "mixed",
        Some(Effect::None) if is_problem => "does not help",
        Some(Effect::None) => "no difference",
        Some(Effect::Worsens) => "worse",
    }
}
