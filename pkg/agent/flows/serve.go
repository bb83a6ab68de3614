package flows

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ServeHTTP answers questions about flows with one JSON object per line. ?network= and ?namespace= may be repeated; ?pod=,
// ?since=, ?drops=true and ?follow=true are as in model.FlowQuestion.
func (f *Flows) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := questionOf(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	begun := false
	begin := func() {
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
	}
	flush := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	err = f.Ask(r.Context(), q, func(flow model.Flow) error {
		begin()
		if err := encoder.Encode(flow); err != nil {
			return err
		}
		if q.Follow {
			return flush.Flush()
		}
		return nil
	})
	switch {
	case err == nil:
		begin()
	case r.Context().Err() != nil:
	case begun:
		// It is too late for a status: whoever reads sees that it is cut off.
		panic(http.ErrAbortHandler)
	case errors.Is(err, ErrOff):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func questionOf(query url.Values) (model.FlowQuestion, error) {
	q := model.FlowQuestion{Networks: query["network"], Namespaces: query["namespace"], Pod: query.Get("pod")}
	for name, to := range map[string]*bool{"drops": &q.Drops, "follow": &q.Follow} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return q, fmt.Errorf("read %s: %w", name, err)
			}
			*to = value
		}
	}
	if text := query.Get("since"); text != "" {
		since, err := time.ParseDuration(text)
		if err != nil || since <= 0 {
			return q, fmt.Errorf("read since: %q is no duration, for example 10m", text)
		}
		q.Since = since
	}
	return q, nil
}

// stats are what a monitoring system is told.
type stats struct {
	rows              int
	folded, cut, lost uint64
}

func (f *Flows) publish() {
	f.stats.Store(&stats{f.store.rows, f.store.folded, f.store.cut, f.store.lost})
}

// collector gives stats to a monitoring system.
type collector struct {
	flows                                                *Flows
	rows, records, malformed, unknown, folded, cut, lost *prometheus.Desc
}

// NewCollector gives a monitoring system what is kept, and what is not.
func NewCollector(f *Flows) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("atoll_agent_flow"+name, help, nil, nil)
	}
	return &collector{
		flows:     f,
		rows:      desc("s_kept", "Flows of the last hour that are kept: one for each minute, both addresses, protocol and port."),
		records:   desc("_records_total", "Records of flows that Open vSwitch has sent."),
		malformed: desc("_malformed_total", "Datagrams that are no records of flows."),
		unknown:   desc("_unread_total", "Sets of records that came before what they mean."),
		folded:    desc("_folded_total", "Records that were kept without their addresses, since their Network had too many in a minute."),
		cut:       desc("s_cut_total", "Flows that went before they were an hour old, since there were too many."),
		lost:      desc("_lost_total", "Records that were not kept at all."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.rows, c.records, c.malformed, c.unknown, c.folded, c.cut, c.lost} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.flows.stats.Load()
	if s == nil {
		s = &stats{}
	}
	to <- prometheus.MustNewConstMetric(c.rows, prometheus.GaugeValue, float64(s.rows))
	for _, m := range []struct {
		desc  *prometheus.Desc
		value uint64
	}{
		{c.records, c.flows.read.records.Load()},
		{c.malformed, c.flows.read.malformed.Load()},
		{c.unknown, c.flows.read.unknown.Load()},
		{c.folded, s.folded},
		{c.cut, s.cut},
		{c.lost, s.lost},
	} {
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value))
	}
}
