//! The `ngrok` process: started, read, and killed with its owner.
//!
//! Its log contains the public URL, as one JSON object per line:
//!
//! ```json
//! {"lvl":"info","msg":"started tunnel","addr":"http://127.0.0.1:8080","url":"https://e5fc.ngrok.app"}
//! ```

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;
use tracing::debug;

use super::lines::Lines;
use crate::Error;

/// Timeout of opening a tunnel.
const PATIENCE: Duration = Duration::from_secs(60);

/// Timeout of reading the remaining output after the exit of the program.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Maximum length of repeated error messages, in bytes.
const REPEATED: usize = 1_000;

/// The prefix of lines with the reason of an exit.
const COMPLAINT: &str = "ERROR:";

/// The environment variable with the token.
const TOKEN: &str = "NGROK_AUTHTOKEN";

/// The command to start.
pub(super) struct Command {
    pub(super) binary: PathBuf,
    /// The address to which requests are forwarded.
    pub(super) upstream: String,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
}

/// A running program. It is killed on drop.
pub(super) struct Process {
    child: Child,
    output: Lines<ChildStdout>,
    errors: Lines<ChildStderr>,
    /// The last error in its output.
    problem: Option<String>,
    /// Strings to redact: the program quotes an invalid token.
    secrets: Vec<String>,
}

impl Process {
    pub(super) fn start(command: &Command) -> Result<Self, Error> {
        let mut program = tokio::process::Command::new(&command.binary);
        program
            .args(["http", &command.upstream])
            .args(["--log", "stdout", "--log-format", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(region) = &command.region {
            program.args(["--region", region]);
        }
        if let Some(token) = &command.token {
            // Arguments are visible to all users of the machine.
            program.env(TOKEN, token);
        }
        let secrets = [command.token.clone(), std::env::var(TOKEN).ok()];
        let secrets = secrets.into_iter().flatten();
        let mut child = program.spawn().map_err(|source| Error::NgrokMissing {
            binary: command.binary.clone(),
            source,
        })?;
        let output = Lines::new(child.stdout.take());
        let errors = Lines::new(child.stderr.take());
        Ok(Self {
            child,
            output,
            errors,
            problem: None,
            secrets: secrets.filter(|secret| !secret.is_empty()).collect(),
        })
    }

    /// Waits for the public URL.
    pub(super) async fn public_url(&mut self) -> Result<String, Error> {
        match timeout(PATIENCE, self.next_url()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::NgrokSilent {
                patience: PATIENCE,
                reason: self.reason(),
            }),
        }
    }

    /// Waits for the next public URL, which can change after a reconnection. The error is the
    /// reason of the exit.
    pub(super) async fn next_url(&mut self) -> Result<String, Error> {
        // The output must be read for as long as the program runs: a full pipe would block it.
        loop {
            let Self {
                child,
                output,
                errors,
                ..
            } = self;
            if output.is_over() && errors.is_over() {
                return Err(match timeout(LAST_WORDS, child.wait()).await {
                    Ok(status) => self.ended(status).await,
                    // The program still runs, but its state is unknown.
                    Err(_) => self.end("it closed its output".to_owned()),
                });
            }
            let line = tokio::select! {
                biased;
                line = next_line(output, errors) => line,
                // Its child processes may continue to run and keep the pipes open.
                status = child.wait() => return Err(self.ended(status).await),
            };
            let Some(line) = line else {
                continue;
            };
            if let Some(url) = self.heard(&line) {
                return Ok(url);
            }
        }
    }

    /// Kills the program and waits for its end.
    pub(super) async fn stop(mut self) {
        // Fails only if the program has already exited.
        let _ = self.child.kill().await;
    }

    /// Parses a line: returns the URL of a tunnel, or records an error.
    fn heard(&mut self, line: &str) -> Option<String> {
        let secrets = self.secrets.iter();
        let line = secrets.fold(line.to_owned(), |line, secret| line.replace(secret, "***"));
        debug!("ngrok: {line}");
        let url = url_of(&line);
        if url.is_none() {
            self.remember(&line);
        }
        url
    }

    /// Returns the reason of the exit, after reading the remaining output.
    async fn ended(&mut self, status: std::io::Result<ExitStatus>) -> Error {
        let listening = async {
            while let Some(line) = next_line(&mut self.output, &mut self.errors).await {
                self.heard(&line);
            }
        };
        // Child processes may keep the pipes open.
        let _ = timeout(LAST_WORDS, listening).await;
        self.end(match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        })
    }

    fn end(&self, status: String) -> Error {
        let reason = self.reason();
        Error::NgrokEnded { status, reason }
    }

    /// Records an error. It has several lines, of which the last one is the URL of a page.
    fn remember(&mut self, line: &str) {
        let Some(mut problem) = problem_of(line) else {
            return;
        };
        if let (true, Some(before)) = (line.starts_with(COMPLAINT), self.problem.take()) {
            problem.insert(0, ' ');
            problem.insert_str(0, &before);
        }
        if let Some((end, _)) = problem.char_indices().nth(REPEATED) {
            problem.truncate(end);
        }
        self.problem = Some(problem);
    }

    fn reason(&self) -> String {
        let problem = self.problem.clone();
        problem.unwrap_or_else(|| "no error message".to_owned())
    }
}

/// Returns the next line of either pipe, or `None` after the end of both.
async fn next_line(
    output: &mut Lines<ChildStdout>,
    errors: &mut Lines<ChildStderr>,
) -> Option<String> {
    tokio::select! {
        Some(line) = output.next() => Some(line),
        Some(line) = errors.next() => Some(line),
        else => None,
    }
}

/// Returns the HTTPS URL of a tunnel in a line, if there is one.
fn url_of(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line.get("msg")?.as_str()? != "started tunnel" {
        return None;
    }
    let url = line.get("url")?.as_str()?;
    url.starts_with("https://")
        .then(|| url.trim_end_matches('/').to_owned())
}

/// Returns the error in a line: a log entry of the level error, or any line that is not a log
/// entry.
fn problem_of(line: &str) -> Option<String> {
    let Ok(parsed) = serde_json::from_str::<Value>(line) else {
        let line = line.trim();
        let line = line.strip_prefix(COMPLAINT).unwrap_or(line).trim();
        return (!line.is_empty()).then(|| line.to_owned());
    };
    let text = |key: &str| parsed.get(key).and_then(Value::as_str);
    let is_error = matches!(text("lvl"), Some("eror" | "error" | "crit"));
    let problem = text("err").filter(|error| *error != "nil" && !error.is_empty());
    let started = text("url").filter(|_| text("msg") == Some("started tunnel"));
    match (is_error, problem) {
        (_, Some(error)) => Some(error.to_owned()),
        _ if started.is_some_and(|url| !url.starts_with("https://")) => Some(format!(
            "its tunnel at {} has no HTTPS, which API servers require",
            started.unwrap_or_default()
        )),
        (true, None) => text("msg").map(str::to_owned),
        (false, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_in_the_log() {
        for (line, expected) in [
            (
                r#"{"lvl":"info","msg":"started tunnel","name":"x","url":"https://a.ngrok.app"}"#,
                Some("https://a.ngrok.app"),
            ),
            (
                r#"{"msg":"started tunnel","url":"https://a.ngrok.app/"}"#,
                Some("https://a.ngrok.app"),
            ),
            (
                r#"{"msg":"started tunnel","url":"http://a.ngrok.io"}"#,
                None,
            ),
            (r#"{"msg":"started tunnel"}"#, None),
            (r#"{"msg":"client session established"}"#, None),
            (r#"{"url":"https://a.ngrok.app"}"#, None),
            (r#""started tunnel""#, None),
            ("started tunnel https://a.ngrok.app", None),
            ("", None),
        ] {
            assert_eq!(url_of(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn problems_are_found_in_the_log() {
        for (line, expected) in [
            (
                r#"{"lvl":"eror","msg":"session closing","err":"authentication failed"}"#,
                Some("authentication failed"),
            ),
            (
                r#"{"lvl":"crit","msg":"command failed"}"#,
                Some("command failed"),
            ),
            (r#"{"lvl":"info","msg":"x","err":"nil"}"#, None),
            (r#"{"lvl":"info","msg":"x","err":null}"#, None),
            (r#"{"lvl":"info","msg":"x"}"#, None),
            ("ERROR:  ERR_NGROK_4018", Some("ERR_NGROK_4018")),
            (
                r#"{"lvl":"info","msg":"started tunnel","url":"http://x.test"}"#,
                Some("its tunnel at http://x.test has no HTTPS, which API servers require"),
            ),
            ("ERROR:", None),
            ("  ", None),
        ] {
            assert_eq!(problem_of(line).as_deref(), expected, "{line}");
        }
    }
}
