{{- define "ckn.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ckn.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else if contains (include "ckn.name" .) .Release.Name -}}
{{ .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name (include "ckn.name" .) | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "ckn.selector" -}}
app.kubernetes.io/name: {{ include "ckn.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ckn.labels" -}}
{{ include "ckn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* What pods are labelled with and services select by: not by release, so that a canary can join. */}}
{{- define "ckn.group" -}}
ckn/group: {{ default (include "ckn.fullname" .) .Values.group }}
{{- end }}

{{- define "ckn.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "ckn.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "ckn.fullname" . }}
{{- else -}}
default
{{- end }}
{{- end }}

{{- define "ckn.claim" -}}
{{ default (printf "%s-models" (include "ckn.fullname" .)) .Values.models.pvc.existingClaim }}
{{- end }}

{{/* A quantity of CPUs, "500m" or 1.5, in thousandths. */}}
{{- define "ckn.millicpus" -}}
{{- $text := toString . -}}
{{- if hasSuffix "m" $text -}}
{{ trimSuffix "m" $text | int }}
{{- else -}}
{{ mulf (float64 $text) 1000 | int }}
{{- end }}
{{- end }}

{{/* A quantity of memory in MiB, rounded down. */}}
{{- define "ckn.mebibytes" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" -}}
{{- $bytes := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- if not (hasKey $bytes $unit) }}{{ fail (printf "memory: got %q, expected a number with one of the units Ki, Mi, Gi, Ti, k, M, G, T" $text) }}{{ end -}}
{{ divf (mulf $number (get $bytes $unit)) 1048576.0 | floor | int }}
{{- end }}

{{/* Worker threads to ask for; empty: the server counts. */}}
{{- define "ckn.threads" -}}
{{- if .Values.threads -}}
{{ .Values.threads }}
{{- else if not (dig "limits" "cpu" "" .Values.resources) -}}
{{- $request := dig "requests" "cpu" "1" .Values.resources -}}
{{ max 1 (div (add (include "ckn.millicpus" $request | int) 999) 1000) }}
{{- end }}
{{- end }}

{{/* One probe's handler and numbers. */}}
{{- define "ckn.probe" -}}
{{- $type := .root.Values.probes.type -}}
{{- if eq $type "auto" }}{{ $type = ternary "http" "grpc" (ne .root.Values.tls.secretName "") }}{{ end -}}
{{- if eq $type "grpc" -}}
grpc: {port: 8500}
{{- else -}}
httpGet: {path: {{ .path }}, port: http}
{{- end }}
{{ toYaml .numbers }}
{{- end }}
