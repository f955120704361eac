//! Errors of webhook servers and tunnels.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kopf_core::admission::InvalidService;
use rustls::pki_types::pem;

/// An error of a webhook server or a tunnel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options exclude each other, or one lacks another that it requires.
    #[error("conflicting options of the webhook server: {0}")]
    Options(&'static str),
    /// A file of certificates or keys cannot be read.
    #[error("cannot read {option} of the webhook server from {}", path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The data is not valid PEM.
    #[error("{option} of the webhook server ({from}) is not valid PEM")]
    Pem {
        /// The option.
        option: &'static str,
        /// The file, or another origin of the data.
        from: String,
        /// The cause.
        source: pem::Error,
    },
    /// A certificate or a key is missing.
    #[error("{option} of the webhook server ({from}) contains no {what}")]
    Empty {
        /// The option.
        option: &'static str,
        /// The file, or another origin of the data.
        from: String,
        /// The missing item.
        what: &'static str,
    },
    /// The private key is encrypted in a way that is not supported, or with another password.
    #[error(
        "cannot decrypt the private key of the webhook server in {}: {reason}; to remove the \
         password: openssl pkey -in {} -out plain.pem",
        path.display(),
        path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The value is not a valid name, address or path.
    #[error("invalid {option} {given:?} of the webhook server: {reason}")]
    Naming {
        /// The option.
        option: &'static str,
        /// The given value.
        given: String,
        /// The reason.
        reason: &'static str,
    },
    /// The Service in front of the server is invalid, or API servers cannot reach the server through it.
    #[error(transparent)]
    Service(#[from] InvalidService),
    /// The certificate and the key from files are rejected.
    #[error(
        "cannot use the certificate in {} with the private key in {} for the webhook server: {reason}",
        certfile.display(),
        pkeyfile.display()
    )]
    Unusable {
        /// The file with the certificate.
        certfile: PathBuf,
        /// The file with the key.
        pkeyfile: PathBuf,
        /// The reason.
        reason: &'static str,
        /// The cause.
        source: Box<rustls::Error>,
    },
    /// The certificate and the key are rejected.
    #[error("cannot use the certificate and the private key of the webhook server")]
    Certificate(#[source] rustls::Error),
    /// The certificate of the server is not signed by an authority of its CA bundle.
    #[error(
        "the certificate of the webhook server is not signed by any authority of its CA bundle; \
         cafile (or cadata) should contain the authority that signed certfile"
    )]
    Unvouched,
    /// The CA certificates for clients are rejected.
    #[error(
        "cannot use the authorities for client certificates (verify_cafile, verify_capath, \
         verify_cadata)"
    )]
    Authorities(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate cannot be generated.
    #[error("cannot generate a certificate of the webhook server for the names {names:?}")]
    Generation {
        /// The names for the certificate.
        names: Vec<String>,
        /// The cause.
        source: rcgen::Error,
    },
    /// The certificate cannot be shared with other replicas.
    #[error("the certificate of the webhook servers cannot be shared by the replicas")]
    Store(#[source] kopf_core::admission::ServerError),
    /// The shared certificate is malformed.
    #[error(
        "the certificate of the webhook servers in the {origin} is invalid: {reason}; delete it, and the \
         replicas create a new one"
    )]
    Shared {
        /// The stored object.
        origin: String,
        /// The defect.
        reason: &'static str,
    },
    /// Other replicas replace the shared certificate all the time.
    #[error(
        "the certificate of the webhook servers is replaced repeatedly by other replicas: give all of them \
         the same names (host, addr, extra_sans)"
    )]
    Contended,
    /// The CA bundle cannot be written.
    #[error("cannot write the CA bundle of the webhook server to {}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The address cannot be bound.
    #[error("the webhook server cannot listen at {address} (options `addr` and `port`)")]
    Listen {
        /// The address and the port.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The program of the tunnel cannot be started.
    #[error(
        "cannot start {} for the tunnel: install ngrok (https://ngrok.com/download), or set the \
         option `binary` of NgrokTunnel",
        binary.display()
    )]
    NgrokMissing {
        /// The program.
        binary: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The program of the tunnel has ended.
    #[error("ngrok has ended ({status}): {reason}")]
    NgrokEnded {
        /// The exit status.
        status: String,
        /// The last error message of the program.
        reason: String,
    },
    /// The program of the tunnel has not opened one in time.
    #[error("ngrok has not opened a tunnel within {} seconds: {reason}", patience.as_secs())]
    NgrokSilent {
        /// The timeout.
        patience: Duration,
        /// The last error message of the program.
        reason: String,
    },
}
