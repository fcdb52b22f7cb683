//! The answer in sentences. Nothing is said that no run showed.

use smrkit::settings::Prefill;
use smrkit::stats::remedy::{Course, Effect};

use super::advice::{Advice, Present, Remedy};
use super::remedies::Kind;
use smrkit_report::format::{self, rate};

/// The sentences. `fill` is the share of the cache in use at the end, where there is one.
pub fn text(advice: &Advice, fill: Option<f64>, is_conventional: bool) -> String {
    let Some(hardest) = advice.present.last() else { return String::new() };
    let mut sentences = vec![course(advice, hardest, fill, is_conventional), stalls(advice)];
    if hardest.conventional.dropped_7s > 0 && !is_conventional {
        sentences.push("Conventional disks would be dropped as well.".into());
    }
    if advice.problems.slow {
        sentences.push(format!("It is slow: {}.", slow(advice, hardest)));
    }
    sentences.extend(changes(advice));
    if advice.state.prefill == Prefill::None {
        sentences.push("All of that is on empty disks: those in use may be slower.".into());
    }
    sentences.join(" ")
}

/// When the cache fills, and what remains.
fn course(
    advice: &Advice,
    Present { own, conventional, .. }: &Present,
    fill: Option<f64>,
    is_conventional: bool,
) -> String {
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
    let usual = |what: String| if is_conventional { String::new() } else { format!("; conventional disks {what}") };
    let pace = match advice.is_open() {
        true => {
            let usual = usual(format!("take {}", format::nanos(conventional.mean_ns)));
            format!("an answer takes {} on average{usual}", format::nanos(own.mean_ns))
        }
        false => {
            let usual = usual(format!("do {}", rate(conventional.lasting_bytes_per_s())));
            match own.fresh_bytes_per_s() {
                Some(fresh) => format!(
                    "from then on it does {} instead of {}{usual}",
                    rate(own.lasting_bytes_per_s()),
                    rate(fresh)
                ),
                None => format!("it does {}{usual}", rate(own.lasting_bytes_per_s())),
            }
        }
    };
    match own.cache_full_at_s {
        _ if is_conventional => format!("A conventional disk needs no cleaning: {pace}."),
        Some(0.0) => format!("Requests wait for cleaning from the first on: {pace}."),
        Some(at_s) => {
            let what = if has_cache { "The cache is full" } else { "Writes wait for rewriting" };
            let when = format::seconds(at_s);
            format!("{what} after {when} ({}); {pace}.", bytes(own.cache_full_after_bytes.unwrap_or(0)))
        }
        None if has_cache => {
            let used = fill.map_or(String::new(), |share| format!(", the cache {} full", format::percent(share, 1.0)));
            // Reads fill no cache.
            let longer = if advice.demand.written_bytes > 0 { "; a longer one may fill it" } else { "" };
            format!("No request waits for cleaning: {pace}. The demand ends after {elapsed} ({demand}){used}{longer}.")
        }
        None => format!("Nothing has to be rewritten while the demand lasts ({elapsed}, {demand}): {pace}."),
    }
}

/// What it is slower than.
fn slow(advice: &Advice, Present { own, .. }: &Present) -> &'static str {
    match own.fresh_bytes_per_s() {
        _ if advice.is_open() => "an answer takes more than twice as long as on conventional disks",
        Some(_) => "less than half of what it does before its cache is full",
        None => "less than half of what conventional disks do",
    }
}

/// The longest wait at each depth, and whom a timeout would drop.
fn stalls(advice: &Advice) -> String {
    let all = &advice.present;
    let at = |present: &Present| {
        let longest = format::nanos(present.own.longest_stall_ns);
        if advice.is_open() { longest } else { format!("{longest} at depth {}", present.depth) }
    };
    let mut text = format!("The longest wait for an answer is {}", list(all.iter().map(at).collect()));
    let drops = |of: fn(&Course) -> u64| -> Vec<String> {
        let some = all.iter().filter(|present| of(&present.own) > 0);
        let one = |present: &Present| {
            let (count, disks) = (of(&present.own), present.own.disks);
            let which = if disks > 1 { format!(" ({count} of {disks} disks)") } else { String::new() };
            if advice.is_open() { which.trim().to_string() } else { format!("at depth {}{which}", present.depth) }
        };
        some.map(one).collect()
    };
    let (short, long) = (drops(|course| course.dropped_7s), drops(|course| course.dropped_30s));
    let is_array = all.iter().any(|present| present.own.disks > 1);
    let who = |some: Vec<String>| format!(" {}", list(some)).trim_end().to_string();
    match (short.is_empty(), long.is_empty()) {
        (true, _) => text + ": a timeout of 7 s would not drop " + if is_array { "any disk." } else { "the drive." },
        (false, is_kept) => {
            text += &format!(": a timeout of 7 s drops {}{}", if is_array { "disks" } else { "the drive" }, who(short));
            match (is_kept, advice.is_open()) {
                (true, _) => text + ", one of 30 s does not.",
                (false, true) => format!("{text}, one of 30 s{} too.", who(long)),
                (false, false) => format!("{text}, one of 30 s{}.", who(long)),
            }
        }
    }
}

/// What would fix it, or help, or harm.
fn changes(advice: &Advice) -> Vec<String> {
    let of = |effect: Effect| -> Vec<&Remedy> {
        let has = |remedy: &&Remedy| remedy.effect == Some(effect) && remedy.kind != Kind::Idle;
        advice.remedies.iter().filter(has).collect()
    };
    let (fixes, so_far) = (of(Effect::Fixes), of(Effect::FixesSoFar));
    let mut sentences = vec![match (advice.problems.any(), fixes.is_empty(), so_far.is_empty()) {
        (false, ..) => "There is no problem here to fix.".to_string(),
        (true, true, true) if advice.remedies.iter().all(|remedy| remedy.course.is_none()) => String::new(),
        (true, true, true) => "Nothing that was tried fixes it.".into(),
        (true, false, _) => format!("It is fixed by {}.", named(advice, &fixes, true)),
        (true, true, false) => String::new(),
    }];
    if !so_far.is_empty() {
        let also = if fixes.is_empty() { "it is fixed" } else { "also" };
        let longer = if advice.demand.written_bytes > 0 { "; in a longer one it may" } else { "" };
        sentences.push(format!(
            "As far as this demand goes {also} by {}: no request waits for cleaning{longer}.",
            named(advice, &so_far, true)
        ));
    }
    if advice.problems.any() {
        sentences.extend(rest(&advice.remedies, advice.is_open()));
    }
    let (helps, worse) = (of(Effect::Helps), of(Effect::Worsens));
    if !helps.is_empty() {
        let what = if advice.problems.any() {
            "What helps, but leaves a problem"
        } else {
            "Faster, or with shorter waits, by"
        };
        sentences.push(format!("{what}: {}.", named(advice, &helps, false)));
    }
    if !worse.is_empty() {
        sentences.push(format!("Worse: {}.", named(advice, &worse, false)));
    }
    let missing = advice.remedies.iter().filter(|remedy| remedy.not_run.as_deref() == Some(super::INTERRUPTED)).count();
    if missing > 0 {
        sentences.push(format!("Interrupted: {missing} of {} changes were not tried.", advice.remedies.len()));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// With how much rest the disk keeps up, if with any; nothing where the runs do not show it.
fn rest(remedies: &[Remedy], is_open: bool) -> Option<String> {
    let rests: Vec<&Remedy> = remedies.iter().filter(|remedy| remedy.kind == Kind::Idle).collect();
    let enough = rests.iter().find(|remedy| matches!(remedy.effect, Some(Effect::Fixes | Effect::FixesSoFar)));
    match enough.and_then(|remedy| remedy.course.as_ref().map(|course| (remedy, course))) {
        Some((remedy, _)) if is_open => Some(format!("With {} it keeps up.", remedy.change)),
        Some((remedy, course)) => {
            let rate = rate(course.lasting_bytes_per_s());
            Some(format!("With {} after each answer it keeps up, at {rate}.", remedy.change))
        }
        None if rests.is_empty() || rests.iter().any(|remedy| remedy.course.is_none()) => None,
        None => Some("Idle time alone does not do it.".into()),
    }
}

/// Changes in words: of sizes that do the same the smallest, and layers together.
fn named(advice: &Advice, all: &[&Remedy], with_figures: bool) -> String {
    let full = |remedy: &Remedy| match &remedy.course {
        Some(course) if with_figures => format!("{} ({})", remedy.change, figures(advice, course)),
        _ => remedy.change.clone(),
    };
    let mut names = Vec::new();
    for (at, remedy) in all.iter().enumerate() {
        match remedy.kind {
            Kind::WriteSize if all[..at].iter().any(|other| other.kind == remedy.kind) => {}
            Kind::Layer => {}
            _ => names.push(full(remedy)),
        }
    }
    let layers: Vec<String> = all
        .iter()
        .filter(|remedy| remedy.kind == Kind::Layer)
        .map(|remedy| remedy.change.replace("layer ", ""))
        .collect();
    match layers.len() {
        0 => {}
        1 => names.push(format!("the layer {}", layers[0])),
        _ => names.push(format!("the layers {}", layers.join(", "))),
    }
    list(names)
}

fn figures(advice: &Advice, course: &Course) -> String {
    let longest = format::nanos(course.longest_stall_ns);
    match advice.is_open() {
        true => format!("{} on average, longest {longest}", format::nanos(course.mean_ns)),
        false => format!("{}, longest wait {longest}", rate(course.lasting_bytes_per_s())),
    }
}

/// `a, b and c`.
fn list(mut words: Vec<String>) -> String {
    match words.pop() {
        None => String::new(),
        Some(only) if words.is_empty() => only,
        Some(end) => format!("{} and {end}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(effect: Option<Effect>) -> Remedy {
        let not_run = effect.is_none().then(|| super::super::INTERRUPTED.to_string());
        let course = effect.map(|_| Course { rate_before_bytes_per_s: 5.0, ..Course::default() });
        let change = "pauses of 1 s".to_string();
        Remedy {
            kind: Kind::Idle,
            change,
            assumption: false,
            effect,
            not_run,
            think_ns: None,
            time_scale: None,
            first_requests: None,
            course,
        }
    }

    #[test]
    fn that_idle_time_does_not_do_it_is_said_only_if_every_pause_was_run() {
        let said = |effects: &[Option<Effect>]| {
            let remedies: Vec<Remedy> = effects.iter().map(|&effect| pause(effect)).collect();
            rest(&remedies, false)
        };
        assert_eq!(said(&[Some(Effect::None), Some(Effect::Helps)]).unwrap(), "Idle time alone does not do it.");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[None, None]), None, "interrupted before the first");
        assert_eq!(said(&[Some(Effect::None), None]), None, "the longer pause may have done it");
        let enough = said(&[None, Some(Effect::FixesSoFar)]).unwrap();
        assert_eq!(enough, "With pauses of 1 s after each answer it keeps up, at 5 B/s.");
    }
}
