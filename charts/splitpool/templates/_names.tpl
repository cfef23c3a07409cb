{{/* The release's name, with the chart's where it is not part of it; Services may have no dot in theirs. */}}
{{- define "splitpool.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "splitpool.operator" -}}{{ include "splitpool.fullname" . }}-operator{{- end -}}
{{- define "splitpool.router" -}}{{ include "splitpool.fullname" . }}-router{{- end -}}

{{/* Labels by which pods are selected. Argument: list of the root and a component. */}}
{{- define "splitpool.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: splitpool-{{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
{{- end -}}

{{/* Labels of a pod: none that changes with the chart, which would restart it. */}}
{{- define "splitpool.podLabels" -}}
{{ include "splitpool.selector" . }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: splitpool
{{- end -}}

{{/* Labels of an object. Argument: list of the root and a component. */}}
{{- define "splitpool.labels" -}}
{{- $root := index . 0 -}}
{{ include "splitpool.podLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* A whole image reference. Argument: list of the root and an image. */}}
{{- define "splitpool.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The namespaces that hold pools, as a JSON list. */}}
{{- define "splitpool.poolNamespaces" -}}
{{- .Values.scope.namespaces | default (list .Release.Namespace) | uniq | toJson -}}
{{- end -}}

{{- define "splitpool.callerKeySecret" -}}
{{- .Values.router.callerKey.existingSecret | default (printf "%s-caller-key" (include "splitpool.fullname" .)) -}}
{{- end -}}
