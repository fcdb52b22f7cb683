//! Saved state: the changes of a drive, its layer and its clock since they were built, as bytes.
//!
//! A struct is built from a drive file and parameters; fields that change afterwards are its state. [`state!`] lists both kinds of fields,
//! and does not compile while a field is missing. Values pass through serde into postcard, which writes the same bytes for the same values.
//! State is loaded into a struct that was built alike, so a table whose length depends on the drive keeps that length.

use std::collections::{BinaryHeap, VecDeque};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{DiskResult, Fault};

/// A struct with state.
pub(crate) trait State {
    /// Appends the state to `out`.
    fn save(&self, out: &mut Vec<u8>);

    /// Restores the state at the front of `from`, and advances `from` past it. After an error the struct is unusable.
    fn load(&mut self, from: &mut &[u8]) -> DiskResult;
}

/// Implements [`State`] for a struct. `parts` have state themselves, `sized` are lists whose length was fixed when they were built,
/// `values` are any types that serde knows, and `built` does not change, or is scratch space.
macro_rules! state {
    ($type:ident {
        $(parts: $($part:ident),+;)? $(sized: $($sized:ident),+;)? $(values: $($value:ident),+;)? $(built: $($built:ident),+;)?
    }) => {
        impl $crate::state::State for $type {
            fn save(&self, out: &mut Vec<u8>) {
                let $type { $($($part,)+)? $($($sized,)+)? $($($value,)+)? $($($built: _,)+)? } = self;
                $($($crate::state::State::save($part, out);)+)?
                $($($crate::state::write($sized, out);)+)?
                $($($crate::state::write($value, out);)+)?
            }

            fn load(&mut self, from: &mut &[u8]) -> $crate::error::DiskResult {
                let $type { $($($part,)+)? $($($sized,)+)? $($($value,)+)? $($($built: _,)+)? } = self;
                $($($crate::state::State::load($part, from)?;)+)?
                $($($crate::state::read_sized($sized, from)?;)+)?
                $($(*$value = $crate::state::read(from)?;)+)?
                Ok(())
            }
        }
    };
}
/// The methods of a layer that save and restore its state.
macro_rules! layer_state {
    () => {
        fn state(&self) -> Vec<u8> {
            $crate::state::saved(self)
        }

        fn restore(&mut self, saved: &[u8]) -> $crate::error::DiskResult {
            $crate::state::load(self, saved)
        }
    };
}

pub(crate) use {layer_state, state};

/// The bytes of a single state.
pub(crate) fn saved(state: &impl State) -> Vec<u8> {
    let mut out = Vec::new();
    state.save(&mut out);
    out
}

/// Restores a single state.
pub(crate) fn load(state: &mut impl State, mut saved: &[u8]) -> DiskResult {
    state.load(&mut saved)?;
    finish(saved)
}

/// Refuses bytes after the state.
pub(crate) fn finish(rest: &[u8]) -> DiskResult {
    if rest.is_empty() { Ok(()) } else { refused("goes on behind its end") }
}

/// The fault of a state that can't be of this drive.
pub(crate) fn refused<T>(problem: &str) -> DiskResult<T> {
    Err(Box::new(Fault::SavedState(problem.into())))
}

/// Appends a value.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Postcard takes the buffer and gives it back.
    // Fails only for types that postcard can't write, such as lists of unknown length.
    *out = postcard::to_extend(value, std::mem::take(out)).expect("state of known shape");
}

/// Takes a value from the front of `from`.
pub(crate) fn read<T: DeserializeOwned>(from: &mut &[u8]) -> DiskResult<T> {
    match postcard::take_from_bytes(from) {
        Ok((value, rest)) => {
            *from = rest;
            Ok(value)
        }
        Err(error) => refused(&format!("can't be read ({error})")),
    }
}

/// Takes bytes with their number before them from the front of `from`.
pub(crate) fn read_bytes<'a>(from: &mut &'a [u8]) -> DiskResult<&'a [u8]> {
    let count = read(from)?;
    let Some((bytes, rest)) = from.split_at_checked(count) else { return refused("is cut short") };
    *from = rest;
    Ok(bytes)
}

/// Takes a list as long as this one from the front of `from`.
pub(crate) fn read_sized<T: DeserializeOwned>(list: &mut Vec<T>, from: &mut &[u8]) -> DiskResult {
    let saved: Vec<T> = read(from)?;
    if saved.len() != list.len() {
        return refused(&format!("has a table of {} entries in place of {}", saved.len(), list.len()));
    }
    // Its capacity stays, because the memory that a layer reports counts capacities.
    list.clear();
    list.extend(saved);
    Ok(())
}

/// Takes a list with its capacity from the front of `from`. Capacities are part of the state, because the memory that a layer reports
/// counts them.
fn read_with_room<T: DeserializeOwned, L: From<Vec<T>>>(from: &mut &[u8]) -> DiskResult<L> {
    let (room, mut list): (usize, Vec<T>) = (read(from)?, Vec::new());
    if list.try_reserve_exact(room).is_err() {
        return refused("asks for more memory than there is");
    }
    list.append(&mut read(from)?);
    Ok(list.into())
}

impl<T: State> State for Vec<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.save(out));
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        self.iter_mut().try_for_each(|one| one.load(from))
    }
}

/// `None` by construction stays so.
impl<T: State> State for Option<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.save(out));
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        self.iter_mut().try_for_each(|one| one.load(from))
    }
}

impl<T: Serialize + DeserializeOwned> State for VecDeque<T> {
    fn save(&self, out: &mut Vec<u8>) {
        write(&self.capacity(), out);
        write(self, out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        *self = read_with_room(from)?;
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned + Ord> State for BinaryHeap<T> {
    fn save(&self, out: &mut Vec<u8>) {
        write(&self.capacity(), out);
        write(self.as_slice(), out);
    }

    fn load(&mut self, from: &mut &[u8]) -> DiskResult {
        *self = read_with_room(from)?;
        Ok(())
    }
}
