{{/* The alerts. In an expression PREFIX_ stands for the prefix of the metrics and @ for the labels of this release. */}}
{{- define "strogoff.alerts" -}}
- alert: StrogoffNodeDown
  expr: sum(up@) < {{ .Values.replicaCount }} or absent(up@)
  for: 5m
  severity: warning
  summary: Nodes of Strogoff do not answer
  description: Fewer than {{ .Values.replicaCount }} nodes answer. Look at their pods and at `vmq-admin cluster show --verbose`.
- alert: StrogoffNoLease
  expr: PREFIX_cluster_leased@ == 0
  for: 1m
  severity: critical
  summary: "{{ "{{ $labels.node }}" }} has no lease"
  description: The node sees no majority, and refuses what its netsplit flags refuse. /health of the node names the cause.
- alert: StrogoffMemberMissing
  expr: max(PREFIX_cluster_members@) > min(PREFIX_cluster_serving@)
  for: 10m
  severity: warning
  summary: A member of the cluster does not serve
  description: "`vmq-admin cluster show --verbose` names it. Start it, or remove it with `vmq-admin cluster leave`."
- alert: StrogoffSlotsWithoutPrimary
  expr: max(PREFIX_slots_without_primary@) > 0
  for: 1m
  severity: critical
  summary: Sessions are unavailable
  description: "{{ "{{ $value }}" }} slots have no primary. `vmq-admin slot recover` shows which nodes have their sessions."
- alert: StrogoffSlotsWithoutCopy
  expr: sum(PREFIX_slots_without_copy@) > 0
  for: 15m
  severity: warning
  summary: Sessions have one copy
  description: "{{ "{{ $value }}" }} slots have fewer copies than queue_replicas. If the node with one fails, its sessions wait for it."
- alert: StrogoffWrongCopy
  expr: increase(PREFIX_queue_copy_repairs@[1h]) > 0
  for: 0m
  severity: warning
  summary: "Rows of a copy were wrong at {{ "{{ $labels.node }}" }}"
  description: They were replaced. Look at the disk of this node.
- alert: StrogoffSlowDisk
  expr: max(PREFIX_cluster_slow_disks@) > 0
  for: 10m
  severity: warning
  summary: The disk of a node is slow
  description: "`vmq-admin cluster status` names the node."
- alert: StrogoffMessagesDropped
  expr: rate(PREFIX_queue_message_drop@[5m]) > 0
  for: 10m
  severity: warning
  summary: "{{ "{{ $labels.node }}" }} drops messages of slow or absent clients"
  description: "Lines `q.drop` of the log name the clients and the reasons."
- alert: StrogoffConnectionsRefused
  expr: rate(PREFIX_connections_refused@[5m]) > 0
  for: 5m
  severity: warning
  summary: "{{ "{{ $labels.node }}" }} refuses connections"
  description: It has listener.max_connections of them, or too few file descriptors.
- alert: StrogoffEventLogFailing
  expr: PREFIX_eventlog_failing@ == 1
  for: 5m
  severity: warning
  summary: "{{ "{{ $labels.node }}" }} cannot write its event log"
  description: The log of the node says why.
{{- end -}}
