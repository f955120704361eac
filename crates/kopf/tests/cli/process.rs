//! The operator as a child process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::OPERATOR;

/// Upper bound for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the command of an operator with its own folders and an empty environment.
pub(crate) fn operator(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .env(OPERATOR, "macros")
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the command until it exits.
pub(crate) fn output(command: &mut Command) -> Output {
    let mut child = command.spawn().unwrap();
    for _ in 0..6000 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A process that does not exit is killed, so that the test fails.
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A running operator. Dropping it kills the process.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// The log so far.
    pub(crate) log: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                if sender.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            log: String::new(),
        }
    }

    /// Waits until the log contains the words.
    pub(crate) fn until(&mut self, words: &str) {
        while !self.log.contains(words) {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    self.log.push_str(&line);
                    self.log.push('\n');
                }
                Err(error) => panic!("{words:?} is not in the log ({error}):\n{}", self.log),
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the exit. Returns the exit code, stdout and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        let code = self.child.wait().unwrap().code();
        let mut log = std::mem::take(&mut self.log);
        for line in &self.lines {
            log.push_str(&line);
            log.push('\n');
        }
        (code, stdout, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
