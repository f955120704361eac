//! What tells credentials from others, so that refused ones are recognised when they come back.

use std::fs;

use http::header::HeaderValue;
use serde_json::{Value, json};

use super::stack::Target;

impl Target {
    /// All that the server gets to see, as text, with the present contents of files. None if that is
    /// not known before it is asked for: a plugin, or a provider of tokens, decides.
    ///
    /// It has secrets in it: it is for comparisons only.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        let config = &self.config;
        let user = &config.auth_info;
        if user.exec.is_some() || user.auth_provider.is_some() {
            return None;
        }
        let files: Vec<Option<Vec<u8>>> =
            [&user.token_file, &user.client_certificate, &user.client_key]
                .into_iter()
                .map(|path| fs::read(path.as_ref()?).ok())
                .collect();
        let headers: Vec<_> = config
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let proxy = self.proxy.as_ref().map(|proxy| {
            let authorization = proxy.authorization.as_ref().map(HeaderValue::as_bytes);
            json!([proxy.address.to_string(), authorization, proxy.login])
        });
        // A failure to write it down is as good as not knowing it.
        let user = serde_json::to_value(user).ok()?;
        let all: Value = json!({
            "server": config.cluster_url.to_string(),
            "name": config.tls_server_name,
            "insecure": config.accept_invalid_certs,
            "authorities": config.root_cert,
            "headers": headers,
            "proxy": proxy,
            "user": user,
            "files": files,
        });
        Some(all.to_string())
    }
}
