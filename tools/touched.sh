#!/usr/bin/env bash
# Tests, without -short, the packages that depend on what has changed since a commit, until a budget is used up:
#
#   touched.sh SECONDS [COMMIT]
#
# It prints what did not run. SERVERS, SUM and FLAKES come from the Makefile.
set -euo pipefail
budget=$1
base=${2:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)}
if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
  base=$(git rev-list -1 --before='12 hours ago' HEAD)
fi
changed=$(git diff --name-only "${base:-$(git rev-list --max-parents=0 HEAD | tail -1)}" -- '*.go' go.mod)
if [ -z "$changed" ]; then
  echo "no Go file has changed since $base"
  exit 0
fi

# Packages with a changed file come first, then those whose tests depend on one of them.
own=$(echo "$changed" | xargs -r -n1 dirname | sort -u | while read -r folder; do go list "./$folder" 2>/dev/null || true; done)
dependent=$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk -v own="$own" '
  BEGIN { n = split(own, list, "\n"); for (i = 1; i <= n; i++) isOwn[list[i]] = 1 }
  $1 ~ /\.test$/ { name = $1; sub(/\.test$/, "", name)
    for (i = 2; i <= NF; i++) if (isOwn[$i]) { rank = isOwn[name] ? 0 : 1; print rank, name; next } }' | sort | cut -d" " -f2)

for package in $dependent; do
  left=$((budget - SECONDS))
  if [ "$left" -lt 10 ]; then
    echo "NOT RUN $package: the budget of $budget s is used up"
    continue
  fi
  status=0
  # shellcheck disable=SC2086 # SERVERS and SUM are commands with arguments
  timeout --signal INT --kill-after 60 "$left" $SERVERS $SUM --packages="$package" -- -vet=off -timeout 1h || status=$?
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "NOT RUN $package to its end: the budget of $budget s is used up"
  elif [ "$status" -ne 0 ]; then
    exit "$status"
  fi
  if [ -e "$FLAKES" ]; then sed 's/^/FLAKE /' "$FLAKES"; rm -f "$FLAKES"; fi
done
