//! Scripted output of simulated containers: their logs, and the results of commands.
//!
//! ```yaml
//! - pod: db-*
//!   logs: |
//!     database system is ready to accept connections
//! - {namespace: shop, pod: db-0, command: [pg_isready], stdout: "accepting connections\n"}
//! - {command: [sh, -c, "*pg_dump*"], stderr: "disk full\n", exitCode: 1}
//! ```

use std::sync::Arc;

use kopf_sandbox_schema::object::meta;
use kopf_sandbox_store::sync::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::request::decode;

/// The logs of containers, or the result of a command in them.
///
/// ```
/// use kopf_sandbox::simulation::Answer;
///
/// let logs = Answer::logs("ready\n").pod("db-*");
/// let command = Answer::command(["pg_isready"]).stdout("accepting connections\n").pod("db-0");
/// # let _ = (logs, command);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Answer {
    namespace: Option<String>,
    pod: Option<String>,
    container: Option<String>,
    reply: Reply,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    Logs(String),
    Command { start: Vec<String>, output: Output },
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub(crate) exit_code: u8,
}

/// The error of an invalid document of answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

impl Answer {
    /// Returns the logs of all containers.
    pub fn logs(text: impl Into<String>) -> Self {
        Self::new(Reply::Logs(text.into()))
    }

    /// Returns the result of commands that start with these words: an empty output and the exit
    /// code 0. A `*` in a word matches any characters.
    pub fn command<W: Into<String>>(start: impl IntoIterator<Item = W>) -> Self {
        Self::new(Reply::Command {
            start: start.into_iter().map(Into::into).collect(),
            output: Output::default(),
        })
    }

    fn new(reply: Reply) -> Self {
        Self {
            namespace: None,
            pod: None,
            container: None,
            reply,
        }
    }

    /// Limits the answer to a namespace.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// Limits the answer to pods by name. A `*` matches any characters.
    pub fn pod(mut self, name: impl Into<String>) -> Self {
        self.pod = Some(name.into());
        self
    }

    /// Limits the answer to containers of this name.
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Sets the standard output of a command. Logs are not changed.
    pub fn stdout(mut self, text: impl Into<String>) -> Self {
        if let Reply::Command { output, .. } = &mut self.reply {
            output.stdout = text.into();
        }
        self
    }

    /// Sets the standard error of a command. Logs are not changed.
    pub fn stderr(mut self, text: impl Into<String>) -> Self {
        if let Reply::Command { output, .. } = &mut self.reply {
            output.stderr = text.into();
        }
        self
    }

    /// Sets the exit code of a command. Logs are not changed.
    pub fn exit_code(mut self, code: u8) -> Self {
        if let Reply::Command { output, .. } = &mut self.reply {
            output.exit_code = code;
        }
        self
    }

    /// Parses a list of answers in YAML or JSON.
    ///
    /// ```
    /// use kopf_sandbox::simulation::Answer;
    ///
    /// let answers = Answer::parse("[{pod: db-*, logs: ready}, {command: pg_isready, exitCode: 1}]")?;
    /// assert_eq!(answers.len(), 2);
    /// # Ok::<(), kopf_sandbox::simulation::AnswerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The text is not a list, or an answer has unknown, missing or contradictory fields.
    pub fn parse(text: &str) -> Result<Vec<Self>, AnswerError> {
        let decoded = decode::yaml(text.as_bytes()).map_err(AnswerError)?;
        if let Some(complaint) = decoded.complaints.into_iter().next() {
            return Err(AnswerError(complaint));
        }
        let Value::Array(items) = decoded.value else {
            return Err(AnswerError("must be a list of answers".to_owned()));
        };
        let answers = items.into_iter().enumerate().map(|(index, item)| {
            let answer = Document::deserialize(item).map_err(|error| error.to_string());
            let answer = answer.and_then(Self::try_from);
            answer.map_err(|why| AnswerError(format!("answer {}: {why}", index + 1)))
        });
        answers.collect()
    }

    fn matches(&self, pod: &Value, container: &str) -> bool {
        let is = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| is_like(wanted, name))
        };
        is(&self.namespace, meta::namespace(pod).unwrap_or_default())
            && is(&self.pod, meta::name(pod))
            && is(&self.container, container)
    }
}

/// An answer as a document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    namespace: Option<String>,
    pod: Option<String>,
    container: Option<String>,
    logs: Option<String>,
    command: Option<Words>,
    stdout: Option<String>,
    stderr: Option<String>,
    exit_code: Option<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "command: must be a string or a list of strings")]
enum Words {
    Line(String),
    List(Vec<String>),
}

impl TryFrom<Document> for Answer {
    type Error = String;

    fn try_from(document: Document) -> Result<Self, String> {
        let has_output =
            document.stdout.is_some() || document.stderr.is_some() || document.exit_code.is_some();
        let reply = match (document.logs, document.command) {
            (Some(_), None) if has_output => {
                return Err("`stdout`, `stderr` and `exitCode` belong to a `command`".to_owned());
            }
            (Some(text), None) => Reply::Logs(text),
            (None, Some(words)) => {
                let start = match words {
                    Words::Line(line) => line.split_whitespace().map(str::to_owned).collect(),
                    Words::List(list) => list,
                };
                if start.is_empty() {
                    return Err("`command` is empty".to_owned());
                }
                let output = Output {
                    stdout: document.stdout.unwrap_or_default(),
                    stderr: document.stderr.unwrap_or_default(),
                    exit_code: document.exit_code.unwrap_or_default(),
                };
                Reply::Command { start, output }
            }
            _ => return Err("must have either `logs` or `command`".to_owned()),
        };
        Ok(Self {
            namespace: document.namespace,
            pod: document.pod,
            container: document.container,
            reply,
        })
    }
}

/// The answers of a sandbox. The last one that matches a container applies.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    list: Arc<Mutex<Vec<Answer>>>,
}

impl Answers {
    #[doc(hidden)]
    pub fn new(answers: Vec<Answer>) -> Self {
        Self {
            list: Arc::new(Mutex::new(answers)),
        }
    }

    /// Adds an answer.
    pub fn add(&self, answer: Answer) {
        self.list.lock().push(answer);
    }

    /// Removes all answers.
    pub fn clear(&self) {
        self.list.lock().clear();
    }

    /// Returns the logs of a container; without an answer, they are empty.
    pub(crate) fn logs_of(&self, pod: &Value, container: &str) -> String {
        let list = self.list.lock();
        let mut matching = list
            .iter()
            .rev()
            .filter(|answer| answer.matches(pod, container));
        let logs = matching.find_map(|answer| match &answer.reply {
            Reply::Logs(text) => Some(text.clone()),
            Reply::Command { .. } => None,
        });
        logs.unwrap_or_default()
    }

    /// Returns the result of a command, or `None` without an answer.
    pub(crate) fn output_of(
        &self,
        pod: &Value,
        container: &str,
        command: &[String],
    ) -> Option<Output> {
        let list = self.list.lock();
        let mut matching = list
            .iter()
            .rev()
            .filter(|answer| answer.matches(pod, container));
        matching.find_map(|answer| match &answer.reply {
            Reply::Command { start, output } if begins_with(command, start) => Some(output.clone()),
            _ => None,
        })
    }
}

fn begins_with(command: &[String], start: &[String]) -> bool {
    command.len() >= start.len()
        && start
            .iter()
            .zip(command)
            .all(|(wanted, word)| is_like(wanted, word))
}

/// Returns `true` if a text is equal to a pattern in which `*` stands for any characters.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        // The earliest occurrence leaves most for the other parts.
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, name: &str) -> Value {
        json!({ "metadata": { "namespace": namespace, "name": name } })
    }

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn patterns_match_any_characters() {
        for (pattern, yes, no) in [
            ("db-*", "db-0", "web-0"),
            ("*", "", "-"),
            ("*pg_dump*", "cd /; pg_dump all", "pg_restore"),
            ("a*b*c", "aXbYbZc", "acb"),
            ("ab", "ab", "abc"),
            ("a*a", "aa", "a"),
        ] {
            assert!(is_like(pattern, yes), "{pattern} {yes}");
            assert!(no == "-" || !is_like(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn last_matching_answer_applies() {
        let answers = Answers::new(
            Answer::parse(
                "- {logs: any}\n\
                 - {pod: db-*, namespace: shop, logs: ours}\n\
                 - {command: pg_isready, exitCode: 2}\n\
                 - {pod: db-0, container: main, command: [pg_isready, -q], stdout: ok}\n",
            )
            .unwrap(),
        );
        assert_eq!(answers.logs_of(&pod("shop", "db-0"), "main"), "ours");
        assert_eq!(answers.logs_of(&pod("other", "db-0"), "main"), "any");
        let run = |name: &str, container: &str, command: &str| {
            answers.output_of(&pod("shop", name), container, &words(command))
        };
        assert_eq!(
            run("db-0", "main", "pg_isready -q -h x").unwrap().stdout,
            "ok"
        );
        assert_eq!(run("db-0", "side", "pg_isready -q").unwrap().exit_code, 2);
        assert_eq!(run("db-0", "main", "pg_isready").unwrap().exit_code, 2);
        assert_eq!(run("db-0", "main", "psql"), None);
        answers.clear();
        assert_eq!(answers.logs_of(&pod("shop", "db-0"), "main"), "");
    }

    #[test]
    fn invalid_answers_are_named() {
        for (text, why) in [
            ("pod: x", "must be a list of answers"),
            (
                "- {pod: x}",
                "answer 1: must have either `logs` or `command`",
            ),
            (
                "- {logs: x}\n- {logs: x, command: z}",
                "answer 2: must have either",
            ),
            ("- {logs: x, exitCode: 1}", "belong to a `command`"),
            ("- {command: []}", "answer 1: `command` is empty"),
            ("- {command: {}}", "must be a string or a list of strings"),
            (
                "- {command: x, exitCode: 300}",
                "answer 1: invalid value: integer `300`",
            ),
            ("- {log: x}", "answer 1: unknown field `log`"),
            ("- {logs: x, logs: y}", "already set"),
            ("- [", "yaml:"),
        ] {
            let error = Answer::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
