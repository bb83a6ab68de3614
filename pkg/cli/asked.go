package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// More formats.
const (
	// formatYAML and formatName are as of kubectl.
	formatYAML = "yaml"
	formatName = "name"
)

// askTimeout is how long an answer of the API inspect.atoll.dev may take.
const askTimeout = 30 * time.Second

// asked are the flags of commands that ask the API inspect.atoll.dev.
type asked struct {
	kubeconfig, output string
	timeout            time.Duration
	// drawn are formats that a command has beside those of all.
	drawn []string
}

// formats are those that the command has.
func (a *asked) formats() []string {
	return append([]string{formatTable, formatWide, formatJSON, formatYAML, formatName}, a.drawn...)
}

func (a *asked) flags(cmd *cobra.Command) {
	f, formats := cmd.Flags(), a.formats()
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&a.output, "output", "o", formatTable, strings.Join(formats[:len(formats)-1], ", ")+" or "+formats[len(formats)-1])
	f.DurationVar(&a.timeout, "timeout", askTimeout, "how long it may take")
}

// remote checks the flags, and says whom to ask.
func (a *asked) remote() (*client.Remote, error) {
	if formats := a.formats(); !slices.Contains(formats, a.output) {
		return nil, fmt.Errorf("--output: %q is none of %s", a.output, strings.Join(formats, ", "))
	}
	return client.NewRemote(a.kubeconfig)
}

// answered is what is printed: a value for programs, its names, and a table for people.
type answered struct {
	value any
	names []string
	table func(text *strings.Builder, wide bool)
	// drawn are texts in the command's own formats.
	drawn map[string]func() string
	// note says what is to be known beside it.
	note string
}

// print writes an answer in the format that was asked for, the note to problems.
func (a *asked) print(out, problems io.Writer, what string, answer answered) error {
	if answer.note != "" {
		if _, err := fmt.Fprintln(problems, "atoll:", answer.note); err != nil {
			return fmt.Errorf("write %s: %w", what, err)
		}
	}
	switch a.output {
	case formatJSON:
		return printJSON(out, what, answer.value)
	case formatYAML:
		return printYAML(out, what, answer.value)
	case formatName:
		return printTable(out, what, func(text *strings.Builder) {
			for _, name := range answer.names {
				fmt.Fprintln(text, snapshot.Printable(name))
			}
		})
	}
	if draw := answer.drawn[a.output]; draw != nil {
		return printTable(out, what, func(text *strings.Builder) { text.WriteString(draw()) })
	}
	return printTable(out, what, func(text *strings.Builder) { answer.table(text, a.output == formatWide) })
}

// show prints an answer. Its error is ErrPartial where the note says what is missing of it.
func (a *asked) show(out, problems io.Writer, what string, answer answered) error {
	if err := a.print(out, problems, what, answer); err != nil {
		return err
	}
	if answer.note != "" {
		return ErrPartial
	}
	return nil
}

// printYAML writes a value for programs; what names it in the error.
func printYAML(out io.Writer, what string, value any) error {
	text, err := yaml.Marshal(value)
	if err == nil {
		_, err = out.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// columns writes lines of cells below one another.
func columns(text *strings.Builder, lines ...[]string) {
	table := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	for _, line := range lines {
		for i, c := range line {
			line[i] = cell(c)
		}
		fmt.Fprintln(table, strings.Join(line, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
}

// whyNot says what command could not do; that somebody has stopped it, or it took too long, in words.
func whyNot(command string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: it took too long (--timeout): %w", command, err)
	}
	return fmt.Errorf("%s: %w", command, err)
}
