//! IP families of services. Like the control plane of the tests, the sandbox has only IPv4.

use std::net::IpAddr;

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::NONE;

/// Rejects families that the cluster does not have. Services with given addresses of the family are
/// accepted, because dumps of other clusters contain them, and so are headless services without a
/// selector.
pub(super) fn check(spec: &Map<String, Value>) -> Result<(), Vec<FieldError>> {
    let list = |name: &str| {
        let list = spec.get(name).and_then(Value::as_array);
        list.map_or(&[] as &[Value], Vec::as_slice)
    };
    let (addresses, families) = (list("clusterIPs"), list("ipFamilies"));
    let headless = addresses.first().is_some_and(|first| first == NONE);
    let selector = spec.get("selector").and_then(Value::as_object);
    if headless && selector.is_none_or(Map::is_empty) {
        return Ok(());
    }
    let mut errors = mismatches(addresses, families);
    if !errors.is_empty() {
        return Err(errors);
    }
    let policy = spec.get("ipFamilyPolicy").cloned().unwrap_or_default();
    if policy == "SingleStack" && families.len() == 2 && addresses.len() < 2 {
        let why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        let error = FieldError::invalid("spec.ipFamilyPolicy", &policy, why);
        return Err(vec![error]);
    }
    if policy == "RequireDualStack" && addresses.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
    }
    for (at, family) in families.iter().enumerate() {
        let given = addresses.get(at).is_some_and(|address| address != NONE);
        if *family == json!("IPv6") && !given {
            let why = "not configured on this cluster";
            let at = format!("spec.ipFamilies[{at}]");
            errors.push(FieldError::invalid(at, family, why));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Compares the addresses of a service with its families.
fn mismatches(addresses: &[Value], families: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, (address, family)) in addresses.iter().zip(families).enumerate() {
        let parsed = address.as_str().and_then(|text| text.parse().ok());
        let expected = match (family.as_str(), parsed) {
            (Some("IPv4"), Some(IpAddr::V6(_))) => "IPv4",
            (Some("IPv6"), Some(IpAddr::V4(_))) => "IPv6",
            _ => continue,
        };
        let why = format!("expected an {expected} value as indicated by `ipFamilies[{at}]`");
        let at = format!("spec.clusterIPs[{at}]");
        errors.push(FieldError::invalid(at, address, &why));
    }
    errors
}
