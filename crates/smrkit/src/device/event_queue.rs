//! When something happens next at each of several members, and where that is soonest.
//!
//! Only members with anything under way are looked through, so that an array of thousands costs no more than its commands.

use crate::units::Nanos;

/// The moments to come, one a member.
pub(super) struct EventQueue {
    /// By member; [`Nanos::MAX`] where nothing is under way.
    times: Vec<Nanos>,
    /// Events with their members, the soonest last; of several at one moment the first member.
    coming: Vec<(Nanos, u32)>,
}

impl EventQueue {
    /// The moments of members, in order.
    pub fn new(times: Vec<Nanos>) -> EventQueue {
        let all = times.iter().zip(0..).map(|(&time, member)| (time, member));
        let mut coming: Vec<(Nanos, u32)> = all.filter(|&(time, _)| time < Nanos::MAX).collect();
        coming.sort_unstable_by(|a, b| b.cmp(a));
        EventQueue { times, coming }
    }

    /// The soonest moment; [`Nanos::MAX`] if nothing is under way.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.coming.last().map_or(Nanos::MAX, |&(time, _)| time)
    }

    /// Takes the soonest moment out: whose it is.
    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        let (_, member) = self.coming.pop()?;
        self.times[member as usize] = Nanos::MAX;
        Some(member as usize)
    }

    /// The moment of a member is `time` now.
    #[inline]
    pub fn set(&mut self, member: usize, time: Nanos) {
        let before = std::mem::replace(&mut self.times[member], time);
        if time != before {
            self.note(member as u32, before, time);
        }
    }

    #[inline]
    fn note(&mut self, member: u32, before: Nanos, time: Nanos) {
        if before < Nanos::MAX {
            self.coming.retain(|&(_, other)| other != member);
        }
        if time < Nanos::MAX {
            let later = self.coming.iter().rposition(|&other| other > (time, member));
            self.coming.insert(later.map_or(0, |at| at + 1), (time, member));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_soonest_is_taken_and_of_several_the_first(
            start in prop::collection::vec(0u64..6, 1..8), changes in prop::collection::vec((0usize..8, 0u64..6), 0..60),
        ) {
            let moment = |n: u64| if n == 5 { Nanos::MAX } else { Nanos(n) };
            let mut times: Vec<Nanos> = start.into_iter().map(moment).collect();
            let mut events = EventQueue::new(times.clone());
            for (member, n) in changes {
                let soonest = times.iter().enumerate().map(|(member, &time)| (time, member)).min().unwrap();
                prop_assert_eq!(events.next(), soonest.0);
                if member < times.len() {
                    times[member] = moment(n);
                    events.set(member, times[member]);
                } else {
                    prop_assert_eq!(events.take(), (soonest.0 < Nanos::MAX).then_some(soonest.1));
                    times[soonest.1] = Nanos::MAX;
                }
            }
        }
    }
}
