//! Images that somebody else made: checksums and digests are right, and what they guard makes no sense.
//!
//! Whatever a word says, the drive opens or is refused with a reason: nothing panics, and neither file grows beyond what is its own.

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrfs::map::checksum;
use smrkit::medium::Buf;
use smrkit::request::{Op, Request};
use smrkit::units::{Lba, Nanos, SECTOR_BYTES};
use smrkit_live::block::image::DriveImage;
use tempfile::TempDir;

use crate::count::count_from;
use crate::memory::Contents;
use crate::run::{Drive, Files, LAYERS, Setup};

/// Layers that keep books, and those that promise more.
const BOOKKEEPERS: [(&str, &[&str]); 3] = [
    ("set-assoc", &["region_sectors=400", "cache_percent=10"]),
    ("rmw", &["region_sectors=400"]),
    ("dm-zoned", &["zone_bytes=80Ki", "conventional_percent=40"]),
];
const NO_JOURNAL: Setup = Setup { journal_bytes: None, cache_sectors: 0 };

const MOVES: u32 = 1 << 31;
const RECORD_MAGIC: u64 = 0x5352_4b49_5452_4543;
const SECTOR: usize = SECTOR_BYTES as usize;
const LABEL_BYTES: usize = 32;

/// A record of a journal with the right checksum.
fn record(number: u64, offset: u64, mark: u32, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32 | mark;
    let head = [&number.to_le_bytes()[..], &offset.to_le_bytes(), &length.to_le_bytes()].concat();
    let sum = checksum(&head) ^ checksum(data).rotate_left(1);
    [&head, &sum.to_le_bytes()[..], data].concat()
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Drives of each kind whose platters are forged.
fn seeds() -> u64 {
    count_from("SMRKIT_SEEDS", 3)
}

/// As smrkit makes it of records and labels.
fn digest(words: &[u64]) -> u64 {
    words.iter().fold(words.len() as u64, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// The word that takes the place of another.
fn forged(word: u64, random: &mut Pcg64Mcg) -> u64 {
    let near = word.wrapping_add([1, u64::MAX, 7, 512][random.random_range(0..4)]);
    let far = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 1 << 62, 1 << 40, 1 << 33, u64::from(u32::MAX)];
    match random.random_range(0..6) {
        0 => near,
        1 => word ^ 1 << random.random_range(0..64),
        2 => random.random_range(0..5000),
        3 => random.random(),
        _ => far[random.random_range(0..far.len())],
    }
}

/// Uses a drive for a while, and ends in good order or not.
fn used(drive: &Drive, random: &mut Pcg64Mcg, is_closed: bool) -> Files {
    let mut opened = drive.open(&drive.new_files(), NO_JOURNAL, None).unwrap();
    for number in 1..=random.random_range(20..400) {
        opened.write(
            random.random_range(0..drive.sectors.min(1500) - 60),
            random.random_range(1..60),
            number,
            Nanos::ZERO,
        );
    }
    opened.flush();
    let files = opened.files().clone();
    if is_closed {
        opened.device.close(Nanos::ZERO).unwrap();
    }
    files.contents()
}

/// Opens a drive in forged files and uses it; the reason where that is refused.
fn try_out(drive: &Drive, files: &Files, random: &mut Pcg64Mcg) -> Result<(), String> {
    let mut opened = drive.open(files, NO_JOURNAL, None)?;
    for _ in 0..12 {
        let lba = Lba(random.random_range(0..drive.sectors - 100));
        let op = [Op::Read, Op::Write, Op::Write, Op::Discard][random.random_range(0..4)];
        let request = Request::new(op, lba, random.random_range(1..100));
        let bytes = if op == Op::Discard { 0 } else { request.sectors as usize * SECTOR };
        let arrival = opened.device.now();
        if opened.device.serve(&request, arrival, &mut Buf::Bytes(vec![7; bytes])).is_err() {
            return Err("it fails every command".into());
        }
        opened.device.step_before(arrival + Nanos(5_000_000_000));
    }
    let length = opened.files().contents()[0].length();
    assert!(length <= drive.new_files()[0].length(), "the image has grown to {length} bytes");
    Ok(())
}

/// Tries forged files out; a panic is told with `what`.
fn never_panics(drive: &Drive, files: &Files, random: &mut Pcg64Mcg, what: &str) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| try_out(drive, files, random))).unwrap_or_else(|_| panic!("{what}"))
}

#[test]
fn a_journal_that_is_not_of_its_image_is_refused() {
    let folder = TempDir::new().unwrap();
    let drive = Drive::new(folder.path(), LAYERS[0], 0);
    let [image, _] = drive.new_files();
    let (end, mid) = (image.length(), image.length() / 2);
    let (move_of, at) = (|words: [u64; 3]| bytes_of(&words), 2 << 20);
    let cases = [
        ("data behind the end", record(1, end - 99, 0, &[7; 100])),
        ("data in the head", record(1, 0, 0, &[7; 100])),
        ("an offset that overflows", record(1, u64::MAX - 9, 0, &[7; 100])),
        ("a hole behind the end", record(1, at, MOVES, &move_of([end, 0, 0]))),
        ("a range that overflows", record(1, at, MOVES, &move_of([u64::MAX, 3, 0]))),
        ("destroyed behind the end", record(1, end, MOVES, &move_of([1 << 40, 3, 0]))),
        ("a source behind the end", record(1, at, MOVES, &move_of([4096, 1, end - 4095]))),
        ("a source that overflows", record(1, at, MOVES, &move_of([4096, 1, u64::MAX]))),
        ("a source in the head", record(1, at, MOVES, &move_of([4096, 1, 0]))),
        ("a source behind it in the journal", record(1, at, MOVES, &move_of([4096, 2, 0]))),
        ("a source that overflows the journal", record(1, at, MOVES, &move_of([8, 2, u64::MAX - 1]))),
        ("a kind that is none", record(1, at, MOVES, &move_of([4096, 4, 0]))),
        ("too few words", record(1, at, MOVES, &[0; 16])),
        ("too many words", record(1, at, MOVES, &[0; 32])),
        ("no range", record(1, at, MOVES, &[])),
        ("a number without a next one", record(u64::MAX, at, 0, &[7; 100])),
        ("the second record", [record(1, mid, 0, &[7; 100]), record(2, end, 0, &[7; 100])].concat()),
    ];
    for (what, journal) in cases {
        let files = [image.clone(), Contents::of(&journal)];
        let refused = drive.open(&files, NO_JOURNAL, None).err().unwrap_or_else(|| panic!("{what}: it opens"));
        assert!(refused.contains("restore both from a copy"), "{what}: {refused}");
    }
    let good = [record(1, mid, 0, &[7; 100]), record(2, mid + 512, MOVES, &move_of([100, 2, 24]))].concat();
    assert!(drive.open(&[image, Contents::of(&good)], NO_JOURNAL, None).is_ok());
}

#[test]
fn whatever_a_journal_says_is_within_its_image() {
    let folder = TempDir::new().unwrap();
    let drive = Drive::new(folder.path(), LAYERS[1], 0);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let [image, _] = used(&drive, &mut random, false);
    let (mut opened, end) = (0, image.length());
    for case in 0..1500 {
        let mut journal = Vec::new();
        for number in 1..=random.random_range(1..6) {
            let place = |random: &mut Pcg64Mcg| match random.random_range(0..6) {
                0 => forged(end, random),
                _ => random.random_range(1 << 20..end),
            };
            let length = if random.random_range(0..5) == 0 { forged(4096, &mut random) } else { 4096 };
            let data = match random.random_range(0..4) {
                0 => vec![7; random.random_range(0..2000)],
                kind => {
                    let at = if kind == 3 { 0 } else { place(&mut random) };
                    bytes_of(&[length, kind, if kind == 2 { at % 3000 } else { at }])
                }
            };
            let mark = if data.len() == 24 { MOVES } else { 0 };
            journal.extend(record(number, place(&mut random), mark, &data));
        }
        let files = [image.clone(), Contents::of(&journal)];
        opened += u32::from(never_panics(&drive, &files, &mut random, &format!("case {case}")).is_ok());
    }
    assert!((50..1450).contains(&opened), "{opened} of 1500 are opened");
}

/// The numbers in a text, as ranges of its bytes.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in text.char_indices().filter(|(_, letter)| letter.is_ascii_digit()) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end = at + 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

#[test]
fn whatever_a_head_says_it_is_a_drive_or_refused() {
    let folder = TempDir::new().unwrap();
    let mut refused = 0;
    for layer in LAYERS.into_iter().chain(BOOKKEEPERS) {
        let drive = Drive::new(folder.path(), layer, 0);
        let text = serde_json::to_string(drive.head()).unwrap();
        // The folder's name has other digits each time.
        let own = folder.path().to_str().unwrap();
        let (numbers, path) = (numbers(&text.replace(own, &"x".repeat(own.len()))), folder.path().join("drive.img"));
        let mut random = Pcg64Mcg::seed_from_u64(2);
        drop(drive);
        for case in 0..200 {
            let range = numbers[random.random_range(0..numbers.len())].clone();
            let number = forged(text[range.clone()].parse().unwrap_or(1), &mut random);
            let text = [&text[..range.start], &number.to_string(), &text[range.end..]].concat();
            let length = if case % 10 == 9 { random.random() } else { text.len() as u32 };
            let words = [4, length, checksum(text.as_bytes())];
            let mut head: Vec<u8> = [b"SMRdrive".to_vec(), words.map(u32::to_le_bytes).concat()].concat();
            head.extend(checksum(&head).to_le_bytes());
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[&head, text.as_bytes()].concat(), 0).unwrap();
            drop(file);
            let opened = catch_unwind(|| DriveImage::open(&path, false).err().map(|error| error.to_string()));
            let error = opened.unwrap_or_else(|_| panic!("{}, case {case}: {number} at {range:?} of {text}", layer.0));
            refused += u32::from(error.is_some());
        }
    }
    assert!((150..1700).contains(&refused), "{refused} are refused");
}

/// The places in an image of records and labels on the platters: the first byte, and the words.
fn guarded(image: &[u8]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let sectors = (1 << 20..image.len()).step_by(SECTOR);
    let records = sectors.filter(|&at| word(image, at) == RECORD_MAGIC).map(|at| (at, word(image, at + 8) as usize));
    let is_label = |at: &usize| {
        let words: Vec<u64> = (0..4).map(|i| word(image, at + 8 * i)).collect();
        words[..3] != [0; 3] && words[3] == digest(&words[..3])
    };
    let slots = (1 << 20..image.len() - LABEL_BYTES).step_by(LABEL_BYTES);
    (records.filter(|&(at, words)| at + 24 + 8 * words <= image.len()).collect(), slots.filter(is_label).collect())
}

/// Forges one word, or a few, of what a layer has on the platters.
fn forge_platters(image: &mut Contents, found: &(Vec<(usize, usize)>, Vec<usize>), random: &mut Pcg64Mcg) {
    let (records, labels) = found;
    let takes_record = labels.is_empty() || !records.is_empty() && random.random();
    let (at, head, count) = match takes_record {
        true => {
            let (at, words) = records[random.random_range(0..records.len())];
            (at, 24, words)
        }
        false => (labels[random.random_range(0..labels.len())], 0, 3),
    };
    let mut bytes = vec![0; head + 8 * count];
    image.read(at as u64, &mut bytes).unwrap();
    let mut words: Vec<u64> = (0..count).map(|i| word(&bytes, head + 8 * i)).collect();
    for _ in 0..random.random_range(1..3) {
        // The first words matter most.
        let most = [12, count][random.random_range(0..2)].min(count);
        let which = random.random_range(0..most.max(1));
        if let Some(word) = words.get_mut(which) {
            *word = forged(*word, random);
        }
    }
    image.write((at + head) as u64, &bytes_of(&words));
    let sum = if head > 0 { at + 16 } else { at + 24 };
    image.write(sum as u64, &digest(&words).to_le_bytes());
}

#[test]
fn whatever_is_on_the_platters_recovery_ends() {
    for layer in LAYERS.into_iter().chain([BOOKKEEPERS[2]]).skip(1) {
        let folder = TempDir::new().unwrap();
        for seed in 0..seeds() {
            let drive = Drive::new(folder.path(), layer, seed);
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let [image, journal] = used(&drive, &mut random, false);
            let found = guarded(&image.bytes());
            assert!(found.0.len() + found.1.len() > 0, "{} leaves nothing on the platters", layer.0);
            for case in 0..40 {
                let mut image = image.clone();
                for _ in 0..[1, 1, 5][random.random_range(0..3)] {
                    forge_platters(&mut image, &found, &mut random);
                }
                let what = format!("{}, seed {seed}, case {case}", layer.0);
                let _ = never_panics(&drive, &[image, journal.clone()], &mut random, &what);
            }
        }
    }
}

#[test]
fn books_that_make_no_sense_are_refused() {
    for layer in BOOKKEEPERS {
        let folder = TempDir::new().unwrap();
        let mut opened = 0;
        for seed in 0..12 {
            let drive = Drive::new(folder.path(), layer, seed);
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let [image, journal] = used(&drive, &mut random, true);
            let start = drive.new_files()[0].length();
            let mut books = vec![0; (image.length() - start) as usize];
            image.read(start, &mut books).unwrap();
            let words: Vec<u64> = (1..books.len() / 8).map(|i| word(&books, 8 * i)).collect();
            for case in 0..40 {
                let mut words = words.clone();
                // The books of a layer that holds nothing are short.
                for _ in 0..[0, 1, 1, 3][case % 4].min(words.len()) {
                    let which = random.random_range(0..words.len());
                    words[which] = forged(words[which], &mut random);
                }
                words.truncate(if case % 10 == 9 { random.random_range(0..=words.len()) } else { words.len() });
                words.resize(words.len() + if case % 10 == 8 { 3 } else { 0 }, random.random());
                let mut image = image.clone();
                let words = bytes_of(&words);
                image.set_length(start);
                image.write(start, &[&u64::from(checksum(&words)).to_le_bytes()[..], &words].concat());
                let what = format!("{}, seed {seed}, case {case}", layer.0);
                let tried = never_panics(&drive, &[image, journal.clone()], &mut random, &what);
                assert!(case % 4 > 0 || case % 10 > 7 || tried.is_ok(), "{what}: {tried:?}");
                opened += u32::from(tried.is_ok());
            }
        }
        assert!((100..470).contains(&opened), "{}: {opened} of 480 are opened", layer.0);
    }
}
