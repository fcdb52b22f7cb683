//! Texts compared with what they were.

use std::fs;
use std::path::Path;

/// Fails where a text is not that of the file; with `UPDATE=1` it becomes that.
pub fn same(path: &Path, made: &str) {
    if std::env::var_os("UPDATE").is_some() {
        return fs::write(path, made).unwrap();
    }
    let known = fs::read_to_string(path).unwrap();
    let moved: Vec<&str> = made.lines().filter(|line| !known.lines().any(|other| other == *line)).collect();
    assert!(made == known, "{}: UPDATE=1 writes it anew, if it has to change:\n{}", path.display(), moved.join("\n"));
}
