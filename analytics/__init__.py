"""Event-log schema and PySpark jobs. An island: reads files, imports nothing of ours."""
