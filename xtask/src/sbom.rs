//! The bill of materials of a program, in the format CycloneDX 1.6.
//!
//! It has neither a time nor a serial number, so the same sources result in the same file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::linked::{Linked, Package, checksums};

/// Returns the bill of materials of everything that one of our crates links.
pub(crate) fn sbom(root: &Path, name: &str) -> Result<String> {
    let document = document(&Linked::of(root, name)?, &checksums(root)?);
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn document(linked: &Linked, checksums: &BTreeMap<(String, String), String>) -> Value {
    let components: Vec<Value> = linked
        .packages
        .iter()
        .map(|package| {
            let key = (package.name.clone(), package.version.clone());
            component(package, "library", checksums.get(&key))
        })
        .collect();
    let references: Vec<String> = linked.packages.iter().map(reference).collect();
    let own = linked.packages.iter().chain([&linked.root]);
    let dependencies = own.zip(&linked.dependencies).map(|(package, direct)| {
        let direct: Vec<_> = direct
            .iter()
            .map(|position| &references[*position])
            .collect();
        json!({"ref": reference(package), "dependsOn": direct})
    });
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(&linked.root, "application", None)},
        "components": components,
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

fn component(package: &Package, kind: &str, checksum: Option<&String>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "purl": reference(package),
    });
    if let Some(text) = &package.description {
        component["description"] = json!(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    if let Some(licence) = &package.license {
        // Old manifests separate alternatives by a slash, which is not an expression of SPDX.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(url) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": url}]);
    }
    component
}

/// Returns the package URL of a crate, which also identifies it in the document.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, license: &str) -> Package {
        let package = json!({"id": name, "name": name, "version": "1.0.0", "description": "a\n b",
            "license": license, "repository": "https://x.example", "source": null, "manifest_path": "/x"});
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn crates_have_licences_checksums_and_dependencies() {
        let linked = Linked {
            root: package("app", "MIT"),
            packages: vec![package("a", "MIT/Apache-2.0")],
            dependencies: vec![vec![], vec![0]],
        };
        let key = ("a".to_owned(), "1.0.0".to_owned());
        let document = document(&linked, &BTreeMap::from([(key, "12ab".to_owned())]));
        let component = &document["components"][0];
        assert_eq!(component["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(component["hashes"][0]["content"], "12ab");
        assert_eq!(component["description"], "a b");
        assert_eq!(document["metadata"]["component"]["type"], "application");
        let expected = json!({"ref": "pkg:cargo/app@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0"]});
        assert_eq!(document["dependencies"][1], expected);
    }
}
