//! A handler that registers one sub-handler for each item, each with its own retries and result.
//!
//! ```console
//! cargo run --bin 07-subhandlers -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl get kex kopf-example-1 -o yaml
//! ```

use kopf::SubHandlers;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_items(Spec(spec): Spec, subs: SubHandlers) {
    for item in spec["items"].as_array().into_iter().flatten() {
        let item = item.as_str().unwrap_or("unnamed").to_owned();
        subs.register(item.clone(), move |retry: Retry| async move {
            // The second item needs a second attempt, which does not repeat the first item.
            if item == "item2" && *retry == 0 {
                return Err(kopf::temporary("not yet").delay(1));
            }
            tracing::info!("=== Handling {item}.");
            Ok(json!({"handled": item}))
        });
    }
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_items])
}
