// SPDX-License-Identifier: Apache-2.0

/*
Package yamlfile reads YAML files and tells the line of each problem in them.

# Usage

	file, err := yamlfile.Parse("hub.yaml", text)                   // hub.yaml:3: this is not YAML: did not find expected key
	err = file.Check(configuration{})                               // hub.yaml:4: flgs: there is no such field; use flags, modules
	err = file.At("modules[0].config.interval", errors.New("..."))  // hub.yaml:9: ...

# Considerations

Decoders of JSON, and of YAML by way of JSON, know neither files nor lines. So the structure is checked in the tree of YAML,
before a decoder sees it, and whoever looks at values names their fields.
*/
package yamlfile
