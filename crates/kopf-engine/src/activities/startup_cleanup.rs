//! Startup and cleanup of an operator.

use std::sync::Arc;

use kopf_core::handler::Activity;
use kopf_core::settings::Settings;

use super::{Activities, Error};
use crate::execution::BlockingPool;
use crate::invocation::{OperatorContext, Registry, SettingsDraft};

/// Calls the startup handlers and returns the settings as changed by them.
///
/// Every handler gets the settings as left by the handlers before it.
pub(crate) async fn startup(
    registry: &Registry,
    context: OperatorContext,
) -> Result<Settings, Error> {
    let pool = BlockingPool::new(context.settings.execution.max_workers);
    let draft = SettingsDraft::new(context.settings.as_ref().clone());
    let activities = Activities::new(Activity::Startup, registry, pool);
    activities
        .run(|| {
            Arc::new(OperatorContext {
                settings: Arc::new(draft.get()),
                draft: Some(draft.clone()),
                ..context.clone()
            })
        })
        .await?;
    Ok(draft.get())
}

/// Calls the cleanup handlers. `pool` is the pool of the handlers that ran before.
pub(crate) async fn cleanup(
    registry: &Registry,
    context: &Arc<OperatorContext>,
    pool: &BlockingPool,
) -> Result<(), Error> {
    let activities = Activities::new(Activity::Cleanup, registry, pool.urgent());
    activities.run(|| Arc::clone(context)).await?;
    Ok(())
}
