//! Resolution of the selectors of handlers to the resources to serve.

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
    /// Messages about the resources that are not served.
    pub(super) warnings: BTreeSet<String>,
}

/// Resolves the selectors of all handlers, and drops the resources that cannot be served.
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

/// Returns the handlers whose objects are watched, with their selectors. Objects of webhooks are
/// not watched because the server sends them.
fn watching<F>(
    handlers: &[Arc<Handler<F>>],
) -> impl Iterator<Item = (&Arc<Handler<F>>, &Selector)> {
    let handlers = handlers.iter().filter(|handler| handler.kind.is_watching());
    handlers.filter_map(|handler| Some((handler, handler.selector.as_ref()?)))
}

/// Returns the handlers with the selectors of owned objects, which are also watched.
fn owning<F>(handlers: &[Arc<Handler<F>>]) -> impl Iterator<Item = (&Arc<Handler<F>>, &Selector)> {
    let handlers = handlers.iter();
    handlers.flat_map(|handler| handler.owns.iter().map(move |selector| (handler, selector)))
}

impl Resolution {
    /// Selects the resources of all handlers. An ambiguous resource is dropped for all handlers,
    /// because they must not receive objects of the wrong resource.
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

    /// Adds warnings about child handlers without a resource of owners.
    fn warn_of_orphans<F>(&mut self, handlers: &[Arc<Handler<F>>]) {
        let is_child = |handler: &Handler<F>| handler.kind == HandlerKind::Child;
        if watching(handlers).any(|(handler, _)| !is_child(handler)) {
            return;
        }
        for handler in handlers {
            if is_child(handler) && handler.selector.is_none() {
                self.warnings.insert(format!(
                    "The child handler {:?} is never called: no other handlers select the \
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
                    "The selector of the handler {:?} failed for {resource}, which will not be \
                     served by it: {panicked}",
                    handler.id
                ));
            }
        }
    }

    /// Drops the resources without the verbs that their handlers need.
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
        // Event handlers store no progress, so their objects are not patched.
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

/// Returns `true` if the CRD of the resource is being deleted. Discovery lists only the deletion
/// verbs then, but patches are still accepted, and the objects cannot be deleted without their
/// handlers.
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
    fn resources_of_webhooks_are_neither_watched_nor_warned_of() {
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
    fn children_without_owners_cause_warnings() {
        let kinds = [kind("g", "things"), kind("", "pods")];
        let kinds = kinds.into_iter().map(Arc::new).collect();
        let orphaned = [owning(HandlerKind::Child, None)];
        let warnings = resolve(&orphaned, &kinds).warnings;
        let warning = warnings.first().unwrap();
        assert!(
            warning.contains("child handler \"fn\" is never called"),
            "{warning}"
        );
        let named = [owning(HandlerKind::Child, Some(named("things")))];
        assert!(resolve(&named, &kinds).warnings.is_empty());
    }

    #[test]
    fn each_selected_resource_is_watched_once() {
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
    fn ambiguous_resources_are_not_served_to_any_handler() {
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
    fn the_core_group_is_preferred() {
        let kinds = [kind("", "pods"), kind("metrics.k8s.io", "pods")];
        let (watched, warnings) = resolved(&[(CREATE, named("pods"))], &kinds);
        assert_eq!(watched, ["pods.v1"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_selector_can_select_several_resources() {
        let kinds = [kind("one", "things"), kind("two", "things")];
        let (watched, warnings) = resolved(&[(CREATE, Selector::everything())], &kinds);
        assert_eq!(watched, ["things.v1.one", "things.v1.two"]);
        assert!(warnings.is_empty());
    }

    #[test]
    fn unresolved_selectors_do_not_affect_others() {
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
    fn unwatchable_resources_are_not_served() {
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
    fn only_change_handlers_need_patches() {
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
    fn a_panicking_selector_is_skipped_for_that_resource() {
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
                "The selector of the handler \"fn\" failed for twos.v1.g, which will \
                 not be served by it: it has panicked: not my kind"
            ]
        );
    }

    #[test]
    fn resources_are_served_until_their_crds_are_gone() {
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
