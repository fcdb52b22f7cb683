//! Any text table, by a map of its columns: `time=0:us,op=1,offset=2:bytes,size=3:bytes,volume=4,think=5:us,header=1,separator=;`.
//!
//! Columns count from 0. The first lines of a table put numbers in place of names, and add what the map leaves out. A time may be a moment of ISO
//! 8601. Units of time: s (the default), ms, us, ns, 100ns. Units of offset and size: bytes (the default),
//! sectors, or a number of bytes. `op` is a column of R, W, D, F, their words (read, write, discard or trim, flush or sync),
//! or 0 and 1; with `op=1:wr`, 0 is a write and 1 a read; `op=read` or `op=write` applies to all rows. `header` is the
//! number of lines to skip, `separator` one character, `tab` or `space` (any run of spaces and tabs), `decimal` the decimal separator,
//! `point` or `comma`. `time`, `think` (the pause after a request), `latency` (how long it took), `volume`, `header`, `separator` and
//! `decimal` may be left out.

use crate::iso;
use crate::reader::{Heading, RowTimes, TextFormat};
use crate::row::{Bad, Field, LineColumns, Problem, Separator, TraceRow, Volumes, extent, float};
use smrkit::error::Error;
use smrkit::names::known;
use smrkit::quantity::{parse_bytes, parse_count};
use smrkit::request::Op;
use smrkit::units::SECTOR_BYTES;

/// The most columns that a map may use.
const COLUMNS_MAX: usize = 64;

/// The parsed map, and the reader's state. Columns of times, offset and size have a unit: nanoseconds or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Csv {
    time: Option<(usize, u64)>,
    /// The think time after a request.
    think: Option<(usize, u64)>,
    /// The latency of a request.
    latency: Option<(usize, u64)>,
    op: OpColumn,
    offset: (usize, u64),
    size: (usize, u64),
    volume: Option<usize>,
    header: u64,
    separator: Separator,
    /// The decimal separator is a comma.
    has_decimal_commas: bool,
    /// Number of columns that are read: up to the last one that the map uses.
    columns: usize,
    /// The names of columns, as the table has them.
    names: Vec<String>,
    /// Why the map may be wrong, if it was guessed from the names of columns.
    pub doubt: Option<String>,
    /// The whole map, for messages.
    text: String,
    /// The sum of think times so far, if requests get think times instead of the clock's.
    think_sum_ns: Option<u64>,
    /// True if requests get the time of their completion: time plus latency.
    at_completion: bool,
}

/// Source of the kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpColumn {
    Always(Op),
    At { column: usize, zero: Op, one: Op },
}

/// Keys of a map.
const KEYS: [&str; 10] =
    ["time", "think", "latency", "op", "offset", "size", "volume", "header", "separator", "decimal"];

const EXAMPLE: &str = "csv:time=0:us,op=1,offset=2:bytes,size=3:bytes";

impl Csv {
    /// Parses a map.
    pub fn new(map: &str) -> Result<Csv, Error> {
        let mut csv = Csv {
            time: None,
            think: None,
            latency: None,
            op: OpColumn::Always(Op::Read),
            // A map without these is refused below.
            offset: (usize::MAX, 1),
            size: (usize::MAX, 1),
            volume: None,
            header: 0,
            separator: Separator::Byte(b','),
            has_decimal_commas: false,
            columns: 0,
            names: Vec::new(),
            doubt: None,
            text: map.to_string(),
            think_sum_ns: None,
            at_completion: false,
        };
        let mut op = None;
        for part in map.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(part, "key=value"))?;
            let (column, unit) = value.split_once(':').unwrap_or((value, ""));
            match key.trim() {
                "time" => csv.time = Some((csv.column(part, column)?, time_unit(part, unit)?)),
                "think" => csv.think = Some((csv.column(part, column)?, time_unit(part, unit)?)),
                "latency" => csv.latency = Some((csv.column(part, column)?, time_unit(part, unit)?)),
                "op" => op = Some(csv.op_column(part, column, unit)?),
                "offset" => csv.offset = (csv.column(part, column)?, byte_unit(part, unit)?),
                "size" => csv.size = (csv.column(part, column)?, byte_unit(part, unit)?),
                "volume" => csv.volume = Some(csv.column(part, column)?),
                "header" => csv.header = parse_count(value).map_err(|_| wrong(part, "a number of lines"))?,
                "separator" => csv.separator = separator(part, value)?,
                "decimal" if matches!(value, "comma" | "point") => csv.has_decimal_commas = value == "comma",
                "decimal" => return Err(wrong(part, "comma or point")),
                key => {
                    let names = known(key, KEYS.into_iter());
                    return Err(Error::Usage(format!("column map: \"{part}\": {names}, as in {EXAMPLE}")));
                }
            }
        }
        csv.op = op.ok_or_else(|| wrong(map, "op among the columns"))?;
        if csv.offset.0 == usize::MAX || csv.size.0 == usize::MAX {
            return Err(wrong(map, "offset and size among the columns"));
        }
        Ok(csv)
    }

    fn column(&mut self, part: &str, text: &str) -> Result<usize, Error> {
        let column = parse_count(text).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n < COLUMNS_MAX);
        let column = column.ok_or_else(|| wrong(part, "a column number from 0 to 63"))?;
        self.columns = self.columns.max(column + 1);
        Ok(column)
    }

    fn op_column(&mut self, part: &str, column: &str, unit: &str) -> Result<OpColumn, Error> {
        Ok(match (column, unit) {
            ("read", "") => OpColumn::Always(Op::Read),
            ("write", "") => OpColumn::Always(Op::Write),
            (_, "" | "rw") => OpColumn::At { column: self.column(part, column)?, zero: Op::Read, one: Op::Write },
            (_, "wr") => OpColumn::At { column: self.column(part, column)?, zero: Op::Write, one: Op::Read },
            _ => return Err(wrong(part, "nothing, :rw (0 is a read) or :wr (0 is a write) after op's column")),
        })
    }
}

fn wrong(part: &str, expected: &str) -> Error {
    Error::Usage(format!("column map: \"{part}\": expected {expected}, as in {EXAMPLE}"))
}

/// Nanoseconds of a unit of time.
fn time_unit(part: &str, unit: &str) -> Result<u64, Error> {
    let unit = if unit.is_empty() { "s" } else { unit };
    let found = UNITS.iter().find(|(_, own, is_time, _)| *is_time && *own == unit);
    found.map(|(.., ns)| *ns).ok_or_else(|| wrong(part, "s, ms, us, ns or 100ns after time's column"))
}

/// Bytes of a unit of offsets and sizes.
fn byte_unit(part: &str, unit: &str) -> Result<u64, Error> {
    let unit = if unit.is_empty() { "bytes" } else { unit };
    let found = UNITS.iter().find(|(_, own, is_time, _)| !is_time && *own == unit).map(|(.., bytes)| *bytes);
    found
        .or_else(|| parse_bytes(unit).ok().filter(|bytes| *bytes > 0))
        .ok_or_else(|| wrong(part, "bytes, sectors or a number of bytes"))
}

fn separator(part: &str, text: &str) -> Result<Separator, Error> {
    match text.as_bytes() {
        b"space" => Ok(Separator::Spaces),
        b"tab" => Ok(Separator::Byte(b'\t')),
        [byte] if byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric() => Ok(Separator::Byte(*byte)),
        _ => Err(wrong(part, "one character, tab or space")),
    }
}

impl TextFormat for Csv {
    fn tick_ns(&self) -> u64 {
        // All times are converted to nanoseconds, except Windows' file times (of 100 ns), which would overflow.
        if matches!(self.time, Some((_, 100))) { 100 } else { 1 }
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.think_sum_ns = (times == RowTimes::Think && self.think.is_some()).then_some(0);
        self.at_completion = times == RowTimes::Completion && self.time.is_some() && self.latency.is_some();
        matches!(times, RowTimes::Clock | RowTimes::Issue) || self.think_sum_ns.is_some() || self.at_completion
    }

    fn detail(&self) -> Option<&str> {
        Some(&self.text)
    }

    fn without_times(&self) -> Option<String> {
        let remedy = "say which column has them, in the map or as in {format} csv:time=0:us";
        let seen = if self.names.is_empty() { String::new() } else { format!(" (it has {})", self.names.join(", ")) };
        self.time.is_none().then(|| format!("{remedy}{seen}"))
    }

    fn heading(&self, number: u64, _line: &[u8]) -> Heading {
        if number < self.header { Heading::Yes } else { Heading::No }
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::new(line, self.separator);
        let mut fields = [Field { text: b"", at: 0, name: "" }; COLUMNS_MAX];
        for (n, slot) in fields.iter_mut().enumerate().take(self.columns) {
            *slot = columns.next(self.name(n))?;
        }
        let unquoted = |n: usize| {
            let field = fields[n];
            match field.text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
                Some(text) => Field { text, at: field.at + 1, ..field },
                None => field,
            }
        };
        let with_points = if self.has_decimal_commas { with_points(line) } else { Vec::new() };
        let number = |n: usize| {
            let field = unquoted(n);
            Field { text: with_points.get(field.at..field.at + field.text.len()).unwrap_or(field.text), ..field }
        };
        let think = match self.think.filter(|_| self.think_sum_ns.is_some()) {
            None => 0,
            Some((column, unit)) => number(column).decimal(unit)?,
        };
        let ticks = match self.time {
            _ if self.think_sum_ns.is_some() => self.think_sum_ns.unwrap_or(0) / self.tick_ns(),
            None => 0,
            // Such times, Windows' file times, are whole numbers; `tick_ns` is then 100.
            Some((column, 100)) => number(column).decimal(1)?,
            Some((column, unit)) => {
                let time = number(column);
                let or_moment = |bad: Bad| match bad.problem {
                    Problem::Expected(_) => {
                        let bad = time.expected("a number such as 12.345, or a moment such as 2024-05-01T12:00:00.25Z");
                        iso::nanoseconds(time.text).ok_or(bad)
                    }
                    _ => Err(bad),
                };
                time.decimal(unit).or_else(or_moment)?
            }
        };
        let ticks = match self.latency.filter(|_| self.at_completion) {
            None => ticks,
            Some((column, unit)) => {
                let latency_ns = number(column).decimal(unit)?;
                ticks.saturating_add(latency_ns / self.tick_ns())
            }
        };
        let op = match self.op {
            OpColumn::Always(op) => op,
            OpColumn::At { column, zero, one } => unquoted(column).operation(zero, one)?,
        };
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => {
                let (offset, size) = (number(self.offset.0), number(self.size.0));
                extent(offset, self.offset.1, size, self.size.1)?
            }
        };
        let volume = match self.volume {
            None => volumes.numbered(0, fields[0], || "0".into())?,
            Some(column) => {
                let field = unquoted(column);
                match field.integer() {
                    Ok(number) => volumes.numbered(number, field, || number.to_string())?,
                    Err(bad) if bad.problem == Problem::Overflow || field.text.is_empty() => return Err(bad),
                    Err(_) => volumes.named(field.text, None, field)?,
                }
            }
        };
        self.think_sum_ns = self.think_sum_ns.map(|sum| sum.saturating_add(think));
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

impl Csv {
    /// A column's name for messages, by what it is.
    fn name(&self, column: usize) -> &'static str {
        match column {
            n if self.time.is_some_and(|(column, _)| column == n) => "the time",
            n if matches!(self.op, OpColumn::At { column, .. } if column == n) => "the op",
            n if self.offset.0 == n => "the offset",
            n if self.size.0 == n => "the size",
            n if self.volume == Some(n) => "the volume",
            n if self.think.is_some_and(|(column, _)| column == n) => "the think time",
            n if self.latency.is_some_and(|(column, _)| column == n) => "the latency",
            _ => "a column",
        }
    }
}

/// Lines at the beginning of a table that are examined.
const HEAD_LINES: usize = 16;

/// Names of columns for each key of a map, in small letters and without a unit, the best first. `action` and `rwbs` of `blkparse` are left
/// out, because their letters mean other things.
const COLUMN_NAMES: [(&str, &str); 7] = [
    (
        "time",
        "time timestamp ts date datetime start_time arrival_time arrival issue_time when init_time event_time date_and_time \
         header_timestamp elapsed elapsed_time clock t start",
    ),
    ("think", "think think_time"),
    ("op", "op operation opcode type io_type iotype op_type rw r_w direction io_operation is_write is_read"),
    (OFFSET, "offset lba lbn sector start_sector address addr start_lba block io_lba min_offset"),
    ("size", "size length len bytes count sectors nr_sectors num_sectors blocks io_size io_len"),
    (LATENCY, "latency response_time response lat"),
    ("volume", "volume vol device dev disk volume_id device_id disk_id lun disknumber"),
];

const OFFSET: &str = "offset";
const LATENCY: &str = "latency";

/// Units: their forms at the end of a column's name, the form in a map, true for units of time, and the nanoseconds or bytes of one.
const UNITS: [(&[&str], &str, bool, u64); 7] = [
    (&["100ns"], "100ns", true, 100),
    (&["s", "sec", "secs", "seconds"], "s", true, 1_000_000_000),
    (&["ms", "msec", "milliseconds"], "ms", true, 1_000_000),
    (&["us", "usec", "µs", "microseconds"], "us", true, 1000),
    (&["ns", "nsec", "nanoseconds"], "ns", true, 1),
    (&["bytes", "byte", "b"], "bytes", false, 1),
    (&["sectors", "sector"], "sectors", false, SECTOR_BYTES),
];

impl Csv {
    /// Completes `map` for a table that begins with `head`: replaces names of columns by numbers, and adds missing parts from the first lines.
    pub fn for_table(map: &str, head: &[u8]) -> Result<Csv, Error> {
        let parts: Vec<(&str, &str)> = map.split(',').filter_map(|part| part.split_once('=')).collect();
        let given = |key: &str| parts.iter().find(|(own, _)| own.trim() == key).map(|(_, value)| *value);
        let is_by_name = parts.iter().any(|(key, value)| is_named(key.trim(), value));
        let mut table = HeaderTable::from_head(head, given("separator"), given("header"), is_by_name);
        let numbers = ["time", "think", LATENCY, OFFSET, "size"].map(|key| table.column(key, given(key)));
        // Only columns of numbers can show which decimal separator the table has.
        table.has_decimal_commas = match given("decimal") {
            Some(separator) => separator == "comma",
            None => table.has_decimal_commas(&numbers),
        };
        let mut complete = Vec::new();
        for part in map.split(',').filter(|part| !part.is_empty()) {
            complete.push(match part.split_once('=').filter(|(key, value)| is_named(key.trim(), value)) {
                Some((key, value)) => table.named(key.trim(), value)?,
                None => part.to_string(),
            });
        }
        // What the map leaves out is taken from the names of the first line.
        let left_out = COLUMN_NAMES.iter().filter(|(key, _)| given(key).is_none());
        complete.extend(left_out.filter_map(|(key, _)| Some(table.part(key, find_column(key, &table.names)?))));
        if given("separator").is_none() && table.separator != "," {
            complete.push(format!("separator={}", table.separator));
        }
        if given("decimal").is_none() && table.has_decimal_commas {
            complete.push("decimal=comma".into());
        }
        if given("header").is_none() && table.header_lines > 0 {
            complete.push(format!("header={}", table.header_lines));
        }
        // Units of times and codes of operations vary between programs. What the map gives is not doubted.
        let doubt = ["time", "op"].into_iter().filter(|key| given(key).is_none()).find_map(|key| table.doubt(key));
        Ok(Csv { doubt, names: table.names, ..Csv::new(&complete.join(","))? })
    }
}

/// A message that names the first key without a column, for a table whose first line names its columns; `None` for other tables.
pub(crate) fn missing(head: &[u8]) -> Option<String> {
    let table = HeaderTable::from_head(head, None, None, false);
    let key = ["op", OFFSET, "size"].into_iter().find(|key| find_column(key, &table.names).is_none())?;
    let names = (!table.names.is_empty()).then(|| table.names.join(", "))?;
    Some(format!(
        "it names its columns, {names}, but smrkit does not know which of them is {key}: give {{format}} csv:{key}=NAME"
    ))
}

/// Swaps commas and points in a line, so that points are before decimals.
fn with_points(line: &[u8]) -> Vec<u8> {
    let swapped = |byte: &u8| match byte {
        b',' => b'.',
        b'.' => b',',
        other => *other,
    };
    line.iter().map(swapped).collect()
}

/// True if a value of the map is the name of a column, and not a number or a word of `op`. A unit may follow, as in `stamp:ms`.
fn is_named(key: &str, value: &str) -> bool {
    let column = value.split(':').next().unwrap_or_default();
    let is_word = key == "op" && matches!(column, "read" | "write");
    COLUMN_NAMES.iter().any(|(own, _)| *own == key) && !is_word && column.parse::<u64>().is_err()
}

/// The first lines of a table.
struct HeaderTable {
    separator: String,
    /// Lines up to and including the one with the names; 0 without names.
    header_lines: usize,
    names: Vec<String>,
    /// The first rows below the header.
    rows: Vec<Vec<String>>,
    has_decimal_commas: bool,
}

impl HeaderTable {
    /// Reads names and rows from the first lines of a table. `header` is the number of header lines, if the map gives it; else the first line
    /// is a header if it has no number, and a name that is known or a map that names columns (`is_by_name`).
    fn from_head(head: &[u8], separator: Option<&str>, header: Option<&str>, is_by_name: bool) -> HeaderTable {
        let lines = lines(head);
        let separator = separator.map_or_else(|| guess_separator(&lines), str::to_string);
        let columns = |at: usize| lines.get(at).map_or_else(Vec::new, |(_, line)| split_columns(line, &separator));
        // A text that is no number is reported when the map is parsed.
        let given = header.map(|count| count.parse::<usize>().unwrap_or(0));
        // Of several header lines the last has the names. Without a given header, the first line may have them.
        let through_names = given.map_or(1, |count| lines.iter().take_while(|(number, _)| *number < count).count());
        let names = through_names.checked_sub(1).map_or_else(Vec::new, columns);
        let names = if given.is_some() || is_header(&names, is_by_name) { names } else { Vec::new() };
        let (first_row, header_lines) =
            if names.is_empty() { (0, 0) } else { (through_names, lines[through_names - 1].0 + 1) };
        let rows = (first_row..lines.len()).map(columns).collect();
        HeaderTable { names, separator, header_lines, rows, has_decimal_commas: false }
    }

    /// Replaces the name of a column in a part of the map by its number, and adds its unit.
    fn named(&self, key: &str, value: &str) -> Result<String, Error> {
        let (name, unit) = value.split_once(':').unwrap_or((value, ""));
        let at = self.names.iter().position(|own| own.eq_ignore_ascii_case(name)).ok_or_else(|| {
            Error::Usage(match self.names.is_empty() {
                true => format!("column map: no column is called \"{name}\", for the first line holds no names: give numbers, from 0"),
                false => format!("column map: no column is called \"{name}\": name one of {}", self.names.join(", ")),
            })
        })?;
        Ok(if unit.is_empty() { self.part(key, at) } else { format!("{key}={at}:{unit}") })
    }

    /// The number of the column for `key`: as the map gives it (a number or a name), else by the names in the header.
    fn column(&self, key: &str, given: Option<&str>) -> Option<usize> {
        let Some(given) = given else { return find_column(key, &self.names) };
        let name = given.split(':').next().unwrap_or_default();
        name.parse().ok().or_else(|| self.names.iter().position(|own| own.eq_ignore_ascii_case(name)))
    }

    /// The part of a map for column `at`, with the unit that its name or first value shows.
    fn part(&self, key: &str, at: usize) -> String {
        let unit = match key {
            "time" | "think" | LATENCY => self.unit_of_time(at),
            "size" if self.counts_sectors(at) => "sectors",
            OFFSET | "size" => unit_of_place(&self.names[at]),
            "op" if has_one_as_read(&self.names[at]) => "wr",
            _ => return format!("{key}={at}"),
        };
        format!("{key}={at}:{unit}")
    }

    fn unit_of_time(&self, at: usize) -> &'static str {
        let value = self.values(at).next().and_then(|value| float(&value)).unwrap_or(0.0);
        unit_of_time(&self.names[at]).unwrap_or_else(|| since_an_epoch(value))
    }

    /// The reason to doubt that the column named like `key` has the expected values, if there is one.
    fn doubt(&self, key: &str) -> Option<String> {
        let at = find_column(key, &self.names)?;
        if key == "op" { self.doubt_ops(at) } else { self.doubt_times(at) }
    }

    fn doubt_ops(&self, at: usize) -> Option<String> {
        let name = &self.names[at];
        let ops = self
            .values(at)
            .map(|value| Field { text: value.as_bytes(), at: 0, name: "the op" }.operation(Op::Read, Op::Write).ok());
        let ops: Vec<Option<Op>> = ops.collect();
        let moves_no_data = ops.len() > 1 && ops.iter().all(|op| matches!(op, Some(Op::Flush | Op::Discard)));
        moves_no_data.then(|| {
            format!(
                "the first requests are all discards or flushes by column {name}: if its numbers are decimal codes of SCSI (40 and 42), \
                 write 28 and 2a in their place; if they are right, say so with {{format}} csv:op={at}"
            )
        })
    }

    fn doubt_times(&self, at: usize) -> Option<String> {
        let name = &self.names[at];
        let values: Vec<f64> = self.values(at).filter_map(|value| float(&value)).collect();
        let (first, last) = (*values.first()?, *values.last()?);
        // A time of the years 2001 to 2048 needs no unit: its size gives it (`since_an_epoch`). If that is seconds, any count could look like
        // it, so the first rows must also be within twelve days (1e6 s).
        let is_dated = values.iter().all(|value| is_date(*value)) && (first > 1e11 || last - first < 1e6);
        let is_whole = values.iter().all(|value| value.fract() == 0.0) && last != first;
        (is_whole && !is_dated && unit_of_time(name).is_none()).then(|| {
            format!(
                "column {name} holds whole numbers and tells no unit: say which, as in {{format}} csv:time={at}:us (or s, ms, ns)"
            )
        })
    }

    /// True if a size without a unit counts sectors: addresses are in sectors, and some size is no multiple of a sector in bytes.
    fn counts_sectors(&self, at: usize) -> bool {
        let is_beside_sectors =
            find_column(OFFSET, &self.names).is_some_and(|at| unit_of_place(&self.names[at]) == "sectors");
        let (_, is_ambiguous) = unit_bytes(&self.names[at]);
        let is_no_multiple = |value: String| float(&value).is_some_and(|value| value % SECTOR_BYTES as f64 != 0.0);
        is_ambiguous && is_beside_sectors && self.values(at).any(is_no_multiple)
    }

    /// The first values of a column.
    fn values(&self, at: usize) -> impl Iterator<Item = String> {
        let cells = self.rows.iter().filter_map(move |row| row.get(at));
        cells.map(|cell| match self.has_decimal_commas {
            true => String::from_utf8_lossy(&with_points(cell.as_bytes())).into_owned(),
            false => cell.clone(),
        })
    }

    /// True if the numbers in these columns (times first) have a comma before their decimals, as in German or French. A number such as `1,001`
    /// is ambiguous. The comma is then a decimal one if columns are not separated by commas, or if another number has four digits or more
    /// without a mark between its thousands.
    fn has_decimal_commas(&self, columns: &[Option<usize>; 5]) -> bool {
        let cells = |columns: &[Option<usize>]| -> Vec<&str> {
            let cells = columns.iter().flatten().flat_map(|at| self.rows.iter().filter_map(|row| row.get(*at)));
            cells.map(String::as_str).collect()
        };
        let all = cells(columns);
        let is_ambiguous = |cell: &&str| {
            cell.split_once(',').is_some_and(|(whole, part)| has_digits(whole, 1..=3) && has_digits(part, 3..=3))
        };
        match () {
            () if all.iter().any(|cell| is_marked(cell, '.', ',')) => false,
            () if all.iter().any(|cell| is_marked(cell, ',', '.')) => true,
            () if !cells(&columns[..3]).iter().any(is_ambiguous) => false,
            () => self.separator != "," || all.iter().any(|cell| has_digits(cell, 4..=usize::MAX)),
        }
    }
}

fn has_digits(text: &str, count: std::ops::RangeInclusive<usize>) -> bool {
    count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if a number makes sense only with `decimal` as the decimal separator and `group` between thousands.
fn is_marked(number: &str, decimal: char, group: char) -> bool {
    let (whole, decimals) = match number.split_once(decimal) {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (number, None),
    };
    let groups: Vec<&str> = whole.split(group).collect();
    let is_grouped = has_digits(groups[0], 1..=3) && groups[1..].iter().all(|later| has_digits(later, 3..=3));
    match decimals {
        // With two marks, as in 1.234.567, `group` can't be the decimal separator. With one it could: 1.234 is ambiguous.
        None => is_grouped && groups.len() > 2,
        Some(decimals) if !has_digits(decimals, 1..=usize::MAX) => false,
        Some(_) if groups.len() > 1 => is_grouped,
        // Three decimals may be thousands, unless no group can be before them, as in 1234,567 or 0,567.
        Some(decimals) => {
            has_digits(whole, 1..=usize::MAX) && (decimals.len() != 3 || whole.len() > 3 || whole.starts_with('0'))
        }
    }
}

/// The number of the column for `key`: the one with the best name.
pub(crate) fn find_column(key: &str, names: &[impl AsRef<str>]) -> Option<usize> {
    let (_, known) = COLUMN_NAMES.iter().find(|(own, _)| *own == key)?;
    let split = |at: usize| split_unit(names[at].as_ref());
    let at = known.split(' ').find_map(|known| (0..names.len()).find(|at| split(*at).0 == known))?;
    // A latency needs a unit in its name, because its values say nothing about the unit; `start` without one may be an address.
    let needs_unit = key == LATENCY || split(at).0 == "start";
    (!needs_unit || unit_of_time(names[at].as_ref()).is_some()).then_some(at)
}

/// The unit of time at the end of a column's name.
fn unit_of_time(name: &str) -> Option<&'static str> {
    split_unit(name).1.filter(|(_, is_time)| *is_time).map(|(unit, _)| unit)
}

/// Nanoseconds of the unit of time at the end of a column's name.
pub(crate) fn tick_ns(name: &str) -> Option<u64> {
    time_unit(name, unit_of_time(name)?).ok()
}

/// Bytes of the unit of an address or a size by a column's name, and whether the name could mean either unit.
pub(crate) fn unit_bytes(name: &str) -> (u64, bool) {
    let unit = unit_of_place(name);
    let (own, unit_in_name) = split_unit(name);
    (byte_unit(name, unit).unwrap_or(1), unit == "bytes" && own != "bytes" && unit_in_name.is_none())
}

/// True if 1 stands for a read in a column of this name.
pub(crate) fn has_one_as_read(name: &str) -> bool {
    split_unit(name).0 == "is_read"
}

/// The unit of a time that counts from 1970, or from 1601 as Windows' does, by its size. Smaller numbers are seconds.
fn since_an_epoch(value: f64) -> &'static str {
    // A count is a date of our time in one unit only: 1e11 is in the year 5138 as seconds and in 1973 as milliseconds, and so on. Between
    // microseconds and nanoseconds are Windows' file times, here of the years from 1918 to 4453.
    match value {
        ..1e11 => "s",
        ..1e14 => "ms",
        ..1e17 => "us",
        ..9e17 => "100ns",
        _ => "ns",
    }
}

/// True for a moment of the years from 2001 to 2048 in the unit that its size tells.
fn is_date(value: f64) -> bool {
    match since_an_epoch(value) {
        "100ns" => (1.262e17..1.414e17).contains(&value),
        unit => (1e9..2.5e9).contains(&(value * time_unit("", unit).unwrap_or(1) as f64 / 1e9)),
    }
}

fn unit_of_place(name: &str) -> &'static str {
    let (name, unit) = split_unit(name);
    match unit.filter(|(_, is_time)| !is_time) {
        Some((unit, _)) => unit,
        None if name == "count" || ["lb", "sector", "block"].iter().any(|part| name.contains(part)) => "sectors",
        None => "bytes",
    }
}

/// Normalises a column's name to small letters with underscores, and splits off its unit: "Offset (bytes)" is `offset` in bytes. A unit is
/// its form in a map, and true for a unit of time.
fn split_unit(name: &str) -> (String, Option<(&'static str, bool)>) {
    let name = name.to_lowercase();
    let mut words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let unit = words.last().and_then(|last| UNITS.iter().find(|(called, ..)| called.contains(last)));
    let whole = words.join("_");
    let is_whole = is_called(&whole);
    if let Some((_, unit, is_time, _)) = unit.filter(|_| !is_whole) {
        words.pop();
        return (words.join("_"), Some((unit, *is_time)));
    }
    (whole, None)
}

fn is_called(name: &str) -> bool {
    COLUMN_NAMES.iter().any(|(_, called)| called.split(' ').any(|own| own == name))
}

/// The first complete lines that are not blank, each with the number of lines before it.
fn lines(head: &[u8]) -> Vec<(usize, &str)> {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = whole.split(|byte| *byte == b'\n').enumerate();
    let texts = lines.filter_map(|(number, line)| Some((number, std::str::from_utf8(line).ok()?.trim())));
    // Excel may write the separator in a first line of its own.
    let is_other = |line: &str| line.is_empty() || line.starts_with('#') || line.starts_with("sep=");
    texts.filter(|(_, line)| !is_other(line)).take(HEAD_LINES).collect()
}

/// Returns the separator that splits every line into the most columns; spaces if no other one splits all lines.
fn guess_separator(lines: &[(usize, &str)]) -> String {
    let fewest =
        |separator: &&str| lines.iter().map(|(_, line)| split_columns(line, separator).len()).min().unwrap_or(0);
    // `max_by_key` takes the last of equals; reversed, that is the first of the list.
    let best = [",", ";", "tab", "|"].into_iter().rev().max_by_key(fewest);
    best.into_iter().chain(["space"]).find(|separator| fewest(separator) > 1).unwrap_or(",").to_string()
}

/// The columns of a line, without quotes.
fn split_columns(line: &str, separator: &str) -> Vec<String> {
    let Ok(separator) = self::separator("", separator) else { return vec![line.to_string()] };
    let mut columns = LineColumns::new(line.as_bytes(), separator);
    let texts = std::iter::from_fn(|| columns.optional(""));
    texts.map(|column| str::from_utf8(column.text).unwrap_or_default().trim_matches('"').to_string()).collect()
}

/// True if a line holds names of columns: none of them begins like a number, and one is known, or a map names columns (`is_by_name`).
fn is_header(columns: &[String], is_by_name: bool) -> bool {
    let is_number =
        |column: &String| column.trim_start_matches(['-', '+', '.']).starts_with(|c: char| c.is_ascii_digit());
    let is_known = |column: &String| is_called(&split_unit(column).0);
    !columns.iter().any(is_number) && (is_by_name || columns.iter().any(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::tests::{forced, read, refused, shown};

    #[test]
    fn a_map_says_what_is_wrong_with_it() {
        assert!(Csv::new("time=0:us,op=1,offset=2:bytes,size=3:bytes,volume=4,header=1,separator=;").is_ok());
        assert!(Csv::new("op=write,offset=0:4096,size=1:sectors,separator=space").is_ok());
        let read = |map: &str| Csv { text: String::new(), ..Csv::new(map).unwrap() };
        let plain = read("op=1,offset=2:4096,size=3:4096,header=10");
        assert_eq!(read("op=1,offset=2:4KiB,size=3:4_096,header=0.01k"), plain);
        for (map, part) in [
            ("offset=2,size=3", "op among"),
            ("op=1,size=3", "offset and size"),
            ("op=1,offset=2,size=99", "0 to 63"),
            ("time=0:h,op=1,offset=2,size=3", "s, ms, us"),
            ("op=1,offset=2:0,size=3", "a number of bytes"),
            ("op=1,offset=2,size=3,separator=ab", "one character"),
            ("nonsense", "key=value"),
            ("op=1,offset=2,size=3,heder=1", "\"heder=1\": did you mean `header`?"),
        ] {
            let message = Csv::new(map).unwrap_err().to_string();
            assert!(message.contains(part), "{map}: {message}");
        }
    }

    fn parsed(map: &str, line: &str) -> Result<(u64, u64, u64, u16, Op), String> {
        let (mut csv, mut volumes) = (Csv::new(map).unwrap(), Volumes::default());
        let row = csv.parse(line.as_bytes(), &mut volumes).map_err(|bad| bad.message(line.as_bytes()))?.unwrap();
        Ok((row.ticks, row.offset, row.bytes, row.volume, row.op))
    }

    #[test]
    fn operations_have_words_letters_and_numbers() {
        let op_of = |map: &str, word: &str| parsed(map, &format!("{word},512,1024")).map(|row| row.4);
        let plain = "op=0,offset=1,size=2";
        for (word, op) in [
            ("R", Op::Read),
            ("read", Op::Read),
            ("rs", Op::Read),
            ("w", Op::Write),
            ("WRITE", Op::Write),
            ("WS", Op::Write),
            ("d", Op::Discard),
            ("trim", Op::Discard),
            ("f", Op::Flush),
            ("sync", Op::Flush),
            ("0", Op::Read),
            ("1", Op::Write),
            ("\"read\"", Op::Read),
        ] {
            assert_eq!(op_of(plain, word), Ok(op), "{word}");
        }
        assert!(op_of(plain, "2").unwrap_err().contains("the op is \"2\""));
        let (same, turned) = ("op=0:rw,offset=1,size=2", "op=0:wr,offset=1,size=2");
        assert_eq!([op_of(same, "0"), op_of(same, "1")], [Ok(Op::Read), Ok(Op::Write)]);
        assert_eq!([op_of(turned, "0"), op_of(turned, "1")], [Ok(Op::Write), Ok(Op::Read)]);
        assert_eq!(op_of(turned, "R"), Ok(Op::Read), "words mean what they mean");
        assert_eq!(op_of("op=read,offset=1,size=2", "x"), Ok(Op::Read));
        assert_eq!(op_of("op=write,offset=1,size=2", "x"), Ok(Op::Write));
        assert!(Csv::new("op=0:x,offset=1,size=2").unwrap_err().to_string().contains(":wr (0 is a write)"));
        assert!(Csv::new("op=read:rw,offset=1,size=2").is_err());
    }

    #[test]
    fn columns_are_scaled_by_their_units() {
        let of = |map: &str, line: &str| parsed(map, line).unwrap();
        let rest = "op=read,offset=1:sectors,size=2:sectors";
        for (unit, ticks) in
            [("", 2_000_000_000), (":s", 2_000_000_000), (":ms", 2_000_000), (":us", 2000), (":ns", 2), (":100ns", 2)]
        {
            let map = format!("time=0{unit},{rest}");
            assert_eq!(of(&map, "2,3,4"), (ticks, 3 * 512, 4 * 512, 0, Op::Read), "{unit}");
            assert_eq!(Csv::new(&map).unwrap().tick_ns(), if unit == ":100ns" { 100 } else { 1 });
        }
        assert_eq!(of("op=read,offset=0:4096,size=1:bytes", "3,512"), (0, 12_288, 512, 0, Op::Read));
        assert_eq!(of("time=0,op=read,offset=1,size=2", "1970-01-01T00:00:01Z,0,512").0, 1_000_000_000);
        assert_eq!(of("op=read,offset=0,size=1,separator=tab", "512\t512").1, 512);
        assert_eq!(of("op=read,offset=0,size=1,separator=space", "512   512").1, 512);
        assert_eq!(of("op=0,offset=1,size=2", "F,x,y"), (0, 0, 0, 0, Op::Flush), "a flush has no place");
    }

    #[test]
    fn columns_that_are_wrong_are_called_by_what_they_are() {
        let map = "time=0,op=1,offset=2,size=3,volume=4,think=5";
        for (line, name) in [
            ("x,R,0,512,0,0", "the time"),
            ("0,x,0,512,0,0", "the op"),
            ("0,R,x,512,0,0", "the offset"),
            ("0,R,0,x,0,0", "the size"),
            ("0,R,0,512,99999999999999999999,0", "the volume"),
            ("0,R,0,512,,0", "the volume"),
        ] {
            let error = parsed(map, line).unwrap_err();
            assert!(error.starts_with(name), "{line}: {error}");
        }
        let csv = Csv::new("time=0,op=1,offset=2,size=3,volume=4,think=6").unwrap();
        let names = [0, 1, 2, 3, 4, 5, 6].map(|column| csv.name(column));
        assert_eq!(names, ["the time", "the op", "the offset", "the size", "the volume", "a column", "the think time"]);
    }

    #[test]
    fn volumes_are_numbers_or_names() {
        let (mut csv, mut volumes) = (Csv::new("op=read,offset=0,size=1,volume=2").unwrap(), Volumes::default());
        let mut of =
            |volume: &str| csv.parse(format!("0,512,{volume}").as_bytes(), &mut volumes).unwrap().unwrap().volume;
        assert_eq!([of("7"), of("sda"), of("7"), of("sdb"), of("sda")], [0, 1, 0, 2, 1]);
        let names: Vec<&str> = volumes.list.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!(names, ["7", "sda", "sdb"]);
    }

    #[test]
    fn think_times_add_up_where_they_are_asked_for() {
        let map = "time=0:us,think=3:us,op=read,offset=1,size=2";
        let (mut csv, mut volumes) = (Csv::new(map).unwrap(), Volumes::default());
        let ticks = |csv: &mut Csv, volumes: &mut Volumes| {
            ["5,0,512,10", "6,0,512,20", "7,0,512,30"]
                .map(|line| csv.parse(line.as_bytes(), volumes).unwrap().unwrap().ticks)
        };
        assert!(csv.choose_times(RowTimes::Clock));
        assert_eq!(ticks(&mut csv, &mut volumes), [5000, 6000, 7000]);
        assert!(csv.choose_times(RowTimes::Think));
        assert_eq!(ticks(&mut csv, &mut volumes), [0, 10_000, 30_000]);
        assert!(!csv.choose_times(RowTimes::Response));
        let mut none = Csv::new("op=read,offset=1,size=2").unwrap();
        assert!(!none.choose_times(RowTimes::Think) && none.choose_times(RowTimes::Clock));
    }

    #[test]
    fn headings_are_the_first_lines() {
        let csv = Csv::new("op=read,offset=0,size=1,header=2").unwrap();
        let is_heading = |number| matches!(csv.heading(number, b"x"), Heading::Yes);
        assert_eq!([0, 1, 2].map(is_heading), [true, true, false]);
        assert_eq!(csv.detail(), Some("op=read,offset=0,size=1,header=2"));
        assert!(Csv::new("op=1,offset=2,size=63").is_ok() && Csv::new("op=1,offset=2,size=64").is_err());
        for wrong in ["header=x", "separator=a", "separator=1", "separator=", "colour=1", "time=0:min"] {
            assert!(Csv::new(&format!("op=1,offset=2,size=3,{wrong}")).is_err(), "{wrong}");
        }
    }

    /// The requests of a table, and the map it was read by.
    fn table(text: &str, options: &OpenOptions) -> (Vec<String>, String) {
        let (trace, all) = read(text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(trace.format, "csv");
        (shown(&all), trace.detail().unwrap().to_string())
    }

    #[test]
    fn a_table_with_names_needs_no_map() {
        let plain = "time=0:us,op=1,offset=2:bytes,size=3:bytes";
        let cases = [
            // Rows that look like those of other formats.
            (
                "timestamp,offset,size,op,device\n1700000000000000000,4096,4096,1,0\n1700000001500000000,2097152,512,0,0\n",
                "time=0:ns,op=3,offset=1:bytes,size=2:bytes,volume=4,header=1",
            ),
            (
                "Timestamp,Offset (bytes),Size (bytes),op,device\n1700000000000000,4096,4096,1,0\n1700000001500000,2097152,512,0,0\n",
                "time=0:us,op=3,offset=1:bytes,size=2:bytes,volume=4,header=1",
            ),
            (
                "timestamp,latency_ms,op,disk,lba,sectors\n1001.25,8.25,W,0,8,8\n1002.75,120.5,R,0,4096,1\n",
                "time=0:s,op=2,offset=4:sectors,size=5:sectors,latency=1:ms,volume=3,header=1",
            ),
            (
                "time_us,op,offset,size,latency_us\n5,W,4096,4096,8\n1500005,R,2097152,512,9\n",
                &format!("{plain},latency=4:us,header=1"),
            ),
            (
                "time_us,host,disk,op,offset,size,latency_us\n5,h,0,Write,4096,4096,8\n1500005,h,0,Read,2097152,512,9\n",
                "time=0:us,op=3,offset=4:bytes,size=5:bytes,latency=6:us,volume=2,header=1",
            ),
            (
                "device,offset,size,op,time\n0,4096,4096,W,1.25\n0,2097152,512,R,2.75\n",
                "time=4:s,op=3,offset=1:bytes,size=2:bytes,volume=0,header=1",
            ),
            (
                "time_ms dev lba sectors is_write\n1.25 0 8 8 1\n1501.25 0 4096 1 0\n",
                "time=0:ms,op=4,offset=2:sectors,size=3:sectors,volume=1,separator=space,header=1",
            ),
            (
                "t_us,is_read,io.lba,io.len\n5,0,8,8\n1500005,1,4096,1\n",
                "time=0:us,op=1:wr,offset=2:sectors,size=3:sectors,header=1",
            ),
            // Numbers as other countries and programs write them.
            (
                "time_s;op;offset;size\n1,001;W;4096;4096\n2,501;R;2097152;512\n",
                "time=0:s,op=1,offset=2:bytes,size=3:bytes,separator=;,decimal=comma,header=1",
            ),
            (
                "time_s,op,offset,size\n\"1,001\",\"W\",\"4096\",\"4096\"\n\"2,501\",\"R\",\"2097152\",\"512\"\n",
                "time=0:s,op=1,offset=2:bytes,size=3:bytes,decimal=comma,header=1",
            ),
            (
                "time_us;op;offset;size\n1.000.999;W;4.096;4.096\n2.500.999;R;2.097.152;512\n",
                &format!("{plain},separator=;,decimal=comma,header=1"),
            ),
            (
                "time_us;op;offset;size\n1\u{202f}000\u{202f}999;W;4 096;4 096\n2\u{202f}500\u{202f}999;R;2097152;512\n",
                &format!("{plain},separator=;,header=1"),
            ),
            (
                "sep=,\ntime_us,op,offset,size\n\"1,000,999\",W,\"4,096\",4096.0\n\"2,500,999\",R,\"2,097,152\",512.0\n",
                &format!("{plain},header=2"),
            ),
            (
                "IO Type;Init Time (s);Min Offset;Size (B);Disk\nWrite;\"1.5\";0x1000;\"4,096\";0\nRead;\"3.0\";0x200000;\"512\";0\n",
                "time=1:s,op=0,offset=2:bytes,size=3:bytes,volume=4,separator=;,header=1",
            ),
            (
                "time,op,offset,size\n0,W,4096,4096\n1.5,R,0x200000,512\n",
                "time=0:s,op=1,offset=2:bytes,size=3:bytes,header=1",
            ),
            (
                "# made by me\n\nTimestamp;Type;LBA;Length\n10;write;8;4096\n11.5;read;4096;512\n",
                "time=0:s,op=1,offset=2:sectors,size=3:bytes,separator=;,header=3",
            ),
            (
                "size\toffset\ttime_ms\trw\n4096\t4096\t0\t1\n512\t2097152\t1500\t0\n",
                "time=2:ms,op=3,offset=1:bytes,size=0:bytes,separator=tab,header=1",
            ),
            (
                "\"date\",\"op\",\"sector\",\"sectors\"\n2024-02-29T23:59:59Z,W,8,8\n2024-03-01 00:00:00.5,R,4096,1\n",
                "time=0:s,op=1,offset=2:sectors,size=3:sectors,header=1",
            ),
            (
                "Time (ms)|IO type|Start LBA|Size (sectors)\n5|W|8|8\n1505|R|4096|1\n",
                "time=0:ms,op=1,offset=2:sectors,size=3:sectors,separator=|,header=1",
            ),
            (
                "timestamp,op,offset,size\n1700000000000000,W,4096,4096\n1700000001500000,R,2097152,512\n",
                "time=0:us,op=1,offset=2:bytes,size=3:bytes,header=1",
            ),
            (
                "when,type,LBA,size\n100,W,8,8\n101.5,R,4096,1\n",
                "time=0:s,op=1,offset=2:sectors,size=3:sectors,header=1",
            ),
            (
                "lba count op time\n8 8 W 100\n4096 1 R 101.5\n",
                "time=3:s,op=2,offset=0:sectors,size=1:sectors,separator=space,header=1",
            ),
        ];
        for (text, map) in cases {
            let wanted = ["0 W 8+8@0".to_string(), "1500000000 R 4096+1@0".to_string()];
            for options in [OpenOptions::default(), forced("csv"), forced(&format!("csv:{map}"))] {
                assert_eq!(table(text, &options), (wanted.to_vec(), map.to_string()), "{text}");
            }
        }
    }

    #[test]
    fn what_names_leave_open_is_asked_about() {
        let rest =
            |time: [&str; 2], op| format!("time,op,offset,size\n{},{op},0,512\n{},{op},512,512\n", time[0], time[1]);
        for (text, said, remedy) in [
            (rest(["1000999", "1001499"], "W"), "tells no unit", "csv:time=0:us"),
            (rest(["1000999.0", "1001499.0"], "W"), "tells no unit", "csv:time=0:us"),
            (rest(["0.5", "1"], "42"), "all discards or flushes", "csv:op=1"),
        ] {
            for options in [OpenOptions::default(), forced("csv")] {
                let error = refused(text.as_bytes(), &options);
                assert!(error.contains(said) && error.contains(remedy), "{error}");
            }
            assert_eq!(table(&text, &forced(remedy)).0.len(), 2);
        }
        for time in [["1700000000", "1700000001"], ["0.5", "1"], ["7", "7"]] {
            assert_eq!(table(&rest(time, "W"), &OpenOptions::default()).0.len(), 2, "{time:?}");
        }
        let error = refused(b"time_us,op,offset,size_kb\n1,W,0,0.5\n", &OpenOptions::default());
        assert!(error.contains("time_us, op, offset, size_kb") && error.contains("csv:size=NAME"), "{error}");
    }

    #[test]
    fn a_map_may_use_names_and_leave_the_rest_to_the_table() {
        let text = "id|when|kind|where|how_long\n1|0|W|8|8\n2|3|R|9|1\n";
        let map = "csv:time=when:ms,op=kind,offset=where:sectors,size=how_long:sectors,header=1";
        assert_eq!(table(text, &forced(map)).0, ["0 W 8+8@0", "3000000 R 9+1@0"]);
        let unknown = "stamp;kind;place;long\n1;W;4096;512\n";
        assert_eq!(table(unknown, &forced("csv:time=stamp:ns,op=kind,offset=place,size=long")).0, ["0 W 8+1@0"]);
        let plain = "1;W;4096;512\n2;R;0;512\n";
        assert_eq!(table(plain, &forced("csv:time=0,op=1,offset=2,size=3")).0, ["0 W 8+1@0", "1000000000 R 0+1@0"]);
        let irregular = "1,W,4096,512,a b\n2,R,0,512\n3,R,0,512,c d\n";
        assert_eq!(table(irregular, &forced("csv:time=0,op=1,offset=2,size=3")).0.len(), 3);
    }

    #[test]
    fn what_the_names_do_not_tell_is_asked_for() {
        let error = |text: &str, format: &str| refused(text.as_bytes(), &forced(format));
        let unknown = error("id,when,op\n1,2,R\n", "csv:time=nope,op=op,offset=id,size=id");
        assert!(unknown.contains("no column is called \"nope\"") && unknown.contains("id, when, op"), "{unknown}");
        let nameless = error("1;2;3\n", "csv:time=when,op=1,offset=2,size=0");
        assert!(nameless.contains("holds no names"), "{nameless}");
        let missing = error("time,op,offset\n1,R,2\n", "csv");
        assert!(missing.contains("size"), "{missing}");
        // Without a column that says what a request is, nothing is guessed.
        let unread = refused(b"time,offset,size\n1,2,3\n", &OpenOptions::default());
        assert!(unread.contains("no known format"), "{unread}");
    }

    #[test]
    fn a_unit_is_told_by_the_name_or_by_how_far_the_epoch_lies() {
        let cases = [(0.0, "s"), (1.7e9, "s"), (1.7e12, "ms"), (1.7e15, "us"), (1.28e17, "100ns"), (1.7e18, "ns")];
        for (value, unit) in cases {
            assert_eq!(since_an_epoch(value), unit, "{value}");
        }
        assert!([1.7e9, 1.7e12, 1.7e15, 1.28e17, 1.7e18].into_iter().all(is_date));
        // That of a vSCSI trace counts microseconds from the start of the host.
        assert!(![0.0, 3e9, 5_633_898_611_441.0, 9e17].into_iter().any(is_date));
        assert_eq!(split_unit("Offset (bytes)"), ("offset".into(), Some(("bytes", false))));
        assert_eq!(split_unit("bytes"), ("bytes".into(), None));
        assert_eq!(split_unit("R/W"), ("r_w".into(), None));
    }
}
