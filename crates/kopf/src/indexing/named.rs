//! Indices as handlers ask for them.

use std::any::{Any, type_name};
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kopf_engine::indexing::{self, ObjectKey, Store};

use crate::extract::{Context, Declared, Extract, FilterExtract, Rejection};

/// An index as a type: so that [`Index`] can be asked for.
///
/// `#[kopf::index(…)]` makes such a type beside the function, with the same name. For functions that
/// are given to [`kopf::index`](super::index), write one: see there.
pub trait IndexOf: 'static {
    /// The type of keys.
    type Key: Clone + Eq + Hash + Send + Sync + 'static;
    /// The type of values.
    type Value: Send + Sync + 'static;
    /// The name: the id of the function that keeps it.
    const ID: &'static str;
}

/// What an index function has returned for all objects: values by keys, with at most one value of
/// each object for a key. It is the index as it is now: looked up later, it can have changed.
///
/// Operators without that index are not built.
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
/// // As any function, it can be called by a test:
/// assert!(has_room(Index::from_iter([("node-1".to_owned(), "pod-1".to_owned())])));
/// ```
pub struct Index<I: IndexOf>(Arc<indexing::Index<I::Key, I::Value>>);

impl<I: IndexOf> Index<I> {
    /// The values under a key, as they are now; an empty [`Store`] if there are none.
    pub fn get<Q>(&self, key: &Q) -> Store<I::Value>
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get(key)
    }

    /// Whether there are any values under a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.contains_key(key)
    }

    /// All keys, in no particular order.
    pub fn keys(&self) -> Vec<I::Key> {
        self.0.keys()
    }

    /// All keys with their values, in no particular order.
    pub fn items(&self) -> Vec<(I::Key, Store<I::Value>)> {
        self.0.items()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<I: IndexOf> Extract for Index<I> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let indices = &context.operator().indices;
        let Some(index) = indices.get(I::ID) else {
            let names: Vec<_> = indices.names().map(|name| &**name).collect();
            return Err(missing::<I>(&names));
        };
        let index: Arc<dyn Any + Send + Sync> = Arc::clone(index) as _;
        index
            .downcast()
            .map(Self)
            .map_err(|_| Rejection::OtherIndex {
                id: I::ID,
                wanted: type_name::<(I::Key, I::Value)>(),
                kept: "others",
            })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let kept = &declared.front.indices;
        match kept.get(I::ID) {
            Some(keeping) if keeping.is::<I::Key, I::Value>() => Ok(()),
            Some(keeping) => Err(Rejection::OtherIndex {
                id: I::ID,
                wanted: type_name::<(I::Key, I::Value)>(),
                kept: keeping.entries,
            }),
            None => {
                let names: Vec<_> = kept.keys().map(String::as_str).collect();
                Err(missing::<I>(&names))
            }
        }
    }
}

impl<I: IndexOf> FilterExtract for Index<I> {}

fn missing<I: IndexOf>(names: &[&str]) -> Rejection {
    Rejection::NoIndex {
        id: I::ID,
        known: match names {
            [] => "there are none".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        },
    }
}

impl<I: IndexOf> Clone for Index<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// An index of one's own, every entry of another object: for tests of functions that ask for one.
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
