//! The columns of a table as its first lines tell them: separator, header, and which column is which by name.

use smrkit::error::Error;
use smrkit::units::SECTOR_BYTES;

/// Lines that are looked at.
const LINES: usize = 16;

/// Names of columns by the key of the map, in small letters and without a unit. `action` and `rwbs` of `blkparse` are none: their
/// letters mean other things.
const NAMES: [(&str, &[&str]); 6] = [
    (
        "time",
        &["time", "timestamp", "ts", "date", "datetime", "start_time", "arrival_time", "arrival", "issue_time", "when"],
    ),
    ("think", &["think", "think_time"]),
    ("op", &["op", "operation", "opcode", "type", "io_type", "iotype", "op_type", "rw", "r_w", "direction"]),
    ("offset", &["offset", "lba", "lbn", "sector", "start_sector", "address", "addr", "start_lba", "block"]),
    ("size", &["size", "length", "len", "bytes", "count", "sectors", "nr_sectors", "num_sectors", "blocks", "io_size"]),
    ("volume", &["volume", "vol", "device", "dev", "disk", "volume_id", "device_id", "disk_id", "lun", "disknumber"]),
];

/// Number of the offset among the names.
const OFFSET: usize = 3;

/// Units as columns' names end with them, as a map writes them, and whether they are of time.
const UNITS: [(&[&str], &str, bool); 6] = [
    (&["s", "sec", "secs", "seconds"], "s", true),
    (&["ms", "msec", "milliseconds"], "ms", true),
    (&["us", "usec", "µs", "microseconds"], "us", true),
    (&["ns", "nsec", "nanoseconds"], "ns", true),
    (&["bytes", "byte", "b"], "bytes", false),
    (&["sectors", "sector"], "sectors", false),
];

/// The map of a table whose first bytes are `head`: `map` with numbers in place of names, and what it leaves out as the first
/// lines tell it.
pub(crate) fn completed(map: &str, head: &[u8]) -> Result<String, Error> {
    let parts: Vec<(&str, &str)> = map.split(',').filter_map(|part| part.split_once('=')).collect();
    let given = |key: &str| parts.iter().find(|(own, _)| own.trim() == key).map(|(_, value)| *value);
    let table = HeaderTable::from_head(head, given("separator"), given("header"));
    let mut whole = Vec::new();
    for part in map.split(',').filter(|part| !part.is_empty()) {
        whole.push(match part.split_once('=').filter(|(key, value)| is_named(key.trim(), value)) {
            Some((key, value)) => table.named(key.trim(), value)?,
            None => part.to_string(),
        });
    }
    let left_out = NAMES.iter().filter(|(key, _)| given(key).is_none());
    whole.extend(left_out.filter_map(|(key, called)| table.found(key, called)));
    if given("separator").is_none() && table.separator != "," {
        whole.push(format!("separator={}", table.separator));
    }
    if given("header").is_none() && table.header > 0 {
        whole.push(format!("header={}", table.header));
    }
    Ok(whole.join(","))
}

/// True if a value of the map is a column's name, which is looked up: no number, and no word of `op`.
fn is_named(key: &str, value: &str) -> bool {
    let column = value.split(':').next().unwrap_or_default();
    let is_word = key == "op" && matches!(column, "read" | "write");
    NAMES.iter().any(|(own, _)| *own == key) && !is_word && column.parse::<u64>().is_err()
}

/// The first lines of a table.
struct HeaderTable {
    separator: String,
    /// Lines up to the one with the names.
    header: usize,
    names: Vec<String>,
    /// The first rows.
    rows: Vec<Vec<String>>,
}

impl HeaderTable {
    fn from_head(head: &[u8], separator: Option<&str>, header: Option<&str>) -> HeaderTable {
        let lines = lines(head);
        let separator = separator.map_or_else(|| sniffed(&lines), str::to_string);
        let cut = |at: usize| lines.get(at).map_or_else(Vec::new, |(_, line)| columns(line, &separator));
        let given = header.map(|count| count.parse::<usize>().unwrap_or(0));
        // Where a header of several lines is given, its last has the names.
        let last = given.map_or(1, |count| lines.iter().take_while(|(number, _)| *number < count).count());
        let names = last.checked_sub(1).map_or_else(Vec::new, cut);
        let is_header = given.is_some() || is_header(&names);
        let names = if is_header { names } else { Vec::new() };
        let header = if names.is_empty() { 0 } else { lines[last - 1].0 + 1 };
        let rows = (if header > 0 { last } else { 0 }..lines.len()).map(|at| owned(&cut(at))).collect();
        HeaderTable { names: owned(&names), separator, header, rows }
    }

    /// The part of a map that names a column, with its number and unit.
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

    /// The part of a map for `key`'s column: of the names that it may have, the first that there is.
    fn found(&self, key: &str, called: &[&str]) -> Option<String> {
        let at = called.iter().find_map(|own| self.names.iter().position(|name| plain(name).0 == *own));
        Some(self.part(key, at?))
    }

    /// The part of a map for this column, with the unit that its name or its first value tells.
    fn part(&self, key: &str, at: usize) -> String {
        let unit = match key {
            "time" | "think" => self.unit_of_time(at),
            "size" if self.counts_sectors(at) => "sectors",
            "offset" | "size" => unit_of_place(&self.names[at]),
            _ => return format!("{key}={at}"),
        };
        format!("{key}={at}:{unit}")
    }

    fn unit_of_time(&self, at: usize) -> &'static str {
        let told = plain(&self.names[at]).1.filter(|(_, is_time)| *is_time);
        let value = self.values(at).next().and_then(|value| value.parse().ok()).unwrap_or(0.0);
        told.map_or_else(|| since_an_epoch(value), |(unit, _)| unit)
    }

    /// True for a size without a unit that stands next to an address in sectors, some values of which are no multiple of a sector's bytes.
    fn counts_sectors(&self, at: usize) -> bool {
        let called = &NAMES[OFFSET].1;
        let offset = self.names.iter().find(|name| called.contains(&plain(name).0.as_str()));
        let is_beside_sectors = offset.is_some_and(|name| unit_of_place(name) == "sectors");
        let is_told = plain(&self.names[at]).0 == "bytes" || plain(&self.names[at]).1.is_some();
        let is_odd = |value: &str| value.parse::<u64>().is_ok_and(|value| value % SECTOR_BYTES != 0);
        !is_told && is_beside_sectors && self.values(at).any(is_odd)
    }

    /// The first values of a column.
    fn values(&self, at: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(at)).map(String::as_str)
    }
}

/// The unit of a whole number that counts from 1970, or from 1601 as Windows does; what is too small counts seconds.
fn since_an_epoch(value: f64) -> &'static str {
    match value {
        ..1e11 => "s",
        ..1e14 => "ms",
        ..1e17 => "us",
        ..9e17 => "100ns",
        _ => "ns",
    }
}

fn unit_of_place(name: &str) -> &'static str {
    let (name, unit) = plain(name);
    match unit.filter(|(_, is_time)| !is_time) {
        Some((unit, _)) => unit,
        None if name == "count" || ["lb", "sector", "block"].iter().any(|part| name.contains(part)) => "sectors",
        None => "bytes",
    }
}

/// A unit as a map writes it, and whether it is of time.
type Unit = (&'static str, bool);

/// A column's name in small letters, its words between underscores, and the unit at its end: "Offset (bytes)" is `offset` in bytes.
fn plain(name: &str) -> (String, Option<Unit>) {
    let name = name.to_lowercase();
    let mut words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let unit = words.last().and_then(|last| UNITS.iter().find(|(called, ..)| called.contains(last)));
    let whole = words.join("_");
    let is_whole = NAMES.iter().any(|(_, called)| called.contains(&whole.as_str()));
    if let Some((_, unit, is_time)) = unit.filter(|_| !is_whole) {
        words.pop();
        return (words.join("_"), Some((unit, *is_time)));
    }
    (whole, None)
}

/// The first whole lines that say anything, and how many lie before each.
fn lines(head: &[u8]) -> Vec<(usize, &str)> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let lines = whole.split(|byte| *byte == b'\n').enumerate();
    let texts = lines.filter_map(|(number, line)| Some((number, std::str::from_utf8(line).ok()?.trim())));
    texts.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).take(LINES).collect()
}

/// The mark that cuts every line into most columns; blanks where none cuts them all.
fn sniffed(lines: &[(usize, &str)]) -> String {
    let least = |separator: &&str| lines.iter().map(|(_, line)| columns(line, separator).len()).min().unwrap_or(0);
    // Of equals the first.
    let best = [",", ";", "tab", "|"].into_iter().rev().max_by_key(least);
    let spaces = Some("space").filter(|separator| least(separator) > 1);
    best.filter(|separator| least(separator) > 1).or(spaces).unwrap_or(",").to_string()
}

/// The columns of a line, without quotes.
fn columns<'a>(line: &'a str, separator: &str) -> Vec<&'a str> {
    let cut: Vec<&str> = match separator {
        "space" => line.split_whitespace().collect(),
        "tab" => line.split('\t').collect(),
        other => line.split(other).collect(),
    };
    cut.into_iter().map(|column| column.trim().trim_matches('"')).collect()
}

fn owned(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| column.to_string()).collect()
}

/// True if a line holds names: no column of it begins as a number does, and one is called as columns are.
fn is_header(columns: &[&str]) -> bool {
    let is_number =
        |column: &&str| column.trim_start_matches(['-', '+', '.']).starts_with(|c: char| c.is_ascii_digit());
    let is_known = |column: &&str| {
        let name = plain(column).0;
        NAMES.iter().any(|(_, called)| called.contains(&name.as_str()))
    };
    !columns.iter().any(is_number) && columns.iter().any(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::tests::{forced, read, refused, shown};

    /// The requests of a table, and the map it was read by.
    fn table(text: &str, options: &OpenOptions) -> (Vec<String>, String) {
        let (trace, all) = read(text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(trace.format(), "csv");
        (shown(&all), trace.detail().unwrap().to_string())
    }

    #[test]
    fn a_table_with_names_needs_no_map() {
        let cases = [
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
    fn a_map_may_use_names_and_leave_the_rest_to_the_table() {
        let text = "id|when|kind|where|how_long\n1|0|W|8|8\n2|3|R|9|1\n";
        let map = "csv:time=when:ms,op=kind,offset=where:sectors,size=how_long:sectors,header=1";
        assert_eq!(table(text, &forced(map)).0, ["0 W 8+8@0", "3000000 R 9+1@0"]);
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
        assert_eq!(plain("Offset (bytes)"), ("offset".into(), Some(("bytes", false))));
        assert_eq!(plain("bytes"), ("bytes".into(), None));
        assert_eq!(plain("R/W"), ("r_w".into(), None));
    }
}
