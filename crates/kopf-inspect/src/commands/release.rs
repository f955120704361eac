//! `kopf release`: finalizers and annotations of an uninstalled operator are removed.

use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::resource::Resource;
use tokio::time::sleep;

use super::need;
use crate::args::ReleaseArgs;
use crate::cluster::{Cluster, Going, Query};
use crate::failure::Failure;
use crate::kinds::full;
use crate::places::Places;
use crate::screen::{Answer, Screen};
use crate::writing::{Named, Released, is_held, release};

/// The time in which a running operator reacts to a removed finalizer.
const REACTION: Duration = Duration::from_secs(1);

/// An object to be released.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    namespace: Option<String>,
    name: String,
}

impl Held {
    fn of(body: &Body) -> Self {
        Self {
            namespace: body.namespace().map(str::to_owned),
            name: body.name().unwrap_or_default().to_owned(),
        }
    }

    fn named<'a>(&'a self, resource: &'a Resource) -> Named<'a> {
        Named {
            resource,
            namespace: self.namespace.as_deref(),
            name: &self.name,
        }
    }
}

pub(super) async fn run(args: &ReleaseArgs, screen: &Screen) -> Result<(), Failure> {
    let places = args.common.places()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.scope.of(&cluster, &resource);
    let held = find(&cluster, args, &resource, namespace.as_deref(), &places).await?;
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
            screen.print(&format!("{} would be released\n", object.named(&resource)));
        }
        return Ok(());
    }
    confirm(args, screen, held.len(), &resource)?;
    let mut released = Vec::new();
    for object in held {
        let named = object.named(&resource);
        match release(&cluster, named, &places).await? {
            Released::Removed => screen.print(&format!("{named} is released\n")),
            Released::Clean => screen.print(&format!("{named} has no state of the operator\n")),
            Released::Gone => screen.print(&format!("{named} is gone\n")),
        }
        released.push(object);
    }
    check_afterwards(&cluster, &resource, &released, &places, screen).await;
    Ok(())
}

/// Finds the objects with state of the operator. Only their names are kept in memory.
async fn find(
    cluster: &Cluster,
    args: &ReleaseArgs,
    resource: &Resource,
    namespace: Option<&str>,
    places: &Places,
) -> Result<Vec<Held>, Failure> {
    if let Some(name) = &args.name {
        let object = Named {
            resource,
            namespace,
            name,
        };
        let body = need(cluster, object).await?;
        return Ok(is_held(&body, places)
            .then(|| Held::of(&body))
            .into_iter()
            .collect());
    }
    let query = Query {
        resource,
        namespace,
        labels: None,
        fields: None,
    };
    let mut held = Vec::new();
    let listed = cluster.pages(query, |page| {
        held.extend(
            page.iter()
                .filter(|body| is_held(body, places))
                .map(Held::of),
        );
        Going::On
    });
    listed
        .await
        .map_err(|error| Failure::request(format!("cannot list {}", full(resource)), &error))?;
    Ok(held)
}

fn confirm(
    args: &ReleaseArgs,
    screen: &Screen,
    count: usize,
    resource: &Resource,
) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let objects = match count {
        1 => format!("1 object of {}", full(resource)),
        _ => format!("{count} objects of {}", full(resource)),
    };
    let question = format!("Remove the finalizer and all state of the operator from {objects}?");
    match screen.confirm(&question) {
        Some(Answer::Yes) => Ok(()),
        Some(Answer::No) => Err(Failure::plain("nothing is released: not confirmed")),
        None => Err(Failure::plain(format!(
            "nothing is released: {objects} would be changed, and there is no terminal to confirm it"
        ))
        .advise("add -y, or --dry-run to see the objects")),
    }
}

async fn warn_of_operators(cluster: &Cluster, namespace: Option<&str>, screen: &Screen) {
    let now = Cluster::now();
    for peer in cluster.peers().await {
        let is_relevant = namespace.is_none() || peer.serves(namespace);
        if is_relevant && peer.is_alive(now) {
            let line = peer.line(now);
            screen.warning(&format!(
                "an operator is running and can take the objects over again: {line}"
            ));
        }
    }
}

/// Warns if the state of the operator comes back.
async fn check_afterwards(
    cluster: &Cluster,
    resource: &Resource,
    released: &[Held],
    places: &Places,
    screen: &Screen,
) {
    sleep(REACTION).await;
    // The first objects had the most time to be handled again.
    for object in released.iter().take(10) {
        let named = object.named(resource);
        let found = cluster.get(resource, named.namespace, named.name).await;
        if let Ok(Some(body)) = found
            && is_held(&body, places)
        {
            screen.warning(&format!(
                "{named} has state of the operator again: an operator is running; stop it and repeat"
            ));
            return;
        }
    }
}
