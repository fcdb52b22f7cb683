//! The answer on a fleet, in sentences and a table.

use smrkit_report::Grid;
use smrkit_report::format;

use super::losses::Estimate;
use super::{FleetAnswer, FleetOfDrives};

/// A change is worth telling if losses become so many times as rare.
const WORTH: f64 = 2.0;
/// A repair is limited by what takes more than this share of its time or its rate.
const MOST: f64 = 0.9;

/// Sentences, some for each drive.
pub fn text(fleets: &[FleetOfDrives]) -> String {
    let asked = || fleets.iter().filter(|fleet| fleet.change.is_none() && !fleet.kind.is_twin);
    let mut lines = Vec::new();
    for own in asked() {
        if asked().count() > 1 {
            lines.push(format!("{}:", own.kind.drive));
        }
        let of_drive = |fleet: &&FleetOfDrives| fleet.kind.drive == own.kind.drive;
        let twin = fleets.iter().filter(of_drive).find(|fleet| fleet.kind.is_twin);
        let changes = fleets.iter().filter(of_drive).filter(|fleet| fleet.change.is_some());
        lines.extend([loss(own), at_risk(own), limit(own)]);
        lines.extend(cmr(own, twin));
        lines.push(change(own, changes));
        if own.fleet.failures.head_share > 0.0 {
            lines.push(head(own));
        }
    }
    lines.join("\n")
}

/// The sentences, and a table of all fleets.
pub fn screen(answer: &FleetAnswer, width: usize) -> String {
    let lines = answer.text.lines().map(|line| format::wrapped("", &format::printable(line), width) + "\n");
    format!("{}\n{}", lines.collect::<String>(), table(&answer.fleets).text_within(width))
}

/// A number of which nobody reads more than three digits.
fn about(value: f64) -> String {
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    format::short((value / unit).round() * unit)
}

/// A probability as people say it.
fn chance(probability: f64) -> String {
    let one_in = 1.0 / probability;
    match probability {
        p if p >= 0.01 => format!("{} %", format::short(100.0 * p)),
        _ if one_in < 1e6 => format!("1 in {}", about(one_in)),
        _ if one_in < 1e9 => format!("1 in {} million", about(one_in / 1e6)),
        _ if one_in < 1e12 => format!("1 in {} billion", about(one_in / 1e9)),
        _ => format!("1 in {one_in:.1e}"),
    }
}

fn hours(hours: f64) -> String {
    match hours * 3600.0 {
        s if s < 1.0 && s > 0.0 => "less than 1 s".into(),
        s => format::seconds(s),
    }
}

fn loss(own: &FleetOfDrives) -> String {
    let Estimate { value, low, high } = own.losses.in_a_year;
    if own.falls_behind {
        return format!(
            "Loss: certain before long. Drives fail faster than they are repaired: each takes {}, and the fleet loses one each {}.",
            hours(own.losses.disk_h),
            hours(super::losses::YEAR_H / (own.fleet.disks as f64 * own.fleet.failures.per_year))
        );
    }
    let years = own.fleet.failures.years;
    let all = match years == 1.0 {
        true => String::new(),
        false => format!("; in {} years {}", format::short(years), chance(own.losses.in_all_years.value)),
    };
    format!(
        "Loss: any data is lost with a probability of {} a year ({} to {}){all}.",
        chance(value),
        chance(low),
        chance(high)
    )
}

fn at_risk(own: &FleetOfDrives) -> String {
    format!(
        "At risk: for {} a year some group has no redundancy left, and for {} some drive is being repaired, each in {}.",
        hours(own.losses.hours_at_risk),
        hours(own.losses.hours_degraded),
        hours(own.losses.disk_h)
    )
}

/// What makes a repair as long as it is.
fn limit(own: &FleetOfDrives) -> String {
    let (speed, repair) = (&own.kind.speed, &own.fleet.repair);
    let (chunk, took) = (format::bytes(own.chunk_bytes), hours(repair.chunk_h));
    let waves = own.fleet.groups_per_disk as f64 / repair.slots;
    let why = if waves > 1.0 {
        format!(
            "the drives together: for each byte that is rebuilt {} are read, so that the fleet rebuilds {} of the {} groups of a drive at once",
            own.fleet.data,
            format::short(repair.slots.floor()),
            own.fleet.groups_per_disk
        )
    } else if repair.delay_h > MOST * (repair.delay_h + repair.chunk_h) {
        format!("the {} before it begins: the drives then need {took}", hours(repair.delay_h))
    } else if own.throttle.is_some_and(|rate| own.ceilings.recovery_bytes_per_s > MOST * rate) {
        format!("the throttle, at which {chunk} take {took}")
    } else if speed.is_given {
        format!("the rate that was given, at which {chunk} take {took}")
    } else if let Some(full) = speed.full_after_bytes.filter(|&full| full < own.chunk_bytes) {
        format!(
            "the drive that gets a chunk of {chunk}: it takes {} at {}, and the rest at {}, since its cache is full; {took} in all",
            format::bytes(full),
            format::rate(speed.first_bytes_per_s),
            format::rate(speed.lasting_bytes_per_s)
        )
    } else {
        let rate = format::rate(own.ceilings.recovery_bytes_per_s);
        let pieces = format::bytes(own.kind.piece_bytes as f64);
        let busiest = match speed.reader_busy > speed.writer_busy {
            true => "those that are read",
            false => "the one that is written",
        };
        format!("{busiest} of the drives of a group: {chunk} in pieces of {pieces} at {rate} takes {took}")
    };
    let rate_at = |point: Option<&(f64, f64)>| format::rate(point.map_or(0.0, |&(_, rate)| rate));
    let rates = match speed.full_after_bytes.is_some_and(|full| full < own.chunk_bytes) {
        true => format!("{} at first and {} in the end", rate_at(own.bandwidth.first()), rate_at(own.bandwidth.last())),
        false => rate_at(own.bandwidth.first()),
    };
    format!("What limits repair: {why}. The fleet rebuilds a drive at {rates}.")
}

/// The drive beside its conventional twin; `None` where no drive was run.
fn cmr(own: &FleetOfDrives, twin: Option<&FleetOfDrives>) -> Option<String> {
    let Some(twin) = twin else {
        let text = format!("CMR: {} is conventional, so that shingling is no question.", own.kind.drive);
        return Some(text).filter(|_| !own.kind.speed.is_given);
    };
    let (rarer, a_year) =
        (own.losses.in_a_year.value / twin.losses.in_a_year.value, chance(twin.losses.in_a_year.value));
    let loss = match rarer {
        r if r > 1.1 => format!("loses data {} times as rarely ({a_year} a year)", about(r)),
        r if r < 0.9 => format!("loses data {} times as often ({a_year} a year)", about(1.0 / r)),
        _ => "loses data as rarely".to_string(),
    };
    Some(format!("CMR: the same drive without shingling is repaired in {} and {loss}.", hours(twin.losses.disk_h)))
}

fn change<'a>(own: &FleetOfDrives, changes: impl Iterator<Item = &'a FleetOfDrives>) -> String {
    let rarer = |fleet: &FleetOfDrives| own.losses.in_a_year.value / fleet.losses.in_a_year.value;
    let mut worth: Vec<&FleetOfDrives> = changes.filter(|fleet| rarer(fleet) > WORTH).collect();
    worth.sort_by(|one, other| rarer(other).total_cmp(&rarer(one)));
    let told = worth.iter().map(|fleet| {
        let change = fleet.change.as_deref().unwrap_or_default();
        format!("{change} ({} times as rare)", about(rarer(fleet)))
    });
    match worth.is_empty() {
        true => "What to change: nothing that was tried makes losses half as frequent.".into(),
        false => format!("What to change: {}.", format::list(told.collect())),
    }
}

fn head(own: &FleetOfDrives) -> String {
    let head = &own.head;
    format!(
        "Loss of a head: the drive keeps {} of {} surfaces, and what was on the other is rebuilt in {}, {} times as fast as a drive: {} times for \
         the bytes, {} times for the rate.",
        own.kind.surfaces - 1,
        own.kind.surfaces,
        hours(head.repair_h),
        format::short(head.times_faster),
        format::short(head.by_bytes),
        format::short(head.by_rate)
    )
}

fn table(fleets: &[FleetOfDrives]) -> Grid {
    let several = fleets.iter().filter(|fleet| fleet.change.is_none() && !fleet.kind.is_twin).count() > 1;
    let mut grid = Grid::new(["", "drive repaired", "chunk", "no redundancy", "loss a year", "in all years"]);
    for fleet in fleets {
        let what = match (&fleet.change, fleet.kind.is_twin) {
            (Some(change), _) => change.clone(),
            (None, true) => "as CMR".into(),
            (None, false) if several => String::new(),
            (None, false) => "as it is".into(),
        };
        let name = if several { format!("{} {what}", fleet.kind.drive) } else { what };
        let losses = &fleet.losses;
        let probability =
            |estimate: Estimate| if fleet.falls_behind { "certain".into() } else { format!("{:.1e}", estimate.value) };
        grid.rows.push(vec![
            name.trim().into(),
            hours(losses.disk_h),
            format::rate(fleet.ceilings.recovery_bytes_per_s),
            hours(losses.hours_at_risk),
            probability(losses.in_a_year),
            probability(losses.in_all_years),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_have_three_digits() {
        let told = [0.123, 0.0012, 1.0 / 110_893.0, 1.0 / 1_234_567.0, 1.42e-10, 4.4e-13].map(chance);
        let expected = ["12.3 %", "1 in 833", "1 in 111,000", "1 in 1.23 million", "1 in 7.04 billion", "1 in 2.3e12"];
        assert_eq!(told, expected);
        assert_eq!([1.37, 42.26, 35_282.0].map(about), ["1.37", "42.3", "35,300"]);
    }
}
