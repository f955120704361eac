"""What handlers get: bodies, patches, diffs, references, memos, indices, causes."""
