"""Sources of discovery: where other nodes may be."""
