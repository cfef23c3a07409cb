{{/* The rules with the values of monitoring.rules in their places. */}}
{{- define "splitpool.rules" -}}
{{- $text := .Files.Get "files/rules.yaml" -}}
{{- range $name, $value := merge (dict "runbooks" .Values.monitoring.runbooks) .Values.monitoring.rules -}}
{{- $text = replace (printf "<%s>" $name) (toString $value) $text -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* "true" where Prometheus' operator is there, or said to be. */}}
{{- define "splitpool.hasPrometheusOperator" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}true{{- end -}}
{{- end -}}
