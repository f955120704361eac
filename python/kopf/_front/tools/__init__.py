"""Commands and tests: loading of files, sandboxes, runners, manifests."""
