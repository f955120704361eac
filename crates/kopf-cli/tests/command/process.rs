//! The command as a child process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Returns the command with a separate runtime folder per test.
pub(crate) fn kopf(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopf"));
    command
        .env("XDG_RUNTIME_DIR", folder.path())
        .env_remove("NO_COLOR")
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    finish(kopf(folder).args(arguments))
}

/// Runs a command to its end, or kills it after a timeout.
pub(crate) fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..6000 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A running command, killed when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) greeting: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::until("Ctrl-C ends it", command)
    }

    pub(crate) fn until(words: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
        while !greeting.contains(words) {
            if lines.read_line(&mut greeting).unwrap() == 0 {
                let output = child.wait_with_output().unwrap();
                panic!(
                    "the command exited early: {greeting}{}",
                    text(&output.stderr)
                );
            }
        }
        Self { child, greeting }
    }

    pub(crate) fn value(&self, label: &str) -> String {
        let line = self
            .greeting
            .lines()
            .find(|line| line.trim_start().starts_with(label));
        line.unwrap()
            .trim_start()
            .strip_prefix(label)
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Sends a signal, and returns the exit code, the rest of stdout, and stderr.
    pub(crate) fn end(mut self, signal: &str) -> (Option<i32>, String, String) {
        let kill = Command::new("kill")
            .arg(signal)
            .arg(self.child.id().to_string())
            .status();
        assert!(kill.unwrap().success());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
