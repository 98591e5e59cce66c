{{- define "strogoff.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the StatefulSet, at most 40 characters: the names of pods and services add to it. */}}
{{- define "strogoff.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "strogoff.headless" -}}
{{- printf "%s-headless" (include "strogoff.fullname" .) -}}
{{- end -}}

{{- define "strogoff.selector" -}}
app.kubernetes.io/name: {{ include "strogoff.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "strogoff.labels" -}}
{{ include "strogoff.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object: (dict "root" $ "name" NAME "labels" MORE "annotations" MORE) */}}
{{- define "strogoff.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "strogoff.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "strogoff.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "strogoff.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "strogoff.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "strogoff.cookieSecret" -}}
{{- if .Values.cookie.secretName -}}
{{- .Values.cookie.secretName -}}
{{- else if .Values.cookie.value -}}
{{- printf "%s-cookie" (include "strogoff.fullname" .) -}}
{{- else -}}
{{- fail "cookie: the nodes need a secret in common. Make one: `kubectl create secret generic strogoff-cookie --from-literal=cookie=$(openssl rand -hex 16)`, and set cookie.secretName=strogoff-cookie" -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the password file; empty without one. */}}
{{- define "strogoff.usersSecret" -}}
{{- if .Values.users.secretName -}}
{{- .Values.users.secretName -}}
{{- else if .Values.users.passwordFile -}}
{{- printf "%s-users" (include "strogoff.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "strogoff.foundingNodes" -}}
{{- $count := int .Values.replicaCount -}}
{{- $founding := int .Values.foundingNodes -}}
{{- if not $founding -}}
{{- $founding = ternary $count (add 1 (div $count 2) | int) (le $count 3) -}}
{{- end -}}
{{- if or (gt $founding $count) (le (mul 2 $founding) $count) -}}
{{- fail (printf "foundingNodes: %d of %d nodes cannot found a cluster: more than half of replicaCount are needed, and at most all" $founding $count) -}}
{{- end -}}
{{- $founding -}}
{{- end -}}

{{- define "strogoff.gracePeriod" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add (int .Values.preStopSeconds) (int (default 8 (get .Values.config "queue_stop_wait"))) 15 -}}
{{- else -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* A value as vernemq.conf has it: on and off, and integers without an exponent. */}}
{{- define "strogoff.confValue" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if kindIs "float64" . -}}
{{- if eq (floor .) . -}}{{- int64 . -}}{{- else -}}{{- . -}}{{- end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* The ports of the container, as YAML: name -> port, only those that are open. */}}
{{- define "strogoff.clientPorts" -}}
{{- if .Values.listeners.mqtt }}
mqtt: 1883
{{- end }}
{{- if .Values.listeners.websocket }}
websocket: 8080
{{- end }}
{{- if .Values.tls.clients.secretName }}
{{- if .Values.tls.clients.mqtt }}
mqtts: 8883
{{- end }}
{{- if .Values.tls.clients.websocket }}
websockets: 8443
{{- end }}
{{- end }}
{{- end -}}

{{/* HOST:PORT on which pods listen: (list $ PORT) */}}
{{- define "strogoff.listen" -}}
{{- $host := (index . 0).Values.listenAddress -}}
{{- printf "%s:%d" (ternary (printf "[%s]" $host) $host (contains ":" $host)) (int (index . 1)) -}}
{{- end -}}
