//! Attribute macros of the `kopf` crate. Use them from there: `#[kopf::on::create("things")]`.
//!
//! The macros check the syntax of the options and expand to calls of ordinary functions of `kopf`,
//! which interpret the options. The function under the attribute is unchanged.

use proc_macro::TokenStream;

mod arguments;
mod criteria;
mod durations;
mod expand;
mod function;
mod index;
mod literals;
mod options;
mod resource;
mod selector;

use options::Macro;

/// Calls the function when an object is created.
///
/// The options are described at the function of the same name, `kopf::on::create`.
#[proc_macro_attribute]
pub fn create(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Create, arguments.into(), &item.into()).into()
}

/// Calls the function when an object is changed.
///
/// The options are described at the function of the same name, `kopf::on::update`.
#[proc_macro_attribute]
pub fn update(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Update, arguments.into(), &item.into()).into()
}

/// Calls the function when an object is being deleted.
///
/// The options are described at the function of the same name, `kopf::on::delete`.
#[proc_macro_attribute]
pub fn delete(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Delete, arguments.into(), &item.into()).into()
}

/// Calls the function when the operator starts and finds an object that was handled before.
///
/// The options are described at the function of the same name, `kopf::on::resume`.
#[proc_macro_attribute]
pub fn resume(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Resume, arguments.into(), &item.into()).into()
}

/// Calls the function when a field of an object is added, changed or removed.
///
/// The options are described at the function of the same name, `kopf::on::field`.
#[proc_macro_attribute]
pub fn field(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Field, arguments.into(), &item.into()).into()
}

/// Calls the function whenever an object may differ from its desired state.
///
/// The options are described at the function of the same name, `kopf::on::reconcile`.
#[proc_macro_attribute]
pub fn reconcile(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Reconcile, arguments.into(), &item.into()).into()
}

/// Calls the function on every event of an object.
///
/// The options are described at the function of the same name, `kopf::on::event`.
#[proc_macro_attribute]
pub fn event(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Event, arguments.into(), &item.into()).into()
}

/// Calls the function with the owner when an owned object is created, changed or deleted.
///
/// The options are described at the function of the same name, `kopf::on::child`.
#[proc_macro_attribute]
pub fn child(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Child, arguments.into(), &item.into()).into()
}

/// Calls the function to accept or reject the creation, change or deletion of objects.
///
/// The options are described at the function of the same name, `kopf::on::validate`.
#[proc_macro_attribute]
pub fn validate(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Validate, arguments.into(), &item.into()).into()
}

/// Calls the function to change objects before they are created or changed.
///
/// The options are described at the function of the same name, `kopf::on::mutate`.
#[proc_macro_attribute]
pub fn mutate(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Mutate, arguments.into(), &item.into()).into()
}

/// Converts objects from one version of a resource to another by the function.
///
/// The options are described at the function of the same name, `kopf::on::convert`.
#[proc_macro_attribute]
pub fn convert(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Convert, arguments.into(), &item.into()).into()
}

/// Runs the function in the background of every matching object.
///
/// The options are described at the function of the same name, `kopf::daemon`.
#[proc_macro_attribute]
pub fn daemon(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Daemon, arguments.into(), &item.into()).into()
}

/// Calls the function repeatedly for every matching object.
///
/// The options are described at the function of the same name, `kopf::timer`.
#[proc_macro_attribute]
pub fn timer(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Timer, arguments.into(), &item.into()).into()
}

/// Calls the function when the operator starts, before any other handler.
///
/// The options are described at the function of the same name, `kopf::on::startup`.
#[proc_macro_attribute]
pub fn startup(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Startup, arguments.into(), &item.into()).into()
}

/// Calls the function when the operator exits, after all other handlers.
///
/// The options are described at the function of the same name, `kopf::on::cleanup`.
#[proc_macro_attribute]
pub fn cleanup(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Cleanup, arguments.into(), &item.into()).into()
}

/// Calls the function when the operator needs credentials for the cluster.
///
/// The options are described at the function of the same name, `kopf::on::login`.
#[proc_macro_attribute]
pub fn login(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Login, arguments.into(), &item.into()).into()
}

/// Calls the function for liveness probes of the operator.
///
/// The options are described at the function of the same name, `kopf::on::probe`.
#[proc_macro_attribute]
pub fn probe(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Probe, arguments.into(), &item.into()).into()
}

/// Stores the results of the function for every object in an index, for arguments of the type
/// `Index<name_of_the_function>`.
///
/// The options are described at the function of the same name, `kopf::index`.
#[proc_macro_attribute]
pub fn index(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(Macro::Index, arguments.into(), &item.into()).into()
}

/// Declares the handlers of a function, for the code that the other attributes generate.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn declared(handlers: TokenStream, item: TokenStream) -> TokenStream {
    expand::declared(handlers.into(), &item.into()).into()
}

/// Returns a constant `Duration`: `duration!("1h30m")`.
///
/// The options are described at its re-export, `kopf::duration`.
#[proc_macro]
pub fn duration(text: TokenStream) -> TokenStream {
    durations::expand(text.into()).into()
}

/// Turns the type of a `spec` into a custom resource: derives kube's `CustomResource`, `Serialize`,
/// `Deserialize`, `JsonSchema`, `Clone` and `Debug`.
///
/// The options are those of `#[kube(…)]`. They are described at the re-export, `kopf::resource`.
#[proc_macro_attribute]
pub fn resource(arguments: TokenStream, item: TokenStream) -> TokenStream {
    resource::resource(&arguments.into(), &item.into()).into()
}

/// Makes a type usable in custom resources: derives `Serialize`, `Deserialize`, `JsonSchema`,
/// `Clone` and `Debug`.
///
/// It is described at the re-export, `kopf::schema`.
#[proc_macro_attribute]
pub fn schema(arguments: TokenStream, item: TokenStream) -> TokenStream {
    resource::schema(&arguments.into(), &item.into()).into()
}
