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

/// Returns the merge-patch of `spec.conversion` of a CRD whose objects are converted by this webhook
/// server. It removes an earlier address: API servers accept either a URL or a Service.
pub fn strategy(config: &ClientConfig) -> Value {
    let config = addressed(config, PATH);
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "url": config.url,
                "service": config.service,
                "caBundle": config.ca_bundle,
            },
            "conversionReviewVersions": ["v1"],
        },
    })
}

/// Returns the merge-patch of `spec.conversion` that ends the conversion by webhooks. The server then
/// only changes `apiVersion`.
pub fn no_strategy() -> Value {
    json!({"strategy": "None", "webhook": null})
}

/// Returns `true` if `spec.conversion` of a CRD is the result of the patch of [`strategy`]. The server adds
/// defaults to it.
pub fn is_configured(conversion: &Value, desired: &Value) -> bool {
    match (conversion, desired) {
        (Value::Object(own), Value::Object(desired)) => desired.iter().all(|(key, desired)| {
            let own = own.get(key).unwrap_or(&Value::Null);
            is_configured(own, desired)
        }),
        (own, desired) => own == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::ServiceReference;

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

    #[test]
    fn earlier_addresses_are_removed() {
        let by_url = ClientConfig {
            url: Some("https://a.b".to_owned()),
            ca_bundle: Some("Zm9v".to_owned()),
            ..ClientConfig::default()
        };
        let by_service = ClientConfig {
            service: Some(ServiceReference::new("op", 443, "ops").unwrap()),
            ..ClientConfig::default()
        };
        for (earlier, later) in [(&by_url, &by_service), (&by_service, &by_url)] {
            let mut conversion = json!({"strategy": "None"});
            let mut patched = |config| {
                let desired = strategy(config);
                json_patch::merge(&mut conversion, &desired);
                assert!(is_configured(&conversion, &desired), "{conversion}");
                conversion.clone()
            };
            let before = patched(earlier);
            let after = patched(later);
            assert!(!is_configured(&before, &strategy(later)), "{before}");
            let addresses = after["webhook"]["clientConfig"].as_object().unwrap();
            let ends = ["url", "service"].map(|key| addresses.contains_key(key));
            assert_eq!(
                ends.iter().filter(|is_there| **is_there).count(),
                1,
                "{after}"
            );
        }
    }
}
