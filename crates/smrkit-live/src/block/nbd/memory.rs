//! Memory that clients hold. It is set aside when a command arrives, for its data and its reply, and comes back once the reply is sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use super::{LONGEST_BYTES, REPLY_BYTES};

/// Memory for the commands and replies of all clients: three of the longest commands (assumption), and the reserve. Clients wait when it
/// is used up.
pub const SHARED_BYTES: usize = 3 * LONGEST_COMMAND_BYTES + RESERVED_BYTES;
const LONGEST_COMMAND_BYTES: usize = LONGEST_BYTES as usize + REPLY_BYTES;
/// The last part of it is only for clients that hold no more than `OWN_BYTES`, so that those who take no replies shut nobody out: for 64
/// clients.
pub const RESERVED_BYTES: usize = 64 * OWN_BYTES;
/// What a client may hold even if others hold much (assumption).
pub const OWN_BYTES: usize = (512 << 10) + REPLY_BYTES;

/// The memory that clients share, as one of them sees it.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory {
    all: Arc<AtomicUsize>,
    own: Arc<AtomicUsize>,
    /// The clients that wait for memory, in the order in which they get it. Without an order, a long command would never find enough of it
    /// while others' shorter ones keep taking what becomes free.
    waiting: Arc<Mutex<VecDeque<Arc<AtomicUsize>>>>,
}

impl SharedMemory {
    /// The same memory for another client.
    pub fn of_new_client(&self) -> SharedMemory {
        SharedMemory { own: Arc::default(), ..self.clone() }
    }

    /// Bytes that all clients hold.
    pub fn held_by_all(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Bytes that this client holds.
    pub fn held(&self) -> usize {
        self.own.load(Relaxed)
    }

    /// True if the longest command would have to wait for memory.
    pub fn is_short(&self) -> bool {
        self.held_by_all() + LONGEST_COMMAND_BYTES + RESERVED_BYTES > SHARED_BYTES
    }

    /// True if the client may hold so much more now. As long as it holds little, it need not wait for its turn.
    pub fn has_room(&self, bytes: usize) -> bool {
        let is_much = self.held() + bytes > OWN_BYTES;
        let reserved = if is_much { RESERVED_BYTES } else { 0 };
        let has_turn = || self.waiting.lock().front().is_none_or(|first| Arc::ptr_eq(first, &self.own));
        bytes == 0 || self.held_by_all() + bytes + reserved <= SHARED_BYTES && (!is_much || has_turn())
    }

    /// Sets memory aside if there is room. Otherwise the client waits for its turn.
    pub fn hold_in_turn(&self, bytes: usize) -> Option<HeldMemory> {
        if self.has_room(bytes) {
            self.stop_waiting();
            return Some(self.hold(bytes));
        }
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|client| Arc::ptr_eq(client, &self.own)) {
            waiting.push_back(self.own.clone());
        }
        None
    }

    /// Gives up the client's turn.
    pub fn stop_waiting(&self) {
        self.waiting.lock().retain(|client| !Arc::ptr_eq(client, &self.own));
    }

    /// Sets memory aside.
    pub fn hold(&self, bytes: usize) -> HeldMemory {
        self.all.fetch_add(bytes, Relaxed);
        self.own.fetch_add(bytes, Relaxed);
        HeldMemory { bytes, of: Some(self.clone()) }
    }
}

/// Memory that is set aside until this is dropped. A command carries it along, so that it comes back whatever becomes of the command: a
/// reply, an injected timeout, or the end of its client.
#[derive(Debug, Default)]
pub struct HeldMemory {
    bytes: usize,
    of: Option<SharedMemory>,
}

impl HeldMemory {
    /// Gives back all but `bytes`.
    pub fn shrink_to(mut self, bytes: usize) -> HeldMemory {
        let excess = self.bytes.saturating_sub(bytes);
        self.release(excess);
        self
    }

    /// Adds memory of the same client.
    pub fn add(&mut self, mut more: HeldMemory) {
        match self.of {
            Some(_) => self.bytes += std::mem::take(&mut more.bytes),
            None => *self = more,
        }
    }

    fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(SharedMemory { all, own, .. }) = &self.of {
            all.fetch_sub(bytes, Relaxed);
            own.fetch_sub(bytes, Relaxed);
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}
