"""Event-log schema and PySpark jobs. The package reads files and imports no other package of the broker."""
