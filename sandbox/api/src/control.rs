//! The control endpoint: faults of a running sandbox for clients in any language.
//!
//! | request | effect |
//! |---|---|
//! | `GET /kopf-sandbox/faults` | returns the seed, the rules with their counters, and the counters of all faults |
//! | `POST /kopf-sandbox/faults` | adds the rules in the body (JSON or YAML); returns their numbers |
//! | `DELETE /kopf-sandbox/faults[/NUMBER]` | removes all rules, or one |
//! | `POST /kopf-sandbox/actions/ACTION` | performs an action immediately; see [`act`] |

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{Method, Response};
use serde_json::json;

use crate::body::Body;
use crate::cluster::Cluster;
use crate::fault::{FaultId, rules};
use crate::request::decode;
use crate::respond;
use crate::status::{ApiError, Result};

/// Performs an action on all connections but one, and resets that one after the response.
type ResetLast = dyn Fn(&dyn Fn()) + Send + Sync;

/// The connection of a request; an extension of the request.
#[derive(Clone)]
pub struct OwnConnection(Arc<ResetLast>);

impl fmt::Debug for OwnConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnConnection").finish_non_exhaustive()
    }
}

impl OwnConnection {
    /// `reset_last` performs an action on all other connections, and resets this one after the
    /// response: the client would otherwise get none.
    pub fn new(reset_last: impl Fn(&dyn Fn()) + Send + Sync + 'static) -> Self {
        Self(Arc::new(reset_last))
    }
}

/// The prefix of all paths of this module.
pub(crate) const PREFIX: &str = "/kopf-sandbox/";

/// Handles a request to a path that begins with [`PREFIX`].
pub fn respond(cluster: &Cluster, parts: &Parts, body: &[u8]) -> Result<Response<Body>> {
    let faults = &cluster.faults;
    let path = parts.uri.path();
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    match (&parts.method, segments.as_slice()) {
        (&Method::GET, ["faults"]) => Ok(respond::json(200, faults.describe().to_string())),
        (&Method::POST, ["faults"]) => {
            let decoded = decode::yaml(body).map_err(ApiError::bad_request)?;
            let rules =
                rules(&decoded.value).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let ids: Vec<u64> = rules
                .into_iter()
                .map(|rule| faults.inject(rule).number())
                .collect();
            Ok(respond::json(201, json!({ "ids": ids }).to_string()))
        }
        (&Method::DELETE, ["faults"]) => {
            faults.clear();
            Ok(done())
        }
        (&Method::DELETE, ["faults", number]) => {
            let id = number.parse().ok().map(FaultId::of_number);
            match id {
                Some(id) if faults.remove(id) => Ok(done()),
                _ => Err(ApiError::no_such_path()),
            }
        }
        (&Method::POST, ["actions", action]) => act(cluster, action, parts.extensions.get()),
        (_, ["faults"] | ["faults" | "actions", _]) => Err(ApiError::method_not_allowed()),
        _ => Err(ApiError::no_such_path()),
    }
}

/// Performs an action on all connections and watches.
fn act(cluster: &Cluster, action: &str, own: Option<&OwnConnection>) -> Result<Response<Body>> {
    let faults = &cluster.faults;
    match action {
        "kill-watches" => faults.kill_watches(),
        "expire-watches" => faults.expire_watches(),
        "compact" => faults.compact(),
        "reset-connections" => match own {
            Some(own) => (own.0)(&|| faults.reset_connections()),
            None => faults.reset_connections(),
        },
        _ => return Err(ApiError::no_such_path()),
    }
    Ok(done())
}

fn done() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 200,
    });
    respond::json(200, status.to_string())
}
