//! Names that were mistyped: the nearest known one, and the list.

/// "did you mean `x`? Known: a, b, x".
pub(crate) fn known<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let list = names.clone().collect::<Vec<_>>().join(", ");
    match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`? Known: {list}"),
        None => format!("known: {list}"),
    }
}

/// The name that differs from `name` in the fewest letters, if that is at most a third of them.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = name.chars().take(64).collect();
    let allowed = letters.len().div_ceil(3);
    names.map(|n| (distance(&letters, n), n)).filter(|(d, _)| *d <= allowed).min_by_key(|(d, _)| *d).map(|(_, n)| n)
}

/// Levenshtein's distance: letters to insert, remove or change.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, y) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, x) in a.iter().enumerate() {
            let changed = diagonal + usize::from(*x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered() {
        let names = ["zipf", "hot-cold", "random-write"];
        assert_eq!(nearest("ramdom-write", names.into_iter()), Some("random-write"));
        assert_eq!(nearest("zpif", names.into_iter()), Some("zipf"));
        assert_eq!(nearest("quicksort", names.into_iter()), None);
        assert_eq!(nearest("", names.into_iter()), None);
    }
}
