//! The examples of the Rust API in one place.

use kopf::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kopf::kube::ResourceExt as _;
use kopf::kube::api::{Api, PostParams};
use kopf::prelude::*;
use kopf::{Live, New, Object, Old, Patch, Status, SubHandlers};

#[kopf::on::create("kopfexamples")]
async fn create_fn(Spec(spec): Spec) -> kopf::Result<Value> {
    println!("And here we are! Creating: {spec}");
    Ok(json!({"message": "hello world"}))
}

fn is_ready(Status(status): Status) -> bool {
    status["ready"] == true
}

async fn check() -> Result<bool, std::io::Error> {
    Ok(true)
}

#[kopf::on::update("kopf.dev", "v1", "kopfexamples", field = "spec.field", old = "x", new = PRESENT, retries = 3, backoff = 30)]
#[kopf::on::create("kopfexamples", labels = {"some-label": "value", "other": PRESENT, "third": ABSENT}, when = is_ready)]
async fn changed(
    Old(old): Old,
    New(new): New,
    diff: Diff,
    retry: Retry,
    logger: Logger,
) -> kopf::Result<()> {
    logger.info(format_args!("{old:?} -> {new:?}, attempt {retry}"));
    if diff.len() > 5 {
        return Err(kopf::permanent("too many changes"));
    }
    let _ready = check().await?;
    Err(kopf::temporary("not yet").delay(60))
}

#[kopf::resource(
    group = "kopf.dev",
    version = "v1",
    kind = "EphemeralVolumeClaim",
    namespaced,
    shortname = "evc"
)]
struct EvcSpec {
    size: Option<String>,
}

#[kopf::schema]
struct PvcName {
    name: String,
}

fn template(name: String, size: &str) -> PersistentVolumeClaim {
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    });
    kopf::serde_json::from_value(claim).unwrap_or_default()
}

#[kopf::on::create(EphemeralVolumeClaim)]
async fn claim(evc: Object<EphemeralVolumeClaim>, client: Client) -> kopf::Result<PvcName> {
    let size = evc
        .spec
        .size
        .as_deref()
        .ok_or_else(|| kopf::permanent("size must be set"))?;
    let mut pvc = template(evc.name_any(), size);
    kopf::adopt(&evc, &mut pvc)?;
    let namespace = evc.namespace().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, &namespace);
    let created = claims.create(&PostParams::default(), &pvc).await?;
    Ok(PvcName {
        name: created.name_any(),
    })
}

fn strings(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

#[kopf::on::create("kopfexamples")]
fn create_items(Spec(spec): Spec, subs: SubHandlers) {
    for item in strings(&spec["items"]) {
        subs.register(item.clone(), move |logger: Logger| async move {
            logger.info(&item);
            Ok(())
        });
    }
}

#[kopf::daemon("kopfexamples", cancellation_timeout = 3)]
async fn monitor(spec: Live<Spec>, stopped: Stopped, logger: Logger) -> kopf::Result<()> {
    while !stopped.wait(10).await {
        logger.info(format_args!("field={}", spec.get()["field"]));
    }
    Ok(())
}

#[kopf::timer("kopfexamples", interval = 5, idle = 60)]
async fn tick(patch: Patch) -> kopf::Result<()> {
    patch.status().set("ticked", true);
    Ok(())
}

#[derive(Clone)]
struct Db;

async fn make(State(_db): State<Db>, Name(name): Name) -> String {
    name
}

async fn embedded(client: Client, db: Db) -> Result<(), Box<dyn std::error::Error>> {
    let operator = Operator::builder()
        .handler(on::create("things", make))
        .namespaces(["team-*,!team-x"])
        .state(db)
        .build()?;
    let running = operator.start(client).await?;
    running.stop().await?;
    Ok(())
}

pub(crate) fn main() {
    let _ = embedded;
}
