package render

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-project/holdfast/pkg/checkpoint"
)

// Environment are the names that a configuration may read. The manifests set
// them in the proxy container and the gate sets them for its check; anything
// else would make the check judge another configuration than the pods run.
var Environment = []string{"POD_IP", "POD_NAME", "POD_NAMESPACE", "POD_UID"}

// builtIn are set by HAProxy itself, to the same text everywhere.
var builtIn = []string{
	"HAPROXY_HTTP_CLF_LOG_FMT", "HAPROXY_HTTP_LOG_FMT", "HAPROXY_HTTPS_LOG_FMT", "HAPROXY_TCP_CLF_LOG_FMT",
	"HAPROXY_TCP_LOG_FMT",
}

// agentFolder is where the agent keeps sets and sockets. Its inside is not for
// configurations: the folder of a set changes with every output.
const agentFolder = "/var/lib/holdfast"

var (
	absolutePath = regexp.MustCompile(`(?:^|[\s"'(,=])(/[^\s"'(),]+)`)
	readsEnv     = regexp.MustCompile(`\b(?:env|defined)\(\s*["']?([A-Za-z0-9_]+)`)
)

// checkConfiguration refuses what HAProxy's own check cannot judge: what would
// hold here and not on a pod, or not be the same after it was stored.
func (r *Renderer) checkConfiguration(text []byte) *Error {
	if err := checkText(configTemplate, text); err != nil {
		return err
	}
	section, defaultPath := "", false
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if slices.Contains(sectionKeywords, words[0]) {
			section = words[0]
		}
		if section == "global" && words[0] == "default-path" {
			if len(words) != 2 || words[1] != "config" {
				return refused(number, strings.TrimSpace(line), "must be: default-path config")
			}
			defaultPath = true
		}
		if err := r.checkLine(number, words[0], line); err != nil {
			return err
		}
	}
	if !defaultPath {
		return refused(0, "", "the global section lacks: default-path config. Without it, relative paths are not those of the output")
	}
	return nil
}

func (r *Renderer) checkLine(number int, directive, line string) *Error {
	if slices.Contains([]string{"setenv", "presetenv", "resetenv", "unsetenv"}, directive) {
		return refused(number, directive, "the environment is the pod's, a configuration must not change it")
	}
	if !strings.ContainsAny(line, "/$(") {
		return nil // as of most: neither a path nor a name of the environment
	}
	code, names := scanLine(line)
	for _, found := range readsEnv.FindAllStringSubmatch(code, -1) {
		names = append(names, found[1])
	}
	for _, name := range names {
		if !slices.Contains(Environment, name) && !slices.Contains(builtIn, name) {
			return refused(number, name, "environment name %s is not one of %s", name, strings.Join(Environment, ", "))
		}
	}
	for _, found := range absolutePath.FindAllStringSubmatch(code, -1) {
		if r.isManaged(found[1]) {
			return refused(number, found[1], "a managed file must be named by mapPath, filePath or certPath, not by an absolute path")
		}
	}
	return nil
}

// isManaged reports a path that leads into a set: below the agent's folder, or
// ending like a declared file.
func (r *Renderer) isManaged(path string) bool {
	if path == agentFolder || strings.HasPrefix(path, agentFolder+"/") {
		return true
	}
	for declared := range r.declared {
		if strings.HasSuffix(path, "/"+declared) {
			return true
		}
	}
	return false
}

// scanLine cuts the comment off a line and finds the environment names in it.
// HAProxy expands them inside double quotes only.
func scanLine(line string) (code string, names []string) {
	weak, strong := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case strong:
			strong = c != '\''
		case c == '\\':
			i++
		case c == '"':
			weak = !weak
		case weak && c == '$':
			rest := strings.TrimPrefix(line[i+1:], "{")
			end := strings.IndexFunc(rest, func(r rune) bool {
				return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
			})
			if end < 0 {
				end = len(rest)
			}
			names = append(names, rest[:end])
		case c == '\'' && !weak:
			strong = true
		case c == '#' && !weak:
			return line[:i], names
		}
	}
	return line, names
}

// checkFile refuses content that would not come back from the store as it is.
func checkFile(file fileTemplate, content []byte) error {
	if file.family == checkpoint.Certificate {
		// Stored as bytes, and judged by HAProxy. Nothing may be quoted of it.
		return nil
	}
	if !utf8.Valid(content) {
		return &Error{Reason: ReasonRenderFailed, Template: file.path, Err: fmt.Errorf("the file is not valid UTF-8 and could not be stored")}
	}
	if file.family == checkpoint.Map {
		if err := checkText(file.path, content); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses control characters, and the words that Go prints for a
// value that is not there.
func checkText(name string, text []byte) *Error {
	if !utf8.Valid(text) {
		return &Error{Reason: ReasonRenderFailed, Template: name, Err: fmt.Errorf("the output is not valid UTF-8")}
	}
	number := 0
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		number++
		problem := ""
		switch {
		case bytes.ContainsFunc(bytes.TrimSuffix(line, []byte("\r")), isControl):
			problem = "the line holds a control character"
		case bytes.Contains(line, []byte("<no value>")):
			problem = "a value is null"
		default:
			continue
		}
		return &Error{Reason: ReasonRenderFailed, Template: name, Output: true, Line: number, Err: fmt.Errorf("%s", problem)}
	}
	return nil
}

func refused(line int, value, format string, args ...any) *Error {
	return &Error{
		Reason: ReasonRenderFailed, Template: configTemplate, Output: line > 0, Line: line, Value: value,
		Err: fmt.Errorf(format, args...),
	}
}
