//! The safety rule as the paper has it: in whole regions, counted anew each time.
//!
//! The region of a run of readable granules is what is not readable within DPID behind its end. All of it is WO if it was
//! last written before the oldest of the last DPID granules of the run, and NW if not. A granule belongs to the region of
//! every run that ends within DPID upstream; NW from any of them wins. Coarser than the rule granule by granule, and never
//! allows what that forbids. (Kadekodi et al. 2015, section 4.2.)

use smrfs::units::Span;

use super::law::{GranuleLabel, Law};

/// Label of each granule of the disk.
pub fn labels(disk: &Law) -> Vec<GranuleLabel> {
    let runs = runs(disk);
    let mut labels = vec![GranuleLabel::Writable; disk.granules() as usize];
    let mut put = |span: Span, label| labels[span.at.0 as usize..span.end().0 as usize].fill(label);
    for run in &runs {
        put(Span::new(run.end().0, disk.dpid().min(disk.granules() - run.end().0)), GranuleLabel::WriteOnce);
    }
    for run in &runs {
        let last = (run.end().0.saturating_sub(disk.dpid()).max(run.at.0)..run.end().0).map(|x| disk.written(x));
        let region = (run.end().0..disk.granules().min(run.end().0 + disk.dpid())).filter(|&y| !disk.is_live(y));
        if region.clone().map(|y| disk.written(y)).max() > last.min() {
            region.for_each(|y| put(Span::new(y, 1), GranuleLabel::NotWritable));
        }
    }
    for run in &runs {
        let before = run.at.0.min(disk.did());
        put(Span::new(run.at.0 - before, before), GranuleLabel::NotWritable);
    }
    for run in runs {
        put(run, GranuleLabel::Readable);
    }
    labels
}

/// The longest spans that are all live.
fn runs(disk: &Law) -> Vec<Span> {
    let mut runs: Vec<Span> = Vec::new();
    for at in (0..disk.granules()).filter(|&at| disk.is_live(at)) {
        match runs.last_mut() {
            Some(last) if last.end().0 == at => last.count += 1,
            _ => runs.push(Span::new(at, 1)),
        }
    }
    runs
}

mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_region_that_was_written_in_part_is_not_writable_as_a_whole() {
        let mut disk = Law::new(100, 0, 5);
        disk.write(Span::new(10, 10));
        disk.fail(Span::new(23, 1));
        assert_eq!(disk.label(20), GranuleLabel::WriteOnce);
        assert_eq!(
            labels(&disk)[20..26],
            [[GranuleLabel::NotWritable; 5].as_slice(), &[GranuleLabel::Writable]].concat()
        );
    }

    #[test]
    fn not_writable_from_a_run_farther_up_wins() {
        let mut disk = Law::new(100, 0, 8);
        disk.write(Span::new(10, 5));
        disk.fail(Span::new(18, 1));
        disk.write(Span::new(16, 1));
        assert_eq!(disk.label(18), GranuleLabel::NotWritable, "the run that ends at 15 is older than the write of 18");
        assert_eq!(
            labels(&disk)[17..25],
            [[GranuleLabel::NotWritable; 6].as_slice(), &[GranuleLabel::WriteOnce; 2]].concat()
        );
    }

    proptest! {
        #[test]
        fn it_never_allows_what_the_rule_by_granules_forbids(
            did in 0..10u64, dpid in 0..10u64,
            steps in prop::collection::vec((0..4u8, 0..50u64, 1..12u64), 1..60),
        ) {
            let mut disk = Law::new(50, did, dpid);
            for (what, at, count) in steps {
                let span = Span::new(at, count.min(50 - at));
                match what {
                    0 => disk.discard(span),
                    1 => disk.fail(span),
                    _ => disk.write(span),
                }
                let regions = labels(&disk);
                for (at, (coarse, fine)) in regions.iter().zip(disk.labels()).enumerate() {
                    prop_assert!(!coarse.allows_write() || fine.allows_write(), "{}: {:?} {:?}", at, coarse, fine);
                    prop_assert_eq!(*coarse == GranuleLabel::Readable, fine == GranuleLabel::Readable);
                    prop_assert!(*coarse != GranuleLabel::Writable || fine == GranuleLabel::Writable);
                }
            }
        }
    }
}
