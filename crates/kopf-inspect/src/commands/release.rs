//! `kopf release`: removes finalizers and annotations of an uninstalled operator.

use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::resource::Resource;
use tokio::time::sleep;

use super::need;
use crate::args::ReleaseArgs;
use crate::changes::{is_held, sole_operator};
use crate::cluster::{Cluster, Paging, Query};
use crate::failure::{Failure, request_failure};
use crate::kinds::full;
use crate::object_ref::ObjectRef;
use crate::screen::{Answer, Screen};
use crate::storages::Storages;
use crate::writing::{Released, release};

/// The time in which a running operator reacts to a removed finalizer.
const REACTION: Duration = Duration::from_secs(1);

/// An object to release.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    namespace: Option<String>,
    name: String,
    fate: Fate,
}

/// The effect of the release on the existence of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Not marked for deletion: the object is kept.
    Kept,
    /// Marked for deletion without other finalizers: the object is deleted.
    Deleted,
    /// Marked for deletion: finalizers of other controllers keep the object.
    Blocked {
        /// The finalizers of other controllers.
        finalizers: Vec<String>,
    },
}

impl Fate {
    fn of(body: &Body, storages: &Storages) -> Self {
        let others = body.finalizers();
        let others = others.filter(|name| !storages.owns_finalizer(name));
        let finalizers: Vec<_> = others.map(str::to_owned).collect();
        match (body.is_deleting(), finalizers.is_empty()) {
            (false, _) => Self::Kept,
            (true, true) => Self::Deleted,
            (true, false) => Self::Blocked { finalizers },
        }
    }

    /// Returns the end of a sentence such as `thing x is released`.
    fn clause(&self) -> String {
        match self {
            Self::Kept => String::new(),
            Self::Deleted => {
                " and deleted: it is marked for deletion, and deletion handlers are not called"
                    .to_owned()
            }
            Self::Blocked { finalizers } => format!(
                "; it is marked for deletion, and kept by {}",
                finalizers.join(", ")
            ),
        }
    }
}

impl Held {
    /// Returns the object if it has state of an operator.
    fn of(body: &Body, storages: &Storages) -> Result<Option<Self>, Failure> {
        if !is_held(body, storages) {
            return Ok(None);
        }
        let storages = sole_operator(body, storages)?;
        Ok(Some(Self {
            namespace: body.namespace().map(str::to_owned),
            name: body.name().unwrap_or_default().to_owned(),
            fate: Fate::of(body, &storages),
        }))
    }

    fn object_ref<'a>(&'a self, resource: &'a Resource) -> ObjectRef<'a> {
        ObjectRef {
            resource,
            namespace: self.namespace.as_deref(),
            name: &self.name,
        }
    }
}

pub(super) async fn run(args: &ReleaseArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.scope.of(&cluster, &resource);
    let held = find(&cluster, args, &resource, namespace.as_deref(), &storages).await?;
    if held.is_empty() {
        screen.print(&format!(
            "no {} has state of the operator\n",
            full(&resource)
        ));
        return Ok(());
    }
    warn_of_operators(&cluster, namespace.as_deref(), screen).await;
    if args.dry_run {
        for object in &held {
            let (object_ref, clause) = (object.object_ref(&resource), object.fate.clause());
            screen.print(&format!("{object_ref} would be released{clause}\n"));
        }
        return Ok(());
    }
    confirm(args, screen, &held, &resource)?;
    let mut released = Vec::new();
    for object in held {
        let object_ref = object.object_ref(&resource);
        match release(&cluster, object_ref, &storages).await? {
            Released::Removed => {
                let clause = object.fate.clause();
                screen.print(&format!("{object_ref} is released{clause}\n"));
            }
            Released::Clean => {
                screen.print(&format!("{object_ref} has no state of the operator\n"));
            }
            Released::Gone => screen.print(&format!("{object_ref} is gone\n")),
        }
        released.push(object);
    }
    check_afterwards(&cluster, &resource, &released, &storages, screen).await;
    Ok(())
}

/// Finds the objects with state of the operator. Only their names are kept in memory.
async fn find(
    cluster: &Cluster,
    args: &ReleaseArgs,
    resource: &Resource,
    namespace: Option<&str>,
    storages: &Storages,
) -> Result<Vec<Held>, Failure> {
    if let Some(name) = &args.name {
        let object = ObjectRef {
            resource,
            namespace,
            name,
        };
        let body = need(cluster, object).await?;
        return Ok(Held::of(&body, storages)?.into_iter().collect());
    }
    let query = Query {
        resource,
        namespace,
        labels: None,
        fields: None,
    };
    let mut held = Ok(Vec::new());
    let listed = cluster.pages(query, |page| {
        for body in page {
            match (&mut held, Held::of(&body, storages)) {
                (Ok(held), Ok(object)) => held.extend(object),
                (Ok(_), Err(failure)) => held = Err(failure),
                (Err(_), _) => {}
            }
        }
        if held.is_ok() {
            Paging::Continue
        } else {
            Paging::Stop
        }
    });
    listed
        .await
        .map_err(|error| request_failure(format!("cannot list {}", full(resource)), &error))?;
    held
}

fn confirm(
    args: &ReleaseArgs,
    screen: &Screen,
    held: &[Held],
    resource: &Resource,
) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let counted = |count: usize| match count {
        1 => "1 object".to_owned(),
        _ => format!("{count} objects"),
    };
    let objects = format!("{} of {}", counted(held.len()), full(resource));
    let dying = held.iter().filter(|held| held.fate == Fate::Deleted);
    let dying = match dying.count() {
        0 => String::new(),
        count => format!(
            " {} will be deleted without deletion handlers.",
            counted(count)
        ),
    };
    let question =
        format!("Remove the finalizer and all state of the operator from {objects}?{dying}");
    match screen.confirm(&question) {
        Some(Answer::Yes) => Ok(()),
        Some(Answer::No) => Err(Failure::plain("nothing is released: not confirmed")),
        None => Err(Failure::plain(format!(
            "nothing is released: changing {objects} requires confirmation on a terminal"
        ))
        .advise("add -y, or --dry-run to see the objects")),
    }
}

/// Warns of running operators, by their peerings and Leases. Leases do not contain the namespaces
/// of the operator.
async fn warn_of_operators(cluster: &Cluster, namespace: Option<&str>, screen: &Screen) {
    let now = Cluster::now();
    let peers = cluster.peers().await.into_iter();
    let peers = peers.filter(|peer| namespace.is_none() || peer.serves(namespace));
    let peers = peers.filter(|peer| peer.is_alive(now));
    let leaders = cluster.leaders().await.into_iter();
    let leaders = leaders.filter(|leader| leader.is_alive(now));
    let lines = peers
        .map(|peer| peer.line(now))
        .chain(leaders.map(|leader| leader.line(now)));
    for line in lines {
        screen.warning(&format!(
            "a running operator can handle the objects again: {line}"
        ));
    }
}

/// Warns if the state of the operator reappears.
async fn check_afterwards(
    cluster: &Cluster,
    resource: &Resource,
    released: &[Held],
    storages: &Storages,
    screen: &Screen,
) {
    sleep(REACTION).await;
    // The first objects were released first, so an operator has had the most time to handle them.
    for object in released.iter().take(10) {
        let object_ref = object.object_ref(resource);
        let found = cluster
            .get(resource, object_ref.namespace, object_ref.name)
            .await;
        if let Ok(Some(body)) = found
            && is_held(&body, storages)
        {
            screen.warning(&format!(
                "{object_ref} has state of the operator again: an operator is running; stop it and repeat"
            ));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_in_deletion_are_deleted_or_kept_by_others() {
        let storages = Storages::default();
        let own = "kopf.zalando.org/KopfFinalizerMarker";
        let fate = |metadata| Fate::of(&Body::new(json!({"metadata": metadata})), &storages);
        let deleted = "2026-01-02T03:04:05Z";
        assert_eq!(fate(json!({"finalizers": [own, "x/y"]})), Fate::Kept);
        assert_eq!(
            fate(json!({"finalizers": [own], "deletionTimestamp": deleted})),
            Fate::Deleted
        );
        let blocked = fate(json!({"finalizers": [own, "x/y"], "deletionTimestamp": deleted}));
        assert_eq!(
            blocked.clause(),
            "; it is marked for deletion, and kept by x/y"
        );
    }
}
