package render

import (
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// pure are the functions of sprig that depend on their arguments alone. It is a
// list of what is allowed, so that a newer sprig adds nothing by itself.
// Deliberately absent: everything about clocks, time zones, environment, DNS,
// randomness and keys, and the functions that hide an error in their result,
// which are replaced below under the same name.
var pure = strings.Fields(`
	abbrev abbrevboth add add1 add1f addf adler32sum all any append b32enc b64enc base biggest camelcase cat
	ceil chunk clean coalesce compact concat contains deepCopy deepEqual default dict dig dir div divf empty ext
	fail first float64 floor get has hasKey hasPrefix hasSuffix initial initials int int64 isAbs join kebabcase
	kindIs kindOf last list lower max maxf merge mergeOverwrite min minf mod mul mulf mustAppend mustChunk
	mustCompact mustDeepCopy mustFirst mustHas mustInitial mustLast mustMerge mustMergeOverwrite
	mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll
	mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToJson mustToPrettyJson
	mustToRawJson mustUniq mustWithout nospace omit pick pluck plural prepend push quote regexFind regexFindAll
	regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit replace rest reverse round
	semver semverCompare set sha1sum sha256sum sha512sum slice snakecase sortAlpha split splitList splitn squote
	sub subf substr swapcase ternary title toDecimal toString toStrings trim trimAll trimPrefix trimSuffix
	trimall trunc tuple typeIs typeIsLike typeOf uniq unset untitle upper urlJoin urlParse without wrap wrapWith
`)

const (
	// maxListLen bounds lists that are made from a number.
	maxListLen = 1 << 20
	// maxTextLen bounds texts that are made from a number.
	maxTextLen = 16 << 20
)

// fixedFunctions are those that need nothing of the render at hand.
func fixedFunctions() template.FuncMap {
	all := sprig.TxtFuncMap()
	out := make(template.FuncMap, len(pure)+16)
	for _, name := range pure {
		out[name] = all[name]
	}
	maps.Copy(out, template.FuncMap{
		"atoi":         strconv.Atoi,
		"b32dec":       decode(base32.StdEncoding.DecodeString),
		"b64dec":       decode(base64.StdEncoding.DecodeString),
		"fromJson":     fromJSON,
		"fromYaml":     fromYAML,
		"indent":       indent,
		"isKeyPair":    isKeyPair,
		"keys":         keys,
		"mustFromJson": fromJSON,
		"nindent":      func(n int, text string) (string, error) { out, err := indent(n, text); return "\n" + out, err },
		"printf":       printf,
		"repeat":       repeat,
		"required":     required,
		"toJson":       all["mustToJson"],
		"toPrettyJson": all["mustToPrettyJson"],
		"toRawJson":    all["mustToRawJson"],
		"toYaml":       toYAML,
		"until":        func(n int) ([]int, error) { return untilStep(0, n, 1) },
		"untilStep":    untilStep,
		"values":       values,
	})
	return out
}

// decode refuses what is not encoded, where sprig would return the error's text
// as if it were the content. The content is never part of the error.
func decode(by func(string) ([]byte, error)) func(string) (string, error) {
	return func(text string) (string, error) {
		raw, err := by(text)
		return string(raw), err
	}
}

// required stops the render when something must be there and is not.
func required(message string, value any) (any, error) {
	if text, isText := value.(string); value == nil || isText && text == "" {
		return nil, errors.New(message)
	}
	return value, nil
}

// keys and values walk in sorted order, where sprig's own follow Go's maps.
func keys(dicts ...map[string]any) []string {
	var out []string
	for _, d := range dicts {
		out = append(out, slices.Sorted(maps.Keys(d))...)
	}
	return out
}

func values(dict map[string]any) []any {
	out := make([]any, 0, len(dict))
	for _, key := range keys(dict) {
		out = append(out, dict[key])
	}
	return out
}

var pointerVerb = regexp.MustCompile(`%[-+# 0-9.*\[\]]*p`)

// printf refuses addresses, which differ from run to run.
func printf(format string, args ...any) (string, error) {
	if pointerVerb.MatchString(strings.ReplaceAll(format, "%%", "")) {
		return "", errors.New("the verb %p prints an address and is not allowed")
	}
	return fmt.Sprintf(format, args...), nil
}

func repeat(count int, text string) (string, error) {
	if count < 0 || len(text) > 0 && count > maxTextLen/len(text) {
		return "", fmt.Errorf("repeating %d bytes %d times is out of bounds", len(text), count)
	}
	return strings.Repeat(text, count), nil
}

func indent(spaces int, text string) (string, error) {
	if spaces < 0 || spaces > 1<<10 {
		return "", fmt.Errorf("an indent of %d is out of bounds", spaces)
	}
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad), nil
}

func untilStep(start, stop, step int) ([]int, error) {
	out := []int{}
	if step == 0 || step > 0 && start >= stop || step < 0 && start <= stop {
		return out, nil
	}
	if count := (stop - start) / step; count > maxListLen {
		return nil, fmt.Errorf("a list of %d numbers exceeds the limit of %d", count, maxListLen)
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, i)
	}
	return out, nil
}

func toYAML(value any) (string, error) {
	raw, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(raw), "\n"), err
}

func fromYAML(text string) (any, error) {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return fromJSON(string(raw))
}

// fromJSON keeps whole numbers whole, as the API's own decoder does.
func fromJSON(text string) (any, error) {
	var out any
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		return nil, err
	}
	return out, nil
}
