//! Settings under change by startup handlers.

use std::sync::Arc;

use kopf_core::settings::Settings;
use kopf_core::sync::Mutex;

/// Settings that startup handlers can change. Cheap to clone: clones share the settings.
///
/// ```
/// use kopf_engine::invocation::SettingsDraft;
///
/// let draft = SettingsDraft::default();
/// let mut settings = draft.get();
/// settings.posting.enabled = false;
/// draft.clone().set(settings);
/// assert!(!draft.get().posting.enabled);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SettingsDraft(Arc<Mutex<Settings>>);

impl SettingsDraft {
    /// Creates a draft of these settings.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(settings)))
    }

    /// Returns a copy of the current settings.
    pub fn get(&self) -> Settings {
        self.0.lock().clone()
    }

    /// Replaces the settings.
    pub fn set(&self, settings: Settings) {
        *self.0.lock() = settings;
    }
}
