//! Indices as arguments of handlers.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kopf_engine::indexing::{self, ObjectKey, Store};

/// An index as a type, for [`Index`] arguments.
///
/// `#[kopf::index(…)]` declares such a type with the name of the function. Implement it for
/// functions that are passed to [`kopf::index`](crate::index()).
pub trait IndexOf: 'static {
    /// The type of keys.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The type of values.
    type Value: Send + Sync + 'static;
    /// The name: the id of the function that maintains it.
    const ID: &'static str;
}

/// The entries of all objects in an index: values by key, with at most one value per object and
/// key. Lookups return the current entries, which can change between lookups.
///
/// The operator cannot be built if it has no such index.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::index("pods")]
/// fn pods_by_node(Spec(spec): Spec, Name(name): Name) -> Option<(String, String)> {
///     Some((spec["nodeName"].as_str()?.to_owned(), name))
/// }
///
/// #[kopf::on::create("kopfexamples", when = has_room)]
/// fn create_fn(pods: Index<pods_by_node>, logger: Logger) {
///     for (node, pods) in pods.items() {
///         logger.info(format_args!("{node} has {} pods", pods.len()));
///     }
/// }
///
/// fn has_room(pods: Index<pods_by_node>) -> bool {
///     pods.get("node-1").len() < 10
/// }
///
/// // In a test, it can be called directly:
/// assert!(has_room(Index::from_iter([("node-1".to_owned(), "pod-1".to_owned())])));
/// ```
pub struct Index<I: IndexOf>(Arc<indexing::Index<I::Key, I::Value>>);

impl<I: IndexOf> Index<I> {
    pub(crate) fn from_shared(index: Arc<indexing::Index<I::Key, I::Value>>) -> Self {
        Self(index)
    }

    /// Returns the values under a key; an empty [`Store`] if there are none.
    pub fn get<Q>(&self, key: &Q) -> Store<I::Value>
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get(key)
    }

    /// Returns `true` if there are values under a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.contains_key(key)
    }

    /// Returns all keys, in no particular order.
    pub fn keys(&self) -> Vec<I::Key> {
        self.0.keys()
    }

    /// Returns all keys with their values, in no particular order.
    pub fn items(&self) -> Vec<(I::Key, Store<I::Value>)> {
        self.0.items()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<I: IndexOf> Clone for Index<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Creates an index with one object per entry, for tests of functions.
impl<I: IndexOf> FromIterator<(I::Key, I::Value)> for Index<I> {
    fn from_iter<T: IntoIterator<Item = (I::Key, I::Value)>>(entries: T) -> Self {
        let index = indexing::Index::default();
        for (number, entry) in entries.into_iter().enumerate() {
            index.put(&ObjectKey::numbered(number), [entry]);
        }
        Self(Arc::new(index))
    }
}

impl<I: IndexOf> fmt::Debug for Index<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({:?}, {} keys)", I::ID, self.len())
    }
}
