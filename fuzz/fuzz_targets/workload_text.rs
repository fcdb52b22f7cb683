//! Arbitrary text as a workload, and its first requests on a small and a large disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use smrkit::workload::Workload;

fuzz_target!(|text: &str| {
    let Ok(workload) = Workload::parse(text) else { return };
    let again = Workload::parse(&workload.to_string()).expect("what it prints, it reads");
    assert_eq!(again.to_string(), workload.to_string());
    for span_sectors in [9000, 1 << 33] {
        let Ok(mut source) = workload.source(span_sectors, 1) else { continue };
        let mut batch = Vec::new();
        for _ in 0..4 {
            if source.fill(&mut batch).is_err() || batch.is_empty() {
                break;
            }
            assert!(batch.iter().all(|request| request.end().0 <= span_sectors));
        }
    }
});
