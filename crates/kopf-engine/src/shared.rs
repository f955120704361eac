//! What all streams and workers of one operator share.

use std::sync::Arc;

use kopf_core::lifecycle::Lifecycle;
use tokio_util::sync::CancellationToken;

use crate::admission::Memos;
use crate::background::Fleet;
use crate::execution::BlockingPool;
use crate::indexing::Barrier;
use crate::inspect::Inspect;
use crate::invocation::{OperatorContext, Registry};
use crate::pausing::Pause;
use crate::peering::KnownPeers;
use crate::permits::Permits;
use crate::posting::Poster;

/// Made once per run of an operator.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What handlers and filters get.
    pub(crate) context: Arc<OperatorContext>,
    /// All handlers.
    pub(crate) registry: Arc<Registry>,
    /// Which of the due handlers run in a cycle.
    pub(crate) lifecycle: Arc<dyn Lifecycle>,
    /// Where k8s-events go.
    pub(crate) poster: Poster,
    /// Permits for planning and writing.
    pub(crate) permits: Permits,
    /// Where blocking handlers run.
    pub(crate) pool: BlockingPool,
    /// Where blocking daemons run.
    pub(crate) daemon_pool: BlockingPool,
    /// All daemons and timers.
    pub(crate) fleet: Fleet,
    /// Whether nothing new is to be started now.
    pub(crate) pause: Pause,
    /// Identities of the operator's peers.
    pub(crate) known_peers: KnownPeers,
    /// What everything but indexing waits for.
    pub(crate) barrier: Barrier,
    /// Memos of objects that are asked about before they are stored.
    pub(crate) memos: Memos,
    /// Whether the operator ends: then nothing has to be forgotten.
    pub(crate) ending: CancellationToken,
    /// What the operator is busy with.
    pub(crate) inspect: Inspect,
}
