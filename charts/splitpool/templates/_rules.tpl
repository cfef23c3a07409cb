{{/*
What operator and router do in a namespace that holds pools, and nothing more. The tests run both under
exactly these rules; a verb that is denied or never used fails them.
*/}}
{{- define "splitpool.operatorRules" -}}
- apiGroups: [splitpool.dev]
  resources: [inferencepools]
  verbs: [list, watch]
- apiGroups: [splitpool.dev]
  resources: [inferencepools/status]
  verbs: [patch]
{{- if .Values.rbac.ownerFinalizers }}
- apiGroups: [splitpool.dev]
  resources: [inferencepools/finalizers]
  verbs: [update]
{{- end }}
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "splitpool.routerRules" -}}
- apiGroups: [splitpool.dev]
  resources: [inferencepools]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}

{{/*
A role and its binding, in every namespace with pools or in the whole cluster. Argument: list of the root, a
component, the name of its service account, and its rules.
*/}}
{{- define "splitpool.grant" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $name := index . 2 -}}
{{- $rules := index . 3 -}}
{{- $cluster := $root.Values.scope.clusterWide -}}
{{- $kind := ternary "ClusterRole" "Role" $cluster -}}
{{- range ternary (list "") (include "splitpool.poolNamespaces" $root | fromJsonArray) $cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with . }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "splitpool.labels" (list $root $component) | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with . }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "splitpool.labels" (list $root $component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace | quote }}
{{- end }}
{{- end -}}
