//! Each field of a trace's last row spoilt in several ways: the requests that come of it, or what is said to be wrong.
//!
//! `UPDATE=1` writes `spoilt.txt` anew.

use super::files::FILES;
use super::kept_text::same;
use super::*;

/// Volumes as numbers, and think times.
const TABLE: &str = "10,R,0,4096,3,7\n20,W,8192,512,4,8\n30,R,512,512,3,0\n";

/// Words that stand in place of a field.
const INSTEAD: [&str; 8] = ["no", "-1", "0", "1.5", "2147483648", "18446744073709551615", "99999999999999999999", ""];

fn traces() -> Vec<(String, &'static str)> {
    let tables = [
        "csv:time=0:us,op=1,offset=2:bytes,size=3:bytes,volume=4",
        "csv:time=0:ms,think=5:us,op=1,offset=2:sectors,size=3:sectors",
    ];
    let files = FILES.map(|(file, format)| (std::fs::read_to_string(data(file)).unwrap(), format));
    files.into_iter().chain(tables.map(|format| (TABLE.to_string(), format))).collect()
}

/// The trace read: its requests and volumes by their last and their sums, and what it notes.
fn told(text: &str, options: &OpenOptions) -> String {
    let (trace, all) = match read(text.as_bytes(), options) {
        Ok(read) => read,
        Err(error) => return error.to_string(),
    };
    let sum = |of: fn(&Request) -> u64| all.iter().fold(0u64, |sum, request| sum.wrapping_add(of(request)));
    let last = all.last().map(|last| format!("{:?} {} {} at {}", last.op, last.lba.0, last.sectors, last.time.0));
    let notes = trace.notes();
    format!(
        "{} requests, volumes {}, sums {} {} {} {}, last {}, skipped {}, unaligned {}, disordered {}",
        all.len(),
        trace.volumes().len(),
        sum(|request| request.lba.0),
        sum(|request| request.sectors.into()),
        sum(|request| request.time.0),
        sum(|request| request.volume.into()),
        last.unwrap_or_default(),
        notes.skipped_rows,
        notes.unaligned_rows,
        notes.out_of_order_rows,
    )
}

#[test]
fn a_spoilt_field_is_refused_or_read_as_it_was() {
    let mut made = String::new();
    for (text, format) in traces() {
        let (_, last) = text.trim_end().rsplit_once('\n').unwrap();
        let fields: Vec<&str> = last.split([',', ' ', '\t']).filter(|field| !field.is_empty()).collect();
        for (number, field) in fields.iter().enumerate() {
            let before = field.as_ptr().addr() - last.as_ptr().addr();
            for instead in INSTEAD {
                let row = format!("{}{instead}{}", &last[..before], &last[before + field.len()..]);
                let options = OpenOptions { skip_bad_rows: instead == "-1", ..forced(format) };
                made += &format!("{format} {number} '{instead}': {}\n", told(&format!("{text}{row}\n"), &options));
            }
            let short = format!("{text}{}\n", last[..before].trim_end_matches([',', ' ', '\t']));
            made += &format!("{format} {number} ends: {}\n", told(&short, &forced(format)));
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/tests/spoilt.txt");
    same(&path, &made);
}
