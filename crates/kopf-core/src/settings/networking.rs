//! Settings of requests and streams.

use std::time::Duration;

use super::Backoffs;
use super::backoffs::seconds;

/// Requests to the API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Networking {
    /// The time for one request from its beginning to the end of the answer. Default: 5 minutes;
    /// none is unlimited. Streams have their own limits.
    pub request_timeout: Option<Duration>,
    /// The time for one connection to be made. Default: none, limited by the request's time.
    pub connect_timeout: Option<Duration>,
    /// When a failed request is repeated (broken connections, timeouts, 429, 5xx). Default: after
    /// 1, 1, 2, 3, 5, 8, 13, 21 seconds, then the error escalates.
    pub error_backoffs: Backoffs,
    /// After a 429, waits exactly as long as the server says, even if the backoff is longer.
    /// Default: false, the longer of both.
    pub enforce_retry_after: bool,
    /// Takes proxies from the environment. Default: false.
    pub trust_env: bool,
    /// How many requests of handling are in flight at the same time, at least 1. Default: 96; more
    /// of them wait in line. Each needs a connection of its own, which costs memory and a handshake;
    /// but servers that wait for their disks take many changes in the time of one.
    pub concurrency: usize,
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_secs(300)),
            connect_timeout: None,
            error_backoffs: Backoffs::finite(seconds([1, 1, 2, 3, 5, 8, 13, 21])),
            enforce_retry_after: false,
            trust_env: false,
            concurrency: 96,
        }
    }
}

/// The streams of changes from the cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watching {
    /// How long the server is asked to keep a stream. Default: none, as the server likes.
    pub server_timeout: Option<Duration>,
    /// When a stream is replaced, even if it works. Default: none, never.
    pub client_timeout: Option<Duration>,
    /// The time for a stream to be connected. Default: none, as for other requests.
    pub connect_timeout: Option<Duration>,
    /// The pause before everything is listed again. Default: 0.1 seconds; it grows while that
    /// fails.
    pub reconnect_backoff: Duration,
    /// A stream that says nothing for so long is taken for dead and replaced. Default: 70 seconds,
    /// a little more than the server's pause between its bookmarks.
    pub inactivity_timeout: Duration,
    /// How many objects are listed with one request. Default: 500; less means less memory and
    /// more requests.
    pub page_size: u32,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Duration::from_secs(70),
            page_size: 500,
        }
    }
}
