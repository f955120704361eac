//! Servers that lag behind: a client is shown the past while others see the present.
//!
//! A cluster with several API servers has several watch caches, and each of them follows etcd at its own
//! pace. An operator that is restarted, or whose connection moves to another server, can be shown an
//! older state than it has already seen: objects that it deleted exist again, its own writes are
//! missing. Most operators are never tested for that. Here it is one line:
//!
//! ```
//! use kopf_sandbox::Sandbox;
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::builder().build()?;
//! let view = sandbox.views().of_endpoint("operator");
//! view.freeze();
//!
//! let namespace = r#"{"metadata": {"name": "shop"}}"#.to_owned();
//! let create = http::Request::post("/api/v1/namespaces").body(namespace)?;
//! assert_eq!(sandbox.service().oneshot(create).await?.status(), 201);
//!
//! let status = async |path: &str| {
//!     let request = http::Request::get(path).body(String::new())?;
//!     let operator = sandbox.service().endpoint("operator");
//!     Ok::<_, Box<dyn std::error::Error>>(operator.oneshot(request).await?.status())
//! };
//! assert_eq!(status("/api/v1/namespaces/shop?resourceVersion=0").await?, 404); // from the cache
//! assert_eq!(status("/api/v1/namespaces/shop").await?, 200); // consistent
//! view.catch_up();
//! assert_eq!(status("/api/v1/namespaces/shop?resourceVersion=0").await?, 200);
//! # Ok(()) }
//! ```
//!
//! # What a client of a lagging server sees
//!
//! The cache is at the revision R. All answers are those of a Kubernetes 1.36 API server:
//!
//! | request | answer |
//! |---|---|
//! | get or list without `resourceVersion` | the present; a real server waits for its cache, or reads from etcd |
//! | get or list with `resourceVersion=0` | the state at R |
//! | get with a version, list with a version and `NotOlderThan` or no match | the state at R if the version is up to R; else see below |
//! | list with a version and `Exact`, or without a match and with a limit; `continue` | that version if it is up to R; else see below |
//! | watch from a version up to R | the events up to R, then silence until the cache moves |
//! | watch from a version after R | silence until the cache has passed that version, then the events after it |
//! | watch without a version or from 0 | the objects at R, then as above |
//! | watch with `sendInitialEvents=true` and `resourceVersion=0` | the objects and a bookmark at R |
//! | the same without a version | the present is required; see below |
//! | the same with a version | the objects at R if the version is up to R; else see below |
//! | bookmarks | versions up to R; none if the watch began after R |
//! | writes | the present, with conflicts by the present |
//!
//! A read that requires a version after R waits for 3 seconds. If the cache has not reached it by
//! then, the response (for watches, an `ERROR` event) is 504 `Timeout` with the message
//! `Too large resource version: 17, current: 12`, the cause `ResourceVersionTooLarge` and
//! `retryAfterSeconds: 1`, which tells clients to retry. Versions before the kept history get a 410, as
//! usual.
//!
//! Consistent lists are answered at once, where a real server waits for its cache up to 3 seconds before
//! it reads from etcd. Discovery, CRDs and rights are those of the present.
//!
//! # Limits
//!
//! A view is a position in the history that the sandbox keeps for watches ([`Builder::history`]), not a
//! copy, so it costs nothing but that history. The cache of a kind is never older than its history: if
//! more changes are made than are kept, or after [`Sandbox::compact`], it is at the oldest version that is
//! still known, as on a real server that has to list the objects again. The cache of a new CRD
//! begins with the CRD.
//!
//! [`Builder::history`]: crate::Builder::history
//! [`Sandbox::compact`]: crate::Sandbox::compact

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::view::{Behind, Lag, Viewer};

/// The views of a sandbox. All clients see the present until a view is changed.
#[derive(Clone)]
pub struct Views {
    cluster: Arc<Cluster>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.views.fmt(f)
    }
}

impl Views {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    /// Returns the view of a user, on any endpoint.
    pub fn of_user(&self, user: impl Into<String>) -> View {
        self.view(Viewer::User(user.into()))
    }

    /// Returns the view of all clients of an endpoint: of a [listener](crate::Listen), or of a
    /// [service](crate::Service::endpoint) in process. If the view of a user lags as well, the older one
    /// counts.
    pub fn of_endpoint(&self, endpoint: impl Into<String>) -> View {
        self.view(Viewer::Endpoint(endpoint.into()))
    }

    fn view(&self, viewer: Viewer) -> View {
        View {
            cluster: Arc::clone(&self.cluster),
            viewer,
        }
    }
}

/// The view of some clients. Open watches follow its changes. Clones refer to the same view.
#[derive(Clone)]
pub struct View {
    cluster: Arc<Cluster>,
    viewer: Viewer,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("viewer", &self.viewer)
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

/// The error of a view that is moved to a revision that it cannot show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The revision does not exist yet.
    #[error("invalid revision {wanted}: the present is {present}")]
    Future {
        /// The requested revision.
        wanted: u64,
        /// The current revision.
        present: u64,
    },
    /// The history of the revision is dropped.
    #[error("invalid revision {wanted}: the history begins at {oldest}")]
    Expired {
        /// The requested revision.
        wanted: u64,
        /// The oldest available revision.
        oldest: u64,
    },
    /// A view can only advance; [`View::freeze_at`] sets it back.
    #[error("invalid revision {wanted}: the view is already at {position}")]
    Backwards {
        /// The requested revision.
        wanted: u64,
        /// The revision of the view.
        position: u64,
    },
}

impl View {
    /// Returns the revision of the cache.
    pub fn revision(&self) -> u64 {
        let Cluster { views, store, .. } = &*self.cluster;
        let behind = views.revision(&self.viewer, store);
        behind.unwrap_or_else(|| store.revision())
    }

    /// Stops the cache at its revision, which is returned: that of the last change, unless it lags.
    pub fn freeze(&self) -> u64 {
        let revision = self.revision();
        self.set(Some(Behind::Frozen(revision)));
        revision
    }

    /// Sets the cache to a revision, and stops it there. It can be set back, as if the clients changed
    /// to another server; open watches get nothing before it has passed what they have seen.
    ///
    /// # Errors
    ///
    /// The revision is in the future, or its history is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
    /// let view = sandbox.views().of_user("operator");
    /// let now = view.revision();
    /// view.freeze_at(now - 1)?;
    /// assert_eq!(view.revision(), now - 1);
    /// assert!(view.freeze_at(now + 1).is_err());
    /// # Ok(()) }
    /// ```
    pub fn freeze_at(&self, revision: u64) -> Result<(), ViewError> {
        self.check(revision)?;
        self.set(Some(Behind::Frozen(revision)));
        Ok(())
    }

    /// Lets the cache follow with a delay (by tokio's clock, which tests can pause). What it shows already
    /// stays visible. Zero delay is the present.
    pub fn delay(&self, delay: Duration) {
        if delay.is_zero() {
            return self.catch_up();
        }
        let lag = Lag::after(self.revision(), delay);
        self.set(Some(Behind::Delayed(lag)));
    }

    /// Advances a cache to a revision, and stops it there.
    ///
    /// # Errors
    ///
    /// The revision is before that of the cache, or in the future.
    pub fn advance_to(&self, revision: u64) -> Result<(), ViewError> {
        self.check(revision)?;
        let position = self.revision();
        if revision < position {
            return Err(ViewError::Backwards {
                wanted: revision,
                position,
            });
        }
        self.set(Some(Behind::Frozen(revision)));
        Ok(())
    }

    /// Lets the cache catch up entirely and follow the present, as by default.
    pub fn catch_up(&self) {
        self.set(None);
    }

    fn set(&self, behind: Option<Behind>) {
        self.cluster.views.set(&self.viewer, behind);
    }

    fn check(&self, wanted: u64) -> Result<(), ViewError> {
        let present = self.cluster.store.revision();
        if wanted > present {
            return Err(ViewError::Future { wanted, present });
        }
        let oldest = self.cluster.store.compacted();
        if wanted < oldest {
            return Err(ViewError::Expired { wanted, oldest });
        }
        Ok(())
    }
}
