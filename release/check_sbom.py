"""Validates bills of materials with the schema of CycloneDX.

Every component must have a version and a licence; crates of registries also a checksum.

Usage: check_sbom.py FILE…
"""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def problems(text: str) -> list[str]:
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if found is not None:
        return [str(found)]
    document = json.loads(text)
    components = document["components"]
    listed = [
        f"{component['name']} has no {field}"
        for component in components
        for field in ("version", "licenses", "hashes")
        # Our crates are not in a registry yet.
        if not component.get(field) and not (field == "hashes" and component["name"].startswith("kopf"))
    ]
    references = {component["bom-ref"] for component in components}
    reached = {reference for entry in document["dependencies"] for reference in entry["dependsOn"]}
    listed += [f"{reference} has no component" for reference in sorted(reached - references)]
    listed += [f"nothing depends on {reference}" for reference in sorted(references - reached)]
    return listed


def main() -> None:
    failed = False
    for path in sys.argv[1:]:
        text = pathlib.Path(path).read_text()
        for problem in problems(text):
            failed = True
            print(f"error: {path}: {problem}", file=sys.stderr)
        print(f"release: {path}: {len(json.loads(text)['components'])} components", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
