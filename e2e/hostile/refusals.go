// SPDX-License-Identifier: Apache-2.0

package hostile

import "net/http"

// refusals are servers that say no.
func refusals() []Script {
	const later = "3600"
	unauthorized := status(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	forbidden := status(http.StatusForbidden, "Forbidden", "no")
	broken := status(http.StatusInternalServerError, "InternalError", "etcd is on fire")
	busy := with(status(http.StatusTooManyRequests, "TooManyRequests", "later"), "Retry-After", later)
	away := with(status(http.StatusServiceUnavailable, "ServiceUnavailable", "later"), "Retry-After", later)
	return []Script{
		{Name: "401 everywhere", Does: "responds to everything with 401", lies: []lie{{everything, unauthorized}}},
		{Name: "401 for objects", Does: "responds to everything except probes and discovery with 401", lies: []lie{{beyond, unauthorized}}},
		{Name: "403 everywhere", Does: "responds to everything with 403", lies: []lie{{everything, forbidden}}},
		{Name: "403 for objects", Does: "responds to everything except probes and discovery with 403", lies: []lie{{beyond, forbidden}}},
		{Name: "500 everywhere", Does: "responds to everything with 500", lies: []lie{{everything, broken}}},
		{Name: "500 for objects", Does: "responds to everything except probes and discovery with 500", lies: []lie{{beyond, broken}}},
		{Name: "429 everywhere", Does: "responds to everything with 429 and Retry-After: 3600", lies: []lie{{everything, busy}}},
		{Name: "429 for objects", Does: "responds to everything except probes and discovery with 429 and Retry-After: 3600", lies: []lie{{beyond, busy}}},
		{Name: "503 everywhere", Does: "responds to everything with 503 and Retry-After: 3600", lies: []lie{{everything, away}}},
		{Name: "503 for objects", Does: "responds to everything except probes and discovery with 503 and Retry-After: 3600", lies: []lie{{beyond, away}}},
		{
			Name: "500 without an end", Does: "responds to lists and watches with 500 and a body without an end",
			lies: []lie{{configMaps, func(s *Server, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(http.StatusInternalServerError)
				s.flood(w, "", "panic! ")
			}}},
		},
	}
}

// redirects are servers that send clients elsewhere.
func redirects() []Script {
	away := func(code int) answer {
		return func(s *Server, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, s.elsewhere.url(r), code)
		}
	}
	all := []Script{{
		Name: "redirect objects", Does: "responds to everything except probes and discovery with a redirect (307) to another host",
		lies: []lie{{beyond, away(http.StatusTemporaryRedirect)}},
	}}
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		all = append(all, Script{
			Name: "redirect " + number(code), Does: "responds to everything with a redirect (" + number(code) + ") to another host",
			lies: []lie{{everything, away(code)}},
		})
	}
	return all
}
