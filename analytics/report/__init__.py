"""The report: one HTML page about the logs of runs, which needs no network and no script."""
