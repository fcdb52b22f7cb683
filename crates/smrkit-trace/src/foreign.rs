//! Files that people have at hand and that hold no requests, or not as they are: told by name, with what makes a trace.

/// The remedy for a kind of file that is no trace, by its first bytes; `None` if it may be one.
pub(crate) fn remedy(head: &[u8]) -> Option<&'static str> {
    if head.get(257..262) == Some(b"ustar") {
        return Some("a tar archive: unpack it (tar xf), and name the trace that was in it");
    }
    let beginning = &head[..head.len().min(4096)];
    let holds = |text: &[u8]| memchr::memmem::find(beginning, text).is_some();
    if holds(b"\"fio version\"") || holds(b": (g=0): rw=") {
        return Some(
            "fio's report, which sums up requests and lists none: add --write_iolog=FILE to the fio command, and name \
             FILE",
        );
    }
    is_fio_log(head).then_some(
        "fio's log of bandwidth, latency or IOPS, which says nothing of where: add --write_iolog=FILE to the fio \
         command, and name FILE",
    )
}

/// True if the first lines are of fio's logs: `time, value, direction, size`, and in newer versions offset and priority.
fn is_fio_log(head: &[u8]) -> bool {
    let is_row = |line: &[u8]| {
        let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
        let columns: Vec<&str> = line.split(", ").collect();
        let is_number = |column: &&str| {
            column.strip_prefix("0x").unwrap_or(column).bytes().all(|byte| byte.is_ascii_hexdigit())
                && !column.is_empty()
        };
        (4..=6).contains(&columns.len()) && columns.iter().all(is_number) && matches!(columns[2], "0" | "1" | "2")
    };
    // The last line of what was read may be cut.
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    whole.split(|byte| *byte == b'\n').take(16).all(is_row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::tests::refused;

    #[test]
    fn files_that_are_no_traces_are_told_by_name() {
        let mut tar = vec![b'a'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        let report =
            "nas: (g=0): rw=randwrite, bs=(R) 4096B-4096B, (W) 4096B-4096B, ioengine=libaio, iodepth=8\nfio-3.33\n";
        let cases: [(&[u8], [&str; 2]); 6] = [
            (&tar, ["a tar archive", "tar xf"]),
            (b"{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : []}", ["fio's report", "--write_iolog"]),
            (report.as_bytes(), ["fio's report", "--write_iolog"]),
            (b"500, 20480, 0, 0, 0, 0\n1000, 21504, 1, 0, 0, 0\n", ["fio's log", "--write_iolog"]),
            (b"12, 51234, 0, 4096\n13, 61234, 1, 4096\n14, 6", ["fio's log", "--write_iolog"]),
            (b"0, 453945, 0, 4096, 61440, 0x0000\n", ["fio's log", "--write_iolog"]),
        ];
        for (bytes, parts) in cases {
            let error = refused(bytes, &OpenOptions::default());
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(remedy(b"0,20941264,8192,W,0.551706\n"), None);
        assert_eq!(remedy(b"1538323200,4247200,128,1,1058\n"), None);
        assert_eq!(remedy(b"1538323200, 4247200, 128, 1, 1058\n"), None);
        assert_eq!(remedy(b""), None);
    }
}
