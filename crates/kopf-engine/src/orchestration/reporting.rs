//! Log records about the watched resources.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use kopf_core::resource::Resource;
use kopf_core::wording::Style;
use tracing::info;

use crate::observation::Namespaces;

/// Maximum number of logged names.
const MAX_NAMES: usize = 20;

/// Logs when the operator is ready and which resources it watches.
#[derive(Debug)]
pub(super) struct Reporter {
    style: Style,
    last: Option<Watched>,
}

/// The formatted names of the watched resources and namespaces.
#[derive(Debug, PartialEq, Eq)]
struct Watched {
    resources: String,
    namespaces: String,
}

impl Reporter {
    pub(super) fn new(style: Style) -> Self {
        Self { style, last: None }
    }

    /// Logs the watched resources and namespaces if they have changed.
    pub(super) fn report(&mut self, resources: &BTreeSet<Arc<Resource>>, namespaces: &Namespaces) {
        let watched = Watched {
            resources: listed(resources),
            namespaces: match namespaces {
                Namespaces::All => "all".to_owned(),
                Namespaces::Listed(names) => listed(names),
            },
        };
        if self.last.as_ref() == Some(&watched) {
            return;
        }
        let (resources, namespaces) = (&*watched.resources, &*watched.namespaces);
        match (self.style, self.last.is_none()) {
            (Style::Native, true) => {
                info!(target: TARGET, resources, namespaces, "The operator is ready.");
            }
            (Style::Native, false) => {
                info!(target: TARGET, resources, namespaces, "Watching other resources.");
            }
            // Records of the original have no fields.
            (Style::Original, true) => info!(
                target: TARGET,
                "The operator is ready. Watched resources: {resources}; namespaces: {namespaces}."
            ),
            (Style::Original, false) => info!(
                target: TARGET,
                "Watching other resources: {resources}; namespaces: {namespaces}."
            ),
        }
        self.last = Some(watched);
    }
}

const TARGET: &str = "kopf.operator";

fn listed<T: Display>(names: &BTreeSet<T>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let texts: Vec<_> = names
        .iter()
        .take(MAX_NAMES)
        .map(ToString::to_string)
        .collect();
    let texts = texts.join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => texts,
        more => format!("{texts} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::kind;

    #[test]
    fn changes_are_reported_once() {
        let captured = capture(Level::INFO);
        let resources = |names: &[&str]| -> BTreeSet<_> {
            names.iter().map(|name| Arc::new(kind("", name))).collect()
        };
        let namespaces = Namespaces::Listed(["a", "b"].map(str::to_owned).into());
        let mut reporter = Reporter::new(Style::Native);
        reporter.report(&resources(&["pods"]), &Namespaces::All);
        reporter.report(&resources(&["pods"]), &Namespaces::All);
        reporter.report(&resources(&["pods", "things"]), &namespaces);
        let messages = captured.messages(Level::INFO);
        assert_eq!(
            messages,
            ["The operator is ready.", "Watching other resources."]
        );
        let fields = &captured.records()[1].fields;
        assert!(
            fields.contains(&("namespaces", "a, b".to_owned())),
            "{fields:?}"
        );
        assert!(fields.iter().any(|(name, value)| {
            *name == "resources" && value.contains("pods") && value.contains(", things")
        }));
    }

    #[test]
    fn messages_contain_the_names_where_records_have_no_fields() {
        let captured = capture(Level::INFO);
        let mut reporter = Reporter::new(Style::Original);
        let resources = BTreeSet::from([Arc::new(kind("", "pods"))]);
        let namespaces = Namespaces::Listed(["a", "b"].map(str::to_owned).into());
        reporter.report(&resources, &Namespaces::All);
        reporter.report(&resources, &namespaces);
        let name = kind("", "pods");
        let messages = captured.messages(Level::INFO);
        let expected = [
            format!("The operator is ready. Watched resources: {name}; namespaces: all."),
            format!("Watching other resources: {name}; namespaces: a, b."),
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: BTreeSet<_> = (100..130).collect();
        let text = listed(&names);
        assert!(
            text.starts_with("100, 101,") && text.ends_with("119 and 10 more"),
            "{text}"
        );
        assert_eq!(listed::<u8>(&BTreeSet::new()), "none");
    }
}
