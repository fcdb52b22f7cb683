//! Each format gives exactly the requests that its rows say, under its own name.

use std::io::Write;

use super::*;

fn check(name: &str, options: &OpenOptions, format: &str, volumes: &[&str], requests: &[&str]) {
    let mut trace = Trace::open(&data(name), options).unwrap();
    let all = drain(&mut trace).unwrap();
    assert_eq!(trace.format, format, "{name}");
    assert_eq!(shown(&all), requests, "{name}");
    assert_eq!(names(&trace), volumes, "{name}");
    assert_eq!(trace.sha256().unwrap().len(), 64);
    assert_eq!(trace.progress().done, trace.progress().total.unwrap());
}

#[test]
fn text_formats_are_recognised_and_give_their_requests() {
    let any = OpenOptions::default();
    let msr = ["0 R 8+16@0", "10000 W 24+1@0", "20000 W 2048+128@1"];
    check("msr.csv", &any, "msr", &["1=web.1", "2=web.2"], &msr);
    let spc = ["0 R 1000+8@0", "125000 W 2000+1@1", "1500000000 W 1008+2@0"];
    check("spc.csv", &any, "spc", &["0=0", "1=1"], &spc);
    let events =
        ["0 R 1000+8@0", "2000000 W 2048+16@0", "3000000 D 4096+2048@0", "4000000 F 0+0@0", "5000000 W 2064+8@0"];
    check("blkparse.txt", &any, "blkparse", &["8388624=8,16"], &events);
    check("blkparse-issued.txt", &any, "blkparse", &["8388624=8,16"], &["0 R 1000+8@0", "1000000000 W 3000+8@0"]);
    let v2 = ["0 W 16+8@0", "1500000 R 0+1@1", "1500000 F 0+0@0", "2000000 D 32+16@0"];
    check("fio-v2.log", &any, "fio-v2", &["0=/dev/sdb", "1=/dev/sdc"], &v2);
    let v3 = ["0 W 16+8@0", "250000 R 0+1@0", "260000 F 0+0@0", "300000 D 32+16@0"];
    check("fio-v3.log", &any, "fio-v3", &["0=/dev/sdb"], &v3);
    let disksim = ["0 R 1000+8@0", "250000 W 2000+16@1", "750001 R 1008+8@0"];
    check("disksim.txt", &any, "disksim", &["0=0", "1=1"], &disksim);
    let measured = ["0 R 1000+8@0", "12500500 W 2000+16@0", "16500500 R 1008+8@0"];
    check("disksim-measured.txt", &any, "disksim-measured", &["0=0"], &measured);
    let thinking = OpenOptions { times: RowTimes::Think, ..OpenOptions::default() };
    let measured = ["0 R 1000+8@0", "500500 W 2000+16@0", "1500500 R 1008+8@0"];
    check("disksim-measured.txt", &thinking, "disksim-measured", &["0=0"], &measured);
    let map = OpenOptions {
        format: Some("csv:op=0,offset=2:sectors,size=3:sectors,think=5:us,separator=space".into()),
        ..thinking
    };
    check("disksim-measured.txt", &map, "csv", &["0=0"], &measured);
    let fiu = ["0 W 1000+8@0", "1500 R 2000+16@1", "2000 W 1008+8@0"];
    check("fiu.txt", &any, "fiu", &["6291456=6,0", "6291457=6,1"], &fiu);
    let systor = ["0 R 2048+8@0", "0 W 4096+1@1", "1000000001 W 8+16@0"];
    check("systor17.csv", &any, "systor17", &["0=0", "1=1"], &systor);
    let tencent = ["0 W 1000+8@0", "0 R 2000+16@1", "2000000000 R 1008+8@0"];
    check("tencent.csv", &any, "tencent", &["1058=1058", "70000=70000"], &tencent);
    let alibaba = ["0 R 2048+8@0", "380000 W 8+16@1", "1000000 W 2056+1@0"];
    check("alibaba.csv", &any, "alibaba", &["3=3", "64=64"], &alibaba);
    let map = forced("csv:time=0:us,op=1,offset=2,size=3:bytes,volume=4,header=1,separator=;");
    check("table.csv", &map, "csv", &["0=sda", "1=sdb"], &["0 W 16+8@0", "250500 R 0+1@1", "350000 F 0+0@0"]);
    let rows = b"128166372003061629,W,512,512\n128166372003061639,R,0,512\n";
    for (unit, second) in [("100ns", "1000 R 0+1@0"), ("ns", "10 R 0+1@0")] {
        let (_, all) = read(rows, &forced(&format!("csv:time=0:{unit},op=1,offset=2,size=3"))).unwrap();
        assert_eq!(shown(&all), ["0 W 1+1@0", second], "{unit}");
    }
    for (order, both) in [("rw", ["0 R 0+1@0", "0 W 1+1@0"]), ("wr", ["0 W 0+1@0", "0 R 1+1@0"])] {
        let map = forced(&format!("csv:op=0:{order},offset=1:sectors,size=2:sectors"));
        assert_eq!(shown(&read(b"0,0,1\n1,1,1\n", &map).unwrap().1), both, "{order}");
    }
}

#[test]
fn operations_of_a_table_are_read_in_many_spellings() {
    let said = |op: &str| {
        shown(&read(format!("{op},512,512\n").as_bytes(), &forced("csv:op=0,offset=1,size=2")).unwrap().1).remove(0)
    };
    for (letter, spellings) in [
        (
            "R",
            &[
                "R",
                "RA",
                "RMS",
                "read",
                "read|sync",
                "sync|read",
                "DiskRead",
                "Rd",
                "READ_10",
                "28",
                "0x88",
                "0x28",
                "False",
            ][..],
        ),
        ("W", &["WS", "FWFS", "write|sync|fua", "WRITE", "DiskWrite", "2a", "8A", "0x2a"]),
        (
            "W",
            &[
                "sync|write",
                "flush|W",
                "Writes",
                "WriteFile",
                "WRITE(16)",
                "REQ_OP_WRITE",
                "IRP_MJ_WRITE",
                "nvme_cmd_write",
            ],
        ),
        ("D", &["D", "DS", "discard", "trim", "unmap", "42", "sync|discard"]),
    ] {
        spellings.iter().for_each(|op| assert_eq!(said(op), format!("0 {letter} 1+1@0"), "{op}"));
    }
    ["F", "FF", "flush", "sync", "35", "DiskFlush"].iter().for_each(|op| assert_eq!(said(op), "0 F 0+0@0", "{op}"));
    for op in ["N", "12", "x", "rw", ""] {
        assert!(
            refused(format!("{op},512,512\n").as_bytes(), &forced("csv:op=0,offset=1,size=2")).contains("the op is"),
            "{op}"
        );
    }
}

#[test]
fn numbers_of_a_table_may_have_marks_between_thousands() {
    let map = forced("csv:time=0:us,op=1,offset=2,size=3");
    let text =
        "\"1,000.5\",R,\"1,048,576\",\"4,096\"\n\"1,001.5\",W,1048576,4'096\n1 002.5,W,1\u{202f}048\u{a0}576,4096.0\n";
    let wanted = ["0 R 2048+8@0", "1000 W 2048+8@0", "2000 W 2048+8@0"];
    assert_eq!(shown(&read(text.as_bytes(), &map).unwrap().1), wanted);
    for wrong in ["\"1,05\"", "\"10,00,000\"", "\",512\"", "\"1,024", "1024\""] {
        let error = refused(format!("0,R,{wrong},512\n").as_bytes(), &map);
        assert!(error.contains("the offset is"), "{wrong}: {error}");
    }
}

#[test]
fn rows_of_disksims_shape_are_asked_about_where_another_program_wrote_them() {
    let any = OpenOptions::default();
    let refusal = |text: &str| refused(text.as_bytes(), &any);
    let whole = "0 0 264480 16 1\n600600 0 1344 8 0\n";
    assert!(refusal(whole).contains("whole numbers as times") && refusal(whole).contains("csv:time=0:ns,volume=1"));
    let bytes = "0.5 0 8192 4096 1\n1.5 0 1048576 512 0\n";
    assert!(refusal(bytes).contains("multiples of 512") && refusal(bytes).contains("offset=2:bytes"));
    for text in [whole, bytes] {
        assert_eq!(read(text.as_bytes(), &forced("disksim")).unwrap().1.len(), 2);
    }
    let map = forced("csv:time=0:ns,volume=1,offset=2:sectors,size=3:sectors,op=4:wr,separator=space");
    assert_eq!(shown(&read(whole.as_bytes(), &map).unwrap().1), ["0 R 264480+16@0", "600600 W 1344+8@0"]);
}

#[test]
fn text_in_utf16_is_read_as_that_in_utf8() {
    let row = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\r\n0.5 é𝄞x 1950 sdb W 8 4096 0\r\n";
    let text = row.to_string() + &"0.5 x 1 sdb R 16 512 0\r\n".repeat(20_000);
    let of = |bytes: fn(u16) -> [u8; 2]| "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect();
    let forms: [Vec<u8>; 3] = [of(u16::to_le_bytes), of(u16::to_be_bytes), format!("\u{feff}{text}").into_bytes()];
    for bytes in forms {
        let (trace, all) = read(&bytes, &OpenOptions::default()).unwrap();
        assert_eq!((trace.format, all.len(), names(&trace)), ("biosnoop", 20_001, vec!["0=sdb".to_string()]));
        assert_eq!((trace.progress().done, trace.sha256().is_some()), (bytes.len() as u64, true));
    }
}

#[test]
fn an_xz_archive_is_unpacked() {
    // `printf '0,20941264,8192,W,0.551706\n' | xz -9`
    let packed =
        b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F\x02\0!\x01\x1c\0\0\0\x10\xcfX\xcc\x01\0\x1a0,20941264,8192,W,0.551706\n\
        \0\0z}\x9a\xd7\xf2\x91f\x71\0\x013\x1b\xf7\x19\x88^\x1f\xb6\xf3}\x01\0\0\0\0\x04YZ";
    let (trace, all) = read(packed, &OpenOptions::default()).unwrap();
    assert_eq!((trace.format, shown(&all)), ("spc", vec!["0 W 20941264+16@0".to_string()]));
    let twice = [&packed[..], packed].concat();
    assert_eq!(read(&twice, &OpenOptions::default()).unwrap().1.len(), 2);
    let cut = refused(&packed[..60], &OpenOptions::default());
    assert!(cut.contains("the xz archive is truncated"), "{cut}");
    let mut spoilt = packed.to_vec();
    spoilt[40] ^= 1;
    let spoilt = refused(&spoilt, &OpenOptions::default());
    assert!(spoilt.contains("the xz archive is corrupt"), "{spoilt}");
}

#[test]
fn binary_formats_are_recognised_and_give_their_requests() {
    let events =
        ["0 R 1000+8@0", "2000000 W 2048+16@0", "3000000 D 4096+2048@0", "4000000 F 0+0@0", "5000000 W 2064+8@0"];
    for cpu in ["sdb.blktrace.0", "sdb.blktrace.1"] {
        check(cpu, &OpenOptions::default(), "blktrace", &["8388624=8,16"], &events);
    }
    for version in [1, 2] {
        let records = [
            vscsi(version, 0x2a, 4096, 1000, 5_000_000),
            vscsi(version, 0x12, 96, 0, 5_000_001),
            vscsi(version, 0x88, 512, 1 << 33, 5_000_250),
            vscsi(version, 0x35, 0, 0, 5_000_251),
        ];
        let (trace, all) = read(&records.concat(), &OpenOptions::default()).unwrap();
        assert_eq!(trace.format, if version == 1 { "vscsi1" } else { "vscsi2" });
        assert_eq!(shown(&all), ["0 W 1000+8@0", "250000 R 8589934592+1@0", "251000 F 0+0@0"]);
    }
    let records = [srt(3, 1, 100, 4096, 1000, 1, 1), srt(3, 4, 150, 4096, 1000, 1, 1), srt(3, 1, 300, 512, 1001, 0, 0)];
    let heading = b"tracedate\t= \"Sat May 30 00:00:00 1992\";\nsectorsize\t= 256;\n\x0c".to_vec();
    let (trace, all) = read(&[heading, records.concat()].concat(), &OpenOptions::default()).unwrap();
    assert_eq!((trace.format, trace.notes().unaligned_rows), ("srt", 1));
    assert_eq!(shown(&all), ["0 R 500+8@0", "200000 W 500+2@1"]);
    let heading = b"$$TR_IOREC-1.3\0\ntracedate\nsectorsize 256\n\x0c".to_vec();
    let (trace, all) = read(&[heading, srt(4, 1, 100, 1024, 1000, 2, 0)].concat(), &OpenOptions::default()).unwrap();
    assert_eq!((trace.format, shown(&all)), ("srt", vec!["0 W 500+2@0".to_string()]));
    let (trace, all) = read(&srt(4, 1, 100, 1024, 1000, 2, 0), &OpenOptions::default()).unwrap();
    assert_eq!((trace.format, shown(&all)), ("srt", vec!["0 W 1000+2@0".to_string()]));
    assert_eq!(names(&trace), ["2=2"]);
}

#[test]
fn traces_of_libcachesim_are_recognised_and_read_as_what_is_said_of_them() {
    for (file, format) in [("oracle-general.bin", "oracle-general"), ("lcs.bin", "lcs")] {
        for (op, letter) in [("read", 'R'), ("write", 'W')] {
            let requests = ["0 R 264480+8@0", "0 R 264512+16@0", "3000000000 R 264480+8@0", "7000000000 R 1953120+1@0"];
            let requests = requests.map(|request| request.replace('R', &letter.to_string()));
            let requests = requests.each_ref().map(String::as_str);
            check(file, &forced(&format!("{format}:op={op}")), format, &["0=libcachesim"], &requests);
        }
        let bytes = std::fs::read(data(file)).unwrap();
        let said = refused(&bytes, &OpenOptions::default());
        assert!(said.contains(&format!("give format {format}:op=write or {format}:op=read")), "{said}");
        for wrong in [format.to_string(), format!("{format}:op=discard"), format!("{format}:write")] {
            let said = refused(&bytes, &forced(&wrong));
            assert!(said.contains(&format!("choose {format}:op=read")), "{said}");
        }
    }
    let record = |id: u64, size: u64| [&[9; 4], &id.to_le_bytes()[..], &size.to_le_bytes(), &[0; 16]].concat();
    let heading = |version: u64, bytes: usize| {
        let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
        [&magic, &version.to_le_bytes()[..], &vec![0; bytes - 24], &magic].concat()
    };
    // Sizes of 64 bits, as version 3 has them, behind a heading of today.
    let third = [heading(3, 8192), record(8, 4096), record(16, 512)].concat();
    let writes = forced("lcs:op=write");
    assert_eq!(shown(&read(&third, &writes).unwrap().1), ["0 W 8+8@0", "0 W 16+1@0"]);
    for (bytes, said) in [
        (heading(9, 1024), "the version: expected 1 to 8"),
        ([heading(3, 8192), record(1 << 40, 4096)].concat(), "the id: expected a sector of a disk"),
        ([heading(3, 8192), record(8, 0)].concat(), "the size is 0"),
        (third[..8192 + 40].to_vec(), "in the middle of this record"),
        (third[..700].to_vec(), "in the middle of this record"),
        (record(8, 4096), "the heading: expected the magic number"),
    ] {
        let found = refused(&bytes, &writes);
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn blkparse_says_which_events_it_takes_and_obeys() {
    let path = data("blkparse.txt");
    let mut trace = Trace::open(&path, &OpenOptions::default()).unwrap();
    assert!(trace.detail().unwrap().starts_with("Q events"));
    drain(&mut trace).unwrap();
    let mut trace = Trace::open(&path, &forced("blkparse:D")).unwrap();
    assert_eq!(shown(&drain(&mut trace).unwrap()), ["0 R 1000+8@0"]);
    assert!(trace.detail().unwrap().starts_with("D events"));
}

#[test]
fn zone_operations_of_blkparse_are_discards_or_said_to_be_none() {
    let line = |rest: &str| format!("8,16 1 1 0.000000000 1 Q {rest}\n");
    let text = ["ZO 524288 + 524288 [x]", "ZR 524288 + 524288 [x]", "W 524288 + 8 [x]", "ZC [x]"].map(line).concat();
    let (_, all) = read(text.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(shown(&all), ["0 D 524288+524288@0", "0 W 524288+8@0"]);
    for (row, words) in [
        ("ZR [x]", "the zone's first sector and its length"),
        ("ZR 524288 + 0 [x]", "the zone's first sector and its length"),
        ("ZA 524288 + 8 [x]", "appends, finishing a zone, and resetting all zones can't be replayed"),
        ("ZRA [x]", "appends, finishing a zone, and resetting all zones can't be replayed"),
    ] {
        let message = refused((text.clone() + &line(row)).as_bytes(), &OpenOptions::default());
        assert!(message.contains(words), "{row}: {message}");
    }
}

#[test]
fn every_sample_of_the_table_is_a_row_of_its_format() {
    for format in FORMATS.iter().filter(|format| !format.sample.is_empty()) {
        let forced =
            if format.name == "csv" { forced("csv:time=0:us,op=1,offset=2,size=3") } else { OpenOptions::default() };
        let (trace, all) = read(format.sample.as_bytes(), &forced).unwrap();
        assert_eq!((trace.format, all.len()), (format.name, 1), "{}", format.sample);
    }
}

#[test]
fn the_page_of_formats_names_each_with_its_sample() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/trace-formats.md");
    let page = std::fs::read_to_string(path).unwrap();
    for format in FORMATS {
        assert!(
            page.contains(&format!("## `{}`", format.name)),
            "docs/reference/trace-formats.md has no section {}",
            format.name
        );
        for line in format.sample.lines() {
            assert!(page.contains(line), "docs/reference/trace-formats.md lacks the sample of {}: {line}", format.name);
        }
    }
}

#[test]
fn archives_of_several_parts_read_like_the_plain_file() {
    let plain = std::fs::read(data("msr.csv")).unwrap();
    let (mut gzip, mut zst) = (Vec::new(), Vec::new());
    for part in plain.chunks(40) {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).unwrap();
        gzip.extend(encoder.finish().unwrap());
        zst.extend(zstd::encode_all(part, 1).unwrap());
    }
    let (_, expected) = read(&plain, &OpenOptions::default()).unwrap();
    for packed in [gzip, zst] {
        let (trace, all) = read(&packed, &OpenOptions::default()).unwrap();
        assert_eq!((trace.format, &all), ("msr", &expected));
        assert_eq!(trace.progress().done, packed.len() as u64);
    }
}

#[test]
fn the_hash_is_that_of_the_file_on_the_disk() {
    let (trace, _) = read(b"0,1000,4096,R,0.5\n", &OpenOptions::default()).unwrap();
    // sha256sum of that line.
    let expected = "724aca2eaef34ec9d3b1193b5d51985a9cabbad0839be68d8de2ddaf930a44da";
    assert_eq!(trace.sha256().as_deref(), Some(expected));
}

#[test]
fn line_ends_headings_and_marks_make_no_difference() {
    let rows = "128166372003061629,web,1,Read,4096,8192,58000\n128166372003061729,web,1,Write,12288,512,120\n";
    let (_, expected) = read(rows.as_bytes(), &OpenOptions::default()).unwrap();
    let heading = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    for text in [
        rows.replace('\n', "\r\n"),
        format!("{heading}{rows}"),
        format!("\u{feff}{rows}"),
        format!("# a remark\n\n{rows}\n  \n"),
        rows.trim_end().to_string(),
        rows.replace(',', ", "),
    ] {
        let (trace, all) = read(text.as_bytes(), &OpenOptions::default()).unwrap();
        assert_eq!((trace.format, &all), ("msr", &expected), "{text:?}");
    }
}

#[test]
fn asking_for_think_times_leaves_the_choice_of_events_alone() {
    let text = "  fio-1 [001] d..1. 100.500000: block_rq_issue: 8,0 WS 4096 () 2000 + 8 [fio]\n  \
                  fio-1 [001] d..1. 100.600000: block_bio_queue: 8,0 WS 3000 + 8 [fio]\n";
    let mut trace = Trace::from_bytes("t", text, &OpenOptions::default()).unwrap();
    assert!(trace.format == "ftrace" && !trace.has_think_times());
    let lbas: Vec<u64> = drain(&mut trace).unwrap().iter().map(|request| request.lba.0).collect();
    assert_eq!(lbas, [3000], "the queued request, and not the issued one that comes first");
}
