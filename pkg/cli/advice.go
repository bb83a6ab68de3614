package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// usageError is that of words that a command does not understand.
type usageError struct {
	// command is its whole name.
	command string
	err     error
}

// Error says what was not understood, and where it stands what is.
func (e *usageError) Error() string {
	return fmt.Sprintf("%s. Next: %s --help", strings.TrimRight(e.err.Error(), "\n"), e.command)
}

// Unwrap implements errors.
func (e *usageError) Unwrap() error { return e.err }

// explained makes a command and its subcommands say what to do about words that they do not understand. A command that only has
// subcommands refuses other words: cobra would print its help and end with success.
func explained(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		explained(below)
	}
	if !cmd.HasParent() {
		cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd.CommandPath(), err} })
		return
	}
	if !cmd.Runnable() {
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return nil
		}
	}
}

// advice is an error's text, with what to do about it where nobody has said that yet.
func advice(root *cobra.Command, err error) string {
	text := err.Error()
	for _, said := range []string{"Next: ", "ClusterRole "} {
		if strings.Contains(text, said) {
			return text
		}
	}
	if next := question.Next(err); next != "" {
		return text + ". Next: " + next
	}
	// Cobra has no type for it.
	if strings.HasPrefix(text, "unknown command ") {
		return (&usageError{root.CommandPath(), err}).Error()
	}
	return text
}
