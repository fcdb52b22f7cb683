//! Work on the same stripes, or on the same sectors, goes one after another, in the order of its coming.

use std::collections::BTreeMap;

/// What a piece of work claims: stripes, or sectors where there are no stripes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub first: u64,
    pub last: u64,
    /// Nobody else may work there; otherwise those may who share it too.
    pub alone: bool,
}

struct Held {
    claim: Claim,
    order: u64,
    /// Claims before it that are in its way.
    blockers: u32,
}

/// The claims of all work under way or waiting.
#[derive(Default)]
pub(super) struct Locks {
    claims: BTreeMap<(u64, u32), Held>,
    /// The only claim, kept apart as long as it is: then nothing need be looked up.
    only: Option<(u32, Claim)>,
    /// No claim is longer.
    longest: u64,
    next_order: u64,
}

impl Held {
    fn conflicts(&self, other: &Claim) -> bool {
        (self.claim.alone || other.alone) && self.claim.first <= other.last && other.first <= self.claim.last
    }
}

impl Locks {
    /// Work `id` claims; tells whether it may begin at once. If not, a later [`Locks::release`] names it.
    #[inline]
    pub fn claim(&mut self, id: u32, claim: Claim) -> bool {
        if self.claims.is_empty() {
            let Some((other, before)) = self.only.replace((id, claim)) else { return true };
            self.only = None;
            self.insert(other, before);
        }
        self.insert(id, claim)
    }

    fn insert(&mut self, id: u32, claim: Claim) -> bool {
        self.longest = self.longest.max(claim.last - claim.first);
        let blockers = self.near(&claim).filter(|(_, held)| held.conflicts(&claim)).count() as u32;
        self.next_order += 1;
        self.claims.insert((claim.first, id), Held { claim, order: self.next_order, blockers });
        blockers == 0
    }

    fn near(&self, claim: &Claim) -> impl Iterator<Item = (&(u64, u32), &Held)> {
        self.claims.range((claim.first.saturating_sub(self.longest), 0)..=(claim.last, u32::MAX))
    }

    /// Work `id`, which claimed from `first` on, is done; adds what may begin now to `free`, the first to come first.
    #[inline]
    pub fn release(&mut self, id: u32, first: u64, free: &mut Vec<u32>) {
        match self.only {
            Some(_) => self.only = None,
            None => self.remove(id, first, free),
        }
    }

    fn remove(&mut self, id: u32, first: u64, free: &mut Vec<u32>) {
        let Some(done) = self.claims.remove(&(first, id)) else { return };
        if self.claims.is_empty() {
            self.longest = 0;
            return;
        }
        let claim = done.claim;
        let near = (claim.first.saturating_sub(self.longest), 0)..=(claim.last, u32::MAX);
        let mut begin: Vec<(u64, u32)> = Vec::new();
        for ((_, id), held) in self.claims.range_mut(near) {
            if held.order > done.order && held.conflicts(&claim) {
                held.blockers -= 1;
                if held.blockers == 0 {
                    begin.push((held.order, *id));
                }
            }
        }
        begin.sort_unstable();
        free.extend(begin.into_iter().map(|(_, id)| id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(first: u64, last: u64, alone: bool) -> Claim {
        Claim { first, last, alone }
    }

    fn released(locks: &mut Locks, id: u32, first: u64) -> Vec<u32> {
        let mut free = Vec::new();
        locks.release(id, first, &mut free);
        free
    }

    #[test]
    fn overlapping_work_waits_for_all_before_it_and_goes_in_order() {
        let mut locks = Locks::default();
        assert!(locks.claim(1, claim(0, 9, true)));
        assert!(locks.claim(2, claim(20, 20, true)));
        assert!(!locks.claim(3, claim(9, 20, true)));
        assert!(!locks.claim(4, claim(5, 5, false)));
        assert!(!locks.claim(5, claim(20, 25, true)), "behind a claim that waits itself");
        assert_eq!(released(&mut locks, 1, 0), [4]);
        assert_eq!(released(&mut locks, 2, 20), [3]);
        assert_eq!(released(&mut locks, 3, 9), [5]);
    }

    #[test]
    fn what_is_shared_waits_only_for_who_is_alone() {
        let mut locks = Locks::default();
        assert!(locks.claim(1, claim(0, 9, false)));
        assert!(locks.claim(2, claim(3, 4, false)));
        assert!(!locks.claim(3, claim(4, 4, true)));
        assert_eq!(released(&mut locks, 1, 0), [0; 0]);
        assert_eq!(released(&mut locks, 2, 3), [3]);
    }
}
