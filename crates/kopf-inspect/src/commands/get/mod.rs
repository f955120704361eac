//! `kopf get`: objects with the state of their handling.

mod printer;
mod row;
mod watching;

use std::collections::HashMap;

use kopf_core::resource::Resource;

use self::printer::Printer;
use self::row::Row;
use super::need;
use crate::args::GetArgs;
use crate::cluster::{Cluster, Paging, Query};
use crate::events::EventOutcome;
use crate::failure::{Failure, request_failure};
use crate::kinds::full;
use crate::object_ref::ObjectRef;
use crate::screen::Screen;
use crate::storages::Storages;

/// The outcomes of k8s-events by the uids of their objects.
type EventOutcomes = HashMap<String, EventOutcome>;

/// The objects of the command.
struct Selection<'a> {
    resource: &'a Resource,
    /// `None` for all namespaces, and for cluster-scoped resources.
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    /// A label selector.
    labels: Option<&'a str>,
}

pub(super) async fn run(args: &GetArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.scope.of(&cluster, &resource);
    if args.name.is_some() && args.scope.all_namespaces && resource.namespaced {
        return Err(Failure::plain("a name cannot be combined with -A")
            .advise("select the namespace of the object with -n"));
    }
    let selection = Selection {
        resource: &resource,
        namespace: namespace.as_deref(),
        name: args.name.as_deref(),
        labels: args.selector.as_deref(),
    };
    let outcomes = cluster.outcomes(&resource, namespace.as_deref()).await;
    if let Err(error) = &outcomes {
        let reason = "cannot list events, so failures without progress records are not shown";
        screen.warning(&format!("{reason}: {error}"));
    }
    let mut printer = Printer::new(args, screen);
    if args.watch {
        return watching::run(&cluster, &selection, storages, outcomes.ok(), printer).await;
    }
    list(
        &cluster,
        &selection,
        &storages,
        &outcomes.unwrap_or_default(),
        &mut printer,
    )
    .await?;
    printer.finish(&selection.nothing());
    Ok(())
}

async fn list(
    cluster: &Cluster,
    selection: &Selection<'_>,
    storages: &Storages,
    outcomes: &EventOutcomes,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    if let Some(object) = selection.object_ref() {
        let body = need(cluster, object).await?;
        printer.page(&[Row::new(&body, storages, outcomes)]);
        return Ok(());
    }
    let query = Query {
        resource: selection.resource,
        namespace: selection.namespace,
        labels: selection.labels,
        fields: None,
    };
    let listed = cluster.pages(query, |page| {
        let rows = page.iter().map(|body| Row::new(body, storages, outcomes));
        let rows: Vec<_> = rows.collect();
        printer.page(&rows);
        if printer.screen().is_open() {
            Paging::Continue
        } else {
            Paging::Stop
        }
    });
    listed.await.map_err(|error| selection.unlisted(&error))
}

impl Selection<'_> {
    /// Returns the object if a name is given.
    fn object_ref(&self) -> Option<ObjectRef<'_>> {
        self.name.map(|name| ObjectRef {
            resource: self.resource,
            namespace: self.namespace,
            name,
        })
    }

    /// Returns the message for an empty list.
    fn nothing(&self) -> String {
        match self.namespace {
            Some(namespace) => format!("no {} in the namespace {namespace}", full(self.resource)),
            None => format!("no {}", full(self.resource)),
        }
    }

    fn unlisted(&self, error: &kopf_client::Error) -> Failure {
        request_failure(format!("cannot list {}", full(self.resource)), error)
    }
}
