//! An example as a process.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kopf_tests::{PATIENCE, eventually};
use tokio::time::Instant;

/// Returns the path of the executable of an example.
pub(crate) fn executable(name: &str) -> &'static Path {
    let path = match name {
        "01-minimal" => env!("CARGO_BIN_EXE_01-minimal"),
        "02-children" => env!("CARGO_BIN_EXE_02-children"),
        "03-exceptions" => env!("CARGO_BIN_EXE_03-exceptions"),
        "04-events" => env!("CARGO_BIN_EXE_04-events"),
        "05-handlers" => env!("CARGO_BIN_EXE_05-handlers"),
        "06-peering" => env!("CARGO_BIN_EXE_06-peering"),
        "07-subhandlers" => env!("CARGO_BIN_EXE_07-subhandlers"),
        "08-raw-events" => env!("CARGO_BIN_EXE_08-raw-events"),
        "09-testing" => env!("CARGO_BIN_EXE_09-testing"),
        "10-builtins" => env!("CARGO_BIN_EXE_10-builtins"),
        "11-filtering" => env!("CARGO_BIN_EXE_11-filtering"),
        "12-embedded" => env!("CARGO_BIN_EXE_12-embedded"),
        "13-hooks" => env!("CARGO_BIN_EXE_13-hooks"),
        "14-daemons" => env!("CARGO_BIN_EXE_14-daemons"),
        "15-timers" => env!("CARGO_BIN_EXE_15-timers"),
        "16-indexing" => env!("CARGO_BIN_EXE_16-indexing"),
        "17-admission" => env!("CARGO_BIN_EXE_17-admission"),
        "19-reconcile" => env!("CARGO_BIN_EXE_19-reconcile"),
        "99-all-at-once" => env!("CARGO_BIN_EXE_99-all-at-once"),
        "ephemeral-volume-claims" => env!("CARGO_BIN_EXE_ephemeral-volume-claims"),
        "load-testing" => env!("CARGO_BIN_EXE_load-testing"),
        "own-program" => env!("CARGO_BIN_EXE_own-program"),
        "simple-deployment" => env!("CARGO_BIN_EXE_simple-deployment"),
        "tenant-nats" => env!("CARGO_BIN_EXE_tenant-nats"),
        "tenant-onboarding" => env!("CARGO_BIN_EXE_tenant-onboarding"),
        other => panic!("there is no example {other:?}"),
    };
    Path::new(path)
}

/// Returns the root of the repository, the working directory of documented commands.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A running example, killed when dropped.
pub(crate) struct Program {
    child: Child,
    log: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Program {
    /// Starts an example with only `variables` in its environment.
    pub(crate) fn start(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let temporary = std::env::temp_dir();
        let mut child = Command::new(executable(name))
            .args(arguments)
            .current_dir(root())
            .env_clear()
            .env("TMPDIR", temporary)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::default();
        let readers = vec![
            collect(child.stdout.take().unwrap(), Arc::clone(&log)),
            collect(child.stderr.take().unwrap(), Arc::clone(&log)),
        ];
        Self {
            child,
            log,
            readers,
        }
    }

    /// Returns the output so far.
    pub(crate) fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }

    /// Waits for a message in the output.
    pub(crate) async fn await_log(&mut self, message: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(message) {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.read_to_end();
                let log = self.log();
                assert!(
                    log.contains(message),
                    "{message:?} is not logged before the exit ({status}):\n{log}"
                );
            }
            assert!(
                Instant::now() < deadline,
                "{message:?} is not logged:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends SIGINT, and requires a successful exit. Returns the output.
    pub(crate) async fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.unwrap().success());
        let status = eventually("the program to end", async || {
            self.child.try_wait().unwrap()
        })
        .await;
        self.read_to_end();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        self.log()
    }

    /// Waits for a successful exit. Returns the output.
    pub(crate) async fn end(mut self) -> String {
        let status = eventually("the program to end", async || {
            self.child.try_wait().unwrap()
        })
        .await;
        self.read_to_end();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        self.log()
    }

    /// Waits for the rest of the output of an exited process.
    fn read_to_end(&mut self) {
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects the output of a process in a thread, so that its writes never block.
fn collect(stream: impl Read + Send + 'static, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push_str(&line);
            log.push('\n');
        }
    })
}
