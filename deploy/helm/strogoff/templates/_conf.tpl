{{/* The text of vernemq.conf. */}}
{{- define "strogoff.conf" -}}
# Made by the chart from its value `config`.
{{- range $key, $value := .Values.config }}
{{- if regexMatch "^(nodename|cluster\\.address|discovery\\.(nodes|expected_nodes)|distributed_cookie|node\\.zone)$" $key }}
{{- fail (printf "config: %s is set by other values of the chart (cookie, foundingNodes, zone), so it cannot be set here" $key) }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ include "strogoff.confValue" $value }}
{{- end }}
{{- end }}
{{- if include "strogoff.usersSecret" . }}
vmq_passwd.password_file = /etc/strogoff/users/{{ .Values.users.key }}
{{- end }}
vmq_acl.acl_file = /etc/strogoff/conf/vmq.acl
{{- with .Values.tls.clients }}
{{- if .secretName }}
{{- range $type, $open := dict "ssl" (ternary 8883 0 .mqtt) "wss" (ternary 8443 0 .websocket) }}
{{- if $open }}
listener.{{ $type }}.default = {{ include "strogoff.listen" (list $ $open) }}
listener.{{ $type }}.default.certfile = /etc/strogoff/tls/tls.crt
listener.{{ $type }}.default.keyfile = /etc/strogoff/tls/tls.key
{{- if $.Values.tls.clients.requireCertificate }}
listener.{{ $type }}.default.cafile = /etc/strogoff/tls/ca.crt
listener.{{ $type }}.default.require_certificate = on
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.tls.nodes }}
{{- if .secretName }}
listener.vmqs.clustering = {{ include "strogoff.listen" (list $ 44053) }}
listener.vmqs.clustering.certfile = /etc/strogoff/nodes-tls/tls.crt
listener.vmqs.clustering.keyfile = /etc/strogoff/nodes-tls/tls.key
listener.vmqs.clustering.cafile = /etc/strogoff/nodes-tls/ca.crt
cluster.certificate_name = {{ required "tls.nodes.certificateName: the DNS name for which the certificate of the nodes is valid is missing" .certificateName }}
cluster.peer_names = {{ .certificateName }}
{{- end }}
{{- end }}
{{- end -}}
