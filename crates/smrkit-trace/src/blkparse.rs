//! Text of Linux block traces: what `blkparse` prints in its default format (blktrace's manual, "Output description and formatting"),
//! and the FIU traces.
//!
//! Of blkparse's events, one kind is read: Q (queued: the host's requests), or D (issued) if the trace's beginning has no Q, or C
//! (completed) if it has neither. All other events, messages and the summary at the end are well-formed, but no requests. D in RWBS is a
//! discard, a leading F without sectors a flush. A flush in front of a write (`FW` with sectors) is taken as the write alone. Of the zone
//! operations (a leading Z; blktrace with version 2 of its protocol) ZR, the reset of a zone, is the discard of its sectors; ZO and ZC,
//! which open and close a zone, are skipped, since a write does that too; ZA, ZF and ZRA are errors.

use crate::reader::{RowTimes, TextFormat};
use crate::row::{Bad, Field, LineColumns, Problem, Rwbs, TraceRow, Volumes, extent, rwbs};
use smrkit::request::Op;

/// The reader's state.
#[derive(Debug, Default)]
pub(crate) struct Blkparse {
    choice: EventChoice,
    /// True once the summary at the end of the output has begun.
    in_summary: bool,
}

impl Blkparse {
    /// A reader of the events that `action` names: Q, D or C.
    pub fn choosing(action: &str) -> Option<Blkparse> {
        let event = Some(Event::from_action(action.as_bytes())?);
        Some(Blkparse { choice: EventChoice { event, is_asked_for: true }, in_summary: false })
    }
}

/// The events that can stand for requests, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The requests that the host sent.
    Queued,
    /// The requests that went to the driver.
    Issued,
    /// The requests that the drive has carried out, at the time of their end.
    Completed,
}

impl Event {
    fn from_action(action: &[u8]) -> Option<Event> {
        match action {
            b"Q" => Some(Event::Queued),
            b"D" => Some(Event::Issued),
            b"C" => Some(Event::Completed),
            _ => None,
        }
    }
}

/// The kind of event that stands for requests: the one that was asked for, or the best that the beginning of the trace has.
#[derive(Debug, Default)]
pub(crate) struct EventChoice {
    event: Option<Event>,
    /// True if the beginning of the trace does not matter.
    is_asked_for: bool,
}

impl EventChoice {
    /// Chooses the events whose moments are `times`. Returns `false` if no event has such times.
    pub fn choose_times(&mut self, times: RowTimes) -> bool {
        let event = match times {
            RowTimes::Issue => Some(Event::Issued),
            RowTimes::Completion => Some(Event::Completed),
            RowTimes::Clock | RowTimes::Think | RowTimes::Response => None,
        };
        // Any kind has the clock's times, so that an earlier choice stays.
        if event.is_some() {
            *self = EventChoice { event, is_asked_for: true };
        }
        event.is_some() || times == RowTimes::Clock
    }

    /// Chooses the best of the events in the trace's beginning, unless one was asked for.
    pub fn choose_among(&mut self, events: impl Iterator<Item = Event>) {
        if !self.is_asked_for {
            self.event = events.min();
        }
    }

    /// True if events of this kind stand for requests. Without a choice, the kind that comes first does.
    pub fn stands_for_requests(&mut self, event: Event) -> bool {
        *self.event.get_or_insert(event) == event
    }

    /// The events that are read, for messages.
    pub fn detail(&self) -> Option<&'static str> {
        Some(match self.event? {
            Event::Queued => "Q events (requests as queued)",
            Event::Issued => "D events (requests as issued to the driver)",
            Event::Completed => "C events (requests by the time of their end)",
        })
    }
}

/// First words of lines of the summary.
const SUMMARY: [&str; 5] = ["CPU", "Total", "Throughput", "Events", "Skips"];

const KNOWN_ACTIONS: &[&[u8]] = &[
    b"Q", b"D", b"C", b"G", b"I", b"M", b"F", b"P", b"U", b"UT", b"X", b"A", b"B", b"S", b"R", b"m", b"N", b"T", b"rq",
    b"dq",
];

impl TextFormat for Blkparse {
    fn prepare(&mut self, head: &[u8]) {
        let (mut volumes, mut probe) = (Volumes::default(), Blkparse::default());
        // A reader without a choice takes the kind of the line that it parses.
        let event = |line| {
            probe.choice.event = None;
            probe.parse(line, &mut volumes).ok().and(probe.choice.event)
        };
        self.choice.choose_among(head.split(|b| *b == b'\n').filter_map(event));
    }

    fn choose_times(&mut self, times: RowTimes) -> bool {
        self.choice.choose_times(times)
    }

    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        if !self.in_summary && line.first().is_some_and(u8::is_ascii_alphabetic) {
            self.in_summary = SUMMARY.iter().any(|start| line.starts_with(start.as_bytes()));
        }
        // Lines of the summary begin with words; one that begins with a number is a row again.
        if self.in_summary && line.trim_ascii_start().first().is_none_or(|b| !b.is_ascii_digit()) {
            return Ok(None);
        }
        let mut columns = LineColumns::spaces(line);
        let device_field = columns.next("the device")?;
        major_minor(device_field)?;
        columns.next("the CPU")?.integer()?;
        columns.next("the sequence number")?.integer()?;
        let ticks = columns.next("the time")?.decimal(1_000_000_000)?;
        columns.next("the process id")?.integer()?;
        let action = columns.next("the action")?;
        if !KNOWN_ACTIONS.contains(&action.text) {
            return Err(action.expected("an action of blkparse, such as Q, D or C"));
        }
        // Other events are well-formed, but stand for no request.
        if !Event::from_action(action.text).is_some_and(|event| self.choice.stands_for_requests(event)) {
            return Ok(None);
        }
        let rwbs = columns.next("the RWBS letters")?;
        let sector = columns.optional("the sector");
        let Some((op, (offset, bytes))) = request(rwbs, sector, &mut columns)? else { return Ok(None) };
        let volume = device(volumes, device_field)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }

    fn detail(&self) -> Option<&str> {
        self.choice.detail()
    }
}

/// Operation, first byte and number of bytes.
type AskedRequest = (Op, (u64, u64));

/// Parses RWBS letters and `sector + count` as a request. `None` for a command that neither moves data nor flushes.
pub(crate) fn request(
    letters: Field,
    sector: Option<Field>,
    columns: &mut LineColumns,
) -> Result<Option<AskedRequest>, Bad> {
    // Without a sector, the name of the process follows, in brackets.
    let sector = sector.filter(|field| !field.text.starts_with(b"["));
    if letters.text.first() == Some(&b'Z') {
        return zone_operation(letters, sector, columns);
    }
    let Rwbs { op, flush } =
        rwbs(letters.text).ok_or_else(|| letters.expected("letters of R, W, D, F, N, A, E, S, M, B, U"))?;
    // A flush in front of a write is part of it; without data the command is a flush.
    let without_data = flush.then_some((Op::Flush, (0, 0)));
    let Some(sector) = sector else {
        return match (op, flush) {
            (Some(_), false) => Err(letters.bad(Problem::Expected("a sector and a count after it"))),
            _ => Ok(without_data),
        };
    };
    sector.integer()?;
    let plus = columns.next("the plus sign")?;
    if plus.text.starts_with(b"(") || plus.text.starts_with(b"[") {
        // A packet command: bytes and a command block instead of sectors.
        return Ok(None);
    }
    if plus.text != b"+" {
        return Err(plus.expected("+ between the sector and the count"));
    }
    let count = columns.next("the count of sectors")?;
    match op {
        _ if flush && count.integer()? == 0 => Ok(without_data),
        Some(op) => Ok(Some((op, extent(sector, 512, count, 512)?))),
        None => Ok(without_data),
    }
}

/// Request of a zone operation: `ZR sector + count` is a discard.
fn zone_operation(rwbs: Field, sector: Option<Field>, columns: &mut LineColumns) -> Result<Option<AskedRequest>, Bad> {
    match &rwbs.text[1..] {
        b"O" | b"C" | b"OS" | b"CS" => Ok(None),
        b"R" | b"RS" => {
            let unknown = || rwbs.expected("the zone's first sector and its length behind it: `ZR 524288 + 524288`");
            let sector = sector.ok_or_else(unknown)?;
            columns.next("the plus sign").ok().filter(|plus| plus.text == b"+").ok_or_else(unknown)?;
            let count = columns.next("the count of sectors")?;
            match count.integer()? {
                0 => Err(unknown()),
                _ => Ok(Some((Op::Discard, extent(sector, 512, count, 512)?))),
            }
        }
        _ => Err(rwbs.expected("ZR, ZO or ZC: appends, finishing a zone, and resetting all zones can't be replayed")),
    }
}

/// The most columns of a row of FIU, the words of a process name included.
const FIU_COLUMNS: usize = 24;

/// FIU traces (SNIA IOTTA 390): time, process id, process, LBA, size, W or R, major, minor, MD5 of the content.
///
/// Times are in nanoseconds, the LBA and size in sectors of 512 bytes; the columns stand between spaces. A process name
/// may hold spaces, so columns are counted from both ends. The MD5 is optional and isn't used.
#[derive(Debug, Default)]
pub(crate) struct Fiu;

impl TextFormat for Fiu {
    fn parse(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Option<TraceRow>, Bad> {
        let mut columns = LineColumns::spaces(line);
        let ticks = columns.next("column 1 (time)")?.integer()?;
        columns.next("column 2 (process id)")?.integer()?;
        let process = columns.next("column 3 (process)")?;
        // The process's name may hold spaces, so what follows it is counted from the end.
        let mut tail = [process; FIU_COLUMNS];
        let mut count = 0;
        while let Some(field) = columns.optional("column 4 (LBA)") {
            *tail.get_mut(count).ok_or_else(|| field.bad(Problem::Surplus))? = field;
            count += 1;
        }
        let is_md5 = |field: &Field| field.text.len() == 32 && field.text.iter().all(u8::is_ascii_hexdigit);
        count -= usize::from(count > 0 && is_md5(&tail[count - 1]));
        let Some(first) = count.checked_sub(5) else {
            let name = ["LBA", "size", "W or R", "major", "minor"][count];
            return Err(Bad { at: line.len(), len: 0, name, problem: Problem::Missing });
        };
        let field = |n: usize, name| Field { name, ..tail[first + n] };
        let (lba, size) = (field(0, "column 4 (LBA)"), field(1, "column 5 (size)"));
        let op = field(2, "column 6 (W or R)").letter()?;
        let (major, minor) = (field(3, "column 7 (major)"), field(4, "column 8 (minor)"));
        let (offset, bytes) = extent(lba, 512, size, 512)?;
        let volume = volume_of(volumes, major, minor)?;
        Ok(Some(TraceRow { ticks, offset, bytes, volume, op }))
    }
}

/// Both numbers of a Linux device such as `8,16`.
fn major_minor(device: Field<'_>) -> Result<(Field<'_>, Field<'_>), Bad> {
    let comma = memchr::memchr(b',', device.text).ok_or_else(|| device.expected("a device such as 8,16"))?;
    let major = Field { text: &device.text[..comma], ..device };
    let minor = Field { text: &device.text[comma + 1..], at: device.at + comma + 1, ..device };
    Ok((major, minor))
}

/// The volume of a Linux device such as `8,16`.
pub(crate) fn device(volumes: &mut Volumes, device: Field) -> Result<u16, Bad> {
    let (major, minor) = major_minor(device)?;
    volume_of(volumes, major, minor)
}

/// The volume of a Linux device: its number is major × 2^20 + minor, as in `dev_t`, its name `major,minor`.
fn volume_of(volumes: &mut Volumes, major: Field, minor: Field) -> Result<u16, Bad> {
    let (high, low) = (major.integer()?, minor.integer()?);
    if high >= 1 << 12 {
        return Err(major.expected("a device number below 4096"));
    }
    if low >= 1 << 20 {
        return Err(minor.expected("a device number below 1048576"));
    }
    volumes.numbered(high << 20 | low, major, || format!("{high},{low}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request of a line with these letters and all behind them; for an error its message.
    fn parsed(rest: &str) -> Result<Option<(Op, u64, u64)>, String> {
        let line = format!("8,16 3 11 0.009507758 697 Q {rest}");
        let row = Blkparse::default().parse(line.as_bytes(), &mut Volumes::default());
        let row = row.map_err(|bad| bad.message(line.as_bytes()))?;
        Ok(row.map(|row| (row.op, row.offset / 512, row.bytes / 512)))
    }

    #[test]
    fn letters_tell_the_operation_and_what_is_none() {
        for (rest, expected) in [
            ("R 8 + 16 [x]", Some((Op::Read, 8, 16))),
            ("RA 8 + 16", Some((Op::Read, 8, 16))),
            ("WS 8 + 16", Some((Op::Write, 8, 16))),
            ("FWFS 8 + 16", Some((Op::Write, 8, 16))),
            ("DS 8 + 16", Some((Op::Discard, 8, 16))),
            ("FN [x]", Some((Op::Flush, 0, 0))),
            ("FWS 8 + 0", Some((Op::Flush, 0, 0))),
            ("FN", Some((Op::Flush, 0, 0))),
            ("WBS 8 + 16", Some((Op::Write, 8, 16))),
            ("WSU 8 + 16", Some((Op::Write, 8, 16))),
            ("FWS [x]", Some((Op::Flush, 0, 0))),
            ("FN 8 + 16", Some((Op::Flush, 0, 0))),
            ("N 8 + 16", None),
            ("N", None),
            ("N 8 (12 ..)", None),
            ("R 8 [12 ..]", None),
            ("ZR 8 + 16", Some((Op::Discard, 8, 16))),
            ("ZRS 8 + 16", Some((Op::Discard, 8, 16))),
            ("ZO 8 + 0", None),
            ("ZCS 8 + 0", None),
        ] {
            assert_eq!(parsed(rest), Ok(expected), "{rest}");
        }
        for (rest, said) in [
            ("R [x]", "a sector and a count after it"),
            ("W", "a sector and a count after it"),
            ("RX 8 + 16", "letters of R, W, D"),
            ("R x + 16", "the sector is"),
            ("R 8 - 16", "+ between the sector and the count"),
            ("R 8 + x", "the count of sectors is"),
            ("R 8 + 0", "above 0"),
            ("R 8 +", "the row ends before the count"),
            ("R 8", "the row ends before the plus sign"),
            ("ZR", "the zone's first sector"),
            ("ZR 8 - 16", "the zone's first sector"),
            ("ZR 8 + 0", "the zone's first sector"),
            ("ZF 8 + 16", "ZR, ZO or ZC"),
            ("", "the row ends before the RWBS letters"),
        ] {
            let error = parsed(rest).unwrap_err();
            assert!(error.contains(said), "{rest}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_row_is_named_with_its_place() {
        for (line, at, name) in [
            ("816 3 11 0.0 697 Q R 8 + 16", 0, "the device"),
            ("x,16 3 11 0.0 697 Q R 8 + 16", 0, "the device"),
            ("8,x 3 11 0.0 697 Q R 8 + 16", 2, "the device"),
            ("8,16 x 11 0.0 697 Q R 8 + 16", 5, "the CPU"),
            ("8,16 3 x 0.0 697 Q R 8 + 16", 7, "the sequence number"),
            ("8,16 3 11 x 697 Q R 8 + 16", 10, "the time"),
            ("8,16 3 11 0.0 x Q R 8 + 16", 14, "the process id"),
            ("8,16 3 11 0.0 697 Y R 8 + 16", 18, "the action"),
        ] {
            let bad = Blkparse::default().parse(line.as_bytes(), &mut Volumes::default()).unwrap_err();
            assert_eq!((bad.at, bad.name), (at, name), "{line}");
        }
    }

    #[test]
    fn one_kind_of_event_is_taken_queued_ones_first() {
        let line = |action: &str| format!("8,16 3 11 0.5 697 {action} R 8 + 16\n");
        let chosen = |actions: &[&str]| {
            let head: String = actions.iter().map(|action| line(action)).collect();
            let mut format = Blkparse::default();
            format.prepare(head.as_bytes());
            format.detail().map(str::to_string)
        };
        let [queued, issued, completed] = ["Q", "D", "C"].map(|event| chosen(&[event]).unwrap());
        assert!(queued.starts_with("Q ") && issued.starts_with("D ") && completed.starts_with("C "));
        assert_eq!([chosen(&["D", "C", "Q"]), chosen(&["C", "D"])], [Some(queued), Some(issued)]);
        assert_eq!([chosen(&["G", "C"]), chosen(&["G", "I"]), chosen(&[])], [Some(completed), None, None]);
        let mut format = Blkparse::default();
        let mut taken =
            |action| format.parse(line(action).trim().as_bytes(), &mut Volumes::default()).unwrap().is_some();
        assert_eq!(["G", "D", "Q", "C", "D", "rq"].map(&mut taken), [false, true, false, false, true, false]);
    }
}
