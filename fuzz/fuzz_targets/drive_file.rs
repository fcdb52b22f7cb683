//! Arbitrary text as a drive file, and a few accesses on whatever drive it makes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| smrkit_fuzz::access_drive(text));
