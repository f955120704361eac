//! Logs of simulated containers, and commands in them.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, Response, header};
use kopf_sandbox_schema::kind::Kind;
use serde_json::{Value, json};

use crate::answers::{Answers, Output};
use crate::body::{Body, BodyError, ExecOutput, Unending};
use crate::cluster::{Cluster, parents};
use crate::request::path::ResourcePath;
use crate::request::upgrade::is_upgrade;
use crate::respond;
use crate::status::{ApiError, Result};
use crate::store::{Key, Subscription};

const COLLECTION: &str = "/pods";
const TEXT: &str = "text/plain";
/// The exit code of shells for an unknown command.
const NOT_FOUND: u8 = 127;

/// A subresource of pods that a kubelet serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerPart {
    Log,
    Exec,
}

impl ContainerPart {
    /// Returns the part that a path is about, if pods are simulated.
    pub fn of(cluster: &Cluster, kind: &Kind, path: &ResourcePath) -> Option<Self> {
        cluster.workloads.as_ref()?.answers()?;
        match (&*kind.group, &*kind.plural, path.subresource.as_deref()) {
            ("", "pods", Some("log")) => Some(Self::Log),
            ("", "pods", Some("exec")) => Some(Self::Exec),
            _ => None,
        }
    }

    /// Responds to a request.
    pub fn respond(
        self,
        cluster: &Arc<Cluster>,
        kind: &Arc<Kind>,
        path: &ResourcePath,
        parts: &Parts,
    ) -> Result<Response<Body>> {
        let answers = cluster.workloads.as_ref().and_then(|it| it.answers());
        let answers = answers.ok_or_else(ApiError::no_such_path)?;
        let name = path.name.as_deref().unwrap_or_default();
        let key = Key::new(path.namespace.as_deref(), name);
        let stored = cluster.store.get(COLLECTION, &key);
        let pod = stored
            .ok_or_else(|| ApiError::not_found(kind, name))?
            .value();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        match self {
            Self::Log => log(cluster, kind, &key, &pod, answers, &query),
            Self::Exec => exec(&pod, answers, &query, &parts.headers),
        }
    }
}

/// The parameters of a request.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(query: &str) -> Self {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Self(pairs.into_owned().collect())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).find(|value| !value.is_empty())
    }

    fn flag(&self, name: &str) -> bool {
        matches!(
            self.text(name),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True")
        )
    }

    fn count(&self, name: &str) -> Result<Option<usize>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let count = text.parse().map_err(|_| {
            ApiError::bad_request(format!("invalid {name} {text:?}: must be a number"))
        })?;
        Ok(Some(count))
    }
}

/// Returns the requested container of a pod, or its only one.
fn container(pod: &Value, query: &Query) -> Result<String> {
    let names = |field: &str| {
        let list = pod.pointer(field).and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter_map(|it| it["name"].as_str().map(str::to_owned))
            .collect::<Vec<String>>()
    };
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let main = names("/spec/containers");
    let Some(wanted) = query.text("container") else {
        return match main.as_slice() {
            [only] => Ok(only.clone()),
            several => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                several.join(" ")
            ))),
        };
    };
    let fields = ["/spec/initContainers", "/spec/ephemeralContainers"];
    let others = fields.into_iter().flat_map(names);
    if main.into_iter().chain(others).any(|name| name == wanted) {
        return Ok(wanted.to_owned());
    }
    Err(ApiError::bad_request(format!(
        "container {wanted} is not valid for pod {pod_name}"
    )))
}

/// Returns the status of a container.
fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let fields = ["containerStatuses", "initContainerStatuses"];
    let statuses = fields
        .into_iter()
        .filter_map(|field| pod["status"][field].as_array());
    statuses.flatten().find(|it| it["name"] == container)
}

fn log(
    cluster: &Arc<Cluster>,
    kind: &Arc<Kind>,
    key: &Key,
    pod: &Value,
    answers: &Answers,
    query: &Query,
) -> Result<Response<Body>> {
    let container = container(pod, query)?;
    let status = status(pod, &container).unwrap_or(&Value::Null);
    let waits = || {
        let reason = status["state"]["waiting"]["reason"].as_str();
        ApiError::bad_request(format!(
            "container {container:?} in pod {:?} is waiting to start: {}",
            key.name,
            reason.unwrap_or("ContainerCreating")
        ))
    };
    let ran_before = status["lastState"]["terminated"].is_object();
    if query.flag("previous") && !ran_before {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {container:?} in pod {:?} not found",
            key.name
        )));
    }
    let state = &status["state"];
    let started = ["/running/startedAt", "/terminated/startedAt"];
    let started = started
        .into_iter()
        .find_map(|field| state.pointer(field)?.as_str());
    if started.is_none() && !ran_before {
        return Err(waits());
    }
    let text = answers.logs_of(pod, &container);
    let text = selected_lines(&text, started.unwrap_or_default(), query)?;
    if !query.flag("follow") {
        return Ok(respond::typed(200, TEXT, text));
    }
    let subscription = cluster
        .store
        .subscribe(&Arc::from(COLLECTION), &parents(kind, None))
        .ok_or_else(ApiError::no_such_path)?;
    let end = ended(Arc::clone(cluster), key.clone(), container, subscription);
    let first = futures::stream::once(async move { Ok::<_, BodyError>(Bytes::from(text)) });
    // Only the text is sent; the stream stays open until the container ends.
    let rest = futures::stream::once(end).filter_map(async |()| None);
    let mut response = respond::typed(200, TEXT, Bytes::new());
    *response.body_mut() = Body::stream(first.chain(rest));
    response.extensions_mut().insert(Unending);
    Ok(response)
}

/// Applies the options of a log request to the lines of a container that started at a time.
fn selected_lines(text: &str, started: &str, query: &Query) -> Result<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let tail = query.count("tailLines")?.unwrap_or(lines.len());
    let skipped = lines.len().saturating_sub(tail);
    let mut selected = String::new();
    for line in lines.iter().skip(skipped) {
        if query.flag("timestamps") {
            selected.push_str(started);
            selected.push(' ');
        }
        selected.push_str(line);
    }
    if let Some(limit) = query.count("limitBytes")? {
        let mut end = limit.min(selected.len());
        while !selected.is_char_boundary(end) {
            end -= 1;
        }
        selected.truncate(end);
    }
    Ok(selected)
}

/// Waits until a container does not run any more, or the server ends.
async fn ended(cluster: Arc<Cluster>, key: Key, container: String, mut pods: Subscription) {
    loop {
        let pod = cluster.store.get(COLLECTION, &key).map(|pod| pod.value());
        let runs = pod.as_ref().and_then(|pod| status(pod, &container));
        if !runs.is_some_and(|status| status["state"]["running"].is_object()) {
            return;
        }
        tokio::select! {
            () = cluster.stopping.cancelled() => return,
            changed = pods.news.changed() => if changed.is_err() { return },
        }
    }
}

fn exec(
    pod: &Value,
    answers: &Answers,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response<Body>> {
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    if command.is_empty() {
        let why = "you must specify at least 1 command for the container";
        return Err(ApiError::bad_request(why));
    }
    let container = container(pod, query)?;
    let status = status(pod, &container);
    if !status.is_some_and(|status| status["state"]["running"].is_object()) {
        return Err(ApiError::internal(format!(
            "unable to upgrade connection: container not found ({container:?})"
        )));
    }
    if !is_upgrade(headers) {
        let is_spdy = headers.get(header::UPGRADE).is_some();
        return Err(ApiError::bad_request(if is_spdy {
            "exec requires a WebSocket: SPDY is not available on a sandbox"
        } else {
            "Upgrade request required"
        }));
    }
    let output = answers.output_of(pod, &container, &command);
    let output = output.unwrap_or_else(|| unknown(pod, &container, &command));
    let wanted = |name: &str, text: String| {
        let text = if query.flag(name) {
            text
        } else {
            String::new()
        };
        Bytes::from(text)
    };
    let mut response = respond::empty(200);
    response.extensions_mut().insert(ExecOutput {
        status: Bytes::from(exit_status(output.exit_code).to_string()),
        stdout: wanted("stdout", output.stdout),
        stderr: wanted("stderr", output.stderr),
    });
    Ok(response)
}

/// Returns the result of a command without an answer, which says how to add one.
fn unknown(pod: &Value, container: &str, command: &[String]) -> Output {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    Output {
        stderr: format!(
            "no answer for the command {command:?} in the container {container:?} of the pod \
             {namespace}/{name}: containers are simulated, add one with `--answers`\n"
        ),
        exit_code: NOT_FOUND,
        ..Output::default()
    }
}

fn exit_status(code: u8) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}
