//! Limits of a server.

use std::time::Duration;

/// Limits of a server: memory, time, connections.
///
/// The defaults suit API servers, which have few connections, and keep other clients from blocking them.
///
/// ```
/// let mut limits = kopf_webhooks::Limits::default();
/// limits.body = 1024 * 1024;
/// let server = kopf_webhooks::Server::new().limits(limits);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Size of a review in bytes; larger ones are denied. Default: 16 MiB. Reviews have up to two
    /// objects of 3 MiB.
    pub body: usize,
    /// Memory for the bodies of all reviews in bytes, except small ones. Reviews that get none within
    /// `body_time` fail with 503. A quarter is reserved for known clients. Default: 128 MiB.
    ///
    /// The parsed values have the same amount again, or 16 times `body` if that is more. Reviews
    /// that need more than that are denied.
    pub memory: usize,
    /// Time for the TLS handshake and the headers of the first request. Default: 10 seconds.
    pub header_time: Duration,
    /// Time for the body of a request; slower ones fail with 408. Default: 10 seconds.
    pub body_time: Duration,
    /// Time for a review, including the wait for a permit; longer ones fail with 500. Default: 30
    /// seconds, the maximum of API servers.
    pub review_time: Duration,
    /// Time between requests of a connection. Default: 2 minutes; API servers close idle connections
    /// after 90 seconds.
    pub idle_time: Duration,
    /// Number of open connections. Above it, the one with the longest silence is closed, except those
    /// with reviews under way. On Linux, at most half of the limit of open files (`ulimit -n`).
    /// Default: 1,024.
    pub connections: usize,
    /// Number of concurrent reviews; others wait. Default: 1,024.
    pub reviews: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 * 1024 * 1024,
            memory: 128 * 1024 * 1024,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            review_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(120),
            connections: 1024,
            reviews: 1024,
        }
    }
}
