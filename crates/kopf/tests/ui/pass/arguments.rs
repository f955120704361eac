//! All arguments, in any order and number.

use std::sync::Arc;

use kopf::extract::Rejection;
use kopf::prelude::*;
use kopf::serde::Deserialize;
use kopf::{
    Annotations, Body, DryRun, Headers, Labels, Live, Meta, Namespace, New, Now, Object, Old,
    Operation, Param, Patch, Reason, Resource, Runtime, Settings, SslPeer, Started, Status,
    SubHandlers, Subresource, Uid, UserInfo, Warnings,
};

#[derive(Deserialize)]
struct Sized {
    #[allow(dead_code)]
    size: String,
}

#[kopf::on::update("things", param = 5)]
async fn all(
    _: Body,
    _: Spec,
    _: Status,
    _: Meta,
    _: Name,
    _: Namespace,
    _: Uid,
    _: Labels,
    _: Annotations,
    _: Old,
    _: New,
    _: Diff,
    _: Reason,
    _: Retry,
    _: Started,
    _: Runtime,
    _: Now,
    _: Param<i32>,
    _: Patch,
    _: Logger,
    _: Resource,
    _: Arc<Resource>,
    _: Client,
    _: Settings,
    _: Arc<Settings>,
    _: SubHandlers,
    _: Option<State<String>>,
) {
}

#[kopf::on::validate("things", param = 5)]
#[kopf::on::mutate("things", param = 5)]
async fn asked(
    _: Operation,
    _: Subresource,
    _: DryRun,
    _: UserInfo,
    _: Headers,
    _: SslPeer,
    _: Warnings,
    _: Old,
    _: New<Option<Value>>,
    _: Diff,
    _: Option<Old>,
    _: Option<Warnings>,
    _: Body,
    _: Spec<Option<Sized>>,
    _: Option<Name>,
    _: Patch,
    _: Memo<u32>,
    _: Param<i32>,
    _: Logger,
    _: Resource,
    _: Client,
    _: Retry,
) {
}

#[kopf::timer("things", param = 5, interval = 1)]
#[kopf::daemon("things", param = 5)]
async fn background(
    _: Stopped,
    _: Option<Stopped>,
    _: Live<Body>,
    _: Live<Spec>,
    _: Live<Status<Sized>>,
    _: Live<Meta>,
    _: Live<Labels>,
    _: Live<Annotations>,
    _: Live<Option<Namespace>>,
    _: Live<Object<kopf::k8s_openapi::api::core::v1::Pod>>,
    _: Body,
    _: Spec,
    _: Name,
    _: Retry,
    _: Started,
    _: Runtime,
    _: Now,
    _: Param<i32>,
    _: Patch,
    _: Logger,
    _: Resource,
    _: Client,
    _: Settings,
    _: Option<State<String>>,
) {
}

#[kopf::on::event("things")]
fn raw(_: kopf::WatchEvent, _: Object<kopf::k8s_openapi::api::core::v1::Pod>) {}

#[kopf::on::create("things")]
async fn typed(
    _: Spec<Sized>,
    _: Option<Status<Sized>>,
    _: Result<Spec<Sized>, Rejection>,
    _: Option<Namespace>,
    _: Result<Option<Old<Sized>>, Rejection>,
) -> kopf::Result<()> {
    Ok(())
}

async fn sixteen(
    _: Body,
    _: Spec,
    _: Status,
    _: Meta,
    _: Name,
    _: Namespace,
    _: Uid,
    _: Labels,
    _: Annotations,
    _: Old,
    _: New,
    _: Diff,
    _: Reason,
    _: Retry,
    _: Started,
    _: Runtime,
) {
}

pub(crate) fn main() {
    let _ = on::update("things", sixteen);
}
