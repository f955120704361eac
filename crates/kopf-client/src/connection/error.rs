//! Why there is no client, without saying any secret.

use std::io;
use std::path::PathBuf;

use kube::client::AuthError;
use kube::config::KubeconfigError;

use crate::error::{chain, cut};

/// Why a connection cannot be made from what is known about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There are no credentials at all.
    #[error("no credentials are found: {service_account}; {kubeconfig}")]
    Nowhere {
        /// Why it is not a pod's service account.
        service_account: Box<Self>,
        /// Why it is not a kubeconfig.
        kubeconfig: Box<Self>,
    },
    /// The kubeconfig is absent or wrong.
    #[error("the kubeconfig cannot be used: {problem}")]
    Kubeconfig {
        /// What is wrong.
        problem: String,
    },
    /// This is not a pod, or it has no service account.
    #[error("the service account cannot be used: {problem}")]
    ServiceAccount {
        /// What is wrong.
        problem: String,
    },
    /// The same thing is given in two ways.
    #[error("the {what} is given both as a path and as data")]
    Both {
        /// Which thing.
        what: &'static str,
    },
    /// A part of the credentials makes no sense.
    #[error("the {what} is invalid: {problem}")]
    Invalid {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of the credentials cannot be read.
    #[error("the {what} cannot be read from {path:?}")]
    File {
        /// What was expected in the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The credential plugin, or another way to get a token, has failed.
    #[error("authentication failed: {problem}")]
    Authentication {
        /// What has failed.
        problem: String,
    },
}

impl From<KubeconfigError> for Error {
    fn from(error: KubeconfigError) -> Self {
        let problem = match &error {
            // The whole message quotes the lines around, and those can have tokens.
            KubeconfigError::Parse(error) => match error.location() {
                Some(at) => format!("wrong YAML in line {}, column {}", at.line(), at.column()),
                None => "wrong YAML".to_owned(),
            },
            error => chain(error),
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
                problem: chain(&error),
            },
        }
    }
}

impl From<&AuthError> for Error {
    fn from(error: &AuthError) -> Self {
        let problem = match error {
            // The command is shown with its environment, and the output is what must be hidden.
            AuthError::AuthExecRun { out, .. } => {
                let said = String::from_utf8_lossy(&out.stderr);
                match cut(said.trim()).as_str() {
                    "" => format!("the credential plugin ended with {}", out.status),
                    said => format!("the credential plugin ended with {}: {said}", out.status),
                }
            }
            AuthError::AuthExecParse(_) => {
                "the output of the credential plugin is not as expected".to_owned()
            }
            AuthError::ParseTokenKey(_) => "the auth provider has no such token".to_owned(),
            error => chain(error),
        };
        Self::Authentication { problem }
    }
}
