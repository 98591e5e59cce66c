"""MQTT behaviour: fronts, sessions, queues, routing, retained, wills, auth, hooks; the node that wires all."""
