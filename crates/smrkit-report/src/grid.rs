//! A table of text, and its layout on a terminal.

use comfy_table::Width::Fixed;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

use crate::format::{NONE, WIDTH};

/// The most columns that are kept free for the longest word of a run's name.
const NAME_WIDTH: u16 = 24;

/// Lines above the first row: the header, and a rule.
const HEAD_LINES: usize = 2;

/// A table as text: a header, and rows of as many cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// The columns' names.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// The rows that pages mark as the best.
    pub best: Vec<usize>,
}

/// A column of a table: its name, and the text of its cell in the row of an item.
pub type Column<T> = (&'static str, fn(&T) -> String);

impl Grid {
    /// A table with a row for each item.
    pub fn of_items<T>(items: impl Iterator<Item = T>, columns: &[Column<T>]) -> Grid {
        let row = |item: T| columns.iter().map(|(_, cell)| cell(&item)).collect();
        let rows = items.map(row).collect();
        Grid { header: columns.iter().map(|(name, _)| name.to_string()).collect(), rows, best: Vec::new() }
    }

    /// A grid with these columns and no rows.
    pub fn new<const N: usize>(header: [&str; N]) -> Grid {
        Grid { header: header.map(str::to_string).into(), ..Grid::default() }
    }

    /// The grid if it has a row.
    pub fn unless_empty(self) -> Option<Grid> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// The table for a terminal, with the first column to the left and numbers to the right.
    pub fn text(&self) -> String {
        self.text_within(WIDTH)
    }

    /// The table for a terminal with `width` columns. Cells are broken if the table would be wider.
    pub fn text_within(&self, width: usize) -> String {
        let mut table = Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        let arrangement =
            if self.width() <= width { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
        table.set_content_arrangement(arrangement).set_width(width as u16).set_header(&self.header);
        table.add_rows(&self.rows);
        for i in 0..self.header.len() {
            if let Some(column) = table.column_mut(i) {
                column.set_padding(if i == 0 { (0, 1) } else { (1, 0) });
                column.set_cell_alignment(if self.is_numeric(i) { CellAlignment::Right } else { CellAlignment::Left });
            }
        }
        // The first column is at least as wide as the longest word of a run's name, up to a limit, so that words are not broken.
        let words = self.rows.iter().filter_map(|row| row.first()).flat_map(|name| name.split(' '));
        let mut least = words.map(|word| word.chars().count() + 1).max().unwrap_or(0).min(usize::from(NAME_WIDTH));
        // In a narrow terminal it also gets all room that the other columns leave.
        if width < WIDTH {
            let widest = self.widest(0) + 2;
            least = least.max((width + widest).saturating_sub(self.width()).min(widest));
        }
        if let Some(column) = table.column_mut(0) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Fixed(least as u16)));
        }
        table.trim_fmt()
    }

    /// [`Grid::text_within`] with the best rows in bold green, where no cell is broken.
    pub fn painted(&self, width: usize) -> String {
        let text = self.text_within(width);
        let is_best = |line: usize| self.width() <= width && self.best.iter().any(|row| row + HEAD_LINES == line);
        let paint = |(line, text): (usize, &str)| match is_best(line) {
            true => format!("\x1b[1;32m{text}\x1b[0m"),
            false => text.to_string(),
        };
        text.lines().enumerate().map(paint).collect::<Vec<_>>().join("\n")
    }

    /// Splits a table that is wider than `width` columns into several that fit, each beginning with the first column.
    pub fn stacked(&self, width: usize) -> Vec<Grid> {
        let (mut parts, mut part) = (Vec::new(), vec![0]);
        for column in 1..self.header.len() {
            let part_width: usize = part.iter().chain([&column]).map(|&i| self.widest(i) + 2).sum();
            if part.len() > 1 && part_width > width {
                parts.push(std::mem::replace(&mut part, vec![0]));
            }
            part.push(column);
        }
        parts.push(part);
        let cut = |line: &Vec<String>, part: &[usize]| part.iter().filter_map(|&i| line.get(i).cloned()).collect();
        let grid = |part: Vec<usize>| Grid {
            header: cut(&self.header, &part),
            rows: self.rows.iter().map(|row| cut(row, &part)).collect(),
            best: self.best.clone(),
        };
        parts.into_iter().map(grid).collect()
    }

    /// Its width in columns of a terminal, with no cell broken.
    fn width(&self) -> usize {
        (0..self.header.len()).map(|i| self.widest(i) + 2).sum()
    }

    /// Characters of the widest cell of a column.
    fn widest(&self, column: usize) -> usize {
        let lines = std::iter::once(&self.header).chain(&self.rows);
        lines.filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// True for a column of numbers: every cell begins with a digit, or is a dash.
    pub fn is_numeric(&self, column: usize) -> bool {
        let number = |cell: &String| cell == NONE || cell.starts_with(|c: char| c.is_ascii_digit());
        column > 0 && self.rows.iter().filter_map(|row| row.get(column)).all(number)
    }
}
