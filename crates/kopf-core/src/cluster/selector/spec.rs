//! Declarations of selectors by users, their validation, and the selectors built from them.

use std::fmt;

use super::{Name, Predicate, Selector};

/// All criteria for resources; exactly one of them must name the resources.
///
/// ```
/// use kopf_core::selector::SelectorSpec;
///
/// let spec = SelectorSpec { kind: Some("Pod".into()), group: Some(String::new()), ..SelectorSpec::default() };
/// assert!(spec.build().is_ok());
/// ```
#[derive(Clone, Default)]
pub struct SelectorSpec {
    /// The positional arguments. `everything` replaces the name among them.
    pub positional: Vec<String>,
    /// The API group; empty for the core group.
    pub group: Option<String>,
    /// The API version; by default, the preferred one.
    pub version: Option<String>,
    /// The name in manifests.
    pub kind: Option<String>,
    /// The name in URLs.
    pub plural: Option<String>,
    /// The singular name.
    pub singular: Option<String>,
    /// One of the short names.
    pub shortcut: Option<String>,
    /// One of the categories.
    pub category: Option<String>,
    /// All resources but events.
    pub everything: bool,
    /// A function that selects resources.
    pub predicate: Option<Predicate>,
}

/// The error of an invalid declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No criterion names the resources.
    #[error("unspecific resource with no names")]
    Unspecific,
    /// Several criteria name the resources.
    #[error("ambiguous resource specification with {}", .names.join(", "))]
    Ambiguous {
        /// The given criteria, each with its keyword.
        names: Vec<String>,
    },
    /// A name is empty.
    #[error("the {criterion} of a resource must not be an empty string")]
    Empty {
        /// The keyword of the empty criterion.
        criterion: &'static str,
    },
    /// There are too many positional arguments.
    #[error("too many positional arguments for a resource: {count}, at most 3 are accepted")]
    TooManyArguments {
        /// The number of arguments.
        count: usize,
    },
    /// A function cannot be combined with other criteria.
    #[error("the callable filter of resources cannot have any other positional selectors")]
    PredicateWithOthers,
    /// A criterion is given both as a positional argument and as a keyword.
    #[error("the {criterion} of a resource is given twice: {positional:?} and {keyword:?}")]
    GivenTwice {
        /// The keyword of the criterion.
        criterion: &'static str,
        /// Its value in the positional arguments.
        positional: String,
        /// Its value as a keyword.
        keyword: String,
    },
}

impl SelectorSpec {
    /// Validates the declaration.
    pub fn build(self) -> Result<Selector, Error> {
        if self.predicate.is_some() && !self.positional.is_empty() {
            return Err(Error::PredicateWithOthers);
        }
        let (group, version, name) = positional(&self.positional, self.everything)?;
        let group = once("group", group, self.group)?;
        let version = once("version", version, self.version)?;
        if version.as_ref().is_some_and(String::is_empty) {
            return Err(Error::Empty {
                criterion: "version",
            });
        }

        let mut names = [
            name,
            self.kind.map(Name::Kind),
            self.plural.map(Name::Plural),
            self.singular.map(Name::Singular),
            self.shortcut.map(Name::Shortcut),
            self.category.map(Name::Category),
            self.predicate.map(Name::Predicate),
        ]
        .into_iter()
        .flatten();
        let name = names.next().ok_or(Error::Unspecific)?;
        let others: Vec<Name> = names.collect();
        if !others.is_empty() {
            let names = std::iter::once(&name)
                .chain(&others)
                .map(described)
                .collect();
            return Err(Error::Ambiguous { names });
        }
        match name.keyword() {
            (criterion, Some("")) => Err(Error::Empty { criterion }),
            _ => Ok(Selector {
                group,
                version,
                name,
            }),
        }
    }
}

type Positional = (Option<String>, Option<String>, Option<Name>);

fn positional(args: &[String], everything: bool) -> Result<Positional, Error> {
    // The marker replaces the name.
    let (args, name) = match args.split_last() {
        _ if everything => (args, Name::Everything),
        None => return Ok((None, None, None)),
        Some((single, [])) => return Ok(dotted(single)),
        Some((name, args)) => (args, Name::Any(name.clone())),
    };
    let (group, version) = match args {
        [] => (None, None),
        [group_version] => match group_version.rsplit_once('/') {
            Some((group, version)) => (Some(group), Some(version)),
            None if group_version == "v1" => (Some(""), Some("v1")),
            None => (Some(group_version.as_str()), None),
        },
        [group, version] => (Some(group.as_str()), Some(version.as_str())),
        _ => {
            return Err(Error::TooManyArguments {
                count: args.len() + 1,
            });
        }
    };
    Ok((
        group.map(str::to_owned),
        version.map(str::to_owned),
        Some(name),
    ))
}

/// Parses `name`, `name.version`, `name.version.group`, `name.group`.
fn dotted(text: &str) -> Positional {
    let Some((name, rest)) = text.split_once('.') else {
        return (None, None, Some(Name::Any(text.to_owned())));
    };
    let (first, tail) = match rest.split_once('.') {
        Some((first, tail)) => (first, Some(tail)),
        None => (rest, None),
    };
    let (group, version) = if is_version(first) {
        (tail, Some(first))
    } else {
        (Some(rest), None)
    };
    let name = Name::Any(name.to_owned());
    (
        group.map(str::to_owned),
        version.map(str::to_owned),
        Some(name),
    )
}

/// Returns `true` for `v1`, `v1alpha1`, `v1beta1`: other versions are ambiguous with groups.
fn is_version(text: &str) -> bool {
    fn digits(text: &str) -> Option<&str> {
        let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
        (rest.len() < text.len()).then_some(rest)
    }
    let after_major = text.strip_prefix('v').and_then(digits);
    match after_major {
        Some("") => true,
        Some(rest) => {
            let minor = rest
                .strip_prefix("alpha")
                .or_else(|| rest.strip_prefix("beta"));
            minor.and_then(digits) == Some("")
        }
        None => false,
    }
}

fn once(
    criterion: &'static str,
    positional: Option<String>,
    keyword: Option<String>,
) -> Result<Option<String>, Error> {
    match (positional, keyword) {
        (Some(positional), Some(keyword)) => Err(Error::GivenTwice {
            criterion,
            positional,
            keyword,
        }),
        (positional, keyword) => Ok(positional.or(keyword)),
    }
}

fn described(name: &Name) -> String {
    match name.keyword() {
        (key, Some(value)) => format!("{key}={value:?}"),
        (key, None) => key.to_owned(),
    }
}

impl fmt::Debug for SelectorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectorSpec")
            .field("positional", &self.positional)
            .field("group", &self.group)
            .field("version", &self.version)
            .field("kind", &self.kind)
            .field("plural", &self.plural)
            .field("singular", &self.singular)
            .field("shortcut", &self.shortcut)
            .field("category", &self.category)
            .field("everything", &self.everything)
            .field("predicate", &self.predicate.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Formats group, version, and name, with `-` for absent ones.
    fn parsed(args: &[&str]) -> String {
        let selector = Selector::parse(args).unwrap();
        let part = |part: Option<&str>| part.unwrap_or("-").to_owned();
        let name = part(selector.name.keyword().1);
        [
            part(selector.group()),
            part(selector.version.as_deref()),
            name,
        ]
        .join(" ")
    }

    #[test]
    fn positional_forms() {
        let cases: &[(&[&str], &str)] = &[
            (&["name"], "- - name"),
            (&["name.v1"], "- v1 name"),
            (&["name.v1alpha1"], "- v1alpha1 name"),
            (&["name.v12beta34"], "- v12beta34 name"),
            (&["name.v1.group.tld"], "group.tld v1 name"),
            (&["name.v1beta1.group"], "group v1beta1 name"),
            (&["name.group.tld"], "group.tld - name"),
            (&["name.group"], "group - name"),
            (&["name.v1gamma1.tld"], "v1gamma1.tld - name"),
            (&["name.v1alpha.tld"], "v1alpha.tld - name"),
            (&["name.v.tld"], "v.tld - name"),
            (&["group/v1", "name"], "group v1 name"),
            (&["a/b/v1", "name"], "a/b v1 name"),
            (&["v1", "name"], " v1 name"),
            (&["v2", "name"], "v2 - name"),
            (&["group.tld", "name"], "group.tld - name"),
            (&["", "name"], " - name"),
            (&["group", "v1", "name"], "group v1 name"),
            (&["group", "odd", "name"], "group odd name"),
            (&["group", "name.v1"], "group - name.v1"),
        ];
        for (args, expected) in cases {
            assert_eq!(parsed(args), *expected, "{args:?}");
        }
    }

    #[test]
    fn everything_replaces_the_name() {
        for (args, expected) in [
            (vec![], "everything"),
            (vec!["g"], r#"group="g", everything"#),
            (vec!["g/v1"], r#"group="g", version="v1", everything"#),
            (vec!["g", "v1"], r#"group="g", version="v1", everything"#),
        ] {
            let spec = SelectorSpec {
                positional: args.into_iter().map(str::to_owned).collect(),
                everything: true,
                ..SelectorSpec::default()
            };
            assert_eq!(spec.build().unwrap().to_string(), expected);
        }
    }

    fn message(spec: SelectorSpec) -> String {
        spec.build().unwrap_err().to_string()
    }

    #[test]
    fn one_name_is_required() {
        assert_eq!(
            message(SelectorSpec::default()),
            "unspecific resource with no names"
        );
        let spec = SelectorSpec {
            group: Some("g".into()),
            version: Some("v1".into()),
            ..SelectorSpec::default()
        };
        assert_eq!(message(spec), "unspecific resource with no names");
    }

    #[test]
    fn several_names_are_rejected() {
        let spec = SelectorSpec {
            positional: vec!["name".into()],
            kind: Some("Kind".into()),
            category: Some("all".into()),
            ..SelectorSpec::default()
        };
        assert_eq!(
            message(spec),
            r#"ambiguous resource specification with name="name", kind="Kind", category="all""#
        );
        let spec = SelectorSpec {
            everything: true,
            predicate: Some(Arc::new(|_| true)),
            ..SelectorSpec::default()
        };
        assert_eq!(
            message(spec),
            "ambiguous resource specification with everything, predicate"
        );
    }

    #[test]
    fn each_keyword_suffices() {
        let base = SelectorSpec::default;
        let text = || Some("x".to_owned());
        for (spec, expected) in [
            (
                SelectorSpec {
                    kind: text(),
                    ..base()
                },
                r#"kind="x""#,
            ),
            (
                SelectorSpec {
                    plural: text(),
                    ..base()
                },
                r#"plural="x""#,
            ),
            (
                SelectorSpec {
                    singular: text(),
                    ..base()
                },
                r#"singular="x""#,
            ),
            (
                SelectorSpec {
                    shortcut: text(),
                    ..base()
                },
                r#"shortcut="x""#,
            ),
            (
                SelectorSpec {
                    category: text(),
                    ..base()
                },
                r#"category="x""#,
            ),
        ] {
            assert_eq!(spec.build().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn empty_strings_are_rejected() {
        let empty = || Some(String::new());
        for (spec, criterion) in [
            (
                SelectorSpec {
                    positional: vec![String::new()],
                    ..SelectorSpec::default()
                },
                "name",
            ),
            (
                SelectorSpec {
                    singular: empty(),
                    ..SelectorSpec::default()
                },
                "singular",
            ),
            (
                SelectorSpec {
                    positional: vec!["g/".into(), "name".into()],
                    ..SelectorSpec::default()
                },
                "version",
            ),
        ] {
            assert_eq!(spec.build().unwrap_err(), Error::Empty { criterion });
        }
    }

    #[test]
    fn too_many_arguments_are_rejected() {
        let error = Selector::parse(&["a", "b", "c", "d"]).unwrap_err();
        assert_eq!(error, Error::TooManyArguments { count: 4 });
    }

    #[test]
    fn function_goes_with_group_and_version_only() {
        let predicate: Predicate = Arc::new(|_| true);
        let spec = SelectorSpec {
            predicate: Some(predicate.clone()),
            group: Some("g".into()),
            ..SelectorSpec::default()
        };
        assert_eq!(spec.build().unwrap().to_string(), r#"group="g", predicate"#);
        let spec = SelectorSpec {
            predicate: Some(predicate),
            positional: vec!["name".into()],
            ..SelectorSpec::default()
        };
        assert_eq!(spec.build().unwrap_err(), Error::PredicateWithOthers);
    }

    #[test]
    fn duplicate_criteria_are_rejected() {
        let spec = SelectorSpec {
            positional: vec!["g".into(), "name".into()],
            group: Some("h".into()),
            ..SelectorSpec::default()
        };
        assert_eq!(
            message(spec),
            r#"the group of a resource is given twice: "g" and "h""#
        );
    }
}
