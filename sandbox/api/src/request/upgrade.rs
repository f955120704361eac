//! Upgrades of connections to WebSockets.

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName, UPGRADE};

/// Returns `true` if the headers ask for a WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket")
}

/// Returns `true` if a header contains a token in its comma-separated lists.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(token))
}
