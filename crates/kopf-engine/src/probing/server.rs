//! The HTTP server of one address.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kopf_core::handler::Activity;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::listening::Listeners;
use super::paths::{Role, Site};
use super::prober::{Prober, ReportHandle, report};
use super::responding::{Responder, UNRESPONSIVE, reacts};
use crate::activities::Activities;
use crate::shared::Shared;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;

/// Time limit for reading the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum age of a connection.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Time limit for pending responses at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay after a connection could not be accepted, for example because of the limit of open files.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// Serves one address until it is stopped.
///
/// # Errors
/// If the address cannot be listened at.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    site: Site,
    stop: CancellationToken,
) -> io::Result<()> {
    let listeners = Listeners::open(&site.endpoint).await?;
    if let Some(address) = listeners.address() {
        match site.role {
            Role::Probes => shared.inspect.set_probed_at(address),
            Role::Metrics => shared.inspect.set_measured_at(address),
        }
    }
    match site.role {
        Role::Probes => debug!("Serving health status at {}", site.endpoint),
        Role::Metrics => debug!("Serving metrics at {}", site.endpoint),
    }
    let pool = shared.executor.pool.clone();
    let activities = Activities::new(Activity::Probe, &shared.registry, pool);
    let probed = Arc::clone(&shared);
    let (reports, prober) = Prober::new(async move || {
        let context = || Arc::clone(&probed.context);
        if !reacts(probed.context.heartbeat.as_deref()).await {
            return Err(UNRESPONSIVE.to_owned());
        }
        report(activities.run(context).await)
    });
    let responder = Arc::new(responder(&shared, site, reports));
    let mut connections = Connections::default();
    let probing = prober.run();
    tokio::pin!(probing);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // The prober runs while a handle exists, such as that of the responder.
            () = &mut probing => break,
            Some(_) = connections.tasks.join_next() => {}
            accepted = listeners.accept() => match accepted {
                Ok(stream) => connections.add(stream, Arc::clone(&responder)),
                Err(error) => {
                    warn!("A connection of a probe cannot be accepted: {error}");
                    sleep(ACCEPT_DELAY).await;
                }
            },
        }
    }
    drop(listeners);
    let ending = timeout(SHUTDOWN_TIMEOUT, async {
        tokio::select! {
            () = &mut probing => {}
            () = connections.end() => {}
        }
    });
    let _ = ending.await;
    connections.tasks.shutdown().await;
    Ok(())
}

/// Reported if the frontend does not react.
fn responder(shared: &Shared, site: Site, reports: ReportHandle) -> Responder {
    let context = &shared.context;
    Responder {
        inspect: shared.inspect.clone(),
        client: context.client.clone(),
        barrier: shared.barrier.clone(),
        heartbeat: context.heartbeat.clone(),
        paths: site.paths,
        reports,
    }
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    order: VecDeque<AbortHandle>,
}

impl Connections {
    fn add(&mut self, stream: TcpStream, responder: Arc<Responder>) {
        self.order.retain(|connection| !connection.is_finished());
        if self.order.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let task = self.tasks.spawn(async move {
            // An error of a connection ends that connection only.
            let _ = timeout(MAX_AGE, serve_connection(stream, responder)).await;
        });
        self.order.push_back(task);
    }

    async fn end(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn serve_connection(
    stream: TcpStream,
    responder: Arc<Responder>,
) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(responder.respond(&request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
