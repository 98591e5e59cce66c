"""The wire: bytes <-> packets for MQTT 3.1, 3.1.1 and 5.0, topics, reason codes. It imports no other package."""
