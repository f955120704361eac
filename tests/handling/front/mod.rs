//! A second front: functions as closures over the engine's own [`Call`], without extractors and
//! without macros. It proves that the seam is sufficient for a front.
//!
//! With `KOPF_TEST_FRONT=foreign` in the environment, the same functions run in an event loop in
//! another thread: a third front (see [`event_loop`]).

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
    Activity, Conversion, ErrorsMode, FunctionId, HandlerKind, HandlerSpec, Param,
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
pub(crate) use self::outcomes::{arbitrary, denied, done, gives, permanent, temporary};
use crate::stage::Journal;

fn parse(selector: &[&str]) -> Selector {
    Selector::parse(selector).expect("cases give valid selectors")
}

/// A handler as a case declares it. It can be used again and again, in several operators.
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

/// Handlers of creations, and so on. They do nothing, successfully, unless told otherwise.
pub(crate) mod on {
    use kopf_core::admission::WebhookType;
    use kopf_core::handler::{Activity, Cancellation, HandlerKind, Timing};

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

    /// What the handler does.
    pub(crate) fn does<F, W>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> W + Send + Sync + 'static,
        W: Future<Output = HandlerResult> + Send + 'static,
    {
        self.run = Arc::new(move |call| Work::Async(Box::pin(function(call))));
        self
    }

    /// What the handler does, in a thread.
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

    /// What the handler does, as the engine sees it.
    pub(crate) fn works<F>(mut self, function: F) -> Self
    where
        F: Fn(Call) -> Work + Send + Sync + 'static,
    {
        self.run = Arc::new(function);
        self
    }

    /// Whether it is called before all others.
    pub(crate) fn is_startup(&self) -> bool {
        self.kind == HandlerKind::Activity(Activity::Startup)
    }

    /// The same function as a handler of another kind, as decorators are stacked.
    pub(crate) fn also(&self, mut other: Self) -> Self {
        other.function = self.function;
        other.run = Arc::clone(&self.run);
        other
    }

    /// Other objects than the things of the case.
    pub(crate) fn on(self, selector: &[&str]) -> Self {
        self.on_all(parse(selector))
    }

    pub(crate) fn on_category(self, category: &str) -> Self {
        let spec = SelectorSpec {
            category: Some(category.to_owned()),
            ..SelectorSpec::default()
        };
        self.on_all(spec.build().expect("cases give valid selectors"))
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

    /// A filter that looks at what is remembered of the object.
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

    /// A filter that looks at the `param` of its handler, and logs it.
    pub(crate) fn when_param(mut self, filter: fn(&str, &Cause) -> bool) -> Self {
        self.filters.when = Some(Arc::new(ByParam(filter)));
        self
    }

    /// A filter that fails.
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

    /// Resources of owned objects.
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

    fn build(&self, group: &str, witness: &Witness) -> Handler {
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
            witness: witness.clone(),
        });
        spec.build(function).expect("cases declare valid handlers")
    }
}

/// The engine's registry of these handlers.
pub(crate) fn registry<'a>(
    handlers: impl IntoIterator<Item = &'a Declaration>,
    group: &str,
    witness: &Witness,
) -> Registry {
    let mut registry = Registry::default();
    for handler in handlers {
        registry.add(handler.build(group, witness));
    }
    registry
}

/// Registers a sub-handler of the handler that is called.
pub(crate) fn register(call: &Call, handler: &Declaration) {
    let subs = call.subs.as_ref().expect("this is a handler of changes");
    subs.register(build_sub(call, handler))
        .expect("cases declare valid sub-handlers");
}

/// A sub-handler for explicit execution.
pub(crate) fn build_sub(call: &Call, handler: &Declaration) -> Handler {
    let witness = call.operator.front.downcast_ref::<Witness>();
    handler.build(
        "",
        witness.expect("it was given to the operator by this front"),
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

/// What all functions of this front have in common: they are noted when they are called.
#[derive(Clone)]
pub(crate) struct Witness {
    journal: Journal,
    recorder: Recorder,
    event_loop: Option<EventLoop>,
}

impl Witness {
    pub(crate) fn new(journal: Journal, recorder: Recorder, event_loop: Option<EventLoop>) -> Self {
        Self {
            journal,
            recorder,
            event_loop,
        }
    }
}

/// A function of this front, as the engine sees it.
struct Closure {
    run: Arc<dyn Fn(Call) -> Work + Send + Sync>,
    witness: Witness,
}

impl Invoke for Closure {
    fn invoke(&self, call: Call) -> Work {
        let calls = self.witness.recorder.calls();
        let accepted = calls
            .iter()
            .filter(|call| call.is_accepted() && !call.is_event());
        self.witness.journal.note(&call, accepted.count());
        let work = (self.run)(call);
        match &self.witness.event_loop {
            Some(event_loop) => event_loop.submit(work),
            None => work,
        }
    }
}
