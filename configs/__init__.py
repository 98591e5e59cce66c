"""vernemq.conf: schema, parser, environment, shipped files."""
