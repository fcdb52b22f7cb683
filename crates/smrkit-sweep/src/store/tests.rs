use super::*;

fn pairs(options: &[(&str, &str)]) -> Vec<Pair> {
    options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_key_follows_the_options_and_what_their_files_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    fs::write(&one, "content").unwrap();
    fs::write(&two, "content").unwrap();
    let of = |options: &[(&str, &str)]| key(&pairs(options), &mut Contents::default()).unwrap();
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
