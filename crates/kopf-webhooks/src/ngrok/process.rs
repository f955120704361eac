//! The program `ngrok`: started, listened to, and ended with its owner.
//!
//! It says in its log which URL it has got, a JSON object per line:
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

/// How long it can take until there is a tunnel.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it can take until everything is heard of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How much of what it complains about is repeated.
const REPEATED: usize = 1_000;

/// How the lines begin in which it says why it gives up.
const COMPLAINT: &str = "ERROR:";

/// The variable with the token.
const TOKEN: &str = "NGROK_AUTHTOKEN";

/// What is started.
pub(super) struct Command {
    pub(super) binary: PathBuf,
    /// Where requests are led to.
    pub(super) upstream: String,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
}

/// The program while it runs. It is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    output: Lines<ChildStdout>,
    errors: Lines<ChildStderr>,
    /// The last that sounded like a problem.
    problem: Option<String>,
    /// What is not to be repeated: it quotes the token that it does not like.
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
            // Arguments are seen by everybody on the machine.
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

    /// The public URL, as soon as there is one.
    pub(super) async fn public_url(&mut self) -> Result<String, Error> {
        match timeout(PATIENCE, self.next_url()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::NgrokSilent {
                patience: PATIENCE,
                reason: self.reason(),
            }),
        }
    }

    /// The next URL that it has got: it can get another one when it has lost its connection. Or the
    /// reason why it has ended.
    pub(super) async fn next_url(&mut self) -> Result<String, Error> {
        // Its output must be read for as long as it runs: a full pipe would stop it.
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
                    // It goes on: nobody would know what it does.
                    Err(_) => self.end("it says nothing any more".to_owned()),
                });
            }
            let line = tokio::select! {
                biased;
                line = next_line(output, errors) => line,
                // Those it has started can go on, and keep its outputs open.
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
        // It fails only if the program has ended already.
        let _ = self.child.kill().await;
    }

    /// What it has said: the URL of a tunnel, or something to remember.
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

    /// The reason, after everything is heard that it has said.
    async fn ended(&mut self, status: std::io::Result<ExitStatus>) -> Error {
        let listening = async {
            while let Some(line) = next_line(&mut self.output, &mut self.errors).await {
                self.heard(&line);
            }
        };
        // Others can have its outputs, too.
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

    /// It complains in several lines, of which the last one is the address of a page.
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
        problem.unwrap_or_else(|| "it has not said why".to_owned())
    }
}

/// The next line of either output, until both have ended.
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

/// The URL of a tunnel, if the line is about one. Others than HTTPS are of no use.
fn url_of(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line.get("msg")?.as_str()? != "started tunnel" {
        return None;
    }
    let url = line.get("url")?.as_str()?;
    url.starts_with("https://")
        .then(|| url.trim_end_matches('/').to_owned())
}

/// What a line complains about, if it does: of the log, an error; otherwise, all that is said.
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
            "its tunnel at {} has no HTTPS, which API servers insist on",
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
                Some("its tunnel at http://x.test has no HTTPS, which API servers insist on"),
            ),
            ("ERROR:", None),
            ("  ", None),
        ] {
            assert_eq!(problem_of(line).as_deref(), expected, "{line}");
        }
    }
}
