//! Closures as handlers and sub-handlers.

use kopf::SubHandlers;
use kopf::prelude::*;

#[kopf::on::create("things")]
async fn create_fn(Spec(spec): Spec, subs: SubHandlers) -> kopf::Result<()> {
    for item in spec["items"].as_array().cloned().unwrap_or_default() {
        let text = item.to_string();
        let (again, once_more) = (text.clone(), text.clone());
        subs.register(text.clone(), move |logger: Logger| async move {
            logger.info(&text);
            Ok(())
        });
        subs.register(format!("{again}-2"), move |Name(name): Name| {
            drop(again);
            if name.is_empty() {
                return Err(kopf::temporary("no name").delay(1));
            }
            Ok(name)
        });
        subs.register(format!("{once_more}-3"), async move |logger: Logger| {
            logger.info(&once_more);
            "done".parse::<u32>()?;
            Ok(json!({"done": true}))
        });
        subs.register("unit", || {});
        subs.handler(on::subhandler("options", |retry: Retry| *retry).retries(3))?;
    }
    subs.execute().await
}

pub(crate) fn main() {
    let prefix = String::from("seen: ");
    let _ = Operator::builder()
        .handler(
            on::create("things", move |Name(name): Name, logger: Logger| {
                let text = format!("{prefix}{name}");
                async move { logger.info(text) }
            })
            .id("first"),
        )
        .handler(on::update("things", |diff: Diff| diff.len()).id("second"))
        .handler(on::delete("things", async |logger: Logger| logger.info("gone")).id("third"));
}
