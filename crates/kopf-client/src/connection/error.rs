//! Connection errors. They never contain secrets.

use std::io;
use std::path::PathBuf;

use kopf_core::failure::describe;
use kube::client::AuthError;
use kube::config::KubeconfigError;

use crate::error::cut;

/// A failure to create a client from credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are neither a service account nor a kubeconfig.
    #[error("no credentials found: {service_account}; {kubeconfig}")]
    Nowhere {
        /// The problem with the service account.
        service_account: Box<Self>,
        /// The problem with the kubeconfig.
        kubeconfig: Box<Self>,
    },
    /// The kubeconfig is absent or invalid.
    #[error("cannot use the kubeconfig: {problem}")]
    Kubeconfig {
        /// The problem.
        problem: String,
    },
    /// The process does not run in a pod, or the pod has no service account.
    #[error("cannot use the service account: {problem}")]
    ServiceAccount {
        /// The problem.
        problem: String,
    },
    /// A part of the credentials is given twice.
    #[error("the {what} is given both as a path and as data")]
    Both {
        /// The part.
        what: &'static str,
    },
    /// A part of the credentials is invalid.
    #[error("the {what} is invalid: {problem}")]
    Invalid {
        /// The part.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// A file of the credentials cannot be read.
    #[error("the {what} cannot be read from {path:?}")]
    File {
        /// The expected content.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A credential plugin or another source of tokens failed.
    #[error("authentication failed: {problem}")]
    Authentication {
        /// The failure.
        problem: String,
    },
}

impl From<KubeconfigError> for Error {
    fn from(error: KubeconfigError) -> Self {
        let problem = match &error {
            // The full message quotes the surrounding lines, which can contain tokens.
            KubeconfigError::Parse(error) => match error.location() {
                Some(at) => format!("invalid YAML in line {}, column {}", at.line(), at.column()),
                None => "invalid YAML".to_owned(),
            },
            error => describe(error),
        };
        Self::Kubeconfig { problem }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Auth(error) => Self::from(&error),
            kube::Error::InferKubeconfig(error) => error.into(),
            error => Self::Invalid {
                what: "connection",
                problem: describe(&error),
            },
        }
    }
}

impl From<&AuthError> for Error {
    fn from(error: &AuthError) -> Self {
        let problem = match error {
            // The message contains the environment of the command and its output.
            AuthError::AuthExecRun { out, .. } => {
                let said = String::from_utf8_lossy(&out.stderr);
                match cut(said.trim()).as_str() {
                    "" => format!("the credential plugin ended with {}", out.status),
                    said => format!("the credential plugin ended with {}: {said}", out.status),
                }
            }
            AuthError::AuthExecParse(_) => "unexpected output of the credential plugin".to_owned(),
            AuthError::ParseTokenKey(_) => "the auth provider has no token".to_owned(),
            error => describe(error),
        };
        Self::Authentication { problem }
    }
}
