//! A server's clients: those that connect, what each has sent, and the replies on their way to it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use smrkit::device::NCQ_COMMANDS;

use super::super::nbd::{Connection, Export, Listener, NbdCommand, NbdError, NbdKind};
use super::commands::DueReply;

/// Clients at a time (assumption).
const CLIENTS_MAX: usize = 64;
/// Buffers that are kept for later use, and how long they may be.
const POOL_BUFFERS: usize = NCQ_COMMANDS as usize;
const POOLED_BYTES: usize = 1 << 20;

/// The clients of a server.
pub struct NbdClients {
    listener: Listener,
    export: Export,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Clients that were there when a power cut lost what was not flushed, and have had no error of a flush since.
    owed_errors: BTreeSet<u64>,
    /// Clients whose connections broke in the last [`NbdClients::send`].
    broken: BTreeSet<u64>,
    /// Buffers for the bytes of commands.
    pool: Vec<Vec<u8>>,
}

impl NbdClients {
    /// Clients to come, which connect to `listener`.
    pub fn new(listener: Listener, export: Export) -> NbdClients {
        let (connections, [owed_errors, broken]) = (BTreeMap::new(), [BTreeSet::new(), BTreeSet::new()]);
        NbdClients { listener, export, connections, next: 0, owed_errors, broken, pool: Vec::new() }
    }

    /// Clients that are there.
    pub fn count(&self) -> usize {
        self.connections.len()
    }

    /// Adds what to wait for to `files`: new clients, then each client, from which nothing is read where `is_busy`.
    pub fn wait_for<'a>(&'a self, files: &mut Vec<PollFd<'a>>, is_busy: bool) {
        files.push(PollFd::new(&self.listener, PollFlags::IN));
        for client in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !is_busy && client.is_open() && !client.is_full());
            flags.set(PollFlags::OUT, client.wants_to_send());
            files.push(PollFd::from_borrowed_fd(client.stream().as_fd(), flags));
        }
    }

    /// Reads what clients have sent, and takes in new ones, as `ready` says of what was waited for.
    pub fn receive(&mut self, ready: &[PollFlags]) {
        let Some((accepts, ready)) = ready.split_first() else { return };
        for (client, flags) in self.connections.values_mut().zip(ready) {
            if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                client.receive();
            }
        }
        if !accepts.is_empty() {
            self.accept();
        }
    }

    fn accept(&mut self) {
        while let Ok(Some(stream)) = self.listener.accept() {
            // One too many finds its connection closed.
            if self.connections.len() < CLIENTS_MAX {
                self.connections.insert(self.next, Connection::new(stream));
                self.next += 1;
            }
        }
    }

    /// True if a client has taken what kept it from being heard.
    pub fn has_more(&self) -> bool {
        self.connections.values().any(Connection::has_more)
    }

    /// All clients.
    pub fn numbers(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    /// The next command of a client that has come as a whole; none where the server is busy, until that ends.
    pub fn next_command(&mut self, client: u64, is_busy: bool) -> Option<NbdCommand> {
        self.connections.get_mut(&client)?.next(&self.export, &mut self.pool, is_busy)
    }

    /// True if the client's connection has broken: nobody waits for a reply. One that has said goodbye is no such client.
    pub fn is_gone(&self, client: u64) -> bool {
        self.broken.contains(&client)
    }

    /// True if something is to be sent to any client.
    pub fn want_to_send(&self) -> bool {
        self.connections.values().any(Connection::wants_to_send)
    }

    /// When the handshake that has been mute for longest is to end.
    pub fn first_mute(&self) -> Option<Instant> {
        self.connections.values().filter_map(Connection::mute_until).min()
    }

    /// A client that is still there.
    pub fn get(&mut self, client: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&client)
    }

    /// A buffer for what a command reads.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.pool.pop().unwrap_or_default()
    }

    /// After a loss every client that is there is owed an error.
    pub fn owe_error(&mut self) {
        self.owed_errors.extend(self.connections.keys());
    }

    /// True if a client was owed an error, which it now gets.
    pub fn take_owed_error(&mut self, client: u64) -> bool {
        self.owed_errors.remove(&client)
    }

    /// Replies to a client if it is still there.
    pub fn reply(&mut self, DueReply { job, is_served }: DueReply) {
        let Some(connection) = self.connections.get_mut(&job.client) else { return };
        if job.kind == NbdKind::Read {
            connection.reading_bytes -= job.bytes as usize;
        }
        match job.kind {
            _ if !is_served => connection.failed(job.cookie, NbdError::Io),
            NbdKind::Read => {
                return connection.data(job.cookie, job.offset, job.data, job.bytes as usize, &mut self.pool);
            }
            _ => connection.done(job.cookie),
        }
        self.pool.push(job.data);
    }

    /// Sends what clients take, and forgets those that are gone; true if any connection broke.
    pub fn send(&mut self) -> bool {
        for client in self.connections.values_mut().filter(|client| client.wants_to_send()) {
            client.send(&mut self.pool);
        }
        let now = Instant::now();
        self.connections
            .values_mut()
            .filter(|client| client.mute_until().is_some_and(|until| until <= now))
            .for_each(Connection::end);
        self.broken =
            self.connections.iter().filter(|(_, client)| client.is_broken()).map(|(client, _)| *client).collect();
        self.connections.retain(|_, client| !client.is_over());
        self.owed_errors.retain(|client| self.connections.contains_key(client));
        self.pool.retain(|buffer| (1..=POOLED_BYTES).contains(&buffer.capacity()));
        self.pool.truncate(POOL_BUFFERS);
        !self.broken.is_empty()
    }
}
