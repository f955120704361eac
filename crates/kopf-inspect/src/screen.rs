//! The output of commands: colours on a terminal, plain text in a pipe.
//!
//! A closed pipe (`kopf get … | head -1`) is not an error: the rest of the output is dropped. Other
//! errors, such as a full disk, fail the command at its end.

use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::paint::{Colours, Style, harmless};

/// Stdout and stderr.
#[derive(Debug)]
pub struct Screen {
    stdout: Colours,
    stderr: Colours,
    /// Stdout is closed.
    is_closed: AtomicBool,
    /// The first error of stdout, except for a closed pipe.
    problem: OnceLock<io::Error>,
}

impl Screen {
    /// Detects whether the outputs are terminals, and whether colours are wanted.
    pub fn detect() -> Self {
        // https://no-color.org: any non-empty value disables colours.
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        let colours = |is_terminal: bool| {
            if is_wanted && is_terminal {
                Colours::On
            } else {
                Colours::Off
            }
        };
        Self {
            stdout: colours(io::stdout().is_terminal()),
            stderr: colours(io::stderr().is_terminal()),
            is_closed: AtomicBool::new(false),
            problem: OnceLock::new(),
        }
    }

    /// Returns the use of colours in [`lines`](Self::lines).
    pub(crate) fn colours(&self) -> Colours {
        self.stdout
    }

    /// Returns `false` after a write to stdout has failed.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    /// Writes text to stdout.
    pub(crate) fn print(&self, text: &str) {
        if let Err(error) = write(io::stdout().lock(), text) {
            self.is_closed.store(true, Ordering::Relaxed);
            if error.kind() != io::ErrorKind::BrokenPipe {
                let _ = self.problem.set(error);
            }
        }
    }

    /// Checks that the output is complete, or that its reader has stopped reading.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.problem.get() {
            Some(error) => Err(Failure::new("cannot write the output", error)),
            None => Ok(()),
        }
    }

    /// Writes lines to stdout.
    pub(crate) fn lines(&self, lines: &[String]) {
        let mut text = lines.join("\n");
        text.push('\n');
        self.print(&text);
    }

    /// Writes a line of styled pieces to stdout.
    pub fn line(&self, pieces: &[(Style, &str)]) {
        let pieces = pieces.iter();
        let line: String = pieces
            .map(|(style, text)| style.paint(text, self.stdout))
            .collect();
        self.lines(&[line]);
    }

    /// Writes a line to stdout.
    pub fn plain(&self, text: &str) {
        self.line(&[(Style::Plain, text)]);
    }

    /// Writes a warning to stderr.
    pub fn warning(&self, text: &str) {
        let label = Style::Warning.paint("warning:", self.stderr);
        let lines: Vec<_> = text.lines().map(harmless).collect();
        write_stderr(&format!("{label} {}\n", lines.join("\n")));
    }

    /// Writes a failure to stderr.
    pub fn failure(&self, failure: &Failure) {
        let label = Style::Bad.paint("error:", self.stderr);
        let mut text = format!("{label} {}\n", harmless(failure.what()));
        for line in failure.causes().iter().flat_map(|cause| cause.lines()) {
            text.extend(["  ", &harmless(line.trim_end()), "\n"]);
        }
        if let Some(advice) = failure.advice() {
            let label = Style::Good.paint("advice:", self.stderr);
            text.extend([&*label, " ", &harmless(advice), "\n"]);
        }
        write_stderr(&text);
    }

    /// Asks a question on the terminal. Returns `None` if there is no terminal.
    #[expect(clippy::unused_self, reason = "consistent with other output")]
    pub(crate) fn confirm(&self, question: &str) -> Option<Answer> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        write_stderr(&format!("{question} [y/N] "));
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let is_yes = read.is_ok() && ["y", "yes"].contains(&line.trim().to_lowercase().as_str());
        Some(if is_yes { Answer::Yes } else { Answer::No })
    }
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

/// Writes to stderr. Errors are ignored.
fn write_stderr(text: &str) {
    let _ = write(io::stderr().lock(), text);
}

fn write(mut target: impl Write, text: &str) -> io::Result<()> {
    target.write_all(text.as_bytes())?;
    target.flush()
}
