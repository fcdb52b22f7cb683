//! The sentences on changes that were tried: which fix it, which help, and which harm.

use smrkit::stats::comparison::{Effect, Trajectory};

use super::advice::{Advice, NotRun, Remedy};
use super::rebuild;
use super::remedies::ChangeKind;
use smrkit_report::format::{self, rate};

/// Sentences on changes that would fix it, or help, or harm.
pub fn sentences(advice: &Advice) -> Vec<String> {
    let of = |effect: Effect| -> Vec<&Remedy> {
        let is_change = |kind: ChangeKind| !matches!(kind, ChangeKind::Idle | ChangeKind::Range);
        let has = |remedy: &&Remedy| remedy.effect == Some(effect) && is_change(remedy.kind);
        advice.remedies.iter().filter(has).collect()
    };
    let (fixes, so_far) = (of(Effect::Fixes), of(Effect::FixesSoFar));
    let mut sentences = vec![match (advice.problems.any(), fixes.is_empty(), so_far.is_empty()) {
        (false, ..) if is_alike(advice) => "There is no problem here to fix.".to_string(),
        (false, ..) => String::new(),
        (true, true, true) if advice.remedies.iter().all(|remedy| remedy.trajectory.is_none()) => String::new(),
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
    sentences.extend(ranges(&advice.remedies));
    let missing = advice.remedies.iter().filter(|remedy| remedy.not_run == Some(NotRun::Interrupted)).count();
    if missing > 0 {
        sentences.push(format!("Interrupted: {missing} of {} changes were not tried.", advice.remedies.len()));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// True if it does as well as conventional disks at every depth, and none would be dropped.
fn is_alike(advice: &Advice) -> bool {
    advice.present.iter().all(|present| present.against.is_alike() && present.own.dropped_7s == 0)
}

/// The sentence on values of the drive that are known only roughly; none where all is known, or an end without effect was not run.
fn ranges(remedies: &[Remedy]) -> Option<String> {
    let tried = || remedies.iter().filter(|remedy| remedy.kind == ChangeKind::Range);
    let ends: Vec<(&str, Effect)> =
        tried().filter_map(|remedy| Some((remedy.change.strip_prefix("drive at ")?, remedy.effect?))).collect();
    let other = ends.iter().filter(|(_, effect)| *effect != Effect::None);
    let others: Vec<String> = other.map(|(end, effect)| format!("with {end} it is {}", at_an_end(*effect))).collect();
    match (ends.is_empty(), others.is_empty()) {
        (true, _) => None,
        // An end that was not run may make one.
        (false, true) if tried().any(|remedy| remedy.effect.is_none()) => None,
        (false, true) => Some("No value of the drive that is known only roughly makes a difference by itself.".into()),
        (false, false) => Some(format!("The drive is known only roughly: {}.", format::list(others))),
    }
}

/// The effect of a drive at an end of its range, compared with the drive that was run.
pub fn at_an_end(effect: Effect) -> &'static str {
    match effect {
        Effect::Fixes | Effect::FixesSoFar | Effect::Helps => "better",
        Effect::Mixed => "mixed",
        Effect::None => "the same",
        Effect::Worsens => "worse",
    }
}

/// The pause with which the disk keeps up, if a run shows one.
fn rest(remedies: &[Remedy], is_open: bool) -> Option<String> {
    let rests = || remedies.iter().filter(|remedy| remedy.kind == ChangeKind::Idle);
    let best = Remedy::best_of(remedies, ChangeKind::Idle);
    let enough = best.filter(|remedy| remedy.effect != Some(Effect::Helps));
    match enough.and_then(|remedy| remedy.trajectory.as_ref().map(|course| (remedy, course))) {
        Some((remedy, _)) if is_open => Some(format!("With {} it keeps up.", remedy.change)),
        Some((remedy, course)) => {
            let rate = rate(course.lasting_bytes_per_s());
            Some(format!("With {} after each request it keeps up, at {rate}.", remedy.change))
        }
        None if rests().next().is_none() || rests().any(|remedy| remedy.trajectory.is_none()) => None,
        None => match best {
            Some(remedy) => Some(format!("Idle time alone does not do it, though {} help.", remedy.change)),
            None => Some("Idle time alone does not do it.".into()),
        },
    }
}

/// Changes in words: of sizes that do the same the smallest, and layers together.
fn named(advice: &Advice, all: &[&Remedy], with_figures: bool) -> String {
    let full = |remedy: &Remedy| {
        let assumed = if remedy.assumption { ", if the drive has it," } else { "" };
        match &remedy.trajectory {
            Some(course) if with_figures => format!("{}{assumed} ({})", remedy.change, figures(advice, course)),
            _ => remedy.change.clone(),
        }
    };
    let mut names = Vec::new();
    for (at, remedy) in all.iter().enumerate() {
        match remedy.kind {
            ChangeKind::WriteSize if all[..at].iter().any(|other| other.kind == remedy.kind) => {}
            ChangeKind::Layer => {}
            _ => names.push(full(remedy)),
        }
    }
    let layers: Vec<String> = all
        .iter()
        .filter(|remedy| remedy.kind == ChangeKind::Layer)
        .map(|remedy| remedy.change.replace("layer ", ""))
        .collect();
    match layers.len() {
        0 => {}
        1 => names.push(format!("the layer {}", layers[0])),
        _ => names.push(format!("the layers {}", layers.join(", "))),
    }
    format::list(names)
}

fn figures(advice: &Advice, course: &Trajectory) -> String {
    if let Some(rebuilt) = &course.rebuild {
        return format!("the rebuild in {}", format::seconds(rebuild::time_s(rebuilt, advice.whole_disk_bytes)));
    }
    let longest = format::nanos(course.longest_stall_ns);
    match advice.is_open() {
        true => format!("{} on average, longest {longest}", format::nanos(course.mean_ns)),
        false => format!("{}, longest wait {longest}", rate(course.lasting_bytes_per_s())),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn pause(effect: Option<Effect>) -> Remedy {
        let not_run = effect.is_none().then_some(NotRun::Interrupted);
        let trajectory = effect.map(|_| Trajectory { rate_before_bytes_per_s: 5.0, ..Trajectory::default() });
        let change = "pauses of 1 s".to_string();
        Remedy {
            kind: ChangeKind::Idle,
            change,
            step: None,
            assumption: false,
            effect,
            not_run,
            think_ns: None,
            time_scale: None,
            first_requests: None,
            trajectory,
            against: None,
        }
    }

    #[test]
    fn ranges_make_no_difference_only_if_every_end_was_run() {
        let said = |effects: &[Option<Effect>]| {
            let end = |&effect: &Option<Effect>| Remedy {
                kind: ChangeKind::Range,
                change: "drive at mechanical.rpm=low".into(),
                ..pause(effect)
            };
            ranges(&effects.iter().map(end).collect::<Vec<_>>())
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[Some(Effect::None), None]), None, "the other end may make one");
        assert!(said(&[Some(Effect::None), Some(Effect::None)]).unwrap().ends_with("makes a difference by itself."));
        assert!(said(&[Some(Effect::Helps), None]).unwrap().contains("low it is better"));
    }

    #[test]
    fn idle_time_is_called_too_short_only_if_every_pause_was_run() {
        let said = |effects: &[Option<Effect>]| {
            let remedies: Vec<Remedy> = effects.iter().map(|&effect| pause(effect)).collect();
            rest(&remedies, false)
        };
        assert_eq!(
            said(&[Some(Effect::Helps), Some(Effect::None)]).unwrap(),
            "Idle time alone does not do it, though pauses of 1 s help."
        );
        let two = |effects: [Effect; 2]| {
            let remedy = |effect, change: &str| Remedy { change: change.into(), ..pause(Some(effect)) };
            rest(&[remedy(effects[0], "pauses of 1 s"), remedy(effects[1], "pauses of 9 s")], true).unwrap()
        };
        let helpful = two([Effect::Helps; 2]);
        assert_eq!(helpful, "Idle time alone does not do it, though pauses of 1 s help.", "as the owner's action says");
        assert_eq!(two([Effect::FixesSoFar, Effect::Fixes]), "With pauses of 9 s it keeps up.");
        assert_eq!(said(&[Some(Effect::None), Some(Effect::None)]).unwrap(), "Idle time alone does not do it.");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[None, None]), None, "interrupted before the first");
        assert_eq!(said(&[Some(Effect::None), None]), None, "the longer pause may have done it");
        let enough = said(&[None, Some(Effect::FixesSoFar)]).unwrap();
        assert_eq!(enough, "With pauses of 1 s after each request it keeps up, at 5 B/s.");
    }
}
