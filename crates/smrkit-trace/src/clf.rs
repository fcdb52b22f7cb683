//! Web-server logs in Common Log Format, and the combined format that adds columns to it.
//!
//! `host ident user [day/month/year:h:m:s zone] "METHOD target protocol" status bytes …`. A GET answered with 2xx reads the
//! object, a POST or PUT writes it, both with the size that was logged; all else is no request. Objects are laid out on
//! first sight, one after another, each at a multiple of 4 KiB. An object that is later seen larger moves to the end with
//! its new size; the old place stays unused. A smaller size touches the object's beginning. The table of objects is the one
//! thing whose memory grows with the trace: with the number of distinct targets.

use std::collections::HashMap;

use crate::iso;
use crate::reader::TextFormat;
use crate::row::{BYTES_MAX, Bad, Field, Problem, TraceRow, Volumes};
use smrkit::request::Op;

/// Objects begin at multiples of this.
const PAGE: u64 = 4096;

/// The reader's state: where each object lies.
#[derive(Debug, Default)]
pub(crate) struct Clf {
    /// First byte and room of each object.
    objects: HashMap<Box<[u8]>, (u64, u64)>,
    end: u64,
}

impl Clf {
    /// The first byte of `target`, with room for `bytes`; none where the address space is full.
    fn place(&mut self, target: &[u8], bytes: u64) -> Option<u64> {
        let known = self.objects.get_mut(target);
        if let Some((first, room)) = &known
            && *room >= bytes
        {
            return Some(*first);
        }
        let (first, room) = (self.end, bytes.div_ceil(PAGE) * PAGE);
        self.end = first.checked_add(room).filter(|end| *end < 1 << 63)?;
        match known {
            Some(place) => *place = (first, room),
            None => {
                self.objects.insert(target.into(), (first, room));
            }
        }
        Some(first)
    }
}

impl TextFormat for Clf {
    fn tick_ns(&self) -> u64 {
        1_000_000_000
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let missing = |name| Bad { at: line.len(), len: 0, name, problem: Problem::Missing };
        let open = memchr::memchr(b'[', line).filter(|at| *at > 0).ok_or_else(|| missing("the time in brackets"))?;
        let close = memchr::memchr(b']', &line[open..]).ok_or_else(|| missing("the bracket after the time"))? + open;
        let time = Field { text: &line[open + 1..close], at: open + 1, name: "the time" };
        let ticks = seconds(time.text).ok_or_else(|| time.expected("a time such as 01/Jul/1995:00:00:01 -0400"))?;
        let quote = memchr::memchr(b'"', &line[close..]).ok_or_else(|| missing("the request in quotes"))? + close;
        let (end, status, size) = answer(line, quote + 1).ok_or_else(|| missing("the status and the size"))?;
        let bytes = match size.text {
            b"-" => 0,
            _ => size.integer()?,
        };
        let mut words = line[quote + 1..end].split(|b| *b == b' ').filter(|word| !word.is_empty());
        let op = match words.next() {
            Some(b"GET") => Op::Read,
            Some(b"POST" | b"PUT") => Op::Write,
            _ => return Ok(None),
        };
        let Some(target) = words.next().filter(|_| status.text[0] == b'2' && bytes > 0) else {
            return Ok(None);
        };
        if bytes > BYTES_MAX {
            return Err(size.bad(Problem::TooLong));
        }
        let offset = self.place(target, bytes).ok_or_else(|| size.bad(Problem::Overflow))?;
        let volume = volumes.numbered(0, size, || "objects".into())?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// The end of the request, the status and the size behind it: the first `" ddd ` with a number or a dash after it, since
/// targets may hold quotes.
fn answer(line: &[u8], from: usize) -> Option<(usize, Field<'_>, Field<'_>)> {
    for at in memchr::memchr_iter(b'"', &line[from..]) {
        let end = from + at;
        let [b'"', b' ', a, b, c, b' ', size @ ..] = &line[end..] else {
            continue;
        };
        if !(a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit()) {
            continue;
        }
        let length = memchr::memchr(b' ', size).unwrap_or(size.len());
        if length == 0 {
            return None;
        }
        let status = Field { text: &line[end + 2..end + 5], at: end + 2, name: "the status" };
        return Some((end, status, Field { text: &size[..length], at: end + 6, name: "the size" }));
    }
    None
}

/// Seconds from 1970 in UTC of `01/Jul/1995:00:00:01 -0400`.
fn seconds(text: &[u8]) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.iter().try_fold(0, |v, b| b.is_ascii_digit().then(|| v * 10 + i64::from(b - b'0')))
    };
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if text.len() != 26 || marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let month = MONTHS.iter().position(|m| *m == &text[3..6])? as i64 + 1;
    let date = [number(7..11)?, month, number(0..2)?];
    let (clock, ahead_s) = iso::zone(std::str::from_utf8(&text[21..]).ok()?)?;
    let clock_is_over = clock.is_empty();
    iso::seconds(date, [number(12..14)?, number(15..17)?, number(18..20)?], ahead_s).filter(|_| clock_is_over)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_seconds() {
        assert_eq!(seconds(b"01/Jan/1970:00:00:01 +0000"), Some(1));
        assert_eq!(seconds(b"01/Jul/1995:00:00:01 -0400"), Some(804_571_201));
        assert_eq!(seconds(b"29/Feb/2024:12:00:00 +0100"), Some(1_709_204_400));
        assert_eq!(seconds(b"01/Jan/1969:00:00:01 +0000"), None);
        assert_eq!(seconds(b"01/Jul/1995:00:00:60 -0400"), Some(804_571_260));
        for wrong in [
            "99/Jul/1995:00:00:01 -0400",
            "31/Jun/1995:00:00:01 -0400",
            "01/Jul/1995:24:00:01 -0400",
            "01/Jul/1995:00:60:01 -0400",
            "01/Jul/1995:00:00:61 -0400",
            "01/Jul/1995:00:00:01 *0400",
            "01/Jul/1995:00:00:01 -2400",
            "01/Jul/1995:00:00:01 +0160",
            "01-Jul/1995:00:00:01 -0400",
            "01/Jul/1995:00:00:01 -04000",
        ] {
            assert_eq!(seconds(wrong.as_bytes()), None, "{wrong}");
        }
    }

    fn parsed(line: &str) -> Result<Option<(u64, u64, Op)>, &'static str> {
        let (mut clf, mut volumes) = (Clf::default(), Volumes::default());
        let row = clf.parse(line.as_bytes(), &mut volumes).map_err(|bad| bad.name)?;
        Ok(row.map(|row| (row.ticks, row.bytes, row.op)))
    }

    #[test]
    fn objects_keep_their_place_until_they_outgrow_it() {
        let mut clf = Clf::default();
        assert_eq!(clf.place(b"/a", 1), Some(0));
        assert_eq!(clf.place(b"/a", 4096), Some(0));
        assert_eq!(clf.place(b"/b", 4097), Some(4096));
        assert_eq!(clf.place(b"/a", 4097), Some(12_288), "it moves to the end with its new size");
        assert_eq!((clf.place(b"/a", 8192), clf.place(b"/b", 8192)), (Some(12_288), Some(4096)));
        clf.end = (1 << 63) - 8192;
        assert_eq!(clf.place(b"/c", 4096), Some((1 << 63) - 8192));
        assert_eq!(clf.place(b"/d", 4096), None, "the address space ends");
    }

    #[test]
    fn only_answered_reads_and_writes_of_something_are_requests() {
        let line = |request: &str, end: &str| format!("host - - [01/Jan/1970:00:00:09 +0000] \"{request}\" {end}");
        let of = |request: &str, end: &str| parsed(&line(request, end));
        assert_eq!(of("GET /a HTTP/1.0", "200 512"), Ok(Some((9, 512, Op::Read))));
        assert_eq!(of("POST /a HTTP/1.0", "201 7 \"referer\" \"agent\""), Ok(Some((9, 7, Op::Write))));
        assert_eq!(of("PUT /a", "299 7"), Ok(Some((9, 7, Op::Write))));
        assert_eq!(of("GET /a\" 20 x\" b HTTP/1.0", "200 3"), Ok(Some((9, 3, Op::Read))), "a target with quotes");
        for (request, end) in [
            ("HEAD /a HTTP/1.0", "200 512"),
            ("GET /a HTTP/1.0", "304 512"),
            ("GET /a HTTP/1.0", "200 -"),
            ("GET /a HTTP/1.0", "200 0"),
            ("GET ", "200 5"),
            ("", "200 5"),
        ] {
            assert_eq!(of(request, end), Ok(None), "{request} {end}");
        }
        assert_eq!(of("GET /a", &format!("200 {BYTES_MAX}")), Ok(Some((9, BYTES_MAX, Op::Read))));
        assert_eq!(of("GET /a", &format!("200 {}", BYTES_MAX + 1)), Err("the size"));
        assert_eq!(of("GET /a", "200 x"), Err("the size"));
    }

    #[test]
    fn what_is_missing_of_a_line_is_named() {
        for (line, name) in [
            ("host - - 01/Jan/1970", "the time in brackets"),
            ("[01/Jan/1970:00:00:09 +0000] \"GET /a\" 200 5", "the time in brackets"),
            ("host - - [01/Jan/1970:00:00:09 +0000", "the bracket after the time"),
            ("host - - [01/Jan/1970] \"GET /a\" 200 5", "the time"),
            ("host - - [01/Jan/1970:00:00:09 +0000] GET /a 200 5", "the request in quotes"),
            ("host - - [01/Jan/1970:00:00:09 +0000] \"GET /a\"", "the status and the size"),
            ("host - - [01/Jan/1970:00:00:09 +0000] \"GET /a\" 20x 5", "the status and the size"),
            ("host - - [01/Jan/1970:00:00:09 +0000] \"GET /a\" 200 ", "the status and the size"),
        ] {
            assert_eq!(parsed(line), Err(name), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let at = |line: &str| {
            let bad = Clf::default().parse(line.as_bytes(), &mut Volumes::default()).unwrap_err();
            (bad.name, bad.at, bad.len)
        };
        assert_eq!(at("h - - [x] \"GET /a\" 200 5"), ("the time", 7, 1));
        assert_eq!(at("h - - [01/Jan/1970:00:00:09 +0000] \"GET /a\" 200 5x y"), ("the size", 48, 2));
        assert_eq!(
            answer(b"\" 2x0 7\" 404 8", 0).map(|(end, status, size)| (end, status.at, size.at)),
            Some((7, 9, 13))
        );
        assert_eq!(answer(b"x\" 200 7", 2).map(|found| found.0), None);
    }
}
