"""The other nodes: identity, slots, cluster time. Knows no MQTT packet."""
