//! When the host dispatches commands to a drive, which takes a limited number at once; a timeout runs from there.

use crate::units::Nanos;

/// Commands that a drive takes at once where its file names no number: those of NCQ.
pub const NCQ_COMMANDS: u32 = 32;

/// The completions that make room for the next commands at a drive.
pub(super) struct Dispatch {
    /// When the last commands were completed, as many as the drive takes at once.
    ends: Box<[Nanos]>,
    /// Place at which the next command finds the completion that it waits for.
    next_sent: usize,
    /// Place of the next completion.
    next_end: usize,
}

impl Dispatch {
    /// To a drive that takes `depth` commands at once, or as many as NCQ has.
    pub fn new(depth: Option<u32>) -> Dispatch {
        let ends = vec![Nanos::ZERO; depth.unwrap_or(NCQ_COMMANDS).max(1) as usize].into();
        Dispatch { ends, next_sent: 0, next_end: 0 }
    }

    /// The moment at which the next command, in the order of arrival, is dispatched. What it waits for has been completed.
    #[inline]
    pub fn send(&mut self, arrival: Nanos) -> Nanos {
        let sent = arrival.max(self.ends[self.next_sent]);
        self.next_sent = self.after(self.next_sent);
        sent
    }

    /// A command was completed.
    #[inline]
    pub fn completed(&mut self, end: Nanos) {
        self.ends[self.next_end] = end;
        self.next_end = self.after(self.next_end);
    }

    /// Commands under way are gone: the next waits for none of them.
    pub fn forget(&mut self) {
        self.ends.fill(Nanos::ZERO);
        self.next_sent = self.next_end;
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.ends.len() { 0 } else { at + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_dispatched_when_one_at_the_drive_completes() {
        let mut dispatch = Dispatch::new(Some(2));
        let mut serve = |arrival, end| {
            let sent = dispatch.send(Nanos(arrival));
            dispatch.completed(Nanos(end));
            sent.0
        };
        // Five that arrive at once, 10 each: two are at the drive at a time.
        assert_eq!([serve(5, 10), serve(5, 20), serve(5, 30), serve(5, 40), serve(5, 50)], [5, 5, 10, 20, 30]);
        assert_eq!(serve(100, 110), 100, "an idle drive takes it at once");
    }

    #[test]
    fn commands_that_are_ordered_anew_wait_for_as_many_completions() {
        let mut dispatch = Dispatch::new(Some(3));
        let sent = [0, 0, 0].map(|arrival| dispatch.send(Nanos(arrival)).0);
        dispatch.completed(Nanos(7));
        assert_eq!((sent, dispatch.send(Nanos(1)).0), ([0, 0, 0], 7));
    }
}
