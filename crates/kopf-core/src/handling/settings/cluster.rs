//! Settings of the operator as a whole: its process, its peers, what it observes and admits.

use std::sync::Arc;
use std::time::Duration;

use crate::admission::WebhookServer;

/// The process of the operator.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Process {
    /// Kills the process if it has not exited after this time since it was told to. Default: 10
    /// minutes; none is never, and then a hanging handler keeps the process.
    pub ultimate_exiting_timeout: Option<Duration>,
    /// Collects metrics, which are served at the address of `--metrics` or `--liveness`. Default: true.
    pub metrics: bool,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            ultimate_exiting_timeout: Some(Duration::from_secs(600)),
            metrics: true,
        }
    }
}

/// Operators that serve the same objects, and agree on who does.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent settings of the original"
)]
pub struct Peering {
    /// The object through which they agree. Default: `default`.
    pub name: String,
    /// Does not log the regular signs of life. Default: false.
    pub stealth: bool,
    /// Those with a lower priority pause while this one lives; equal ones pause all. Default: 0.
    pub priority: i64,
    /// The time for which this operator counts as alive after its last keep-alive. Default: 60
    /// seconds; longer means fewer requests, and a longer pause after a crash.
    pub lifetime: Duration,
    /// Pauses while there is no such object to agree through. Default: false.
    pub mandatory: bool,
    /// Ignores peers. Default: false.
    pub standalone: bool,
    /// Agrees for the whole cluster, not per namespace. Set from the scope of the operator.
    pub clusterwide: bool,
    /// Operators with the same priority divide the objects among each other, so they do not pause each other.
    /// Default: no. Set by shard selectors in `watching.selectors`.
    pub sharing: bool,
}

impl Default for Peering {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            stealth: false,
            priority: 0,
            lifetime: Duration::from_secs(60),
            mandatory: false,
            standalone: false,
            clusterwide: false,
            sharing: false,
        }
    }
}

/// Observation of the cluster itself.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Scanning {
    /// Looks only once for kinds of objects, and takes namespaces as they are written. Default:
    /// false. For operators that may not list namespaces and custom resource definitions.
    pub disabled: bool,
    /// Creates or updates the CRDs that the frontend knows before resources are discovered, and waits until
    /// they are established. The operator fails if the cluster has a wider CRD. Default: false.
    pub install_crds: bool,
    /// Reviews the permissions of the operator at its start, and logs the missing ones. Default: false; the
    /// command line enables it.
    pub review_permissions: bool,
}

/// Admission webhooks.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Admission {
    /// The name of the configuration objects that the operator keeps up to date. Default: none,
    /// and then it touches no such objects.
    pub managed: Option<String>,
    /// The server that is asked by the API server. Default: none, which is an error if there are
    /// handlers for admission.
    pub server: Option<Arc<dyn WebhookServer>>,
    /// Webhook servers without an address listen on the loopback interface only, and are announced by
    /// it: the API server is on this machine. Default: false; `--sandbox` enables it.
    pub loopback: bool,
}
