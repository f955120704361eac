//! Limit ranges: default resources of containers, and bounds for containers, pods and volume claims.

use std::collections::BTreeMap;

use kopf_sandbox_schema::typing::quantity;
use serde_json::{Value, json};

use super::{Rejected, child, items, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the default requests and limits of the containers of a new pod.
pub fn apply(pod: &mut Value, ranges: &[Value]) {
    for range in ranges {
        let mut defaults = Defaults::default();
        for limit in
            items(range, "/spec/limits").filter(|limit| text(limit, "/type") == "Container")
        {
            defaults.requests.extend(amounts(limit, "/defaultRequest"));
            defaults.limits.extend(amounts(limit, "/default"));
        }
        let mut notes = Vec::new();
        for (field, title) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            let containers = pod.pointer_mut(&format!("/spec/{field}"));
            for container in containers
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                notes.extend(defaults.complete(container, title));
            }
        }
        if !notes.is_empty()
            && let Some(metadata) = child(pod, "metadata")
        {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations[ANNOTATION] = json!(note);
        }
    }
}

#[derive(Default)]
struct Defaults {
    requests: BTreeMap<String, Value>,
    limits: BTreeMap<String, Value>,
}

impl Defaults {
    /// Sets the defaults of a container. Returns the changes, for the annotation.
    fn complete(&self, container: &mut Value, title: &str) -> Vec<String> {
        let name = container_name(container);
        let mut notes = Vec::new();
        let Some(resources) = child(container, "resources") else {
            return notes;
        };
        for (field, word, defaults) in [
            ("requests", "request", &self.requests),
            ("limits", "limit", &self.limits),
        ] {
            let mut set = Vec::new();
            for (resource, amount) in defaults {
                let present = resources.entry(field).or_insert_with(|| json!({}));
                if present.get(resource).is_none() {
                    present[resource] = amount.clone();
                    set.push(resource.as_str());
                }
            }
            if !set.is_empty() {
                notes.push(format!("{} {word} for {title} {name}", set.join(", ")));
            }
        }
        notes
    }
}

fn container_name(container: &Value) -> String {
    text(container, "/name").to_owned()
}

fn amounts(of: &Value, pointer: &str) -> impl Iterator<Item = (String, Value)> {
    let map = of.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(name, amount)| (name.clone(), amount.clone()))
}

/// Checks a pod against the limit ranges of its namespace.
pub fn check_pod(pod: &Value, ranges: &[Value]) -> Result<(), Rejected> {
    first_range(ranges, |limit| match text(limit, "/type") {
        "Container" => ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .flat_map(|field| items(pod, field))
            .flat_map(|container| {
                let used = Used {
                    requests: list(container, "/resources/requests"),
                    limits: list(container, "/resources/limits"),
                };
                used.problems(limit, "Container")
            })
            .collect(),
        "Pod" => {
            let used = Used {
                requests: total(pod, "requests"),
                limits: total(pod, "limits"),
            };
            used.problems(limit, "Pod")
        }
        _ => Vec::new(),
    })
}

/// Checks a volume claim against the limit ranges of its namespace.
pub fn check_claim(claim: &Value, ranges: &[Value]) -> Result<(), Rejected> {
    let requests = list(claim, "/spec/resources/requests");
    first_range(ranges, |limit| {
        let title = "PersistentVolumeClaim";
        if text(limit, "/type") != title {
            return Vec::new();
        }
        let used = Used {
            requests: requests.clone(),
            limits: Amounts::new(),
        };
        let mut problems = Vec::new();
        for (resource, bound) in list(limit, "/min") {
            problems.extend(used.below(&resource, &bound, title));
        }
        for (resource, bound) in list(limit, "/max") {
            problems.extend(used.request_above(&resource, &bound, title));
        }
        problems
    })
}

/// Returns the errors of the first violated range, joined as by a real server.
fn first_range(ranges: &[Value], problems: impl Fn(&Value) -> Vec<String>) -> Result<(), Rejected> {
    for range in ranges {
        let mut found: Vec<String> = Vec::new();
        for problem in items(range, "/spec/limits").flat_map(&problems) {
            if !found.contains(&problem) {
                found.push(problem);
            }
        }
        match found.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            several => return Err(format!("[{}]", several.join(", "))),
        }
    }
    Ok(())
}

/// Amounts by resource name: as written, and in billionths.
pub(super) type Amounts = BTreeMap<String, Amount>;

#[derive(Debug, Clone)]
pub(super) struct Amount {
    pub(super) shown: String,
    pub(super) nanos: i128,
}

impl Amount {
    fn read(value: &Value) -> Option<Self> {
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let nanos = quantity::nanos(&shown)?;
        Some(Self { shown, nanos })
    }
}

pub(super) fn list(of: &Value, pointer: &str) -> Amounts {
    amounts(of, pointer)
        .filter_map(|(name, value)| Some((name, Amount::read(&value)?)))
        .collect()
}

/// Requests and limits of a container or of a whole pod.
struct Used {
    requests: Amounts,
    limits: Amounts,
}

impl Used {
    fn problems(&self, limit: &Value, title: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (resource, bound) in list(limit, "/min") {
            problems.extend(self.below(&resource, &bound, title));
        }
        for (resource, bound) in list(limit, "/max") {
            problems.extend(self.above(&resource, &bound, title));
        }
        for (resource, bound) in list(limit, "/maxLimitRequestRatio") {
            problems.extend(self.ratio(&resource, &bound, title));
        }
        problems
    }

    fn below(&self, resource: &str, bound: &Amount, title: &str) -> Option<String> {
        let start = format!("minimum {resource} usage per {title} is {}", bound.shown);
        let Some(request) = self.requests.get(resource) else {
            return Some(format!("{start}.  No request is specified"));
        };
        if request.nanos < bound.nanos {
            return Some(format!("{start}, but request is {}", request.shown));
        }
        let limit = self.limits.get(resource)?;
        (limit.nanos < bound.nanos).then(|| format!("{start}, but limit is {}", limit.shown))
    }

    fn above(&self, resource: &str, bound: &Amount, title: &str) -> Option<String> {
        let start = format!("maximum {resource} usage per {title} is {}", bound.shown);
        let Some(limit) = self.limits.get(resource) else {
            return Some(format!("{start}.  No limit is specified"));
        };
        if limit.nanos > bound.nanos {
            return Some(format!("{start}, but limit is {}", limit.shown));
        }
        let request = self.requests.get(resource)?;
        (request.nanos > bound.nanos).then(|| format!("{start}, but request is {}", request.shown))
    }

    fn request_above(&self, resource: &str, bound: &Amount, title: &str) -> Option<String> {
        let start = format!("maximum {resource} usage per {title} is {}", bound.shown);
        let Some(request) = self.requests.get(resource) else {
            return Some(format!("{start}.  No request is specified"));
        };
        (request.nanos > bound.nanos).then(|| format!("{start}, but request is {}", request.shown))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "an approximate ratio, as on the real server"
    )]
    fn ratio(&self, resource: &str, bound: &Amount, title: &str) -> Option<String> {
        let start = format!(
            "{resource} max limit to request ratio per {title} is {}",
            bound.shown
        );
        let given = |amounts: &Amounts| {
            amounts
                .get(resource)
                .map(|it| it.nanos)
                .filter(|it| *it != 0)
        };
        let Some(request) = given(&self.requests) else {
            return Some(format!(
                "{start}, but no request is specified or request is 0"
            ));
        };
        let Some(limit) = given(&self.limits) else {
            return Some(format!("{start}, but no limit is specified or limit is 0"));
        };
        let ratio = limit as f64 / request as f64;
        let most = bound.nanos as f64 / 1e9;
        (ratio > most).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
    }
}

/// Returns the requests or limits of a whole pod: the sum of its containers, and at least the need
/// of any init container with the sidecars started before it.
pub(super) fn total(pod: &Value, field: &str) -> Amounts {
    let pointer = format!("/resources/{field}");
    let mut total = Amounts::new();
    for container in items(pod, "/spec/containers") {
        add(&mut total, &list(container, &pointer));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in items(pod, "/spec/initContainers") {
        let own = list(container, &pointer);
        let mut needed = sidecars.clone();
        add(&mut needed, &own);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut total, &own);
            sidecars = needed.clone();
        }
        raise(&mut most, needed);
    }
    raise(&mut total, most);
    for (name, amount) in list(pod, &format!("/spec/resources/{field}")) {
        if matches!(&*name, "cpu" | "memory") {
            total.insert(name, amount);
        }
    }
    total
}

pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => {
                sum.nanos = sum.nanos.saturating_add(amount.nanos);
                sum.shown = quantity::shown_like(sum.nanos, &sum.shown);
            }
            None => {
                to.insert(name.clone(), amount.clone());
            }
        }
    }
}

fn raise(to: &mut Amounts, others: Amounts) {
    for (name, amount) in others {
        if to
            .get(&name)
            .is_none_or(|present| present.nanos < amount.nanos)
        {
            to.insert(name, amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Value {
        json!({ "spec": { "limits": [{
            "type": "Container",
            "min": { "cpu": "50m" },
            "max": { "cpu": "500m" },
            "default": { "cpu": "500m", "memory": "500Mi" },
            "defaultRequest": { "cpu": "100m" },
        }] } })
    }

    fn pod(resources: &Value) -> Value {
        json!({ "metadata": {}, "spec": { "containers": [{ "name": "c", "resources": resources }] } })
    }

    #[test]
    fn missing_resources_are_defaulted() {
        let mut pod = pod(&json!({ "limits": { "cpu": "300m" }, "requests": { "cpu": "300m" } }));
        apply(&mut pod, &[range()]);
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(
            resources["limits"],
            json!({ "cpu": "300m", "memory": "500Mi" })
        );
        assert_eq!(resources["requests"], json!({ "cpu": "300m" }));
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: memory limit for container c"
        );
    }

    #[test]
    fn containers_out_of_bounds_are_rejected() {
        let check = |cpu: &str| {
            let amounts = json!({ "cpu": cpu });
            check_pod(
                &pod(&json!({ "requests": amounts, "limits": amounts })),
                &[range()],
            )
        };
        assert_eq!(check("0.1"), Ok(()));
        assert_eq!(
            check("10m").unwrap_err(),
            "minimum cpu usage per Container is 50m, but request is 10m"
        );
        assert_eq!(
            check("1").unwrap_err(),
            "maximum cpu usage per Container is 500m, but limit is 1"
        );
    }

    #[test]
    fn pods_are_bounded_as_a_whole() {
        let range =
            json!({ "spec": { "limits": [{ "type": "Pod", "max": { "memory": "1Gi" } }] } });
        let container = json!({ "resources": { "limits": { "memory": "600Mi" } } });
        let two = json!({ "spec": { "containers": [container, container] } });
        assert_eq!(
            check_pod(&two, std::slice::from_ref(&range)).unwrap_err(),
            "maximum memory usage per Pod is 1Gi, but limit is 1200Mi"
        );
        let one_after_another =
            json!({ "spec": { "containers": [container], "initContainers": [container] } });
        assert_eq!(check_pod(&one_after_another, &[range]), Ok(()));
    }

    #[test]
    fn claims_are_bounded_by_their_requests() {
        let range = json!({ "spec": { "limits": [{
            "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" },
        }] } });
        let check = |storage: &str| {
            let claim = json!({ "spec": { "resources": { "requests": { "storage": storage } } } });
            check_claim(&claim, std::slice::from_ref(&range))
        };
        assert_eq!(check("1536Mi"), Ok(()));
        assert!(check("512Mi").is_err());
        assert!(check("3Gi").is_err());
    }
}
