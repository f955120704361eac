//! Node ports of services.

use std::collections::{BTreeMap, BTreeSet};

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value, json};

use super::pool::{Allocation, PORTS, Pool};
use super::{Failure, kind};

/// Returns `true` if services of this type have node ports.
pub(super) fn has_node_ports(spec: &Map<String, Value>) -> bool {
    matches!(kind(spec), "NodePort" | "LoadBalancer")
}

/// Returns `true` if ports without a node port get one.
fn gets_node_ports(spec: &Map<String, Value>) -> bool {
    match kind(spec) {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&json!(false)),
        _ => false,
    }
}

/// Returns `true` if the service has a health check node port.
fn has_health_port(spec: &Map<String, Value>) -> bool {
    kind(spec) == "LoadBalancer" && spec.get("externalTrafficPolicy") == Some(&json!("Local"))
}

/// Carries node ports over to ports that omit them, and drops those that the type does not have.
pub(super) fn carry_over(spec: &mut Map<String, Value>, old: &Map<String, Value>) {
    let known = |port: &Value| (port.get("protocol").cloned(), port.get("port").cloned());
    let before: Vec<Value> = list(old).cloned().collect();
    let was_unchanged = list(spec).all(|port| {
        let node_port = node_port(port);
        node_port == 0 || before.iter().any(|old| self::node_port(old) == node_port)
    });
    let (had, has) = (has_node_ports(old), has_node_ports(spec));
    for port in list_mut(spec) {
        if had && has && node_port(port) == 0 {
            let same = before.iter().find(|old| known(old) == known(port));
            let carried = same.map(node_port).filter(|number| *number != 0);
            if let (Some(number), Some(port)) = (carried, port.as_object_mut()) {
                port.insert("nodePort".to_owned(), json!(number));
            }
        } else if had
            && !has
            && was_unchanged
            && let Some(port) = port.as_object_mut()
        {
            port.remove("nodePort");
        }
    }
    match (has_health_port(old), has_health_port(spec)) {
        (true, true) if number(spec.get("healthCheckNodePort")) == 0 => {
            super::copy(spec, old, "healthCheckNodePort");
        }
        (true, false) if spec.get("healthCheckNodePort") == old.get("healthCheckNodePort") => {
            spec.remove("healthCheckNodePort");
        }
        _ => {}
    }
}

/// Assigns missing node ports, and validates the given ones.
pub(super) fn assign(
    spec: &mut Map<String, Value>,
    own: &Allocation,
    pool: &mut Pool,
) -> Result<BTreeSet<u16>, Failure> {
    let mut ports = BTreeSet::new();
    if !has_node_ports(spec) {
        return Ok(ports);
    }
    for (at, port) in list(spec).enumerate() {
        let given = node_port(port);
        if given != 0 {
            ports.insert(checked(
                given,
                &format!("spec.ports[{at}].nodePort"),
                own,
                pool,
            )?);
        }
    }
    if gets_node_ports(spec) {
        assign_missing(spec, &mut ports, pool)?;
    }
    if has_health_port(spec) {
        let port = match number(spec.get("healthCheckNodePort")) {
            0 => next(&ports, pool)?,
            given => checked(given, "spec.healthCheckNodePort", own, pool)?,
        };
        spec.insert("healthCheckNodePort".to_owned(), json!(port));
        ports.insert(port);
    }
    Ok(ports)
}

/// Assigns missing node ports. The same port of several protocols gets the same node port.
fn assign_missing(
    spec: &mut Map<String, Value>,
    ports: &mut BTreeSet<u16>,
    pool: &mut Pool,
) -> Result<(), Failure> {
    let mut by_port: BTreeMap<u64, u16> = list(spec)
        .filter(|port| node_port(port) != 0)
        .filter_map(|port| {
            Some((
                number(port.get("port")),
                u16::try_from(node_port(port)).ok()?,
            ))
        })
        .collect();
    for port in list_mut(spec).filter(|port| node_port(port) == 0) {
        let number = number(port.get("port"));
        let assigned = match by_port.get(&number) {
            Some(assigned) => *assigned,
            None => next(ports, pool)?,
        };
        by_port.insert(number, assigned);
        ports.insert(assigned);
        if let Some(port) = port.as_object_mut() {
            port.insert("nodePort".to_owned(), json!(assigned));
        }
    }
    Ok(())
}

fn next(besides: &BTreeSet<u16>, pool: &mut Pool) -> Result<u16, Failure> {
    let free = pool.free_port(besides);
    free.ok_or_else(|| Failure::Internal("failed to allocate a nodePort: range is full".to_owned()))
}

/// Validates a port that the client has chosen.
fn checked(given: u64, field: &str, own: &Allocation, pool: &Pool) -> Result<u16, Failure> {
    let invalid =
        |why: &str| Failure::Invalid(vec![FieldError::invalid(field, &json!(given), why)]);
    match u16::try_from(given) {
        Ok(port) if own.ports.contains(&port) => Ok(port),
        Ok(port) if PORTS.contains(&port) && !pool.has_port(port) => Ok(port),
        Ok(port) if PORTS.contains(&port) => Err(invalid("provided port is already allocated")),
        _ => Err(invalid(&format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            PORTS.start(),
            PORTS.end()
        ))),
    }
}

fn list(spec: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let ports = spec.get("ports").and_then(Value::as_array);
    ports.into_iter().flatten()
}

fn list_mut(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    ports.into_iter().flatten()
}

fn node_port(port: &Value) -> u64 {
    number(port.get("nodePort"))
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or(0)
}
