// Package database keeps how much of the northbound database is known. What is not known is not claimed.
package database

import (
	"fmt"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Knowledge is what is known of the database as a whole.
type Knowledge struct {
	// Now is the moment of the pass.
	Now time.Time
	// Held: what the database holds has not been compared yet. Statuses wait until it has, since most are the same as before.
	Held bool
	// Away is since when the database has not answered; zero while it does, or has not for a moment only.
	Away time.Time
}

// Unreachable is a condition of which nobody knows while the database is away.
func (k Knowledge) Unreachable(kind string) model.Condition {
	return model.Condition{Type: kind, Unknown: true, Reason: model.ReasonDatabaseUnreachable, Message: k.NoAnswer()}
}

// NoAnswer says that the database is away.
func (k Knowledge) NoAnswer() string {
	return fmt.Sprintf(
		"OVN's northbound database has not answered the atoll-controller since %s: look whether its ovsdb-server runs. "+
			"Running pods keep their network",
		k.Away.UTC().Format(time.RFC3339))
}
