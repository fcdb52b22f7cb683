//! The safety rule granule by granule, in flat arrays, everything counted anew each time: slow, and easily seen to be right.
//!
//! `live(y)`: y may still be read. `written(y)`: when y was last written; it orders granules, not commands. A write of k must
//! find no live x within DID below k, and for each live x within DPID above k no earlier write of k since x was written.
//! (Kadekodi et al. 2015, section 4.2, made exact.)

use smrfs::error::Violation;
use smrfs::safety::Counts;
use smrfs::units::{Granule, Span};

/// Label of a granule: free to write, or not, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GranuleLabel {
    /// R: it may be read, so it must not be written.
    Readable,
    /// NW: a write would damage what may be read.
    NotWritable,
    /// WO: it may be written once.
    WriteOnce,
    /// W: it may be written.
    Writable,
}

/// A disk with its history.
#[derive(Clone, Debug)]
pub struct Law {
    did: u64,
    dpid: u64,
    live: Vec<bool>,
    /// 0 is never.
    written: Vec<u64>,
    writes: u64,
}

impl Law {
    /// An empty disk.
    pub fn new(granules: u64, did: u64, dpid: u64) -> Law {
        Law { did, dpid, live: vec![false; granules as usize], written: vec![0; granules as usize], writes: 0 }
    }

    /// Its size.
    pub fn granules(&self) -> u64 {
        self.live.len() as u64
    }

    /// True if `at` may be read.
    pub fn is_live(&self, at: u64) -> bool {
        self.live[at as usize]
    }

    /// When `at` was last written; 0 if never.
    pub fn written(&self, at: u64) -> u64 {
        self.written[at as usize]
    }

    /// Live granules within DPID above `at`.
    fn upstream(&self, at: u64) -> impl Iterator<Item = u64> + '_ {
        (at.saturating_sub(self.dpid)..at).rev().filter(|&x| self.is_live(x))
    }

    /// Live granules within DID below `at`.
    fn downstream(&self, at: u64) -> impl Iterator<Item = u64> + '_ {
        (at + 1..self.granules().min(at.saturating_add(self.did).saturating_add(1))).filter(|&x| self.is_live(x))
    }

    /// Checks that `span` may be written by one command, in ascending order.
    pub fn may_write(&self, span: Span) -> Result<(), Violation> {
        let granules = span.at.0..span.end().0;
        if let Some(at) = granules.clone().find(|&at| self.is_live(at)) {
            return Err(Violation::OverLive { at: Granule(at) });
        }
        for at in granules.clone() {
            // What the same command rewrites after `at` survives; but none of that is live here.
            if let Some(live) = self.downstream(at).next() {
                return Err(Violation::Downstream { at: Granule(at), live: Granule(live) });
            }
        }
        for at in granules {
            let written = self.written(at);
            if let Some(live) = self.upstream(at).find(|&x| written > 0 && written > self.written(x)) {
                return Err(Violation::Upstream { at: Granule(at), live: Granule(live) });
            }
        }
        Ok(())
    }

    /// `span` is written, and live.
    pub fn write(&mut self, span: Span) {
        self.fail(span);
        self.live[span.at.0 as usize..span.end().0 as usize].fill(true);
    }

    /// `span` may have been written, in part or in whole; nothing of it will be read.
    pub fn fail(&mut self, span: Span) {
        for at in span.at.0..span.end().0 {
            self.writes += 1;
            self.written[at as usize] = self.writes;
        }
    }

    /// `span` will not be read again.
    pub fn discard(&mut self, span: Span) {
        self.live[span.at.0 as usize..span.end().0 as usize].fill(false);
    }

    /// A mount: `live` is what may be read, and of the order of writes nothing is known, so that each dead granule may have
    /// been written after everything live.
    pub fn forget(&mut self, live: &[Span]) {
        self.live.fill(false);
        for &span in live {
            self.write(span);
        }
        for at in 0..self.granules() {
            if !self.is_live(at) {
                self.fail(Span::new(at, 1));
            }
        }
    }

    /// Label of `at`: whether it may be written, and at what cost.
    pub fn label(&self, at: u64) -> GranuleLabel {
        let written = self.written(at);
        if self.is_live(at) {
            GranuleLabel::Readable
        } else if self.downstream(at).next().is_some() || self.upstream(at).any(|x| written > self.written(x)) {
            GranuleLabel::NotWritable
        } else if self.upstream(at).next().is_some() {
            GranuleLabel::WriteOnce
        } else {
            GranuleLabel::Writable
        }
    }

    /// Label of each granule.
    pub fn labels(&self) -> Vec<GranuleLabel> {
        (0..self.granules()).map(|at| self.label(at)).collect()
    }
}

/// Number of granules of each label.
pub fn count(labels: &[GranuleLabel]) -> Counts {
    let of = |label| labels.iter().filter(|&&other| other == label).count() as u64;
    Counts {
        readable: of(GranuleLabel::Readable),
        not_writable: of(GranuleLabel::NotWritable),
        write_once: of(GranuleLabel::WriteOnce),
        writable: of(GranuleLabel::Writable),
        ..Counts::default()
    }
}

mod tests {
    use super::*;

    /// R, NW, WO, W.
    fn counts(law: &Law) -> [u64; 4] {
        let counts = count(&law.labels());
        [counts.readable, counts.not_writable, counts.write_once, counts.writable]
    }

    fn disk(did: u64, dpid: u64) -> Law {
        Law::new(1000, did, dpid)
    }

    #[test]
    fn a_lone_run_has_did_not_writable_before_and_dpid_once_after() {
        for (did, dpid) in [(0, 0), (8, 5), (5, 8), (0, 7), (7, 0), (100, 1)] {
            let mut law = disk(did, dpid);
            law.write(Span::new(500, 20));
            assert_eq!(counts(&law), [20, did, dpid, 980 - did - dpid]);
        }
    }

    #[test]
    fn deleting_an_appended_tail_turns_write_once_into_not_writable() {
        let mut law = disk(8, 5);
        law.write(Span::new(500, 20));
        law.write(Span::new(520, 20));
        law.discard(Span::new(520, 20));
        assert_eq!(counts(&law), [20, 13, 0, 967]);
        let extended = law.may_write(Span::new(520, 1));
        assert_eq!(extended, Err(Violation::Upstream { at: Granule(520), live: Granule(519) }));
        assert_eq!(law.may_write(Span::new(525, 1)), Ok(()));
    }

    #[test]
    fn deleting_from_the_middle_frees_all_but_both_gaps() {
        for (n, did, dpid) in [(30, 8, 5), (13, 8, 5), (12, 8, 5), (14, 8, 5), (14, 5, 8), (3, 8, 5)] {
            let mut law = disk(did, dpid);
            law.write(Span::new(400, 100));
            let before = counts(&law)[2] + counts(&law)[3];
            law.discard(Span::new(440, n));
            assert_eq!(counts(&law)[2] + counts(&law)[3] - before, n.saturating_sub(did + dpid));
        }
    }

    #[test]
    fn deleting_a_whole_run_gives_its_gaps_back() {
        let mut law = disk(8, 5);
        law.write(Span::new(100, 20));
        law.write(Span::new(200, 20));
        law.discard(Span::new(200, 20));
        assert_eq!(counts(&law), [20, 8, 5, 967]);
    }

    #[test]
    fn the_rows_of_figure_2() {
        let mut law = disk(8, 5);
        assert_eq!(counts(&law), [0, 0, 0, 1000]);
        law.write(Span::new(500, 20));
        assert_eq!(counts(&law)[1..3], [8, 5]);
        law.write(Span::new(520, 20));
        assert_eq!(counts(&law)[1..3], [8, 5]);
        law.discard(Span::new(520, 20));
        assert_eq!(counts(&law)[1..3], [13, 0]);
        // As near as can be, below the gap.
        let nearest = (520..1000).find(|&at| law.may_write(Span::new(at, 20)).is_ok());
        assert_eq!(nearest, Some(525));
        law.write(Span::new(525, 20));
        assert_eq!(counts(&law), [40, 13, 5, 942]);
    }

    #[test]
    fn the_rows_of_figure_3() {
        let mut law = disk(6, 6);
        for at in [100, 140, 180] {
            law.write(Span::new(at, 20));
        }
        assert_eq!(counts(&law), [60, 18, 18, 904]);
        law.discard(Span::new(140, 20));
        assert_eq!(counts(&law), [40, 12, 12, 936], "the gaps of the middle run come back");
        let writable = |span| law.may_write(span).is_ok();
        assert!(writable(Span::new(120, 54)) && !writable(Span::new(120, 55)), "one run, gaps and all");
    }

    #[test]
    fn a_middle_deleted_and_written_again_frees_no_second_time() {
        let mut law = disk(4, 4);
        law.write(Span::new(100, 60));
        law.discard(Span::new(120, 20));
        assert_eq!(law.may_write(Span::new(124, 12)), Ok(()));
        assert!(law.may_write(Span::new(123, 12)).is_err() && law.may_write(Span::new(124, 13)).is_err());
        law.write(Span::new(124, 12));
        law.discard(Span::new(124, 12));
        assert_eq!(counts(&law)[1..3], [12, 4]);
    }

    #[test]
    fn a_mount_forgets_the_order_so_that_write_once_is_lost() {
        let mut law = disk(8, 5);
        law.write(Span::new(500, 20));
        law.forget(&[Span::new(500, 20)]);
        assert_eq!(counts(&law), [20, 13, 0, 967]);
        law.write(Span::new(525, 5));
        assert_eq!(counts(&law), [25, 13, 5, 957], "what is written since is known");
    }

    #[test]
    fn a_failed_write_is_a_scar() {
        let mut law = disk(0, 5);
        law.write(Span::new(500, 20));
        law.fail(Span::new(521, 2));
        assert_eq!(counts(&law)[1..3], [2, 3]);
        assert!(law.may_write(Span::new(521, 1)).is_err(), "not in place");
        assert_eq!(law.may_write(Span::new(520, 1)), Ok(()));
    }
}
