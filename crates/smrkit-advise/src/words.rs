//! Every sentence of the answer, and what an owner can do, with its price and its command. Nothing is said that no run showed.

use smrkit::device::level::Level;
use smrkit::engine::rebuild::{RebuildOrder, RebuildSpec, Task};
use smrkit::layer::HOST_MANAGED_DISK;
use smrkit::settings::Prefill;
use smrkit::stats::outcome::Outcome;
use smrkit::stats::timeline::Timeline;
use smrkit::stats::verdict::{self, times};
use smrkit_report::format::{bytes, capital, counted, list, nanos, rate, seconds};

use crate::advice::{Action, Advice, Answer, End, KnownFigures, Measure, Present, Range, Remedy, Verdict};
use crate::budget::Recovery;
use crate::changes::{ChangeKind, LONGEST_REBUILD_S, Software};
use crate::comparison::{ALIKE, Effect, FACTOR, FULL, Multiples, SHORT_NS, Trajectory};
use crate::measured::Known;
use crate::uses::{self, AskedUse};
use crate::{Buffer, LoadKind};

/// Writes of less than this that continue no other one are small and random: what a database or a virtual machine does (assumption).
const SMALL_BYTES: f64 = 131_072.0;
/// Bytes a second that no hard disk reaches, even on its outer tracks (assumption).
const FASTEST: f64 = 350e6;
/// Up to this multiple of the load, the answer gives the rate that the drive keeps up with.
const MANY: f64 = 200.0;
/// Seconds that kernels wait for a command unless told otherwise.
const KERNEL_S: u64 = 30;
/// What a trim of free room costs, and what does not pass it on.
const TRIM_COST: &str = "only room that no file uses comes back. Most USB adapters, hardware RAID and LUKS (unless it was opened with discards) don't \
                         pass it on: lsblk -D shows 0 there. The disk answers slowly while it trims";
/// The same of ZFS (zfsprops and zfs(4): zfs_trim_extent_bytes_min; openzfs/zfs issue 10591).
const ZFS_TRIM_COST: &str = "nothing trims by itself unless you set autotrim=on; free room in pieces of less than 32 KiB stays, of which a RAIDZ \
                             has many; USB adapters don't pass it on. iXsystems advises against shingled WD Reds in a pool, because such disks have \
                             stopped answering: have a backup before you trim";
const MD_TRIM_COST: &str = "md passes it on for RAID 5 and 6 only where raid456.devices_handle_discard_safely is set, and no USB adapter does; the \
                            disks answer slowly while they trim";
/// Nobody waits longer than this for a command: ZFS calls a pool hung then (zfs_deadman_ziotime_ms).
const LONGEST_TIMEOUT_S: u64 = 300;

/// Label of the line that says what the answer rests on. It is printed last, because later runs add to it.
pub const HOW_SURE: &str = "How sure: ";

/// Writes the answer: the word, the five lines, the actions. `outcome` is the system as it is under the load on which
/// the answer rests.
pub fn answer(advice: &mut Advice, outcome: &Outcome) {
    advice.conclude();
    advice.actions = actions(advice);
    let mut first = headline(advice) + &in_time(advice) + &once_full(advice) + &recovered(advice) + &spread(advice);
    if advice.is_of_part() && advice.answer == Answer::Yes {
        first = first.replacen("Yes", "Yes so far", 1);
    }
    if advice.answer == Answer::Yes && writes_zones(advice) {
        first += " But it is host-managed: most file systems can't be put on it.";
    }
    let mut lines = vec![first];
    let is_known = match advice.verdict {
        Verdict::Refused => false,
        // Of a load without an end it is told how fast it was until the end of the run.
        Verdict::TooShort => advice.is_endless && !advice.is_too_short(),
        _ => true,
    };
    if is_known {
        lines.push(figures(advice));
    }
    if is_known && !matches!(advice.verdict, Verdict::TooShort | Verdict::Conventional) {
        lines.push(format!("Why: {}.{}", reason(advice, &outcome.timeline), slowest(advice)));
    }
    lines.extend(what_to_do(advice));
    if advice.verdict != Verdict::TooShort {
        lines.push(format!("{HOW_SURE}{}.", grounds(advice).join("; ")));
    }
    lines.extend(verdict::scaling(outcome));
    if !advice.complete || advice.remedies.iter().any(Remedy::is_interrupted) {
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
    let Some(array) = &system.array else { return system.drive.clone() };
    // The chunk identifies no array for a reader, and the members are named by their kinds.
    let end = [",chunk=", ",member=", ",drive="].iter().filter_map(|key| array.find(key)).min();
    format!("{} of {}", &array[..end.unwrap_or(array.len())], system.drive)
}

/// What is done: the array's own work, the use, or where the load comes from.
fn what(advice: &Advice) -> String {
    let replayed = &advice.demand.replayed;
    match (&advice.asked_use, &replayed.workload, &replayed.trace) {
        _ if advice.rebuild.is_some() => format!("the {}", work(advice)),
        (Some(asked), ..) => asked.what(),
        // The workload that was made of a report lists all of its intervals.
        _ if advice.note.is_some() => "what was recorded".into(),
        (_, Some(workload), _) if !workload.contains([':', ';', '+']) => format!("the workload {workload}"),
        (_, None, Some(_)) => "this trace".into(),
        _ => "this load".into(),
    }
}

/// Which of several kinds of disk keeps the others waiting.
fn slowest(advice: &Advice) -> String {
    let slowest = advice.system.slowest.as_ref().filter(|_| advice.answer != Answer::Yes);
    slowest.map_or(String::new(), |drive| format!(" The disk that keeps the others waiting is {drive}."))
}

/// The request that has to be short for a buffer, in a word.
fn kind(buffer: &Buffer) -> &'static str {
    if buffer.is_read { "read" } else { "write" }
}

/// Yes or no, and the reason.
fn headline(advice: &Advice) -> String {
    let present = advice.judged();
    let Present { own, conventional, .. } = present;
    let (who, disks, what) = (system(advice), disks(advice), what(advice));
    let longest_command = nanos(own.longest_command_ns);
    match advice.verdict {
        Verdict::Refused if own.is_refused_by_full_zones() => format!(
            "No: {who} is host-managed, and its zones were full: until a zone is reset it takes no more writes, so that {} of these requests \
             would be refused.",
            share(own.refused_share(), 1.0)
        ),
        Verdict::Refused => format!(
            "No: {who} is host-managed and takes writes only in order within each zone. It would refuse {} of these requests.",
            share(own.refused_share(), 1.0)
        ),
        Verdict::TooShort => too_short(advice),
        Verdict::Overloaded if advice.system.is_conventional => {
            let why = "that has nothing to do with shingling";
            format!("No, but {why}: {who} is conventional (CMR), and can't keep up with {what}.")
        }
        Verdict::Overloaded => format!("No, but not because of the shingling: {disks} can't keep up with this either."),
        Verdict::FallsBehind if conventional.falls_behind => {
            let times = times(own.elapsed_ns as f64 / conventional.elapsed_ns.max(1) as f64);
            let others = format!("{} can't either, but {who} takes {times} as long.", capital(disks));
            format!("No: {who} can't keep up with {what}. {others}")
        }
        Verdict::FallsBehind => {
            let what = beside_rebuild(advice).unwrap_or(what);
            let but = if advice.misses(conventional) { ", but would not do what you need either" } else { "" };
            format!("No: {who} can't keep up with {what}; {disks} can{but}.")
        }
        Verdict::Misses => misses(advice),
        Verdict::Meets => meets(advice),
        Verdict::Dropped => format!(
            "No: the system would drop a disk, which does not answer for {longest_command}, and kernels wait {KERNEL_S} s."
        ),
        Verdict::DroppedByRaid => format!(
            "Perhaps: a disk ({}) does not answer for {longest_command}. Kernels wait {KERNEL_S} s; a hardware RAID controller waits 7 s and would \
             drop it.",
            advice.system.slowest.as_ref().unwrap_or(&advice.system.drive)
        ),
        // The time has no limit but that of conventional disks.
        Verdict::Slow if advice.is_amount() => {
            format!("No, if it is to be about as fast as {disks}: {}.", slower(advice))
        }
        Verdict::Slow => {
            let takes = || format!("{} as long as on {disks}", times(multiple(advice, present)));
            unless_unused(advice, takes).unwrap_or_else(|| format!("No: {}.", slower(advice)))
        }
        Verdict::Fails => fails(advice),
        Verdict::Elsewhere => {
            let not = if advice.system.is_conventional { ", it is not the shingling" } else { "" };
            let (reported, pace) = (reported(advice).unwrap_or_default(), pace(advice, own));
            format!("No{not}: your {reported}, which this load alone does not explain: {pace} on {who}.")
        }
        Verdict::Depends => depends(advice),
        Verdict::Conventional if advice.is_open() => {
            format!("Yes: {who} keeps up with {what}, and is conventional (CMR), so it has nothing to clean.")
        }
        Verdict::Conventional => {
            format!(
                "Yes, as far as shingling goes: {who} is conventional (CMR), so it has nothing to clean after {what}."
            )
        }
        Verdict::SomewhatSlower => format!("Yes, though {}.", slower(advice)),
        Verdict::Fine => format!("Yes: {who} does as well as {disks} for {what}."),
    }
}

/// The load that is served while an array does work of its own.
fn beside_rebuild(advice: &Advice) -> Option<String> {
    let load = || format!("your load beside the {}", work(advice));
    advice.rebuild.map(|_| advice.asked_use.as_ref().map_or_else(load, AskedUse::what))
}

/// Why there is no answer yet.
fn too_short(advice: &Advice) -> String {
    let Present { own, conventional, against, .. } = advice.judged();
    if !advice.is_unsettled() {
        return format!(
            "Too short to say: the whole load takes {} of simulated time, in which a drive's RAM or cache hides the rest. Give a longer \
             one: a longer trace, or a workload with more count, bytes or duration.",
            nanos(own.elapsed_ns.max(conventional.elapsed_ns))
        );
    }
    let full = seconds(own.elapsed_ns as f64 / 1e9 + own.full_in_s.unwrap_or(0.0));
    let (how_long, so_far) = match advice.whole_bytes {
        Some(whole) => (format!("all {}", bytes(whole)), format!("it does {}", rate(own.lasting_bytes_per_s()))),
        None if against.is_alike() => ("longer".into(), format!("it does as well as {}", disks(advice))),
        None => ("longer".into(), slower(advice)),
    };
    let until = format!("until the drive's {}, after about {full} of this, {so_far}", filled(advice));
    match advice.is_preview {
        true => format!("{}. What comes then is simulated now.", capital(&until)),
        false => format!("Not known for {how_long}: {until}. What comes then was not simulated."),
    }
}

/// What happens when the drive has taken as much as it can at once.
fn filled(advice: &Advice) -> &'static str {
    if advice.system.is_dynamic { "free room is used up" } else { "cache is full" }
}

/// On what it depends.
fn depends(advice: &Advice) -> String {
    let (own, who) = (&advice.judged().own, system(advice));
    if let Some(trimmed) = advice.decided_by_trim() {
        return trimmed_or_not(advice, trimmed);
    }
    let is_near = advice.misses_an_assumption() || advice.nears_a_buffer();
    if let Some(buffer) = advice.need.scarcest_buffer(own).filter(|_| is_near) {
        let (kind, longest, run) = (kind(&buffer), nanos(buffer.longest_ns(own)), nanos(own.elapsed_ns));
        let bridges = nanos(buffer.bridges.0) + if buffer.is_assumed { " (which is assumed)" } else { "" };
        let Buffer { name, harm, .. } = buffer;
        return format!(
            "Perhaps: the longest {kind} in {run} takes {longest}, and {name} bridges {bridges}. When one takes longer than yours bridges, {harm}."
        );
    }
    let Some(Known { figure, source, .. }) = contradicted(advice) else {
        return format!("Perhaps: some figures of {who} are estimates, and {}.", doubt(advice));
    };
    let (what, disks) = (what(advice), disks(advice));
    let measured = format!("but {figure} was measured by others ({source})");
    match advice.drive_range.as_ref().filter(|range| range.of == Measure::Seconds) {
        Some(range) => {
            let takes = between(range, range.high);
            format!(
                "Perhaps: {what} takes {takes} on simulated {who}, at best about as long as on {disks}, {measured}."
            )
        }
        None => format!("Perhaps: simulated {who} does as well as {disks}, {measured}."),
    }
}

/// The failure that owners have reported.
fn fails(advice: &Advice) -> String {
    let asked = advice.asked_work();
    let Some((what, source)) = asked.fault() else { return String::new() };
    format!("No: owners report that {} disks {what} ({source}).", asked.drive.to_uppercase())
}

/// What others have measured, where that alone is in the way of a yes: it is the headline then.
fn contradicted(advice: &Advice) -> Option<&'static Known> {
    advice.disputed().filter(|_| advice.verdict == Verdict::Depends && !advice.problems.any())
}

/// The pace of a rebuild while nobody uses the array, with its range, if use alone is the problem.
fn quiet_pace(advice: &Advice) -> Option<String> {
    let base = advice.base();
    let is_good = !base.own.falls_behind && !advice.problems_of(&base.own, &base.against).any();
    (advice.tries_unused() && is_good).then(|| pace(advice, &base.own) + &range(advice))
}

/// The answer where use alone is the problem. `takes` is the time in light use.
fn unless_unused(advice: &Advice, takes: impl FnOnce() -> String) -> Option<String> {
    let (pace, who, work) = (quiet_pace(advice)?, system(advice), work(advice));
    let but = |known: &Known| format!(" (but {} was measured by others)", known.figure);
    let measured = advice.disputed().map_or(String::new(), but);
    let takes = takes();
    Some(format!("No: in light use the {work} takes {takes}. While nobody uses {who}, it takes {pace}{measured}."))
}

/// What it is where the disk that is written to was trimmed before, and where it was not.
fn trimmed_or_not(advice: &Advice, trimmed: &Present) -> String {
    let runs = [&trimmed.own, &advice.base().own];
    if advice.rebuild.is_some() {
        let [trimmed, written] = runs.map(|run| pace(advice, run));
        return format!(
            "Perhaps: the {} takes {trimmed} if the new disk was never written or is trimmed first, and {written} if all of it was written \
             before (used, or tested).",
            work(advice)
        );
    }
    let is_alike = runs[1].mean_ns as f64 <= ALIKE * runs[0].mean_ns as f64 && !runs[1].falls_behind;
    let [trimmed, written] = runs.map(|run| match advice.measure() {
        Measure::MeanNs if run.falls_behind => "ever more requests wait".into(),
        // On average there may be no difference, where some requests wait for long.
        Measure::MeanNs if is_alike => format!("one request in a hundred takes {} or more", nanos(run.p99_ns)),
        Measure::MeanNs => format!("a request takes {}", pace(advice, run)),
        Measure::Seconds => format!("it takes {}", pace(advice, run)),
        Measure::BytesPerS => format!("it does {}", pace(advice, run)),
    });
    let who = system(advice);
    format!("Perhaps: {trimmed} while {who} is new or trimmed, but {written} once it was filled and not trimmed.")
}

/// Whether a rebuild is done in time, where the answer is about something else.
fn in_time(advice: &Advice) -> String {
    let is_told = matches!(advice.verdict, Verdict::Misses | Verdict::Meets | Verdict::Refused);
    let Some(within) = advice.need.within.filter(|_| advice.rebuild.is_some() && !is_told) else {
        return String::new();
    };
    let (limit, work) = (nanos(within.0), work(advice));
    match advice.seconds(&advice.judged().own) {
        _ if advice.decided_by_trim().is_some() => format!(" You have {limit}."),
        Some(takes_s) if takes_s <= within.as_secs() => {
            format!(" As simulated, the {work} takes {} of the {limit} that you have.", seconds(takes_s))
        }
        Some(takes_s) => {
            let takes = seconds(takes_s);
            format!(" As simulated, the {work} takes {takes}, which is longer than the {limit} that you have.")
        }
        None => String::new(),
    }
}

/// True of writes to a disk whose host has to keep to its zones.
fn writes_zones(advice: &Advice) -> bool {
    advice.system.layer == HOST_MANAGED_DISK && advice.demand.written_bytes > 0
}

/// Since when that is so, where the answer is about a cache that has become full.
fn once_full(advice: &Advice) -> String {
    let after_s = advice.judged().own.full_after_s.filter(|_| advice.answer == Answer::No);
    let after = |s| format!(" That is once the drive's {}, after about {} of this.", filled(advice), seconds(s));
    after_s.map_or(String::new(), after)
}

/// Whether the drive has recovered when requests at times of their own come again.
fn recovered(advice: &Advice) -> String {
    let Some(every) = advice.need.every.filter(|_| advice.is_open() && advice.judged().own.cleans) else {
        return String::new();
    };
    let every = nanos(every.0);
    match (advice.returns_too_soon(), advice.recovery) {
        (Some(true), _) if advice.verdict == Verdict::Misses => String::new(),
        (Some(true), _) => format!(" Nor has the drive recovered when it comes again after {every}."),
        (_, Recovery::After(rest_s)) => {
            let rest = seconds(rest_s);
            format!(" After {rest} of rest the drive has recovered, before it comes again after {every}.")
        }
        _ => {
            let known = if advice.is_rest_known { "not known" } else { "tried now" };
            format!(" Whether the drive has recovered when it comes again after {every} is {known}.")
        }
    }
}

/// By how much it is slower than conventional disks: all of it, and what comes after the first wait for cleaning if that is far slower.
fn slower(advice: &Advice) -> String {
    let (present, who, disks) = (advice.judged(), system(advice), disks(advice));
    let (times_as_long, later, is_open) =
        (multiple(advice, present), later_multiple(advice, present), advice.is_open());
    let p99 = present.against.whole.p99;
    let what = if advice.measure() == Measure::MeanNs { "a request".into() } else { what(advice) };
    // Some requests may be far slower though the mean is not.
    let is_by_p99 = is_open && times_as_long <= FACTOR && p99 > FACTOR;
    if times_as_long > ALIKE && !is_by_p99 {
        let then = later
            .filter(|later| *later > ALIKE * times_as_long)
            .map_or(String::new(), |later| format!(", and {} as long once it has to clean", times(later)));
        return format!("{what} takes {} as long on {who} as on {disks}{then}", times(times_as_long));
    }
    if let Some((later, at_s)) = later.filter(|&later| later > ALIKE).zip(present.own.cache_full_at_s) {
        let (when, later) = (seconds(at_s), times(later));
        return format!("once it has to clean, after {when}, {what} takes {later} as long on {who} as on {disks}");
    }
    let longer = times(present.against.from_first_wait.map_or(p99, |later| later.p99.max(p99)));
    match is_open {
        true => format!("{who} keeps up, but one request in a hundred takes {longer} as long as on {disks}"),
        false => format!("one request in a hundred takes {longer} as long on {who} as on {disks}"),
    }
}

/// The time of all of it, or of a request, as a multiple of that on conventional disks.
fn multiple(advice: &Advice, present: &Present) -> f64 {
    let Present { own, conventional, against, .. } = present;
    match (advice.measure(), advice.whole_bytes) {
        (Measure::Seconds, _) => advice.metric(own) / advice.metric(conventional).max(1e-9),
        (Measure::BytesPerS, Some(whole)) if against.whole.elapsed.is_some() => {
            own.seconds_for(whole) / conventional.seconds_for(whole).max(1e-9)
        }
        _ => against.whole.elapsed.unwrap_or(against.whole.mean),
    }
}

/// The same of what comes after the first wait for cleaning, where the time is the disk's own.
fn later_multiple(advice: &Advice, present: &Present) -> Option<f64> {
    present.against.from_first_wait.and_then(|later| later.elapsed).filter(|_| advice.rebuild.is_none())
}

/// What requests wait for: a layer with a cache cleans it, and others rewrite at once.
fn cleaning(advice: &Advice) -> &'static str {
    if advice.system.cleans || advice.system.cache_sectors > 0 { "cleaning" } else { "rewriting" }
}

/// In which way it does not do what is needed.
fn misses(advice: &Advice) -> String {
    let (own, conventional) = (&advice.judged().own, &advice.judged().conventional);
    let (what, need, takes_s) = (what(advice), advice.need, advice.seconds(own).unwrap_or(0.0));
    let [within, every, keep] = [need.within, need.every, need.keep].map(|limit| nanos(limit.unwrap_or_default().0));
    let why = if advice.returns_too_soon() == Some(true) && !advice.problems.slow {
        format!("{} keeps up with {what}, but is still cleaning when it comes again after {every}", system(advice))
    } else if let Some(buffer) = need.scarcest_buffer(own) {
        let Buffer { name, harm, bridges, .. } = buffer;
        let (bridges, longest) = (nanos(bridges.0), nanos(buffer.longest_ns(own)));
        format!("{name} bridges {bridges}, and the longest {} takes {longest}, so that {harm}", kind(&buffer))
    } else if need.keep.is_some_and(|limit| own.p99_ns > limit.0 || own.falls_behind) {
        format!("one request in a hundred waits longer than the {keep} that you allow")
    } else if need.within.is_some()
        && let Some(unless) = unless_unused(advice, || format!("{}, and you have {within}", seconds(takes_s)))
    {
        return unless;
    } else if need.within.is_some_and(|limit| takes_s > limit.as_secs()) {
        format!("{what} takes longer than the {within} that you have")
    } else if need.every.is_some_and(|limit| takes_s > limit.as_secs()) {
        format!("{what} is not done when the next one begins after {every}")
    } else {
        format!("{what} is done, but its cleaning is not, when the next one begins after {every}")
    };
    match advice.misses(conventional) && !advice.system.is_conventional {
        true => format!("No: {why}. {} would not do it either.", capital(disks(advice))),
        false => format!("No: {why}."),
    }
}

/// In which way it does what is needed.
fn meets(advice: &Advice) -> String {
    let (own, need, what) = (&advice.judged().own, advice.need, what(advice));
    let takes_s = advice.seconds(own).unwrap_or(0.0);
    let takes = seconds(takes_s);
    if let Some(buffer) = need.scarcest_buffer(own) {
        let (longest, bridges) = (nanos(buffer.longest_ns(own)), nanos(buffer.bridges.0));
        return format!("Yes: the longest {} takes {longest}, and {} bridges {bridges}.", kind(&buffer), buffer.name);
    }
    let every = need.every.filter(|_| !advice.is_open());
    let is_rested = |rest_s: &f64| every.is_some_and(|every| takes_s + rest_s <= every.as_secs());
    // Where work comes again before the drive has cleaned up, each later turn takes longer, or the drive keeps up without a rest.
    let later = match (advice.rest_s().filter(is_rested), advice.later_s(own, takes_s)) {
        (Some(rest_s), _) => format!(", and the drive has cleaned up after {} more", seconds(rest_s)),
        _ if every.is_some() && advice.system.cleans && !advice.is_rest_known => {
            ", if the drive has cleaned up when the next one begins, which is tried now".into()
        }
        (None, Some(later_s)) => {
            format!(", and each later one {}, since the drive has not cleaned up when it begins", seconds(later_s))
        }
        (None, None) => String::new(),
    };
    match (need.within, every, need.keep) {
        (Some(within), ..) => format!("Yes: {what} takes {takes} of the {} that you have{later}.", nanos(within.0)),
        (_, Some(every), _) => format!("Yes: {what} takes {takes} of the {} until the next{later}.", nanos(every.0)),
        (_, _, keep) => {
            let keep_ns = keep.unwrap_or_default().0;
            let longest = format!(", though the longest request takes {}", nanos(own.longest_stall_ns));
            let though = if own.longest_stall_ns > keep_ns { longest } else { String::new() };
            format!("Yes: 99 of 100 requests are answered within {}{though}.", nanos(keep_ns))
        }
    }
}

/// Whether an amount that is spread over a time beside other requests is done in that time.
fn spread(advice: &Advice) -> String {
    let Some((amount, time)) = advice.asked_use.as_ref().and_then(AskedUse::spread_amount) else {
        return String::new();
    };
    let (own, amount, limit) = (&advice.judged().own, capital(&amount), nanos(time.0));
    if !own.falls_behind {
        return format!(" {amount} is done in the {limit} that you have.");
    }
    let takes = seconds(time.as_secs() * own.elapsed_ns as f64 / own.arrivals_ns.max(1) as f64);
    format!(" {amount} is not done in the {limit} that you have: it takes about {takes}.")
}

/// What the report says of the recorded disk.
fn reported(advice: &Advice) -> Option<String> {
    let reported = advice.reported?;
    let busy = match reported.busy > 0.0 {
        true => format!(" on a disk that was {} busy", share(reported.busy, 1.0)),
        false => String::new(),
    };
    Some(format!("{} shows requests that wait {} on average{busy}", reported.tool, nanos(reported.mean_ns)))
}

/// What may be at an end of the drive's range.
fn doubt(advice: &Advice) -> String {
    let end = |worse| advice.ends.iter().find(|end| end.worse == worse);
    let at = |worse| end(worse).map_or(String::new(), |end| beside_usual(advice, &end.trajectory));
    let is_at_worst = |holds: fn(&End) -> bool| end(true).is_some_and(holds);
    let (has_limit, problems) = (advice.has_limit(), advice.problems);
    // Of the drive as it is taken to be, then of what its ends add.
    if has_limit && problems.slow {
        "it does what you need only at the best of them".into()
    } else if has_limit && is_at_worst(|end| end.problems.slow) {
        "at the worst of them it does not do what you need".into()
    } else if advice.judged().own.falls_behind {
        "it keeps up only at the best of them".into()
    } else if problems.dropped_30s {
        "only with the best of them would the system drop no disk".into()
    } else if problems.slow {
        format!("it is fast enough only at the best of them: {}", at(false))
    } else if advice.ends.iter().any(|end| end.problems.dropped_30s) {
        "with some of their possible values the system would drop a disk".into()
    } else if is_at_worst(|end| end.trajectory.falls_behind) {
        "at the worst of them it can't keep up".into()
    } else {
        format!("at the worst of them {}", at(true))
    }
}

/// What decides of a run, beside conventional disks: of requests at times of their own the mean, or one in a hundred.
fn beside_usual(advice: &Advice, run: &Trajectory) -> String {
    let (usual, disks) = (&advice.base().conventional, disks(advice));
    let multiples = Multiples::from_figures(&run.figures(), &usual.figures(), false);
    match advice.measure() {
        Measure::MeanNs if multiples.mean < multiples.p99 => {
            let [own, other] = [run, usual].map(|run| nanos(run.p99_ns));
            format!("one request in a hundred takes at least {own}, on {disks} {other}")
        }
        Measure::MeanNs => {
            let [own, other] = [run, usual].map(|run| nanos(run.mean_ns));
            format!("a request takes on average {own}, on {disks} {other}")
        }
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
    let (range, disks, is_conventional) = (range(advice), disks(advice), advice.system.is_conventional);
    let trimmed =
        advice.trimmed_base().map_or(String::new(), |trimmed| format!("; trimmed {}", pace(advice, &trimmed.own)));
    let beside = |text: String| if is_conventional { String::new() } else { format!("{trimmed}; {text}") };
    let slowest = match own.longest_command_ns > SHORT_NS {
        true => format!(" The longest command takes {}.", nanos(own.longest_command_ns)),
        false => String::new(),
    };
    match advice.measure() {
        Measure::MeanNs if own.falls_behind => {
            let [asked, served] =
                [own.arrivals_ns, own.elapsed_ns].map(|ns| rate(own.bytes as f64 / (ns as f64 / 1e9).max(1e-9)));
            let takes = seconds(own.elapsed_ns as f64 / own.arrivals_ns.max(1) as f64 * 3600.0);
            let when = if advice.decided_by_trim().is_some() { "once it was filled, " } else { "" };
            // Who waits for answers has no growing backlog: by Little's law each request waits for all those outstanding to be served.
            let depth = u64::from(advice.engine.depth);
            let requests = counted(depth, "request");
            let waits = nanos(depth * own.elapsed_ns / own.requests.max(1));
            format!(
                "How fast: {when}this load asks for {asked}, and the drive does {served}, so that the backlog grows: what comes in an hour takes \
                 it {takes}. A program that keeps {requests} outstanding would wait {waits} for each.{}",
                beside_reported(advice)
            )
        }
        Measure::MeanNs => {
            let of = |run: &Trajectory| [run.mean_ns, run.p99_ns, run.longest_stall_ns].map(nanos);
            let ([mean, p99, longest], [usual_mean, usual_p99, usual_longest]) = (of(own), of(conventional));
            let usual = beside(format!("on {disks} {usual_mean}, {usual_p99} and {usual_longest}"));
            // The longest read and the longest write are told elsewhere.
            let is_flush = own.longest_stall_ns > own.longest_read_ns.max(own.longest_write_ns);
            let flush = if is_flush { " (a flush)" } else { "" };
            format!(
                "How fast: a request takes {mean} on average{range}, one in a hundred {p99} or more, the longest {longest}{flush}{usual}.{}",
                beside_reported(advice)
            )
        }
        Measure::Seconds => {
            let (whole, takes_s) = (advice.whole_bytes.unwrap_or(0.0), advice.metric(own));
            let usual = beside(format!("{disks} {}", seconds(advice.metric(conventional))));
            let (takes, size, pace) = (seconds(takes_s), bytes(whole), rate(whole / takes_s.max(1e-9)));
            format!("How long: {takes}{range} for {size}, which is {pace}{usual}.{slowest}")
        }
        Measure::BytesPerS => {
            let lasting = own.lasting_bytes_per_s();
            // What comes after the first wait may be something else than what came before: CMR disks are told for the same requests.
            let later = later_multiple(advice, advice.judged()).filter(|_| !advice.is_even);
            let usual = later.map_or(conventional.lasting_bytes_per_s(), |later| lasting * later);
            let usual = beside(format!("{disks} {}", rate(usual)));
            let before = own.rate_before_bytes_per_s.unwrap_or(0.0);
            let later = own.cache_full_at_s.filter(|&at_s| at_s > 0.0 && lasting < before && !is_conventional);
            let first = later.map_or(String::new(), |at_s| format!("{} for {}, then ", rate(before), seconds(at_s)));
            let then = match verdict::by_phase(&own.phases, rate, seconds) {
                Some(phases) => format!("{phases}; from then on {} in all", rate(lasting)),
                None => rate(lasting),
            };
            format!("How fast: {first}{then}{range}{usual}.{slowest}")
        }
    }
}

/// What the report says of the recorded disk, beside what was simulated.
fn beside_reported(advice: &Advice) -> String {
    let Some(reported) = reported(advice).filter(|_| advice.verdict != Verdict::Elsewhere) else {
        return String::new();
    };
    // A cache that is full now was found empty by the simulated load.
    let is_explained = advice.judged().own.falls_behind || advice.is_held_up_elsewhere();
    let is_as_if_full = !advice.system.is_conventional && advice.is_reported_full() && is_explained;
    format!(" Your {reported}{}.", if is_as_if_full { ", as on a drive whose cache is full" } else { "" })
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
    let base_range = range(advice);
    let time = |present: &Present| {
        let own = &present.own;
        let when = match present.load {
            LoadKind::Unused => " while nobody uses it".to_string(),
            LoadKind::Light => " in light use (20 small requests a second)".into(),
            LoadKind::Asked if advice.is_open() => " under your load".into(),
            LoadKind::Asked => {
                let pace = rate(own.bytes as f64 / (own.elapsed_ns as f64 / 1e9).max(1e-9));
                format!(" under your load, which goes on at {pace}")
            }
        };
        // The ends of the range were run under one of the loads.
        let range = if std::ptr::eq(present, advice.base()) { base_range.as_str() } else { "" };
        format!("{}{range}{when}", advice.seconds(own).map_or("it does not end".into(), seconds))
    };
    let times = advice.present.iter().map(time).collect::<Vec<_>>().join(", ");
    let beside = |who: &str, all: Vec<&Trajectory>| {
        let times: Vec<String> = all.into_iter().filter_map(|run| advice.seconds(run)).map(seconds).collect();
        if times.is_empty() { String::new() } else { format!("; {who} {}", times.join(" and ")) }
    };
    let mut usual = beside("new disk trimmed", advice.trimmed.iter().map(|present| &present.own).collect());
    if !advice.system.is_conventional {
        usual += &beside("CMR disks", advice.present.iter().map(|present| &present.conventional).collect());
    }
    format!("{times}{usual}.{}", longest_command(advice))
}

fn longest_command(advice: &Advice) -> String {
    let slowest = advice.present.iter().max_by_key(|present| present.own.longest_command_ns);
    slowest.filter(|one| one.own.longest_command_ns > SHORT_NS).map_or(String::new(), |one| {
        let when = if one.load == LoadKind::Light { ", in light use" } else { "" };
        let limits = if one.own.dropped_7s > 0 { "; kernels wait 30 s, hardware RAID controllers 7 s" } else { "" };
        format!(" The longest command of a disk takes {}{when}{limits}.", nanos(one.own.longest_command_ns))
    })
}

/// The reason, in a clause.
fn reason(advice: &Advice, timeline: &Timeline) -> String {
    let present = advice.judged();
    let own = &present.own;
    let worst = multiple(advice, present).max(later_multiple(advice, present).unwrap_or(0.0));
    let is_slow = worst > ALIKE || advice.answer == Answer::No;
    if let (Some(within), Some(whole)) = (advice.need.within, advice.whole_bytes) {
        let asked = whole / within.as_secs();
        if asked > FASTEST * own.disks as f64 {
            let (whole, within, asked) = (bytes(whole), nanos(within.0), rate(asked));
            return format!("{whole} in {within} are {asked}, which no hard disk does");
        }
    }
    if advice.verdict == Verdict::Elsewhere {
        let cache = if advice.system.is_conventional { "" } else { "the drive's cache was full before this, or " };
        return format!("{cache}something else than this load holds the disk up");
    }
    if advice.system.is_conventional {
        let is_busy = own.idle_share < 0.05;
        let busy = if is_busy { "the disk is busy with seeks and transfers all the time, and " } else { "" };
        return format!("{busy}nothing has to be rewritten");
    }
    if advice.verdict == Verdict::Overloaded {
        return "the requests themselves keep any disk busy all the time, with seeks and transfers".into();
    }
    if advice.decided_by_trim().is_some() {
        return "once it was written full, such a drive has next to no free room, and moves old data to make some for each write".into();
    }
    if let Some(spec) = advice.rebuild {
        let why = reason_of_rebuild(spec, is_slow, own.longest_command_ns > SHORT_NS);
        return match advice.verdict {
            Verdict::Fails => {
                format!("the errors are a fault of the firmware, which is not simulated; apart from them, {why}")
            }
            _ => why.into(),
        };
    }
    if writes_zones(advice) {
        return "each write goes to a conventional zone, or is in order within its zone; the disk refuses all others"
            .into();
    }
    // Where it is done in time, and only the rest after it is too short.
    let is_done = [advice.need.within, advice.need.every]
        .into_iter()
        .flatten()
        .all(|limit| advice.seconds(own).is_some_and(|takes_s| takes_s <= limit.as_secs()));
    if advice.verdict == Verdict::Misses
        && is_done
        && let Some(rest_s) = advice.rest_s()
    {
        let rest = seconds(rest_s);
        return format!("the drive needs {rest} of rest to move what was written from its cache to its place");
    }
    let who = cleaning(advice);
    // A run that begins with a full cache stands for a load that had filled it before.
    let full = own.full_after_s.map(|after_s| (format!("after about {} of this", seconds(after_s)), true));
    let first_wait = own.cache_full_at_s.map(|at_s| {
        let size = bytes(own.cache_full_after_bytes.unwrap_or(0) as f64);
        // Cleaning that has begun in a pause makes requests wait as well.
        let window = (at_s * 1e9) as u64 / timeline.window_ns.max(1);
        let is_full = timeline.cache_fill.get(window as usize).is_some_and(|&fill| fill >= FULL);
        (format!("after {} ({size})", seconds(at_s)), is_full)
    });
    if let Some((when, is_full)) = full.clone().or(first_wait) {
        // Nothing but the map of its cache, which it writes now and then, makes a drive wait for itself.
        let is_map = own.cache_full_at_s.is_none() && !own.falls_behind && worst <= ALIKE;
        let waits = "from then on requests wait while the drive moves what is in it to its place";
        return match (is_slow, is_full) {
            _ if full.is_none() && own.cache_full_at_s == Some(0.0) => {
                format!("requests wait for {who} from the first on")
            }
            (true, _) if is_map => {
                format!(
                    "no request waits for {who}, but now and then one does while the drive writes the map of its cache"
                )
            }
            (true, true) if advice.system.is_dynamic => format!(
                "the drive's free room is used up {when}, and from then on requests wait while it moves data to make some"
            ),
            (true, true) => format!("the cache on the drive's platters is full {when}, and {waits}"),
            (true, false) => format!("{when} the drive begins to clean, and requests wait for it"),
            (false, true) => format!("the drive's {} {when}, {}", filled(advice), seldom(own)),
            (false, false) => format!("the drive cleans now and then, {}", seldom(own)),
        };
    }
    if advice.demand.written_bytes == 0 {
        return "reads need no cleaning".into();
    }
    let fills = &timeline.cache_fill;
    match fills.last() {
        _ if worst > ALIKE => {
            format!("no request waits for {who}, but each takes longer on its way through the drive's cache")
        }
        // Full for half of the run, and no request waits: what comes in takes the room of what was cleaned since.
        Some(_) if fills[fills.len() / 2..].iter().all(|&fill| fill >= FULL) => {
            "the drive's cache fills, but between requests the drive cleans it as fast as they come, so that none waits"
                .into()
        }
        Some(&fill) if fill >= 0.01 => {
            format!("no request waits for {who}; the drive's cache is {} full at the end", share(fill, 1.0))
        }
        _ => format!("no request waits for {who}"),
    }
}

/// How long requests wait for a drive whose cleaning makes little difference on the whole.
fn seldom(own: &Trajectory) -> String {
    match own.longest_stall_ns > SHORT_NS {
        true => format!("but few requests wait for that (the longest takes {})", nanos(own.longest_stall_ns)),
        false => "but no request waits long for that".into(),
    }
}

fn reason_of_rebuild(spec: RebuildSpec, is_slow: bool, is_long: bool) -> &'static str {
    match (spec.task, spec.order, is_slow) {
        (Task::Scrub, ..) if is_long => {
            "a scrub reads, which needs no cleaning, but the other requests fill the disks' caches, and commands wait while these are emptied"
        }
        (Task::Scrub, ..) => "a scrub reads, and reads need no cleaning",
        (_, RebuildOrder::Scattered { .. }, true) => {
            "a resilver writes records here and there, and the drive has to rewrite whole bands for them"
        }
        (_, RebuildOrder::Scattered { .. }, false) => "records that lie together are written in one go",
        (_, RebuildOrder::Ascending { .. }, true) => {
            "the other requests fill the disks' caches, and emptying these (cleaning) holds the rebuild up"
        }
        (_, RebuildOrder::Ascending { .. }, false) => "a rebuild writes in order, which shingled disks do well",
    }
}

/// The first thing to do.
fn what_to_do(advice: &Advice) -> Option<String> {
    let step = match (advice.answer, advice.verdict) {
        (Answer::Yes, _) => return None,
        (Answer::Unknown, _) => {
            let is_recorded = advice.note.is_some() || advice.demand.replayed.trace.is_some();
            if !(is_recorded && advice.is_unsettled()) {
                return None;
            }
            let lasted = nanos(advice.judged().own.elapsed_ns);
            format!(
                "record for longer than these {lasted}, best a whole day or week, so that times of rest are in it too"
            )
        }
        (_, Verdict::Elsewhere) => {
            let rest = "let it rest for some hours; if that does not help, ";
            let rest = if advice.system.is_conventional { "" } else { rest };
            format!(
                "{rest}look for sectors that are pending or reallocated (smartctl -A /dev/sdX), link errors (dmesg), and other programs \
                 that use the disk (iotop)"
            )
        }
        (_, Verdict::Overloaded) => {
            "use more disks or SSDs, or ask for less; another kind of disk alone is no help".into()
        }
        _ => match advice.actions.first() {
            Some(Action { what, .. }) => what[..1].to_lowercase() + &what[1..],
            None if advice.is_tried => "nothing that was tried would be enough".into(),
            // Changes are tried after the first answer.
            None => return None,
        },
    };
    Some(format!("What to do: {step}."))
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
        (_, 1..) => format!("None of them will surely do; of these {} may.", list(perhaps)),
        _ if of(Answer::Unknown).is_empty() => "None of them will do.".into(),
        _ => return None,
    })
}

/// Whether a timeout would drop a disk.
pub fn dropped(advice: &Advice) -> String {
    if advice.problems.refused {
        return "It refuses requests; there is no time to speak of.".into();
    }
    let runs = || advice.present.iter().map(|present| &present.own);
    let longest = nanos(runs().map(|run| run.longest_command_ns).max().unwrap_or(0));
    let is_array = advice.array.is_some();
    let answer = match () {
        () if runs().any(|run| run.dropped_30s > 0) => "Yes",
        () if is_array && runs().any(|run| run.dropped_7s > 0) => "Only by a hardware RAID controller",
        () => "No",
    };
    let others = if is_array { ", hardware RAID controllers 7 s" } else { "" };
    format!("{answer}: the longest command takes {longest}, and kernels wait {KERNEL_S} s{others}.")
}

/// What was assumed of the use.
pub fn assumed(advice: &Advice) -> Option<String> {
    let assumed = advice.asked_use.as_ref().and_then(AskedUse::assumed)?;
    Some(format!("Assumed: {assumed}"))
}

/// How sure it is, and what it rests on.
pub fn certainty(advice: &Advice) -> String {
    format!("{}.", capital(&grounds(advice).join("; ")))
}

/// How sure the answers on several drives are: what all of them rest on, then of each drive what else.
pub fn certainties(all: &[Advice]) -> Vec<String> {
    let each: Vec<Vec<String>> = all.iter().map(grounds).collect();
    let is_common = |ground: &String| each.iter().all(|grounds| grounds.contains(ground));
    let common: Vec<String> = each.iter().take(1).flatten().filter(|&ground| is_common(ground)).cloned().collect();
    let mut lines = Vec::new();
    if !common.is_empty() {
        lines.push(format!("{HOW_SURE}{}.", common.join("; ")));
    }
    let own = |grounds: &Vec<String>| grounds.iter().filter(|&ground| !is_common(ground)).cloned().collect::<Vec<_>>();
    let named: Vec<(String, &str)> =
        each.iter().zip(all).map(|(grounds, one)| (own(grounds).join("; "), one.system.drive.as_str())).collect();
    for alike in named.chunk_by(|one, next| one.0 == next.0).filter(|alike| !alike[0].0.is_empty()) {
        let names: Vec<&str> = alike.iter().map(|(_, name)| *name).collect();
        lines.push(format!("- {}: {}.", names.join(", "), alike[0].0));
    }
    lines
}

/// What the answer rests on, a clause each.
fn grounds(advice: &Advice) -> Vec<String> {
    let KnownFigures { assumed, ranged, all } = advice.system.known;
    let (own, rebuild) = (&advice.judged().own, advice.rebuild);
    let mut grounds = Vec::new();
    let mut say = |ground: String| grounds.push(ground);
    let of_all = format!("{assumed} of the drive's {all} figures are assumed");
    say(match advice.verdict {
        Verdict::Refused => "that is the standard of such disks (ZBC, ZAC), whatever the model".into(),
        _ if assumed == 0 && ranged == 0 => "the drive's figures are published or measured".into(),
        _ if ranged > 0 && advice.range.is_some() => {
            format!("{of_all}, and the range covers the {ranged} least sure of them")
        }
        _ => of_all,
    });
    if advice.lacks_room_at_an_end {
        let unknown = "so that nothing is known of it there";
        say(format!("at one end of what is known of the drive this load has no room, {unknown}"));
    }
    if let (Some(rebuilt), Some(_)) = (own.rebuild, advice.whole_disk_bytes) {
        let part = bytes(rebuilt.disk_bytes as f64);
        say(format!("simulated on {part} of each disk, and extrapolated to all of it"));
    } else if let Some(whole) = advice.whole_bytes.filter(|&whole| whole > own.bytes as f64 * 1.01) {
        say(format!("simulated for {} of {}", bytes(own.bytes as f64), bytes(whole)));
    }
    if let Some(asked) = advice.asked_use.as_ref().filter(|_| rebuild.is_none()) {
        let asks = if asked.is_several() { "these uses ask".into() } else { format!("{} asks", asked.info.name) };
        say(format!("what {asks} of a disk is assumed as told below"));
    }
    if advice.is_on_usb() {
        say("a USB adapter is not simulated, which may reset a disk that does not answer for long".into());
    }
    advice.note.iter().cloned().for_each(&mut say);
    state(advice).into_iter().for_each(&mut say);
    if let Some(from_full_s) = advice.seconds_from_full() {
        let (was, without) = match advice.system.is_dynamic {
            true => ("it had free room", "none"),
            false => ("its cache was empty", "a full cache"),
        };
        let all = seconds(from_full_s);
        say(format!("the disk had rested before, so that {was}: begun with {without}, all of this takes {all}"));
    }
    if advice.is_replacement() && !advice.system.is_conventional && advice.verdict != Verdict::Fails {
        say("errors of firmware are not modelled".into());
    }
    let asked = advice.asked_work();
    if let Some(Known { figure, source, .. }) = asked.known().filter(|_| contradicted(advice).is_none()) {
        say(format!("{figure} was measured by others ({source})"));
    }
    for known in asked.known_of_its_kind() {
        let (model, Known { figure, source, .. }) = (known.model(), known);
        say(format!("of a {model}, which is of the same kind, {figure} was measured ({source})"));
    }
    grounds
}

/// What the disk was like before, where that matters.
fn state(advice: &Advice) -> Option<String> {
    let whose = if advice.judged().own.disks > 1 { "each disk" } else { "the disk" };
    let task = advice.rebuild.map(|spec| spec.task);
    let is_scrub = matches!(task, Some(Task::Scrub));
    let writes = !is_scrub && (advice.demand.written_bytes > 0 || task.is_some());
    Some(if advice.verdict == Verdict::Refused {
        return None;
    } else if let Some(refused) = advice.refused_where_written {
        let unless = "unless you reset those that were written before (blkzone reset, which erases the whole disk without -o and -c)";
        let refused = share(refused, 1.0);
        format!("all of {whose}'s zones were empty: {unless}, it refuses {refused} of these requests")
    } else if advice.state.prefill == Prefill::None {
        format!("{whose} was new, and one in use may be slower")
    } else if advice.system.is_dynamic && matches!(task, Some(Task::Rebuild { used: false, .. })) {
        "the new disk was never written, or all of it was trimmed: a used one may take far longer".into()
    } else if advice.system.is_conventional || !writes {
        return None;
    } else {
        format!("all of {whose} had been written before")
    })
}

/// What the drive takes, and how that stands to what is asked.
pub fn budget(advice: &Advice) -> Option<String> {
    let budget = advice.budget?;
    if advice.is_open() {
        return lasting_rate(advice, budget.for_ever_bytes_per_s?);
    }
    let (size, first_rate) = (bytes(budget.request_bytes), budget.at_once_bytes_per_s);
    let Some((at_once, after)) = budget.at_once_bytes.zip(budget.after_bytes_per_s) else {
        let told = format!(
            "How much: it takes requests of {size} at {}, and did not fall behind within what was simulated.",
            rate(first_rate)
        );
        // Without a rate nothing was told apart from the drive's rate in all.
        return (first_rate > 0.0).then_some(told);
    };
    // Reads take no room, so that only what is written is told.
    let written = |amount: f64| amount * budget.written_share;
    let reads = if budget.written_share < 0.99 { " written" } else { "" };
    // What comes evenly may go faster than what comes as fast as the drive takes it, or far slower once the drive has cleaned for long. Where
    // it was found to go a little slower, that is told alone.
    let lasting = match budget.for_ever_bytes_per_s {
        Some(even) if even > 1.05 * after => {
            let [after, even] = [after, even].map(|pace| rate(written(pace)));
            format!("{after}, and {even} for as long as you like if they come evenly")
        }
        Some(even) if even < 0.8 * after => {
            let [after, even] = [after, even].map(|pace| rate(written(pace)));
            format!("{after} at first, and {even} for as long as you like")
        }
        even => format!("{} for as long as you like", rate(written(after.min(even.unwrap_or(after))))),
    };
    let again = match budget.rest_s {
        Some(rest_s) => format!("After a rest of {} it takes as much again.", seconds(rest_s)),
        None if advice.system.is_dynamic => "Rest does not bring that back, but a trim of free room does.".into(),
        None => "Two days of rest are not enough for as much again.".into(),
    };
    let write = bytes(advice.demand.mean_write_bytes.unwrap_or(budget.request_bytes));
    let (amount, first) = (bytes(written(at_once as f64)), rate(written(first_rate)));
    let text = format!(
        "How much: {amount}{reads} at once, at {first} (in writes of {write}; smaller ones fill the cache sooner), then {lasting}. {again}"
    );
    let Some(whole) = advice.whole_bytes.filter(|_| advice.is_amount()) else { return Some(text) };
    let (all, part) = (bytes(written(whole)) + reads, whole / at_once as f64);
    let rest = advice.rest_s().map_or(String::new(), |s| format!(", and {} of rest make up for them", seconds(s)));
    Some(match part <= 1.0 {
        true => format!("{text} These {all} are {} of what it takes at once{rest}.", share(part, 1.0)),
        false => format!("{text} These {all} are {} as much as it takes at once.", times(part)),
    })
}

/// The rate at which the drive keeps up with requests at times of their own, and theirs.
fn lasting_rate(advice: &Advice, lasting: f64) -> Option<String> {
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
    // Nobody would say that a drive keeps up with requests which wait too long.
    let keeps_up = match advice.answer == Answer::No && asked <= lasting {
        true => format!("in the long run it does {much}, but requests wait while it cleans"),
        false => format!("it keeps up with {much} for as long as you like"),
    };
    Some(format!("How much: {keeps_up}; the load asks for {}.", rate(asked)))
}

/// The price of asking for less.
const FEWER: &str = "fewer requests in the same time";
const OTHER_DISKS: &str = "other disks";

fn step(what: impl Into<String>, cost: &str, command: Option<&str>) -> Action {
    Action { what: what.into(), cost: cost.into(), command: command.map(str::to_string) }
}

/// What an owner can do, the surest first; nothing where there is no problem, and nothing that the array's software can't do.
fn actions(advice: &Advice) -> Vec<Action> {
    if advice.verdict == Verdict::Refused {
        return actions_if_refused(advice);
    }
    let mut actions = Vec::new();
    let usual = brought(advice, &advice.base().conventional);
    if advice.verdict == Verdict::Fails {
        // No change that was simulated cures a fault of the firmware.
        return vec![another_new_disk(&usual)];
    }
    let is_doubted = advice.verdict == Verdict::Depends && advice.decided_by_trim().is_none();
    if is_doubted {
        let buffer = advice.need.scarcest_buffer(&advice.judged().own).filter(|_| advice.misses_an_assumption());
        actions.push(match buffer {
            Some(Buffer { name, .. }) => {
                let what = format!("Look up how long {name} lasts, and ask again with buffer=TIME");
                match advice.system.is_conventional {
                    true => step(what, OTHER_DISKS, None),
                    false => step(format!("{what}, or use CMR disks to be sure: {usual}"), OTHER_DISKS, None),
                }
            }
            None if advice.system.is_conventional => step(
                "To be sure measure the disk, if you have it already and it is empty",
                "an hour, and all that is on the measured disk",
                Some("smrkit drives measure /dev/sdX"),
            ),
            None => step(
                format!("To be sure use CMR disks: {usual}. If you have the shingled disk already and it is empty, measure it"),
                "other disks, or an hour and all that is on the measured disk",
                Some("smrkit drives measure /dev/sdX"),
            ),
        });
        // Such disks were measured while they were full, and only a trim tells them what is free.
        if contradicted(advice).is_some() && advice.system.is_dynamic && advice.rebuild.is_none() {
            let (what, cost, command) = trim(advice);
            actions.push(step(format!("{what}, which has made such a disk fast again"), cost, command));
        }
    }
    if !advice.problems.any() {
        return actions;
    }
    if let Some(pace) = quiet_pace(advice) {
        let what = format!("Let nobody use the array until the {} is over: {pace}", work(advice));
        actions.push(step(what, "the array is of no use until then", None));
    }
    for remedy in worth_doing(advice) {
        let Some(run) = &remedy.trajectory else { continue };
        let so_far = if remedy.effect == Some(Effect::FixesSoFar) { ", as far as was simulated" } else { "" };
        let help = if remedy.effect == Some(Effect::Helps) { " (helps, but not enough)" } else { "" };
        let shown = format!("{}{so_far}{help}", brought(advice, run));
        actions.extend(match remedy.kind {
            // That was said already.
            ChangeKind::Conventional if is_doubted => None,
            ChangeKind::Conventional => conventional(advice, &shown),
            _ => change(advice, remedy, &shown),
        });
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

/// What can be done with a host-managed disk that would refuse requests.
fn actions_if_refused(advice: &Advice) -> Vec<Action> {
    let is_zfs = advice.asked_use.as_ref().is_some_and(|asked| asked.info.name.starts_with("zfs"));
    let software = match advice.array.map(|array| array.software) {
        Some(Software::Md) => Some("md"),
        Some(Software::Zfs) => Some("ZFS"),
        None => is_zfs.then_some("ZFS"),
    };
    let set_up = "the disk is set up anew";
    let mut actions = Vec::new();
    // A reset would erase a part of a member behind the array's back.
    if software.is_none() && advice.judged().own.is_refused_by_full_zones() {
        let what = "Reset each zone before it is written again (blkzone reset -o SECTOR -c 1 /dev/sdX)";
        actions.push(step(what, "what is in the zone is erased; without -o and -c, what is on the whole disk", None));
    }
    if software.is_none() {
        let what = "Put on it what writes zones in order: Btrfs or F2FS in zoned mode, or smrkit's SMRfs";
        actions.push(step(what, set_up, None));
    }
    let does =
        |remedy: &&Remedy| remedy.kind == ChangeKind::HostLayer && remedy.problems.is_some_and(|left| !left.any());
    if let Some(run) = advice.remedies.iter().find(does).and_then(|remedy| remedy.trajectory.as_ref()) {
        let (above, shown) = (software.unwrap_or("any file system"), brought(advice, run));
        let cost = format!("{set_up}; dm-zoned has a cache on the disk that it cleans in the background");
        actions.push(step(format!("Put dm-zoned on it, below {above}: {shown}"), &cost, None));
    }
    let why = software.map_or(String::new(), |name| format!(": {name} can't write a host-managed disk itself"));
    actions.push(step(format!("Use CMR disks{why}"), OTHER_DISKS, None));
    actions
}

/// To use conventional disks, or none, where they are no cure either.
fn conventional(advice: &Advice, shown: &str) -> Option<Action> {
    let Present { own, conventional, .. } = advice.judged();
    if conventional.falls_behind || advice.misses(conventional) {
        return advice.rebuild.is_none().then(|| step("Use an SSD", OTHER_DISKS, None));
    }
    Some(if own.falls_behind {
        step("Use CMR disks, which keep up with it", OTHER_DISKS, None)
    } else if quiet_pace(advice).is_some() {
        // Light use alone is the problem, and all the others are told without.
        step(format!("Use CMR disks: {} in light use", pace(advice, conventional)), OTHER_DISKS, None)
    } else if advice.is_replacement() {
        another_new_disk(shown)
    } else {
        step(format!("Use CMR disks: {shown}"), OTHER_DISKS, None)
    })
}

/// A conventional disk instead of the new one.
fn another_new_disk(shown: &str) -> Action {
    let enough = "One is enough, because only the new disk is written to";
    step(format!("Take a CMR disk as the new one: {shown}. {enough}"), "another disk", None)
}

/// A change of the program, or of what the array's software does, if it is safe to advise here.
fn change(advice: &Advice, remedy: &Remedy, shown: &str) -> Option<Action> {
    let is_zfs = advice.array.is_some_and(|array| array.software == Software::Zfs);
    let size = remedy.change.trim_start_matches("writes of ");
    Some(match remedy.kind {
        ChangeKind::Trim => {
            let (what, cost, command) = trim(advice);
            step(format!("{what}: {shown}"), cost, command)
        }
        ChangeKind::Program => {
            let instead = uses::instead(&remedy.change)?;
            step(format!("{}: {shown}", instead.what), instead.cost, instead.command)
        }
        ChangeKind::WriteSize if is_small_and_random(advice) => {
            let what = format!("Use a program that gathers small writes and writes {size} in one place: {shown}");
            let cost = "what is gathered in memory is lost in a crash";
            step(what + ". A larger recordsize or chunk does not do that", cost, None)
        }
        ChangeKind::WriteSize if is_zfs => step(
            format!("Write {size} at a time: {shown}"),
            "a small change within a large record rewrites all of it",
            Some("zfs set recordsize=1M POOL/DATASET"),
        ),
        ChangeKind::WriteSize => step(
            format!("Write {size} at a time: {shown}"),
            "the program needs an option for it, called block, chunk or buffer size",
            None,
        ),
        ChangeKind::RebuildRecords if !is_small_and_random(advice) || advice.judged().load == LoadKind::Light => step(
            format!("Keep large files in records of 1 MiB, from the beginning: {shown}"),
            "holds for data written from then on; databases and virtual machines on it become slower",
            Some("zfs set recordsize=1M POOL/DATASET-OF-LARGE-FILES"),
        ),
        ChangeKind::RebuildOrder => step(
            format!("Rebuild in disk order: {shown}"),
            "checksums are verified only by the scrub that ZFS starts afterwards",
            Some("zpool replace -s POOL OLD-DISK NEW-DISK"),
        ),
        ChangeKind::RebuildPieces if is_bearable(advice, remedy) => {
            // A resilver is limited as a scrub is, a sequential rebuild by a parameter of its own.
            let is_sequential = matches!(
                advice.rebuild,
                Some(RebuildSpec { order: RebuildOrder::Ascending { .. }, task: Task::Rebuild { .. }, .. })
            );
            let queue = if is_sequential { "rebuild" } else { "scrub" };
            step(
                format!("Let ZFS keep one command of the {} outstanding: {shown}", work(advice)),
                "every scrub and resilver on this computer goes slower, until you set it back",
                Some(&format!("echo 1 > /sys/module/zfs/parameters/zfs_vdev_{queue}_max_active")),
            )
        }
        _ => return None,
    })
}

/// How to replace a disk that still works, and one that has failed: a sentence and its commands. Nothing if no disk is replaced.
pub fn replaces(advice: &Advice) -> Vec<(String, &'static [&'static str])> {
    let is_replace = |command: &str| command.starts_with("zpool replace");
    let is_told = advice.actions.iter().any(|action| action.command.as_deref().is_some_and(is_replace));
    let asks = advice.is_replacement() && !advice.problems.refused && !is_told;
    let Some(array) = advice.array.filter(|_| asks) else { return Vec::new() };
    let (if_working, if_failed, how): (&[&str], &[&str], &str) = match array.software {
        Software::Zfs => {
            let is_in_order = advice.rebuild.is_some_and(|spec| matches!(spec.order, RebuildOrder::Ascending { .. }));
            let replace = match is_in_order && array.rebuilds_in_order() {
                true => &["zpool replace -s POOL OLD-DISK NEW-DISK"],
                false => &["zpool replace POOL OLD-DISK NEW-DISK"],
            };
            (replace, replace, "OLD-DISK is its name or number in zpool status")
        }
        Software::Md => (
            &[
                "mdadm --manage /dev/mdX --add /dev/NEW-DISK",
                "mdadm --manage /dev/mdX --replace /dev/OLD-DISK --with /dev/NEW-DISK",
            ],
            &["mdadm --manage /dev/mdX --add /dev/NEW-DISK"],
            "md begins to rebuild at once",
        ),
    };
    let spare_copies = match array.level {
        Level::Raid1 => advice.judged().own.disks.saturating_sub(1),
        Level::Raid10 => 1,
        level => level.parities() as u64,
    };
    let meanwhile = match spare_copies {
        0 | 1 => {
            format!("there is no redundancy until the {} is done, so first copy what you can't lose", work(advice))
        }
        more => format!("{} more may fail until the {} is done", counted(more - 1, "disk"), work(advice)),
    };
    if if_working == if_failed {
        let when = format!("To replace a disk ({how}). If it works, it stays in use until the new one is whole");
        return vec![(format!("{when}. If it has failed, {meanwhile}:"), if_working)];
    }
    vec![
        ("To replace a disk that still works, which stays in use until the new one is whole:".into(), if_working),
        (format!("To replace a disk that has failed ({how}). {}:", capital(&meanwhile)), if_failed),
    ]
}

/// A step with its price, unless that goes without saying.
pub fn with_price(action: &Action) -> String {
    match has_price(action) {
        true => format!("{}. It costs: {}.", action.what, action.cost),
        false => format!("{}.", action.what),
    }
}

/// False of a step whose price goes without saying.
pub fn has_price(action: &Action) -> bool {
    ![OTHER_DISKS, "another disk", FEWER].contains(&action.cost.as_str())
}

/// What it costs to trim a whole disk.
const ERASING_TRIM_COST: &str = "all that is on it is erased, so that you first look for its serial number (lsblk -o NAME,MODEL,SERIAL); \
                                 many USB adapters and RAID controllers don't pass a trim on";

/// To trim what is written to: what is done, what it costs, and the command.
fn trim(advice: &Advice) -> (&'static str, &'static str, Option<&'static str>) {
    let array = advice.array;
    if advice.rebuild.is_some() {
        ("Trim the new disk before you put it in, which erases it", ERASING_TRIM_COST, Some("blkdiscard /dev/NEW-DISK"))
    } else if array.is_none() && advice.asked_use.as_ref().is_some_and(AskedUse::is_of_whole_disk) {
        ("Trim all of the disk before", ERASING_TRIM_COST, Some("blkdiscard /dev/DISK-TO-ERASE"))
    } else if array.is_some_and(|array| array.software == Software::Zfs) {
        // Nothing to be done week by week: such pools have hung, and could then be imported read-only at best (openzfs/zfs issue 16056).
        let what = "Other (CMR) disks are safer in a pool. If these must do, trim the pool while nobody needs it";
        (what, ZFS_TRIM_COST, None)
    } else if array.is_some_and(|array| array.level.parities() > 0) {
        ("Trim the file system, and again every week", MD_TRIM_COST, None)
    } else {
        let what = "Trim the file system, and again every week (in Windows: Optimize-Volume -ReTrim)";
        (what, TRIM_COST, Some("fstrim -v /MOUNT-POINT"))
    }
}

/// How much less would be bearable.
fn less(advice: &Advice) -> Option<Action> {
    let lasting = advice.budget?.for_ever_bytes_per_s?;
    let own = &advice.judged().own;
    let asked = own.asked_bytes_per_s();
    let (part, pace) = (share(lasting, asked), rate(lasting));
    let what = format!("Ask less of it: {part} of this load, {pace}, for as long as you like");
    (own.falls_behind && lasting < asked).then(|| step(what, FEWER, None))
}

/// Timeouts under which the drive is not dropped; none where no timeout that makes sense is long enough.
fn timeouts(advice: &Advice) -> Vec<Action> {
    let longest_ns = advice.present.iter().map(|present| present.own.longest_command_ns).max().unwrap_or(0);
    // Twice as long as the longest command, in steps of the kernel's own timeout.
    let wait_s = (2 * longest_ns).div_ceil(KERNEL_S * 1_000_000_000).max(1) * KERNEL_S;
    if wait_s > LONGEST_TIMEOUT_S {
        return Vec::new();
    }
    let mut actions = Vec::new();
    if advice.array.is_some_and(|array| array.software == Software::Md) {
        actions.push(step(
            "Don't connect these disks to a hardware RAID controller, which drops a disk after 7 s",
            "nothing if the array is software RAID (Linux md), as in most NAS boxes",
            None,
        ));
    }
    if advice.problems.dropped_30s || advice.ends.iter().any(|end| end.problems.dropped_30s) {
        let (stalls, disks) = match advice.array {
            Some(_) => ("the array", "each of these disks"),
            None => ("what uses it", "this disk"),
        };
        let instead = format!("Let the kernel wait {wait_s} s for {disks}, instead of {KERNEL_S} s");
        let longest = nanos(longest_ns);
        actions.push(step(
            format!("{instead}: the longest command took {longest}, and one of yours may take twice as long"),
            &format!(
                "a disk that is really dead stalls {stalls} for that long; it has to be set again after each start"
            ),
            Some(&format!("echo {wait_s} > /sys/block/sdX/device/timeout")),
        ));
    }
    actions
}

/// True of a slower rebuild that is still over before long.
fn is_bearable(advice: &Advice, remedy: &Remedy) -> bool {
    remedy.trajectory.as_ref().and_then(|run| advice.seconds(run)).is_some_and(|takes_s| takes_s <= LONGEST_REBUILD_S)
}

/// True of small writes here and there, which larger records make worse: each then rewrites a whole record.
fn is_small_and_random(advice: &Advice) -> bool {
    advice.demand.mean_write_bytes.is_some_and(|size| size < SMALL_BYTES)
        && advice.demand.sequential_share.is_some_and(|share| share < 0.5)
}

/// The changes that are enough, then those that help, commands first, else in the order of the table; of several sizes of writes the
/// smallest that does as much.
fn worth_doing(advice: &Advice) -> impl Iterator<Item = &Remedy> {
    let sizes = advice.remedies.iter().filter(|remedy| remedy.kind == ChangeKind::WriteSize && remedy.rank().is_some());
    let best_size = sizes.min_by_key(|remedy| remedy.rank());
    let is_worth = |remedy: &&Remedy| match remedy.kind {
        ChangeKind::WriteSize => best_size.is_some_and(|best| std::ptr::eq(best, *remedy)),
        _ => remedy.rank().is_some(),
    };
    let (mut enough, mut rest): (Vec<&Remedy>, Vec<&Remedy>) =
        advice.remedies.iter().filter(is_worth).partition(|remedy| remedy.rank() < Some(2));
    // A command costs nothing; of several the one that is done soonest.
    let takes_s = |remedy: &Remedy| match remedy.kind {
        ChangeKind::Trim | ChangeKind::RebuildOrder | ChangeKind::RebuildPieces => {
            remedy.trajectory.as_ref().and_then(|run| advice.seconds(run)).unwrap_or(0.0)
        }
        _ => f64::INFINITY,
    };
    enough.sort_by(|one, other| takes_s(one).total_cmp(&takes_s(other)));
    // Where no hard disk does what is needed, what only helps comes after that.
    let is_hopeless = advice.misses(&advice.judged().conventional);
    rest.sort_by_key(|remedy| !(is_hopeless && remedy.kind == ChangeKind::Conventional));
    enough.into_iter().chain(rest)
}

/// The longest wait of a host's request; where requests don't come at times of their own, the longest command, to which timeouts apply.
/// A command waits for the disk alone, a request in the host's queue as well.
pub fn longest_ns(advice: &Advice, run: &Trajectory) -> u64 {
    if waits_in_queue(advice) { run.longest_stall_ns } else { run.longest_command_ns }
}

fn waits_in_queue(advice: &Advice) -> bool {
    advice.is_open() && advice.rebuild.is_none()
}

/// What a change brings.
fn brought(advice: &Advice, run: &Trajectory) -> String {
    let (pace, longest_ns) = (pace(advice, run), longest_ns(advice, run));
    let longest_of = if waits_in_queue(advice) { "request" } else { "command" };
    if longest_ns > SHORT_NS { format!("{pace}, longest {longest_of} {}", nanos(longest_ns)) } else { pace }
}

/// How long it takes, or how fast it is.
fn pace(advice: &Advice, run: &Trajectory) -> String {
    match advice.measure() {
        Measure::MeanNs if run.falls_behind => "a backlog that grows".into(),
        Measure::MeanNs => format!("{} on average", nanos(run.mean_ns)),
        Measure::Seconds => seconds(advice.metric(run)),
        Measure::BytesPerS => rate(run.lasting_bytes_per_s()),
    }
}

/// The effect of a change in a word or two.
pub fn effect(is_problem: bool, remedy: &Remedy) -> &'static str {
    match (remedy.effect, is_problem) {
        (None, _) => "not run",
        (Some(Effect::Fixes), _) => "enough",
        // The cache was not full before it ended.
        (Some(Effect::FixesSoFar), _) => "enough at first",
        (Some(Effect::Helps), true) => "helps",
        (Some(Effect::Helps), false) => "better",
        (Some(Effect::Mixed), _) => "mixed",
        (Some(Effect::None), true) => "does not help",
        (Some(Effect::None), false) => "no difference",
        (Some(Effect::Worsens), _) => "worse",
    }
}
