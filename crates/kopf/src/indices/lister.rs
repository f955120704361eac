//! Objects of a kind in memory, as arguments of handlers.

use std::any::{TypeId, type_name};
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::handler::FunctionId;
use kopf_core::outcome::HandlerError;
use kopf_core::resource::Resource;
use kopf_engine::indexing::{self, Entries, ObjectKey};
use kopf_engine::invocation::{Call, Function, HandlerResult, Invoke, Work};
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;

use super::{Index, IndexOf, IndexTypes};
use crate::selecting::{ResourceType, Select};

/// The namespace and the name of an object. The namespace of cluster-scoped objects is empty.
type Place = (String, String);

/// All objects of a kind, shared by the handlers that ask for it, without requests to the API.
///
/// It is filled by the stream of the kind that the operator has anyway: there must be a handler of the
/// kind, or one that `owns` it. Only such kinds are kept in memory for which a handler has this argument,
/// and all objects are known before any handler is called. Lookups return the newest known versions,
/// which can change between lookups, and can be older than those in the cluster.
///
/// ```
/// use kopf::{Lister, Namespace};
/// use kopf::k8s_openapi::api::core::v1::ConfigMap;
/// use kopf::prelude::*;
///
/// #[kopf::on::reconcile("kopfexamples", owns = [ConfigMap])]
/// fn sync(Namespace(namespace): Namespace, Name(name): Name, maps: Lister<ConfigMap>) {
///     let own = maps.get(&*namespace, &name);
///     let all = maps.in_namespace(&namespace).len();
///     tracing::info!("{} of {all}", own.is_some());
/// }
///
/// let operator = Operator::builder().handlers(kopf::handlers![sync]).build()?;
///
/// // In a test, it can be called directly:
/// sync(Namespace("default".into()), Name("obj".into()), Lister::from_iter([]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lister<K>(Arc<indexing::Index<Place, Arc<K>>>);

impl<K> Lister<K> {
    /// Returns the id of the index with the objects.
    pub(crate) fn id() -> String {
        format!("Lister<{}>", type_name::<K>())
    }

    pub(crate) fn from_shared(index: Arc<indexing::Index<Place, Arc<K>>>) -> Self {
        Self(index)
    }

    /// Returns the object of this name, if it exists. The namespace of cluster-scoped objects is `None`.
    pub fn get<'a>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Option<Arc<K>> {
        let namespace = namespace.into().unwrap_or_default();
        self.find(&(namespace.to_owned(), name.to_owned()))
    }

    fn find(&self, place: &Place) -> Option<Arc<K>> {
        self.0.get(place).iter().next().cloned()
    }

    /// Returns all objects, sorted by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.listed(|_| true)
    }

    /// Returns the objects in a namespace, sorted by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.listed(|(own, _)| own == namespace)
    }

    fn listed(&self, is_wanted: impl Fn(&Place) -> bool) -> Vec<Arc<K>> {
        let mut places = self.0.keys();
        places.retain(is_wanted);
        places.sort_unstable();
        places.iter().filter_map(|place| self.find(place)).collect()
    }

    /// Returns the objects that an index contains under a key. The values of the index are the namespaces
    /// and names of objects; the namespace of cluster-scoped objects is empty.
    ///
    /// ```
    /// use kopf::{Lister, Namespace};
    /// use kopf::k8s_openapi::api::core::v1::Pod;
    /// use kopf::prelude::*;
    ///
    /// #[kopf::index("pods")]
    /// fn pods_by_node(
    ///     Spec(spec): Spec,
    ///     Namespace(namespace): Namespace,
    ///     Name(name): Name,
    /// ) -> Option<(String, (String, String))> {
    ///     Some((spec["nodeName"].as_str()?.to_owned(), (namespace, name)))
    /// }
    ///
    /// #[kopf::on::create("nodes")]
    /// fn count(Name(name): Name, pods: Lister<Pod>, by_node: Index<pods_by_node>) -> usize {
    ///     pods.by_index(&by_node, &name).len()
    /// }
    /// ```
    pub fn by_index<I, Q>(&self, index: &Index<I>, key: &Q) -> Vec<Arc<K>>
    where
        I: IndexOf<Value = Place>,
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let places = index.get(key);
        places.iter().filter_map(|place| self.find(place)).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: kube::Resource> Lister<K> {
    /// Returns the objects that have all of these labels, sorted by namespace and name.
    ///
    /// ```
    /// use kopf::Lister;
    /// use kopf::k8s_openapi::api::core::v1::Pod;
    ///
    /// fn web(pods: &Lister<Pod>) -> usize {
    ///     pods.labelled([("app", "web")]).len()
    /// }
    /// assert_eq!(web(&Lister::from_iter([])), 0);
    /// ```
    pub fn labelled<'a>(
        &self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Vec<Arc<K>> {
        let labels: Vec<_> = labels.into_iter().collect();
        let mut objects = self.list();
        objects.retain(|object| {
            let own = object.meta().labels.as_ref();
            let mut labels = labels.iter();
            labels.all(|(key, value)| {
                own.and_then(|own| own.get(*key))
                    .is_some_and(|own| own == value)
            })
        });
        objects
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Creates a lister of these objects, for tests of functions.
impl<K: kube::Resource> FromIterator<K> for Lister<K> {
    fn from_iter<T: IntoIterator<Item = K>>(objects: T) -> Self {
        let index = indexing::Index::default();
        for (number, object) in objects.into_iter().enumerate() {
            let place = place(object.meta());
            index.put(&ObjectKey::numbered(number), [(place, Arc::new(object))]);
        }
        Self(Arc::new(index))
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} objects)", Self::id(), self.len())
    }
}

fn place(metadata: &ObjectMeta) -> Place {
    let namespace = metadata.namespace.clone().unwrap_or_default();
    (namespace, metadata.name.clone().unwrap_or_default())
}

/// The index behind the listers of a kind.
#[derive(Clone)]
pub struct Listing {
    pub(crate) id: String,
    /// The resource as far as the type knows it.
    pub(crate) resource: Resource,
    pub(crate) select: Select,
    pub(crate) types: IndexTypes,
    pub(crate) function: FunctionId,
    pub(crate) run: Function,
}

impl Listing {
    /// Returns the index of this kind.
    pub(crate) fn of<K>() -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        let kind = K::kind(&()).into_owned();
        let resource = Resource {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            singular: kind.to_lowercase(),
            kind,
            preferred: true,
            ..Resource::default()
        };
        Self {
            id: Lister::<K>::id(),
            resource,
            select: <K as ResourceType>::select(),
            types: IndexTypes::new::<Place, Arc<K>>(),
            function: FunctionId::Type(TypeId::of::<Storing<K>>()),
            run: Arc::new(Storing::<K>(PhantomData)),
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listing({})", self.id)
    }
}

/// The function that stores each version of an object.
struct Storing<K>(PhantomData<fn() -> K>);

impl<K> Invoke for Storing<K>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    fn invoke(&self, call: Call) -> Work {
        Work::Async(Box::pin(async move { store::<K>(&call) }))
    }
}

fn store<K>(call: &Call) -> HandlerResult
where
    K: kube::Resource + DeserializeOwned + Send + Sync + 'static,
{
    let object = K::deserialize(call.body().value()).map_err(|error| {
        // An object that cannot be read is not listed, until it is changed.
        let message = format!("the object is not a {}: {error}", type_name::<K>());
        HandlerError::temporary(message, Some(Duration::ZERO))
    })?;
    let entries: Vec<(Place, Arc<K>)> = vec![(place(object.meta()), Arc::new(object))];
    let entries: Entries = Box::new(entries);
    call.slot.put(entries);
    Ok(None)
}
