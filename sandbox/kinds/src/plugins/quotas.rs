//! Resource quotas: limits for the objects of a namespace and for the resources of its pods and
//! claims.

use std::collections::{BTreeMap, BTreeSet};

use kopf_sandbox_schema::typing::quantity;
use serde_json::{Value, json};

use super::limit_ranges::{Amount, Amounts, list};
use super::scopes::Scope;
use super::usage;
use super::{Rejected, items, text};

/// Resources that every container must specify if a quota limits them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

/// An object of a namespace with quotas. The collection is `GROUP/PLURAL`.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    pub collection: &'a str,
    pub object: &'a Value,
}

impl Counted<'_> {
    fn is_pod(self) -> bool {
        self.collection == "/pods"
    }

    fn usage(self) -> Amounts {
        usage::of(self.collection, self.object)
    }
}

/// A stored resource quota.
#[derive(Debug)]
pub struct Quota {
    name: String,
    hard: Amounts,
    used: Amounts,
    scopes: Vec<Scope>,
}

impl Quota {
    /// Reads a quota.
    pub fn read(quota: &Value) -> Self {
        Self {
            name: text(quota, "/metadata/name").to_owned(),
            hard: list(quota, "/spec/hard"),
            used: list(quota, "/status/used"),
            scopes: Scope::all(quota),
        }
    }

    /// Returns the collections whose objects the quota counts.
    pub fn collections(&self) -> BTreeSet<String> {
        let names = self.hard.keys();
        names.map(|name| usage::collection_of(name)).collect()
    }

    /// Sets the usage to zero.
    pub fn reset(&mut self) {
        let none = Amount {
            shown: "0".to_owned(),
            nanos: 0,
        };
        let names = self.hard.keys();
        self.used = names.map(|name| (name.clone(), none.clone())).collect();
    }

    /// Counts the change of an object from one state to another. `None` is an absent object.
    pub fn count(&mut self, before: Option<Counted<'_>>, after: Option<Counted<'_>>) {
        for (state, sign) in [(before, -1), (after, 1)] {
            let Some(state) = state.filter(|state| self.covers(*state)) else {
                continue;
            };
            for (name, amount) in state.usage() {
                if let Some(used) = self.used.get_mut(&name) {
                    add(used, &amount, sign);
                }
            }
        }
    }

    /// Returns the status of the quota.
    pub fn status(&self) -> Value {
        json!({ "hard": shown(&self.hard), "used": shown(&self.used) })
    }

    /// Returns `true` if an object is in all scopes of the quota.
    fn covers(&self, state: Counted<'_>) -> bool {
        // Scopes select pods: a quota with scopes counts no other objects.
        self.scopes
            .iter()
            .all(|scope| state.is_pod() && scope.matches(state.object))
    }

    /// Checks that the containers of a new pod specify the limited resources.
    fn check_specified(&self, pod: &Value) -> Result<(), Rejected> {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        if !usage::of_container(spec).is_empty() {
            return Ok(()); // resources at pod level replace those of containers
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in ["/spec/containers", "/spec/initContainers"]
            .into_iter()
            .flat_map(|field| items(pod, field))
        {
            let specified = usage::of_container(container);
            for name in REQUIRED {
                if self.hard.contains_key(name) && !specified.contains_key(name) {
                    let containers = missing.entry(name).or_default();
                    containers.insert(text(container, "/name"));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing
            .into_iter()
            .map(|(name, containers)| {
                let containers: Vec<&str> = containers.into_iter().collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        let (quota, missing) = (&self.name, missing.join("; "));
        Err(format!("failed quota: {quota}: must specify {missing}"))
    }

    /// Checks that an additional usage does not exceed the quota.
    fn check_left(&self, more: &Amounts) -> Result<(), Rejected> {
        let (mut requested, mut used, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (name, amount) in more {
            let Some(hard) = self.hard.get(name) else {
                continue;
            };
            let present = self.used.get(name);
            let nanos = present.map_or(0, |present| present.nanos);
            if nanos.saturating_add(amount.nanos) > hard.nanos {
                let present = present.map_or("0", |present| &present.shown);
                requested.push(format!("{name}={}", amount.shown));
                used.push(format!("{name}={present}"));
                limited.push(format!("{name}={}", hard.shown));
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            requested.join(","),
            used.join(","),
            limited.join(",")
        ))
    }
}

/// Checks a write against the quotas of its namespace.
pub fn check(
    quotas: &[Quota],
    before: Option<Counted<'_>>,
    after: Counted<'_>,
) -> Result<(), Rejected> {
    let covering = || quotas.iter().filter(|quota| quota.covers(after));
    if before.is_none() && after.is_pod() {
        for quota in covering() {
            quota.check_specified(after.object)?;
        }
    }
    covering().try_for_each(|quota| {
        // An update can move a pod into the scope of a quota: then its whole usage is added.
        let before = before.filter(|before| quota.covers(*before));
        quota.check_left(&increase(before, after))
    })
}

/// Returns the usage that is added by a write.
fn increase(before: Option<Counted<'_>>, after: Counted<'_>) -> Amounts {
    let present = before.map(Counted::usage).unwrap_or_default();
    let usage = after.usage().into_iter();
    usage
        .filter_map(|(name, mut amount)| {
            if let Some(present) = present.get(&name) {
                add(&mut amount, present, -1);
            }
            (amount.nanos > 0).then_some((name, amount))
        })
        .collect()
}

fn add(to: &mut Amount, amount: &Amount, sign: i128) {
    // Zero has no suffix, so the sum takes the format of the other amount.
    let format = if to.nanos == 0 { amount } else { &*to };
    let nanos = to.nanos.saturating_add(amount.nanos.saturating_mul(sign));
    to.shown = quantity::shown_like(nanos, &format.shown);
    to.nanos = nanos;
}

fn shown(amounts: &Amounts) -> Value {
    let shown = amounts
        .iter()
        .map(|(name, amount)| (name.clone(), json!(amount.shown)));
    Value::Object(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(hard: &Value, used: &Value) -> Quota {
        Quota::read(&json!({
            "metadata": { "name": "q" }, "spec": { "hard": hard }, "status": { "used": used },
        }))
    }

    fn pod(requests: &Value) -> Value {
        json!({ "spec": { "containers": [{ "name": "main", "resources": { "requests": requests } }] } })
    }

    fn counted<'a>(collection: &'a str, object: &'a Value) -> Counted<'a> {
        Counted { collection, object }
    }

    #[test]
    fn exceeded_resources_are_named_with_their_amounts() {
        let quota = quota(
            &json!({ "pods": "2", "requests.cpu": "1", "requests.memory": "1Gi" }),
            &json!({ "pods": "2", "requests.cpu": "700m", "requests.memory": "512Mi" }),
        );
        let pod = pod(&json!({ "cpu": "500m", "memory": "512Mi" }));
        let refused = check(&[quota], None, counted("/pods", &pod)).unwrap_err();
        assert_eq!(
            refused,
            "exceeded quota: q, requested: pods=1,requests.cpu=500m, \
             used: pods=2,requests.cpu=700m, limited: pods=2,requests.cpu=1"
        );
    }

    #[test]
    fn limited_resources_must_be_specified() {
        let quota = quota(
            &json!({ "limits.memory": "1Gi", "requests.cpu": "1" }),
            &json!({}),
        );
        let pod = pod(&json!({ "cpu": "500m" }));
        let refused = check(&[quota], None, counted("/pods", &pod)).unwrap_err();
        assert_eq!(
            refused,
            "failed quota: q: must specify limits.memory for: main"
        );
    }

    #[test]
    fn updates_are_checked_by_their_difference() {
        let claim = |storage: &str| json!({ "spec": { "resources": { "requests": { "storage": storage } } } });
        let check = |storage: &str| {
            let quota = quota(
                &json!({ "requests.storage": "3Gi", "persistentvolumeclaims": "1" }),
                &json!({ "requests.storage": "2Gi", "persistentvolumeclaims": "1" }),
            );
            let (before, after) = (claim("2Gi"), claim(storage));
            let at = "/persistentvolumeclaims";
            super::check(&[quota], Some(counted(at, &before)), counted(at, &after))
        };
        assert_eq!(check("3Gi"), Ok(()));
        assert_eq!(check("1Gi"), Ok(()));
        assert_eq!(
            check("4Gi").unwrap_err(),
            "exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, \
             limited: requests.storage=3Gi"
        );
    }

    #[test]
    fn usage_follows_the_objects() {
        let mut quota = quota(
            &json!({ "pods": "9", "requests.memory": "4Gi", "count/secrets": "1" }),
            &json!({}),
        );
        quota.reset();
        let (one, other) = (
            pod(&json!({ "memory": "1Gi" })),
            pod(&json!({ "memory": "512Mi" })),
        );
        quota.count(None, Some(counted("/pods", &one)));
        quota.count(None, Some(counted("/pods", &other)));
        assert_eq!(
            quota.status()["used"],
            json!({ "count/secrets": "0", "pods": "2", "requests.memory": "1536Mi" })
        );
        quota.count(Some(counted("/pods", &one)), None);
        quota.count(Some(counted("/pods", &other)), None);
        assert_eq!(
            quota.status()["used"],
            json!({ "count/secrets": "0", "pods": "0", "requests.memory": "0" })
        );
    }

    #[test]
    fn quotas_with_scopes_count_pods_only() {
        let mut quota = Quota::read(&json!({ "spec": {
            "hard": { "pods": "1", "count/secrets": "1" }, "scopes": ["BestEffort"],
        } }));
        quota.reset();
        let (secret, plain) = (json!({}), pod(&json!({})));
        let sized = pod(&json!({ "cpu": "1" }));
        quota.count(None, Some(counted("/secrets", &secret)));
        quota.count(None, Some(counted("/pods", &plain)));
        quota.count(None, Some(counted("/pods", &sized)));
        let used = json!({ "count/secrets": "0", "pods": "1" });
        assert_eq!(quota.status()["used"], used);
    }
}
