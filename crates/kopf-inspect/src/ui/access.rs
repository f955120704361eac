//! Access control: a random token, and checks of `Host` and `Origin`.
//!
//! Pages of other origins can send requests to the loopback interface. They lack the token, and
//! their `Origin` differs; with DNS rebinding, their `Host` differs.

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The header with the token.
pub(super) const TOKEN: &str = "x-kopf-token";

/// The token and the port of one server.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
    port: u16,
}

/// The reason to reject a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The `Host` is not a loopback address with this port.
    Host,
    /// The request comes from another page.
    Origin,
    /// The token is missing or wrong.
    Token,
}

impl Refusal {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Host => "the page is available at 127.0.0.1 only",
            Self::Origin => "cross-origin requests are rejected",
            Self::Token => "missing or invalid token: open the URL printed by `kopf ui`",
        }
    }
}

impl Access {
    /// Creates a random token of 128 bits.
    pub(super) fn new(port: u16) -> Result<Self, Unspecified> {
        let mut bytes = [0_u8; 16];
        SystemRandom::new().fill(&mut bytes)?;
        let mut token = String::new();
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self { token, port })
    }

    /// Returns the URL of the page.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Checks the `Host` and `Origin` of a request.
    pub(super) fn check_address(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name| {
            let value = headers.get(name).map(http::HeaderValue::to_str);
            value.map(|text| text.unwrap_or_default().to_owned())
        };
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !text(HOST).is_some_and(|host| hosts.contains(&host)) {
            return Err(Refusal::Host);
        }
        let is_own = |origin: &str| {
            let host = origin.strip_prefix("http://");
            host.is_some_and(|host| hosts.iter().any(|own| own == host))
        };
        match text(ORIGIN) {
            Some(origin) if !is_own(&origin) => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    /// Checks the token of a request, from the header or the query.
    pub(super) fn check_token(&self, given: Option<&str>) -> Result<(), Refusal> {
        let given = given.unwrap_or_default().as_bytes();
        let token = self.token.as_bytes();
        // Constant-time comparison.
        let difference = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
        if given.len() == token.len() && difference == 0 {
            Ok(())
        } else {
            Err(Refusal::Token)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: Option<&str>, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        headers
    }

    #[test]
    fn other_hosts_and_origins_are_rejected() {
        let access = Access::new(8080).unwrap();
        let check = |host, origin| access.check_address(&headers(host, origin));
        assert_eq!(check(Some("127.0.0.1:8080"), None), Ok(()));
        assert_eq!(
            check(Some("localhost:8080"), Some("http://localhost:8080")),
            Ok(())
        );
        assert_eq!(check(None, None), Err(Refusal::Host));
        assert_eq!(check(Some("127.0.0.1"), None), Err(Refusal::Host));
        assert_eq!(check(Some("evil.example:8080"), None), Err(Refusal::Host));
        for origin in [
            "http://evil.example",
            "https://127.0.0.1:8080",
            "null",
            "http://127.0.0.1:1",
        ] {
            assert_eq!(
                check(Some("127.0.0.1:8080"), Some(origin)),
                Err(Refusal::Origin)
            );
        }
    }

    #[test]
    fn wrong_tokens_are_rejected() {
        let access = Access::new(8080).unwrap();
        let token = access.url().rsplit('=').next().unwrap().to_owned();
        assert_eq!(token.len(), 32);
        assert_eq!(access.check_token(Some(&token)), Ok(()));
        let longer = format!("{token}0");
        let other = Access::new(8080).unwrap().token;
        for wrong in [
            None,
            Some(""),
            Some(&token[1..]),
            Some(&*longer),
            Some(&*other),
        ] {
            assert_eq!(access.check_token(wrong), Err(Refusal::Token));
        }
    }
}
