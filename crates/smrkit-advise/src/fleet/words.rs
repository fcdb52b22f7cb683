//! The answer on a fleet, in sentences and a table.

use smrkit_report::Grid;
use smrkit_report::format::{bytes, printable, rate, seconds, short, wrapped};

use super::losses::{Estimate, Failures, YEAR_H};
use super::{FleetAnswer, FleetOfDrives};

/// A repair is limited by what takes more than this share of its time or its rate.
const MOST: f64 = 0.9;

/// Sentences, some for each drive.
pub fn text(fleets: &[FleetOfDrives]) -> String {
    let is_asked = |fleet: &&FleetOfDrives| !fleet.kind.is_twin;
    let is_several = fleets.iter().filter(is_asked).count() > 1;
    let mut lines = Vec::new();
    for own in fleets.iter().filter(is_asked) {
        if is_several {
            lines.push(format!("{}:", own.kind.drive));
        }
        lines.extend([loss(own), at_risk(own), limit(own)]);
        lines.extend(cmr(own, fleets.iter().find(|fleet| fleet.kind.drive == own.kind.drive && fleet.kind.is_twin)));
        if own.fleet.failures.head_share > 0.0 {
            lines.push(head(own));
        }
    }
    lines.join("\n")
}

/// The sentences, and a table of all fleets.
pub fn screen(answer: &FleetAnswer, width: usize) -> String {
    let lines = answer.text.lines().map(|line| wrapped("", &printable(line), width) + "\n");
    format!("{}\n{}\n", lines.collect::<String>(), table(&answer.fleets).text_within(width))
}

/// A number of which nobody reads more than three digits.
fn about(value: f64) -> String {
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    short((value / unit).round() * unit)
}

/// A probability as people say it.
fn chance(probability: f64) -> String {
    let one_in = 1.0 / probability;
    match probability {
        p if p >= 0.01 => format!("{} %", short(100.0 * p)),
        _ if one_in < 1e6 => format!("1 in {}", about(one_in)),
        _ if one_in < 1e9 => format!("1 in {} million", about(one_in / 1e6)),
        _ if one_in < 1e12 => format!("1 in {} billion", about(one_in / 1e9)),
        _ => format!("1 in {one_in:.1e}"),
    }
}

fn hours(hours: f64) -> String {
    match hours * 3600.0 {
        s if s < 1.0 && s > 0.0 => "less than 1 s".into(),
        s => seconds(s),
    }
}

fn loss(own: &FleetOfDrives) -> String {
    let Failures { per_year, years, .. } = own.fleet.failures;
    if own.falls_behind {
        let (repair, next) = (hours(own.losses.disk_h), hours(YEAR_H / (own.fleet.disks as f64 * per_year)));
        return format!(
            "Loss: certain before long. Drives fail faster than they are repaired: each takes {repair}, and the fleet loses one each {next}."
        );
    }
    let all = match years == 1.0 {
        true => String::new(),
        false => format!("; in {} years {}", short(years), chance(own.losses.in_all_years.value)),
    };
    let Estimate { value, low, high } = own.losses.in_a_year;
    let [value, low, high] = [value, low, high].map(chance);
    format!("Loss: any data is lost with a probability of {value} a year ({low} to {high}){all}.")
}

fn at_risk(own: &FleetOfDrives) -> String {
    let [at_risk, degraded, disk] = [own.losses.hours_at_risk, own.losses.hours_degraded, own.losses.disk_h].map(hours);
    format!(
        "At risk: for {at_risk} a year some group has no redundancy left, and for {degraded} some drive is being repaired, each in {disk}."
    )
}

/// What makes a repair as long as it is.
fn limit(own: &FleetOfDrives) -> String {
    let (speed, repair, groups) = (&own.kind.speed, &own.fleet.repair, own.fleet.groups_per_disk);
    let (chunk, took) = (bytes(own.chunk_bytes), hours(repair.chunk_h));
    let full_after = speed.full_after_bytes.filter(|&full| full < own.chunk_bytes);
    let why = if groups as f64 > repair.slots {
        let (data, slots) = (own.fleet.data, short(repair.slots.floor()));
        let at_once = format!("the fleet rebuilds {slots} of the {groups} groups of a drive at once");
        format!("the drives together: for each byte that is rebuilt {data} are read, so that {at_once}")
    } else if repair.delay_h > MOST * (repair.delay_h + repair.chunk_h) {
        format!("the {} before it begins: the drives then need {took}", hours(repair.delay_h))
    } else if own.throttle.is_some_and(|rate| own.ceilings.recovery_bytes_per_s > MOST * rate) {
        format!("the throttle, at which {chunk} take {took}")
    } else if speed.is_given {
        format!("the rate that was given, at which {chunk} take {took}")
    } else if let Some(full) = full_after {
        let (full, first, then) = (bytes(full), rate(speed.first_bytes_per_s), rate(speed.lasting_bytes_per_s));
        let takes = format!("it takes {full} at {first}, and the rest at {then}, since its cache is full");
        format!("the drive that gets a chunk of {chunk}: {takes}; {took} in all")
    } else {
        let (pieces, pace) = (bytes(own.kind.piece_bytes as f64), rate(own.ceilings.recovery_bytes_per_s));
        let is_reader = speed.reader_busy > speed.writer_busy;
        let work =
            if is_reader { "reading from the drives of a group" } else { "writing to the drive that gets a chunk" };
        format!("{work}: {chunk} in pieces of {pieces} take {took} at {pace}")
    };
    let rate_at = |point: Option<&(f64, f64)>| rate(point.map_or(0.0, |&(_, rate)| rate));
    let (first, last) = (rate_at(own.bandwidth.first()), rate_at(own.bandwidth.last()));
    let rates = if full_after.is_some() { format!("{first} at first and {last} in the end") } else { first };
    format!("What limits repair: {why}. The fleet rebuilds a drive at {rates}.")
}

/// The drive beside its conventional twin; `None` where no drive was run.
fn cmr(own: &FleetOfDrives, twin: Option<&FleetOfDrives>) -> Option<String> {
    let Some(twin) = twin else {
        let text = format!("CMR: {} is conventional, so that shingling is no question.", own.kind.drive);
        return Some(text).filter(|_| !own.kind.speed.is_given);
    };
    let a_year = chance(twin.losses.in_a_year.value);
    let loss = match own.losses.in_a_year.value / twin.losses.in_a_year.value {
        r if r > 1.1 => format!("loses data {} times as rarely ({a_year} a year)", about(r)),
        r if r < 0.9 => format!("loses data {} times as often ({a_year} a year)", about(1.0 / r)),
        _ => "loses data as rarely".to_string(),
    };
    Some(format!("CMR: the same drive without shingling is repaired in {} and {loss}.", hours(twin.losses.disk_h)))
}

fn head(own: &FleetOfDrives) -> String {
    let (surfaces, repair) = (own.kind.surfaces, hours(own.head.repair_h));
    let [times, by_bytes, by_rate] = [own.head.times_faster, own.head.by_bytes, own.head.by_rate].map(short);
    let kept = surfaces - 1;
    format!(
        "Loss of a head: the drive keeps {kept} of {surfaces} surfaces, and what was on the other is rebuilt in {repair}, {times} times as fast \
         as a drive: {by_bytes} times for the bytes, {by_rate} times for the rate."
    )
}

fn table(fleets: &[FleetOfDrives]) -> Grid {
    let several = fleets.iter().filter(|fleet| !fleet.kind.is_twin).count() > 1;
    let mut grid = Grid::new(["", "drive repaired", "chunk", "no redundancy", "loss a year", "in all years"]);
    for fleet in fleets {
        let what = match fleet.kind.is_twin {
            true => "as CMR",
            false if several => "",
            false => "as it is",
        };
        let name = if several { format!("{} {what}", fleet.kind.drive) } else { what.into() };
        let losses = &fleet.losses;
        let probability =
            |estimate: Estimate| if fleet.falls_behind { "certain".into() } else { format!("{:.1e}", estimate.value) };
        grid.rows.push(vec![
            name.trim().into(),
            hours(losses.disk_h),
            rate(fleet.ceilings.recovery_bytes_per_s),
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
