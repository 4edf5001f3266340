{{- define "gvList" -}}
<!-- Made by make generate of the Go types in api; see tools/apidocs. -->
# API reference

What a Cluster may say, and what the hub says of it. [`how-it-works.md`](how-it-works.md) has what it means and
[`conditions.md`](conditions.md) the conditions; `kubectl explain clusters.clusterfx.dev.spec` shows the same fields.
{{- range . }}
{{ template "gvDetails" . }}
{{- end }}
{{ end -}}
