"""MQTT behaviour: connections, sessions, queues, routing, retained messages, wills, plugins, and the node."""
