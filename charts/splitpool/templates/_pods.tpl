{{/* What the pods of operator and router have in common. Argument: list of the root and a component. */}}
{{- define "splitpool.podSpec" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index $root.Values $component -}}
serviceAccountName: {{ include (printf "splitpool.%s" $component) $root }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if $values.affinity }}
  {{- toYaml $values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- include "splitpool.selector" (list $root $component) | nindent 14 }}
  {{- end }}
# Not by zone as well: nodes that lack one of the labels would be left out of the spread altogether.
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "splitpool.selector" (list $root $component) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: 64Mi
{{- end -}}

{{/* What their containers have in common. Argument: list of the root and a component. */}}
{{- define "splitpool.container" -}}
{{- $root := index . 0 -}}
{{- $values := index $root.Values (index . 1) -}}
image: {{ include "splitpool.image" (list $root $values.image) }}
imagePullPolicy: {{ $root.Values.imagePullPolicy }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
  - name: tmp
    mountPath: /tmp
{{- end -}}
