//! Return types of index functions.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use serde_json::Value;

use crate::error::Error;
use crate::outcome::IntoError;

/// The converted result: entries, `None` to keep the former ones, or an error.
pub type Returned<K, V> = Result<Option<Vec<(K, V)>>, Error>;

/// A return value of index functions: the entries of the object.
///
/// | type | meaning |
/// |---|---|
/// | `(K, V)` | one entry |
/// | `Vec<(K, V)>`, `HashMap<K, V>`, `BTreeMap<K, V>` | an entry for each key |
/// | `Option` of those | `None`: no entries |
/// | [`Value`], strings, numbers, booleans, [`Plain<V>`](Plain) | one entry, with the key `()` |
/// | [`Indexed`] of those | entries, or [`Indexed::Keep`] to keep the former ones |
/// | [`kopf::Result`](crate::Result) of those, or `Result<_, E>` with any error type | entries, or an error |
///
/// An object has one value per key. Of several, the last one is stored.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from an index function",
    label = "not entries of an index",
    note = "return `(key, value)`, an `Option`, a `Vec` or a map of such, or `kopf::Result` of those; \
            `kopf::indexing::Plain(value)` is a value without a key",
    note = "keys must be `Clone + Eq + Hash + Send + Sync`, values `Send + Sync`"
)]
pub trait IntoEntries {
    /// The type of keys.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The type of values.
    type Value: Send + Sync + 'static;

    /// Converts the value to entries; `None` keeps the former ones.
    fn into_entries(self) -> Returned<Self::Key, Self::Value>;
}

/// Entries of an object, or an instruction to keep the former ones.
///
/// ```
/// use kopf::indexing::Indexed;
/// use kopf::prelude::*;
///
/// #[kopf::index("pods")]
/// fn nodes(Spec(spec): Spec, Name(name): Name) -> Indexed<(String, String)> {
///     match spec["nodeName"].as_str() {
///         Some(node) => Indexed::Entries((node.to_owned(), name)),
///         None => Indexed::Keep,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Indexed<T> {
    /// Replaces the former entries.
    Entries(T),
    /// Keeps the former entries.
    Keep,
}

/// A value without a key. It is stored under the key `()`.
///
/// ```
/// use kopf::indexing::Plain;
/// use kopf::prelude::*;
///
/// struct Pod { name: String }
///
/// #[kopf::index("pods")]
/// fn all_pods(Name(name): Name) -> Plain<Pod> {
///     Plain(Pod { name })
/// }
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(pods: Index<all_pods>) -> Vec<String> {
///     pods.get(&()).iter().map(|pod| pod.name.clone()).collect()
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plain<V>(pub V);

impl<K, V> IntoEntries for (K, V)
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    type Key = K;
    type Value = V;

    fn into_entries(self) -> Returned<K, V> {
        Ok(Some(vec![self]))
    }
}

impl<T: IntoEntries> IntoEntries for Option<T> {
    type Key = T::Key;
    type Value = T::Value;

    fn into_entries(self) -> Returned<T::Key, T::Value> {
        self.map_or(Ok(Some(Vec::new())), T::into_entries)
    }
}

impl<T: IntoEntries> IntoEntries for Indexed<T> {
    type Key = T::Key;
    type Value = T::Value;

    fn into_entries(self) -> Returned<T::Key, T::Value> {
        match self {
            Self::Entries(entries) => entries.into_entries(),
            Self::Keep => Ok(None),
        }
    }
}

impl<T: IntoEntries, E: IntoError> IntoEntries for Result<T, E> {
    type Key = T::Key;
    type Value = T::Value;

    fn into_entries(self) -> Returned<T::Key, T::Value> {
        self.map_err(IntoError::into_error)?.into_entries()
    }
}

macro_rules! several {
    ($([$($parameters:tt)*] $several:ty),* $(,)?) => {$(
        impl<K, V, $($parameters)*> IntoEntries for $several
        where
            K: Clone + Eq + Hash + Send + Sync + 'static,
            V: Send + Sync + 'static,
        {
            type Key = K;
            type Value = V;

            fn into_entries(self) -> Returned<K, V> {
                Ok(Some(self.into_iter().collect()))
            }
        }
    )*};
}

several! {
    [] Vec<(K, V)>,
    [S] HashMap<K, V, S>,
    [] BTreeMap<K, V>,
}

impl<V: Send + Sync + 'static> IntoEntries for Plain<V> {
    type Key = ();
    type Value = V;

    fn into_entries(self) -> Returned<(), V> {
        Ok(Some(vec![((), self.0)]))
    }
}

macro_rules! plain {
    ($($plain:ty),* $(,)?) => {$(
        impl IntoEntries for $plain {
            type Key = ();
            type Value = Self;

            fn into_entries(self) -> Returned<(), Self> {
                Ok(Some(vec![((), self)]))
            }
        }
    )*};
}

plain! {
    Value, String, &'static str, bool,
    i8, i16, i32, i64, isize,
    u8, u16, u32, u64, usize,
    f32, f64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries<T: IntoEntries>(returned: T) -> Option<Vec<(T::Key, T::Value)>> {
        returned.into_entries().unwrap()
    }

    #[test]
    fn results_are_converted_to_entries() {
        assert_eq!(entries(("a", 1)), Some(vec![("a", 1)]));
        assert_eq!(entries(Some(("a", 1))), Some(vec![("a", 1)]));
        assert_eq!(entries(None::<(u8, u8)>), Some(vec![]), "no entries");
        assert_eq!(entries(vec![(1, 2), (3, 4)]), Some(vec![(1, 2), (3, 4)]));
        assert_eq!(entries(HashMap::from([(1, 2)])), Some(vec![(1, 2)]));
        assert_eq!(entries(BTreeMap::from([(1, 2)])), Some(vec![(1, 2)]));
        assert_eq!(entries(json!(1)), Some(vec![((), json!(1))]));
        assert_eq!(entries(Plain([1, 2])), Some(vec![((), [1, 2])]));
        assert_eq!(
            entries(crate::Result::<_>::Ok(Some(("a", 1)))),
            Some(vec![("a", 1)])
        );
        assert_eq!(entries(Indexed::Entries(("a", 1))), Some(vec![("a", 1)]));
        assert_eq!(entries(Indexed::<(u8, u8)>::Keep), None, "the former ones");
    }

    #[test]
    fn errors_are_passed_on() {
        let failed: crate::Result<(u8, u8)> = Err(crate::temporary("later").into());
        assert!(failed.into_entries().unwrap_err().is_temporary());
    }
}
