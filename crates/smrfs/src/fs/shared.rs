//! Extents that several places in files share: the places, and how many durable maps may name an extent besides.
//!
//! An extent that one place shares no more is *retired* there until the file's map is durable. It is dead when no place has
//! it, and free when nothing is retired either. Once shared it is kept here, even for a last place, until it is dead or
//! [`Shared::reclaim`] gives it to that place alone.

use std::collections::BTreeMap;

use crate::space::live::Live;
use crate::units::{Owner, Span};

/// A shared extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holders {
    count: u64,
    /// The places that have it in memory.
    owners: Vec<Owner>,
    /// Places that had it: their durable maps may name it still.
    retired: u64,
}

impl Holders {
    /// Cuts off what lies `first` granules behind its beginning.
    fn split(&mut self, first: u64) -> Holders {
        let owners = self.owners.iter().map(|owner| owner.further(first)).collect();
        let rest = Holders { count: self.count - first, owners, retired: self.retired };
        self.count = first;
        rest
    }
}

/// A part of an extent with the places that share it; none if it is not shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedPart {
    pub span: Span,
    pub owners: Vec<Owner>,
}

/// Extents that a place gave up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// No place has them now; they were not shared.
    pub alone: Vec<Span>,
    /// No place has them now; they were shared.
    pub dead: Vec<Span>,
    /// Another place still has them.
    pub left: Vec<(Span, Owner)>,
}

/// The shared extents of a disk, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    extents: BTreeMap<u64, Holders>,
}

impl Shared {
    /// The parts of `span` that are shared.
    pub(super) fn within(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        let first = match self.extents.range(..=span.at.0).next_back() {
            Some((&at, holders)) if at + holders.count > span.at.0 => at,
            _ => span.at.0,
        };
        let end = if span.is_empty() { first } else { span.end().0 };
        self.extents.range(first..end).filter_map(move |(&at, holders)| Span::new(at, holders.count).overlap(span))
    }

    /// The parts of `span` that are not shared.
    pub(super) fn alone(&self, span: Span) -> Vec<Span> {
        let (mut parts, mut at) = (Vec::new(), span.at);
        for shared in self.within(span) {
            parts.push(Span { at, count: shared.at - at });
            at = shared.end();
        }
        parts.push(Span { at, count: span.end() - at });
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// The parts of `span`, shared and not, in ascending order.
    pub(super) fn parts(&self, span: Span) -> Vec<SharedPart> {
        let alone = self.alone(span).into_iter().map(|span| SharedPart { span, owners: Vec::new() });
        let shared = self.within(span).map(|span| SharedPart { span, owners: self.owners_of(span) });
        let mut parts: Vec<SharedPart> = alone.chain(shared).collect();
        parts.sort_unstable_by_key(|part| part.span.at);
        parts
    }

    /// Owners of a span that lies in one extent.
    fn owners_of(&self, span: Span) -> Vec<Owner> {
        let found = self.extents.range(..=span.at.0).next_back();
        found.map_or_else(Vec::new, |(&at, holders)| {
            holders.owners.iter().map(|owner| owner.further(span.at.0 - at)).collect()
        })
    }

    /// Each shared extent with each of its places.
    pub(super) fn all(&self) -> impl Iterator<Item = (Span, Owner)> + '_ {
        self.extents
            .iter()
            .flat_map(|(&at, holders)| holders.owners.iter().map(move |&owner| (Span::new(at, holders.count), owner)))
    }

    /// Compares with what is live; says what is wrong.
    pub(super) fn check(&self, live: &Live) -> Result<(), String> {
        for (&at, holders) in &self.extents {
            let span = Span::new(at, holders.count);
            let is_live = live.cut_to(span).map(|(part, _)| part.count).sum::<u64>() == span.count;
            let is_owned = holders.owners.iter().any(|&owner| live.holds(span, owner));
            if is_owned != is_live || holders.owners.is_empty() == is_live || (!is_live && holders.retired == 0) {
                return Err(format!("{span} is shared by {holders:?}, and live: {is_live}"));
            }
        }
        Ok(())
    }

    /// From now on `owner` has `span`, all of which `live` has, as well.
    pub(super) fn add(&mut self, span: Span, owner: Owner, live: &Live) {
        for (found, whose) in self.alone(span).into_iter().flat_map(|gap| live.cut_to(gap)) {
            self.put(found, Holders { count: found.count, owners: vec![whose], retired: 0 });
        }
        for (at, holders) in self.cut_out(span) {
            holders.owners.push(owner.further(at - span.at.0));
        }
    }

    /// A copy of shared data is `owner`'s as well; until its next release it is not free. Tells what of it was nobody's yet,
    /// and what others have: what those who had it gave up again is dead, and not taken.
    pub(super) fn add_copy(&mut self, span: Span, owner: Owner) -> (Vec<Span>, Vec<Span>) {
        let whose = |at: u64| owner.further(at - span.at.0);
        let mut others = Vec::new();
        for (at, holders) in self.cut_out(span).filter(|(_, holders)| !holders.owners.is_empty()) {
            holders.owners.push(whose(at));
            others.push(Span::new(at, holders.count));
        }
        let first = self.alone(span);
        for part in &first {
            self.put(*part, Holders { count: part.count, owners: vec![whose(part.at.0)], retired: 1 });
        }
        (first, others)
    }

    /// The parts of `span`; those that are shared are not free before they are released once more.
    pub(super) fn hold(&mut self, span: Span) -> Vec<SharedPart> {
        let parts = self.parts(span);
        for part in parts.iter().filter(|part| !part.owners.is_empty()) {
            self.cut_out(part.span).for_each(|(_, holders)| holders.retired += 1);
        }
        parts
    }

    /// The map in memory of `owner` names `span` no more.
    pub(super) fn retire(&mut self, span: Span, owner: Owner) -> GivenUp {
        let mut given_up = GivenUp { alone: self.alone(span), ..GivenUp::default() };
        for (at, holders) in self.cut_out(span) {
            let (part, gone) = (Span::new(at, holders.count), owner.further(at - span.at.0));
            let found = holders.owners.iter().position(|&other| other == gone);
            assert!(found.is_some(), "{part} is retired by {gone:?}, who does not share it");
            found.map(|found| holders.owners.remove(found));
            holders.retired += 1;
            match holders.owners.first() {
                Some(&other) => given_up.left.push((part, other)),
                None => given_up.dead.push(part),
            }
        }
        given_up
    }

    /// One durable map less may name `span`; tells what of it is free now.
    pub(super) fn release(&mut self, span: Span) -> Vec<Span> {
        let mut free: Vec<Span> = self.alone(span);
        let mut over = Vec::new();
        for (at, holders) in self.cut_out(span) {
            assert!(holders.retired > 0, "{span} is released, and nobody retired it");
            holders.retired -= 1;
            if holders.owners.is_empty() && holders.retired == 0 {
                over.push(at);
                free.push(Span::new(at, holders.count));
            }
        }
        over.into_iter().for_each(|at| drop(self.extents.remove(&at)));
        free
    }

    /// Gives what only `owner` still has of `span`, and nothing durable besides, to it alone; tells what that is.
    pub(super) fn reclaim(&mut self, span: Span, owner: Owner) -> Vec<Span> {
        let alone: Vec<Span> = self
            .cut_out(span)
            .filter(|(at, holders)| holders.retired == 0 && holders.owners == [owner.further(at - span.at.0)])
            .map(|(at, holders)| Span::new(at, holders.count))
            .collect();
        alone.iter().for_each(|part| drop(self.extents.remove(&part.at.0)));
        alone
    }

    fn put(&mut self, span: Span, holders: Holders) {
        self.extents.insert(span.at.0, holders);
    }

    /// The extents in `span`, cut so that none lies across one of its ends.
    fn cut_out(&mut self, span: Span) -> impl Iterator<Item = (u64, &mut Holders)> {
        for end in [span.at.0, span.end().0] {
            if let Some((&at, holders)) = self.extents.range_mut(..end).next_back()
                && at + holders.count > end
            {
                let rest = holders.split(end - at);
                self.extents.insert(end, rest);
            }
        }
        self.extents.range_mut(span.at.0..span.end().0).map(|(&at, holders)| (at, holders))
    }
}
