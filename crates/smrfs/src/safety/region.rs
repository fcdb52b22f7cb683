//! The safety rule as the paper has it: in whole regions, counted anew each time.
//!
//! What follows a run of readable granules is a region: from the run's end over DPID granules, as far as they lie in one
//! stretch that is not readable. All of it is WO if it was last written before the oldest of the last DPID granules of the
//! run, and NW if not. A stretch belongs to every run that ends within DPID upstream; NW from any of them wins. Coarser than
//! the rule granule by granule, and never allows what that forbids. (Kadekodi et al. 2015, section 4.2.)

use super::Label;
use super::law::Law;
use crate::units::Span;

/// What may be done with each granule of the disk.
pub fn labels(disk: &Law) -> Vec<Label> {
    let runs = stretches(disk, true);
    let mut labels = vec![Label::Writable; disk.granules() as usize];
    let mut put = |span: Span, label| labels[span.at.0 as usize..span.end().0 as usize].fill(label);
    for run in &runs {
        put(Span::new(run.end().0, disk.dpid().min(disk.granules() - run.end().0)), Label::WriteOnce);
    }
    for run in &runs {
        let oldest =
            (run.end().0.saturating_sub(disk.dpid()).max(run.at.0)..run.end().0).map(|x| disk.written(x)).min();
        for dead in stretches(disk, false) {
            let after = Span::new(run.end().0, disk.dpid());
            let Some(region) = after.overlap(dead) else { continue };
            let newest = (region.at.0..region.end().0).map(|y| disk.written(y)).max();
            if newest > oldest {
                put(region, Label::NotWritable);
            }
        }
    }
    for run in &runs {
        let before = run.at.0.min(disk.did());
        put(Span::new(run.at.0 - before, before), Label::NotWritable);
    }
    for run in runs {
        put(run, Label::Readable);
    }
    labels
}

/// The longest spans that are all live, or all dead.
fn stretches(disk: &Law, live: bool) -> Vec<Span> {
    let mut stretches: Vec<Span> = Vec::new();
    for at in (0..disk.granules()).filter(|&at| disk.is_live(at) == live) {
        match stretches.last_mut() {
            Some(last) if last.end().0 == at => last.count += 1,
            _ => stretches.push(Span::new(at, 1)),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_region_that_was_written_in_part_is_not_writable_as_a_whole() {
        let mut disk = Law::new(100, 0, 5);
        disk.write(Span::new(10, 10));
        disk.fail(Span::new(23, 1));
        assert_eq!(disk.label(20), Label::WriteOnce);
        assert_eq!(labels(&disk)[20..26], [[Label::NotWritable; 5].as_slice(), &[Label::Writable]].concat());
    }

    #[test]
    fn not_writable_from_a_run_farther_up_wins() {
        let mut disk = Law::new(100, 0, 8);
        disk.write(Span::new(10, 5));
        disk.fail(Span::new(18, 1));
        disk.write(Span::new(16, 1));
        assert_eq!(disk.label(18), Label::NotWritable, "the run that ends at 15 is older than the write of 18");
        assert_eq!(labels(&disk)[17..25], [[Label::NotWritable; 6].as_slice(), &[Label::WriteOnce; 2]].concat());
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
                    prop_assert_eq!(*coarse == Label::Readable, fine == Label::Readable);
                    prop_assert!(*coarse != Label::Writable || fine == Label::Writable);
                }
            }
        }
    }
}
