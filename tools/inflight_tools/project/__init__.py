"""Projects: a folder with a configuration, modules of one's own and their tests."""
