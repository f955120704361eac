//! Bearer tokens in the protocols of a WebSocket handshake: browsers cannot set other headers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::SEC_WEBSOCKET_PROTOCOL;

use crate::request::upgrade::is_upgrade;

/// The prefix of a protocol that contains a token.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns the token of a handshake. There must be one, next to at least one other protocol: the
/// one with the token is never sent back.
pub(crate) fn socket_token(headers: &HeaderMap) -> Option<String> {
    if !is_upgrade(headers) {
        return None;
    }
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered(headers).partition(|protocol| protocol.starts_with(PREFIX));
    let ([token], false) = (tokens.as_slice(), others.is_empty()) else {
        return None;
    };
    let decoded = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?;
    String::from_utf8(decoded).ok()
}

/// Returns the offered protocols except those with tokens.
pub fn protocols(headers: &HeaderMap) -> Vec<&str> {
    offered(headers)
        .filter(|protocol| !protocol.starts_with(PREFIX))
        .collect()
}

fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .filter(|value| !value.trim().is_empty())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{CONNECTION, UPGRADE};

    use super::*;

    fn headers(protocols: &str) -> HeaderMap {
        HeaderMap::from_iter([
            (CONNECTION, HeaderValue::from_static("Upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (SEC_WEBSOCKET_PROTOCOL, protocols.parse().unwrap()),
        ])
    }

    #[test]
    fn tokens_are_read_from_protocols() {
        for (protocols, token) in [
            (format!("{PREFIX}c2VjcmV0, a"), Some("secret")),
            (format!("a,{PREFIX}c2VjcmV0"), Some("secret")),
            (format!("{PREFIX}c2VjcmV0"), None),
            (format!("{PREFIX}c2VjcmV0, {PREFIX}c2VjcmV0, a"), None),
            (format!("{PREFIX}c2VjcmU=, a"), None),
            (format!("{PREFIX}!!!, a"), None),
            ("a".to_owned(), None),
        ] {
            let found = socket_token(&headers(&protocols));
            assert_eq!(found.as_deref(), token, "{protocols}");
        }
        let mut ordinary = headers(&format!("{PREFIX}c2VjcmV0, a"));
        ordinary.remove(UPGRADE);
        assert_eq!(socket_token(&ordinary), None);
    }

    #[test]
    fn tokens_are_not_sent_back() {
        let headers = headers(&format!("{PREFIX}c2VjcmV0, a, b"));
        assert_eq!(protocols(&headers), ["a", "b"]);
    }
}
