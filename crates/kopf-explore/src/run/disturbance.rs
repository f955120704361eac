//! Changes by another client that last for a while, and recreations of objects.

use serde_json::{Map, Value, json};

use super::client::{Client, Rejection};

/// The deepest field that is changed.
const DEEPEST: usize = 4;
/// Changes that are tried until the API server admits one.
const MOST_ATTEMPTS: usize = 8;
/// Fields of the metadata that an object gets when it is created.
const ASSIGNED: [&str; 6] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// A changed field that is changed back later.
#[derive(Debug, Clone)]
pub(crate) struct Disturbance {
    /// The path of the object.
    path: String,
    /// The path for changes, with the subresource.
    write_path: String,
    fields: Vec<String>,
    before: Value,
    after: Value,
}

impl Disturbance {
    /// Changes the first field that can be changed: of the status, or of the rest.
    pub(crate) async fn make(client: &Client, path: &str, is_status: bool) -> Option<Self> {
        let object = client.get(path).await.ok()?;
        let roots: &[&str] = if is_status {
            &["status"]
        } else {
            &["spec", "data"]
        };
        let mut found = Vec::new();
        for root in roots {
            if let Some(value) = object.get(*root) {
                collect(&mut vec![(*root).to_owned()], value, &mut found);
            }
        }
        let write_path = if is_status {
            format!("{path}/status")
        } else {
            path.to_owned()
        };
        for (fields, before, after) in found.into_iter().take(MOST_ATTEMPTS) {
            let made = Self {
                path: path.to_owned(),
                write_path: write_path.clone(),
                fields,
                before,
                after,
            };
            let changed = client
                .merge_at(&made.write_path, &made.patch(&made.after))
                .await;
            // A field without a schema is dropped, and then nothing has changed.
            if changed.is_ok_and(|object| made.found(&object) == Some(&made.after)) {
                return Some(made);
            }
        }
        None
    }

    /// Changes the field back, unless someone else has changed it.
    pub(crate) async fn end(&self, client: &Client) -> Result<(), Rejection> {
        let object = match client.get(&self.path).await {
            Ok(object) => object,
            Err(rejection) if rejection.code == 404 => return Ok(()),
            Err(rejection) => return Err(rejection),
        };
        if self.found(&object) == Some(&self.after) {
            let back = self.patch(&self.before);
            client.merge_at(&self.write_path, &back).await?;
        }
        Ok(())
    }

    fn found<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut fields = self.fields.iter();
        fields.try_fold(object, |value, field| value.get(field))
    }

    fn patch(&self, value: &Value) -> Value {
        let fields = self.fields.iter().rev();
        fields.fold(value.clone(), |inner, field| json!({ field: inner }))
    }
}

/// Collects fields of maps with other values of the same type.
fn collect(fields: &mut Vec<String>, value: &Value, found: &mut Vec<(Vec<String>, Value, Value)>) {
    let other = match value {
        Value::Object(map) if fields.len() < DEEPEST => {
            for (name, inner) in map {
                fields.push(name.clone());
                collect(fields, inner, found);
                fields.pop();
            }
            return;
        }
        Value::Bool(value) => json!(!value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => json!(number.saturating_add(1)),
            None => return,
        },
        Value::String(text) if !text.is_empty() => json!(format!("{text}x")),
        _ => return,
    };
    found.push((fields.clone(), value.clone(), other));
}

/// Deletes an object and creates it again: as it was, or as the user has applied it.
pub(crate) async fn recreate(
    client: &Client,
    path: &str,
    applied: Option<&Value>,
) -> Result<(), Rejection> {
    let mut object = client.get(path).await?;
    client.delete_at(path).await?;
    if client.get(path).await.is_ok() {
        // It waits for its finalizers, and the operator for this request.
        return Ok(());
    }
    if let Some(applied) = applied {
        client.apply(applied, false).await?;
        return Ok(());
    }
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            forget(metadata);
        }
    }
    let Some((collection, _)) = path.rsplit_once('/') else {
        return Ok(());
    };
    client.create_at(collection, &object).await.map(drop)
}

fn forget(metadata: &mut Map<String, Value>) {
    for field in ASSIGNED {
        metadata.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_of_maps_can_be_changed() {
        let mut found = Vec::new();
        let spec = json!({"a": {"size": 1, "list": [1]}, "on": true, "text": "b"});
        collect(&mut vec!["spec".to_owned()], &spec, &mut found);
        let changes: Vec<String> = found
            .iter()
            .map(|(fields, before, after)| format!("{} {before} {after}", fields.join(".")))
            .collect();
        assert_eq!(
            changes,
            [
                "spec.a.size 1 2",
                "spec.on true false",
                "spec.text \"b\" \"bx\""
            ]
        );
    }
}
