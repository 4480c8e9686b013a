{{- define "editais-sync.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "editais-sync.fullname" -}}
{{- $name := include "editais-sync.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "editais-sync.selector" -}}
app.kubernetes.io/name: {{ include "editais-sync.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "editais-sync.labels" -}}
{{ include "editais-sync.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "editais-sync.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "editais-sync.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "editais-sync.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Redis as YAML: host, port, user, database, tls; nodes of a cluster; the ports of all that redis.url names. */}}
{{- define "editais-sync.redis" -}}
{{- $url := urlParse (regexReplaceAll ",[^/?]*" .Values.redis.url "") -}}
{{- $default := ternary "26379" "6379" (contains "?sentinel=" .Values.redis.url) -}}
{{- $port := regexFind ":[0-9]+$" $url.host -}}
host: {{ trimSuffix $port $url.host | quote }}
port: {{ trimPrefix ":" $port | default $default }}
user: {{ $url.userinfo | quote }}
database: {{ trimPrefix "/" $url.path | default "0" | quote }}
tls: {{ eq $url.scheme "rediss" }}
{{- $nodes := list }}
{{- $ports := list }}
{{- range splitList "," (regexReplaceAll "^rediss?://([^@/]*@)?|[/?].*$" .Values.redis.url "") }}
{{- $own := trimPrefix ":" (regexFind ":[0-9]+$" .) | default $default }}
{{- $nodes = append $nodes (printf "%s:%s" (regexReplaceAll ":[0-9]+$" . "") $own) }}
{{- $ports = append $ports $own }}
{{- end }}
{{- if contains "?sentinel=" .Values.redis.url }}
{{- $ports = append $ports "6379" }}
{{- end }}
{{- $isCluster := hasSuffix "?cluster" .Values.redis.url }}
nodes: {{ ternary (join "," $nodes) "" $isCluster | quote }}
ports: {{ uniq $ports | toJson }}
keys: {{ ternary (printf "{%s}" .Values.redis.prefix) .Values.redis.prefix $isCluster | quote }}
{{- end -}}

{{/* "true" if there is a companies' file. */}}
{{- define "editais-sync.hasCompanies" -}}
{{- with .Values.companies -}}
{{- if or .file .existingConfigMap .existingSecret -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the schema of the values cannot say in a sentence. */}}
{{- define "editais-sync.check" -}}
{{- $ways := 0 -}}
{{- range list .Values.companies.file .Values.companies.existingConfigMap .Values.companies.existingSecret -}}
{{- if . -}}{{- $ways = add1 $ways -}}{{- end -}}
{{- end -}}
{{- if gt $ways 1 -}}
{{- fail "companies: set only one of file, existingConfigMap and existingSecret." -}}
{{- end -}}
{{- if and (eq $ways 0) (not .Values.settings.API_BASE_URL) -}}
{{- fail "No company is configured: set companies.file, companies.existingConfigMap or companies.existingSecret. For a single company, set settings.API_BASE_URL and secret.files.API_KEY_FILE." -}}
{{- end -}}
{{- if and (eq $ways 0) (not .Values.secret.files.API_KEY_FILE) -}}
{{- fail "secret.files.API_KEY_FILE is not set: name the key of the Secret that holds the company's API key." -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (contains "?sentinel=" .Values.redis.url) -}}
{{- fail "autoscaling: KEDA does not ask the sentinels in redis.url. Turn it off, or name Redis itself." -}}
{{- end -}}
{{- if and .Values.secret.files (not .Values.secret.name) -}}
{{- fail "secret.files names keys of a Secret, but secret.name is not set." -}}
{{- end -}}
{{- if and .Values.companies.file (not .Values.secret.name) -}}
{{- fail "companies.file names the files of API keys, but there is no Secret with them: set secret.name." -}}
{{- end -}}
{{- end -}}
