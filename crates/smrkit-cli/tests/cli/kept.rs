//! What commands made, compared with what they made before.

use std::path::Path;

use serde_json::Value;

use super::{kept_text, smrkit};

/// Fails where a text is not `tests/reproduced/NAME.txt`; `UPDATE=1` writes it anew.
pub fn same(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reproduced/{name}.txt"));
    kept_text::same(&path, made);
}

/// The result of a command, of which the JSON goes to standard output.
pub fn json(arguments: &str) -> Value {
    serde_json::from_str(&smrkit(&format!("{arguments} --json -")).done()).unwrap()
}
