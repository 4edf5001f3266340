#!/usr/bin/env bash
# Tests packages that share API servers, and runs a test that fails twice more, alone:
#
#   tested.sh PACKAGES FLAGS...
#
# It prints FLAKE for each test that has failed and passed then, and exits with 0. A package that fails outside of its tests, or
# whose program dies, fails: the tests that it had not started yet would never run. SERVERS and SUM are the commands of the
# Makefile. LIMIT bounds the time in seconds; the exit code is 124 if it ends a run without a failed test.
set -euo pipefail
packages=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
events=$dir/events
flakes=$dir/flakes
: >"$events"
status=0
# shellcheck disable=SC2086 # SERVERS and SUM are commands with arguments
timeout --foreground --signal INT --kill-after 120 "${LIMIT:-0}" $SERVERS $SUM --jsonfile "$events" \
  --rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report="$flakes" \
  --packages="$packages" -- -vet=off "$@" || status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
  if grep -q '"Action":"fail".*"Test":' "$events"; then exit 1; fi
  exit 124
fi
[ "$status" -eq 0 ] || exit "$status"
awk '
  { package = $0; sub(/.*"Package":"/, "", package); sub(/".*/, "", package) }
  /"Action":"fail"/ && !/"Test":/ { failed[package] = 1 }
  /"Output":" *--- FAIL/ { named[package] = 1 }
  /"Output":"(exit status ([02-9]|1[0-9])|signal: )/ && !/"Test":/ { died[package] = 1 }
  END {
    for (package in failed) if (!(package in named) || package in died) {
      print "FAIL " package ": it failed outside of its tests, or its program died"; bad = 1
    }
    exit bad
  }' "$events"
if [ -s "$flakes" ]; then sed 's/^/FLAKE /' "$flakes"; echo; fi
