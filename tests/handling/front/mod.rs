//! A frontend whose handlers are closures over the engine's [`Call`], without extractors and
//! macros. It verifies that the frontend interface of the engine is sufficient.
//!
//! With `KOPF_TEST_FRONT=foreign` in the environment, the same functions run in an event loop in
//! another thread (see [`event_loop`]).

mod admission;
mod background;
mod event_loop;
mod indices;
mod notes;
mod outcomes;

use std::any::Any;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf_core::cause::Cause;
use kopf_core::field::FieldPath;
use kopf_core::filter::{MetaCriterion, ValueCriterion, WhenFilter, when_fn};
use kopf_core::handler::{
    Activity, Conversion, ErrorsMode, FunctionId, HandlerKind, HandlerSpec, Param, Reconciliation,
};
use kopf_core::patch::BoxError;
use kopf_core::selector::{Selector, SelectorSpec};
use kopf_engine::invocation::{
    Call, FilterContext, Function, Handler, HandlerResult, Invoke, Registry, Work,
};
use kopf_testing::recording::Recorder;

pub(crate) use self::event_loop::{EventLoop, is_foreign};
pub(crate) use self::indices::{indexed, indices, look};
pub(crate) use self::notes::{Notebook, notes, notes_of};
pub(crate) use self::outcomes::{arbitrary, denied, done, gives, permanent, requeued, temporary};
use crate::stage::Journal;

fn parse(selector: &[&str]) -> Selector {
    Selector::parse(selector).expect("selectors of tests are valid")
}

/// A handler declared by a test. It can be used in several operators.
#[derive(Clone)]
pub(crate) struct Declaration {
    spec: HandlerSpec,
    run: Arc<dyn Fn(Call) -> Work + Send + Sync>,
}

impl Deref for Declaration {
    type Target = HandlerSpec;

    fn deref(&self) -> &HandlerSpec {
        &self.spec
    }
}

impl DerefMut for Declaration {
    fn deref_mut(&mut self) -> &mut HandlerSpec {
        &mut self.spec
    }
}

/// Constructors of handlers. By default, handlers succeed without effect.
pub(crate) mod on {
    use kopf_core::admission::WebhookType;
    use kopf_core::handler::{Activity, Cancellation, HandlerKind, Reconciliation, Timing};

    use super::Declaration;

    pub(crate) fn create(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Create)
    }

    pub(crate) fn update(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Update)
    }

    pub(crate) fn delete(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Delete { optional: false })
    }

    pub(crate) fn optional_delete(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Delete { optional: true })
    }

    pub(crate) fn resume(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Resume { deleted: false })
    }

    pub(crate) fn resume_deleted(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Resume { deleted: true })
    }

    pub(crate) fn field(id: &str, field: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Field).field(field)
    }

    pub(crate) fn reconcile(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Reconcile(Reconciliation::PLAIN))
    }

    pub(crate) fn event(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Event)
    }

    pub(crate) fn child(id: &str, resource: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Child).owns(resource)
    }

    pub(crate) fn daemon(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Daemon(Cancellation::NONE))
    }

    pub(crate) fn timer(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Timer(Timing::ONCE))
    }

    pub(crate) fn validate(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Admission(WebhookType::Validating))
    }

    pub(crate) fn mutate(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Admission(WebhookType::Mutating))
    }

    pub(crate) fn convert(source: &str, target: &str) -> Declaration {
        let id = format!("{source}-{target}");
        Declaration::new(&id, HandlerKind::Convert).converts(source, target)
    }

    pub(crate) fn probe(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Activity(Activity::Probe))
    }

    pub(crate) fn startup(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Activity(Activity::Startup))
    }

    pub(crate) fn cleanup(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Activity(Activity::Cleanup))
    }

    pub(crate) fn index(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Index)
    }

    pub(crate) fn sub(id: &str) -> Declaration {
        Declaration::new(id, HandlerKind::Sub { needs_change: true })
    }
}

impl Declaration {
    fn new(id: &str, kind: HandlerKind) -> Self {
        static FUNCTIONS: AtomicU64 = AtomicU64::new(0);
        let function = FunctionId::Number(FUNCTIONS.fetch_add(1, Ordering::Relaxed));
        Self {
            spec: HandlerSpec::new(id, function, kind),
            run: Arc::new(|_| Work::Async(Box::pin(async { done() }))),
        }
    }

    /// Sets the async function of the handler.
    pub(crate) fn does<F, W>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> W + Send + Sync + 'static,
        W: Future<Output = HandlerResult> + Send + 'static,
    {
        self.run = Arc::new(move |call| Work::Async(Box::pin(function(call))));
        self
    }

    /// Sets the blocking function of the handler.
    pub(crate) fn blocks<F>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> HandlerResult + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.run = Arc::new(move |call| {
            let function = Arc::clone(&function);
            Work::Blocking(Box::new(move || function(call)))
        });
        self
    }

    /// Sets the function that creates the work of the handler.
    pub(crate) fn works<F>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> Work + Send + Sync + 'static,
    {
        self.run = Arc::new(function);
        self
    }

    /// Returns `true` for startup handlers.
    pub(crate) fn is_startup(&self) -> bool {
        self.kind == HandlerKind::Activity(Activity::Startup)
    }

    /// Declares the same function as a handler of another kind, like stacked decorators.
    pub(crate) fn also(&self, mut other: Self) -> Self {
        other.function = self.function;
        other.run = Arc::clone(&self.run);
        other
    }

    /// Selects other resources than the things of the test.
    pub(crate) fn on(self, selector: &[&str]) -> Self {
        self.on_all(parse(selector))
    }

    pub(crate) fn on_category(self, category: &str) -> Self {
        let spec = SelectorSpec {
            category: Some(category.to_owned()),
            ..SelectorSpec::default()
        };
        self.on_all(spec.build().expect("selectors of tests are valid"))
    }

    pub(crate) fn on_all(mut self, selector: Selector) -> Self {
        self.selector = Some(selector);
        self
    }

    pub(crate) fn label(mut self, key: &str, criterion: MetaCriterion) -> Self {
        self.filters.labels.insert(key.to_owned(), criterion);
        self
    }

    pub(crate) fn annotation(mut self, key: &str, criterion: MetaCriterion) -> Self {
        self.filters.annotations.insert(key.to_owned(), criterion);
        self
    }

    pub(crate) fn field(mut self, field: &str) -> Self {
        self.filters.field = Some(FieldPath::parse(field));
        self
    }

    pub(crate) fn value(mut self, criterion: ValueCriterion) -> Self {
        self.filters.value = Some(criterion);
        self
    }

    pub(crate) fn old(mut self, criterion: ValueCriterion) -> Self {
        self.filters.old = Some(criterion);
        self
    }

    pub(crate) fn new_value(mut self, criterion: ValueCriterion) -> Self {
        self.filters.new = Some(criterion);
        self
    }

    pub(crate) fn when<F>(mut self, filter: F) -> Self
    where
        F: Fn(&Cause) -> bool + Send + Sync + 'static,
    {
        self.filters.when = Some(when_fn(move |cause: &Cause, _| {
            event_loop::check_thread();
            Ok(filter(cause))
        }));
        self
    }

    /// Adds a filter by the memo of the object.
    pub(crate) fn when_noted<F>(mut self, filter: F) -> Self
    where
        F: Fn(&serde_json::Map<String, serde_json::Value>) -> bool + Send + Sync + 'static,
    {
        self.filters.when = Some(when_fn(move |_: &Cause, context| {
            event_loop::check_thread();
            let context = context.downcast_ref().expect("filters have a context");
            Ok(filter(&notes_of(context)))
        }));
        self
    }

    /// Adds a filter by the `param` of its handler, which it logs.
    pub(crate) fn when_param(mut self, filter: fn(&str, &Cause) -> bool) -> Self {
        self.filters.when = Some(Arc::new(ByParam(filter)));
        self
    }

    /// Adds a filter that fails.
    pub(crate) fn when_fails(mut self, message: &'static str) -> Self {
        self.filters.when = Some(when_fn(move |_: &Cause, _| Err(message.into())));
        self
    }

    fn converts(mut self, source: &str, target: &str) -> Self {
        self.conversion = Some(Conversion {
            source: source.to_owned(),
            target: target.to_owned(),
        });
        self
    }

    /// Sets the period of a reconcile handler.
    pub(crate) fn every(self, seconds: f64) -> Self {
        self.reconciliation(|options| options.every = Some(Duration::from_secs_f64(seconds)))
    }

    /// Makes objects stay until the reconcile handler was called for their deletion.
    pub(crate) fn finalizer(self) -> Self {
        self.reconciliation(|options| options.finalizer = true)
    }

    fn reconciliation(mut self, change: impl FnOnce(&mut Reconciliation)) -> Self {
        if let HandlerKind::Reconcile(options) = &mut self.kind {
            change(options);
        }
        self
    }

    /// Sets the resources of owned objects.
    pub(crate) fn owns(mut self, resource: &str) -> Self {
        self.owns.push(parse(&[resource]));
        self
    }

    pub(crate) fn retries(mut self, retries: u32) -> Self {
        self.retrying.retries = Some(retries);
        self
    }

    pub(crate) fn timeout(mut self, seconds: f64) -> Self {
        self.retrying.timeout = Some(Duration::from_secs_f64(seconds));
        self
    }

    pub(crate) fn backoff(mut self, seconds: f64) -> Self {
        self.retrying.backoff = Some(Duration::from_secs_f64(seconds));
        self
    }

    pub(crate) fn errors(mut self, mode: ErrorsMode) -> Self {
        self.retrying.errors = Some(mode);
        self
    }

    pub(crate) fn param(mut self, param: &'static str) -> Self {
        self.param = Some(Arc::new(param));
        self
    }

    fn build(&self, group: &str, frontend: &FrontendState) -> Handler {
        let mut spec = self.spec.clone();
        let is_sub = matches!(self.kind, HandlerKind::Sub { .. });
        if is_sub || !self.kind.is_for_objects() {
            spec.selector = None;
        } else if self.kind != HandlerKind::Child {
            let things = || parse(&[group, "v1", "things"]);
            spec.selector.get_or_insert_with(things);
        }
        let function: Function = Arc::new(Closure {
            run: Arc::clone(&self.run),
            frontend: frontend.clone(),
        });
        spec.build(function).expect("handlers of tests are valid")
    }
}

/// Builds the engine's registry of these handlers.
pub(crate) fn registry<'a>(
    handlers: impl IntoIterator<Item = &'a Declaration>,
    group: &str,
    frontend: &FrontendState,
) -> Registry {
    let mut registry = Registry::default();
    for handler in handlers {
        registry.add(handler.build(group, frontend));
    }
    registry
}

/// Registers a sub-handler of the called handler.
pub(crate) fn register(call: &Call, handler: &Declaration) {
    let subs = call.subs.as_ref().expect("the handler is a change handler");
    subs.register(build_sub(call, handler))
        .expect("sub-handlers of tests are valid");
}

/// Builds a sub-handler for explicit execution.
pub(crate) fn build_sub(call: &Call, handler: &Declaration) -> Handler {
    let frontend = call.operator.front.downcast_ref::<FrontendState>();
    handler.build(
        "",
        frontend.expect("the operator is built by this frontend"),
    )
}

struct ByParam(fn(&str, &Cause) -> bool);

impl WhenFilter for ByParam {
    fn matches(&self, _: &Cause, _: &dyn Any) -> Result<bool, BoxError> {
        Err("filters are called with the param".into())
    }

    fn matches_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        event_loop::check_thread();
        let context: &FilterContext = context.downcast_ref().ok_or("there is no context")?;
        let param = param.and_then(|param| param.downcast_ref::<&'static str>());
        let param = param.ok_or("there is no param")?;
        context
            .logger
            .info(format_args!("The filter has the param {param}."));
        Ok((self.0)(param, cause))
    }
}

/// State shared by all functions of this frontend: their calls are recorded in the journal.
#[derive(Clone)]
pub(crate) struct FrontendState {
    journal: Journal,
    recorder: Recorder,
    event_loop: Option<EventLoop>,
}

impl FrontendState {
    pub(crate) fn new(journal: Journal, recorder: Recorder, event_loop: Option<EventLoop>) -> Self {
        Self {
            journal,
            recorder,
            event_loop,
        }
    }
}

/// A function of this frontend.
struct Closure {
    run: Arc<dyn Fn(Call) -> Work + Send + Sync>,
    frontend: FrontendState,
}

impl Invoke for Closure {
    fn invoke(&self, call: Call) -> Work {
        let calls = self.frontend.recorder.calls();
        let accepted = calls
            .iter()
            .filter(|call| call.is_accepted() && !call.is_event());
        self.frontend.journal.note(&call, accepted.count());
        let work = (self.run)(call);
        match &self.frontend.event_loop {
            Some(event_loop) => event_loop.submit(work),
            None => work,
        }
    }
}
