//! Values of the operator: its client, settings, states, memos and indices.

use std::any::{Any, type_name};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use kopf_core::handler::Activity;
use kopf_core::settings::Settings;
use kopf_engine::invocation::SettingsDraft;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::metadata::Namespace;
use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
use crate::indices::{Index, IndexOf, Lister, Listing};
use crate::memos::{Memo, MemoValue, Memos};

/// The kube client, which shares the connection of the operator.
impl Extract for kube::Client {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.operator().client.kube())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        match declared.activity() {
            Some(Activity::Startup) => Err(Rejection::NoConnection {
                activity: "startup",
            }),
            Some(Activity::Authentication) => Err(Rejection::NoConnection { activity: "login" }),
            _ => Ok(()),
        }
    }
}

impl FilterExtract for kube::Client {}

/// The API of a resource: in the namespace of the handled object if the resource is namespaced,
/// otherwise in the whole cluster.
///
/// ```
/// use kopf::k8s_openapi::api::core::v1::Pod;
/// use kopf::kube::Api;
/// use kopf::kube::api::DeleteParams;
/// use kopf::prelude::*;
///
/// #[kopf::on::delete("kopfexamples")]
/// async fn delete_fn(Name(name): Name, pods: Api<Pod>) -> kopf::Result<()> {
///     pods.delete(&name, &DeleteParams::default()).await?;
///     Ok(())
/// }
/// ```
///
/// Use a [`Client`] for other namespaces.
impl<K> Extract for Api<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: ApiScope,
{
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        <K::Scope as ApiScope>::api(Client::extract(context)?, context)
    }
}

/// The scope of a resource: namespaced or not.
pub trait ApiScope {
    /// Creates the API for the handled object.
    fn api<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>;
}

impl ApiScope for NamespaceResourceScope {
    fn api<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        let Namespace(namespace) = Namespace::extract(context).map_err(|_| {
            let kind = K::kind(&());
            Rejection::other(format_args!(
                "the object has no namespace for the {kind} API: use a Client instead"
            ))
        })?;
        Ok(Api::namespaced(client, &namespace))
    }
}

impl ApiScope for ClusterResourceScope {
    fn api<K>(client: Client, _: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        Ok(Api::all(client))
    }
}

impl Extract for Settings {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.settings().as_ref().clone())
    }
}

impl FilterExtract for Settings {}

impl Extract for Arc<Settings> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self::clone(context.settings()))
    }
}

impl FilterExtract for Arc<Settings> {}

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

/// A value that all handlers of the operator share: connections, caches, configuration. One per
/// type.
///
/// It is cloned for every call. Use an `Arc` if cloning is expensive or the value changes.
///
/// ```
/// use std::sync::Arc;
/// use kopf::prelude::*;
///
/// struct Database { url: String }
///
/// async fn create_fn(State(db): State<Arc<Database>>, logger: Logger) {
///     logger.info(format_args!("connecting to {}", db.url));
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let database = Arc::new(Database { url: "db://somewhere".into() });
/// let operator = Operator::builder()
///     .handler(on::create("kopfexamples", create_fn))
///     .state(database)
///     .build()?;
/// # Ok(())
/// # }
/// ```
///
/// The operator cannot be built without the state:
///
/// ```
/// # use kopf::prelude::*;
/// fn create_fn(State(count): State<u64>) -> u64 { count }
///
/// let error = Operator::builder().handler(on::create("kopfexamples", create_fn)).build().unwrap_err();
/// assert!(error.to_string().contains("there is no state of the type u64"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        context.state().map(Self).ok_or_else(missing_state::<T>)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.front.has::<T>() {
            Ok(())
        } else {
            Err(missing_state::<T>())
        }
    }
}

impl<T: Clone + Send + Sync + 'static> OptionalExtract for State<T> {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.state().map(Self))
    }
}

impl<T: Clone + Send + Sync + 'static> FilterExtract for State<T> {}

fn missing_state<T>() -> Rejection {
    Rejection::NoState {
        type_name: type_name::<T>(),
    }
}

impl<T: MemoValue> Extract for Memo<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let memos = context.memo().get().downcast_ref::<Memos>();
        memos.and_then(Memos::get).ok_or_else(missing_memo::<T>)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.front.seeds.has::<T>() || T::initial().is_some() {
            Ok(())
        } else {
            Err(missing_memo::<T>())
        }
    }
}

impl<T: MemoValue> FilterExtract for Memo<T> {}

fn missing_memo<T>() -> Rejection {
    Rejection::NoMemo {
        type_name: type_name::<T>(),
    }
}

impl<I: IndexOf> Extract for Index<I> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let indices = &context.operator().indices;
        let Some(index) = indices.get(I::ID) else {
            let names: Vec<_> = indices.names().map(|name| &**name).collect();
            return Err(missing_index::<I>(&names));
        };
        let index: Arc<dyn Any + Send + Sync> = Arc::clone(index) as _;
        let index = index.downcast().map_err(|_| Rejection::OtherIndex {
            id: I::ID,
            wanted: type_name::<(I::Key, I::Value)>(),
            kept: "others",
        })?;
        Ok(Self::from_shared(index))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        let kept = &declared.front.indices;
        match kept.get(I::ID) {
            Some(types) if types.is::<I::Key, I::Value>() => Ok(()),
            Some(types) => Err(Rejection::OtherIndex {
                id: I::ID,
                wanted: type_name::<(I::Key, I::Value)>(),
                kept: types.entries,
            }),
            None => {
                let names: Vec<_> = kept.keys().map(String::as_str).collect();
                Err(missing_index::<I>(&names))
            }
        }
    }
}

impl<I: IndexOf> FilterExtract for Index<I> {}

impl<K> Extract for Lister<K>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
{
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let indices = &context.operator().indices;
        let index = indices.get(&Self::id()).map(Arc::clone);
        let index = index.map(|index| -> Arc<dyn Any + Send + Sync> { index });
        let index = index.and_then(|index| index.downcast().ok());
        let index = index.ok_or_else(|| {
            Rejection::other(
                "Lister is for the arguments of handlers that the operator is built with",
            )
        })?;
        Ok(Self::from_shared(index))
    }

    fn listing() -> Option<Listing> {
        Some(Listing::of::<K>())
    }
}

fn missing_index<I: IndexOf>(names: &[&str]) -> Rejection {
    Rejection::NoIndex {
        id: I::ID,
        known: match names {
            [] => "there are no indices".to_owned(),
            names => format!("existing indices: {}", names.join(", ")),
        },
    }
}
