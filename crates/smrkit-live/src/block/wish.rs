//! Wishes that others have of a server, and the way to tell them: the server waits for clients, and a byte wakes it.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use serde_json::Value;

use super::fault::InjectedFault;
use crate::mount::control::EndClient;

/// A request of another thread to the server.
#[derive(Debug)]
pub enum Wish {
    /// To end, once all that was begun is complete.
    Stop,
    /// To end as well, and to tell how the image was closed.
    End(EndClient),
    /// To inject a fault; the reply follows.
    Inject(InjectedFault, Sender<Result<(), String>>),
    /// To tell what the drive is doing.
    Report(Sender<Value>),
}

/// Source of wishes: a channel, and a socket that wakes the server.
pub struct Wishes {
    receiver: Receiver<Wish>,
    woken: UnixStream,
}

impl Wishes {
    /// The wishes that came since.
    pub(super) fn told(&self) -> impl Iterator<Item = Wish> {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        self.receiver.try_iter()
    }
}

/// Ready to be read once there is a wish.
impl AsFd for Wishes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

/// Tells a server what is wished.
#[derive(Clone)]
pub struct Caller {
    sender: Sender<Wish>,
    waker: Arc<UnixStream>,
}

impl Caller {
    /// Passes on a wish; a server that has ended needs none.
    pub fn wish(&self, wish: Wish) {
        let _ = self.sender.send(wish);
        // One byte that is not read yet is as good as two.
        let _ = (&*self.waker).write(&[1]);
    }
}

/// A way to tell a server what is wished, and the server's end of it.
pub fn wishes() -> std::io::Result<(Caller, Wishes)> {
    let (sender, receiver) = mpsc::channel();
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((Caller { sender, waker: Arc::new(waker) }, Wishes { receiver, woken }))
}
