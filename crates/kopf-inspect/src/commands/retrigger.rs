//! `kopf retrigger`: calls the handlers of an object again.

use crate::args::RetriggerArgs;
use crate::failure::Failure;
use crate::object_ref::ObjectRef;
use crate::paint::harmless;
use crate::screen::Screen;
use crate::writing::{Retriggered, retrigger};

pub(super) async fn run(args: &RetriggerArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let handler = args.handler.as_deref();
    if handler.is_some_and(str::is_empty) {
        return Err(Failure::plain("empty handler id"));
    }
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.namespace.of(&cluster, &resource);
    let object = ObjectRef {
        resource: &resource,
        namespace: namespace.as_deref(),
        name: &args.name,
    };
    let text = match retrigger(&cluster, object, &storages, handler).await? {
        Retriggered::Creation => {
            format!("{object} is retriggered: its operator handles it as a new object")
        }
        Retriggered::Requested => format!(
            "{object} is retriggered: its operator calls {} again",
            harmless(handler.unwrap_or_default())
        ),
        Retriggered::NotHandled => {
            format!("{object} has no state of an operator: it is handled as a new object anyway")
        }
    };
    screen.print(&format!("{text}\n"));
    Ok(())
}
