//! Clients for operators.

/// A client for operators: [`kube::Client`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client for operators",
    label = "not a client",
    note = "expected `kube::Client`"
)]
pub trait IntoClient {
    /// Converts the client for the engine.
    #[doc(hidden)]
    fn into_client(self) -> kopf_client::Client;
}

#[doc(hidden)]
impl IntoClient for kopf_client::Client {
    fn into_client(self) -> kopf_client::Client {
        self
    }
}

impl IntoClient for kube::Client {
    fn into_client(self) -> kopf_client::Client {
        let namespace = self.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let client = self.clone();
            async move { client.send(request).await }
        });
        kopf_client::Client::from_service(service, namespace)
    }
}
