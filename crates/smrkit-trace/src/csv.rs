//! Any text table, by a map of its columns: `time=0:us,op=1,offset=2:bytes,size=3:bytes,volume=4,think=5:us,header=1,separator=;`.
//!
//! Columns count from 0; `csv_header` puts numbers in place of names, and adds what the map leaves out. A time may be a moment of ISO
//! 8601. Units of time: s (the default), ms, us, ns, 100ns. Units of offset and size: bytes (the default),
//! sectors, or a number of bytes. `op` is a column of R, W, D, F, their words (read, write, discard or trim, flush or sync),
//! or 0 and 1; `op=1:wr` says that 0 is a write and 1 a read, `op=read` or `op=write` that all rows are. `header` is the
//! number of lines to skip, `separator` one character, `tab` or `space` (any run of spaces and tabs). `time`, `think` (the pause
//! after a request), `volume`, `header` and `separator` may be left out.

use crate::iso;
use crate::row::{Bad, Field, LineColumns, Problem, Separator, TraceRow, extent};
use crate::text::{Heading, TextFormat};
use crate::times::RowTimes;
use crate::volumes::Volumes;
use smrkit::error::Error;
use smrkit::names::known;
use smrkit::quantity::{parse_bytes, parse_count};
use smrkit::request::Op;

/// Columns that a map may speak of.
const COLUMNS_MAX: usize = 64;

/// The map, as parsed; it is the reader's whole state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Csv {
    time: Option<(usize, u64)>,
    /// The think time after a request.
    think: Option<(usize, u64)>,
    op: OpColumn,
    offset: (usize, u64),
    size: (usize, u64),
    volume: Option<usize>,
    header: u64,
    separator: Separator,
    columns: usize,
    /// The whole map, for people.
    text: String,
    /// The think times so far, where they are the times asked for.
    thought: Option<u64>,
}

/// Source of the kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpColumn {
    Always(Op),
    At { column: usize, zero: Op, one: Op },
}

/// Keys of a map.
const KEYS: [&str; 8] = ["time", "think", "op", "offset", "size", "volume", "header", "separator"];

const EXAMPLE: &str = "csv:time=0:us,op=1,offset=2:bytes,size=3:bytes";

impl Csv {
    /// Understands a map.
    pub fn new(map: &str) -> Result<Csv, Error> {
        let mut csv = Csv {
            time: None,
            think: None,
            op: OpColumn::Always(Op::Read),
            offset: (usize::MAX, 1),
            size: (usize::MAX, 1),
            volume: None,
            header: 0,
            separator: Separator::Byte(b','),
            columns: 0,
            text: map.to_string(),
            thought: None,
        };
        let mut op = None;
        for part in map.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong(part, "key=value"))?;
            let (column, unit) = value.split_once(':').unwrap_or((value, ""));
            match key.trim() {
                "time" => csv.time = Some((csv.column(part, column)?, time_unit(part, unit)?)),
                "think" => csv.think = Some((csv.column(part, column)?, time_unit(part, unit)?)),
                "op" => op = Some(csv.op_column(part, column, unit)?),
                "offset" => csv.offset = (csv.column(part, column)?, byte_unit(part, unit)?),
                "size" => csv.size = (csv.column(part, column)?, byte_unit(part, unit)?),
                "volume" => csv.volume = Some(csv.column(part, column)?),
                "header" => csv.header = parse_count(value).map_err(|_| wrong(part, "a number of lines"))?,
                "separator" => csv.separator = separator(part, value)?,
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

fn time_unit(part: &str, unit: &str) -> Result<u64, Error> {
    match unit {
        "s" | "" => Ok(1_000_000_000),
        "ms" => Ok(1_000_000),
        "us" => Ok(1000),
        "100ns" => Ok(100),
        "ns" => Ok(1),
        _ => Err(wrong(part, "s, ms, us, ns or 100ns after time's column")),
    }
}

fn byte_unit(part: &str, unit: &str) -> Result<u64, Error> {
    match unit {
        "bytes" | "" => Ok(1),
        "sectors" => Ok(512),
        _ => {
            parse_bytes(unit).ok().filter(|n| *n > 0).ok_or_else(|| wrong(part, "bytes, sectors or a number of bytes"))
        }
    }
}

fn separator(part: &str, text: &str) -> Result<Separator, Error> {
    match text.as_bytes() {
        b"space" => Ok(Separator::Spaces),
        b"tab" => Ok(Separator::Byte(b'\t')),
        [byte] if byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric() => Ok(Separator::Byte(*byte)),
        _ => Err(wrong(part, "one character, tab or space")),
    }
}

fn op(field: Field, zero: Op, one: Op) -> Result<Op, Bad> {
    let is = |words: &[&str]| words.iter().any(|w| field.text.eq_ignore_ascii_case(w.as_bytes()));
    match field.text {
        b"0" => Ok(zero),
        b"1" => Ok(one),
        _ if is(&["R", "read", "RS"]) => Ok(Op::Read),
        _ if is(&["W", "write", "WS"]) => Ok(Op::Write),
        _ if is(&["D", "discard", "trim"]) => Ok(Op::Discard),
        _ if is(&["F", "flush", "sync"]) => Ok(Op::Flush),
        _ => Err(field.expected("R, W, D, F, read, write, discard, flush, 0 or 1")),
    }
}

/// Column names for messages, which must be static: the roles say more than the numbers.
const NAMES: [&str; 7] = ["the time", "the op", "the offset", "the size", "the volume", "a column", "the think time"];

impl TextFormat for Csv {
    fn tick_ns(&self) -> u64 {
        // Whole and decimal times alike are scaled to nanoseconds, save for file times, which would not fit.
        if matches!(self.time, Some((_, 100))) { 100 } else { 1 }
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.thought = (times == RowTimes::Think && self.think.is_some()).then_some(0);
        times == RowTimes::Clock || self.thought.is_some()
    }

    fn detail(&self) -> Option<&str> {
        Some(&self.text)
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
        let unquoted = |n: usize, name| {
            let field = fields[n];
            let text = field.text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")).unwrap_or(field.text);
            Field { text, name, ..field }
        };
        let think = match self.think.filter(|_| self.thought.is_some()) {
            None => 0,
            Some((column, unit)) => unquoted(column, NAMES[6]).decimal(unit)?,
        };
        let ticks = match self.time {
            _ if self.thought.is_some() => self.thought.unwrap_or(0) / self.tick_ns(),
            None => 0,
            Some((column, 100)) => unquoted(column, NAMES[0]).decimal(1)?,
            Some((column, unit)) => {
                let time = unquoted(column, NAMES[0]);
                time.decimal(unit).or_else(|bad| iso::nanoseconds(time.text).ok_or(bad))?
            }
        };
        let op = match self.op {
            OpColumn::Always(op) => op,
            OpColumn::At { column, zero, one } => op(unquoted(column, NAMES[1]), zero, one)?,
        };
        let (offset, bytes) = match op {
            Op::Flush => (0, 0),
            _ => {
                let (offset, size) = (unquoted(self.offset.0, NAMES[2]), unquoted(self.size.0, NAMES[3]));
                extent(offset, self.offset.1, size, self.size.1)?
            }
        };
        let volume = match self.volume {
            None => volumes.numbered(0, fields[0], || "0".into())?,
            Some(column) => {
                let field = unquoted(column, NAMES[4]);
                match field.integer() {
                    Ok(number) => volumes.numbered(number, field, || number.to_string())?,
                    Err(bad) if bad.problem == Problem::Overflow || field.text.is_empty() => return Err(bad),
                    Err(_) => volumes.named(field.text, None, field)?,
                }
            }
        };
        self.thought = self.thought.map(|sum| sum.saturating_add(think));
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

impl Csv {
    fn name(&self, column: usize) -> &'static str {
        match column {
            n if self.time.is_some_and(|(column, _)| column == n) => NAMES[0],
            n if matches!(self.op, OpColumn::At { column, .. } if column == n) => NAMES[1],
            n if self.offset.0 == n => NAMES[2],
            n if self.size.0 == n => NAMES[3],
            n if self.volume == Some(n) => NAMES[4],
            n if self.think.is_some_and(|(column, _)| column == n) => NAMES[6],
            _ => NAMES[5],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let names: Vec<&str> = volumes.list().iter().map(|volume| volume.name.as_str()).collect();
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
}
