//! Results of a study, for people, for scripts, and as a page.

use serde_json::{Value, json};
use smrkit::VERSION;
use smrkit::error::Error;
use smrkit::experiment::pool::Monitor;

use crate::{Agreement, Basis, Item, Reproduction, Row, Scale, Shown, Work, lab};
use smrkit_report::Grid;
use smrkit_report::figure::Figure;
use smrkit_report::format::{WIDTH, wrapped};
use smrkit_report::{Section, page};

/// The result of one or more reproductions.
pub struct Study {
    scale: Scale,
    commit: Option<String>,
    parts: Vec<StudyPart>,
    /// True if an interrupt left something undone.
    pub interrupted: bool,
}

struct StudyPart {
    of: &'static Reproduction,
    items: Vec<(&'static str, Shown)>,
    open: Vec<String>,
}

impl Study {
    /// Makes every run of `chosen`, and compares.
    pub fn make(chosen: &[&'static Reproduction], scale: Scale, monitor: &dyn Monitor) -> Result<Study, Error> {
        // Reading traces takes its time: an interrupt leaves out what has not been planned yet.
        let plan = |of: &&Reproduction| if monitor.goes_on() { (of.items)(&scale) } else { Ok(vec![unplanned()]) };
        let items: Vec<Vec<Item>> = chosen.iter().map(plan).collect::<Result<_, _>>()?;
        let jobs: Vec<&dyn Work> = items.iter().flatten().flat_map(|item| &item.jobs).map(|job| &**job).collect();
        let mut made = lab::make(&jobs, monitor, "reproducing")?.into_iter();
        let mut interrupted = !monitor.goes_on();
        let mut show = |item: Item| {
            let runs = item.jobs.len();
            let results: Vec<_> = made.by_ref().take(runs).collect();
            let done = results.iter().flatten().count();
            if done == runs {
                return (item.show)(results);
            }
            interrupted = true;
            let text = format!("Interrupted: {done} of {runs} runs were made");
            if item.partial && done > 0 {
                let mut shown = (item.show)(results);
                if let Some((_, first)) = shown.first_mut() {
                    first.text.insert(0, format!("{text}; what needs the others is left out."));
                }
                return shown;
            }
            let text = vec![format!("{text}, so nothing is compared here.")];
            vec![(item.heading, Shown { text, ..Shown::default() })]
        };
        let mut parts = Vec::new();
        for (of, items) in chosen.iter().zip(items) {
            parts.push(StudyPart { of, items: items.into_iter().flat_map(&mut show).collect(), open: (of.open)()? });
        }
        Ok(Study { scale, commit: monitor.commit().map(str::to_string), parts, interrupted })
    }

    /// The result as `--json` gives it; `item` is the only one of its name in a reproduction.
    pub fn record(&self) -> Value {
        let (mut rows, mut tables) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let reproduction = part.of.name;
            for (heading, shown) in &part.items {
                // Results that the paper has no number for.
                tables.extend(shown.table.as_ref().map(|Grid { header, rows, .. }| {
                    json!({"reproduction": reproduction, "heading": heading, "header": header, "rows": rows})
                }));
                rows.extend(shown.rows.iter().map(|row| {
                    json!({
                        "reproduction": reproduction,
                        "item": format!("{heading} / {}", row.item),
                        "paper": row.paper,
                        "ours": row.ours,
                        "unit": row.unit,
                        "verdict": row.verdict,
                        "reason": row.reason,
                        "basis": row.basis,
                        "by_construction": row.basis == Basis::Fitted,
                    })
                }));
            }
        }
        json!({
            "schema": 1,
            "version": VERSION,
            "commit": self.commit,
            "seed": self.scale.seed,
            "quick": self.scale.quick,
            "interrupted": self.interrupted,
            "rows": rows,
            "tables": tables,
        })
    }

    /// The figures of all items.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.parts.iter().flat_map(|part| &part.items).filter_map(|(_, shown)| shown.figure.as_ref())
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = self.summary().join("\n") + "\n";
        for part in &self.parts {
            out += &format!("\n{}\n{}\n", part.of.paper, "═".repeat(part.of.paper.chars().count()));
            out += &format!("{}\n", part.of.before);
            for (heading, shown) in &part.items {
                out += &format!("\n{heading}\n");
                out += &shown.text.iter().map(|text| wrapped("", text, WIDTH) + "\n").collect::<String>();
                for table in shown.tables() {
                    out += &format!("\n{}\n", table.text());
                }
            }
            out += "\nWhat the paper leaves open, or contradicts\n";
            out += &part.open.iter().map(|line| wrapped("- ", line, WIDTH) + "\n").collect::<String>();
        }
        out
    }

    /// As a page that opens offline.
    pub fn page(&self) -> String {
        let mut sections = vec![Section { heading: "In short".into(), text: self.summary(), ..Section::default() }];
        for part in &self.parts {
            for (heading, shown) in &part.items {
                sections.extend(shown.sections(heading));
            }
            let heading = "What the paper leaves open, or contradicts".into();
            let text = [part.of.before.to_string()].into_iter().chain(part.open.clone()).collect();
            sections.push(Section { heading, text, ..Section::default() });
        }
        let papers: Vec<&str> = self.parts.iter().map(|part| part.of.paper).collect();
        page(&format!("Reproduced: {}", papers.join("; ")), &sections)
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.parts.iter().flat_map(|part| &part.items).flat_map(|(_, shown)| &shown.rows)
    }

    fn summary(&self) -> Vec<String> {
        let count = |verdict| self.rows().filter(|row| row.verdict == verdict).count();
        let agree_on = |basis| self.rows().filter(|row| row.basis == basis && row.verdict == Agreement::Agree).count();
        let (built_in, derived) = (agree_on(Basis::Fitted), agree_on(Basis::Derived));
        let mut lines = Vec::new();
        if self.rows().next().is_some() {
            lines.push(format!(
                "{} comparisons: {} agree ({built_in} of them by construction), {} differ, {} are not comparable.",
                self.rows().count(),
                count(Agreement::Agree),
                count(Agreement::Differs),
                count(Agreement::NotComparable)
            ));
        }
        if built_in > 0 {
            lines.push(
                "By construction: what goes in was solved from, or fitted to, the paper's number, so that agreement is no \
                 evidence."
                    .into(),
            );
        }
        if derived > 0 {
            lines.push(format!(
                "{derived} more agree with numbers derived here, which the paper does not print; with its own, {} do.",
                agree_on(Basis::Paper)
            ));
        }
        if self.interrupted {
            lines.push("Interrupted: what had been run until then follows.".into());
        }
        if self.scale.quick {
            lines.push("Quick: fewer seeds and shorter runs than in full; the verdicts are rougher.".into());
        }
        let build = self.commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
        lines.push(format!("Seed {}, smrkit {VERSION}{build}.", self.scale.seed));
        lines
    }
}

/// Presentation of a paper that an interrupt left out.
fn unplanned() -> Item {
    Item::told("Interrupted", Shown { text: vec!["Nothing was run.".into()], ..Shown::default() })
}

impl Shown {
    /// Findings, and then the comparisons.
    fn tables(&self) -> impl Iterator<Item = Grid> {
        let rows = (!self.rows.is_empty()).then(|| grid(&self.rows));
        self.table.iter().cloned().chain(rows)
    }

    /// The sections of a page: the first table with the text, the figure with the last.
    fn sections(&self, heading: &str) -> Vec<Section> {
        let note = self.figure.as_ref().map(|figure| figure.note.clone());
        let text = self.text.iter().cloned().chain(note).collect();
        let mut sections = vec![Section { heading: heading.into(), text, ..Section::default() }];
        for table in self.tables() {
            match sections.last_mut() {
                Some(last) if last.table.is_none() => last.table = Some(table),
                _ => sections.push(Section { table: Some(table), ..Section::default() }),
            }
        }
        if let Some(last) = sections.last_mut() {
            last.figure.clone_from(&self.figure);
        }
        sections
    }
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(["item", "paper", "ours", "unit", "verdict", "by which measure, and why"]);
    grid.rows = rows
        .iter()
        .map(|row| {
            let (paper, ours) = (row.paper.text(), row.ours.text());
            vec![row.item.clone(), paper, ours, row.unit.into(), row.verdict.name().into(), row.reason.clone()]
        })
        .collect();
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_stands_with_the_text_and_the_others_below() {
        let table = Grid::new(["drive"]);
        let rows = vec![Row::holds("speed", 1.0, 1.0, "x", true).because("measured")];
        let shown = Shown { text: vec!["Found.".into()], table: Some(table.clone()), rows, ..Shown::default() };
        let sections = shown.sections("Table 1");
        assert_eq!((sections.len(), sections[0].heading.as_str()), (2, "Table 1"));
        assert_eq!(sections[0].text, ["Found."]);
        assert!(sections.iter().all(|section| section.table.is_some()));
    }
}
