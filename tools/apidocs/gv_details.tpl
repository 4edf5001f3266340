{{- define "gvDetails" }}
Group and version: `{{ .GroupVersionString }}`. Kinds: {{ range $i, $kind := .SortedKinds }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink ($.TypeForKind $kind) }}{{ end }}.
{{- range .SortedKinds }}
{{ template "type" ($.TypeForKind .) }}
{{- end }}
{{- range .SortedTypes }}
{{- if not .GVK }}
{{ template "type" . }}
{{- end }}
{{- end }}
{{- end -}}
