use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::table::GROUP_ROWS;
use super::*;
use crate::reader::RowTimes;
use crate::{OpenOptions, Trace};
use smrkit::error::Error;
use smrkit::request::{Op, Request, Source};
use smrkit::units::{Lba, Nanos};

fn write(path: &Path, requests: &[Request]) -> Result<(), Error> {
    let mut writer = ParquetWriter::create(path, &Meta::default(), None)?;
    requests.chunks(1000).try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}

fn open(path: &Path, times: RowTimes) -> Result<Trace, Error> {
    let format = Some("parquet".into());
    Trace::open(path, &OpenOptions { format, times, sha256: false, ..OpenOptions::default() })
}

fn read(path: &Path) -> Result<Vec<Request>, Error> {
    let (mut reader, mut batch, mut all) = (open(path, RowTimes::Clock)?, Vec::new(), Vec::new());
    loop {
        reader.fill(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        assert!(batch.len() <= 4096, "a batch is a few thousand requests");
        all.extend_from_slice(&batch);
    }
}

fn round_trip(requests: &[Request]) -> Vec<Request> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    write(&path, requests).unwrap();
    read(&path).unwrap()
}

/// Any request: times of any unit and order, addresses near and far.
fn any_request() -> impl Strategy<Value = Request> {
    let unit = prop::sample::select(vec![1_u64, 7, 100, 1_000, 1_000_000, 1_000_000_000]);
    let time = (unit, prop_oneof![0_u64..1000, any::<u64>()]).prop_map(|(unit, n)| n / unit * unit);
    let lba = prop_oneof![0_u64..1_000_000, 0..1_u64 << 63];
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Flush, Op::Discard]);
    (time, lba, 1_u32.., any::<u16>(), op).prop_map(|(time, lba, sectors, volume, op)| Request {
        time: Nanos(time),
        lba: Lba(if op == Op::Flush { 0 } else { lba }),
        sectors: if op == Op::Flush { 0 } else { sectors },
        volume,
        op,
        source: 0,
    })
}

/// A small deterministic sequence of numbers that look random.
fn scrambled(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn made_up(rows: u64) -> Vec<Request> {
    let make = |n: u64| Request {
        time: Nanos(n * 1_000_000 + scrambled(n) % 3_000_000 * 1000),
        lba: Lba(scrambled(n / 3) % 1_000_000 + n % 3 * 8),
        sectors: 8 << (scrambled(n) % 5),
        volume: (n % 3) as u16,
        op: if scrambled(n + 7).is_multiple_of(3) { Op::Read } else { Op::Write },
        source: 0,
    };
    (0..rows).map(make).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_comes_back_as_it_was(
        mut requests in prop::collection::vec(any_request(), 1..3000),
        volume_bits in 0_u32..=16,
    ) {
        // A file has a word on each volume up to the last: sixty thousand are tried, but not in each case.
        requests.iter_mut().for_each(|request| request.volume &= ((1_u32 << volume_bits) - 1) as u16);
        prop_assert_eq!(round_trip(&requests), requests);
    }

    /// Whatever is done to a file's bytes, reading it ends in requests or in an error that names the file.
    #[test]
    fn a_damaged_file_is_an_error_and_no_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12), near_end: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        write(&path, &made_up(3000)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (place, value, kind) in edits {
            let len = bytes.len();
            let from = if near_end { len.saturating_sub(2000) } else { 0 };
            if from >= len { break }
            let at = from + place.index(len - from);
            match kind {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value & 7),
                2 => drop(bytes.drain(at..len.min(at + usize::from(value)))),
                _ => bytes.insert(at, value),
            }
        }
        fs::write(&path, &bytes).unwrap();
        match read(&path) {
            Ok(requests) => prop_assert!(requests.len() <= 10 * GROUP_ROWS),
            Err(Error::Input(bad)) => prop_assert_eq!(&bad.path, &path),
            Err(other) => prop_assert!(false, "not a matter of input: {}", other),
        }
    }
}

#[test]
fn row_groups_join_seamlessly_and_times_may_go_back() {
    let requests = made_up(2 * GROUP_ROWS as u64 + 77);
    assert!(requests.windows(2).any(|pair| pair[1].time < pair[0].time));
    assert_eq!(round_trip(&requests), requests);
}

#[test]
fn the_file_says_where_it_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let volume = |number, name: &str| Volume { number, name: name.to_string() };
    let mut meta = Meta {
        source_format: "msr".to_string(),
        source_sha256: Some("00ff".to_string()),
        volumes: vec![volume(7, "a host, \"quoted\""), volume(u64::MAX, "")],
    };
    let mut writer = ParquetWriter::create(&path, &Meta::default(), None).unwrap();
    writer.write(&[Request { volume: 2, ..Request::new(Op::Write, Lba(9), 1) }]).unwrap();
    writer.meta = meta.clone();
    writer.finish().unwrap();
    // The request used a volume that the table lacked: it was given a line.
    meta.volumes.push(volume(2, ""));
    let reader = ParquetReader::open(&path, RowTimes::Clock, false).unwrap();
    assert_eq!((&reader.meta, reader.rows), (&meta, 1));
    assert_eq!(open(&path, RowTimes::Clock).unwrap().volumes(), meta.volumes);
}

#[test]
fn any_parquet_reader_sees_plain_columns() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    write(&path, &[Request { time: Nanos(3_000_000), volume: 2, ..Request::new(Op::Discard, Lba(77), 8) }]).unwrap();
    let file = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<String> = file.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
    assert_eq!(rows, ["{time_ns: 3000000, op: 3, lba: 77, sectors: 8, volume: 2}"]);
    let pairs = file.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    assert_eq!(value("smrkit.rows").as_deref(), Some("1"));
}

#[test]
fn an_unfinished_file_leaves_the_old_one_alone_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    fs::write(&path, "old").unwrap();
    let mut writer = ParquetWriter::create(&path, &Meta::default(), None).unwrap();
    writer.write(&made_up(2 * GROUP_ROWS as u64)).unwrap();
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_is_said_and_a_pipe_can_be_written() {
    assert!(write(Path::new("/dev/null"), &made_up(10)).is_ok());
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let full = write(Path::new("/dev/full"), &made_up(GROUP_ROWS as u64 + 1)).unwrap_err();
    assert!(full.to_string().contains("free some space"), "{full}");
    let nowhere = write(Path::new("/no/such/folder/x.parquet"), &[]).unwrap_err();
    assert!(matches!(nowhere, Error::Io { writing: true, .. }), "{nowhere}");
}

#[test]
fn what_is_no_trace_of_ours_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let message = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        match read(&path) {
            Err(Error::Input(bad)) => bad.message.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(message(b"").contains("the file is empty"));
    assert!(message(b"128166372003061629,hm,1,Read,0,512,1\n").contains("not a Parquet file"));
    write(&path, &made_up(5000)).unwrap();
    let whole = fs::read(&path).unwrap();
    for end in [4, 11, 100, whole.len() - 1] {
        assert!(message(&whole[..end]).contains("cut short"), "{end}");
    }
    let foreign = |metadata: Vec<(String, String)>| {
        let prices: [Column<u64>; 1] = [("price", |rows| numbers::<UInt64Type, _>(rows, |price| *price))];
        TableWriter::create(&path, batch(&prices, &[]).schema()).unwrap().finish(metadata).unwrap();
    };
    foreign(Vec::new());
    assert!(message(&fs::read(&path).unwrap()).contains("op: no column of this name"));
    foreign(vec![(KEY_FORMAT.into(), "requests".into())]);
    assert!(message(&fs::read(&path).unwrap()).contains("a table of requests, not a trace"));
    let ours = |version: &str| vec![(KEY_FORMAT.into(), FORMAT.into()), (KEY_VERSION.into(), version.to_string())];
    foreign(ours("1"));
    assert!(message(&fs::read(&path).unwrap()).contains("this one has price"));
    foreign(ours("2"));
    assert!(message(&fs::read(&path).unwrap()).contains("update smrkit"));
}

#[test]
fn requests_that_no_reader_would_take_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    assert!(write(&path, &[Request::new(Op::Read, Lba(0), 0)]).unwrap_err().to_string().contains("0 sectors"));
    assert!(write(&path, &[Request::new(Op::Read, Lba(1 << 63), 1)]).unwrap_err().to_string().contains("LBA"));
}

#[test]
fn requests_that_can_not_be_read_back_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let refused = |requests: &[Request]| write(&path, requests).unwrap_err().to_string();
    let empty = Request::new(Op::Write, Lba(8), 0);
    let far = Request::new(Op::Read, Lba(1 << 63), 8);
    for count in 1..4 {
        assert!(refused(&vec![empty; count]).contains("0 sectors"), "{count}");
        assert!(refused(&vec![far; count]).contains("past the end of any disk"), "{count}");
    }
}

#[test]
fn a_table_has_the_hash_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    write(&path, &[Request::new(Op::Write, Lba(8), 8)]).unwrap();
    let hash = |sha256| Trace::open(&path, &OpenOptions { sha256, ..OpenOptions::default() }).unwrap().sha256();
    let digest = Sha256::digest(fs::read(&path).unwrap());
    assert_eq!(hash(true), Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()));
    assert_eq!(hash(false), None);
}

#[test]
fn a_time_too_large_to_be_held_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let latest = (u64::MAX / 1_000_000_000) as i64;
    let read = |time_s: i64| {
        written(&path, "time_s", &[(0, 1, 0, 8, 0), (time_s, 1, 8, 8, 0)]);
        read(&path)
    };
    assert_eq!(read(latest).unwrap()[1].time, Nanos(latest as u64 * 1_000_000_000));
    for time_s in [latest + 1, -1] {
        match read(time_s) {
            Err(Error::Input(bad)) => {
                assert_eq!(bad.line, Some(2));
                let message = bad.message.to_string();
                assert!(message.contains("a time past the largest that can be held"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Time, op, lba, sectors, volume.
type RawRow = (i64, u8, i64, u32, u16);

/// Writes rows as ours, without a look at them.
fn written(path: &Path, time: &'static str, rows: &[RawRow]) {
    let columns: [Column<RawRow>; 5] = [
        (time, |rows| numbers::<UInt64Type, _>(rows, |row| row.0 as u64)),
        ("op", |rows| numbers::<UInt8Type, _>(rows, |row| row.1)),
        ("lba", |rows| numbers::<UInt64Type, _>(rows, |row| row.2 as u64)),
        ("sectors", |rows| numbers::<UInt32Type, _>(rows, |row| row.3)),
        ("volume", |rows| numbers::<UInt16Type, _>(rows, |row| row.4)),
    ];
    let rows = batch(&columns, rows);
    let mut writer = TableWriter::create(path, rows.schema()).unwrap();
    writer.write_group(&rows).unwrap();
    writer.finish(vec![(KEY_FORMAT.into(), FORMAT.into()), (KEY_VERSION.into(), "1".into())]).unwrap();
}

/// Reads two rows that were written without a look at them: what is said of the second, and its line.
fn said_of(op: u8, lba: i64, sectors: u32, volume: u16) -> Result<Request, (Option<u64>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    written(&path, "time_ns", &[(0, 0, 8, 8, 0), (5, op, lba, sectors, volume)]);
    match read(&path) {
        Ok(all) => Ok(all[1]),
        Err(Error::Input(bad)) => Err((bad.line, bad.message.to_string())),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn rows_that_no_request_can_be_are_named_with_their_line() {
    let fine = |op, sectors| Request { time: Nanos(5), ..Request::new(op, Lba(i64::MAX as u64), sectors) };
    for (number, op) in [(0, Op::Read), (1, Op::Write), (3, Op::Discard)] {
        assert_eq!(said_of(number, i64::MAX, 1, 0), Ok(fine(op, 1)));
    }
    assert_eq!(said_of(2, i64::MAX, 0, 0), Ok(fine(Op::Flush, 0)));
    assert_eq!(said_of(0, i64::MAX, u32::MAX, 0), Ok(fine(Op::Read, u32::MAX)));
    for (row, why) in [
        ((4, 8, 8, 0), "an op other than 0 to 3"),
        ((255, 8, 8, 0), "an op other than 0 to 3"),
        ((0, -1, 8, 0), "an LBA past the end of any disk"),
        ((0, i64::MIN, 8, 0), "an LBA past the end of any disk"),
        ((0, 8, 8, 1), "a volume that the file's table lacks"),
        ((0, 8, 8, u16::MAX), "a volume that the file's table lacks"),
        ((0, 8, 0, 0), "a request of 0 sectors"),
        ((3, 8, 0, 0), "a request of 0 sectors"),
    ] {
        let (line, message) = said_of(row.0, row.1, row.2, row.3).unwrap_err();
        assert!(line == Some(2) && message.contains(why), "{row:?}: {line:?}, {message}");
    }
}

/// Time, op, lba, sectors.
type ForeignRow<'a> = (Option<i64>, &'a str, i64, i64);

/// Writes a table as other libraries do: columns that may be null, pages packed by snappy.
fn foreign(path: &Path, columns: &str, rows: &[ForeignRow]) {
    use ::parquet::basic::Compression;
    use ::parquet::data_type::ByteArray;
    use ::parquet::file::properties::WriterProperties;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;
    let schema = std::sync::Arc::new(parse_message_type(&format!("message table {{ {columns} }}")).unwrap());
    let packed = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_string()).collect();
    let mut file = SerializedFileWriter::new(fs::File::create(path).unwrap(), schema, packed.into()).unwrap();
    let mut group = file.next_row_group().unwrap();
    for name in names {
        let mut column = group.next_column().unwrap().unwrap();
        let levels =
            |there: &dyn Fn(&ForeignRow) -> bool| rows.iter().map(|row| i16::from(there(row))).collect::<Vec<_>>();
        if name == "op" {
            let words: Vec<ByteArray> = rows.iter().map(|row| row.1.into()).collect();
            column
                .typed::<::parquet::data_type::ByteArrayType>()
                .write_batch(&words, Some(&levels(&|_| true)), None)
                .unwrap();
        } else {
            let value = |row: &ForeignRow| match name.as_str() {
                "lba" => Some(row.2),
                "sectors" => Some(row.3),
                _ => row.0,
            };
            let there: Vec<i64> = rows.iter().filter_map(value).collect();
            column
                .typed::<::parquet::data_type::Int64Type>()
                .write_batch(&there, Some(&levels(&|row| value(row).is_some())), None)
                .unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
}

const FOREIGN: &str = "optional int64 time_us; optional binary op (UTF8); optional int64 lba; optional int64 sectors;";

#[test]
fn a_table_that_others_wrote_is_a_trace_if_its_columns_are_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    foreign(&path, FOREIGN, &[(Some(0), "read", 8, 16), (Some(3), "W", 1 << 40, 1), (Some(4), "flush", 0, 0)]);
    let all = read(&path).unwrap();
    let shown: Vec<_> = all.iter().map(|one| (one.time.0, one.op, one.lba.0, one.sectors, one.volume)).collect();
    assert_eq!(shown, [(0, Op::Read, 8, 16, 0), (3000, Op::Write, 1 << 40, 1, 0), (4000, Op::Flush, 0, 0, 0)]);
    let trace = Trace::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(trace.format, "parquet");
    let said = |rows: &[ForeignRow]| {
        foreign(&path, FOREIGN, rows);
        read(&path).unwrap_err().to_string()
    };
    for (row, words) in [
        ((None, "read", 8, 16), "column time_us has nulls: fill or drop them: mend the table"),
        ((Some(0), "append", 8, 16), "column op has 'append': expected read, write"),
        ((Some(0), "read", 8, 1 << 32), "has 2^32 sectors or more"),
        ((Some(0), "read", 8, -1), "column sectors has numbers below 0"),
        ((Some(0), "read", -8, 1), "column lba has numbers below 0"),
        ((Some(-5), "read", 8, 1), "column time_us has numbers below 0"),
        ((Some(0), "read", 8, 0), "a request of 0 sectors"),
    ] {
        let error = said(&[row]);
        assert!(error.contains(words), "{row:?}: {error}");
    }
    foreign(&path, "optional int64 time_us; optional int64 lba; optional int64 sectors;", &[(Some(0), "", 8, 8)]);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("op: no column") && error.contains("this one has time_us, lba, sectors"), "{error}");
}

#[test]
fn columns_of_a_table_have_the_names_and_kinds_that_others_give_them() {
    use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let read = |columns: Vec<(&str, ArrayRef)>, packing| {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let packed = ::parquet::file::properties::WriterProperties::builder().set_compression(packing).build();
        let file = fs::File::create(&path).unwrap();
        let mut writer = ::parquet::arrow::ArrowWriter::try_new(file, rows.schema(), Some(packed)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let (mut trace, mut all) = (Trace::open(&path, &OpenOptions::default())?, Vec::new());
        trace.fill(&mut all)?;
        let shown = all.iter().map(|one| (one.time.0, one.op, one.lba.0, one.sectors)).collect::<Vec<_>>();
        Ok::<_, Error>((shown, trace.refuse_no_times().is_ok(), trace.notes().unaligned_rows))
    };
    let whole = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let float = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    let words = |values: [&str; 2]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let moments: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![1_714_521_600_000_000, 1_714_521_601_500_000]));
    let writes: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let wanted = vec![(0, Op::Write, 8, 1), (1_500_000_000, Op::Read, 16, 2)];
    let op = || ("op", words(["W", "read"]));
    let snappy = Compression::SNAPPY;
    for columns in [
        vec![
            ("TIME_S", float([0.0, 1.5])),
            ("OP", words(["W", "R"])),
            ("LBA", float([8.0, 16.0])),
            ("SECTORS", whole([1, 2])),
        ],
        vec![
            ("timestamp", moments),
            ("is_write", writes),
            ("offset", whole([4096, 8192])),
            ("size", whole([512, 1024])),
        ],
        vec![
            ("time_ms", whole([1_700_000_000_000, 1_700_000_001_500])),
            op(),
            ("lba", whole([8, 16])),
            ("bytes", whole([512, 1024])),
        ],
        vec![("time_100ns", whole([0, 15_000_000])), op(), ("lba", whole([8, 16])), ("bytes", whole([512, 1024]))],
    ] {
        assert_eq!(read(columns, snappy).unwrap(), (wanted.clone(), true, 0));
    }
    let timeless = vec![op(), ("offset", whole([4100, 8192])), ("size", whole([100, 1024]))];
    assert_eq!(read(timeless, snappy).unwrap(), (vec![(0, Op::Write, 8, 1), (0, Op::Read, 16, 2)], false, 1));
    let lba = |time, size: &'static str| vec![time, op(), ("lba", whole([8, 16])), (size, whole([1, 2]))];
    for (columns, packing, said) in [
        (lba(("time", whole([0, 1])), "sectors"), snappy, "column time tells no unit"),
        (lba(("time_us", whole([0, 1])), "size"), snappy, "size_bytes or sectors"),
        (lba(("time_us", float([0.0, -1.0])), "sectors"), snappy, "column time_us has numbers below 0"),
        (vec![op(), ("lba", float([8.0, 0.5])), ("sectors", whole([1, 2]))], snappy, "with a fraction"),
        (
            vec![("is_read", whole([0, 1])), ("lba", whole([8, 16])), ("sectors", whole([1, 2]))],
            snappy,
            "turn it into is_write",
        ),
    ] {
        let error = read(columns, packing).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    written(&path, "time_ns", &[]);
    let error = Trace::open(&path, &OpenOptions::default()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the file holds no request"), "{error}");
}

#[test]
fn think_times_of_a_served_log_are_kept_for_a_closed_loop() {
    let log = "{\"smrkit_log\":1}\nwrite 0 8 10 10 40\nread 64 8 20 40 60\nflush 0 0 70 70 95\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let open = |times| Trace::from_bytes("log", log, &OpenOptions { times, ..OpenOptions::default() }).unwrap();
    let mut writer = ParquetWriter::create(&path, &Meta::default(), Some(&mut open(RowTimes::Think))).unwrap();
    writer.copy(&mut open(RowTimes::Clock)).unwrap();
    writer.finish().unwrap();
    for times in [RowTimes::Clock, RowTimes::Think] {
        let (mut log, mut batch) = (open(times), Vec::new());
        let (mut parquet, mut kept) = (self::open(&path, times).unwrap(), Vec::new());
        log.fill(&mut batch).unwrap();
        parquet.fill(&mut kept).unwrap();
        assert_eq!(kept, batch, "{times:?}");
        let outstanding: &[u16] = if times == RowTimes::Think { &[0, 1, 0] } else { &[] };
        assert_eq!(parquet.outstanding(), outstanding);
    }
}
