//! `kopf explain`: the state of one object in detail.

use super::need;
use crate::args::{ExplainArgs, ExplainOutput};
use crate::cluster::Cluster;
use crate::explanation::Explanation;
use crate::failure::Failure;
use crate::object_ref::ObjectRef;
use crate::paint::harmless_json;
use crate::screen::Screen;

pub(super) async fn run(args: &ExplainArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.namespace.of(&cluster, &resource);
    let object = ObjectRef {
        resource: &resource,
        namespace: namespace.as_deref(),
        name: &args.name,
    };
    let body = need(&cluster, object).await?;
    let explanation = Explanation::gather(&cluster, object, &body, &storages).await;
    let now = Cluster::now();
    match args.output {
        Some(ExplainOutput::Json) => {
            let text = format!("{:#}\n", explanation.to_value(now));
            screen.print(&harmless_json(&text));
        }
        None => screen.lines(&explanation.render(now, screen.colours())),
    }
    Ok(())
}
