//! The seek curve of a DiskSim model: measured points, or one of its equations as points.

use std::path::Path;

use super::files::{Files, Toml};
use super::params::{Fields, bad};
use crate::error::Error;

/// Distances up to which an equation is taken at each cylinder; beyond, points lie a fiftieth apart.
const DENSE: u64 = 64;
const SEEK_MS_MAX: f64 = 2000.0;
const CYLINDERS_MAX: u64 = 1 << 31;

/// Writes the seek curve of a mechanical model; equations take the cylinders of the disk.
pub(super) fn seek(out: &mut Toml, files: &mut Files, mechanics: &Fields, model: &Fields) -> Result<(), Error> {
    let cylinders = || Ok::<u64, Error>(model.count("Number of cylinders", CYLINDERS_MAX)?.0);
    let kind = mechanics.text("Seek type")?;
    let kind_at = mechanics.source(mechanics.required("Seek type")?.line, "Seek type");
    let (points, source) = match kind {
        "extracted" => {
            let name = mechanics.text("Full seek curve")?;
            let path = mechanics.path.with_file_name(name.strip_prefix("source ").unwrap_or(name).trim());
            let points = measured(&path, &files.text(&path)?)?;
            (points, format!("{}, all lines", path.file_name().unwrap_or_default().to_string_lossy()))
        }
        "constant" => {
            let key =
                if mechanics.get("Constant seek time").is_some() { "Constant seek time" } else { "Average seek time" };
            let time = mechanics.positive(key)?;
            (vec![(1, time.value), (2, time.value)], time.source)
        }
        "linear" | "curve" => {
            let three = ThreeTimes::of(mechanics, cylinders()?)?;
            let points = if kind == "linear" { three.line() } else { three.curve() };
            (points, format!("{kind_at} = {kind}; {}", three.source))
        }
        "hpl" | "hplplus10" => {
            let equation = Hpl::of(mechanics)?;
            let ten = if kind == "hplplus10" { first_ten(mechanics)? } else { Vec::new() };
            let at = |distance: u64| ten.get(distance as usize - 1).copied().unwrap_or_else(|| equation.ms(distance));
            let cylinders = cylinders()?;
            let mut distances = spread(cylinders);
            distances.extend([equation.division.saturating_sub(1), equation.division]);
            let points = at_distances(distances, cylinders, at);
            (points, format!("{kind_at} = {kind}; {}", equation.source))
        }
        other => {
            let message = format!(
                "Seek type = {other} is not known: give extracted (with Full seek curve), linear, curve, constant, hpl or hplplus10"
            );
            return Err(bad(mechanics.path, mechanics.required("Seek type")?.line, message));
        }
    };
    let list: Vec<String> = points.iter().map(|(distance, ms)| format!("[{distance}, {ms}]")).collect();
    out.value("seek_cylinders", format!("[{}]", list.join(", ")), &source);
    Ok(())
}

/// Distances at which an equation is taken.
fn spread(cylinders: u64) -> Vec<u64> {
    let beyond = std::iter::successors(Some(DENSE), |distance| Some(distance + distance / 50));
    (1..DENSE).chain(beyond.take_while(|distance| *distance < cylinders)).chain([cylinders.saturating_sub(1)]).collect()
}

/// Points of an equation, ascending and inside of the disk, at least two.
fn at_distances(mut distances: Vec<u64>, cylinders: u64, ms: impl Fn(u64) -> f64) -> Vec<(u64, f64)> {
    distances.retain(|distance| (1..cylinders.max(3)).contains(distance));
    distances.sort_unstable();
    distances.dedup();
    distances
        .into_iter()
        .map(|distance| (distance, (ms(distance).clamp(0.0, SEEK_MS_MAX) * 1e6).round() / 1e6))
        .collect()
}

/// The single-cylinder, average and full-stroke seek times.
struct ThreeTimes {
    one: f64,
    average: Option<f64>,
    full: f64,
    cylinders: u64,
    source: String,
}

impl ThreeTimes {
    fn of(mechanics: &Fields, cylinders: u64) -> Result<ThreeTimes, Error> {
        let (one, full) =
            (mechanics.positive("Single cylinder seek time")?, mechanics.positive("Full strobe seek time")?);
        let average = match mechanics.get("Average seek time") {
            Some(_) => Some(mechanics.positive("Average seek time")?),
            None => None,
        };
        let middle = average.as_ref().map_or(String::new(), |average| format!("; {}", average.source));
        let source = format!("{}{middle}; {}", one.source, full.source);
        Ok(ThreeTimes {
            one: one.value,
            average: average.map(|found| found.value),
            full: full.value,
            cylinders,
            source,
        })
    }

    /// Lines from one cylinder over a third of the stroke to all of it.
    fn line(&self) -> Vec<(u64, f64)> {
        let (third, all) = (self.cylinders / 3, (self.cylinders.saturating_sub(1)).max(2));
        let middle = self.average.filter(|_| third > 1).map(|average| (third, average));
        [Some((1, self.one)), middle, Some((all, self.full))].into_iter().flatten().collect()
    }

    /// Lee's equation; lines where it would fall.
    fn curve(&self) -> Vec<(u64, f64)> {
        let Some(average) = self.average else { return self.line() };
        let n = self.cylinders.max(1) as f64;
        let a = (-10.0 * self.one + 15.0 * average - 5.0 * self.full) / (3.0 * n.sqrt());
        let b = (7.0 * self.one - 15.0 * average + 8.0 * self.full) / (3.0 * n);
        if a < 0.0 || b < 0.0 {
            return self.line();
        }
        let ms = |distance: u64| {
            let further = (distance - 1) as f64;
            a * further.sqrt() + b * further + self.one
        };
        at_distances(spread(self.cylinders), self.cylinders, ms)
    }
}

/// The equation of Ruemmler and Wilkes: a root up to a distance, a line from there on.
struct Hpl {
    division: u64,
    root: (f64, f64),
    line: (f64, f64),
    /// A time of its own for one cylinder.
    one: Option<f64>,
    source: String,
}

impl Hpl {
    fn of(mechanics: &Fields) -> Result<Hpl, Error> {
        const KEY: &str = "HPL seek equation values";
        let values = times(mechanics, KEY, 6)?;
        let line = mechanics.required(KEY)?.line;
        let is_one = values[5] >= 0.0;
        if values[..5].iter().any(|value| *value < 0.0) || !(is_one || values[5] == -1.0) {
            return Err(bad(mechanics.path, line, format!("{KEY}: give numbers from 0 on; only the last may be -1")));
        }
        Ok(Hpl {
            division: values[0] as u64,
            root: (values[1], values[2]),
            line: (values[3], values[4]),
            one: is_one.then_some(values[5]),
            source: mechanics.source(line, KEY),
        })
    }

    fn ms(&self, distance: u64) -> f64 {
        match self.one {
            Some(one) if distance == 1 => one,
            _ if distance < self.division => self.root.0 + self.root.1 * (distance as f64).sqrt(),
            _ => self.line.0 + self.line.1 * distance as f64,
        }
    }
}

fn first_ten(mechanics: &Fields) -> Result<Vec<f64>, Error> {
    const KEY: &str = "First ten seek times";
    let mut ten = times(mechanics, KEY, 10)?;
    if ten.iter().any(|ms| *ms < 0.0) {
        return Err(bad(mechanics.path, mechanics.required(KEY)?.line, format!("{KEY}: give milliseconds from 0 on")));
    }
    ten.truncate(10);
    Ok(ten)
}

/// The numbers of a list, at least this many.
fn times(mechanics: &Fields, key: &str, least: usize) -> Result<Vec<f64>, Error> {
    let line = mechanics.required(key)?.line;
    let list = mechanics.list(key)?;
    let numbers: Vec<f64> = list.iter().filter_map(|value| value.number()).collect();
    if numbers.len() < list.len() || numbers.len() < least {
        return Err(bad(mechanics.path, line, format!("{key}: give {least} numbers in brackets")));
    }
    Ok(numbers)
}

/// The points of a measured seek curve: distance, milliseconds and perhaps their deviation.
fn measured(path: &Path, text: &str) -> Result<Vec<(u64, f64)>, Error> {
    let mut lines = (1u64..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (number, heading) = lines.next().ok_or_else(|| bad(path, 1, "an empty seek curve: copy the file again"))?;
    let count = heading.trim().strip_prefix("Seek distances measured:").and_then(|n| n.trim().parse::<usize>().ok());
    let count = count.ok_or_else(|| bad(path, number, "expected \"Seek distances measured: N\""))?;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (number, line) in lines {
        let point = || {
            let mut columns = line.split(',').map(str::trim);
            let point = (columns.next()?.parse::<u64>().ok()?, columns.next()?.parse::<f64>().ok()?);
            let rest = (columns.next().is_none_or(|deviation| deviation.parse::<f64>().is_ok()), columns.next());
            (rest == (true, None)).then_some(point)
        };
        let (distance, ms) =
            point().ok_or_else(|| bad(path, number, "expected a distance in cylinders, a comma, and milliseconds"))?;
        if distance == 0 || points.last().is_some_and(|last| last.0 >= distance) {
            return Err(bad(path, number, "distances must rise from 1 on: put the lines in order"));
        }
        if !(0.0..=SEEK_MS_MAX).contains(&ms) {
            return Err(bad(path, number, format!("a seek of {ms} ms: give milliseconds from 0 to {SEEK_MS_MAX}")));
        }
        points.push((distance, ms));
    }
    if points.len() != count || count == 0 {
        let message = format!(
            "{count} distances are announced and {} follow: the file was cut short, copy it again",
            points.len()
        );
        return Err(bad(path, number, message));
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_bend_at_a_third_of_the_stroke_if_that_is_a_seek() {
        let line =
            |average, cylinders| ThreeTimes { one: 1.0, average, full: 15.0, cylinders, source: String::new() }.line();
        assert_eq!(line(Some(8.0), 2051), [(1, 1.0), (683, 8.0), (2050, 15.0)]);
        assert_eq!(line(None, 2051), [(1, 1.0), (2050, 15.0)]);
        assert_eq!(line(Some(8.0), 6), [(1, 1.0), (2, 8.0), (5, 15.0)]);
        assert_eq!(line(Some(8.0), 5), [(1, 1.0), (4, 15.0)]);
        assert_eq!(line(Some(8.0), 1), [(1, 1.0), (2, 15.0)]);
    }
}
