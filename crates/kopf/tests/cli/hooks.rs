//! Activities: startup, probes, cleanup.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::OPERATOR;
use crate::process::{Running, operator, output, text};

/// Returns the command of an operator with handlers of this group.
fn with(folder: &TempDir, group: &str, arguments: &[&str]) -> Command {
    let own = ["run", "--sandbox", "--log-format", "plain"];
    let arguments: Vec<_> = own.iter().chain(arguments).copied().collect();
    let mut command = operator(folder, &arguments);
    command.env(OPERATOR, group);
    command
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends these bytes. Returns the response; `None` without a connection.
fn ask(port: u16, bytes: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(bytes).ok()?;
    let mut answer = Vec::new();
    // The server can respond to garbage by a reset.
    let _ = stream.read_to_end(&mut answer);
    Some(String::from_utf8_lossy(&answer).into_owned())
}

const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

pub(crate) fn probes_are_served_between_startup_and_cleanup() {
    let folder = TempDir::new().unwrap();
    let port = free_port();
    let address = format!("http://127.0.0.1:{port}/healthz");
    let mut running = Running::start(&mut with(&folder, "hooks", &["-L", &address]));
    running.until("Starting.");
    let answer = (0..6000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        ask(port, GET)
    });
    let answer = answer.expect("the operator responds after the startup");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"answer\":42}"), "{answer}");

    // Idle connections and garbage do not block other clients.
    let silent: Vec<_> = (0..100)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok())
        .collect();
    for garbage in [
        &b"\x00\xff\x00"[..],
        b"GET",
        &vec![b'x'; 100_000],
        b"\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(garbage);
    }
    let other = ask(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    let answer = ask(port, GET).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    drop(silent);

    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("Exiting."), "{log}");
    assert!(ask(port, GET).is_none());
}

pub(crate) fn failed_startup_exits_with_1_without_cleanup() {
    let folder = TempDir::new().unwrap();
    let result = output(&mut with(&folder, "failing", &[]));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("Cannot start."), "{stderr}");
    assert!(!stderr.contains("Exiting."), "{stderr}");
}

pub(crate) fn hanging_cleanup_is_aborted() {
    let folder = TempDir::new().unwrap();
    let mut running = Running::start(with(&folder, "hooks", &[]).env("HANG", "1"));
    running.until("Starting.");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("Exiting."), "{log}");
    assert!(
        log.contains("The operator has not stopped in time."),
        "the limit is that of the startup handler: {log}"
    );
}
