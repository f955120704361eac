//! The log of an operator.

use kopf::serde_json::{Value, from_str};
use tempfile::TempDir;

use crate::OPERATOR;
use crate::process::{Running, operator, output, text};
use crate::working::{SANDBOX, folder};

/// Runs the operator of this module until it has handled its object. Returns the log.
fn log_of(folder: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let arguments = [&SANDBOX[..], arguments].concat();
    let mut command = operator(folder, &arguments);
    command
        .env(OPERATOR, "logs")
        .envs(variables.iter().copied());
    let mut running = Running::start(&mut command);
    running.until("failed temporarily");
    running.until("Traced in a blocking function.");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    log
}

pub(crate) fn readiness_is_logged_with_the_watched_resources() {
    let folder = folder("default", "{}");
    let log = log_of(&folder, &["--log-format", "plain"], &[]);
    let ready = "The operator is ready. resources=kopfexamples.v1.kopf.dev namespaces=all\n";
    assert!(log.contains(ready), "{log}");
    let log = log_of(&folder, &["--log-format", "plain", "-n", "default"], &[]);
    assert!(log.contains(" namespaces=default\n"), "{log}");
}

pub(crate) fn records_of_handlers_contain_the_object() {
    let folder = folder("default", "{}");
    let log = log_of(&folder, &[], &[]);
    for line in [
        "[INFO    ] [default/example] Traced in an async function.\n",
        "[INFO    ] [default/example] Traced in a blocking function.\n",
        // A temporary error is a warning, and its text cannot forge a record.
        "kopf::objects        [WARNING ] [default/example] Handler 'later' failed temporarily: \
         not yet\\n[default/example] Forged.\n",
    ] {
        assert!(log.contains(line), "{line:?} is not in {log}");
    }
    let log = log_of(&folder, &["--log-format", "json"], &[]);
    let records = log.lines().map(|line| from_str::<Value>(line).unwrap());
    let traced = |record: &Value| {
        let message = record["message"].as_str().unwrap_or_default();
        message.starts_with("Traced in ")
    };
    let traced: Vec<_> = records.filter(traced).collect();
    assert!(traced.len() >= 2, "{log}");
    for record in traced {
        assert_eq!(record["object"]["name"], "example", "{record}");
        assert_eq!(record["object"]["kind"], "KopfExample", "{record}");
    }
}

pub(crate) fn rust_log_sets_levels_of_loggers() {
    let folder = folder("default", "{}");
    let debugged = "[default/example] Debugged. number=5";
    let log = log_of(&folder, &[], &[]);
    assert!(!log.contains(debugged), "{log}");
    let log = log_of(&folder, &[], &[("RUST_LOG", "cli=debug")]);
    assert!(log.contains(debugged), "{log}");
    assert!(!log.contains("Handler 'later' is invoked."), "{log}");
    let log = log_of(&folder, &[], &[("RUST_LOG", "kopf::objects=debug")]);
    assert!(log.contains("Handler 'later' is invoked."), "{log}");
    assert!(
        log.contains("Creation is in progress: {\"apiVersion\":"),
        "{log}"
    );
    let mut wrong = operator(&folder, &["run", "--sandbox"]);
    let result = output(wrong.env("RUST_LOG", "cli=loud"));
    assert_eq!(result.status.code(), Some(2));
    let stderr = text(&result.stderr);
    assert!(
        stderr.contains("RUST_LOG") && stderr.contains("cli=loud"),
        "{stderr}"
    );
}

pub(crate) fn invalid_settings_are_reported_at_the_start() {
    let folder = folder("default", "{}");
    let mut command = operator(&folder, &["run", "--sandbox", "--log-format", "plain"]);
    let result = output(command.env(OPERATOR, "wrong"));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{stderr}");
    for setting in ["settings.peering.name", "settings.networking.concurrency"] {
        assert!(stderr.contains(setting), "{stderr}");
    }
}
