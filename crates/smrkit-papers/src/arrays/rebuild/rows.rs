//! Tables of the rebuilds' results, and rows next to public figures.

use smrkit::stats::outcome::{Outcome, Rebuild};
use smrkit::stats::rebuild::BusyTimes;

use super::setup::{
    BY_COMMAND, BY_RUN, CONVENTIONAL_CACHED, IDLE_CLEAN, MANAGED, MANAGED_CACHED, MANY, NewMember, Order, RebuildPlan,
    Way, hours, ways,
};
use crate::Row;
use smrkit_report::Grid;
use smrkit_report::format::{self, NONE, short};

/// A rebuild, and what came of it.
struct Done {
    plan: RebuildPlan,
    rebuild: Rebuild,
    /// Bands that the new member cleaned.
    bands_cleaned: u64,
}

/// All rebuilds of the study.
pub struct Rebuilds(Vec<Done>);

impl Rebuilds {
    /// Of runs in the order of their plans. One that did not come to its end is left out.
    pub fn new(plans: &[RebuildPlan], outcomes: &[Option<Outcome>]) -> Rebuilds {
        let done = |(plan, outcome): (&RebuildPlan, &Option<Outcome>)| {
            let outcome = outcome.as_ref()?;
            let bands_cleaned = outcome.members.last().and_then(|new| new.layer_stats.bands_cleaned()).unwrap_or(0);
            Some(Done { plan: *plan, rebuild: outcome.rebuild.clone()?, bands_cleaned })
        };
        Rebuilds(plans.iter().zip(outcomes).filter_map(done).collect())
    }

    /// Parts of the disk that were run.
    pub fn parts(&self) -> String {
        let part = |order: Order| {
            let of = self.alone().find(|done| done.plan.way.order == order).map_or(1, |done| done.plan.part);
            format!("{} 1/{of}", order.name())
        };
        Order::ALL.map(part).join(", ")
    }

    fn alone(&self) -> impl Iterator<Item = &Done> {
        self.0.iter().filter(|done| !done.plan.beside && done.plan.kind != IDLE_CLEAN)
    }

    fn find(&self, kind: NewMember, way: Way) -> Option<&Done> {
        self.alone().find(|done| done.plan.kind == kind && done.plan.way == way)
    }

    /// Hours for 5 TB.
    pub fn hours_of(&self, kind: NewMember, way: Way) -> Option<f64> {
        self.find(kind, way).map(Done::hours)
    }

    /// Seconds of the longest command of the new member.
    pub fn longest_of(&self, kind: NewMember, way: Way) -> Option<f64> {
        self.find(kind, way).map(Done::longest_s)
    }

    /// Table of a line a way and a column a kind of member.
    fn by_way(&self, ways: &[Way], kinds: &[NewMember], cell: impl Fn(&Done) -> String) -> Grid {
        let mut grid = Grid::new(["way"]);
        grid.header.extend(kinds.iter().map(|kind| kind.name.to_string()));
        for way in ways {
            let of = |kind: &NewMember| self.find(*kind, *way).map_or_else(|| NONE.into(), &cell);
            grid.rows.push([way.to_string()].into_iter().chain(kinds.iter().map(of)).collect());
        }
        grid
    }

    /// Time that each takes, in hours for 5 TB.
    pub fn hours(&self) -> Grid {
        self.by_way(&ways(), &NewMember::ALL, |done| short(rounded(done.hours())))
    }

    /// The longest command by window, and the timeouts that would have dropped the drive.
    pub fn longest(&self) -> Grid {
        let mut by_window = ways();
        by_window.retain(|way| way.piece_kib == way.order.main_kib());
        self.by_way(&by_window, &NewMember::ALL, |done| {
            let seconds = format!("{} s", short(rounded(done.longest_s())));
            match (done.rebuild.dropped_7s, done.rebuild.dropped_30s) {
                (_, true) => format!("{seconds}, dropped at 30 s"),
                (true, false) => format!("{seconds}, dropped at 7 s"),
                (false, false) => seconds,
            }
        })
    }

    /// Bands cleaned for each piece that was written, and the seconds that each takes, reading the log included.
    pub fn cleanings(&self) -> Grid {
        let mut many = ways();
        many.retain(|way| way.window == MANY);
        let kinds: Vec<NewMember> = NewMember::ALL.into_iter().filter(|kind| kind.cleans()).collect();
        self.by_way(&many, &kinds, |done| {
            let cleaned = done.bands_cleaned as f64 / done.rebuild.pieces.max(1) as f64;
            let busy = done.new_busy();
            let cleaning = busy.clean_read + busy.clean_write + busy.destage_read;
            match done.bands_cleaned {
                0 => "none".to_string(),
                bands => format!("{}, {} s each", short(rounded(cleaned)), short(cleaning as f64 / 1e9 / bands as f64)),
            }
        })
    }

    /// Costs of a light foreground, and the service that it gets.
    pub fn beside(&self) -> Grid {
        let header = ["rebuild", "hours", "alone", "reads, 99 %", "writes, 99 %", "longest command", "dropped at 7 s"];
        let mut grid = Grid::new(header);
        for done in self.0.iter().filter(|done| done.plan.beside) {
            let alone = self.hours_of(done.plan.kind, done.plan.way).map_or(NONE.into(), |hours| short(rounded(hours)));
            let host = done.rebuild.foreground_ns;
            grid.rows.push(vec![
                done.item(),
                short(rounded(done.hours())),
                alone,
                format::nanos(host.read.p99),
                format::nanos(host.write.p99),
                format::seconds(done.longest_s()),
                yes(done.rebuild.dropped_7s).into(),
            ]);
        }
        grid
    }

    /// Time until the caches are clean, in hours for 5 TB.
    pub fn until_clean(&self) -> Grid {
        let chosen = [CONVENTIONAL_CACHED, MANAGED_CACHED, IDLE_CLEAN];
        let shown = |done: &&Done| {
            let Way { order, piece_kib, window } = done.plan.way;
            !done.plan.beside && chosen.contains(&done.plan.kind) && (piece_kib, window) == (order.main_kib(), MANY)
        };
        let mut grid = Grid::new(["rebuild", "redundant after (h)", "clean after (h)"]);
        for done in self.0.iter().filter(shown) {
            let clean = done.rebuild.clean_ns.map_or("never".into(), |ns| short(rounded(hours(ns, &done.rebuild))));
            grid.rows.push(vec![done.item(), short(rounded(done.hours())), clean]);
        }
        grid
    }

    /// Next to public figures.
    pub fn public(&self) -> Vec<Row> {
        let resilver = Way::new(Order::Runs, 44, MANY);
        let of = |kind, way| self.hours_of(kind, way).unwrap_or(f64::NAN);
        let (conventional, managed) = (of(CONVENTIONAL_CACHED, resilver), of(MANAGED_CACHED, resilver));
        let assumed = "assumed: records of 44 KiB in runs of 3 MB, 32 under way, write cache on, no bypass";
        let mut rows = vec![
            beside("a resilver on conventional disks", "16 h", conventional, "h", assumed),
            beside("a resilver on the drive-managed disk", "over 9 days", managed, "h", assumed),
            beside("the one by the other", "over 13.5", managed / conventional, "×", assumed),
        ];
        let without = [
            ("records scattered singly (128 KiB)", MANAGED_CACHED, Way::new(Order::Singly, 128, MANY)),
            ("write cache off", MANAGED, resilver),
            ("in order (512 KiB)", MANAGED_CACHED, Way::new(Order::Ascending, 512, MANY)),
        ];
        rows.extend(without.map(|(what, kind, way)| {
            let why = "under another assumption";
            beside(&format!("the same with {what}"), "over 9 days", of(kind, way), "h", why)
        }));
        let times = |kind: NewMember| {
            let [small, large] = [32, 512].map(|kib| of(kind, Way::new(Order::Ascending, kib, MANY)));
            let why = format!("{} h against {} h", short(small), short(large));
            let why = match kind == BY_COMMAND {
                true => format!("{why}; assumed: commands of 512 KiB bypass the persistent cache, shorter ones don't"),
                false => why,
            };
            beside(
                &format!("32 KiB by 512 KiB in order: {}", kind.name),
                "collapse against fine",
                small / large,
                "×",
                &why,
            )
        };
        rows.extend([BY_COMMAND, BY_RUN, MANAGED_CACHED, MANAGED].map(times));
        rows.retain(Row::has_number);
        rows
    }
}

impl Done {
    fn item(&self) -> String {
        format!("{}: {}", self.plan.way, self.plan.kind.name)
    }

    fn hours(&self) -> f64 {
        hours(self.rebuild.elapsed_ns, &self.rebuild)
    }

    fn longest_s(&self) -> f64 {
        self.rebuild.longest_new_ns.unwrap_or(0) as f64 / 1e9
    }

    /// Busy times of the new member.
    fn new_busy(&self) -> BusyTimes {
        self.rebuild.members.last().map(|new| new.busy_ns).unwrap_or_default()
    }
}

fn beside(item: &str, public: &str, ours: f64, unit: &'static str, why: &str) -> Row {
    Row::beside(item, public, rounded(ours), unit).because(why)
}

/// Four digits are more than the model knows.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_command_is_told_in_seconds() {
        let way = Way::new(Order::Runs, Order::Runs.main_kib(), MANY);
        let plan = RebuildPlan { kind: MANAGED, way, beside: false, part: 1, seed: 1 };
        let rebuild = Rebuild { longest_new_ns: Some(8_500_000_000), dropped_7s: true, ..Rebuild::default() };
        let all = Rebuilds(vec![Done { plan, rebuild, bands_cleaned: 0 }]);
        assert_eq!((all.longest_of(MANAGED, way), all.longest_of(BY_RUN, way)), (Some(8.5), None));
        let rows = all.longest().rows;
        let said: Vec<&String> = rows.iter().flat_map(|row| &row[1..]).filter(|cell| *cell != NONE).collect();
        assert_eq!(said, ["8.5 s, dropped at 7 s"]);
    }
}
