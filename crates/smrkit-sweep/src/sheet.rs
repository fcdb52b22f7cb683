//! A table of numbers with their spread, and its forms: text, Markdown, CSV and Parquet, which have the same columns.

use std::path::Path;

use smrkit::error::Error;
use smrkit_report::Grid;
use smrkit_report::format::{NONE, short};

use crate::cells::{self, Cells};
use crate::words::{unit, with_unit};

/// Stands after the least number of its kind.
const BEST: &str = " *";

/// Several runs of one kind: the mean of a number, its least and its most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Spread {
    /// The spread of numbers; none without any.
    pub fn new(numbers: impl Iterator<Item = f64>) -> Option<Spread> {
        let all: Vec<f64> = numbers.collect();
        let (least, most) = all.iter().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
        (!all.is_empty()).then(|| Spread {
            mean: all.iter().sum::<f64>() / all.len() as f64,
            least,
            most,
            runs: all.len(),
        })
    }

    /// The quotient of two spreads: that of the means, between those of the ends.
    pub fn over(&self, other: &Spread) -> Spread {
        let (least, most) = (self.least / other.most, self.most / other.least);
        Spread { mean: self.mean / other.mean, least, most, runs: self.runs.max(other.runs) }
    }

    /// Half of what lies between the least and the most.
    pub fn half(&self) -> f64 {
        (self.most - self.least) / 2.0
    }

    /// In numbers of which `factor` makes a unit: `5 ± 1`.
    pub fn text(&self, factor: f64) -> String {
        let (mean, half) = (self.mean * factor, self.half() * factor);
        // The spread has no more digits than the mean.
        let digits = (2 - mean.abs().max(1e-6).log10().floor() as i32).clamp(0, 8);
        let round = 10_f64.powi(digits);
        match self.runs {
            1 => short(mean),
            _ => format!("{} ± {}", short(mean), short((half * round).round() / round)),
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Texts under a name.
    Texts(String, Vec<String>),
    /// Numbers under a name, in the unit of a key.
    Numbers {
        /// The name, without the unit.
        name: String,
        /// The key that they are of.
        key: String,
        /// The numbers, in the unit of the key.
        values: Vec<Option<Spread>>,
        /// Rows whose number is the least of its kind.
        best: Vec<usize>,
    },
}

impl Column {
    fn rows(&self) -> usize {
        match self {
            Column::Texts(_, texts) => texts.len(),
            Column::Numbers { values, .. } => values.len(),
        }
    }

    fn has_spread(&self) -> bool {
        matches!(self, Column::Numbers { values, .. } if values.iter().flatten().any(|value| value.runs > 1))
    }
}

/// Columns side by side, of as many rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet(pub Vec<Column>);

impl Sheet {
    fn rows(&self) -> usize {
        self.0.first().map_or(0, Column::rows)
    }

    /// The table as text, with the spread in the cells and the best marked.
    pub fn grid(&self) -> Grid {
        let heads: Vec<(String, f64)> = self.0.iter().map(|column| self.head(column)).collect();
        let cell = |at: usize, (column, (_, factor)): (&Column, &(String, f64))| match column {
            Column::Texts(_, texts) => texts[at].clone(),
            Column::Numbers { values, best, .. } => match &values[at] {
                Some(value) => value.text(*factor) + if best.contains(&at) { BEST } else { "" },
                None => NONE.into(),
            },
        };
        let row = |at| self.0.iter().zip(&heads).map(|both| cell(at, both)).collect();
        let rows = (0..self.rows()).map(row).collect();
        Grid { header: heads.into_iter().map(|(name, _)| name).collect(), rows, best: Vec::new() }
    }

    /// The name of a column with its unit, and what makes that unit of a number; columns of one key have one unit, which fits
    /// the middle of their numbers.
    fn head(&self, column: &Column) -> (String, f64) {
        let (name, key) = match column {
            Column::Texts(name, _) => return (name.clone(), 1.0),
            Column::Numbers { name, key, .. } => (name, key),
        };
        let of_key = |other: &Column| match other {
            Column::Numbers { key: own, values, .. } if own == key => {
                values.iter().flatten().map(|value| value.mean).collect()
            }
            _ => Vec::new(),
        };
        let all = self.0.iter().flat_map(of_key).filter(|&mean| mean > 0.0);
        let (least, most) = all.fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        let (unit, factor) = unit(key, if most > 0.0 { (least * most).sqrt() } else { 0.0 });
        (with_unit(name, &unit), factor)
    }

    /// Rows that are the best of their kind in some column.
    pub fn best(&self) -> Vec<usize> {
        let best = |column: &Column| if let Column::Numbers { best, .. } = column { best.clone() } else { Vec::new() };
        self.0.iter().flat_map(best).collect()
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let grid = self.grid();
        let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | ").replace('\\', "\\\\"));
        let rule = format!("|{}\n", "---|".repeat(grid.header.len()));
        line(&grid.header) + &rule + &grid.rows.iter().map(line).collect::<String>()
    }

    /// Columns for programs: texts, or numbers in full, a spread next to its mean.
    fn plain(&self) -> Vec<(String, Cells)> {
        let mut all = Vec::new();
        for column in &self.0 {
            let (head, factor) = self.head(column);
            let Column::Numbers { values, .. } = column else {
                if let Column::Texts(_, texts) = column {
                    all.push((head, Cells::Texts(texts.clone())));
                }
                continue;
            };
            let numbers = |of: fn(&Spread) -> f64| {
                Cells::Reals(values.iter().map(|value| value.map_or(f64::NAN, |value| of(&value) * factor)).collect())
            };
            all.push((head.clone(), numbers(|value| value.mean)));
            if column.has_spread() {
                all.push((format!("± {head}"), numbers(Spread::half)));
            }
        }
        all
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let quoted = |cell: String| match cell.contains([',', '"', '\n']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        };
        let columns = self.plain();
        let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
        let head = line(columns.iter().map(|(name, _)| name.clone()).collect());
        let row = |at| line(columns.iter().map(|(_, cells)| cells.text(at)).collect());
        head + &(0..self.rows()).map(row).collect::<String>()
    }

    /// Writes the table as Parquet; a number that is missing is NaN.
    pub fn write_parquet(&self, path: &Path) -> Result<(), Error> {
        cells::write(path, "table", &self.plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(numbers: &[f64]) -> Option<Spread> {
        Spread::new(numbers.iter().copied())
    }

    fn numbers(name: &str, key: &str, values: Vec<Option<Spread>>, best: Vec<usize>) -> Column {
        Column::Numbers { name: name.into(), key: key.into(), values, best }
    }

    #[test]
    fn a_spread_has_the_ends_and_the_mean_of_its_numbers() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[4.0, 1.0, 7.0]), Some(Spread { mean: 4.0, least: 1.0, most: 7.0, runs: 3 }));
        let (one, other) = (spread(&[6.0, 12.0]).unwrap(), spread(&[2.0, 3.0, 4.0]).unwrap());
        assert_eq!(one.over(&other), Spread { mean: 3.0, least: 1.5, most: 6.0, runs: 3 });
        assert_eq!(one.half(), 3.0);
    }

    #[test]
    fn a_spread_has_no_more_digits_than_its_mean() {
        let text = |numbers: &[f64], factor| spread(numbers).unwrap().text(factor);
        assert_eq!(text(&[5.0], 1.0), "5");
        assert_eq!(text(&[5.0, 5.0], 1.0), "5 ± 0");
        assert_eq!(text(&[4000.0, 4246.0], 1e-3), "4.12 ± 0.12");
        assert_eq!(text(&[1.0, 1.01], 1.0), "1 ± 0.01");
        assert_eq!(text(&[99.0, 101.3], 1.0), "100 ± 1");
        assert_eq!(text(&[9.0, 11.3], 1.0), "10.2 ± 1.2");
        assert_eq!(text(&[0.0, 0.0], 1.0), "0 ± 0");
    }

    #[test]
    fn columns_of_one_key_share_the_unit_of_their_middle() {
        let of = |numbers: &[f64]| numbers.iter().map(|number| spread(&[*number])).collect::<Vec<_>>();
        let key = "latency_ns.all.mean";
        let sheet = Sheet(vec![
            Column::Texts("layer".into(), vec!["a".into(), "b".into()]),
            numbers("one", key, of(&[4e3, 2e6]), vec![0]),
            numbers("two", key, vec![spread(&[4e9]), None], vec![]),
            numbers("none", "elapsed_ns", vec![None, None], vec![]),
        ]);
        // The middle of 4 µs and 4 s is 4 ms.
        let grid = sheet.grid();
        assert_eq!(grid.header, ["layer", "one (ms)", "two (ms)", "none (µs)"]);
        assert_eq!(grid.rows, [["a", "0.004 *", "4,000", "-"], ["b", "2", "-", "-"]]);
        assert_eq!(sheet.csv(), "layer,one (ms),two (ms),none (µs)\na,0.004,4000,\nb,2,,\n");
        assert_eq!(sheet.best(), [0]);
        assert_eq!(Sheet::default().grid().rows.len(), 0);
    }

    #[test]
    fn texts_are_quoted_where_a_form_asks_for_it() {
        let texts = ["plain", "a,b", "say \"x\"", "two\nlines", "back\\slash"].map(String::from);
        let sheet = Sheet(vec![Column::Texts("name".into(), texts.to_vec())]);
        assert_eq!(sheet.csv(), "name\nplain\n\"a,b\"\n\"say \"\"x\"\"\"\n\"two\nlines\"\nback\\slash\n");
        assert!(sheet.markdown().starts_with("| name |\n|---|\n| plain |\n"));
        assert!(sheet.markdown().ends_with("| back\\\\slash |\n"));
    }

    #[test]
    fn a_spread_has_a_column_of_its_own_for_programs() {
        let sheet = Sheet(vec![
            numbers("one", "requests", vec![spread(&[1.0, 2.0]), spread(&[3.0])], vec![]),
            numbers("two", "requests", vec![spread(&[1.0]), None], vec![]),
        ]);
        assert_eq!(sheet.csv(), "one,± one,two\n1.5,0.5,1\n3,0,\n");
    }
}
