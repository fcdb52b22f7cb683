//! The project's own traces whose format is found by their content.

/// Files in `testdata/traces`, and their formats.
pub const FILES: [(&str, &str); 11] = [
    ("msr.csv", "msr"),
    ("spc.csv", "spc"),
    ("blkparse.txt", "blkparse"),
    ("fio-v2.log", "fio-v2"),
    ("fio-v3.log", "fio-v3"),
    ("disksim.txt", "disksim"),
    ("disksim-measured.txt", "disksim-measured"),
    ("fiu.txt", "fiu"),
    ("systor17.csv", "systor17"),
    ("tencent.csv", "tencent"),
    ("alibaba.csv", "alibaba"),
];
