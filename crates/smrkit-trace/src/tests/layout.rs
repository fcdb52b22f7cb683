//! Volumes on one disk.

use super::*;
use crate::demand::scan;
use smrkit::units::Lba;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

const TWO: &str = "9,R,1048576,4096,10\n3,W,0,512,20\n9,R,0,512,30\n3,W,2097152,512,40\n";

#[test]
fn volumes_lie_end_to_end_in_ascending_order_of_number() {
    let file = file(TWO);
    let mut laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), VolumeChoice::All).unwrap();
    // Volume 3 ends at 2 MiB + 512 bytes, so volume 9 begins at 3 MiB.
    let expected = ["0 R 8192+8@0", "10000 W 0+1@1", "20000 R 6144+1@0", "30000 W 4096+1@1"];
    assert_eq!(shown(&drain(&mut laid).unwrap()), expected);
    let table = scan(file.path(), &OpenOptions::default()).unwrap();
    assert_eq!(table.end_to_end(file.path()).unwrap(), (vec![Lba(6144), Lba(0)], Lba(10240)));
    assert_eq!(table.requests, 4);
    assert_eq!((table.volumes[0].requests, table.volumes[0].end), (2, Lba(2056)));
}

#[test]
fn a_flush_lies_nowhere_on_any_volume() {
    let file = file("0,F,0,0,9\n0,W,0,512,9\n0,W,512,512,3\n");
    let options =
        OpenOptions { format: Some("csv:time=0:us,op=1,offset=2,size=3,volume=4".into()), ..OpenOptions::default() };
    let mut laid = LaidOutTrace::open(file.path(), &options, VolumeChoice::All).unwrap();
    assert_eq!(shown(&drain(&mut laid).unwrap()), ["0 F 0+0@0", "0 W 2048+1@0", "0 W 1+1@1"]);
}

#[test]
fn one_volume_is_chosen_by_its_number_or_name() {
    let file = file(TWO);
    let mut laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), "3".parse().unwrap()).unwrap();
    assert_eq!(shown(&drain(&mut laid).unwrap()), ["0 W 0+1@1", "20000 W 4096+1@1"]);
    assert!(!laid.is_out_of_order());
    let early = self::file("9,R,0,512,5\n3,W,0,512,20\n3,W,0,512,10\n3,W,512,512,15\n3,W,0,512,25\n");
    for (number, times, is_early) in [(3, vec![0, 0, 0, 5000], true), (9, vec![0], false)] {
        let mut laid = LaidOutTrace::open(early.path(), &OpenOptions::default(), VolumeChoice::Number(number)).unwrap();
        assert_eq!(drain(&mut laid).unwrap().iter().map(|request| request.time.0).collect::<Vec<_>>(), times);
        assert_eq!(laid.is_out_of_order(), is_early, "{number}");
    }
    let mut laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), VolumeChoice::Number(4)).unwrap();
    let message = drain(&mut laid).unwrap_err().to_string();
    assert!(message.contains("no volume 4: the trace has 9, 3") && !message.contains('…'), "{message}");
    let many: String = (10..30).map(|number| format!("{number},W,0,512,20\n")).collect();
    let many = self::file(&many);
    let mut laid = LaidOutTrace::open(many.path(), &OpenOptions::default(), VolumeChoice::Number(4)).unwrap();
    let message = drain(&mut laid).unwrap_err().to_string();
    assert!(message.contains("20, 21, …"), "{message}");
    let events = self::file("8,0 0 1 0.5 9 Q W 8 + 8 [x]\n8,16 0 2 0.7 9 Q R 16 + 8 [x]\n");
    let mut laid = LaidOutTrace::open(events.path(), &OpenOptions::default(), "8,16".parse().unwrap()).unwrap();
    assert_eq!(shown(&drain(&mut laid).unwrap()), ["0 R 16+8@1"]);
    let mut laid = LaidOutTrace::open(events.path(), &OpenOptions::default(), "sda".parse().unwrap()).unwrap();
    assert!(drain(&mut laid).unwrap_err().to_string().contains("no volume sda: the trace has 8,0, 8,16"));
}

#[test]
fn a_trace_without_times_is_not_replayed_by_them() {
    use smrkit::experiment::demand::Opened;
    for (text, said) in [
        ("moment,op,offset,size\n1,W,0,512\n", "(it has moment, op, offset, size)"),
        ("COMM PID TYPE DEV BLOCK BYTES LATms\nfio 4 R 8,0 16 512 0.81\n", "iosnoop -ts"),
    ] {
        let file = file(text);
        let laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), VolumeChoice::All).unwrap();
        let error = laid.refuse_disorder().unwrap_err().to_string();
        assert!(error.contains("no times") && error.contains(said), "{error}");
    }
}

#[test]
fn a_second_volume_after_the_first_batch_restarts_the_reading() {
    let mut text: String = (0..5000).map(|n| format!("9,R,{},512,{n}\n", n * 512)).collect();
    text += "3,W,0,512,9999\n";
    let file = file(&text);
    let mut laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), VolumeChoice::All).unwrap();
    let signal = drain(&mut laid).unwrap_err();
    assert!(matches!(&signal, Error::SecondVolume(path) if path == file.path()), "{signal:?}");
    let table = scan(file.path(), &OpenOptions::default()).unwrap();
    let mut laid = LaidOutTrace::with_table(file.path(), &OpenOptions::default(), &table).unwrap();
    let all = drain(&mut laid).unwrap();
    assert_eq!((all.len(), all[0].lba, all[5000].lba), (5001, Lba(2048), Lba(0)));
}

#[test]
fn hosts_with_a_disk_of_the_same_number_are_not_mixed() {
    let hosts = |rows: usize| file(&("1,a,0,Read,0,512,0\n".repeat(rows) + "2,b,0,Read,0,512,0\n"));
    // The second one may come in a later batch.
    for rows in [1, 5000] {
        let file = hosts(rows);
        let mut laid = LaidOutTrace::open(file.path(), &OpenOptions::default(), VolumeChoice::Number(0)).unwrap();
        let message = drain(&mut laid).unwrap_err().to_string();
        assert!(message.contains("a.0, b.0"), "{message}");
    }
    let mut laid = LaidOutTrace::open(hosts(1).path(), &OpenOptions::default(), VolumeChoice::All).unwrap();
    assert_eq!(shown(&drain(&mut laid).unwrap()), ["0 R 0+1@0", "100 R 2048+1@1"]);
}
