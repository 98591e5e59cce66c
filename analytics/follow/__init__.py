"""`follow`: the life of one message or one client, from the files, without Spark."""
