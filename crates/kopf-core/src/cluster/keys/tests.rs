//! Names of annotations, and their compatibility with those of the original.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Returns the naming of any prefix, including invalid ones.
fn unchecked(prefix: &str) -> KeyNaming {
    KeyNaming {
        prefix: prefix.to_owned(),
        v1: true,
        repairs: false,
    }
}

fn names(prefix: &str, key: &str) -> Vec<String> {
    let keys = unchecked(prefix).keys(key, &Body::new(json!({})));
    let start = format!("{prefix}/");
    keys.iter()
        .map(|key| key.strip_prefix(&start).unwrap().to_owned())
        .collect()
}

#[test]
fn invalid_annotation_names_are_rejected() {
    let naming = KeyNaming::default();
    for id in [
        "create_fn",
        "create_fn/spec.field",
        "outer.<locals>.inner",
        "A-1",
        "7",
        "make/item1/x",
        &"a".repeat(200),
        // Characters beyond the limit are replaced by the hash.
        &format!("{}{}", "a".repeat(60), "ü".repeat(10)),
    ] {
        naming.check(id).unwrap_or_else(|error| panic!("{error}"));
    }
    for id in [
        "",
        "a b",
        "ü",
        "make/ü",
        "\"item1\"",
        "..",
        "_private",
        "<lambda>",
        "make/",
        "make/a:b",
        "make/a\nb",
        &"ü".repeat(100),
    ] {
        let error = naming.check(id).unwrap_err();
        assert!(error.to_string().contains(&format!("{id:?}")), "{error}");
    }
    // With such a prefix, the older names become too long.
    let long = KeyNaming::new("p".repeat(100), true).unwrap();
    assert!(long.check(&"a".repeat(150)).is_err());
    assert!(long.with_v1(false).check(&"a".repeat(150)).is_ok());
}

#[test]
fn repaired_names_are_valid_and_distinct() {
    let naming = KeyNaming::default().with_repairs(true);
    let mut names = BTreeSet::new();
    let long = "_".repeat(100);
    let ids = [
        "", "_private", "private", "<lambda>", "a:b", "a;b", "ü", &long,
    ];
    for id in ids {
        naming.check(id).unwrap_or_else(|error| panic!("{error}"));
        names.extend(naming.forms(id));
    }
    assert!(names.len() >= ids.len());
    assert!(names.contains("kopf.zalando.org/private"));
}

#[test]
fn known_names_under_the_default_prefix() {
    let a = |count| "a".repeat(count);
    let b = |count| "b".repeat(count);
    for (key, expected) in [
        ("create_fn".to_owned(), vec!["create_fn".to_owned()]),
        (
            "create_fn/spec.field".to_owned(),
            vec!["create_fn.spec.field".to_owned()],
        ),
        (
            "outer.<locals>.inner".to_owned(),
            vec!["outer._locals_.inner".to_owned()],
        ),
        (a(46), vec![a(46)]),
        (a(47), vec![a(47), a(39) + "-L2I79Q"]),
        (a(63), vec![a(63), a(39) + "-LcrRHA"]),
        (a(64), vec![a(56) + "-5Keq3A", a(39) + "-5Keq3A"]),
        (
            format!("create_fn/{}", b(60)),
            vec![
                format!("create_fn.{}-HicFNw", b(46)),
                format!("create_fn.{}-lUqu6A", b(29)),
            ],
        ),
    ] {
        assert_eq!(names(DEFAULT_PREFIX, &key), expected);
    }
}

#[test]
fn known_names_under_a_custom_prefix() {
    let prefix = "my-operator.example.com";
    assert_eq!(
        names(prefix, &"x".repeat(40)),
        ["x".repeat(40), "x".repeat(32) + "-tEokcg"]
    );
    assert_eq!(
        names(prefix, &"x".repeat(64))[0],
        "x".repeat(56) + "-SItAqA"
    );
    assert_eq!(
        names(prefix, &"fn".repeat(323)),
        ["fn".repeat(28) + "-Az-r.g", "fn".repeat(16) + "-Az-r.g"]
    );
}

// From the recording s14 of the original.
#[test]
fn recorded_names() {
    assert_eq!(
        names(
            DEFAULT_PREFIX,
            "a-handler-name-of-exactly-fifty-characters-in-total"
        ),
        [
            "a-handler-name-of-exactly-fifty-characters-in-total",
            "a-handler-name-of-exactly-fifty-charact-d1EOZQ",
        ]
    );
}

#[test]
fn long_prefixes_match_the_original() {
    // room = 63 - 61 = 2, minus 7 for the hash: five characters are cut from the end.
    let prefix = "p".repeat(60);
    assert_eq!(
        names(&prefix, "abcdefgh")[1],
        format!("abc{}", suffix("abcdefgh"))
    );
    let prefix = "p".repeat(300);
    assert_eq!(names(&prefix, "abcdefgh")[1], suffix("abcdefgh"));
    assert!(unchecked(&prefix).is_prefix_too_long());
    assert!(
        !KeyNaming::new("p".repeat(189), true)
            .unwrap()
            .is_prefix_too_long()
    );
}

#[test]
fn v1_can_be_off_and_the_prefix_can_be_empty() {
    let naming = KeyNaming::default().with_v1(false);
    assert_eq!(naming.keys(&"a".repeat(64), &Body::new(json!({}))).len(), 1);
    for prefix in ["my op", "/", "a/b", ".x", "x.", "-x", "exämple"] {
        let error = Error::Prefix {
            prefix: prefix.to_owned(),
        };
        assert_eq!(KeyNaming::new(prefix, true), Err(error));
    }
    let naming = KeyNaming::new("", true).unwrap();
    let body = Body::new(json!({}));
    assert_eq!(naming.keys("fn/a", &body), ["fn.a"]);
    assert!(!naming.needs_mark() && !naming.owns("fn.a"));
    assert_eq!(naming.check("fn"), Ok(()));
    assert!(naming.check("f n").is_err());
    assert_eq!(naming.keys(&"x".repeat(63), &body), ["x".repeat(63)]);
    let long = naming.keys(&"x".repeat(64), &body);
    assert_eq!(long, ["x".repeat(56) + "-SItAqA"], "both forms are equal");
}

#[test]
fn replica_sets_of_deployments_have_their_own_names() {
    let with = |kind: &str, owners: Value| {
        let body = json!({"kind": kind, "metadata": {"ownerReferences": owners}});
        KeyNaming::default().keys("create_fn", &Body::new(body))
    };
    let owned = json!([{"kind": "Other"}, {"kind": "Deployment"}]);
    assert_eq!(
        with("ReplicaSet", owned.clone()),
        ["kopf.zalando.org/create_fn-ofDRS"]
    );
    assert_eq!(with("Pod", owned), ["kopf.zalando.org/create_fn"]);
    for other in [
        json!([]),
        json!([{"kind": "Other"}]),
        json!([1, {}]),
        json!("x"),
    ] {
        assert_eq!(with("ReplicaSet", other), ["kopf.zalando.org/create_fn"]);
    }
}

#[test]
fn prefixes_are_marked_by_the_marker_or_by_kopfs_domain() {
    let annotations = json!({
        "marked.example/kopf-managed": "whatever", "marked.example/x": "1",
        "kopf.zalando.org/x": "1", "sub.kopf.zalando.org/x": "1",
        "notkopf.zalando.org/x": "1", "kopf.dev/x": "1", "kopf-managed": "yes",
        "plain": "1", "foreign.example/x": "1",
    });
    let marked = marked_prefixes(annotations.as_object().unwrap());
    let expected = ["kopf.zalando.org", "marked.example", "sub.kopf.zalando.org"];
    assert_eq!(marked.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn marker_is_written_once_and_only_for_custom_prefixes() {
    let mark = |prefix: &str, annotations: Value, patch: Value| {
        let body = Body::new(json!({"metadata": {"annotations": annotations}}));
        let mut patch = Patch {
            merge: patch.as_object().unwrap().clone(),
            fns: vec![],
        };
        KeyNaming::new(prefix, true)
            .unwrap()
            .mark(&body, &mut patch);
        patch
            .get(&crate::field::FieldPath::from_iter([
                "metadata",
                "annotations",
                "my-op.example.com/kopf-managed",
            ]))
            .cloned()
    };
    let prefix = "my-op.example.com";
    let marker = json!({"my-op.example.com/kopf-managed": "old"});
    assert_eq!(mark(prefix, json!({}), json!({})), Some(json!("yes")));
    assert_eq!(mark(prefix, marker.clone(), json!({})), None);
    let patched = json!({"metadata": {"annotations": marker}});
    assert_eq!(mark(prefix, json!({}), patched), Some(json!("old")));

    let mut patch = Patch::default();
    KeyNaming::new("kopf.dev", true)
        .unwrap()
        .mark(&Body::new(json!({})), &mut patch);
    assert!(patch.merge.is_empty());
}

#[test]
fn ownership_requires_the_slash() {
    let naming = KeyNaming::default();
    assert!(naming.owns("kopf.zalando.org/x"));
    assert!(!naming.owns("kopf.zalando.org.x/y") && !naming.owns("kopf.zalando.org"));
}

proptest! {
    #[test]
    fn names_are_within_the_limit(key in ".{0,200}", prefix in "[a-z.]{1,80}") {
        let naming = unchecked(&prefix);
        let keys = naming.keys(&key, &Body::new(json!({})));
        let name = keys[0].strip_prefix(&format!("{prefix}/")).unwrap();
        prop_assert!(name.chars().count() <= 63);
        prop_assert!(!name.contains(['/', '<', '>']));
        prop_assert!(keys.len() <= 2 && keys.iter().all(|key| naming.owns(key)));
        if let Some(v1) = keys.get(1) {
            prop_assert!(prefix.len() > 55 || v1.chars().count() <= 63);
        }
    }

    #[test]
    fn suffixes_are_valid(text in any::<String>()) {
        let suffix = suffix(&text);
        prop_assert_eq!(suffix.len(), 7);
        prop_assert!(suffix.ends_with(|char: char| char.is_ascii_alphanumeric()));
    }
}
