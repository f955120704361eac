//! The beginning and the end of an operator.

use std::sync::Arc;

use kopf_core::handler::Activity;
use kopf_core::settings::Settings;

use super::{Activities, Error};
use crate::execution::BlockingPool;
use crate::invocation::{OperatorContext, Registry, SettingsDraft};

/// Calls the startup handlers, and says what they have made of the settings.
///
/// Every handler sees the settings as the ones before have left them.
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

/// Calls the cleanup handlers.
pub(crate) async fn cleanup(
    registry: &Registry,
    context: &Arc<OperatorContext>,
) -> Result<(), Error> {
    // Threads of their own: those that do not end can have all others.
    let pool = BlockingPool::new(context.settings.execution.max_workers);
    let activities = Activities::new(Activity::Cleanup, registry, pool);
    activities.run(|| Arc::clone(context)).await?;
    Ok(())
}
