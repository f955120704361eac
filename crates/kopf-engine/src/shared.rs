//! State that all streams and workers of one operator share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::child_inboxes::ChildInboxes;
use crate::daemons::Daemons;
use crate::execution::Executor;
use crate::indexing::Barrier;
use crate::inspect::Inspect;
use crate::invocation::{OperatorContext, Registry};
use crate::known_peers::KnownPeers;
use crate::leading::{Assignments, Members};
use crate::pausing::Pause;
use crate::permits::Permits;
use crate::posting::Poster;
use crate::review_memos::Memos;

/// The shared state, created once per run of an operator.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The context of handlers and filters.
    pub(crate) context: Arc<OperatorContext>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) executor: Arc<Executor>,
    /// Queue of Kubernetes events to post.
    pub(crate) poster: Poster,
    /// Permits for planning and writing.
    pub(crate) permits: Permits,
    pub(crate) daemons: Arc<Daemons>,
    /// While set, no cycles, daemons or timers are started.
    pub(crate) pause: Pause,
    /// The objects that this replica handles.
    pub(crate) assignments: Assignments,
    /// Identities of the operator's peers.
    pub(crate) known_peers: KnownPeers,
    /// The other replicas of this operator.
    pub(crate) members: Members,
    /// Completes when all indices are filled; handlers wait for it.
    pub(crate) barrier: Barrier,
    /// Routes changed children to their owners.
    pub(crate) child_inboxes: Arc<ChildInboxes>,
    /// Memos of objects that are reviewed before they are stored.
    pub(crate) memos: Memos,
    /// Cancelled when the operator stops. Deleted objects need no cleanup then.
    pub(crate) ending: CancellationToken,
    /// Counters and liveness.
    pub(crate) inspect: Inspect,
}
