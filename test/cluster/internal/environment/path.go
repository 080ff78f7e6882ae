package environment

import (
	"os"
	"path/filepath"
	"strings"
)

// LookPath finds a program in the folders of the PATH among variables of the
// form NAME=value, as a process that has those variables would.
func LookPath(name string, variables []string) (string, bool) {
	for _, entry := range variables {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			candidate := filepath.Join(folder, name)
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return candidate, true
			}
		}
	}
	return "", false
}
