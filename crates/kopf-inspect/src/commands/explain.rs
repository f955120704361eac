//! `kopf explain`: the story of one object.

use super::need;
use crate::args::{ExplainArgs, StoryOutput};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::named::Named;
use crate::screen::Screen;
use crate::story::Story;

pub(super) async fn run(args: &ExplainArgs, screen: &Screen) -> Result<(), Failure> {
    let places = args.common.places()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.namespace.of(&cluster, &resource);
    let object = Named {
        resource: &resource,
        namespace: namespace.as_deref(),
        name: &args.name,
    };
    let body = need(&cluster, object).await?;
    let story = Story::gather(&cluster, object, &body, &places).await;
    let now = Cluster::now();
    match args.output {
        Some(StoryOutput::Json) => screen.print(&format!("{:#}\n", story.to_value(now))),
        None => screen.lines(&story.render(now, screen.colours())),
    }
    Ok(())
}
