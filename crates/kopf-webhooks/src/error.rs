//! Why a webhook server or a tunnel cannot serve.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustls::pki_types::pem;

/// Why a webhook server or a tunnel cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that exclude each other, or one without the other that it needs.
    #[error("the options of the webhook server contradict each other: {0}")]
    Options(&'static str),
    /// A file of certificates or keys cannot be read.
    #[error("{option} of the webhook server cannot be read from {}", path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// What should be in PEM is not.
    #[error("{option} of the webhook server ({from}) is not valid PEM")]
    Pem {
        /// The option.
        option: &'static str,
        /// The file, or what else it is from.
        from: String,
        /// The cause.
        source: pem::Error,
    },
    /// There is no certificate, or no key, where one should be.
    #[error("{option} of the webhook server ({from}) contains no {what}")]
    Empty {
        /// The option.
        option: &'static str,
        /// The file, or what else it is from.
        from: String,
        /// What is missing.
        what: &'static str,
    },
    /// The private key is encrypted in a way that is not supported, or with another password.
    #[error(
        "the private key of the webhook server in {} cannot be decrypted: {reason}; a key \
         without a password works: openssl pkey -in {} -out plain.pem",
        path.display(),
        path.display()
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What should be a name, an address or a path is not.
    #[error("{option} of the webhook server cannot be {given:?}: {reason}")]
    Naming {
        /// The option.
        option: &'static str,
        /// What is given.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The certificate and the key from files are refused.
    #[error(
        "the certificate in {} and the private key in {} cannot be used by the webhook server: {reason}",
        certfile.display(),
        pkeyfile.display()
    )]
    Unusable {
        /// The file with the certificate.
        certfile: PathBuf,
        /// The file with the key.
        pkeyfile: PathBuf,
        /// What is wrong with them.
        reason: &'static str,
        /// The cause.
        source: Box<rustls::Error>,
    },
    /// The certificate and the key are refused.
    #[error("the certificate and the private key of the webhook server cannot be used")]
    Certificate(#[source] rustls::Error),
    /// The certificate of the server is from elsewhere than its authorities.
    #[error(
        "the certificate of the webhook server is not signed by any authority of its CA bundle; \
         cafile (or cadata) should have the authority that has signed certfile"
    )]
    Unvouched,
    /// The certificates of authorities that vouch for clients are refused.
    #[error(
        "the authorities for client certificates (verify_cafile, verify_capath, verify_cadata) cannot \
         be used"
    )]
    Authorities(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A certificate cannot be made.
    #[error("a certificate for the webhook server cannot be generated for the names {names:?}")]
    Generation {
        /// The names it should be good for.
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
    /// The CA bundle cannot be written where it should be.
    #[error("the CA bundle of the webhook server cannot be written to {}", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Nobody can listen there.
    #[error("the webhook server cannot listen at {address}, as its options `addr` and `port` say")]
    Listen {
        /// The address and the port.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The program of the tunnel cannot be started.
    #[error(
        "{} cannot be started for the tunnel: install ngrok (https://ngrok.com/download), or say \
         where it is by the option `binary` of NgrokTunnel",
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
        /// How it has ended.
        status: String,
        /// The last it has said.
        reason: String,
    },
    /// The program of the tunnel has not opened one in time.
    #[error("ngrok has not opened a tunnel within {} seconds: {reason}", patience.as_secs())]
    NgrokSilent {
        /// How long it was waited for.
        patience: Duration,
        /// The last it has said.
        reason: String,
    },
}
