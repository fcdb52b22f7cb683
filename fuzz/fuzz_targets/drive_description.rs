//! Arbitrary text as the model, the specs and the seek curve of a DiskSim description, and a few accesses on what it makes.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use smrkit::drive::import;

fuzz_target!(|texts: (&str, &str, &str)| {
    let (model, specs, seek) = texts;
    let read = |path: &Path| {
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("model") => model.into(),
            Some("seek") => seek.into(),
            _ => specs.into(),
        })
    };
    if let Ok(imported) = import::disksim_file(Path::new("drive.diskspecs"), &read) {
        smrkit_fuzz::access_drive(&imported.text);
    }
});
