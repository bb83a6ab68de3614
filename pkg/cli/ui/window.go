package ui

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
)

const (
	// span is how long a window is, and oldest how many minutes ago the first one of the hour that is kept ends.
	span   = 5 * time.Minute
	oldest = 55
	// skew is how far the clocks of nodes may be from this machine's.
	skew = time.Minute
)

// window is a part of the last hour, in whole minutes.
type window struct {
	Begins, Ends time.Time
	// Live: it ends now. Then it has four whole minutes, and what there is of the fifth.
	Live bool
	// Ago is how many minutes ago it ended.
	Ago int
}

// windowAt reads which window is asked for: one that ends at a time (RFC 3339), or a number of minutes from now, which is 0 or
// less; else that which ends now. What is not kept any more is the oldest that is.
func windowAt(q url.Values, now time.Time) (window, error) {
	this := now.Truncate(time.Minute)
	end, live := this, true
	if text := q.Get("at"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return window{}, questionError{errors.New("at: write a time, as 2026-05-04T10:05:00Z")}
		}
		end, live = at.Truncate(time.Minute), at.After(this)
	} else if text := q.Get("minutes"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n > 0 {
			return window{}, questionError{fmt.Errorf("minutes: write a number from -%d to 0", oldest)}
		}
		end, live = this.Add(time.Duration(max(n, -oldest))*time.Minute), n == 0
	}
	if live {
		return window{Begins: this.Add(time.Minute - span), Ends: now, Live: true}, nil
	}
	if first := this.Add(-oldest * time.Minute); end.Before(first) {
		end = first
	}
	return window{Begins: end.Add(-span), Ends: end, Ago: int(this.Sub(end) / time.Minute)}, nil
}

// has reports whether flows of a minute belong to it.
func (w window) has(minute time.Time) bool {
	return !minute.Before(w.Begins) && (w.Live || minute.Before(w.Ends))
}

// question asks for the flows of a window, and some around it.
func (w window) question(now time.Time) flows.Question {
	q := flows.Question{FlowQuestion: model.FlowQuestion{Since: now.Sub(w.Begins) + skew}}
	if until := now.Sub(w.Ends) - skew; !w.Live && until > 0 {
		q.Until = until
	}
	return q
}

// words say when it is.
func (w window) words(zone *time.Location) string {
	begins := w.Begins.In(zone).Format("15:04")
	if w.Live {
		return begins + " to now"
	}
	ago := ""
	if w.Ago > 0 {
		ago = ", " + model.Count(w.Ago, "minute") + " ago"
	}
	return begins + " to " + w.Ends.In(zone).Format("15:04") + ago
}

// at is the window in an address; empty: that which ends now.
func (w window) at() string {
	if w.Live {
		return ""
	}
	return w.Ends.UTC().Format(time.RFC3339)
}

// flowsURL is the page of the flows of a window, of all Networks or of one.
func flowsURL(at, network string) string {
	q := url.Values{}
	if at != "" {
		q.Set("at", at)
	}
	if network != "" {
		q.Set("network", network)
	}
	if len(q) == 0 {
		return "/flows"
	}
	return "/flows?" + q.Encode()
}

// rate is how often something was in a window: by the second where it is once a second or more, else by the minute.
func (w window) rate(n uint64) string {
	length := max(w.Ends.Sub(w.Begins), time.Second)
	if bySecond := float64(n) / length.Seconds(); bySecond >= 1 {
		return number(bySecond) + "/s"
	}
	return number(float64(n)/length.Minutes()) + "/min"
}

// number has one place behind the point where it is small.
func number(n float64) string {
	const small = 10
	if n < small {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}
