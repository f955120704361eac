//! Needs of an operator that a sandbox meets only with simulated workloads: nodes and controllers.

use crate::record::Record;

/// The kinds from which controllers make others, down to pods, which nodes run.
const WORKLOADS: [&str; 6] = [
    "daemonsets.apps",
    "deployments.apps",
    "jobs.batch",
    "pods",
    "replicasets.apps",
    "statefulsets.apps",
];

/// Returns what an operator needs and a sandbox without simulation does not have, with the advice.
pub fn unmet(record: &Record) -> Option<String> {
    let requests: Vec<_> = record.journal.operator_requests().collect();
    let is_about = |resource: &str, verbs: &[&str]| {
        requests.iter().any(|(_, request)| {
            request.key.resource == resource && verbs.contains(&request.verb.as_str())
        })
    };
    if is_about("nodes", &["get", "list"]) {
        return Some("it reads nodes, and there are none: add --simulate all".to_owned());
    }
    let created = WORKLOADS
        .iter()
        .find(|resource| is_about(resource, &["create", "apply"]));
    created.map(|resource| {
        format!("it creates {resource}, and nothing makes them run: add --simulate all")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::journal::{Actor, Entry, Happening, Request};
    use crate::object::ObjectKey;

    #[test]
    fn nodes_and_workloads_of_the_operator_need_a_simulation() {
        let needs = |actor: Actor, verb: &str, group: &str, plural: &str| {
            let mut record = Record::default();
            record.journal.push(Entry {
                at: Duration::ZERO,
                step: 0,
                what: Happening::Request(Request {
                    number: 1,
                    actor,
                    verb: verb.to_owned(),
                    key: ObjectKey::new(group, plural, None, "a"),
                    subresource: None,
                    is_dry: false,
                }),
            });
            unmet(&record).unwrap_or_default()
        };
        let operator = Actor::Operator(1);
        assert!(needs(operator, "list", "", "nodes").starts_with("it reads nodes"));
        assert!(needs(operator, "create", "apps", "deployments").contains("deployments.apps"));
        assert_eq!(needs(operator, "list", "", "pods"), "");
        assert_eq!(needs(operator, "create", "", "configmaps"), "");
        assert_eq!(needs(Actor::User, "create", "", "pods"), "");
    }
}
