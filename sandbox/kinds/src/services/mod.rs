//! Cluster IPs, IP families and node ports of services.

mod families;
pub mod pool;
mod ports;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value, json};

use self::pool::{Allocation, Pool};

const NONE: &str = "None";

/// The reason why a service gets no addresses or ports.
#[derive(Debug)]
pub enum Failure {
    Invalid(Vec<FieldError>),
    /// The range is exhausted.
    Internal(String),
}

/// Carries over fields that an update omits, and drops those that its type does not have.
pub fn carry_over(spec: &mut Map<String, Value>, old: &Map<String, Value>) {
    let same = |spec: &Map<String, Value>, field: &str| spec.get(field) == old.get(field);
    if has_addresses(old) && has_addresses(spec) {
        // Clients that support only one of the two fields omit the other one.
        if is_empty(spec, "clusterIP") && is_empty(spec, "clusterIPs") {
            copy(spec, old, "clusterIP");
            copy(spec, old, "clusterIPs");
        } else if is_empty(spec, "clusterIP") {
            let first = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned();
            spec.insert("clusterIP".to_owned(), first.unwrap_or_default());
        } else if is_empty(spec, "clusterIPs") && same(spec, "clusterIP") {
            copy(spec, old, "clusterIPs");
        } else if !same(spec, "clusterIP") && same(spec, "clusterIPs") {
            let changed = spec.get("clusterIP").cloned().unwrap_or_default();
            spec.insert("clusterIPs".to_owned(), json!([changed]));
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if is_empty(spec, field) {
                copy(spec, old, field);
            }
        }
    }
    if has_addresses(old) && !has_addresses(spec) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if kind(old) == "LoadBalancer" && kind(spec) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if ports::has_node_ports(old)
        && !ports::has_node_ports(spec)
        && same(spec, "externalTrafficPolicy")
    {
        spec.remove("externalTrafficPolicy");
    }
    ports::carry_over(spec, old);
}

/// Assigns addresses and ports; `own` are those that the service has. Returns all of them.
pub fn assign(
    spec: &mut Map<String, Value>,
    own: &Allocation,
    pool: &mut Pool,
) -> Result<Allocation, Failure> {
    let mut allocation = Allocation::default();
    if has_addresses(spec) {
        assign_families(spec);
        families::check(spec).map_err(Failure::Invalid)?;
        allocation.addresses = assign_addresses(spec, own, pool)?;
    }
    allocation.ports = ports::assign(spec, own, pool)?;
    Ok(allocation)
}

fn kind(spec: &Map<String, Value>) -> &str {
    let kind = spec.get("type").and_then(Value::as_str);
    kind.unwrap_or("ClusterIP")
}

fn has_addresses(spec: &Map<String, Value>) -> bool {
    kind(spec) != "ExternalName"
}

fn is_empty(spec: &Map<String, Value>, field: &str) -> bool {
    match spec.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    }
}

fn copy(spec: &mut Map<String, Value>, old: &Map<String, Value>, field: &str) {
    if let Some(value) = old.get(field) {
        spec.insert(field.to_owned(), value.clone());
    }
}

/// Sets both forms of the cluster IP, the families and their policy. Only IPv4 is supported.
fn assign_families(spec: &mut Map<String, Value>) {
    if is_empty(spec, "clusterIPs") && !is_empty(spec, "clusterIP") {
        let one = spec.get("clusterIP").cloned().unwrap_or_default();
        spec.insert("clusterIPs".to_owned(), json!([one]));
    } else if is_empty(spec, "clusterIP")
        && let Some(first) = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned()
    {
        spec.insert("clusterIP".to_owned(), first);
    }
    let headless = spec.get("clusterIP").and_then(Value::as_str) == Some(NONE);
    let selector = spec.get("selector").and_then(Value::as_object);
    let manual = headless && selector.is_none_or(Map::is_empty);
    if is_empty(spec, "ipFamilyPolicy") {
        let policy = if manual {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        spec.insert("ipFamilyPolicy".to_owned(), json!(policy));
    }
    if is_empty(spec, "ipFamilies") {
        let dual = manual && spec.get("ipFamilyPolicy") != Some(&json!("SingleStack"));
        let family = |address: &Value| match address.as_str().map(str::parse::<IpAddr>) {
            Some(Ok(IpAddr::V6(_))) => "IPv6",
            _ => "IPv4",
        };
        let given = spec.get("clusterIPs").and_then(Value::as_array);
        let families: Vec<&str> = match given {
            _ if dual => vec!["IPv4", "IPv6"],
            Some(given) if !headless => given.iter().map(family).collect(),
            _ => vec!["IPv4"],
        };
        spec.insert("ipFamilies".to_owned(), json!(families));
    }
}

fn assign_addresses(
    spec: &mut Map<String, Value>,
    own: &Allocation,
    pool: &mut Pool,
) -> Result<BTreeSet<Ipv4Addr>, Failure> {
    if is_empty(spec, "clusterIPs") {
        let free = pool.free_address().ok_or_else(|| {
            Failure::Internal("failed to allocate a serviceIP: range is full".to_owned())
        })?;
        spec.insert("clusterIP".to_owned(), json!(free));
        spec.insert("clusterIPs".to_owned(), json!([free]));
        return Ok(BTreeSet::from([free]));
    }
    let given = spec.get("clusterIPs").cloned().unwrap_or_default();
    let texts = given.as_array().into_iter().flatten();
    let mut addresses = BTreeSet::new();
    for text in texts.filter_map(Value::as_str).filter(|text| *text != NONE) {
        // Addresses of other ranges are ignored: they come from dumps of other clusters.
        let Ok(address) = text.parse::<Ipv4Addr>() else {
            continue;
        };
        if pool.has_address(address) && !own.addresses.contains(&address) {
            let why = format!("failed to allocate IP {text}: provided IP is already allocated");
            let error = FieldError::invalid("spec.clusterIPs", &given, &why);
            return Err(Failure::Invalid(vec![error]));
        }
        addresses.insert(address);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;
