//! Settings of requests and watch streams.

use std::time::Duration;

use super::Backoffs;
use super::StreamSelector;
use super::backoffs::seconds;

/// Requests to the API.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Networking {
    /// The time limit for one request, until the end of the response. Default: 5 minutes. `None`
    /// means unlimited. Watches have their own limits.
    pub request_timeout: Option<Duration>,
    /// The time limit for establishing a connection. Default: `None`, limited by
    /// `request_timeout` only.
    pub connect_timeout: Option<Duration>,
    /// Delays before the retries of a failed request (broken connections, timeouts, 429, 5xx).
    /// Default: 1, 1, 2, 3, 5, 8, 13, 21 seconds; then the request fails.
    pub error_backoffs: Backoffs,
    /// After a 429, waits exactly as long as the response says, even if the backoff is longer.
    /// Default: `false`, the longer of both.
    pub enforce_retry_after: bool,
    /// Uses the proxies of the environment. Default: `false`.
    pub trust_env: bool,
    /// The maximum number of concurrent requests for handling, at least 1; others wait. Default:
    /// 96. Each needs its own connection, which costs memory and a handshake. Servers that wait
    /// for their disks complete many writes in the time of one.
    pub concurrency: usize,
    /// Sends requests of the framework by HTTP/2 if the server offers it. Default: `false`.
    /// Connections are shared then: a few instead of one for each watch and concurrent request.
    pub http2: bool,
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
            http2: false,
        }
    }
}

/// Watch streams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Watching {
    /// The lifetime of a stream that is requested from the server. Default: `None`, the server
    /// decides.
    pub server_timeout: Option<Duration>,
    /// The lifetime after which the client replaces a stream. Default: `None`, unlimited.
    pub client_timeout: Option<Duration>,
    /// The time limit for opening a stream. Default: `None`, as for other requests.
    pub connect_timeout: Option<Duration>,
    /// The first delay before a stream is opened or listed again. Default: 0.1 seconds. It doubles
    /// up to 30 seconds until a newer resource version arrives or a stream lives for 10 seconds.
    pub reconnect_backoff: Duration,
    /// The time without any data after which a stream is replaced. Default: 70 seconds, slightly
    /// more than the interval of bookmarks. `None` disables it: then a connection that dies
    /// silently is noticed only by TCP, `client_timeout`, or not at all.
    pub inactivity_timeout: Option<Duration>,
    /// The number of objects per list request, at least 1. Default: 500. Smaller pages need less
    /// memory and more requests.
    pub page_size: u32,
    /// Objects that the server leaves out of streams. Default: none.
    pub selectors: Vec<StreamSelector>,
    /// Requests the existing objects with the watch (`sendInitialEvents`) instead of listing them.
    /// It needs less memory on the server. Default: no. Servers that reject it are listed.
    pub initial_streaming: bool,
}

impl Watching {
    /// Returns `true` if some resource is divided among operators by shard selectors.
    pub fn is_sharded(&self) -> bool {
        self.selectors.iter().any(|one| one.shard.is_some())
    }
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Some(Duration::from_secs(70)),
            page_size: 500,
            selectors: Vec::new(),
            initial_streaming: false,
        }
    }
}
