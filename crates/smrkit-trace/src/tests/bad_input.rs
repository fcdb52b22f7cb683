//! Errors of a file come with their place, what was expected, and the remedy.

use super::*;

/// The error of reading `bytes`, and its line and column.
fn error(bytes: &[u8], options: &OpenOptions) -> (String, Option<u64>, Option<u64>) {
    match read(bytes, options) {
        Ok((trace, all)) => panic!("no error: {} gave {} requests", trace.format, all.len()),
        Err(Error::Input(bad)) => (bad.to_string(), bad.line, bad.column),
        Err(other) => panic!("not bad input: {other:?}"),
    }
}

const GOOD: &str = "128166372003061629,web,1,Read,4096,8192,58000\n";

/// One bad row among three good ones.
fn with_bad_row(row: &str) -> String {
    format!("{GOOD}{GOOD}{row}\n{GOOD}")
}

#[test]
fn times_that_a_trace_has_not_are_refused() {
    let options = OpenOptions { times: RowTimes::Think, ..OpenOptions::default() };
    let error = Trace::open(&data("msr.csv"), &options).err().unwrap().to_string();
    assert!(error.contains("no think times") && error.contains("flat-out"), "{error}");
}

#[test]
fn a_malformed_row_is_named_with_line_column_and_what_was_expected() {
    for (row, column, parts) in [
        ("128166372003061629,web,1,Raed,4096,8192,1", 26, ["column 4 (Type) is \"Raed\"", "expected Read or Write"]),
        ("128166372003061629,web,1,Read,40x6,8192,1", 31, ["column 5 (Offset) is \"40x6\"", "expected an integer"]),
        ("128166372003061629,web,1,Read,4096,0,1", 36, ["column 6 (Size) is \"0\"", "expected a size above 0"]),
        ("-5,web,1,Read,4096,512,1", 1, ["column 1 (Timestamp) is \"-5\"", "at least 0"]),
        ("128166372003061629,web,1,Read,4096,512", 39, ["the row ends before column 7", "skip_bad_rows"]),
        ("128166372003061629,web,1,Read,4096,512,1,2", 42, ["after its last column: \"2\"", "mend the row"]),
        ("99999999999999999999,web,1,Read,4096,512,1", 1, ["column 1", "larger than 64 bits"]),
        ("128166372003061629,web,1,Read,18446744073709551615,512,1", 31, ["column 5", "larger than 64 bits"]),
        ("128166372003061629,web,1,Read,4096,9999999999999,1", 36, ["column 6", "2 TiB"]),
        ("128166372003061629,web,1,Read,4\u{1}\u{2}6,512,1", 31, ["4\\x01\\x026", "an integer"]),
    ] {
        let text = with_bad_row(row);
        let (message, line, found) = error(text.as_bytes(), &OpenOptions::default());
        assert_eq!((line, found), (Some(3), Some(column)), "{message}");
        assert!(message.starts_with(&format!("t:3:{column}: ")), "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{row}: {message}");
        let (trace, all) = read(text.as_bytes(), &skipping()).unwrap();
        assert_eq!((all.len(), trace.notes().skipped_rows), (3, 1));
    }
}

#[test]
fn offsets_that_are_not_aligned_are_widened_to_sectors_and_counted() {
    let rows = format!("{GOOD}128166372003061629,web,1,Read,1000,100,0\n128166372003061629,web,1,Read,1023,2,0\n");
    let (trace, all) = read(rows.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(shown(&all[1..]), ["0 R 1+2@0", "0 R 1+2@0"]);
    assert_eq!(trace.notes().unaligned_rows, 2);
}

#[test]
fn rows_out_of_order_are_counted_and_the_first_is_named() {
    let rows = "1,web,1,Read,0,512,0\n500,web,1,Read,0,512,0\n3,web,1,Read,0,512,0\n0,web,1,Read,0,512,0\n";
    let (trace, all) = read(rows.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(trace.notes().out_of_order_rows, 2);
    assert_eq!(trace.first_out_of_order(), Some(3));
    let times: Vec<u64> = all.iter().map(|r| r.time.0).collect();
    assert_eq!(times, [0, 49_900, 200, 0]);
}

#[test]
fn an_empty_file_or_archive_is_said_to_be_empty() {
    let empty = zstd::encode_all(&b""[..], 1).unwrap();
    for (bytes, part) in [(&b""[..], "the file is empty"), (&empty, "the archive is empty")] {
        assert!(error(bytes, &OpenOptions::default()).0.contains(part));
    }
    let heading = b"Timestamp,Response,IOType,LUN,Offset,Size\n";
    assert!(error(heading, &forced("systor17")).0.contains("holds no request"));
    assert!(
        error(b"x\ny\n", &OpenOptions { skip_bad_rows: true, ..forced("msr") }).0.contains("all 2 rows are malformed")
    );
}

#[test]
fn a_binary_file_and_unknown_text_are_told_apart() {
    let binary: Vec<u8> = (0..4000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    assert!(error(&binary, &OpenOptions::default()).0.contains("binary file of no known format"));
    assert!(error(&binary, &forced("msr")).0.contains("binary data"));
    assert!(error(&binary, &forced("csv:op=0,offset=1,size=2")).0.contains("binary data"));
    let message = error(b"some,text\nof,no,trace\n", &OpenOptions::default()).0;
    assert!(message.contains("begins with \"some,text\"") && message.contains("format csv:"), "{message}");
}

#[test]
fn a_file_of_another_format_is_named() {
    let message = error(GOOD.as_bytes(), &forced("spc")).0;
    assert!(message.contains("looks like msr") && message.contains("not like spc"), "{message}");
    let message = error(GOOD.as_bytes(), &forced("fio-v3")).0;
    assert!(message.contains("looks like msr"), "{message}");
    let message = error(b"0 file read 0 512\n", &forced("fio-v3")).0;
    assert!(message.contains("should begin with the line \"fio version 3 iolog\""), "{message}");
    // As two jobs flush their buffers into one file: in the middle of a row, or at its end.
    for second in ["10 /dev/sdb read 0 4096\n34699fio version 3 iolog\n", "fio version 3 iolog\n"] {
        let torn = format!("fio version 3 iolog\n0 /dev/sdb add\n{second}20 /dev/sdb read 178000000000000 4096\n");
        for skip_bad_rows in [false, true] {
            let message = error(torn.as_bytes(), &OpenOptions { skip_bad_rows, ..OpenOptions::default() }).0;
            assert!(message.contains("several jobs wrote this file") && message.contains("numjobs=1"), "{message}");
        }
    }
}

#[test]
fn damaged_archives_say_truncated_or_corrupt() {
    let text: String =
        (0..20_000).map(|n| format!("{},web,1,Read,{},512,{}\n", n * 77, n * 7919 % 5000 * 512, n)).collect();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    let zst = encoder.finish().unwrap();
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    for (name, packed) in [("zstd", zst), ("gzip", gzip(&text))] {
        let cut = error(&packed[..packed.len() - 5], &OpenOptions::default()).0;
        assert!(cut.contains(&format!("the {name} archive is truncated")), "{cut}");
        let mut spoiled = packed.clone();
        for byte in spoiled[packed.len() / 2..].iter_mut().take(40) {
            *byte ^= 0x55;
        }
        let corrupt = error(&spoiled, &skipping()).0;
        assert!(corrupt.contains(&format!("the {name} archive is")) && corrupt.contains("again"), "{corrupt}");
        let garbage = error(&[packed, b"garbage".to_vec()].concat(), &OpenOptions::default()).0;
        let expected = if name == "gzip" { "but the file goes on with something else" } else { "the zstd archive is" };
        assert!(garbage.contains(expected), "{garbage}");
    }
    let whole = |bytes: &[u8]| read(bytes, &OpenOptions::default()).unwrap().1.len();
    let [one, two] = [&text[..text.len() / 2], &text[text.len() / 2..]].map(gzip);
    let (padded, joined) = ([gzip(&text), vec![0; 700]].concat(), [one, two].concat());
    assert_eq!([whole(&padded), whole(&joined)], [20_000; 2], "a tape's padding; an archive of two members");
}

#[test]
fn a_trace_cut_in_its_last_row_is_said_to_be_cut() {
    let cut = &with_bad_row(GOOD.trim_end())[..GOOD.len() * 3 - 18];
    let (message, line, _) = error(cut.as_bytes(), &OpenOptions::default());
    assert_eq!(line, Some(3));
    assert!(message.contains("the file ends in the middle of this row"), "{message}");
    let records = [vscsi(1, 0x2a, 4096, 1000, 5), vscsi(1, 0x2a, 4096, 1000, 5)].concat();
    let (message, line, _) = error(&records[..50], &OpenOptions::default());
    assert_eq!(line, Some(2));
    assert!(message.contains("in the middle of this record"), "{message}");
}

#[test]
fn numbers_that_overflow_when_scaled_are_bad_rows() {
    let row = |size: &str, lba: &str, time: &str| format!("0,8,512,R,0.5\n0,8,512,R,0.5\n0,{lba},{size},R,{time}\n");
    for (text, part) in [
        (row("512", "36028797018963968", "1"), "column 2 (LBA)"),
        (row("512", "1", "18446744074"), "column 5 (timestamp)"),
        (row("18446744073709551616", "1", "1"), "column 3 (size)"),
    ] {
        assert!(error(text.as_bytes(), &OpenOptions::default()).0.contains(part));
    }
    let longest = (u64::from(u32::MAX) - 1) * 512;
    let (_, read) = read(row(&longest.to_string(), "1", "1").as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(read[2].sectors, u32::MAX - 1);
    let longer = row(&(longest + 1).to_string(), "1", "1");
    assert!(error(longer.as_bytes(), &OpenOptions::default()).0.contains("column 3 (size)"));
    let far = format!("1,web,1,Read,0,512,0\n{GOOD}18446744073709551615,web,1,Read,0,512,0\n");
    let (message, line, _) = error(far.as_bytes(), &OpenOptions::default());
    assert!(line == Some(3) && message.contains("584 years"), "{message}");
}

#[test]
fn bad_records_of_binary_traces_can_be_skipped() {
    let good = vscsi(2, 0x2a, 4096, 1000, 5);
    let records = [good.clone(), vscsi(2, 0x2a, 0, 1000, 6), good.clone()].concat();
    let (message, line, _) = error(&records, &forced("vscsi2"));
    assert!(line == Some(2) && message.contains("the length is 0"), "{message}");
    let options = OpenOptions { skip_bad_rows: true, ..forced("vscsi2") };
    let (trace, all) = read(&records, &options).unwrap();
    assert_eq!((all.len(), trace.notes().skipped_rows), (2, 1));
    let records = [srt(3, 1, 1, 512, 1, 0, 1), srt(7, 1, 1, 512, 1, 0, 1)].concat();
    let (message, line, _) = error(&records, &forced("srt"));
    assert!(line == Some(2) && message.contains("the version: expected 1 to 4"), "{message}");
}

#[test]
fn a_line_without_an_end_stops_before_memory_does() {
    let mut text = GOOD.repeat(3).into_bytes();
    text.resize(5 << 20, b'x');
    let (message, line, _) = error(&text, &OpenOptions::default());
    assert!(line == Some(4) && message.contains("a line of more than 1 MiB"), "{message}");
}

#[test]
fn too_many_volumes_stop_even_where_bad_rows_are_skipped() {
    let text: String = (0..65_536).map(|n| format!("{n},R,0,512,0\n")).collect();
    assert!(error(text.as_bytes(), &skipping()).0.contains("more than 65,535 volumes"));
    assert_eq!(read(&text.as_bytes()[..text.len() - 14], &skipping()).unwrap().0.volumes().len(), 65_535);
}

#[test]
fn a_missing_file_and_a_directory_are_errors_of_reading() {
    for path in ["/no/such/trace.csv", "/"] {
        let found = Trace::open(Path::new(path), &OpenOptions::default()).err().unwrap();
        assert!(matches!(found, Error::Io { writing: false, .. }), "{found:?}");
    }
    for (format, part) in [("blkprase", "did you mean `blkparse`?"), ("msr:x", "nothing after a colon")] {
        let found = Trace::open(&data("msr.csv"), &forced(format)).err().unwrap();
        assert!(matches!(&found, Error::Usage(m) if m.contains(part)), "{found:?}");
    }
}

#[test]
fn rows_that_are_all_wrong_are_named_as_what_they_were_meant_to_be() {
    let message = |text: &str| read(text.as_bytes(), &OpenOptions::default()).map(|_| ()).unwrap_err().to_string();
    let zero = message("128166372003061629,hm,1,Read,8192,0,0\n");
    assert!(zero.contains(":1:35:") && zero.contains("a size above 0"), "{zero}");
    let huge = message("128166372003061629,hm,1,Read,99999999999999999999999,4096,0\n");
    assert!(huge.contains(":1:30:") && huge.contains("64 bits"), "{huge}");
    let good = "128166372003061629,hm,1,Read,8192,4096,0\n";
    let typo = message(&[good, &good.replace("Read", "Raed"), &good.replace("Read", "Rread")].concat());
    assert!(typo.contains(":2:25:") && typo.contains("Read or Write"), "{typo}");
    assert!(message("job0\t9\t9\t1762\t0\t14347\n").contains("no known format"));
}
