// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx/fxevent"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestNew_JSON(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, logging.Options{})
	log.WithName("registry").WithValues("cluster", "edge-1").
		Error(errors.New("it broke"), "Could not do it", "took", 1500*time.Millisecond)
	var line map[string]string
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if _, err := time.Parse(time.RFC3339Nano, line["ts"]); err != nil {
		t.Errorf("ts: %v", err)
	}
	delete(line, "ts")
	for key, want := range map[string]string{
		"level": "error", "logger": "registry", "msg": "Could not do it", "cluster": "edge-1",
		"error": "it broke", "took": "1.5s",
	} {
		testkit.Equal(t, line[key], want, key)
		delete(line, key)
	}
	if len(line) > 0 {
		t.Errorf("more keys than expected: %v", line)
	}
}

func TestNew_Console(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, logging.Options{Format: logging.Console})
	log.Info("Ready", "cluster", "edge-1")
	if got := out.String(); !strings.HasSuffix(got, "\tINFO\tReady\t{\"cluster\": \"edge-1\"}\n") {
		t.Errorf("got %q", got)
	}
}

func TestNew_Levels(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"": "info error ", "debug": "debug info error ", "info": "info error ", "error": "error "} {
		log, out := newLog(t, logging.Options{Format: logging.JSON, Level: level})
		log.V(1).Info("debug")
		log.Info("info")
		log.Error(nil, "error")
		got := ""
		for line := range strings.Lines(out.String()) {
			var one struct{ Msg string }
			must(t, json.Unmarshal([]byte(line), &one))
			got += one.Msg + " "
		}
		if got != want {
			t.Errorf("level %q logs %q, want %q", level, got, want)
		}
	}
}

func TestNew_EveryLineOfMany(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, logging.Options{})
	for range 1000 {
		log.Info("Ready")
	}
	if got := strings.Count(out.String(), "\n"); got != 1000 {
		t.Errorf("%d of 1000 lines are written", got)
	}
}

func TestNew_ObjectsByNameOnly(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, logging.Options{})
	log.Info("Read", "secret", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "edge-1"},
		Data:       map[string][]byte{"token": []byte("sesame")},
		StringData: map[string]string{"token": "sesame"},
	})
	if got := out.String(); strings.Contains(got, "sesame") || !strings.Contains(got, `"name":"edge-1"`) {
		t.Errorf("got %s", got)
	}
}

func TestFX_OnlyForDebugging(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]int{"info": 0, "debug": 1} {
		log, out := newLog(t, logging.Options{Level: level})
		logging.FX(log).LogEvent(&fxevent.Started{Err: errors.New("it broke")})
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("at level %s fx writes %d lines, want %d: %s", level, got, want, out.String())
		}
	}
}

func newLog(t *testing.T, o logging.Options) (logr.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	return logging.New(&out, o), &out
}
