//! Credential plugins: commands of kubeconfigs (`exec`) that print a token or a certificate.
//!
//! kube has the same feature, but without a time limit, and does not kill the command when its future
//! is dropped.

use std::io::IsTerminal as _;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use kopf_core::sync::Mutex;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;
use tower::{BoxError, Layer, Service, ServiceExt as _};
use tracing::warn;

use super::error::Error;
use super::info::authorization;
use crate::clock::system_time;
use crate::error::cut;

/// Time limit for a plugin.
const LIMIT: Duration = Duration::from_secs(60);

/// Time limit for a plugin with a terminal: it can prompt a person.
const INTERACTIVE_LIMIT: Duration = Duration::from_secs(300);

/// The time after which waiting for a plugin is logged.
const LOGGED_AFTER: Duration = Duration::from_secs(5);

/// The time before its expiration at which a token is replaced.
const RESERVE: SignedDuration = SignedDuration::from_secs(60);

/// A command that prints credentials.
#[derive(Clone)]
pub(super) struct Plugin(Arc<ExecConfig>);

/// The credentials from one run.
pub(super) struct Issued {
    token: Option<HeaderValue>,
    /// A certificate and its key, as PEM.
    pub(super) identity: Option<(String, String)>,
    until: Option<Timestamp>,
}

/// The output: YAML, of which JSON is a subset.
#[derive(Deserialize)]
struct Output {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    expiration_timestamp: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Plugin {
    /// Takes over the command of a user, unless other credentials have precedence.
    pub(super) fn take(user: &mut AuthInfo) -> Option<Self> {
        let has_password = user.username.is_some() && user.password.is_some();
        let has_token = user.token.is_some() || user.token_file.is_some();
        if has_password || has_token || user.auth_provider.is_some() {
            return None;
        }
        user.exec.take().map(|exec| Self(Arc::new(exec)))
    }

    /// Runs the command.
    ///
    /// # Cancellation
    ///
    /// When dropped, the command is killed.
    pub(super) async fn issue(&self) -> Result<Issued, Error> {
        let failed = |problem: String| Error::Authentication {
            problem: format!("the credential plugin {:?} {problem}", self.name()),
        };
        let is_attended = std::io::stdin().is_terminal();
        let mut command = self.command(is_attended).map_err(failed)?;
        let limit = if is_attended {
            INTERACTIVE_LIMIT
        } else {
            LIMIT
        };
        let mut running = std::pin::pin!(command.output());
        let output = if let Ok(output) = timeout(LOGGED_AFTER, &mut running).await {
            output
        } else {
            warn!(
                "Waiting for the credential plugin {:?}, for {} seconds at most.",
                self.name(),
                limit.as_secs()
            );
            let left = limit.saturating_sub(LOGGED_AFTER);
            let waited = timeout(left, &mut running).await;
            waited.map_err(|_| failed(format!("did not exit within {} s", limit.as_secs())))?
        };
        let output = output.map_err(|error| failed(self.hinted(&error)))?;
        if !output.status.success() {
            // Only stderr is quoted: stdout can contain secrets.
            let said = String::from_utf8_lossy(&output.stderr);
            let said = match cut(said.trim()) {
                said if said.is_empty() => said,
                said => format!(": {said}"),
            };
            return Err(failed(format!("failed with {}{said}", output.status)));
        }
        read(&output.stdout).map_err(|problem| failed(problem.to_owned()))
    }

    fn name(&self) -> &str {
        self.0.command.as_deref().unwrap_or_default()
    }

    fn hinted(&self, error: &std::io::Error) -> String {
        match &self.0.install_hint {
            Some(hint) if error.kind() == std::io::ErrorKind::NotFound => {
                format!("cannot be run: {error}: {}", hint.trim())
            }
            _ => format!("cannot be run: {error}"),
        }
    }

    fn command(&self, is_attended: bool) -> Result<Command, String> {
        let exec = &*self.0;
        let Some(name) = exec.command.as_ref().filter(|name| !name.is_empty()) else {
            return Err("has no command".to_owned());
        };
        let is_interactive = match exec.interactive_mode {
            Some(ExecInteractiveMode::Never) => false,
            Some(ExecInteractiveMode::Always) if !is_attended => {
                return Err("requires a terminal".to_owned());
            }
            _ => is_attended,
        };
        let mut spec = json!({"interactive": is_interactive});
        if exec.provide_cluster_info {
            let written = serde_json::to_value(&exec.cluster);
            spec["cluster"] = written.map_err(|_| "has no cluster info to pass".to_owned())?;
        }
        let info = json!({
            "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec,
        });
        let mut command = Command::new(name);
        command.args(exec.args.iter().flatten());
        let variables = exec.env.iter().flatten();
        command.envs(variables.filter_map(|pair| Some((pair.get("name")?, pair.get("value")?))));
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        for variable in exec.drop_env.iter().flatten() {
            command.env_remove(variable);
        }
        command.kill_on_drop(true).stdout(Stdio::piped());
        if is_interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
        }
        Ok(command)
    }
}

/// Parses the output. Errors do not quote it.
fn read(output: &[u8]) -> Result<Issued, &'static str> {
    const UNEXPECTED: &str = "printed unexpected output";
    let output: Output = serde_saphyr::from_slice(output).map_err(|_| UNEXPECTED)?;
    let status = output.status.ok_or(UNEXPECTED)?;
    let until = match status.expiration_timestamp {
        None => None,
        Some(text) => {
            let until = text.parse();
            Some(until.map_err(|_| "printed an invalid expiration time")?)
        }
    };
    let token = match status.token.as_deref().map(str::trim) {
        None | Some("") => None,
        Some(token) => {
            let header = authorization(&format!("Bearer {token}"));
            Some(
                header
                    .map_err(
                        |_| "printed a token with characters that are not allowed in HTTP headers",
                    )?
                    .1,
            )
        }
    };
    Ok(Issued {
        token,
        identity: status.client_certificate_data.zip(status.client_key_data),
        until,
    })
}

/// A running renewal of a token, shared by concurrent requests.
type Renewing =
    Shared<BoxFuture<'static, Result<(Option<HeaderValue>, Option<Timestamp>), String>>>;

/// A layer that adds the token of a plugin to requests, and runs the plugin again before it expires.
#[derive(Clone)]
pub(super) struct PluginToken {
    plugin: Plugin,
    cached: Arc<Mutex<Cached>>,
}

struct Cached {
    header: HeaderValue,
    until: Option<Timestamp>,
    /// Polled by waiting requests only, and dropped with the connections.
    renewing: Option<Renewing>,
}

impl PluginToken {
    /// Returns `None` if the plugin printed no token.
    pub(super) fn new(plugin: Plugin, issued: Issued) -> Option<Self> {
        let cached = Cached {
            header: issued.token?,
            until: issued.until,
            renewing: None,
        };
        Some(Self {
            plugin,
            cached: Arc::new(Mutex::new(cached)),
        })
    }

    async fn header(&self) -> Result<HeaderValue, Error> {
        let renewing = {
            let mut cached = self.cached.lock();
            match cached.until {
                Some(until) if until.duration_since(system_time()) <= RESERVE => {}
                _ => return Ok(cached.header.clone()),
            }
            let plugin = &self.plugin;
            cached
                .renewing
                .get_or_insert_with(|| renew(plugin.clone()))
                .clone()
        };
        let renewed = renewing.await;
        let mut cached = self.cached.lock();
        cached
            .renewing
            .take_if(|renewing| renewing.peek().is_some());
        match renewed {
            Ok((Some(header), until)) => {
                cached.header.clone_from(&header);
                cached.until = until;
                Ok(header)
            }
            Ok((None, _)) => Err(Error::Authentication {
                problem: format!(
                    "the credential plugin {:?} printed no token",
                    self.plugin.name()
                ),
            }),
            Err(problem) => Err(Error::Authentication { problem }),
        }
    }
}

fn renew(plugin: Plugin) -> Renewing {
    let renewed = async move {
        match plugin.issue().await {
            Ok(issued) => Ok((issued.token, issued.until)),
            Err(Error::Authentication { problem }) => Err(problem),
            Err(error) => Err(error.to_string()),
        }
    };
    renewed.boxed().shared()
}

impl<S> Layer<S> for PluginToken {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        WithToken {
            token: self.clone(),
            inner,
        }
    }
}

#[derive(Clone)]
pub(super) struct WithToken<S> {
    token: PluginToken,
    inner: S,
}

impl<S, B> Service<Request<B>> for WithToken<S>
where
    S: Service<Request<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (token, inner) = (self.token.clone(), self.inner.clone());
        Box::pin(async move {
            request
                .headers_mut()
                .insert(AUTHORIZATION, token.header().await?);
            inner.oneshot(request).await
        })
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn plugin(script: &str) -> Plugin {
        Plugin(Arc::new(ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            env: None,
            drop_env: None,
            install_hint: None,
            interactive_mode: Some(ExecInteractiveMode::Never),
            provide_cluster_info: false,
            cluster: None,
            other: std::collections::BTreeMap::default(),
        }))
    }

    async fn problem(script: &str) -> String {
        let error = plugin(script).issue().await.err();
        error.unwrap().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_plugins_are_killed() {
        let folder = tempfile::TempDir::new().unwrap();
        let mark = folder.path().join("pid");
        let start = Instant::now();
        let script = format!("echo $$ > {}; exec sleep 3600", mark.display());
        let error = problem(&script).await;
        assert_eq!(
            error,
            "authentication failed: the credential plugin \"sh\" did not exit within 60 s"
        );
        assert_eq!(start.elapsed(), LIMIT);
    }

    #[tokio::test]
    async fn dropped_plugins_are_killed() {
        let folder = tempfile::TempDir::new().unwrap();
        let mark = folder.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 3600", mark.display());
        let plugin = plugin(&script);
        let mut running = Box::pin(plugin.issue());
        let pid = loop {
            assert!(
                timeout(Duration::from_millis(10), &mut running)
                    .await
                    .is_err()
            );
            match std::fs::read_to_string(&mark) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => {}
            }
        };
        drop(running);
        // The process is killed; otherwise the test hangs.
        let is_there = || {
            let answer = std::process::Command::new("kill")
                .args(["-0", &pid])
                .output();
            answer.unwrap().status.success()
        };
        while is_there() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn output_is_parsed_or_reported() {
        let written = json!({"status": {"token": "t\n", "expirationTimestamp":
            "2030-01-01T00:00:00Z", "clientCertificateData": "c", "clientKeyData": "k"}});
        let issued = plugin(&format!("printf %s '{written}'"))
            .issue()
            .await
            .ok()
            .unwrap();
        assert_eq!(issued.token.unwrap(), "Bearer t");
        assert_eq!(issued.identity, Some(("c".to_owned(), "k".to_owned())));
        assert_eq!(issued.until, "2030-01-01T00:00:00Z".parse().ok());
        let info = r#"echo "status: {token: $(echo "$KUBERNETES_EXEC_INFO" | tr -dc a-zA-Z)}""#;
        let issued = plugin(info).issue().await.ok().unwrap();
        let told = issued.token.unwrap();
        assert!(
            told.to_str().unwrap().contains("kindExecCredential"),
            "{told:?}"
        );

        for (script, expected) in [
            ("echo {", "printed unexpected output"),
            ("echo '{}'", "printed unexpected output"),
            (
                "printf %s 'status: {token: \"a\\nb\"}'",
                "printed a token with characters that are not allowed in HTTP headers",
            ),
            (
                "echo hunter2; echo why >&2; exit 3",
                "failed with exit status: 3: why",
            ),
        ] {
            let error = problem(script).await;
            let expected = format!("the credential plugin \"sh\" {expected}");
            assert!(error.ends_with(&expected), "{error}");
        }
        let mut absent = ExecConfig::clone(&plugin("").0);
        absent.command = Some("/nowhere/plugin".to_owned());
        absent.install_hint = Some("get it there".to_owned());
        let error = Plugin(Arc::new(absent))
            .issue()
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("\"/nowhere/plugin\" cannot be run"),
            "{error}"
        );
        assert!(error.ends_with(": get it there"), "{error}");
    }
}
