//! Arbitrary text as the model, the specs and the seek curve of a DiskSim description, and a few accesses on what it makes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::drive::import;

fuzz_target!(|texts: (&str, &str, &str)| {
    if let Ok(imported) = import::disksim_texts(texts.0, texts.1, texts.2) {
        smrkit_fuzz::access_drive(&imported.text);
    }
});
