//! Resources by any of their names: plural, singular, short name, kind, `plural.group`.

use std::collections::HashSet;

use kopf_client::discovery::Scan;
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;

use crate::failure::Failure;

/// Upper bound for the number of names in errors.
const SHOWN: usize = 5;

/// Marks one version of every resource as preferred. The server prefers one version per group; for a
/// resource without it, the first version in the order of the server is marked, as in kubectl.
/// Operators select only what the server prefers.
pub(crate) fn prefer_served(scan: &mut Scan) {
    let key = |one: &Resource| (one.group.clone(), one.plural.clone());
    let preferred = scan.resources.iter().filter(|one| one.preferred);
    let mut known: HashSet<_> = preferred.map(key).collect();
    for resource in &mut scan.resources {
        resource.preferred |= known.insert(key(resource));
    }
}

/// Finds a resource by any of its names. As in kubectl, the case is ignored if there is no exact
/// match.
pub(crate) fn resolve(name: &str, scan: &Scan) -> Result<Resource, Failure> {
    let selector = Selector::parse(&[name]).map_err(|error| {
        Failure::new(format!("invalid resource name {name:?}"), &error)
            .advise("use a plural, singular, short name or kind, with .GROUP if needed")
    })?;
    let mut found = selector.select(scan.resources.iter());
    if found.is_empty() {
        let lower = name.to_lowercase();
        if let Ok(selector) = Selector::parse(&[&lower]) {
            found = selector.select(scan.resources.iter());
        }
    }
    match &found[..] {
        [one] => Ok((*one).clone()),
        [] => Err(unknown(name, scan)),
        several => {
            let names: Vec<_> = several.iter().map(|resource| full(resource)).collect();
            Err(Failure::plain(format!(
                "ambiguous resource name {name:?}: {}",
                names.join(", ")
            ))
            .advise("use one of these names"))
        }
    }
}

/// Returns the name with the group, such as `bakeries.example.com`.
pub(crate) fn full(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

fn unknown(name: &str, scan: &Scan) -> Failure {
    let failure = Failure::plain(format!("the cluster has no resource {name:?}"));
    if !scan.failed.is_empty() {
        let failed: Vec<_> = scan
            .failed
            .iter()
            .map(|(group, error)| format!("{group} ({error})"))
            .collect();
        let failed = failed.join(", ");
        return failure.advise(format!(
            "some groups could not be discovered, retry later: {failed}"
        ));
    }
    let similar = similar(name, scan);
    if similar.is_empty() {
        failure.advise("apply the CRD of the resource, or see `kubectl api-resources`")
    } else {
        failure.advise(format!("did you mean {}?", similar.join(", ")))
    }
}

/// Returns the names that contain the given name or start like it.
fn similar(name: &str, scan: &Scan) -> Vec<String> {
    let lower = name.split('.').next().unwrap_or_default().to_lowercase();
    let start: String = lower.chars().take(4).collect();
    if start.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<String> = scan
        .resources
        .iter()
        .filter(|one| one.preferred)
        .filter(|one| one.plural.contains(&lower) || one.plural.starts_with(&start))
        .map(full)
        .collect();
    names.sort();
    names.dedup();
    names.truncate(SHOWN);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str, kind: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            shortcuts: [kind.to_lowercase().chars().take(2).collect()].into(),
            preferred: true,
            ..Resource::default()
        }
    }

    fn scan() -> Scan {
        Scan {
            resources: vec![
                resource("", "pods", "Pod"),
                resource("metrics.k8s.io", "pods", "PodMetrics"),
                resource("example.com", "bakeries", "Bakery"),
                resource("a.example", "twins", "Twin"),
                resource("b.example", "twins", "Twin"),
            ],
            failed: Vec::new(),
        }
    }

    #[test]
    fn resources_are_found_by_every_name() {
        for name in [
            "bakeries",
            "bakery",
            "Bakery",
            "BAKERIES",
            "ba",
            "bakeries.example.com",
            "bakeries.v1.example.com",
        ] {
            let found = resolve(name, &scan()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(full(&found), "bakeries.example.com");
        }
        assert_eq!(full(&resolve("pods", &scan()).unwrap()), "pods");
    }

    #[test]
    fn resources_are_found_in_their_best_served_version() {
        let versions = ["v2", "v1", "v1beta1"].map(|version| {
            let plural = if version == "v2" { "others" } else { "things" };
            Resource {
                version: version.to_owned(),
                preferred: version == "v2",
                ..resource("c.example", plural, &plural[..5])
            }
        });
        let mut scan = scan();
        scan.resources.extend(versions);
        prefer_served(&mut scan);
        for name in ["things", "thing", "th", "things.c.example"] {
            let found = resolve(name, &scan).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found.to_string(), "things.v1.c.example");
        }
        let older = resolve("things.v1beta1.c.example", &scan).unwrap();
        assert_eq!(older.version, "v1beta1");
        assert_eq!(resolve("others", &scan).unwrap().version, "v2");
    }

    #[test]
    fn unknown_names_have_advice() {
        let error = resolve("bakerys", &scan()).unwrap_err();
        assert_eq!(error.advice(), Some("did you mean bakeries.example.com?"));
        let error = resolve("absent", &scan()).unwrap_err();
        assert!(error.advice().unwrap().contains("CRD"));
        let error = resolve("twins", &scan()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("twins.a.example, twins.b.example"),
            "{error}"
        );
        assert!(resolve("twins.b.example", &scan()).is_ok());
        assert!(resolve("", &scan()).is_err());
    }

    #[test]
    fn undiscovered_groups_are_reported() {
        let mut scan = scan();
        let error = kopf_client::Error::Timeout {
            after: std::time::Duration::from_secs(1),
        };
        scan.failed.push(("down.example/v1".to_owned(), error));
        let error = resolve("absent", &scan).unwrap_err();
        assert!(
            error.advice().unwrap().contains("down.example/v1"),
            "{error:?}"
        );
    }
}
