//! Work on the same stripes, or on the same sectors, goes one after another, in the order of its coming.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// What a piece of work claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Rows of stripes, or sectors where there are no stripes.
    Extent {
        first: u64,
        last: u64,
        /// Nobody else may work there; otherwise those may who share it too.
        alone: bool,
    },
    /// Nothing, but it waits for all that change something and came before.
    Flush,
}

struct Held {
    last: u64,
    alone: bool,
    order: u64,
    /// Claims before it that are in its way.
    blockers: u32,
}

/// The claims of all work under way or waiting.
#[derive(Default)]
pub(super) struct Locks {
    /// By the first that they claim.
    claims: BTreeMap<(u64, u32), Held>,
    /// The only claim, kept apart as long as it is: then nothing need be looked up.
    only: Option<(u32, Claim)>,
    /// Flushes that wait: order, number, and for how many.
    flushes: Vec<(u64, u32, usize)>,
    /// No claim is longer.
    longest: u64,
    next_order: u64,
}

impl Locks {
    /// Whether nothing is claimed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.only.is_none() && self.claims.is_empty()
    }

    /// Work `id` claims; tells whether it may begin at once. If not, a later [`Locks::release`] names it.
    #[inline]
    pub fn claim(&mut self, id: u32, claim: Claim) -> bool {
        if self.is_empty() {
            self.only = (claim != Claim::Flush).then_some((id, claim));
            return true;
        }
        if let Some((other, before)) = self.only.take() {
            self.insert(other, before);
        }
        self.insert(id, claim)
    }

    fn insert(&mut self, id: u32, claim: Claim) -> bool {
        self.next_order += 1;
        let order = self.next_order;
        let Claim::Extent { first, last, alone } = claim else {
            let writes = self.claims.values().filter(|held| held.alone).count();
            if writes > 0 {
                self.flushes.push((order, id, writes));
            }
            return writes == 0;
        };
        self.longest = self.longest.max(last - first);
        let near = self.claims.range(near(first, last, self.longest));
        let blockers = near.filter(|(_, held)| held.last >= first && (held.alone || alone)).count() as u32;
        self.claims.insert((first, id), Held { last, alone, order, blockers });
        blockers == 0
    }

    /// Work `id` is done; adds what may begin now to `free`, the first to come first.
    #[inline]
    pub fn release(&mut self, id: u32, claim: Claim, free: &mut VecDeque<u32>) {
        let Claim::Extent { first, last, alone } = claim else { return };
        match self.only {
            Some(_) => self.only = None,
            None => self.remove((first, id), last, alone, free),
        }
    }

    fn remove(&mut self, key: (u64, u32), last: u64, alone: bool, free: &mut VecDeque<u32>) {
        let Some(done) = self.claims.remove(&key) else { return };
        let mut begin: Vec<(u64, u32)> = Vec::new();
        for ((_, id), held) in self.claims.range_mut(near(key.0, last, self.longest)) {
            if held.order > done.order && held.last >= key.0 && (held.alone || alone) {
                held.blockers -= 1;
                if held.blockers == 0 {
                    begin.push((held.order, *id));
                }
            }
        }
        if alone {
            self.flushes.iter_mut().filter(|flush| flush.0 > done.order).for_each(|flush| flush.2 -= 1);
            begin.extend(self.flushes.extract_if(.., |flush| flush.2 == 0).map(|(order, id, _)| (order, id)));
        }
        begin.sort_unstable();
        free.extend(begin.into_iter().map(|(_, id)| id));
        if self.claims.is_empty() {
            self.longest = 0;
        }
    }
}

/// Where claims are looked for that may overlap one from `first` to `last`, if none is longer than `longest`.
fn near(first: u64, last: u64, longest: u64) -> RangeInclusive<(u64, u32)> {
    (first.saturating_sub(longest), 0)..=(last, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(first: u64, last: u64, alone: bool) -> Claim {
        Claim::Extent { first, last, alone }
    }

    fn released(locks: &mut Locks, id: u32, claim: Claim) -> Vec<u32> {
        let mut free = VecDeque::new();
        locks.release(id, claim, &mut free);
        free.into()
    }

    #[test]
    fn overlapping_work_waits_for_all_before_it_and_goes_in_order() {
        let mut locks = Locks::default();
        let claims = [(0, 9), (20, 20), (9, 20), (5, 5), (20, 25)].map(|(first, last)| claim(first, last, first != 5));
        assert!(locks.claim(1, claims[0]));
        assert!(locks.claim(2, claims[1]));
        assert!(!locks.claim(3, claims[2]));
        assert!(!locks.claim(4, claims[3]));
        assert!(!locks.claim(5, claims[4]), "behind a claim that waits itself");
        assert_eq!(released(&mut locks, 1, claims[0]), [4]);
        assert_eq!(released(&mut locks, 2, claims[1]), [3]);
        assert_eq!(released(&mut locks, 3, claims[2]), [5]);
    }

    #[test]
    fn what_is_shared_waits_only_for_who_is_alone() {
        let mut locks = Locks::default();
        assert!(locks.claim(1, claim(0, 9, false)));
        assert!(locks.claim(2, claim(3, 4, false)));
        assert!(!locks.claim(3, claim(4, 4, true)));
        assert_eq!(released(&mut locks, 1, claim(0, 9, false)), [0; 0]);
        assert_eq!(released(&mut locks, 2, claim(3, 4, false)), [3]);
    }

    #[test]
    fn a_flush_waits_for_the_writes_before_it_and_holds_up_nothing() {
        let mut locks = Locks::default();
        assert!(locks.claim(1, Claim::Flush), "nothing to wait for");
        assert!(locks.claim(2, claim(0, 9, true)));
        assert!(locks.claim(3, claim(20, 29, false)));
        assert!(!locks.claim(4, claim(5, 5, true)));
        assert!(!locks.claim(5, Claim::Flush));
        assert!(locks.claim(6, claim(100, 100, true)), "it came after the flush");
        assert_eq!(released(&mut locks, 6, claim(100, 100, true)), [0; 0]);
        assert_eq!(released(&mut locks, 3, claim(20, 29, false)), [0; 0]);
        assert_eq!(released(&mut locks, 2, claim(0, 9, true)), [4]);
        assert_eq!(released(&mut locks, 4, claim(5, 5, true)), [5]);
        assert!(locks.is_empty());
    }
}
