//! Transcripts: requests and the expected responses, as YAML files in `tests/api/transcripts`.
//!
//! A file is a mapping of cases to steps. The steps of `before` and `after` run around every case.
//!
//! ```yaml
//! finalizers_block_a_deletion:
//! - POST configmaps: {metadata: {name: a, finalizers: [example.com/hold]}}
//!   save: {version: metadata.resourceVersion}
//! - DELETE configmaps/a:
//!   has: {kind: ConfigMap, metadata.deletionTimestamp: <string>, metadata.resourceVersion: <not $version>}
//! - MERGE configmaps/a: {metadata: {finalizers: null}}
//! - GET configmaps/a:
//!   status: 404 NotFound
//! ```
//!
//! The first key of a step is a request: a method (`MERGE`, `JSON`, `STRATEGIC` and `APPLY` are
//! patches), a path, and the body. Short paths are in the test's namespace; bodies without a kind and
//! version get those of the path. Other actions are `gone` (waits until a path is not found), `crd`,
//! `let`, `WATCH`, `event`, `events`, `closed`, `compact`, `start`, and `do` with steps.
//!
//! | key | meaning |
//! |---|---|
//! | `headers`, `anonymous` | headers; a request without credentials |
//! | `raw`, `base64` | the body as a text, or as encoded bytes |
//! | `status` | code, or code and reason, `refused` (4xx) or `failure` (4xx, 5xx); otherwise 201 for POST, and 200 |
//! | `message`, `causes`, `some_causes` | of a `Status`; causes are lists of reason, field and maybe message |
//! | `has`, `includes` | values by path; elements of lists by path |
//! | `names`, `warnings`, `text`, `returns` | names of items; warnings, or `{sorted: …}` in any order; the body as text; headers |
//! | `save` | names for values by path; `$name` is the value in later steps and in the same one |
//! | `eventually` | `true` repeats the step until everything is as expected |
//! | `for`, `in` | names of columns and rows: the step is performed for each row |
//!
//! Values are compared exactly; see `matching::difference` for conditions such as
//! `<string>`, and `Scope::value` for `$from`, `$set` and `$remove`.

mod checking;
mod matching;
mod path;
mod places;
mod player;
mod scope;
mod step;

use std::path::PathBuf;

use serde_json::{Map, Value};

use self::player::Player;
use self::scope::Scope;
use self::step::{Action, File, Step};
use crate::Api;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("api/transcripts")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Performs a case of a file in `tests/api/transcripts`. Fails the test at the first difference.
pub async fn run(file: &str, case: &str) {
    let name = format!("{file}.yaml");
    let outcome = play(&read(&name), case).await;
    if let Err(error) = outcome {
        panic!("tests/api/transcripts/{name}:{error}\nin the case {case}");
    }
}

/// Returns the names of the cases of a file.
pub fn cases(file: &str) -> Vec<String> {
    let name = format!("{file}.yaml");
    let parsed = File::parse(&read(&name)).unwrap_or_else(|error| panic!("{name}:{error}"));
    parsed.cases.into_keys().collect()
}

/// Performs a case of a transcript. Errors begin with the line.
async fn play(text: &str, case: &str) -> Result<(), String> {
    let file = File::parse(text)?;
    let steps = file.cases.get(case).ok_or(format!("0: no case {case}"))?;
    let api = start(file.before.first().into_iter().chain(steps.first())).await;
    let mut player = Player::new(&api, fixtures()?);
    for steps in [&file.before, steps, &file.after] {
        player.perform(steps).await?;
    }
    Ok(())
}

/// Starts the server that the first steps of a case require.
async fn start(first: impl Iterator<Item = &Step>) -> Api {
    for step in first {
        match &step.action {
            Action::Start(kind) if kind == "rbac" => return Api::start_with_rbac().await,
            Action::Start(_) => return Api::start_over_tls().await,
            _ => {}
        }
    }
    Api::start().await
}

/// Returns the objects of `fixtures.yaml` by name.
fn fixtures() -> Result<Scope, String> {
    let objects: Map<String, Value> = serde_saphyr::from_str(&read("../fixtures.yaml"))
        .map_err(|error| format!("fixtures.yaml: {error}"))?;
    let mut scope = Scope::default();
    for (name, object) in objects {
        scope.set(&name, object);
    }
    Ok(scope)
}

#[cfg(test)]
mod tests;
