//! Fingerprints of credentials, to recognise rejected ones when they are retrieved again.

use std::fs;

use http::header::HeaderValue;
use serde_json::{Value, json};

use super::stack::Target;

impl Target {
    /// Returns everything that is sent and trusted as text, with the current contents of files.
    /// `None` if a plugin or a token provider decides at each run.
    ///
    /// The text contains secrets and is used only for comparisons.
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
        // Without a fingerprint, rejected credentials are tried again.
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
