//! What all streams and workers of one operator share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::daemons::Daemons;
use crate::execution::Executor;
use crate::families::Families;
use crate::indexing::Barrier;
use crate::inspect::Inspect;
use crate::invocation::{OperatorContext, Registry};
use crate::known_peers::KnownPeers;
use crate::leading::Assignments;
use crate::pausing::Pause;
use crate::permits::Permits;
use crate::posting::Poster;
use crate::review_memos::Memos;

/// Made once per run of an operator.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What handlers and filters get.
    pub(crate) context: Arc<OperatorContext>,
    /// All handlers.
    pub(crate) registry: Arc<Registry>,
    /// Calls handlers.
    pub(crate) executor: Arc<Executor>,
    /// Where k8s-events go.
    pub(crate) poster: Poster,
    /// Permits for planning and writing.
    pub(crate) permits: Permits,
    /// All daemons and timers.
    pub(crate) daemons: Arc<Daemons>,
    /// Whether nothing new is to be started now.
    pub(crate) pause: Pause,
    /// The objects that this replica handles.
    pub(crate) assignments: Assignments,
    /// Identities of the operator's peers.
    pub(crate) known_peers: KnownPeers,
    /// What everything but indexing waits for.
    pub(crate) barrier: Barrier,
    /// The way of changed children to their owners.
    pub(crate) families: Families,
    /// Memos of objects that are asked about before they are stored.
    pub(crate) memos: Memos,
    /// Whether the operator ends: then nothing has to be forgotten.
    pub(crate) ending: CancellationToken,
    /// What the operator is busy with.
    pub(crate) inspect: Inspect,
}
