//! The Secret with the certificate that the webhook servers of replicas share.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_client::Client;
use kopf_core::admission::{
    Certificate, CertificateSecret, CertificateStore, ServerError, StoredCertificate,
    UnusableSecret,
};
use kopf_core::settings::Settings;
use serde_json::Value;
use tokio::time::sleep;
use tracing::warn;

use crate::leading;

/// Delay before a failed request is repeated, in addition to the retries of the client.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Store of the shared certificate.
#[derive(Debug)]
pub(super) struct Secrets {
    client: Client,
    settings: Arc<Settings>,
    name: String,
}

/// Errors of the Secret, which end the webhook server at its start.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(
        "the {secret} does not contain the webhook certificate of these replicas: delete it, or set another \
         name in settings.leading.certificate_secret"
    )]
    Unusable {
        secret: CertificateSecret,
        #[source]
        source: UnusableSecret,
    },
    #[error(
        "the operator is not permitted to {verb} the {secret}: grant it the verbs get and update for this \
         Secret, and create for secrets, or disable settings.leading.certificate_secret"
    )]
    Forbidden {
        verb: &'static str,
        secret: CertificateSecret,
        #[source]
        source: Box<kopf_client::Error>,
    },
    #[error("cannot {verb} the {secret} with the webhook certificate")]
    Api {
        verb: &'static str,
        secret: CertificateSecret,
        #[source]
        source: Box<kopf_client::Error>,
    },
}

impl Secrets {
    /// Returns `None` if the certificate is not shared.
    pub(super) fn new(client: Client, settings: Arc<Settings>) -> Option<Self> {
        let name = settings.leading.certificate_secret_name()?;
        Some(Self {
            client,
            settings,
            name,
        })
    }

    async fn secret(&self) -> Result<CertificateSecret, kopf_client::Error> {
        let leading = &self.settings.leading;
        Ok(CertificateSecret {
            namespace: leading::namespace(&self.client, leading).await?,
            name: self.name.clone(),
            group: leading.name.clone(),
        })
    }

    async fn read(&self) -> Result<Option<StoredCertificate>, ServerError> {
        let secret = self.secret().await?;
        let path = object_path(&secret);
        loop {
            match self.client.get_json(&path).await {
                Ok(object) => return Ok(Some(parsed(&secret, &object)?)),
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if error.is_transient() => wait(&secret, &error).await,
                Err(error) => return Err(explained("get", secret, error).into()),
            }
        }
    }

    async fn write(
        &self,
        certificate: Certificate,
        replaced: Option<String>,
    ) -> Result<Option<StoredCertificate>, ServerError> {
        let secret = self.secret().await?;
        let object = secret.object(&certificate, replaced.as_deref());
        let verb = match replaced {
            Some(_) => "update",
            None => "create",
        };
        loop {
            let written = if replaced.is_some() {
                let path = object_path(&secret);
                self.client.put_json(&path, &object).await
            } else {
                let path = collection_path(&secret);
                self.client.post_json_once(&path, &object).await
            };
            match written {
                Ok(object) => return Ok(Some(parsed(&secret, &object)?)),
                Err(error) if error.is_conflict() => return Ok(None),
                // The Secret was deleted meanwhile. A missing namespace is an error.
                Err(error) if error.is_not_found() && replaced.is_some() => return Ok(None),
                Err(error) if error.is_transient() => wait(&secret, &error).await,
                Err(error) => return Err(explained(verb, secret, error).into()),
            }
        }
    }
}

fn collection_path(secret: &CertificateSecret) -> String {
    format!("/api/v1/namespaces/{}/secrets", secret.namespace)
}

fn object_path(secret: &CertificateSecret) -> String {
    format!("{}/{}", collection_path(secret), secret.name)
}

fn parsed(secret: &CertificateSecret, object: &Value) -> Result<StoredCertificate, Error> {
    secret.parse(object).map_err(|source| Error::Unusable {
        secret: secret.clone(),
        source,
    })
}

async fn wait(secret: &CertificateSecret, error: &kopf_client::Error) {
    warn!(
        "The {secret} with the webhook certificate is not accessible now: {error}. Trying again."
    );
    sleep(RETRY_DELAY).await;
}

fn explained(verb: &'static str, secret: CertificateSecret, error: kopf_client::Error) -> Error {
    let is_forbidden = error.is_forbidden();
    let source = Box::new(error);
    if is_forbidden {
        Error::Forbidden {
            verb,
            secret,
            source,
        }
    } else {
        Error::Api {
            verb,
            secret,
            source,
        }
    }
}

impl CertificateStore for Secrets {
    fn load(&self) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(self.read())
    }

    fn save(
        &self,
        certificate: Certificate,
        replaced: Option<String>,
    ) -> BoxFuture<'_, Result<Option<StoredCertificate>, ServerError>> {
        Box::pin(self.write(certificate, replaced))
    }
}
