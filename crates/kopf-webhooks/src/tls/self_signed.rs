//! Certificates for other servers.

use jiff::Timestamp;
use rustls::pki_types::PrivateKeyDer;

use super::bundle::{Bundle, pem};
use super::generating::generate;
use crate::Error;

/// Generates a certificate with its CA, and a private key, both in PEM.
///
/// It is the certificate that [`Server`](crate::Server) generates by default.
///
/// ```
/// # fn main() -> Result<(), kopf_webhooks::Error> {
/// let (certificate, key) = kopf_webhooks::build_certificate(&["localhost".to_owned()])?;
/// assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
/// assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
/// # Ok(()) }
/// ```
///
/// # Errors
/// A name is not valid in a certificate.
#[allow(
    clippy::disallowed_methods,
    reason = "certificates are valid in the time of the system"
)]
pub fn build_certificate(names: &[String]) -> Result<(String, String), Error> {
    let now = Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
    let generated = generate(names, now).map_err(|source| Error::Generation {
        names: names.to_vec(),
        source,
    })?;
    let chain = Bundle::new(vec![generated.certificate, generated.authority]);
    let key = match &generated.key {
        PrivateKeyDer::Pkcs8(key) => key.secret_pkcs8_der(),
        other => other.secret_der(),
    };
    Ok((chain.pem(), pem("PRIVATE KEY", key)))
}
