//! The program `ngrok`: started, listened to, and ended with its owner.
//!
//! It says in its log which URL it has got, a JSON object per line:
//!
//! ```json
//! {"lvl":"info","msg":"started tunnel","addr":"http://127.0.0.1:8080","url":"https://e5fc.ngrok.app"}
//! ```

use std::path::PathBuf;
use std::process::Stdio;
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
            program.env("NGROK_AUTHTOKEN", token);
        }
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
        while let Some(line) = self.line().await {
            debug!("ngrok: {line}");
            if let Some(url) = url_of(&line) {
                return Ok(url);
            }
            self.remember(&line);
        }
        Err(self.end().await)
    }

    /// The next line of either output, until both have ended.
    async fn line(&mut self) -> Option<String> {
        tokio::select! {
            Some(line) = self.output.next() => Some(line),
            Some(line) = self.errors.next() => Some(line),
            else => None,
        }
    }

    async fn end(&mut self) -> Error {
        let status = match timeout(LAST_WORDS, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            // It has closed its outputs and goes on: nobody will know what it does.
            Err(_) => "it says nothing any more".to_owned(),
        };
        Error::NgrokEnded {
            status,
            reason: self.reason(),
        }
    }

    fn remember(&mut self, line: &str) {
        if let Some(problem) = problem_of(line) {
            self.problem = Some(problem);
        }
    }

    fn reason(&self) -> String {
        let problem = self.problem.clone();
        problem.unwrap_or_else(|| "it has not said why".to_owned())
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
        return (!line.is_empty() && line != "ERROR:").then(|| line.to_owned());
    };
    let text = |key: &str| parsed.get(key).and_then(Value::as_str);
    let is_error = matches!(text("lvl"), Some("eror" | "error" | "crit"));
    let problem = text("err").filter(|error| *error != "nil" && !error.is_empty());
    match (is_error, problem) {
        (_, Some(error)) => Some(error.to_owned()),
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
            ("ERROR:  ERR_NGROK_4018", Some("ERROR:  ERR_NGROK_4018")),
            ("ERROR:", None),
            ("  ", None),
        ] {
            assert_eq!(problem_of(line).as_deref(), expected, "{line}");
        }
    }
}
