"""From a topic to queues: subscriptions, plans, groups, retained messages."""
