import pathlib
import runpy

PROGRAM = pathlib.Path(__file__).parent / "handlers.py"


def test_application_gets_the_names(cluster, obj):
    serve = runpy.run_path(str(PROGRAM))["serve"]
    for name in ("one", "two", "three"):
        obj["metadata"]["name"] = name
        cluster.create(obj)
    assert sorted(serve(3)) == ["one", "three", "two"]
