//! The newest version of an object, for daemons and timers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::{Body, ManagedFields};
use kopf_core::sync::Mutex;
use serde_json::Value;

/// Minimum sleep for which the body is stored encoded. A decoded body takes several times the
/// memory, but decoding takes time.
const LONG_SLEEP: Duration = Duration::from_secs(30);

/// The newest version of an object. Cheap to clone: clones share the object.
#[derive(Clone)]
pub struct LiveBody(Arc<Mutex<Kept>>);

/// The representation of a body.
enum Kept {
    /// Decoded, for readers.
    Read(Body),
    /// Encoded, for sleeping runners.
    Text(Box<[u8]>),
}

impl LiveBody {
    pub(crate) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(Kept::Read(body))))
    }

    /// Returns the newest version; the next call may return a newer one.
    pub fn get(&self) -> Body {
        let mut kept = self.0.lock();
        let body = match &*kept {
            Kept::Read(body) => return body.clone(),
            // Encoded by `rest`, so it can be decoded.
            Kept::Text(text) => Body::parse_with(text, ManagedFields::Keep)
                .map_or_else(|_| Body::new(Value::Null), |(body, _)| body),
        };
        *kept = Kept::Read(body.clone());
        body
    }

    pub(crate) fn set(&self, body: Body) {
        *self.0.lock() = Kept::Read(body);
    }

    /// Encodes the body for a sleep of this duration, if it is long enough.
    pub(crate) fn rest(&self, time: Duration) {
        if time < LONG_SLEEP {
            return;
        }
        let mut kept = self.0.lock();
        if let Kept::Read(body) = &*kept
            && let Ok(text) = serde_json::to_vec(body)
        {
            *kept = Kept::Text(text.into_boxed_slice());
        }
    }
}

impl fmt::Debug for LiveBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveBody({})", self.get().reference())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resting_keeps_the_order_of_keys() {
        let text = br#"{"kind":"K","apiVersion":"v1","spec":[{"b":1,"a":2}]}"#;
        let (body, _) = Body::parse_with(text, ManagedFields::Keep).unwrap();
        let live = LiveBody::new(body);
        live.rest(Duration::MAX);
        assert_eq!(serde_json::to_vec(&live.get()).unwrap(), text);
    }

    #[test]
    fn resting_keeps_the_content() {
        let value = json!({
            "metadata": {"name": "obj", "managedFields": [{"manager": "x"}]},
            "spec": {"a": [1, -2, 0.1, null, "ü\n"]},
        });
        let live = LiveBody::new(Body::new(value.clone()));
        live.rest(Duration::from_secs(1));
        assert!(
            matches!(*live.0.lock(), Kept::Read(_)),
            "short rests keep it decoded"
        );
        live.rest(Duration::MAX);
        assert!(matches!(*live.0.lock(), Kept::Text(_)));
        live.rest(Duration::MAX);
        assert_eq!(live.get().value(), &value);
        assert!(matches!(*live.0.lock(), Kept::Read(_)));
        live.rest(Duration::MAX);
        live.set(Body::new(json!({"spec": 2})));
        assert_eq!(live.clone().get().value(), &json!({"spec": 2}));
    }
}
