"""What outlives a call: settings, storages of progress and diff-bases, credentials."""
