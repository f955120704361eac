//! Operators as processes: each in a process group of its own, with its output in a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::{Child, Command};

use super::{Connection, Launch, Subject, processor};

/// The end of an output that is read for a report, in bytes.
const MOST_OUTPUT: u64 = 256 * 1024;

/// A command that is started once or several times per run.
#[derive(Debug, Clone)]
pub struct ProcessLauncher {
    command: Arc<Vec<OsString>>,
    environment: Arc<Vec<(OsString, OsString)>>,
    folder: Option<PathBuf>,
}

impl ProcessLauncher {
    /// Returns a launcher of a program with its arguments. `{port}` in arguments is replaced by a free
    /// port of this machine.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command: Arc::new(command),
            environment: Arc::default(),
            folder: None,
        }
    }

    /// Sets the folder in which the processes run, instead of the current one.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets an environment variable of the processes.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Arc::make_mut(&mut self.environment).push((name.into(), value.into()));
        self
    }
}

impl Launch for ProcessLauncher {
    fn subject(&self, folder: &Path) -> io::Result<Box<dyn Subject>> {
        Ok(Box::new(Processes {
            launcher: self.clone(),
            folder: folder.to_owned(),
            children: Mutex::default(),
        }))
    }

    fn describe(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The processes of one run. They are killed with their children when it is dropped.
#[derive(Debug)]
struct Processes {
    launcher: ProcessLauncher,
    folder: PathBuf,
    children: Mutex<BTreeMap<usize, Instance>>,
}

/// A started operator.
#[derive(Debug)]
struct Instance {
    child: Child,
    /// The process group: an exited process has no id any more, but its children may live on.
    group: Option<u32>,
}

impl Processes {
    fn children(&self) -> MutexGuard<'_, BTreeMap<usize, Instance>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output_path(&self) -> PathBuf {
        self.folder.join("output.log")
    }

    fn argument(word: &OsString, port: &mut Option<TcpListener>) -> io::Result<OsString> {
        let Some(text) = word.to_str().filter(|text| text.contains("{port}")) else {
            return Ok(word.clone());
        };
        let listener = match port.take() {
            Some(listener) => listener,
            None => TcpListener::bind(("127.0.0.1", 0))?,
        };
        let number = listener.local_addr()?.port();
        *port = Some(listener);
        Ok(text.replace("{port}", &number.to_string()).into())
    }
}

impl Subject for Processes {
    fn start(&self, instance: usize, connection: &Connection) -> io::Result<()> {
        let path = self.folder.join(format!("kubeconfig-{instance}"));
        write_private(&path, connection.kubeconfig())?;
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.output_path())?;
        let mut port = None;
        let mut words = self.launcher.command.iter();
        let program = words
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let arguments: Vec<OsString> = words
            .map(|word| Self::argument(word, &mut port))
            .collect::<io::Result<_>>()?;
        drop(port);
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", &path)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBERNETES_SERVICE_PORT")
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::from(output.try_clone()?))
            .stderr(Stdio::from(output))
            .kill_on_drop(true);
        for (name, value) in self.launcher.environment.iter() {
            command.env(name, value);
        }
        if let Some(folder) = &self.launcher.folder {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        command.process_group(0);
        let child = command.spawn()?;
        let group = child.id();
        self.children().insert(instance, Instance { child, group });
        Ok(())
    }

    fn kill(&self, instance: usize) {
        if let Some(child) = self.children().get_mut(&instance) {
            signal(child, Blow::Kill);
        }
    }

    fn terminate(&self, instance: usize) {
        if let Some(child) = self.children().get_mut(&instance) {
            signal(child, Blow::Terminate);
        }
    }

    fn freeze(&self, instance: usize) {
        if let Some(child) = self.children().get_mut(&instance) {
            signal(child, Blow::Freeze);
        }
    }

    fn thaw(&self, instance: usize) {
        if let Some(child) = self.children().get_mut(&instance) {
            signal(child, Blow::Thaw);
        }
    }

    fn waited(&self) -> Duration {
        let children = self.children();
        let groups: Vec<u32> = children.values().filter_map(|one| one.group).collect();
        drop(children);
        processor::waited(&groups)
    }

    fn exits(&self) -> Vec<(usize, String)> {
        let mut children = self.children();
        let mut ended = Vec::new();
        for (number, instance) in children.iter_mut() {
            match instance.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => ended.push((*number, describe(status))),
                Err(error) => ended.push((*number, error.to_string())),
            }
        }
        for (instance, _) in &ended {
            if let Some(mut child) = children.remove(instance) {
                // Processes that the operator has started and left.
                signal(&mut child, Blow::Kill);
            }
        }
        ended
    }

    fn output(&self) -> String {
        read_end(&self.output_path()).unwrap_or_default()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.children().values_mut() {
            signal(child, Blow::Kill);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Blow {
    Kill,
    Terminate,
    Freeze,
    Thaw,
}

/// Sends a signal to the process and its children. It fails if they have exited.
#[cfg(unix)]
fn signal(instance: &mut Instance, blow: Blow) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let number = instance.group.and_then(|id| i32::try_from(id).ok());
    if let Some(group) = number.and_then(Pid::from_raw) {
        let signal = match blow {
            Blow::Kill => Signal::KILL,
            Blow::Terminate => Signal::TERM,
            Blow::Freeze => Signal::STOP,
            Blow::Thaw => Signal::CONT,
        };
        let _ = kill_process_group(group, signal);
    }
}

/// Ends the process: other systems have neither process groups nor SIGTERM.
#[cfg(not(unix))]
fn signal(instance: &mut Instance, blow: Blow) {
    if matches!(blow, Blow::Kill | Blow::Terminate) {
        let _ = instance.child.start_kill();
    }
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

/// Writes a file with a secret.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)?.write_all(content.as_bytes())
}

fn read_end(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_OUTPUT)))?;
    let mut bytes = Vec::new();
    file.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn children_of_an_exited_operator_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let script = "(while :; do echo alive >> beats; sleep 0.05; done) & exit 3";
        let script = format!("cd {} && {{ {script}; }}", folder.path().display());
        let command = ["sh", "-c", &script].map(OsString::from).to_vec();
        let subject = ProcessLauncher::new(command)
            .subject(folder.path())
            .unwrap();
        let sandbox = kopf_sandbox::Sandbox::builder().build().unwrap();
        let connection = Connection {
            kubeconfig: String::new(),
            service: sandbox.service(),
            token: String::new(),
        };
        subject.start(0, &connection).unwrap();
        let ended = loop {
            let ended = subject.exits();
            if !ended.is_empty() {
                break ended;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(ended, [(0, "exit status: 3".to_owned())]);
        // A killed process may end a moment later; a living one writes again and again.
        let beats = || std::fs::read(folder.path().join("beats")).map_or(0, |text| text.len());
        let mut last = beats();
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = beats();
            if now == last {
                return;
            }
            last = now;
        }
        panic!("the child of the operator goes on");
    }
}
