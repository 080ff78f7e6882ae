package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// colourChoices are those of git and ls.
var colourChoices = []string{"auto", "always", "never"}

// colour is whether output is coloured.
type colour struct {
	choice string
}

func (c *colour) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.choice, "color", "auto", "Colours: auto (on a terminal, unless NO_COLOR is set), always or never.")
	complete := cobra.FixedCompletions(colourChoices, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("color", complete); err != nil {
		panic(fmt.Sprintf("a flag that was just added is not there: %v", err))
	}
}

func (c *colour) check() error {
	if !slices.Contains(colourChoices, c.choice) {
		return fmt.Errorf("--color=%s is none of %s", c.choice, strings.Join(colourChoices, ", "))
	}
	return nil
}

// apply follows no-color.org: any value of NO_COLOR that is not empty turns colours
// off, but a flag is more explicit. What goes elsewhere than to a terminal stays a
// patch, byte by byte.
func (c *colour) apply(diff string, out io.Writer) string {
	file, ok := out.(*os.File)
	onTerminal := ok && term.IsTerminal(int(file.Fd()))
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	switch {
	case c.choice == "always" || c.choice == "auto" && onTerminal && !plain:
		return marked(diff, map[string]string{"@@": "\x1b[36m", "-": "\x1b[31m", "+": "\x1b[32m"})
	case onTerminal:
		return marked(diff, nil)
	}
	return diff
}

// marked marks lines by how they begin, and keeps what was stored from giving the
// terminal orders.
func marked(diff string, colours map[string]string) string {
	var out strings.Builder
	for line := range strings.Lines(diff) {
		text := strings.Map(harmless, strings.TrimSuffix(line, "\n"))
		start, end := "", ""
		for prefix, colour := range colours {
			if strings.HasPrefix(line, prefix) {
				start, end = colour, "\x1b[0m"
			}
		}
		out.WriteString(start + text + end + "\n")
	}
	return out.String()
}

func harmless(r rune) rune {
	if r != '\t' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0) {
		return '?'
	}
	return r
}
