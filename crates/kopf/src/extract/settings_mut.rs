//! The mutable settings of the operator.

use std::fmt;
use std::ops::{Deref, DerefMut};

use kopf_core::handler::Activity;
use kopf_core::settings::Settings;
use kopf_engine::invocation::SettingsDraft;

use super::{Context, Declared, Extract, Rejection};

/// The settings of the operator, which handlers of [`on::startup`](crate::on::startup()) can
/// change. After the startup, they are fixed.
///
/// The changes are stored when the argument is dropped, even if the handler fails. Later handlers
/// receive them.
///
/// ```
/// use std::time::Duration;
/// use kopf::SettingsMut;
/// use kopf::prelude::*;
///
/// #[kopf::on::startup]
/// fn configure(mut settings: SettingsMut) {
///     settings.posting.level = kopf::Level::Warning;
///     settings.execution.default_backoff = Duration::from_secs(10);
/// }
///
/// // In a test, use the default settings.
/// configure(SettingsMut::default());
/// ```
#[derive(Default)]
pub struct SettingsMut {
    settings: Settings,
    draft: Option<SettingsDraft>,
}

impl Deref for SettingsMut {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl DerefMut for SettingsMut {
    fn deref_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

/// Startup handlers run one after another: there are no concurrent changes.
impl Drop for SettingsMut {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            draft.set(std::mem::take(&mut self.settings));
        }
    }
}

impl fmt::Debug for SettingsMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl Extract for SettingsMut {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let draft = context.operator().draft.as_ref();
        let draft = draft.ok_or(Rejection::NoStartup)?;
        Ok(Self {
            settings: draft.get(),
            draft: Some(draft.clone()),
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        match declared.activity() {
            Some(Activity::Startup) => Ok(()),
            _ => Err(Rejection::NoStartup),
        }
    }
}
