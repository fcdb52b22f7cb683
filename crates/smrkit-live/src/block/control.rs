//! The control socket of a served drive, by the path of its image: reports, and faults on purpose.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::Value;

use super::fault::InjectedFault;
use super::wish::{Caller, Wish};
use crate::mount::MountError;
use crate::mount::control::{ControlCommand, ControlReply, ControlServer, done, ending, failure};

/// Time that a busy server has to answer (assumption).
const PATIENCE: Duration = Duration::from_secs(20);

/// The socket, until it is dropped.
pub struct Control(ControlServer);

impl Control {
    /// Listens for those who name `image` ([`crate::mount::canonical`]); passes on to the server what they wish.
    ///
    /// Whoever asks it to end hears what `let_go` says; if that is no error, the server is stopped.
    pub fn start(
        image: &Path,
        caller: &Caller,
        let_go: impl Fn() -> Result<(), String> + Clone + Send + 'static,
    ) -> Result<Control, MountError> {
        let caller = caller.clone();
        ControlServer::start(image, move |command| answer(&caller, &let_go, command)).map(Control)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.hide();
    }
}

fn answer(caller: &Caller, let_go: &dyn Fn() -> Result<(), String>, command: ControlCommand) -> ControlReply {
    match command {
        ControlCommand::Report => asked(caller, PATIENCE, Wish::Report, |report| report),
        ControlCommand::Inject { fault } => match fault.parse::<InjectedFault>() {
            Ok(fault) => asked(
                caller,
                PATIENCE,
                |answer| Wish::Inject(fault, answer),
                |told| told.map_or_else(failure, |()| done()),
            ),
            Err(error) => failure(error),
        },
        ControlCommand::Unmount { .. } => match let_go() {
            Ok(()) => return ControlReply::of_end(|client| caller.wish(Wish::End(client))),
            Err(error) => failure(error),
        },
        _ => failure("a served drive is no file system: serve it, mount what is on it, and ask there"),
    }
    .into()
}

/// Asks the server, and waits for what it says, but not for ever: one request may keep it for minutes.
fn asked<T>(
    caller: &Caller,
    patience: Duration,
    wish: impl FnOnce(Sender<T>) -> Wish,
    told: impl FnOnce(T) -> Value,
) -> Value {
    let (sender, answer) = mpsc::channel();
    caller.wish(wish(sender));
    match answer.recv_timeout(patience) {
        Ok(answer) => told(answer),
        Err(RecvTimeoutError::Disconnected) => ending(),
        Err(RecvTimeoutError::Timeout) => failure("the drive is busy, and does what was asked after that"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::wish::wishes;

    #[test]
    fn a_busy_server_keeps_nobody_waiting_for_its_report() {
        let (caller, server) = wishes().unwrap();
        let told = asked(&caller, Duration::from_millis(50), Wish::Report, |report| report);
        assert!(told["error"].as_str().unwrap().contains("the drive is busy"), "{told}");
        drop(server);
        assert_eq!(asked(&caller, Duration::from_secs(60), Wish::Report, |report| report), ending());
    }
}
