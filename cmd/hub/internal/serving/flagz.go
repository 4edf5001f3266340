// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const hidden = "[hidden]"

func (o PagesOptions) writeFlags(w io.Writer) {
	flags := o.Flags()
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		_, _ = fmt.Fprintf(w, "%s=%s\n", name, shown(name, flags[name]))
	}
}

// shown is on one line, without secrets.
func shown(name, value string) string {
	if holdsSecret(name) && value != "" {
		return hidden
	}
	value = userInURL().ReplaceAllString(value, "://"+hidden+"@")
	value = queryInURL().ReplaceAllString(value, "${1}?"+hidden)
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(value)
}

// userInURL and queryInURL match what may be secret. A password and a query may hold a comma, so the rest of a list is
// hidden with it.
func userInURL() *regexp.Regexp  { return regexp.MustCompile(`://[^\s/]*@`) }
func queryInURL() *regexp.Regexp { return regexp.MustCompile(`(://[^\s?]*)\?\S*`) }

// holdsSecret goes by the name. One whose last word denotes a place, such as a file, names the secret's place.
func holdsSecret(name string) bool {
	name = strings.ToLower(name)
	for _, place := range []string{"-file", "-dir", "-path", "-name", "-namespace", "-ref"} {
		if strings.HasSuffix(name, place) {
			return false
		}
	}
	return slices.ContainsFunc([]string{"token", "password", "passwd", "secret", "private", "credential"}, func(word string) bool {
		return strings.Contains(name, word)
	}) || strings.HasSuffix(name, "-key") || name == "key"
}
