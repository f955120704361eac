//! How much of everything a server spends on its clients.

use std::time::Duration;

/// How much of everything a server spends on its clients.
///
/// The API server is one client with few connections, but it is not the only one who can connect. The
/// defaults suit it, and let nobody else take the server away from it.
///
/// ```
/// let mut limits = kopf_webhooks::Limits::default();
/// limits.body = 1024 * 1024;
/// let server = kopf_webhooks::Server::new().limits(limits);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The size of a review in bytes; larger ones are denied. Default: 16 MiB, which is more than
    /// twice the largest object that Kubernetes takes, as reviews have two of them.
    pub body: usize,
    /// The memory for the texts of all reviews together in bytes, those aside that are small;
    /// reviews for which there is none within `body_time` are answered by 503. A quarter of it is
    /// for connections on which reviews were answered before. Default: 128 MiB.
    ///
    /// What is made of the texts can be many times as large. It has as much memory again, or 16
    /// times as much as `body` if that is more; reviews that alone need more are denied.
    pub memory: usize,
    /// How long a new connection can take until it has asked for something: the TLS handshake and
    /// the headers of its first request. Default: 10 seconds.
    pub header_time: Duration,
    /// How long the body of a request can take; slower ones are answered by 408. Default: 10
    /// seconds.
    pub body_time: Duration,
    /// How long a review can take, the wait for its turn included; longer ones are answered by
    /// 500. Default: 30 seconds, as no API server waits for longer.
    pub review_time: Duration,
    /// How long a connection can be silent between requests. Default: 2 minutes, since API servers
    /// keep theirs for 90 seconds.
    pub idle_time: Duration,
    /// How many connections there can be. When there are more, the one has to go that has been
    /// silent for the longest time; of those with reviews under way, none. On Linux, there are not
    /// more than half of the files that the process can have open (`ulimit -n`). Default: 1,024.
    pub connections: usize,
    /// How many reviews are under way at once; others wait. Default: 1,024.
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
