//! Suggestions for mistyped names: the nearest known one, and the list.

/// "did you mean `x`? Known: a, b, x", or only the list if no name is near.
pub fn known<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let list = names.clone().collect::<Vec<_>>().join(", ");
    match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`? Known: {list}"),
        None => format!("known: {list}"),
    }
}

/// The name that differs from `name` in the fewest letters, if those are at most a third of its letters.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Cut, because a mistake may be as long as a file, and the distance takes time for each pair of letters.
    let name: String = name.chars().take(64).collect();
    let allowed = name.chars().count().div_ceil(3);
    let near =
        names.map(|known| (strsim::levenshtein(&name, known), known)).filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
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
