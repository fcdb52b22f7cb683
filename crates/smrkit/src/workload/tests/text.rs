//! The short form, TOML and the page: what is read, what is refused, and that the examples of the page can be read.

use std::path::Path;

use super::*;

#[test]
fn mistakes_show_their_place_and_the_remedy() {
    for (text, words) in [
        ("", "character 1"),
        ("zipff", "did you mean `zipf`?"),
        ("quicksort", "known: sequential-read"),
        ("zipf:thteta=1", "character 6, `thteta`: zipf has no key of this name; did you mean `theta`?"),
        ("zipf:theta=NaN", "character 12, `NaN`"),
        ("zipf:theta=-1", "negative"),
        ("mix:write_share=2", "character 17, `2`: `2` is more than the whole"),
        ("mix:size=0", "at least 512"),
        ("mix:size=-4Ki-64Ki", "negative"),
        ("mix:size=4k", "write 3584 or 4Ki"),
        ("mix:size", "expected key=value"),
        ("mix:count=1,count=2", "given twice"),
        ("mix:count=0", "from 1"),
        ("mix:count=1,duration=5s", "count and duration exclude each other"),
        ("mix:interval=1s,rate=5", "exclude each other"),
        ("mix:duration=1s,interval=0", "time stands still"),
        ("mix:rate=0", "out of range"),
        ("mix:duration=99999999d", "too large"),
        ("mix;", "character 5"),
        ("mix+;mix", "a workload is missing"),
        ("mix:size=1Mi,span=4Ki", "does not fit into span=4Ki"),
        ("mix:arrivals=never", "expected even, poisson"),
        ("overwrite:order=randon", "did you mean `random`"),
        ("runs:run_min=200", "run_min is above run_max"),
        ("runs:blocks=100", "does not fit into the hot 25 of 100"),
        ("runs", "choose a larger drive"),
        ("mix:span=1Gi", "but the drive offers 512 MiB: lower span or start"),
        ("mix:start=1Gi", "choose a larger drive or another workload"),
        ("backup:size=1Mi,span=1Mi", "raise span, lower size or start"),
        ("runs:sources=200,blocks=111,hot_share=1+runs:sources=200,blocks=111,hot_share=1", "at most 256"),
        ("cassuto-pc:span=100Ki", "needs 1 MiB at least"),
    ] {
        let message = failure(text);
        assert!(message.contains(words), "{text}: {message}");
    }
    let small = Workload::parse("desktop").unwrap().source(1000, 1).err().unwrap().to_string();
    assert!(small.contains("needs 64 MiB at least"), "{small}");
}

#[test]
fn every_default_parses() {
    for info in WORKLOADS {
        for key in info.keys().iter().filter(|key| !key.default.is_empty()) {
            let value = key.canonical(key.default).unwrap_or_else(|e| panic!("{}: {}: {e}", info.name, key.name));
            assert_eq!(key.canonical(&value.text).unwrap(), value, "{}: {}", info.name, key.name);
        }
        assert!(!requests(&format!("{}:count=1", info.name), FIVE_TB, 1).is_empty());
    }
}

#[test]
fn every_example_of_the_page_parses() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/workloads.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut examples = 0;
    for line in page.lines() {
        let quoted = line.split("--workload ").nth(1).map(|rest| rest.trim().trim_matches('\''));
        if let Some(text) = quoted {
            let workload = Workload::parse(text.split('\'').next().unwrap()).unwrap_or_else(|e| panic!("{line}: {e}"));
            workload.source(FIVE_TB, 1).unwrap_or_else(|e| panic!("{line}: {e}"));
            examples += 1;
        }
    }
    assert!(examples >= 7, "{examples} examples");
}
