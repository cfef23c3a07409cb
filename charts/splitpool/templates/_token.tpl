{{/*
The token of routers and workers: the one that the release's namespace or one with pools holds already, else a
new one, the same for the whole rendering.
*/}}
{{- define "splitpool.internalToken" -}}
{{- if not (hasKey .Release "splitpoolToken") -}}
{{- $held := "" -}}
{{- range prepend (include "splitpool.poolNamespaces" . | fromJsonArray) .Release.Namespace -}}
{{- $found := lookup "v1" "Secret" . "splitpool-internal" | default dict -}}
{{- $held = $held | default (dig "data" "token" "" $found) -}}
{{- end -}}
{{- $_ := set .Release "splitpoolToken" (ternary ($held | b64dec) (randAlphaNum 64) (ne $held "")) -}}
{{- end -}}
{{- .Release.splitpoolToken -}}
{{- end -}}
