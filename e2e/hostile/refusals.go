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
		{Name: "401 everywhere", lies: []lie{{everything, unauthorized}}},
		{Name: "401 for objects", lies: []lie{{beyond, unauthorized}}},
		{Name: "403 everywhere", lies: []lie{{everything, forbidden}}},
		{Name: "403 for objects", lies: []lie{{beyond, forbidden}}},
		{Name: "500 everywhere", lies: []lie{{everything, broken}}},
		{Name: "500 for objects", lies: []lie{{beyond, broken}}},
		{Name: "429 everywhere", lies: []lie{{everything, busy}}},
		{Name: "429 for objects", lies: []lie{{beyond, busy}}},
		{Name: "503 everywhere", lies: []lie{{everything, away}}},
		{Name: "503 for objects", lies: []lie{{beyond, away}}},
		{
			Name: "500 without an end",
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
		Name: "redirect objects",
		lies: []lie{{beyond, away(http.StatusTemporaryRedirect)}},
	}}
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		all = append(all, Script{
			Name: "redirect " + number(code),
			lies: []lie{{everything, away(code)}},
		})
	}
	return all
}
