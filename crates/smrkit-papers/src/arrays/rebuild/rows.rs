//! Results of the rebuilds, as rows.

use smrkit::layer::Scalar;
use smrkit::stats::outcome::{Latency, Outcome, Rebuild};
use smrkit::stats::rebuild::BusyTimes;

use super::super::super::row::{Row, Value};
use super::MANY;
use super::setup::{
    BY_COMMAND, BY_RUN, CONVENTIONAL_CACHED, IDLE_CLEAN, MANAGED, MANAGED_CACHED, NewMember, Order, RebuildPlan, Way,
    hours,
};
use smrkit_report::format;
use smrkit_report::{WORK, Work};

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
    pub fn new(plans: &[RebuildPlan], outcomes: &[Outcome]) -> Rebuilds {
        let done = |(plan, outcome): (&RebuildPlan, &Outcome)| {
            let bands = outcome.members.last().and_then(|new| new.layer_stats.get("bands_cleaned"));
            let bands_cleaned = if let Some(Scalar::Int(bands)) = bands { *bands } else { 0 };
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

    /// Rows on the time that each takes, and for what.
    pub fn hours(&self) -> Vec<Row> {
        let row = |done: &Done| Row::not_comparable(&done.item(), rounded(done.hours()), "h", &done.busy());
        self.alone().map(row).collect()
    }

    /// The longest command by window.
    pub fn longest(&self) -> Vec<Row> {
        let by_window = |done: &&Done| done.plan.way.piece_kib == done.plan.way.order.main_kib();
        let row = |done: &Done| {
            let (of_7s, of_30s) = (yes(done.rebuild.dropped_7s), yes(done.rebuild.dropped_30s));
            let why = format!("dropped at 7 s: {of_7s}; at 30 s: {of_30s}");
            Row::not_comparable(&done.item(), rounded(done.longest_s()), "s", &why)
        };
        self.alone().filter(by_window).map(row).collect()
    }

    /// Bands cleaned for each piece that was written.
    pub fn cleanings(&self) -> Vec<Row> {
        let row = |done: &Done| {
            let cleaned = done.bands_cleaned as f64 / done.rebuild.pieces.max(1) as f64;
            let busy = done.new_busy();
            let cleaning = busy.clean_read + busy.clean_write + busy.destage_read;
            let why = match done.bands_cleaned {
                0 => "none".to_string(),
                bands => format!(
                    "{} s a band, reading the log included",
                    format::short(cleaning as f64 / 1e9 / bands as f64)
                ),
            };
            Row::not_comparable(&done.item(), rounded(cleaned), "bands / write", &why)
        };
        self.alone().filter(|done| done.plan.way.window == MANY && done.plan.kind.cleans()).map(row).collect()
    }

    /// Rows on what a light foreground adds, and what it gets.
    pub fn beside(&self) -> Vec<Row> {
        let rows = |done: &Done| {
            let alone = self.hours_of(done.plan.kind, done.plan.way).unwrap_or(f64::NAN);
            let host = done.rebuild.foreground_ns;
            let latency = |of: &Latency| {
                format!(
                    "mean {}, 99 % {}, longest {}",
                    format::nanos(of.mean),
                    format::nanos(of.p99),
                    format::nanos(of.max)
                )
            };
            let why = format!(
                "{} h alone; {}; longest command of the new member {}, dropped at 7 s: {}",
                format::short(alone),
                done.busy(),
                format::seconds(done.longest_s()),
                yes(done.rebuild.dropped_7s)
            );
            let item = done.item();
            [
                Row::not_comparable(&format!("{item}: hours"), rounded(done.hours()), "h", &why),
                Row::not_comparable(
                    &format!("{item}: reads, 99 %"),
                    rounded(host.read.p99 as f64 / 1e9),
                    "s",
                    &latency(&host.read),
                ),
                Row::not_comparable(
                    &format!("{item}: writes, 99 %"),
                    rounded(host.write.p99 as f64 / 1e9),
                    "s",
                    &latency(&host.write),
                ),
            ]
        };
        self.0.iter().filter(|done| done.plan.beside).flat_map(rows).collect()
    }

    /// When the caches are clean.
    pub fn until_clean(&self) -> Vec<Row> {
        let chosen = [CONVENTIONAL_CACHED, MANAGED_CACHED, IDLE_CLEAN];
        let shown = |done: &&Done| {
            let Way { order, piece_kib, window } = done.plan.way;
            !done.plan.beside && chosen.contains(&done.plan.kind) && (piece_kib, window) == (order.main_kib(), MANY)
        };
        let row = |done: &Done| {
            let redundant = format!("redundant after {} h", format::short(done.hours()));
            match done.rebuild.clean_ns {
                Some(ns) => Row::not_comparable(&done.item(), rounded(hours(ns, &done.rebuild)), "h", &redundant),
                None => {
                    let why = format!("{redundant}; what the cache still holds stays there");
                    Row::not_comparable(&done.item(), "never", "", &why)
                }
            }
        };
        self.0.iter().filter(shown).map(row).collect()
    }

    /// Beside public figures.
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
            let why = format!("{} h against {} h", format::short(small), format::short(large));
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

    /// The new member's busy time in words, in hours for 5 TB.
    fn busy(&self) -> String {
        let busy = self.new_busy();
        let part = |(name, _, of): &Work| {
            let hours = hours(of(&busy), &self.rebuild);
            (hours >= 0.05).then(|| format!("{name} {} h", format::short(hours)))
        };
        WORK.iter().filter_map(part).collect::<Vec<_>>().join(", ")
    }
}

fn beside(item: &str, public: &str, ours: f64, unit: &'static str, why: &str) -> Row {
    Row { paper: Value::from(public), ..Row::not_comparable(item, rounded(ours), unit, why) }
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
