//! What is kept step by step, compared with a recount.

use super::FileSystem;
use super::allocator::Allocator;
use super::shared::Shared;
use crate::space::Live;
use crate::units::Span;

impl FileSystem {
    /// Files whose maps are in memory.
    pub fn files_in_memory(&self) -> usize {
        self.files.count()
    }

    /// Compares what is kept step by step with a recount; says what is wrong. For tests: nothing else may go on.
    pub fn check(&self) -> Result<(), String> {
        self.data.allocator.check()
    }
}

impl Allocator {
    /// Compares what is kept step by step with a recount.
    fn check(&self) -> Result<(), String> {
        let space = self.space.lock();
        space.check()?;
        self.shared.read().check(space.live())?;
        let (live, mapped) = (space.live().granules(), self.rooms.lock().mapped);
        if live != mapped {
            return Err(format!("{live} granules are live, and the maps have {mapped}"));
        }
        Ok(())
    }
}

impl Shared {
    /// Compares with what is live; says what is wrong.
    pub(super) fn check(&self, live: &Live) -> Result<(), String> {
        for (span, holders) in self.0.iter().map(|(range, holders)| (Span::from(range), holders)) {
            let is_live = live.within(span).map(|(part, _)| part.count).sum::<u64>() == span.count;
            let is_owned = holders.owners.iter().any(|&owner| live.holds(span, owner));
            if is_owned != is_live || holders.owners.is_empty() == is_live || (!is_live && holders.retired == 0) {
                return Err(format!("{span} is shared by {holders:?}, and live: {is_live}"));
            }
        }
        Ok(())
    }
}
