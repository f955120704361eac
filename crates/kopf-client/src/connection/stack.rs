//! The layers of a real connection: address, credentials, TLS, connection pool.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{AuthError, Body as RequestBody, ConfigExt as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tower::util::MapErr;
use tower::{BoxError, Service, ServiceBuilder};

use super::error::Error;
use super::http2::Pools;
use super::limit::TimedConnector;
use super::pacing::{Pace, Paced};
use super::plugin::{Plugin, PluginToken};
use super::proxy::Proxy;
use super::stale::{STALE, StaleGuard};
use super::token_file::TokenFile;
use crate::Client;
use crate::transport::Channel;

/// TCP keep-alive: dead peers of idle connections are noticed within half a minute.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Time limit for the acknowledgement of sent data.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Each concurrent request of HTTP/1.1 needs its own connection.
const PACE: Pace = Pace {
    at_once: 4,
    max_wait: Duration::from_millis(100),
};

/// Requests of HTTP/2 share the connection that is being established.
const SHARED_PACE: Pace = Pace {
    at_once: 1,
    max_wait: Duration::from_secs(5),
};

/// Upper bound for the idle time of pooled connections. An older one may be dead without notice, and a
/// silent stream must not be replaced on it.
const IDLE: Duration = Duration::from_secs(20);

/// The parameters of a connection.
pub(crate) struct Target {
    pub(super) config: kube::Config,
    pub(super) proxy: Option<Proxy>,
    /// The token of the credential plugin, after its run.
    issued: Option<PluginToken>,
}

impl Target {
    pub(super) fn new(config: kube::Config, proxy: Option<Proxy>) -> Self {
        Self {
            config,
            proxy,
            issued: None,
        }
    }

    /// Runs the credential plugin, if there is one. Must be called before connecting.
    ///
    /// # Cancellation
    ///
    /// When dropped, the plugin is killed.
    pub(crate) async fn prepare(&mut self) -> Result<(), Error> {
        if let Some(plugin) = Plugin::take(&mut self.config.auth_info) {
            let issued = plugin.issue().await?;
            if let Some((certificate, key)) = &issued.identity {
                self.config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
                self.config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
            }
            self.issued = PluginToken::new(plugin, issued);
        }
        Ok(())
    }

    /// Creates a client with these credentials only. Blocks.
    pub(super) fn client(self) -> Result<Client, Error> {
        // Replicas of an operator must not reconnect at the same moment.
        let seed = RandomState::new().build_hasher().finish();
        Ok(Client::from_channel(self.connect()?, seed))
    }

    /// Creates the connection pool. Blocks.
    pub(crate) fn connect(self) -> Result<Channel, Error> {
        build(self)
    }
}

fn build(target: Target) -> Result<Channel, Error> {
    // If two providers are compiled in, rustls does not choose one. An error means that another
    // thread has installed one meanwhile.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }

    let Target {
        mut config,
        proxy,
        issued,
    } = target;
    let tokens = Tokens {
        file: TokenFile::take(&mut config.auth_info)?,
        issued,
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(any(target_os = "android", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    match proxy {
        None => finish(&config, tokens, tcp),
        Some(proxy) if proxy.is_socks() => {
            let local_dns = !proxy.resolves_names();
            let name = proxy.address.clone();
            let mut socks = SocksV5::new(proxy.address, tcp).local_dns(local_dns);
            if let Some((user, password)) = proxy.login {
                socks = socks.with_auth(user, password);
            }
            finish(&config, tokens, through(&name, socks))
        }
        Some(proxy) if proxy.address.scheme_str() == Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            let name = proxy.address.clone();
            finish(&config, tokens, through(&name, tunnel(proxy, tls)))
        }
        Some(proxy) => {
            let name = proxy.address.clone();
            finish(&config, tokens, through(&name, tunnel(proxy, tcp)))
        }
    }
}

/// Adds the address of the proxy to its errors.
fn through<C>(
    address: &Uri,
    connector: C,
) -> MapErr<C, impl FnOnce(C::Error) -> ProxyError + Clone + Send + Sync + 'static>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
{
    let proxy = public(&address.to_string());
    MapErr::new(connector, move |error: C::Error| ProxyError {
        proxy,
        source: error.into(),
    })
}

/// A failure to connect through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("by the proxy {proxy}")]
struct ProxyError {
    proxy: String,
    source: BoxError,
}

fn tunnel<C>(proxy: Proxy, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.address, connector);
    match proxy.authorization {
        Some(authorization) => tunnel.with_auth(authorization),
        None => tunnel,
    }
}

/// The sources of tokens for requests.
struct Tokens {
    file: Option<TokenFile>,
    issued: Option<PluginToken>,
}

fn finish<C>(config: &kube::Config, tokens: Tokens, connector: C) -> Result<Channel, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    // Reads the certificates of the system, if no others are given: once for both.
    let tls = config.rustls_client_config()?;
    let plain = https(config, tls.clone())?.enable_http1();
    let negotiating = https(config, tls)?.enable_all_versions();
    let plain = Paced::new(plain.wrap_connector(connector.clone()), PACE);
    let negotiating = Paced::new(negotiating.wrap_connector(connector), SHARED_PACE);
    let pool: legacy::Client<_, RequestBody> = legacy::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(TimedConnector(plain));
    let pool = Pools::new(pool, TimedConnector(negotiating));
    let service = ServiceBuilder::new()
        .map_err(without_secrets)
        .layer(config.base_uri_layer())
        .option_layer(tokens.file)
        .option_layer(tokens.issued)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(StaleGuard { pool, limit: STALE });
    let server = public(&config.cluster_url.to_string());
    let namespace = config.default_namespace.clone();
    Ok(Channel::new(service, &server, namespace))
}

/// Returns the builder of a TLS connector, which lacks the versions of HTTP.
fn https(
    config: &kube::Config,
    tls: rustls::ClientConfig,
) -> Result<HttpsConnectorBuilder<WantsProtocols1>, Error> {
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    let Some(name) = &config.tls_server_name else {
        return Ok(builder);
    };
    let name = name.clone().try_into().map_err(|_| Error::Invalid {
        what: "TLS server name",
        problem: format!("not a name: {name:?}"),
    })?;
    Ok(builder.with_server_name_resolver(FixedServerNameResolver::new(name)))
}

/// Removes tokens from the errors of token providers.
fn without_secrets(error: BoxError) -> BoxError {
    match error.downcast_ref::<AuthError>() {
        Some(error) => Error::from(error).into(),
        None => error,
    }
}

/// Parses the URL of a server.
pub(super) fn address(server: &str) -> Result<Uri, Error> {
    let invalid = |problem: &str| Error::Invalid {
        what: "server",
        problem: format!("{problem}: {:?}", public(server)),
    };
    // A password in the URL is not used, and would appear in logs.
    let address: Uri = public(server.trim())
        .parse()
        .map_err(|_| invalid("not a URL"))?;
    match address.scheme_str() {
        Some("http" | "https") => Ok(address),
        _ => Err(invalid("not an http or https URL")),
    }
}

/// Removes credentials from a URL.
pub(super) fn public(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

/// Parses the certificates of a PEM bundle.
pub(super) fn certificates(what: &'static str, bundle: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let invalid = |problem: String| Error::Invalid { what, problem };
    let found = CertificateDer::pem_slice_iter(bundle)
        .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid(format!("not PEM: {error}")))?;
    if found.is_empty() {
        return Err(invalid("no certificate in it".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_removed_from_urls() {
        for (given, expected) in [
            (
                "https://user:secret@host:6443/path",
                "https://host:6443/path",
            ),
            ("https://host:6443", "https://host:6443/"),
            (" http://a@b@host/x@y ", "http://host/x@y"),
        ] {
            assert_eq!(address(given).unwrap().to_string(), expected);
        }
        let error = address("ftp://user:secret@host").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
