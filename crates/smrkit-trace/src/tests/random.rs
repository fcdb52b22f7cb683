//! Nothing panics on any bytes, and the fast path says what the slow one says.

use proptest::prelude::*;

use super::*;
use crate::msr::Msr;
use crate::reader::TextFormat;
use crate::row::Volumes;

/// Reads `bytes` in every way there is; only the absence of a panic counts, and that requests make sense.
fn exercise(bytes: &[u8]) {
    let names = FORMATS.iter().map(|format| match format.name {
        "csv" => Some("csv:time=0:us,op=1,offset=2,size=3:sectors,volume=4".to_string()),
        "lcs" | "oracle-general" => Some(format!("{}:op=write", format.name)),
        name => Some(name.to_string()),
    });
    for format in names.chain([None, Some("csv".into()), Some("csv:op=0:wr,offset=1,size=2,separator=space".into())]) {
        for skip_bad_rows in [false, true] {
            let options =
                OpenOptions { format: format.clone(), skip_bad_rows, sha256: false, ..OpenOptions::default() };
            let Ok(mut trace) = Trace::from_bytes("random", bytes.to_vec(), &options) else { continue };
            let mut batch = Vec::new();
            while trace.fill(&mut batch).is_ok() && !batch.is_empty() {
                for request in &batch {
                    assert!(usize::from(request.volume) < trace.volumes().len());
                    assert_eq!(request.sectors == 0, request.op == Op::Flush);
                    assert!(request.end().0 <= 1 << 55);
                }
            }
        }
    }
}

/// Rows to spoil: every sample, and binary records.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = FORMATS.iter().map(|f| format!("{0}\n{0}\n{0}\n", f.sample).into_bytes()).collect();
    for version in [1, 2] {
        seeds.push(vscsi(version, 0x2a, 4096, 1000, 5).repeat(4));
    }
    seeds.extend(["lcs.bin", "oracle-general.bin"].map(|name| std::fs::read(data(name)).unwrap()));
    seeds.push(b"time;op;offset;size_sectors\n1;W;0x10;8\n2024-02-29T23:59:59Z;R;0;1\n".to_vec());
    seeds.push(blktrace_record(1, 8, 4096, 1, b"xy").repeat(4));
    seeds.push([b"tracedate\nsectorsize 512\n\x0c".to_vec(), srt(3, 1, 1, 512, 1, 0, 1).repeat(4)].concat());
    let row = b"1,web,1,Read,4096,8192,58000\n".repeat(50);
    seeds.push(zstd::encode_all(&row[..], 1).unwrap());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &row).unwrap();
    seeds.push(encoder.finish().unwrap());
    seeds
}

/// Bytes that rows are made of, so that spoiled rows often stay nearly right.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), proptest::sample::select(b"0123456789,. -+RW\n\r[]\":/exF".to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(byte(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn no_spoiled_row_makes_a_reader_panic(
        seed in 0..seeds().len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), byte(), 0..3_u8), 0..6),
    ) {
        let mut bytes = seeds().swap_remove(seed);
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => { bytes.remove(at); }
                _ => {}
            }
        }
        exercise(&bytes);
    }

    #[test]
    fn the_fast_path_of_msr_agrees_with_the_slow_one(
        ticks: u64, disk in 0..3_u8, offset in prop_oneof![any::<u64>(), 0..1_u64 << 40],
        size in prop_oneof![any::<u64>(), 0..1_u64 << 24], end in proptest::sample::select(vec!["\n", "\r\n"]),
        spoil in proptest::option::weighted(0.5, (any::<prop::sample::Index>(), byte())),
    ) {
        let mut line = format!("{ticks},web,{disk},Write,{offset},{size},58{end}").into_bytes();
        if let Some((at, byte)) = spoil && byte != b'\n' {
            let at = at.index(line.len() - end.len());
            line[at] = byte;
        }
        let (mut format, mut volumes) = (Msr::default(), Volumes::default());
        for disk in [b"1,web,0,Read,0,512,0", b"1,web,1,Read,0,512,0"] {
            format.parse(disk, &mut volumes).unwrap();
        }
        let text = [&line[..], &[b'7'; 40]].concat();
        if let Some((row, used)) = format.fast(&text) {
            prop_assert_eq!(used, line.len());
            prop_assert_eq!(format.parse(line.trim_ascii_end(), &mut volumes), Ok(Some(row)));
        }
    }
}

#[test]
fn the_fast_path_is_taken() {
    let (mut format, mut volumes) = (Msr::default(), Volumes::default());
    let row = b"128166372003061629,web,1,Read,4096,8192,58000";
    format.parse(row, &mut volumes).unwrap();
    let text = [&row[..], b"\n", &row[..]].concat();
    assert_eq!(format.fast(&text).map(|(_, used)| used), Some(row.len() + 1));
    // Another volume in between, which was seen before.
    let other = b"128166372003061629,web,12,Write,4096,8192,58000";
    let index = format.parse(other, &mut volumes).unwrap().unwrap().volume;
    assert_eq!(format.fast(&text).map(|(row, _)| row.volume), Some(0));
    let text = [&other[..], b"\n", &other[..]].concat();
    assert_eq!(format.fast(&text).map(|(row, _)| row.volume), Some(index));
}
