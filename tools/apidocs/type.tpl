{{- define "type" }}
## {{ .Name }}

{{ .Doc }}
{{- if .References }}

Used by {{ range $i, $type := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{- end }}
{{- range index .Markers "kubebuilder:validation:XValidation" }}

Rule: {{ .Message }}.
{{- end }}
{{- if .Members }}

| field | what it is | default | bounds |
|---|---|---|---|
{{- if .GVK }}
| `apiVersion`<br />string | `{{ .GVK.Group }}/{{ .GVK.Version }}` | | |
| `kind`<br />string | `{{ .GVK.Kind }}` | | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}`<br />{{ markdownRenderType .Type }} | {{ .Doc | trim | replace "\n" " " | markdownRenderFieldDoc }} | {{ template "default" . }} | {{ template "bounds" . }} |
{{- end }}
{{- end }}
{{- if .EnumValues }}

| value | what it means |
|---|---|
{{- range .EnumValues }}
| `{{ .Name }}` | {{ .Doc | trim | replace "\n" " " | markdownRenderFieldDoc }} |
{{- end }}
{{- end }}
{{- end -}}
{{- define "default" }}
{{- if and .Default (not (hasPrefix "{" .Default)) }}`{{ .Default }}`{{ end }}
{{- end -}}
{{- define "bounds" }}
{{- $all := list }}
{{- range .Validation }}
{{- if eq . "Required: {}" }}
{{- $all = append $all "required" }}
{{- else if not (or (hasPrefix "Optional:" .) (contains "XValidation" .)) }}
{{- $all = append $all . }}
{{- end }}
{{- end }}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ $all = append $all .Message }}{{ end }}
{{- range index .Markers "kubebuilder:validation:items:XValidation" }}{{ $all = append $all .Message }}{{ end }}
{{- join "\n" $all | markdownRenderFieldDoc }}
{{- end -}}
