//! Conversion webhooks of CRDs: objects from one version of a resource to another.
//!
//! ```text
//! ConversionReview ─► steps: which handlers, in which order ─► (each is called) ─► accept ─► response
//! ClientConfig ─► strategy: spec.conversion of the CRD
//! ```
//!
//! Only `v1` of the review is supported: all servers that serve `apiextensions.k8s.io/v1` send it.

mod acceptance;
mod review;
mod route;

use serde_json::{Value, json};

pub use acceptance::{Unacceptable, accept};
pub use review::{ConversionReview, is_conversion};
pub use route::steps;

use crate::admission::{ClientConfig, addressed};

/// The end of the URL of conversions. All objects of all CRDs are sent there.
pub const PATH: &str = "convert";

/// Returns `spec.conversion` of a CRD whose objects are converted by this webhook server.
pub fn strategy(config: &ClientConfig) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": addressed(config, PATH),
            "conversionReviewVersions": ["v1"],
        },
    })
}

/// Returns the merge-patch of `spec.conversion` that ends the conversion by webhooks. The server then
/// only changes `apiVersion`.
pub fn no_strategy() -> Value {
    json!({"strategy": "None", "webhook": null})
}

/// Returns `true` if `spec.conversion` of a CRD is what [`strategy`] has returned. The server adds
/// defaults to it.
pub fn is_configured(conversion: &Value, desired: &Value) -> bool {
    match (conversion, desired) {
        (Value::Object(own), Value::Object(desired)) => desired
            .iter()
            .all(|(key, desired)| own.get(key).is_some_and(|own| is_configured(own, desired))),
        (own, desired) => own == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_with_the_path_of_conversions() {
        let config = ClientConfig {
            url: Some("https://a.b/root/".to_owned()),
            ..ClientConfig::default()
        };
        let strategy = strategy(&config);
        let address = &strategy["webhook"]["clientConfig"]["url"];
        assert_eq!(address, "https://a.b/root/convert");
    }

    #[test]
    fn defaults_of_the_server_are_not_differences() {
        let desired =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "x"}}}});
        let mut stored = desired.clone();
        stored["webhook"]["clientConfig"]["service"]["port"] = json!(443);
        assert!(is_configured(&stored, &desired));
        stored["webhook"]["clientConfig"]["service"]["name"] = json!("y");
        assert!(!is_configured(&stored, &desired));
        assert!(!is_configured(&json!({"strategy": "None"}), &desired));
    }
}
