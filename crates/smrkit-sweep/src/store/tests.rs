use std::time::Duration;

use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;

use super::*;
use crate::plan::Part;

fn pairs(options: &[(&str, &str)]) -> Vec<Pair> {
    options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_key_follows_the_options_and_what_their_files_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    fs::write(&one, "content").unwrap();
    fs::write(&two, "content").unwrap();
    let of = |options: &[(&str, &str)]| key(&pairs(options), &mut FileHashes::default()).unwrap();
    let traced = |path: &Path| of(&[("trace", path.to_str().unwrap()), ("depth", "1")]);
    let before = traced(&one);
    assert_eq!(before, traced(&two), "the name does not count");
    assert_eq!(before, of(&[("depth", "1"), ("trace", one.to_str().unwrap())]), "nor the order");
    fs::write(&one, "contenT").unwrap();
    assert_ne!(before, traced(&one));
    assert_eq!(of(&[("time-scale", "2")]), of(&[("time_scale", "2")]));
    assert_ne!(of(&[("depth", "1"), ("seed", "12")]), of(&[("depth", "11"), ("seed", "2")]));
    assert_ne!(of(&[("trace", "a"), ("trace", "b")]), of(&[("trace", "b"), ("trace", "a")]));
}

/// A run of a few requests, in which each number that is kept is another one.
fn outcome() -> Outcome {
    let text = "drive = 'tiny'\nlayer = 'rmw'\nworkload = 'random-write:count=20'\nset = {'rmw.region_sectors' = 300}";
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let sweep = Sweep::parse("test", text).unwrap();
    crate::execute::execute(&sweep, &store, &smrkit::experiment::pool::Unwatched).unwrap();
    let mut outcome = store.of_sweep("test").unwrap().remove(0);
    let all = &mut outcome.latency_ns.all;
    (all.mean, all.p50, all.p99, all.max) = (4, 5, 6, 7);
    (outcome.seed, outcome.requests, outcome.elapsed_ns) = (1, 2, 3);
    outcome.host_written_sectors = 8;
    outcome.physical_written_sectors.total = 9;
    outcome.verdict.stalls_over_7s = 10;
    outcome.verdict.commands.commands_over_7s = 11;
    (outcome.array, outcome.replayed.trace) = (Some("raid1".into()), Some("day.csv".into()));
    outcome
}

#[test]
fn columns_hold_what_they_are_called_by() {
    let outcome = outcome();
    let later = Outcome { slowdown: Some(2.5), write_amplification: None, interrupted: true, ..outcome.clone() };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    assert!(!store.has("k"));
    store.write("k", &[outcome.clone(), later.clone()]).unwrap();
    assert!(store.has("k"));
    assert_eq!(store.outcomes("k").unwrap(), [outcome.clone(), later]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing under construction is left");

    let columns = |path: &Path| -> HashMap<String, Vec<Field>> {
        let rows = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let mut columns = HashMap::<String, Vec<Field>>::new();
        for row in rows.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            row.get_column_iter().for_each(|(name, cell)| columns.entry(name.clone()).or_default().push(cell.clone()));
        }
        columns
    };
    let runs = columns(&store.file("k"));
    let texts = |words: [&str; 2]| words.map(|word| Field::Str(word.into())).to_vec();
    let counts = |counts: [u64; 2]| counts.map(Field::ULong).to_vec();
    assert_eq!(runs["layer"], texts(["rmw", "rmw"]));
    assert_eq!(runs["interrupted"], texts(["false", "true"]));
    assert_eq!(runs["trace"], texts(["day.csv", "day.csv"]));
    assert_eq!(runs["requests"], counts([2, 2]));
    assert_eq!(runs["latency_ns.all.p99"], counts([6, 6]));
    assert_eq!(runs["physical_written_sectors.total"], counts([9, 9]));
    assert_eq!(runs["verdict.commands_over_7s"], counts([11, 11]));
    // What can be missing is a real number in every file, and not a number where it is missing.
    assert_eq!(runs["parameters.region_sectors"], [Field::Double(300.0), Field::Double(300.0)]);
    let Field::Double(missing) = runs["write_amplification"][1] else { panic!("{:?}", runs["write_amplification"]) };
    assert!(missing.is_nan());
    assert!(!runs.contains_key("commit") || smrkit_options::COMMIT.is_some(), "a key without a value has no column");
    assert_eq!(runs["outcome"][0], Field::Str(json!(outcome).to_string()));
}

#[test]
fn what_a_killed_process_left_goes_once_its_result_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let paths = ["a.parquet", "a.of-1-2", "b.of-1-2", "c"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| fs::write(path, "").unwrap());
    store.tidy().unwrap();
    assert_eq!(paths.map(|path| path.exists()), [true, false, true, true]);
    let own = [store.temporary("k"), store.temporary("k")];
    assert_ne!(own[0], own[1], "two tries have two files");
}

#[test]
fn a_note_that_a_killed_process_left_goes_once_a_later_one_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    // The second is called like something left of the first.
    for name in ["a.of-1", "a"] {
        store
            .write_list(&Sweep { name: name.into(), comparisons: Vec::new(), part: Part::ALL, note: None }, &[])
            .unwrap();
    }
    let noted = store.list("a").metadata().unwrap().modified().unwrap();
    let left = |name: &str, time: SystemTime| {
        let path = store.temporary(name);
        File::create(&path).unwrap().set_modified(time).unwrap();
        path
    };
    let second = Duration::from_secs(1);
    let (before, after) = (noted - second, noted + second);
    File::open(store.list("a.of-1")).unwrap().set_modified(before).unwrap();
    let paths =
        [left("a", before), left("a.of-1", before - second), left("a", noted), left("a", after), left("b", before)];
    store.tidy().unwrap();
    assert_eq!(paths.map(|path| path.exists()), [false, false, true, true, true]);
    assert_eq!(store.sweeps().unwrap(), ["a", "a.of-1"]);
}

/// Does two things at once, again and again.
fn at_once(one: impl Fn() + Sync, other: impl Fn() + Sync) {
    for _ in 0..200 {
        let both = std::sync::Barrier::new(2);
        let begin = |each: &dyn Fn()| {
            both.wait();
            each();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| begin(&one));
            begin(&other);
        });
    }
}

#[test]
fn two_processes_may_note_one_sweep_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let note = || {
        let store = Store::create(folder.path()).unwrap();
        let key = "k".repeat(64);
        let keys = vec![key.as_str(); 30];
        store
            .write_list(&Sweep { name: "test".into(), comparisons: Vec::new(), part: Part::ALL, note: None }, &keys)
            .unwrap();
        assert_eq!(store.keys_of("test").unwrap(), keys);
    };
    let note_and_tidy = || {
        note();
        Store::open(folder.path()).unwrap().tidy().unwrap();
    };
    at_once(note_and_tidy, note_and_tidy);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing under construction is left");
}

#[test]
fn two_processes_may_keep_one_comparison_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let kept = [outcome()];
    store.write("k", &kept).unwrap();
    at_once(|| store.write("k", &kept).unwrap(), || store.tidy().unwrap());
    assert_eq!(store.outcomes("k").unwrap(), kept);
}

#[test]
fn sweeps_are_found_by_name_and_their_outcomes_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path()).unwrap();
    let note = |name: &str, keys: &[&str]| {
        let sweep = Sweep { name: name.into(), comparisons: Vec::new(), part: Part::ALL, note: None };
        store.write_list(&sweep, keys).unwrap();
    };
    let error = |sweep: Option<&str>| store.of_sweep_or_all(sweep).unwrap_err().to_string();
    assert!(error(None).contains("no outcomes yet"));
    note("b", &["two", "three"]);
    note("a", &["one", "two"]);
    fs::write(folder.path().join("other.json"), "").unwrap();
    assert_eq!(store.sweeps().unwrap(), ["a", "b"]);
    assert!(error(Some("a")).contains("no outcomes yet"));
    assert!(error(Some("c")).contains("no sweep is called c") && error(Some("c")).contains("there are a, b"));
    let outcome = outcome();
    for (key, seed) in [("one", 1), ("two", 2)] {
        store.write(key, &[Outcome { seed, ..outcome.clone() }]).unwrap();
    }
    let seeds = |sweep| store.of_sweep_or_all(sweep).unwrap().iter().map(|one| one.seed).collect::<Vec<_>>();
    assert_eq!((seeds(None), seeds(Some("a")), seeds(Some("b"))), (vec![1, 2], vec![1, 2], vec![2]));
    fs::write(store.list("b"), "{").unwrap();
    assert!(error(Some("b")).contains("damaged"));
    assert!(Store::open(&folder.path().join("none")).err().unwrap().to_string().contains("no store of results"));
    assert!(Store::open(folder.path()).is_ok());
}

#[test]
fn only_options_that_take_files_follow_what_files_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let text = path.to_str().unwrap();
    let of = |name: &str| {
        let of = |content: &str| {
            fs::write(&path, content).unwrap();
            key(&pairs(&[(name, text)]), &mut FileHashes::default()).unwrap()
        };
        (of("one"), of("two"))
    };
    for name in FILES {
        let (one, two) = of(name);
        assert_ne!(one, two, "{name}");
    }
    let (one, two) = of("layer");
    assert_eq!(one, two);
    let array = format!("raid1:member=(drive={text},layer=log),member=(layer=log)");
    let of_array = |content: &str| {
        fs::write(&path, content).unwrap();
        key(&pairs(&[("array", &array)]), &mut FileHashes::default()).unwrap()
    };
    assert_ne!(of_array("one"), of_array("two"));
    let mut contents = FileHashes::default();
    let one = key(&pairs(&[("trace", text)]), &mut contents).unwrap();
    fs::write(&path, "three").unwrap();
    assert_eq!(key(&pairs(&[("trace", text)]), &mut contents).unwrap(), one, "a file is read once");
    let folder_key = key(&pairs(&[("trace", folder.path().to_str().unwrap())]), &mut FileHashes::default());
    assert!(folder_key.is_ok(), "a folder is not read");
}

#[test]
fn parts_of_a_hash_do_not_run_together() {
    let of = |parts: &[&str]| hash_of(parts.iter().map(|part| part.as_bytes()));
    assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    // The length of nothing is eight zero bytes.
    assert_eq!(of(&[""]), "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
}
