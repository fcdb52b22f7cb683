//! File systems made by hand, damaged in every way, checked and repaired.

mod rig;

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use smrkit::tally::Cause;

use smrfs::data::{Data, ReadBuffer};
use smrfs::device::{Bands, HostManaged, Model, Shape};
use smrfs::error::Errno;
use smrfs::fs::{self, Allocate, FileSystem};
use smrfs::fsck::report::{Problem, Report, Verdict};
use smrfs::fsck::{FsckOptions, check};
use smrfs::map::{self, FileMap, Head, Stored};
use smrfs::meta::memory::{Limits, MemoryStore};
use smrfs::meta::{Kind, Maps, MetadataStore, NewNode, Time};
use smrfs::space::Space;
use smrfs::space::bands::BandSpace;
use smrfs::space::bands::BandsOptions;
use smrfs::space::caveat::{Caveat, CaveatOptions};
use smrfs::units::{NodeId, Span};

use rig::{Bad, Fixture, STATE, shape};

const FILE: NewNode = NewNode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0 };

#[test]
fn a_clean_file_system_is_clean_and_nothing_is_changed() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let fixture = Fixture::new(model, 5, &mut random);
        let before = fixture.dump();
        for repair in [false, true] {
            let report = fixture.check(repair);
            assert_eq!((report.verdict, report.found), (Verdict::Clean, 0), "{:?}", report.findings);
            assert_eq!(fixture.dump(), before);
            assert_eq!((report.files, report.granules, report.read), (5, 138, 138));
            assert_eq!(report.counts, fixture.counts_of_a_mount(), "{model:?}");
        }
    }
}

#[test]
fn after_a_repair_a_second_run_is_clean_and_looking_changes_nothing() {
    for seed in 0..300 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let model = if seed % 2 == 0 { Model::StrictAppend } else { Model::Caveat };
        let files = random.random_range(2..7);
        let mut fixture = Fixture::new(model, files, &mut random);
        for _ in 0..random.random_range(1..5) {
            let how = random.random_range(0..10);
            fixture.damage(how, &mut random);
        }
        let before = fixture.dump();
        let looked = fixture.check(false);
        assert_eq!(fixture.dump(), before, "seed {seed}: looking changed something");
        assert_eq!(looked.repaired, 0);
        let repaired = fixture.check(true);
        assert_eq!(repaired.found, looked.found, "seed {seed}");
        let newer =
            |report: &Report| report.findings.iter().any(|finding| matches!(finding.problem, Problem::NewerMap { .. }));
        let again = fixture.check(false);
        if newer(&repaired) {
            continue;
        }
        assert_eq!(repaired.verdict == Verdict::Clean, looked.verdict == Verdict::Clean);
        assert_ne!(repaired.verdict, Verdict::ErrorsLeft, "seed {seed}: {:?}", repaired.findings);
        assert_eq!(again.verdict, Verdict::Clean, "seed {seed}: {:?}, after {:?}", again.findings, repaired.findings);
        assert_eq!(again.counts, repaired.counts, "seed {seed}: {repaired:#?}");
        assert_eq!(again.counts, fixture.counts_of_a_mount(), "seed {seed}");
        assert_eq!((again.granules, again.bands), (repaired.granules, repaired.bands));
    }
}

/// Findings on a file system with that damage, as text, in order.
fn found(model: Model, damage: impl FnOnce(&mut Fixture)) -> (Fixture, Vec<String>) {
    let mut fixture = Fixture::new(model, 4, &mut Pcg64Mcg::seed_from_u64(5));
    damage(&mut fixture);
    let report = fixture.check(false);
    let texts = report.findings.iter().map(|finding| finding.problem.to_string()).collect();
    (fixture, texts)
}

#[test]
fn a_map_that_leaves_what_was_written_is_cut_granule_by_granule() {
    let (fixture, texts) = found(Model::StrictAppend, |fixture| {
        let file = fixture.file(1);
        fixture.extend(file, Span::new(92, 5));
        fixture.extend(file, Span::new(258, 4));
        fixture.extend(file, Span::new(153, 3));
    });
    let (file, map) = (fixture.file(1), fixture.stored(fixture.file(1)));
    let first = map.end() - 14;
    let expected = [
        format!(
            "file {file}: granules {first}..{} at 92..94: not written since its band was reset: the disk has the cursor of band \
             2 at 90",
            first + 2
        ),
        format!("file {file}: granules {}..{} at 94..96: in a gap between bands", first + 2, first + 4),
        format!("file {file}: granules {}..{} at 258..260: in a gap between bands", first + 6, first + 8),
        format!("file {file}: granules {}..{} at 260..262: behind the end of the disk", first + 8, first + 10),
        format!(
            "file {file}: granules {}..{} at 154..156: not written since its band was reset: the disk has the cursor of band \
             4 at 154",
            first + 12,
            first + 14
        ),
    ];
    assert_eq!(texts, expected);
    assert_eq!(fixture.check(true).verdict, Verdict::Repaired);
    let mut expected = map.clone();
    expected.remove(first..first + 4);
    expected.remove(first + 6..first + 10);
    expected.remove(first + 12..first + 14);
    assert_eq!(fixture.stored(file), expected, "the granules at 96 and 153 are still there");
}

#[test]
fn what_two_files_name_stays_with_the_one_that_changed_last() {
    let (mut fixture, texts) = found(Model::Caveat, |fixture| {
        let (older, newer) = (fixture.file(0), fixture.file(3));
        let (_, span) = first_of(fixture, older);
        fixture.extend(newer, span);
    });
    let (older, newer) = (fixture.file(0), fixture.file(3));
    let (first, span) = first_of(&fixture, older);
    let at = span.at.0;
    let text =
        format!("file {older}: granules {first}..{} at {at}..{}: also in the map of file {newer}", first + 1, at + 1);
    assert_eq!(texts, [text]);
    let kept = fixture.stored(newer);
    assert_eq!(fixture.check(true).repaired, 1);
    assert_eq!(fixture.stored(older).at(first), None);
    assert_eq!(fixture.stored(newer), kept);
    let (map, size) = (fixture.stored(newer), 17);
    fixture.store_map(newer, map, |head| head.size = size);
    let report = fixture.check(false);
    assert_eq!(report.verdict, Verdict::Clean, "data behind the end is what a crash leaves");
    assert!(report.behind_end > 0);
}

fn first_of(fixture: &Fixture, file: NodeId) -> (u64, Span) {
    let piece = fixture.maps[&file].extents_from(0).next().unwrap();
    (piece.first, Span { count: 1, ..piece.span().unwrap() })
}

#[test]
fn impossible_numbers_are_put_right_and_damaged_records_kept_aside() {
    let (fixture, texts) = found(Model::Caveat, |fixture| {
        let (huge, promising, damaged) = (fixture.file(0), fixture.file(1), fixture.file(2));
        fixture.store_map(huge, fixture.stored(huge), |head| head.size = u64::MAX - 3);
        fixture.store_map(promising, fixture.stored(promising), |head| head.promised = 261);
        fixture.store.store_map(damaged, b"rubbish").unwrap();
        fixture.store.store_state(STATE, b"bad").unwrap();
    });
    let [huge, promising, damaged] = [0, 1, 2].map(|number| fixture.file(number));
    assert_eq!(texts.len() - 4, texts.iter().filter(|text| text.ends_with("belongs to no file")).count());
    assert_eq!(texts[0], format!("file {huge}: {} bytes is no size", u64::MAX - 3));
    assert_eq!(texts[1], format!("file {promising}: 261 granules are promised, more than the disk has"));
    assert_eq!(texts[2], format!("file {damaged}: its map is damaged: its checksum does not match"));
    assert_eq!(texts[3], "the saved state free-map is out of date: it makes no sense");
    assert_eq!(fixture.check(true).verdict, Verdict::Repaired);
    let head = |id| map::summary(&fixture.store.load_map(id).unwrap().unwrap()).unwrap().head;
    assert_eq!(head(huge).size, fixture.maps[&huge].end() * 512);
    assert_eq!((head(promising).promised, head(damaged).size), (0, 0));
    let kept = fixture.store.load_state(&format!("damaged-map.{damaged}")).unwrap();
    assert_eq!(kept.as_deref(), Some(&b"rubbish"[..]));
    assert_eq!(fixture.store.load_state(STATE).unwrap(), None);
}

#[test]
fn a_map_of_a_newer_program_is_left_alone() {
    let (fixture, texts) = found(Model::Caveat, |fixture| {
        let mut record = vec![9; 20];
        record.extend(map::checksum(&record).to_le_bytes());
        fixture.store.store_map(fixture.file(0), &record).unwrap();
        fixture.store.store_spill(1000, b"a part of it").unwrap();
    });
    assert_eq!(texts.len(), 1, "nobody knows which parts it needs: {texts:?}");
    assert!(texts[0].ends_with("use a newer one"), "{texts:?}");
    let before = fixture.dump();
    let report = fixture.check(true);
    assert_eq!((report.verdict, report.leaked_parts), (Verdict::ErrorsLeft, 0));
    assert!(fixture.store.spills().unwrap().contains(&1000));
    assert_eq!(fixture.dump(), before);
}

#[test]
fn the_surface_is_counted_as_a_mount_would_find_it() {
    let (fixture, _) = found(Model::StrictAppend, |fixture| {
        for file in 1..4 {
            let file = fixture.file(file);
            fixture.store_map(file, FileMap::default(), |_| {});
            fixture.maps.insert(file, FileMap::default());
        }
        let mut map = FileMap::default();
        map.insert(0, Span::new(32, 10));
        let file = fixture.file(0);
        fixture.store_map(file, map.clone(), |_| {});
        fixture.maps.insert(file, map);
        fixture.device.reset(7).unwrap();
    });
    let report = fixture.check(false);
    let counts = report.counts;
    assert_eq!((counts.readable, counts.writable, counts.garbage), (10, 7 * 4 + 30, 7 * 26 - 10));
    let fill = report.bands.unwrap();
    assert_eq!((fill.empty, fill.dead, fill.open, fill.lost), (1, 6, 7, 0));
    assert_eq!(fill.by_tenth_live, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    // Bands of 30 granules: written in full, and live to the last or the first granule of a tenth.
    let (fixture, _) = found(Model::StrictAppend, |fixture| {
        for file in 1..4 {
            let file = fixture.file(file);
            fixture.store_map(file, FileMap::default(), |_| {});
        }
        let mut map = FileMap::default();
        for (band, live) in [(0, 30), (1, 3), (2, 4), (3, 1), (4, 26)] {
            if live == 30 {
                let rest = Span::new(26, 4);
                fixture.device.write(rest.at, Data::Bytes(&[7; 4 * 512]), Cause::Host).unwrap();
            }
            map.insert(map.end(), Span::new(band * 32, live));
        }
        let file = fixture.file(0);
        fixture.store_map(file, map, |_| {});
    });
    let fill = fixture.check(false).bands.unwrap();
    assert_eq!((fill.empty, fill.dead, fill.open, fill.lost), (0, 3, 7, 0));
    assert_eq!(fill.by_tenth_live, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
    let (fixture, _) = found(Model::Caveat, |fixture| {
        for file in 0..4 {
            let file = fixture.file(file);
            let mut map = FileMap::default();
            map.insert(0, Span::new(100 + 4 * file.0, 1));
            fixture.store_map(file, map, |_| {});
        }
    });
    // DID 2, DPID 1, single granules 4 apart: two before each, one behind each.
    let counts = fixture.check(false).counts;
    assert_eq!((counts.readable, counts.not_writable, counts.garbage), (4, 4 * 2 + 4, 4));
}

#[test]
fn a_granule_that_the_disk_does_not_read_becomes_a_hole_alone() {
    let (fixture, texts) = found(Model::StrictAppend, |fixture| {
        fixture.device.granules.lock().unwrap().extend([4, 33]);
    });
    assert_eq!(texts.len(), 1, "nothing lies at 33: {texts:?}");
    assert!(texts[0].ends_with("at 4..5: can't be read: 4 was damaged by a write of 5"), "{texts:?}");
    let granules = fixture.check(false).granules;
    assert_eq!(granules, 137);
    assert_eq!(fixture.check(true).verdict, Verdict::Repaired);
    assert_eq!(fixture.check(false).verdict, Verdict::Clean);
}

/// A disk with room for files beside the bands that cleaning needs.
fn roomy(model: Model) -> Shape {
    let shape = shape(model);
    let count = if model == Model::StrictAppend { 12 } else { 0 };
    Shape { granules: 390, bands: Bands { count, ..shape.bands }, ..shape }
}

fn mounted(model: Model, device: &Arc<dyn HostManaged>, store: &Arc<dyn MetadataStore>) -> FileSystem {
    let shape = *device.shape();
    let space: Box<dyn Space> = match model {
        Model::StrictAppend => {
            let options = BandsOptions { block_granules: 4, ..BandsOptions::default() };
            Box::new(BandSpace::new(&shape, options).unwrap())
        }
        Model::Caveat => {
            Box::new(Caveat::new(&shape, CaveatOptions { block_granules: 4, ..CaveatOptions::default() }).unwrap())
        }
    };
    let options =
        fs::FsOptions { block_granules: 4, buffer_bytes: 4096, direct_bytes: 1024, ..fs::FsOptions::default() };
    FileSystem::mount(device.clone(), store.clone(), space, options).unwrap()
}

/// A file system of the core's own making, over which a random life goes.
fn lived(model: Model, seed: u64, unmount: bool) -> (Arc<dyn HostManaged>, Arc<dyn MetadataStore>) {
    let device: Arc<dyn HostManaged> = Arc::new(Bad::new(roomy(model)));
    let store: Arc<dyn MetadataStore> =
        Arc::new(MemoryStore::new(Limits { map_bytes: 160, ..Limits::EXT4 }, Arc::new(Time::default)));
    let fs = mounted(model, &device, &store);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let files = ["a", "b", "c"].map(|name| fs.make(fs.root(), name.as_bytes(), &FILE).unwrap().id);
    let bytes = [3; 5000];
    for _ in 0..300 {
        let file = files[random.random_range(0..3)];
        let (offset, count) = (random.random_range(0..12_000), random.random_range(1..5000));
        match random.random_range(0..10) {
            0..6 => fs.write(file, offset, Data::Bytes(&bytes[..count])).unwrap(),
            6 => drop(fs.share((files[0], 0), (files[random.random_range(1..3)], offset / 512 * 512), 4096).unwrap()),
            7 => fs.allocate(file, Allocate::Punch, offset, count as u64).unwrap(),
            8 => fs.sync(file).unwrap(),
            _ => drop(fs.background(true).unwrap()),
        }
    }
    if unmount {
        fs.unmount().unwrap();
    }
    (device, store)
}

#[test]
fn what_the_core_leaves_is_clean_with_and_without_an_unmount() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for seed in 0..20 {
            let unmount = seed % 2 == 0;
            let (device, store) = lived(model, seed, unmount);
            let options = FsckOptions { read_all: true, ..FsckOptions::default() };
            let report = check(&*device, &*store, &options).unwrap();
            assert_eq!(store.load_state(STATE).unwrap().is_some(), unmount);
            // As a cut between a new record and the removal of old parts leaves it behind: that is in order.
            store.store_spill(1 << 40, b"left behind").unwrap();
            let report = Report { leaked_parts: report.leaked_parts + 1, ..report };
            assert_eq!(check(&*device, &*store, &options).unwrap(), report);
            assert_eq!(report.verdict, Verdict::Clean, "{model:?} {seed}: {:?}", report.findings);
            assert!(!unmount || report.leaked_parts == 1);
            check(&*device, &*store, &FsckOptions { repair: true, ..options }).unwrap();
            assert_eq!(check(&*device, &*store, &options).unwrap().leaked_parts, 0);
            assert!(report.granules > 0 && report.granules == report.counts.readable);
        }
    }
}

#[test]
fn a_saved_free_map_that_is_out_of_date_is_removed() {
    let (device, store) = lived(Model::Caveat, 1, true);
    let mut file = None;
    store
        .scan(&mut |id, _| {
            file = Some(id);
            Ok(())
        })
        .unwrap();
    let file = file.unwrap();
    let decoded = map::decode(&store.load_map(file).unwrap().unwrap(), |part| store.load_spill(part)).unwrap();
    let (mut map, mut stored) = (decoded.map, decoded.stored);
    map.remove(0..2);
    let plan = stored.plan(&mut map, &decoded.summary.head, 160, &mut || panic!("it fits"));
    store.store_map(file, &plan.record).unwrap();
    let report = check(&*device, &*store, &FsckOptions { repair: true, ..FsckOptions::default() }).unwrap();
    assert!(matches!(report.findings[0].problem, Problem::StaleState { .. }), "{:?}", report.findings);
    assert_eq!(store.load_state(STATE).unwrap(), None);
    assert_eq!(check(&*device, &*store, &FsckOptions::default()).unwrap().verdict, Verdict::Clean);
}

/// Whatever a record says, the file is not read, nothing panics, it can be removed, and the other files stay whole.
#[test]
fn hostile_maps_end_in_errors() {
    for model in [Model::StrictAppend, Model::Caveat] {
        let (device, store) = lived(model, 7, true);
        let own = |name: &[u8]| {
            let id = store.lookup(store.root(), name).unwrap().id;
            let record = store.load_map(id).unwrap().unwrap();
            (id, map::decode(&record, |part| store.load_spill(part)).unwrap())
        };
        let ((id, _), (_, other)) = (own(b"a"), own(b"b"));
        let at = |span: Span| {
            let mut map = FileMap::default();
            map.insert(0, span);
            map
        };
        let place = other.map.extents_from(0).find_map(|piece| piece.span()).unwrap();
        let head = Head { size: 512, ..Head::default() };
        let many = (0..200).fold(FileMap::default(), |mut map, n| {
            map.insert(2 * n, Span::new(3 * n, 1));
            map
        });
        let hostile = [
            (other.map, other.summary.head),
            (at(place), head),
            (at(Span::new(100_000, 3)), head),
            (FileMap::default(), Head { size: u64::MAX, ..head }),
            (FileMap::default(), Head { promised: (1 << 56) - 1, ..head }),
            // Its parts are missing.
            (many, head),
        ];
        let saved = store.load_state(STATE).unwrap().unwrap();
        for (mut map, head) in hostile {
            let plan = Stored::new().plan(&mut map, &head, store.map_bytes_max(), &mut || 999);
            store.store_map(id, &plan.record).unwrap();
            store.store_state(STATE, &saved).unwrap();
            let fs = mounted(model, &device, &store);
            assert_eq!(fs.open(id, false, false).unwrap_err().errno(), Errno::EIO);
            assert_eq!(fs.write(id, 0, Data::Bytes(&[1; 512])).unwrap_err().errno(), Errno::EIO);
            fs.open(own(b"b").0, false, false).unwrap();
            while fs.background(true).unwrap() {}
            fs.check().unwrap();
        }
        store.store_state(STATE, &saved).unwrap();
        let fs = mounted(model, &device, &store);
        fs.unlink(fs.root(), b"a").unwrap();
        fs.sync_all().unwrap();
        fs.check().unwrap();
    }
}

#[test]
fn what_files_share_is_no_overlap_and_stays_shared() {
    for model in [Model::StrictAppend, Model::Caveat] {
        for unmount in [true, false] {
            let device: Arc<dyn HostManaged> = Arc::new(Bad::new(shape(model)));
            let store: Arc<dyn MetadataStore> = Arc::new(MemoryStore::new(Limits::EXT4, Arc::new(Time::default)));
            let fs = mounted(model, &device, &store);
            let ids = [b"a", b"b", b"c"].map(|name| fs.make(fs.root(), name, &FILE).unwrap().id);
            fs.write(ids[0], 0, Data::Bytes(&[1; 20 * 512])).unwrap();
            assert_eq!(fs.share((ids[0], 512), (ids[1], 0), 10 * 512).unwrap(), 10 * 512);
            assert_eq!(fs.share((ids[1], 0), (ids[2], 1024), 4 * 512).unwrap(), 4 * 512);
            fs.write(ids[1], 512, Data::Bytes(&[2; 512])).unwrap();
            fs.unlink(fs.root(), b"a").unwrap();
            if unmount {
                fs.unmount().unwrap()
            } else {
                fs.sync_all().unwrap()
            }
            drop(fs);
            let report = check(&*device, &*store, &FsckOptions::default()).unwrap();
            assert_eq!((report.verdict, report.granules), (Verdict::Clean, 11), "{:?}", report.findings);
            let fs = mounted(model, &device, &store);
            assert_eq!(fs.usage().unwrap().live, 11);
            fs.check().unwrap();
            for (id, bytes) in
                [(ids[1], [[1; 512], [2; 512], [1; 512]].concat()), (ids[2], [[0; 1024], [1; 1024]].concat())]
            {
                let mut back = vec![9; bytes.len()];
                fs.read(id, 0, ReadBuffer::Bytes(&mut back)).unwrap();
                assert!(back == bytes);
            }
            fs.unlink(fs.root(), b"b").unwrap();
            fs.sync_all().unwrap();
            assert_eq!(fs.usage().unwrap().live, 4);
        }
    }
}

/// A map that says that it shares does not make another's data its own, if that one says nothing of it.
#[test]
fn a_file_shares_only_what_the_other_says_it_shares() {
    let device: Arc<dyn HostManaged> = Arc::new(Bad::new(shape(Model::Caveat)));
    let store: Arc<dyn MetadataStore> = Arc::new(MemoryStore::new(Limits::EXT4, Arc::new(Time::default)));
    let fs = mounted(Model::Caveat, &device, &store);
    let [victim, thief] = [b"a", b"b"].map(|name| fs.make(fs.root(), name, &FILE).unwrap().id);
    fs.write(victim, 0, Data::Bytes(&[1; 4 * 512])).unwrap();
    fs.sync_all().unwrap();
    drop(fs);
    let record = store.load_map(victim).unwrap().unwrap();
    let mut stolen = map::decode(&record, |number| store.load_spill(number)).unwrap();
    for (victim_shares, verdict) in [(false, Verdict::ErrorsLeft), (true, Verdict::Clean)] {
        for (file, shares) in [(thief, true), (victim, victim_shares)] {
            let head = Head { shares, ..stolen.summary.head };
            let plan = Stored::new().plan(&mut stolen.map, &head, store.map_bytes_max(), &mut || 1);
            store.store_map(file, &plan.record).unwrap();
        }
        assert_eq!(check(&*device, &*store, &FsckOptions::default()).unwrap().verdict, verdict);
        let space = Caveat::new(&shape(Model::Caveat), CaveatOptions { block_granules: 4, ..CaveatOptions::default() });
        let mounts =
            FileSystem::mount(device.clone(), store.clone(), Box::new(space.unwrap()), fs::FsOptions::default());
        assert_eq!(mounts.is_ok(), victim_shares);
    }
}
