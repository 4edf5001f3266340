#!/usr/bin/env bash
# Tests, without -short, the packages that depend on what has changed since a commit, until a budget is used up:
#
#   touched.sh SECONDS [COMMIT]
#
# Without a commit it takes the upstream branch, or else the newest commit that is older than 12 hours. It prints what did not
# run. SERVERS and SUM come from the Makefile.
set -euo pipefail
budget=$1
base=${2:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)}
if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
  base=$(git rev-list -1 --before='12 hours ago' HEAD)
fi
changed=$(git diff --name-only "${base:-$(git rev-list --max-parents=0 HEAD | tail -1)}"; git ls-files --others --exclude-standard)

# folder prints the package that a file belongs to: that of the nearest folder with Go code.
folder() {
  local at
  at=$(dirname "$1")
  while [ "$at" != . ] && ! ls "$at"/*.go >/dev/null 2>&1; do at=$(dirname "$at"); done
  [ "$at" = . ] || go list "./$at" 2>/dev/null || true
}
if grep -qx 'go\.mod' <<<"$changed"; then
  own=$(go list ./...)
else
  own=$(while read -r file; do [ -z "$file" ] || dirname "$file"; done <<<"$changed" | sort -u | while read -r at; do folder "$at/x"; done | sort -u)
fi
if [ -z "$own" ]; then
  echo "no package has changed since $base"
  exit 0
fi

# Packages with a change come first, then those whose tests depend on one of them.
touched=$(go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk -v own="$own" '
  BEGIN { n = split(own, list, "\n"); for (i = 1; i <= n; i++) isOwn[list[i]] = 1 }
  $1 ~ /\.test$/ { name = $1; sub(/\.test$/, "", name)
    if (isOwn[name]) { print 0, name; next }
    for (i = 2; i <= NF; i++) if (isOwn[$i]) { print 1, name; next } }' | sort | cut -d" " -f2)

for package in $touched; do
  left=$((budget - SECONDS))
  if [ "$left" -lt 240 ]; then # Less than the slow tests of one package take.
    echo "NOT RUN $package: of the budget of $budget s, $left s are left"
    continue
  fi
  status=0
  LIMIT=$left tools/tested.sh "$package" -timeout 1h || status=$?
  if [ "$status" -eq 124 ]; then
    echo "NOT RUN $package to its end: the budget of $budget s is used up"
  elif [ "$status" -ne 0 ]; then
    exit "$status"
  fi
done
