//! What is kept for a copy of the disk, while programs write.

use smrfs::data::ReadBuffer;
use smrfs::device::HostManaged;
use smrfs::error::Errno;
use smrfs::units::Span;
use smrkit::tally::Cause;

use crate::rig::GRANULE;
use crate::setbacks::{Life, MODELS, NONE};

fn content(life: &Life, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; (span.count * GRANULE) as usize];
    life.rig.device.read(span.at, ReadBuffer::Bytes(&mut bytes), Cause::Host).unwrap();
    bytes
}

#[test]
fn what_is_kept_stays_as_it_is_until_programs_need_the_room() {
    for model in MODELS {
        let mut life = Life::new(model, 60);
        life.overwrite(NONE, 300).unwrap();
        life.rig.fs.keep().unwrap();
        assert_eq!(life.rig.fs.keep().err().map(|error| error.errno()), Some(Errno::EBUSY));
        let kept: Vec<Span> = life.rig.fs.live().into_iter().map(|(span, _)| span).collect();
        let before: Vec<Vec<u8>> = kept.iter().map(|&span| content(&life, span)).collect();
        let mut written = 0;
        while life.rig.fs.keeps() {
            let now: Vec<Vec<u8>> = kept.iter().map(|&span| content(&life, span)).collect();
            assert!(now == before, "{model:?}: something kept was written over after {written} writes");
            life.overwrite(NONE, 1).unwrap();
            life.rig.fs.sync_all().unwrap();
            written += 1;
            assert!(written < 10_000, "{model:?}: nothing was kept");
        }
        assert!(written > 1, "{model:?}: it was let go although there was room");
        life.overwrite(NONE, 1000).unwrap();
        life.check(NONE);
        // What nobody needs the room of is free again at the end.
        life.rig.fs.keep().unwrap();
        life.overwrite(NONE, 1).unwrap();
        life.rig.fs.sync_all().unwrap();
        assert!(life.rig.fs.usage().unwrap().counts.retired > 0);
        assert!(life.rig.fs.let_go() && !life.rig.fs.let_go());
        assert_eq!(life.rig.fs.usage().unwrap().counts.retired, 0);
        life.check(NONE);
    }
}
