//! CronJobs.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{Generation, Strategy};
use crate::rules::workloads;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    generation: Generation::Spec,
    check_spec,
    check_new: workloads::check_new_cron_job,
    ..Strategy::DEFAULT
};

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    workloads::check("cronjobs", object, errors);
}
