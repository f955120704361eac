//! What almost every operator needs: `use kopf::prelude::*;`

pub use kube::{Client, CustomResource};
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};

pub use crate::extract::{
    Annotations, Child, Conditions, DryRun, Event, Headers, Labels, Live, Logger, Memo, Meta, Name,
    Namespace, New, Now, Object, Old, Param, Patch, Retry, Runtime, SettingsMut, Spec, SslPeer,
    Started, State, Status, Stopped, SubHandlers, Subresource, Uid, UserInfo, Warnings,
};
pub use crate::indexing::Index;
pub use crate::{
    ABSENT, Body, Diff, EVERYTHING, EventType, Operation, Operator, PRESENT, Reason, Resource,
    Settings, on,
};
