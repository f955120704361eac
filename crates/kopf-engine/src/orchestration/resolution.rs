//! Resolution of the selectors of handlers to the resources that are served.

use std::collections::BTreeSet;
use std::sync::Arc;

use kopf_core::handler::{Handler, HandlerKind};
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;

/// The result of a resolution.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// The resources to watch.
    pub(super) watched: BTreeSet<Arc<Resource>>,
    /// The resources that are not served, with reasons, for the log.
    pub(super) warnings: BTreeSet<String>,
}

/// Selects the resources of all handlers, without those that cannot be served.
pub(super) fn resolve<F>(
    handlers: &[Arc<Handler<F>>],
    resources: &BTreeSet<Arc<Resource>>,
) -> Resolution {
    let mut resolution = Resolution::default();
    resolution.select(handlers, resources);
    resolution.warn_of_orphans(handlers);
    resolution.drop_unservable(handlers);
    resolution
}

/// Returns the handlers with selectors whose objects are watched. Objects are not watched for
/// webhooks: the server sends them.
fn watching<F>(
    handlers: &[Arc<Handler<F>>],
) -> impl Iterator<Item = (&Arc<Handler<F>>, &Selector)> {
    let handlers = handlers.iter().filter(|handler| handler.kind.is_watching());
    handlers.filter_map(|handler| Some((handler, handler.selector.as_ref()?)))
}

/// Returns the handlers with the selectors of owned objects, which are watched, too.
fn owning<F>(handlers: &[Arc<Handler<F>>]) -> impl Iterator<Item = (&Arc<Handler<F>>, &Selector)> {
    let handlers = handlers.iter();
    handlers.flat_map(|handler| handler.owns.iter().map(move |selector| (handler, selector)))
}

impl Resolution {
    /// Selects the resources of all handlers. An ambiguous one is left out for all of them: handlers
    /// must not get objects of a resource that is not meant.
    fn select<F>(&mut self, handlers: &[Arc<Handler<F>>], resources: &BTreeSet<Arc<Resource>>) {
        let mut ambiguous: BTreeSet<Arc<Resource>> = BTreeSet::new();
        let mut unresolved: Vec<String> = Vec::new();
        for (handler, selector) in watching(handlers).chain(owning(handlers)) {
            self.warn_of_panics(handler, selector, resources);
            let selected = select(selector, resources);
            if selected.is_empty() {
                let name = selector.to_string();
                if !unresolved.contains(&name) {
                    unresolved.push(name);
                }
            } else if selector.is_specific() && selected.len() > 1 {
                self.warnings.insert(format!(
                    "Ambiguous resources will not be served (try specifying API groups): \
                     {selector} => {}",
                    names(&selected)
                ));
                ambiguous.extend(selected);
            } else {
                self.watched.extend(selected);
            }
        }
        if !unresolved.is_empty() {
            self.warnings.insert(format!(
                "Unresolved resources cannot be served (try creating their CRDs): {}",
                unresolved.join(", ")
            ));
        }
        self.watched
            .retain(|resource| !ambiguous.contains(resource));
    }

    /// Warns of handlers of children that have no owners.
    fn warn_of_orphans<F>(&mut self, handlers: &[Arc<Handler<F>>]) {
        let is_child = |handler: &Handler<F>| handler.kind == HandlerKind::Child;
        if watching(handlers).any(|(handler, _)| !is_child(handler)) {
            return;
        }
        for handler in handlers {
            if is_child(handler) && handler.selector.is_none() {
                self.warnings.insert(format!(
                    "The handler {:?} of children is never called: no other handlers select the \
                     resource of their owners; specify it as the parent",
                    handler.id
                ));
            }
        }
    }

    fn warn_of_panics<F>(
        &mut self,
        handler: &Handler<F>,
        selector: &Selector,
        resources: &BTreeSet<Arc<Resource>>,
    ) {
        for resource in resources {
            if let Err(panicked) = selector.try_check(resource) {
                self.warnings.insert(format!(
                    "The selector of the handler {:?} cannot be asked about {resource}, which \
                     will not be served by it: {panicked}",
                    handler.id
                ));
            }
        }
    }

    /// Drops the resources that lack the verbs that their handlers need.
    fn drop_unservable<F>(&mut self, handlers: &[Arc<Handler<F>>]) {
        let lacks = |resource: &Resource, verb: &str| !resource.verbs.contains(verb);
        let unwatchable = take(&mut self.watched, |resource| {
            lacks(resource, "list") || lacks(resource, "watch")
        });
        if !unwatchable.is_empty() {
            self.warnings.insert(format!(
                "Non-watchable resources will not be served: {}",
                names(&unwatchable)
            ));
        }
        // Event handlers keep no state, so nothing is written for them.
        let unpatchable = take(&mut self.watched, |resource| {
            lacks(resource, "patch")
                && !is_ending(resource)
                && watching(handlers).any(|(handler, selector)| {
                    (handler.kind.is_change() || handler.kind.is_background())
                        && selector.check(resource)
                })
        });
        if !unpatchable.is_empty() {
            self.warnings.insert(format!(
                "Non-patchable resources will not be served: {}",
                names(&unpatchable)
            ));
        }
    }
}

/// While a CRD is being deleted, discovery lists only the deletion verbs for its resource. Patches are
/// still accepted, and the objects cannot be deleted without their handlers.
fn is_ending(resource: &Resource) -> bool {
    let has = |verb: &str| resource.verbs.contains(verb);
    has("delete") && has("deletecollection") && !has("create") && !has("update")
}

fn select(selector: &Selector, resources: &BTreeSet<Arc<Resource>>) -> BTreeSet<Arc<Resource>> {
    selector
        .select(resources.iter().map(AsRef::as_ref))
        .into_iter()
        .filter_map(|selected| resources.get(selected).cloned())
        .collect()
}

fn take(
    resources: &mut BTreeSet<Arc<Resource>>,
    is_taken: impl Fn(&Resource) -> bool,
) -> BTreeSet<Arc<Resource>> {
    let (taken, kept) = std::mem::take(resources)
        .into_iter()
        .partition(|resource| is_taken(resource));
    *resources = kept;
    taken
}

fn names(resources: &BTreeSet<Arc<Resource>>) -> String {
    let names: Vec<_> = resources.iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};

    use super::*;
    use crate::fake_api::kind;

    fn resolved(
        handlers: &[(HandlerKind, Selector)],
        kinds: &[Resource],
    ) -> (Vec<String>, Vec<String>) {
        let handlers: Vec<_> = handlers
            .iter()
            .map(|(kind, selector)| {
                let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), *kind);
                spec.selector = Some(selector.clone());
                Arc::new(spec.build(()).unwrap())
            })
            .collect();
        let kinds = kinds.iter().cloned().map(Arc::new).collect();
        let Resolution { watched, warnings } = resolve(&handlers, &kinds);
        let watched = watched.iter().map(ToString::to_string).collect();
        (watched, warnings.into_iter().collect())
    }

    fn named(name: &str) -> Selector {
        Selector::parse(&[name]).unwrap()
    }

    fn without(verb: &str, kind: Resource) -> Resource {
        let mut verbs = kind.verbs.clone();
        verbs.remove(verb);
        Resource { verbs, ..kind }
    }

    #[test]
    fn kinds_of_webhooks_are_not_watched_and_not_complained_about() {
        let webhook = HandlerKind::Admission(kopf_core::admission::WebhookType::Validating);
        let handlers = [
            (webhook, named("things")),
            (webhook, named("unknown")),
            (EVENT, named("others")),
        ];
        let kinds = [
            kind("one", "things"),
            kind("two", "things"),
            kind("g", "others"),
        ];
        let (watched, warnings) = resolved(&handlers, &kinds);
        assert_eq!(watched, ["others.v1.g"]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    const CREATE: HandlerKind = HandlerKind::Create;
    const EVENT: HandlerKind = HandlerKind::Event;

    fn owning(kind: HandlerKind, selector: Option<Selector>) -> Arc<Handler<()>> {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
        spec.selector = selector;
        spec.owns = vec![named("pods")];
        Arc::new(spec.build(()).unwrap())
    }

    #[test]
    fn owned_resources_are_watched_and_need_not_be_patchable() {
        let handlers = [owning(CREATE, Some(named("things")))];
        let kinds = [kind("g", "things"), without("patch", kind("", "pods"))];
        let kinds = kinds.into_iter().map(Arc::new).collect();
        let resolution = resolve(&handlers, &kinds);
        assert_eq!(names(&resolution.watched), "pods.v1, things.v1.g");
        assert!(resolution.warnings.is_empty(), "{:?}", resolution.warnings);
    }

    #[test]
    fn children_without_owners_are_complained_about() {
        let kinds = [kind("g", "things"), kind("", "pods")];
        let kinds = kinds.into_iter().map(Arc::new).collect();
        let orphaned = [owning(HandlerKind::Child, None)];
        let warnings = resolve(&orphaned, &kinds).warnings;
        let warning = warnings.first().unwrap();
        assert!(
            warning.contains("\"fn\" of children is never called"),
            "{warning}"
        );
        let named = [owning(HandlerKind::Child, Some(named("things")))];
        assert!(resolve(&named, &kinds).warnings.is_empty());
    }

    #[test]
    fn each_selected_kind_is_watched_once() {
        let handlers = [
            (CREATE, named("things")),
            (EVENT, named("things")),
            (EVENT, named("others")),
        ];
        let kinds = ["things", "others", "unrelated"].map(|plural| kind("g", plural));
        let (watched, warnings) = resolved(&handlers, &kinds);
        assert_eq!(watched, ["others.v1.g", "things.v1.g"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn ambiguous_kinds_are_not_served_whoever_selects_them() {
        let handlers = [(CREATE, named("things")), (EVENT, named("things.one"))];
        let kinds = [kind("one", "things"), kind("two", "things")];
        let (watched, warnings) = resolved(&handlers, &kinds);
        assert!(watched.is_empty());
        assert_eq!(
            warnings,
            [
                "Ambiguous resources will not be served (try specifying API groups): \
              name=\"things\" => things.v1.one, things.v1.two"
            ]
        );
    }

    #[test]
    fn the_core_group_goes_first() {
        let kinds = [kind("", "pods"), kind("metrics.k8s.io", "pods")];
        let (watched, warnings) = resolved(&[(CREATE, named("pods"))], &kinds);
        assert_eq!(watched, ["pods.v1"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn several_kinds_can_be_meant() {
        let kinds = [kind("one", "things"), kind("two", "things")];
        let (watched, warnings) = resolved(&[(CREATE, Selector::everything())], &kinds);
        assert_eq!(watched, ["things.v1.one", "things.v1.two"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn unresolved_selectors_do_not_disturb_others() {
        let handlers = [
            (CREATE, named("absent")),
            (CREATE, named("things")),
            (EVENT, named("absent")),
            (EVENT, named("missing")),
        ];
        let (watched, warnings) = resolved(&handlers, &[kind("g", "things")]);
        assert_eq!(watched, ["things.v1.g"]);
        assert_eq!(
            warnings,
            [
                "Unresolved resources cannot be served (try creating their CRDs): \
              name=\"absent\", name=\"missing\""
            ]
        );
    }

    #[test]
    fn kinds_that_cannot_be_watched_are_not_served() {
        let kinds = [
            without("list", kind("g", "ones")),
            without("watch", kind("g", "twos")),
            kind("g", "things"),
        ];
        let (watched, warnings) = resolved(&[(EVENT, Selector::everything())], &kinds);
        assert_eq!(watched, ["things.v1.g"]);
        assert_eq!(
            warnings,
            ["Non-watchable resources will not be served: ones.v1.g, twos.v1.g"]
        );
    }

    #[test]
    fn only_handlers_of_changes_need_to_patch() {
        let kinds = ["ones", "twos"].map(|plural| without("patch", kind("g", plural)));
        let handlers = [(EVENT, Selector::everything()), (CREATE, named("twos"))];
        let (watched, warnings) = resolved(&handlers, &kinds);
        assert_eq!(watched, ["ones.v1.g"]);
        assert_eq!(
            warnings,
            ["Non-patchable resources will not be served: twos.v1.g"]
        );
    }

    #[test]
    fn a_selector_that_panics_is_skipped_where_it_does() {
        let panicking = Selector::predicate(|resource| {
            assert!(resource.plural == "ones", "not my kind");
            true
        });
        let handlers = [(CREATE, panicking), (EVENT, named("twos"))];
        let kinds = ["ones", "twos"].map(|plural| kind("g", plural));
        let (watched, warnings) = resolved(&handlers, &kinds);
        assert_eq!(watched, ["ones.v1.g", "twos.v1.g"]);
        assert_eq!(
            warnings,
            [
                "The selector of the handler \"fn\" cannot be asked about twos.v1.g, which will \
                 not be served by it: it has panicked: not my kind"
            ]
        );
    }

    #[test]
    fn kinds_are_served_until_their_definitions_are_gone() {
        let verbs = ["delete", "deletecollection", "get", "list", "watch"];
        let ending = Resource {
            verbs: verbs.map(str::to_owned).into(),
            ..kind("g", "things")
        };
        let (watched, warnings) = resolved(&[(CREATE, named("things"))], &[ending]);
        assert_eq!(watched, ["things.v1.g"]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}
