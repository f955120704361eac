//! Progress records: the state of one handler of one object between its attempts.
//!
//! A record can be read by another implementation or an older version. So writing is exact, and
//! reading is lenient.

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::encoding::to_json_text;
use crate::sizes::{MESSAGE_LIMIT, cut};
use crate::timestamp;

/// The progress of one handler in one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProgressRecord {
    /// The time at which the handler was first selected in this cause, possibly before its first
    /// attempt.
    pub started: Option<Timestamp>,
    /// The time of its success or failure.
    pub stopped: Option<Timestamp>,
    /// The earliest time of the next attempt.
    pub delayed: Option<Timestamp>,
    /// The reason of the cause: `create`, `update`, `delete`, `resume`; `None` matches any.
    pub purpose: Option<String>,
    /// The number of finished attempts.
    pub retries: u32,
    /// It finally succeeded.
    pub success: bool,
    /// It finally failed.
    pub failure: bool,
    /// The message of the last error.
    pub message: Option<String>,
    /// The ids of all sub-handlers, sorted; empty is the same as none.
    pub subrefs: Vec<String>,
}

impl ProgressRecord {
    /// Returns the record as an object with all fields, including nulls.
    pub fn to_value(&self) -> Value {
        let fields = self
            .fields()
            .map(|(key, value)| (key.to_owned(), value.unwrap_or_default()));
        Value::Object(fields.into_iter().collect())
    }

    /// Parses a record; `None` if it is not an object. Fields of wrong types count as absent.
    pub fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        let moment = |key| {
            map.get(key)
                .and_then(Value::as_str)
                .and_then(|text| timestamp::parse(text).ok())
        };
        let flag = |key| map.get(key).and_then(Value::as_bool).unwrap_or_default();
        Some(Self {
            started: moment("started"),
            stopped: moment("stopped"),
            delayed: moment("delayed"),
            purpose: text(map, "purpose"),
            retries: retries(map),
            success: flag("success"),
            failure: flag("failure"),
            message: text(map, "message"),
            subrefs: subrefs(map),
        })
    }

    /// Turns the last outcome into a permanent failure.
    pub fn fail(&mut self, message: &str, now: Timestamp) {
        self.stopped = Some(now);
        self.delayed = None;
        self.success = false;
        self.failure = true;
        self.message = Some(cut(message, MESSAGE_LIMIT));
    }

    /// Returns the fields in the order of serialisation.
    fn fields(&self) -> [(&'static str, Option<Value>); 9] {
        let moment = |moment: Option<Timestamp>| Some(Value::from(timestamp::format(moment?)));
        let subrefs = Some(&self.subrefs).filter(|subrefs| !subrefs.is_empty());
        [
            ("started", moment(self.started)),
            ("stopped", moment(self.stopped)),
            ("delayed", moment(self.delayed)),
            ("purpose", self.purpose.as_deref().map(Value::from)),
            ("retries", Some(Value::from(self.retries))),
            ("success", Some(Value::from(self.success))),
            ("failure", Some(Value::from(self.failure))),
            ("message", self.message.as_deref().map(Value::from)),
            (
                "subrefs",
                subrefs.map(|subrefs| Value::from(subrefs.as_slice())),
            ),
        ]
    }
}

/// Serialises without nulls, in the order of the original.
impl Serialize for ProgressRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Without intermediate values: records are written for every attempt.
        let mut map = serializer.serialize_map(None)?;
        let moments = [
            ("started", self.started),
            ("stopped", self.stopped),
            ("delayed", self.delayed),
        ];
        for (key, moment) in moments {
            if let Some(moment) = moment {
                map.serialize_entry(key, &timestamp::format(moment))?;
            }
        }
        if let Some(purpose) = &self.purpose {
            map.serialize_entry("purpose", purpose)?;
        }
        map.serialize_entry("retries", &self.retries)?;
        map.serialize_entry("success", &self.success)?;
        map.serialize_entry("failure", &self.failure)?;
        if let Some(message) = &self.message {
            map.serialize_entry("message", message)?;
        }
        if !self.subrefs.is_empty() {
            map.serialize_entry("subrefs", &self.subrefs)?;
        }
        map.end()
    }
}

/// Names of the fields of a record, in the order of the original.
pub(super) const FIELDS: [&str; 9] = [
    "started", "stopped", "delayed", "purpose", "retries", "success", "failure", "message",
    "subrefs",
];

/// A record serialised with its nulls, in the order of the original.
#[derive(Debug)]
pub(super) struct Verbose<'a>(pub(super) &'a ProgressRecord);

impl Serialize for Verbose<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.fields())
    }
}

/// Returns a string; values of other types become their JSON.
fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    match map.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(to_json_text(other)),
    }
}

/// Returns a count; the server may have converted it to a float.
fn retries(map: &Map<String, Value>) -> u32 {
    let count = map
        .get("retries")
        .and_then(Value::as_f64)
        .unwrap_or_default();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let count = count as u32;
    count
}

fn subrefs(map: &Map<String, Value>) -> Vec<String> {
    let items = map
        .get("subrefs")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut ids: Vec<_> = items
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::try_json_text;
    use proptest::prelude::*;
    use serde_json::json;

    fn moment(text: &str) -> Option<Timestamp> {
        timestamp::parse(text).ok()
    }

    fn record() -> ProgressRecord {
        ProgressRecord {
            started: moment("2026-01-02T03:04:05.678901Z"),
            delayed: moment("2026-01-02T03:05:05.7Z"),
            purpose: Some("create".to_owned()),
            retries: 1,
            message: Some("not ready".to_owned()),
            ..ProgressRecord::default()
        }
    }

    #[test]
    fn records_are_serialised_without_nulls_in_the_order_of_the_original() {
        assert_eq!(
            try_json_text(&record()).unwrap(),
            r#"{"started":"2026-01-02T03:04:05.678901+00:00","delayed":"2026-01-02T03:05:05.700000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not ready"}"#
        );
        assert_eq!(
            try_json_text(&ProgressRecord::default()).unwrap(),
            r#"{"retries":0,"success":false,"failure":false}"#
        );
    }

    #[test]
    fn verbose_records_are_serialised_with_nulls() {
        assert_eq!(
            try_json_text(&Verbose(&record())).unwrap(),
            r#"{"started":"2026-01-02T03:04:05.678901+00:00","stopped":null,"delayed":"2026-01-02T03:05:05.700000+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not ready","subrefs":null}"#
        );
        let expected = json!({
            "started": null, "stopped": null, "delayed": null, "purpose": null, "retries": 0,
            "success": false, "failure": false, "message": null, "subrefs": null,
        });
        assert_eq!(ProgressRecord::default().to_value(), expected);
    }

    #[test]
    fn timestamps_without_offsets_are_parsed() {
        let old = json!({
            "started": "2019-12-31T23:59:59.123456", "retries": 1,
            "delayed": "2020-01-01T00:00:59.123456", "success": false, "failure": false,
            "message": "not ready",
        });
        let expected = ProgressRecord {
            started: moment("2019-12-31T23:59:59.123456Z"),
            delayed: moment("2020-01-01T00:00:59.123456Z"),
            purpose: None,
            ..record()
        };
        assert_eq!(ProgressRecord::from_value(&old), Some(expected));
    }

    #[test]
    fn wrong_types_count_as_absent() {
        for wrong in [
            json!(null),
            json!([1]),
            json!({"a": 1}),
            json!(true),
            json!("x"),
            json!(-5),
        ] {
            let value = json!({
                "started": wrong, "stopped": wrong, "delayed": wrong, "retries": wrong,
                "subrefs": wrong,
            });
            assert_eq!(
                ProgressRecord::from_value(&value),
                Some(ProgressRecord::default())
            );
        }
        let value = json!({"success": 1, "failure": "yes", "purpose": null, "message": {"a": 1}});
        let read = ProgressRecord::from_value(&value).unwrap();
        assert_eq!(
            (read.success, read.failure, read.purpose),
            (false, false, None)
        );
        assert_eq!(read.message.as_deref(), Some(r#"{"a":1}"#));
        for garbage in [json!(null), json!(1), json!("x"), json!([{}])] {
            assert_eq!(ProgressRecord::from_value(&garbage), None);
        }
    }

    #[test]
    fn counts_are_parsed_in_any_notation() {
        let retries = |text: &str| {
            let value = serde_json::from_str(&format!("{{\"retries\":{text}}}")).unwrap();
            ProgressRecord::from_value(&value).unwrap().retries
        };
        assert_eq!(
            (retries("3"), retries("3.0"), retries("-1"), retries("1e30")),
            (3, 3, 0, u32::MAX)
        );
    }

    #[test]
    fn references_are_sorted_and_unique() {
        let value = json!({"subrefs": ["fn/b", 1, "fn/a", "fn/b"]});
        assert_eq!(
            ProgressRecord::from_value(&value).unwrap().subrefs,
            ["fn/a", "fn/b"]
        );
    }

    prop_compose! {
        fn moments()(seconds in 0i64..4_000_000_000, micro in 0..1_000_000) -> Timestamp {
            Timestamp::new(seconds, micro * 1_000).unwrap()
        }
    }

    prop_compose! {
        fn records()(
            (started, stopped, delayed) in (
                prop::option::of(moments()), prop::option::of(moments()), prop::option::of(moments()),
            ),
            purpose in prop::option::of("create|update|delete|resume"),
            (retries, success, failure) in any::<(u32, bool, bool)>(),
            message in prop::option::of(any::<String>()),
            subrefs in prop::collection::btree_set(any::<String>(), 0..3),
        ) -> ProgressRecord {
            let subrefs = subrefs.into_iter().collect();
            ProgressRecord {
                started, stopped, delayed, purpose, retries, success, failure, message, subrefs,
            }
        }
    }

    proptest! {
        #[test]
        fn any_record_survives_a_round_trip(record in records()) {
            let text = try_json_text(&record).unwrap();
            let read = ProgressRecord::from_value(&serde_json::from_str(&text).unwrap());
            prop_assert_eq!(read.as_ref(), Some(&record));
            prop_assert_eq!(ProgressRecord::from_value(&record.to_value()), Some(record));
        }
    }
}
