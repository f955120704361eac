//! The builder of operators.

mod declared;

use std::fmt;
use std::sync::Arc;

use kopf_core::admission::WebhookServer;
use kopf_core::lifecycle::Lifecycle;
use kopf_core::namespace::{NamespacePattern, Scope};
use kopf_core::settings::{SecretValues, Settings, Shards};
use kopf_engine::probing::Endpoint;

use super::{BuildError, Operator, Parts};
use crate::definitions::{Definition, Definitions};
use crate::extract::Front;
use crate::memos::MemoValue;
use crate::on::AnyHandler;
use crate::registration::registered;

/// A builder of operators, from [`Operator::builder`].
///
/// ```
/// use kopf::prelude::*;
///
/// fn create_fn() {}
///
/// let operator = Operator::builder()
///     .handler(on::create("kopfexamples", create_fn))
///     .namespaces(["team-*"])
///     .liveness("http://0.0.0.0:8080/healthz")
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct OperatorBuilder {
    handlers: Vec<AnyHandler>,
    settings: Settings,
    scope: Option<Scope>,
    lifecycle: Option<Arc<dyn Lifecycle>>,
    front: Front,
    identity: Option<String>,
    liveness: Option<Endpoint>,
    metrics: Option<Endpoint>,
    keep_managed_fields: bool,
    /// Handlers of webhooks are required.
    webhooks: bool,
    definitions: Vec<Definition>,
    problem: Option<BuildError>,
}

impl Default for OperatorBuilder {
    fn default() -> Self {
        let mut settings = Settings::default();
        // Unlike in the original, values of Secrets are not copied to annotations.
        settings.persistence.secret_values = SecretValues::Digests;
        Self {
            handlers: Vec::new(),
            settings,
            scope: None,
            lifecycle: None,
            front: Front::default(),
            identity: None,
            liveness: None,
            metrics: None,
            keep_managed_fields: false,
            webhooks: false,
            definitions: Vec::new(),
            problem: None,
        }
    }
}

impl OperatorBuilder {
    /// Adds a handler. Handlers are called in the order in which they are added.
    ///
    /// ```
    /// use kopf::Reason;
    /// use kopf::prelude::*;
    ///
    /// fn changed(reason: Reason, logger: Logger) {
    ///     logger.info(format_args!("{reason}"));
    /// }
    ///
    /// let operator = Operator::builder()
    ///     .handler(on::create("things", changed))
    ///     .handler(on::update("things", changed))
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handler(mut self, handler: impl Into<AnyHandler>) -> Self {
        self.handlers.push(handler.into());
        self
    }

    /// Adds several handlers, in this order: those of functions with attributes, listed by
    /// [`kopf::handlers!`](crate::handlers!), or any others.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// fn create_fn() {}
    ///
    /// #[kopf::on::delete("kopfexamples")]
    /// fn delete_fn() {}
    ///
    /// let operator = Operator::builder().handlers(kopf::handlers![create_fn, delete_fn]).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// fn changed() {}
    ///
    /// let resources = ["deployments", "statefulsets"];
    /// let builder =
    ///     Operator::builder().handlers(resources.map(|resource| on::update(resource, changed)));
    /// assert!(!builder.is_empty());
    /// ```
    pub fn handlers<H: Into<AnyHandler>>(mut self, handlers: impl IntoIterator<Item = H>) -> Self {
        self.handlers.extend(handlers.into_iter().map(Into::into));
        self
    }

    /// Adds all handlers declared by attributes in this program, except for those in a
    /// [`registry`](Self::registry).
    ///
    /// It saves the [list](Self::handlers) of handlers, with these caveats:
    /// - their order is that of files, lines and columns, so moving a function can change it;
    /// - every operator of the program gets them, and those of all linked libraries;
    /// - linkers drop libraries without references. If handlers are in a library, refer to it from
    ///   the program: `use my_handlers as _;`;
    /// - a handler in a module that is not compiled is missing without an error.
    ///
    /// ```standalone_crate
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// fn create_fn() {}
    ///
    /// let operator = Operator::builder().handlers_from_macros().build()?;
    /// # assert!(format!("{operator:?}").contains("create_fn"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handlers_from_macros(self) -> Self {
        self.handlers(registered(None))
    }

    /// Adds the handlers declared by attributes with the option `registry` of this name. Several
    /// operators in one program can have different registries.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("things", registry = "first")]
    /// fn for_the_first(Name(name): Name) -> String { name }
    ///
    /// #[kopf::on::create("things", registry = "second")]
    /// fn for_the_second(Name(name): Name) -> String { name }
    ///
    /// let first = Operator::builder().registry("first").build()?;
    /// let second = Operator::builder().registry("second").build()?;
    /// # assert!(format!("{first:?}").contains("for_the_first"));
    /// # assert!(!format!("{first:?}").contains("for_the_second"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn registry(self, registry: &str) -> Self {
        self.handlers(registered(Some(registry)))
    }

    /// Serves admission and conversion webhooks by this server, and maintains the webhook
    /// configurations of this name in the cluster.
    ///
    /// The name looks like `my-operator.example.com`. The API server calls the webhooks at the
    /// address that the server announces: a Service, a URL or a tunnel.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf::webhooks::Server;
    ///
    /// #[kopf::on::validate("kopfexamples")]
    /// fn check() {}
    ///
    /// let operator = Operator::builder()
    ///     .handlers(kopf::handlers![check])
    ///     .webhooks(Server::service("my-operator", 443), "my-operator.example.com")
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the operator is built: if the name is invalid, or if the operator has no handlers of
    /// [`on::validate`](crate::on::validate()), [`on::mutate`](crate::on::mutate()) or
    /// [`on::convert`](crate::on::convert()).
    pub fn webhooks(
        mut self,
        server: impl WebhookServer + 'static,
        name: impl Into<String>,
    ) -> Self {
        self.settings.admission.server = Some(Arc::new(server));
        self.settings.admission.managed = Some(name.into());
        self.webhooks = true;
        self
    }

    /// Changes the settings.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().settings(|settings| {
    ///     settings.posting.level = kopf::Level::Warning;
    ///     settings.execution.default_backoff = Duration::from_secs(10);
    /// });
    /// ```
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Returns the settings for changes in place.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let mut builder = Operator::builder();
    /// builder.settings_mut().posting.enabled = false;
    /// ```
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Serves only the namespaces that match patterns such as `"team-*,!team-x"`.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().namespaces(["default", "team-*,!team-x"]);
    /// assert!(builder.has_scope());
    /// ```
    pub fn namespaces<T: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        let mut parsed = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            match NamespacePattern::parse(pattern) {
                Ok(pattern) => parsed.push(pattern),
                Err(source) => {
                    self.problem.get_or_insert(BuildError::Namespaces {
                        pattern: pattern.to_owned(),
                        source,
                    });
                }
            }
        }
        self.scope(Scope::Namespaces(parsed))
    }

    /// Serves the whole cluster. This is the default.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().all_namespaces();
    /// ```
    pub fn all_namespaces(self) -> Self {
        self.scope(Scope::Cluster)
    }

    /// Serves this scope.
    ///
    /// ```
    /// use kopf::Scope;
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().scope(Scope::Cluster);
    /// ```
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Returns `true` if the served namespaces are set.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder();
    /// assert!(!builder.has_scope());
    /// assert!(builder.all_namespaces().has_scope());
    /// ```
    pub fn has_scope(&self) -> bool {
        self.scope.is_some()
    }

    /// Returns `true` if there are no handlers.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// assert!(Operator::builder().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Adds a value for [`State<T>`](crate::State) arguments, one per type.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[derive(Clone)]
    /// struct Config {
    ///     region: String,
    /// }
    ///
    /// fn create_fn(State(config): State<Config>, logger: Logger) {
    ///     logger.info(config.region);
    /// }
    ///
    /// let operator = Operator::builder()
    ///     .handler(on::create("kopfexamples", create_fn))
    ///     .state(Config { region: "eu-1".into() })
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.front.add(state);
        self
    }

    /// Sets the initial value of the memos of all objects, one per type, for
    /// [`Memo<T>`](crate::Memo) arguments. Every object gets a clone.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[derive(Debug, Clone, Default)]
    /// struct Budget { left: u32 }
    ///
    /// fn spend(memo: Memo<Budget>) {
    ///     memo.write().left -= 1;
    /// }
    ///
    /// let operator = Operator::builder()
    ///     .handler(on::update("kopfexamples", spend))
    ///     .memo(Budget { left: 10 })
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memo<T: MemoValue>(mut self, value: T) -> Self {
        self.front.seeds.add(value);
        self
    }

    /// Sets the selection and order of handlers in one cycle if several are due for an object.
    /// Default: [`Asap`](crate::lifecycles::Asap), one handler, with the fewest attempts.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().lifecycle(kopf::lifecycles::AllAtOnce);
    /// ```
    pub fn lifecycle(mut self, lifecycle: impl Lifecycle + 'static) -> Self {
        self.lifecycle = Some(Arc::new(lifecycle));
        self
    }

    /// Sets the identity of the operator among its peers. Default: the variable `POD_ID`, or
    /// `user@host/time/random`.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder()
    ///     .identity("blue")
    ///     .settings(|settings| settings.peering.priority = 10);
    /// ```
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Handles objects only while this replica holds the Lease of this name. Replicas of this
    /// operator share the name; no other operator in the namespace may use it.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().leader_election("my-operator");
    /// ```
    pub fn leader_election(mut self, name: impl Into<String>) -> Self {
        self.settings.leading.enabled = true;
        self.settings.leading.name = name.into();
        self
    }

    /// Divides the objects among all replicas of this name.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf::settings::Shards;
    ///
    /// let builder = Operator::builder().sharding("my-operator", Shards::Auto);
    /// ```
    pub fn sharding(mut self, name: impl Into<String>, shards: Shards) -> Self {
        self.settings.leading.shards = Some(shards);
        self.leader_election(name)
    }

    /// Serves liveness probes at this address: `http://0.0.0.0:8080/healthz`.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().liveness("http://0.0.0.0:8080/healthz");
    /// ```
    pub fn liveness(mut self, address: &str) -> Self {
        match address.parse() {
            Ok(endpoint) => self.liveness = Some(endpoint),
            Err(error) => {
                self.problem.get_or_insert(BuildError::Liveness(error));
            }
        }
        self
    }

    /// Serves metrics at this address instead of the liveness endpoint:
    /// `http://0.0.0.0:9090/metrics`.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().metrics("http://0.0.0.0:9090");
    /// ```
    pub fn metrics(mut self, address: &str) -> Self {
        match address.parse() {
            Ok(endpoint) => self.metrics = Some(endpoint),
            Err(error) => {
                self.problem.get_or_insert(BuildError::Metrics(error));
            }
        }
        self
    }

    /// Keeps `metadata.managedFields` of objects for handlers and filters. By default, they are
    /// dropped when objects arrive, which saves up to half of the memory.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().keep_managed_fields(true);
    /// ```
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.keep_managed_fields = keep;
        self
    }

    /// Adds the CRD of a type made with [`resource`](crate::resource) or [`kube::CustomResource`].
    /// Types in attributes of handlers are added automatically.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[kopf::resource(group = "kopf.dev", version = "v1", kind = "KopfExample", namespaced)]
    /// struct KopfExampleSpec {
    ///     field: Option<String>,
    /// }
    ///
    /// let builder = Operator::builder().crd::<KopfExample>().install_crds();
    /// ```
    pub fn crd<K: kube::CustomResourceExt>(mut self) -> Self {
        self.definitions.push(K::crd);
        self
    }

    /// Installs the CRDs at the start, before resources are discovered, and waits until they are
    /// established. By default, CRDs are not changed.
    ///
    /// The operator fails if the CRD in the cluster permits more than that of the type, or if other
    /// clients own fields with other values.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().install_crds();
    /// ```
    pub fn install_crds(mut self) -> Self {
        self.settings.scanning.install_crds = true;
        self
    }

    /// Reviews the permissions at the start and logs missing ones. The command line does this by
    /// default; embedded operators do not.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// let builder = Operator::builder().review_permissions();
    /// ```
    pub fn review_permissions(mut self) -> Self {
        self.settings.scanning.review_permissions = true;
        self
    }

    /// Checks the configuration and builds the operator.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// fn f() {}
    ///
    /// let wrong = on::create("kopfexamples", f).timeout(-5);
    /// assert!(Operator::builder().handler(wrong).build().is_err());
    /// ```
    ///
    /// # Errors
    /// The first mistake.
    pub fn build(mut self) -> Result<Operator, BuildError> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        self.settings.validate()?;
        self.declare_listers()?;
        self.declare_indices()?;
        if self.webhooks && !self.handlers.iter().any(AnyHandler::is_webhook) {
            return Err(BuildError::Webhooks);
        }
        self.check_repetitions()?;
        let progress = &self.settings.persistence.progress_storage;
        for handler in &self.handlers {
            let wrong = |message| BuildError::Handler {
                handler: handler.name().to_owned(),
                message,
            };
            let built = handler.build(&self.front).map_err(wrong)?;
            if built.kind.is_change() {
                let checked = progress.check_id(&built.id);
                checked.map_err(|error| wrong(error.to_string()))?;
            }
        }
        let declared = self.handlers.iter().filter_map(AnyHandler::definition);
        let definitions = Definitions::of(declared.chain(self.definitions))?;
        Ok(Operator(Arc::new(Parts {
            definitions,
            handlers: self.handlers,
            settings: self.settings,
            scope: self.scope.unwrap_or(Scope::Cluster),
            lifecycle: self.lifecycle,
            liveness: self.liveness,
            metrics: self.metrics,
            front: Arc::new(self.front),
            identity: self.identity,
            keep_managed_fields: self.keep_managed_fields,
        })))
    }
}

impl fmt::Debug for OperatorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorBuilder")
            .field("handlers", &self.handlers)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
