//! A command that runs on a sandbox: environment, signals and exit code.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use kopf_inspect::Screen;
#[cfg(not(unix))]
use tokio::process::Child;
use tokio::process::Command;

use crate::failure::Failure;

/// Exit codes of shells for commands that cannot be run.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a command with `KUBECONFIG` set and returns its exit code. Signals are forwarded to it.
pub(crate) async fn run(
    program: &OsStr,
    arguments: &[OsString],
    kubeconfig: &Path,
) -> Result<ExitCode, Failure> {
    // Before the command is spawned: a signal either reaches it or ends this process.
    let mut signals =
        Signals::catch().map_err(|error| Failure::new("cannot install signal handlers", &error))?;
    let spawned = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let code = match error.kind() {
                io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            };
            let what = format!("cannot run {}", program.display());
            Screen::detect().failure(&Failure::new(what, &error));
            return Ok(ExitCode::from(code));
        }
    };
    loop {
        tokio::select! {
            ended = child.wait() => {
                let status = ended.map_err(|error| Failure::new("cannot wait for the command", &error))?;
                return Ok(ExitCode::from(code(status)));
            }
            signal = signals.next() => signal.pass_on(&child),
        }
    }
}

/// Returns the exit code of a command as shells do: 128 plus the number of a fatal signal.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return u8::try_from(128 + signal).unwrap_or(u8::MAX);
        }
    }
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(unix)]
use self::unix::Signals;

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal as _};

    use rustix::process::{Pid, Signal, kill_process};
    use tokio::process::Child;
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The signals that are forwarded to a command.
    pub(super) struct Signals {
        terminate: Stream,
        interrupt: Stream,
        quit: Stream,
        hangup: Stream,
        user1: Stream,
        user2: Stream,
    }

    /// A caught signal.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Caught(Signal);

    impl Signals {
        pub(super) fn catch() -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
                hangup: signal(SignalKind::hangup())?,
                user1: signal(SignalKind::user_defined1())?,
                user2: signal(SignalKind::user_defined2())?,
            })
        }

        /// Waits for the next signal. Cancel-safe.
        pub(super) async fn next(&mut self) -> Caught {
            Caught(tokio::select! {
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.interrupt.recv() => Signal::INT,
                _ = self.quit.recv() => Signal::QUIT,
                _ = self.hangup.recv() => Signal::HUP,
                _ = self.user1.recv() => Signal::USR1,
                _ = self.user2.recv() => Signal::USR2,
            })
        }
    }

    impl Caught {
        /// Sends the signal to a command, unless a terminal has sent it to both processes.
        pub(super) fn pass_on(self, child: &Child) {
            let of_terminal = matches!(self.0, Signal::INT | Signal::QUIT | Signal::HUP);
            if of_terminal && io::stdin().is_terminal() {
                return;
            }
            let id = child.id().and_then(|id| i32::try_from(id).ok());
            if let Some(id) = id.and_then(Pid::from_raw) {
                // Fails if the command has exited. `Child::wait` returns its status.
                let _ = kill_process(id, self.0);
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
struct Caught;

#[cfg(not(unix))]
impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for Ctrl-C, which the command receives as well.
    async fn next(&mut self) -> Caught {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Caught
    }
}

#[cfg(not(unix))]
impl Caught {
    fn pass_on(self, _: &Child) {}
}
