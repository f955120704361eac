//! The certificate of the API server, by which local clusters are recognised.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kopf_core::sync::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::Client;

/// Timeout of the request. The certificate is optional for callers.
const LIMIT: Duration = Duration::from_secs(10);

impl Client {
    /// Returns the certificate of the server (DER), without sending credentials. `None` if the
    /// server has none, or is not reachable without a proxy.
    pub async fn server_certificate(&self) -> Option<Vec<u8>> {
        let server: Uri = self.server().parse().ok()?;
        if server.scheme_str() != Some("https") {
            return None;
        }
        timeout(LIMIT, look(&server)).await.ok()?
    }
}

async fn look(server: &Uri) -> Option<Vec<u8>> {
    let host = server.host()?.trim_matches(['[', ']']);
    let port = server.port_u16().unwrap_or(443);
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let seen = Arc::new(CertificateRecorder::default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&seen) as _)
        .with_no_client_auth();
    let connection = TcpStream::connect((host, port)).await.ok()?;
    // The server may require a client certificate and abort: its own certificate was received
    // before.
    let _ = TlsConnector::from(Arc::new(config))
        .connect(name, connection)
        .await;
    seen.take()
}

/// A verifier that records the certificate and accepts any: no data is sent over this connection.
#[derive(Debug, Default)]
struct CertificateRecorder(Mutex<Option<Vec<u8>>>);

impl CertificateRecorder {
    fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().take()
    }
}

impl ServerCertVerifier for CertificateRecorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut seen = self.0.lock();
        *seen = Some(end_entity.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
