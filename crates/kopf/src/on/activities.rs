//! Activities: handlers of the operator's lifecycle, independent of objects.

use kopf_core::handler::{Activity, HandlerKind};

use super::HandlerBuilder;
use super::kinds::{Kind, Retried};
use crate::handler::{Handler, LoginHandler};

macro_rules! activities {
    ($($(#[$doc:meta])* $kind:ident = $activity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $kind;

        impl Kind for $kind {
            const KIND: HandlerKind = HandlerKind::Activity(Activity::$activity);
        }

        impl Retried for $kind {}
    )*};
}

activities! {
    /// Handlers of [`on::startup`](super::startup()).
    Startup = Startup;
    /// Handlers of [`on::cleanup`](super::cleanup()).
    Cleanup = Cleanup;
    /// Handlers of [`on::login`](super::login()).
    Login = Authentication;
    /// Handlers of [`on::probe`](super::probe()).
    Probe = Probe;
}

/// Calls the function when the operator starts, before it connects to the cluster.
///
/// If the function fails permanently, the operator exits with an error. Only startup handlers can
/// change the settings: [`SettingsMut`](crate::SettingsMut).
///
/// ```
/// use kopf::SettingsMut;
/// use kopf::prelude::*;
///
/// #[kopf::on::startup]
/// async fn configure(mut settings: SettingsMut, logger: Logger) {
///     settings.posting.level = kopf::Level::Error;
///     logger.info("Starting.");
/// }
///
/// #[kopf::on::startup(retries = 10, backoff = 3)]
/// fn connect() -> kopf::Result<()> {
///     Err(kopf::temporary("The database is not ready yet.").delay(1))
/// }
/// # let _ = connect();
/// ```
pub fn startup<M>(function: impl Handler<M>) -> HandlerBuilder<Startup> {
    HandlerBuilder::declare(None, function.into_function())
}

/// Calls the function when the operator exits, after all other tasks. It is also called after an
/// error, but not if the startup failed, and not if the operator is killed.
///
/// If the function fails permanently, the operator exits with an error.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::cleanup]
/// async fn disconnect(logger: Logger) {
///     logger.info("Exiting.");
/// }
/// ```
pub fn cleanup<M>(function: impl Handler<M>) -> HandlerBuilder<Cleanup> {
    HandlerBuilder::declare(None, function.into_function())
}

/// Calls the function when the operator needs credentials for the cluster: at the start, and when
/// the former ones expire or are rejected.
///
/// It returns [`ConnectionInfo`](crate::ConnectionInfo) or [`Credentials`](crate::Credentials), or
/// an `Option` or a `Result` of them. With several login handlers, all their credentials are used,
/// in order of their priority. Without login handlers, the kubeconfig and the service account of
/// the pod are used.
///
/// If a function fails permanently, or none of them returns credentials, the operator exits with an
/// error. Login handlers are not called if the operator is given a client, such as by `--sandbox`.
///
/// ```
/// use kopf::ConnectionInfo;
/// use kopf::prelude::*;
///
/// #[kopf::on::login]
/// async fn login_fn() -> kopf::Result<ConnectionInfo> {
///     let token = std::fs::read_to_string("/var/run/my-token").map_err(kopf::temporary)?;
///     let mut info = ConnectionInfo::new("https://10.0.0.1:6443");
///     info.ca_path = Some("/etc/my-ca.crt".into());
///     info.token = Some(token.trim().into());
///     Ok(info)
/// }
/// ```
pub fn login<M>(function: impl LoginHandler<M>) -> HandlerBuilder<Login> {
    HandlerBuilder::declare(None, function.into_function())
}

/// Calls the function for liveness probes at the address of `--liveness`. The response contains its
/// result under its id. If it fails permanently, the probe fails.
///
/// Results are cached for 10 seconds.
///
/// ```
/// use kopf::Now;
/// use kopf::prelude::*;
///
/// #[kopf::on::probe]
/// fn now(Now(now): Now) -> String {
///     now.to_string()
/// }
///
/// #[kopf::on::probe(id = "queue")]
/// async fn length_of_queue(State(queue): State<std::sync::Arc<Vec<u64>>>) -> usize {
///     queue.len()
/// }
/// ```
pub fn probe<M>(function: impl Handler<M>) -> HandlerBuilder<Probe> {
    HandlerBuilder::declare(None, function.into_function())
}

#[cfg(test)]
mod tests {
    use crate::on::AnyHandler;
    use crate::prelude::*;
    use crate::{
        Annotations, Body, Children, Events, Labels, Meta, Namespace, New, Object, Old, Param,
        Patch, Reason, Settings, SettingsMut, Status, SubHandlers, Uid, WatchEvent,
    };

    fn message(handler: impl Into<AnyHandler>) -> String {
        let built = Operator::builder().handler(handler).build();
        built.unwrap_err().to_string()
    }

    #[test]
    fn arguments_about_objects_are_rejected() {
        macro_rules! refused {
            ($($T:ty),* $(,)?) => {$({
                fn function(_: $T) {}
                for error in [
                    message(on::startup(function)),
                    message(on::cleanup(function)),
                    message(on::probe(function)),
                    message(on::login(function)),
                ] {
                    assert!(error.contains("is for handlers of "), "{}: {error}", stringify!($T));
                }
            })*};
        }
        refused!(
            Body,
            Spec,
            Spec<i32>,
            Status,
            Status<i32>,
            Meta,
            Meta<i32>,
            Object<i32>,
            Name,
            Namespace,
            Uid,
            Labels,
            Annotations,
            Old,
            New,
            Diff,
            Reason,
            WatchEvent,
            Events,
            Children,
            Patch,
            SubHandlers,
            kopf_core::resource::Resource,
            std::sync::Arc<kopf_core::resource::Resource>,
        );
    }

    #[test]
    fn settings_can_be_changed_at_startup_only() {
        fn function(_: SettingsMut) {}
        assert!(
            Operator::builder()
                .handler(on::startup(function))
                .build()
                .is_ok()
        );
        assert!(message(on::cleanup(function)).contains("on::startup only"));
        assert!(message(on::create("things", function)).contains("on::startup only"));
    }

    #[test]
    fn clients_are_not_available_before_the_login() {
        fn function(_: crate::Client) {}
        assert!(message(on::startup(function)).contains("not for handlers of on::startup"));
        assert!(message(on::login(function)).contains("not for handlers of on::login"));
        assert!(
            Operator::builder()
                .handler(on::cleanup(function))
                .build()
                .is_ok()
        );
        assert!(
            Operator::builder()
                .handler(on::probe(function))
                .build()
                .is_ok()
        );
    }

    #[test]
    fn other_arguments_are_accepted() {
        #[derive(Clone)]
        struct Shared;
        fn function(
            _: Settings,
            _: State<Shared>,
            _: Param<i32>,
            _: Logger,
            _: Retry,
            _: Option<Name>,
        ) {
        }
        let handler = on::startup(function)
            .id("other")
            .param(1)
            .errors(crate::ErrorsMode::Permanent)
            .timeout(1)
            .retries(1)
            .backoff(1);
        Operator::builder()
            .state(Shared)
            .handler(handler)
            .build()
            .unwrap();
    }
}
