//! The verbs of the API, one file for each.

pub mod apply;
pub mod containers;
pub mod continue_token;
pub mod create;
pub mod delete;
mod eviction;
pub mod get;
pub mod incoming;
pub mod list;
pub mod patch;
pub mod perform;
pub mod pod_parts;
pub mod reviews;
pub mod scale;
pub mod special;
pub mod update;
pub mod validation;
pub mod watch;

use crate::call::{Admission, Call, Payload, Tracking};
