//! One rule of a role.

use serde_json::Value;

/// The rights of a rule: verbs on resources, or verbs on URLs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Empty for all names.
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

/// The action of a request.
#[derive(Debug, Clone, Copy)]
pub enum Action<'a> {
    Resource(Access<'a>),
    Url { verb: &'a str, path: &'a str },
}

/// An access to a resource.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// `None` for the cluster scope.
    pub namespace: Option<&'a str>,
    /// Empty for actions on several objects.
    pub name: &'a str,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

impl Rule {
    pub(super) fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let items = rule.get(field).and_then(Value::as_array);
            let items = items.into_iter().flatten().filter_map(Value::as_str);
            items.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            urls: texts("nonResourceURLs"),
        }
    }

    /// Returns `true` if the rule allows an action.
    pub(super) fn allows(&self, action: Action<'_>) -> bool {
        match action {
            Action::Resource(access) => {
                has(&self.verbs, access.verb)
                    && has(&self.groups, access.group)
                    && self.has_resource(access.resource, access.subresource)
                    && (self.names.is_empty() || self.names.iter().any(|name| name == access.name))
            }
            Action::Url { verb, path } => {
                has(&self.verbs, verb) && self.urls.iter().any(|url| fits(url, path))
            }
        }
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == "*" {
                return true;
            }
            match rule.split_once('/') {
                None => subresource.is_empty() && rule == resource,
                Some((of, sub)) => {
                    !subresource.is_empty() && sub == subresource && (of == "*" || of == resource)
                }
            }
        })
    }

    /// Returns all single rights that the rule grants.
    pub(super) fn single(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let mut all = Vec::new();
        for verb in &self.verbs {
            for url in &self.urls {
                all.push(Self {
                    verbs: one(verb),
                    urls: one(url),
                    ..Self::default()
                });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let right = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        all.push(right);
                    } else {
                        all.extend(self.names.iter().map(|name| Self {
                            names: one(name),
                            ..right.clone()
                        }));
                    }
                }
            }
        }
        all
    }

    /// Returns `true` if the rule covers a single right.
    pub(super) fn covers(&self, right: &Self) -> bool {
        let all = |ours: &[String], theirs: &[String]| theirs.iter().all(|item| has(ours, item));
        if !all(&self.verbs, &right.verbs) {
            return false;
        }
        if !right.urls.is_empty() {
            return right
                .urls
                .iter()
                .all(|url| self.urls.iter().any(|ours| ours == url || fits(ours, url)));
        }
        let named = self.names.is_empty()
            || (!right.names.is_empty() && right.names.iter().all(|it| self.names.contains(it)));
        let resources = right.resources.iter().all(|resource| {
            let (of, sub) = resource.split_once('/').unwrap_or((resource, ""));
            self.resources.iter().any(|ours| ours == resource) || self.has_resource(of, sub)
        });
        all(&self.groups, &right.groups) && resources && named
    }

    /// Returns the rule as in messages about missing rights.
    pub(super) fn shown(&self) -> String {
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            format!("[{}]", items.join(" "))
        };
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.urls),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, items)| !items.is_empty())
            .map(|(name, items)| format!("{name}:{}", list(items)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Returns `true` if a URL of a rule, which may end with `*`, matches a path.
fn fits(url: &str, path: &str) -> bool {
    url == "*"
        || url == path
        || url
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix))
}
