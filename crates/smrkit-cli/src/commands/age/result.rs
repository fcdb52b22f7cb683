//! Results of `smrkit age`: for people, for scripts, as a page.

use serde_json::{Value, json};
use smrfs::age::world::World;
use smrfs::age::{AgeingResult, BenchmarkResult, CourseOptions, Sample};
use smrfs::device::{Model, Shape};
use smrfs::workload::EventKind;
use smrfs::workload::driver::End;
use smrkit::VERSION;

use smrkit_report::figure::{Axis, Figure, Series, Style};
use smrkit_report::{Grid, Section, format, page};

/// The result of ageing a file system.
pub struct Aged {
    directory: Option<String>,
    model: Option<Model>,
    disk_bytes: u64,
    target_bytes: u64,
    seed: u64,
    /// All of the setting, for scripts.
    setting: Value,
    course: AgeingResult,
    interrupted: bool,
}

impl Aged {
    /// The result of a course in a directory or in a simulated world, on a disk of `shape` if that is known.
    pub fn new(
        directory: Option<String>,
        (world, shape): (Option<&World>, Option<&Shape>),
        disk_bytes: u64,
        options: &CourseOptions,
        course: AgeingResult,
        interrupted: bool,
    ) -> Aged {
        let ager = &options.ager;
        let bytes = |of: fn(&Shape) -> u64| shape.map(|shape| of(shape) * shape.granule_bytes);
        let model = shape.map(|shape| shape.model);
        let setting = json!({
            "directory": directory,
            "model": model,
            "drive": world.map(|world| &world.drive.name),
            "did_bytes": bytes(|shape| shape.did),
            "dpid_bytes": bytes(|shape| shape.dpid),
            "granule_bytes": bytes(|_| 1),
            "placement": world.filter(|world| world.model == Model::Caveat).map(|world| world.caveat.placement.name()),
            "disk_bytes": disk_bytes,
            "target_bytes": ager.target_bytes,
            "run_probability": ager.run_probability,
            "hours_per_s": ager.hours_per_s,
            "bytes_per_s": ager.bytes_per_s,
            "swing_percent": ager.swing_percent,
            "idle_percent": options.duty.idle_percent,
            "spell_ns": options.duty.spell.0,
            "size_factor": ager.size_factor,
            "size_max_bytes": ager.size_max_bytes,
            "interleave": options.interleave,
            "seed": ager.seed,
        });
        let (target_bytes, seed) = (ager.target_bytes, ager.seed);
        Aged { directory, model, disk_bytes, target_bytes, seed, setting, course, interrupted }
    }

    /// The result as `smrkit age --json` writes it, with the program's commit.
    pub fn record(&self, commit: Option<&str>) -> Value {
        let course = &self.course;
        let alone = &course.alone;
        json!({
            "schema": 1,
            "version": VERSION,
            "commit": commit,
            "interrupted": self.interrupted,
            "setting": self.setting,
            "end": course.end,
            "first_cleaning": course.first_cleaning,
            "benchmarks_begin": course.a,
            "benchmarks_end": course.b,
            "last": course.last,
            "ager": course.aged,
            // The ager's events while it ran alone. Their times include delays by cleaning.
            "alone": {
                "busy_ns": alone.busy.0,
                "cleaning_delay_ns": alone.delay.0,
                "cleaning_delay_ns_max": alone.longest_delay.0,
                "events_delayed": alone.delayed,
                "latency_ns": alone.latencies.all(),
            },
            "benchmarks": course.benchmarks.iter().map(benchmark_record).collect::<Vec<_>>(),
            "samples": course.samples,
        })
    }

    /// Text for people.
    pub fn text(&self) -> String {
        let mut text = self.summary().join("\n") + "\n";
        if !self.course.benchmarks.is_empty() {
            text += &format!("\n{}\n", self.benchmarks().text());
        }
        text
    }

    /// As a page that opens offline.
    pub fn page(&self) -> String {
        let mut sections = vec![Section { heading: "In short".into(), text: self.summary(), ..Section::default() }];
        if !self.course.benchmarks.is_empty() {
            sections.push(Section::of_table("Benchmarks", self.benchmarks()));
        }
        sections.push(Section::of_figure(self.space()));
        page("smrkit age", &sections)
    }

    fn summary(&self) -> Vec<String> {
        let course = &self.course;
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        let seconds = |ns: u64| format::seconds(ns as f64 / 1e9);
        let ager = &course.aged;
        let place = match (&self.directory, self.model) {
            (Some(directory), _) => directory.clone(),
            (None, Some(Model::Caveat)) => "Caveat-Scriptor, simulated".into(),
            (None, _) => "Strict-append, simulated".into(),
        };
        let mut lines = vec![
            format!(
                "{place}: {} written to {} as {} files, {} of them deleted, in {}.",
                bytes(course.last.written_bytes),
                bytes(self.disk_bytes),
                format::count(ager.created),
                format::count(ager.deleted),
                seconds(course.last.time_ns.saturating_sub(course.samples.first().map_or(0, |first| first.time_ns)))
            ),
            format!(
                "{} of files now, {} aimed at by the ager.",
                bytes(course.last.live_bytes),
                bytes(self.target_bytes)
            ),
        ];
        if course.last.readable_bytes > 0 {
            let last = &course.last;
            lines.push(format!(
                "R {}, NW {}, WO {}, W {}; {} moved by the cleaner, {} bands reset.",
                bytes(last.readable_bytes),
                bytes(last.not_writable_bytes),
                bytes(last.write_once_bytes),
                bytes(last.writable_bytes),
                bytes(last.cleaned.moved_bytes),
                format::count(last.cleaned.resets)
            ));
        }
        lines.push(match course.first_cleaning {
            Some(first) => {
                format!("Cleaned first after {} and {} written.", seconds(first.time_ns), bytes(first.written_bytes))
            }
            None if self.model.is_some() => "Nothing was cleaned.".into(),
            None => "No SMRfs of this user: what it cleans is not known.".into(),
        });
        let alone = &course.alone;
        if alone.delayed > 0 {
            lines.push(format!(
                "Cleaning delayed {} of {} events while the ager was alone: {:.1} % of the time that they took, one by {}.",
                format::count(alone.delayed),
                format::count(alone.latencies.all().count),
                100.0 * alone.delay.as_secs() / alone.busy.as_secs(),
                seconds(alone.longest_delay.0)
            ));
        }
        match course.end {
            End::Full => lines.push("It ended with no room for a block.".into()),
            End::Stopped => lines.push("Interrupted: this is what there was.".into()),
            End::Done => {}
        }
        lines
    }

    fn benchmarks(&self) -> Grid {
        let heads =
            ["benchmark", "read MB/s", "written MB/s", "events", "mean", "p99", "longest", "longest of", "moved"];
        let mut grid = Grid::new(heads);
        grid.rows = self.course.benchmarks.iter().map(benchmark_row).collect();
        grid
    }

    /// Space over time.
    fn space(&self) -> Figure {
        let samples = &self.course.samples;
        let line = |n, name: &str, of: &dyn Fn(&Sample) -> u64| {
            let points = samples.iter().map(|s| (s.written_bytes as f64 / 1e9, of(s) as f64 / 1e9)).collect();
            Series::nth(n, name, Style::Line, points)
        };
        let known = samples.iter().any(|sample| sample.readable_bytes > 0);
        let series = match known {
            true => vec![
                line(1, "R: readable", &|s| s.readable_bytes),
                line(4, "R + NW", &|s| s.readable_bytes + s.not_writable_bytes),
                line(6, "R + NW + WO", &|s| s.readable_bytes + s.not_writable_bytes + s.write_once_bytes),
            ],
            false => vec![
                line(1, "files", &|s| s.live_bytes),
                line(0, "not free", &|s| self.disk_bytes.saturating_sub(s.free_bytes)),
            ],
        };
        let (x, y) = (Axis::linear("written (GB)"), Axis::linear("space (GB)"));
        let mut figure = Figure::lines("age-space", "Space while ageing", x, y, series);
        figure.note = format!("Of {}; seed {}.", format::bytes(self.disk_bytes as f64), self.seed);
        figure
    }
}

fn benchmark_record(measured: &BenchmarkResult) -> Value {
    let record = &measured.record;
    let mut latency_ns = json!({"all": record.latencies.all()});
    for kind in EventKind::ALL {
        latency_ns[kind.name()] = json!(record.latencies.for_kind(kind));
    }
    json!({
        "name": measured.benchmark.name(),
        "elapsed_ns": record.end.since(record.begin).0,
        "read_bytes": record.read_bytes,
        "written_bytes": record.written_bytes,
        "moved_bytes": measured.moved_bytes,
        "kept_bytes": measured.kept_bytes,
        "reading_ns": record.reading.0,
        "writing_ns": record.writing.0,
        "latency_ns": latency_ns,
    })
}

fn benchmark_row(measured: &BenchmarkResult) -> Vec<String> {
    let all = measured.record.latencies.all();
    let (read, written) = measured.bytes_per_s();
    let worst = EventKind::ALL.into_iter().max_by_key(|&kind| measured.record.latencies.for_kind(kind).max_ns);
    vec![
        measured.benchmark.name().into(),
        format::short(read / 1e6),
        format::short(written / 1e6),
        format::count(all.count),
        format::nanos(all.mean_ns),
        format::nanos(all.p99_ns),
        format::nanos(all.max_ns),
        worst.map_or(format::NONE.into(), |kind| kind.name().into()),
        format::bytes(measured.moved_bytes as f64),
    ]
}
